/* Input from users and from targets: a target's JSON, its host and path, an address, a range, Retry-After. An accepted
 * value fulfils the promises of its header; an error has a sentence. */
#include <stdlib.h>

#include "base/json/json.h"
#include "core/target/blocked_addresses.h"
#include "core/target/message_target.h"
#include "core/target/target_url.h"
#include "core/target/webhook.h"
#include "core/task/fingerprint.h"
#include "core/task/retry_after.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void try_target(struct str text)
{
    struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = { .target_config = text, .payload = S("{}") };
    struct webhook w;
    struct error e = { 0 };
    if (webhook_read(&t, &a, &w, &e)) {
        require(e.text[0]);
    } else {
        require(w.url.n > 0 && w.header_count <= WEBHOOK_HEADERS_MAX && w.timeout_ms >= 0);
        for (size_t i = 0; i < w.url.n; i++)
            require(w.url.p[i] > ' ' && w.url.p[i] <= '~');
        for (size_t i = 0; i < w.header_count; i++) {
            require(webhook_header_check(w.headers[i].name, w.headers[i].value, &e) == ERR_OK);
            require(strlen(w.headers[i].value.p) == w.headers[i].value.n);
        }
    }
    arena_release(&a);
}

static void try_message(struct str text)
{
    struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = { .target = TARGET_MESSAGE, .target_config = text, .payload = S("{}") };
    struct message_target l;
    struct error e = { 0 };
    if (message_target_read(&t, &a, &l, &e)) {
        require(e.text[0]);
    } else {
        struct str rest = { 0 }, host;
        size_t hosts = 0;
        while (l.kind != MESSAGE_TARGET_NAMED && message_target_next_host(l.broker, &rest, &host)) {
            require(host.n > 0 && host.n <= MESSAGE_TARGET_HOST_MAX && str_find(host, '@', 0) == host.n);
            hosts++;
        }
        require(hosts <= MESSAGE_TARGET_HOSTS_MAX && (hosts > 0) == (l.kind != MESSAGE_TARGET_NAMED));
        require(l.destination.n > 0 && str_find(l.broker, '?', 0) == l.broker.n);
    }
    arena_release(&a);
}

/* These two accept JSON only; their results never exceed their limits. */
static void try_place(struct str text)
{
    struct json_doc doc = { 0 };
    struct error e;
    struct arena a;
    char host[TARGET_HOST_MAX];
    if (json_parse(text, &doc, &e))
        return;
    arena_init(&a, 1 << 20);
    for (int target = TARGET_HTTP; target <= TARGET_NOOP; target++) {
        struct task t = { .target = (enum target_kind)target, .target_config = text, .queue = text };
        require(target_host(&t, host).n <= TARGET_HOST_MAX);
        struct str place = fingerprint_place(&t, &a);
        require(place.n <= PLACE_MAX);
        require(strlen(fingerprint_of(t.target, place, 500, text).text) == FINGERPRINT_TEXT);
    }
    arena_release(&a);
    json_doc_release(&doc);
}

static void try_address(struct str text)
{
    static const struct address_policy nothing;
    struct address address;
    struct address_range range;
    struct error e = { 0 };
    bool is_address = address_parse(text, &address);
    enum err rc = address_range_parse(text, &range, &e);
    require(!is_address || rc == ERR_OK);
    require(rc == ERR_OK || e.text[0]);
    if (rc == ERR_OK)
        require(address_in(&range, range.first));
    if (is_address)
        (void)address_blocked(&nothing, address, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = { (const char *)data, size };
    try_target(text);
    try_message(text);
    try_place(text);
    try_address(text);
    int64_t ms = retry_after_ms(text, 1767225600000);
    require(ms >= -1 && ms <= RETRY_AFTER_MAX_MS);
    return 0;
}

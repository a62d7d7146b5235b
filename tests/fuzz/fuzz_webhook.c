/* What comes from users and from targets on the way out and back: a target's JSON, an address, a range, Retry-After. What is
 * accepted keeps the promises of its header; what is refused has a sentence. */
#include <stdlib.h>

#include "core/address.h"
#include "core/webhook.h"

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
        (void)address_blocked(&nothing, address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = { (const char *)data, size };
    try_target(text);
    try_address(text);
    int64_t ms = retry_after_ms(text, 1767225600000);
    require(ms >= -1 && ms <= DAY_MS);
    return 0;
}

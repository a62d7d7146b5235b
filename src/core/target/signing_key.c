#include "core/target/signing_key.h"

#include "base/json/json.h"
#include "core/target/address.h"
#include "core/target/message_target.h"

const char *const signing_algorithm_names[SIGNING_ALGORITHMS + 1] = {
    [SIGNING_HMAC_SHA256] = "HMAC_SHA256", [SIGNING_ED25519] = "ED25519"
};

/* ---- the document ---- */

enum { SECRET_TEXT_MAX = 4096 }; /* encrypted */

struct signing_document {
    struct str id, name, host;
    struct json_array secrets;
};

/* clang-format off */
#define AT(member) .offset = offsetof(struct signing_secret, member)
static const struct json_field secret_fields[] = {
    { .name = "algorithm", .kind = JSON_KIND_ENUM, AT(algorithm), .names = signing_algorithm_names, .required = true },
    { .name = "secret", .kind = JSON_KIND_STR, AT(secret), .min = 1, .max = SECRET_TEXT_MAX, .required = true },
    { .name = "public_key", .kind = JSON_KIND_STR, AT(public_key) },
    { .name = "until", .kind = JSON_KIND_TIME, AT(until_ms) },
    { .name = "rotated", .kind = JSON_KIND_TIME, AT(rotated_ms) },
};
#undef AT
static const struct json_field secret_field = { .name = "secrets", .kind = JSON_KIND_OBJECT, .fields = secret_fields, .count = array_count(secret_fields) };
#define AT(member) .offset = offsetof(struct signing_document, member)
static const struct json_field document_fields[] = {
    { .name = "id", .kind = JSON_KIND_STR, AT(id), .required = true },
    { .name = "name", .kind = JSON_KIND_STR, AT(name) },
    { .name = "host", .kind = JSON_KIND_STR, AT(host), .max = SIGNING_HOST_MAX },
    { .name = "secrets", .kind = JSON_KIND_ARRAY, AT(secrets), .min = 1, .max = SIGNING_SECRETS_MAX, .fields = &secret_field, .count = 1, .size = sizeof(struct signing_secret), .required = true },
};
#undef AT
/* clang-format on */

enum err signing_key_read(struct str doc, struct arena *a, struct signing_key *ret, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc json = { 0 };
    struct signing_document d = { 0 };
    struct signing_key k = { 0 };
    if (json_parse(doc, &json, e) || json_read(json.root, document_fields, array_count(document_fields), &d, a, e) ||
        !uuid_parse(d.id, &k.id))
        return error_set(e, ERR_CORRUPT, "a signing key cannot be read");
    k.name = d.name;
    k.host = d.host;
    k.count = d.secrets.n;
    memcpy(k.secrets, d.secrets.v, k.count * sizeof *k.secrets);
    *ret = k;
    return ERR_OK;
}

static void signing_secret_write(struct jw *w, const struct signing_secret *s)
{
    jw_object(w);
    jw_kv_cstr(w, "algorithm", signing_algorithm_names[s->algorithm]);
    jw_kv_str(w, "secret", s->secret);
    if (s->public_key.n)
        jw_kv_str(w, "public_key", s->public_key);
    if (s->until_ms)
        jw_kv_time(w, "until", s->until_ms);
    if (s->rotated_ms)
        jw_kv_time(w, "rotated", s->rotated_ms);
    jw_object_end(w);
}

void signing_key_write(struct jw *w, const struct signing_key *k)
{
    jw_object(w);
    jw_kv_uuid(w, "id", k->id);
    jw_kv_str(w, "name", k->name);
    jw_kv_str(w, "host", k->host);
    jw_key(w, "secrets");
    jw_array(w);
    for (size_t i = 0; i < k->count; i++)
        signing_secret_write(w, &k->secrets[i]);
    jw_array_end(w);
    jw_object_end(w);
}

bool signing_key_copy(const struct signing_key *k, struct arena *a, struct signing_key *ret)
{
    struct signing_key copy = *k;
    bool fits = arena_str(a, k->name, &copy.name) && arena_str(a, k->host, &copy.host);
    for (size_t i = 0; i < k->count; i++)
        fits = fits && arena_str(a, k->secrets[i].secret, &copy.secrets[i].secret) &&
               arena_str(a, k->secrets[i].public_key, &copy.secrets[i].public_key);
    if (fits)
        *ret = copy;
    return fits;
}

void signing_key_drop_ended(struct signing_key *k, int64_t now_ms)
{
    size_t n = 0;
    for (size_t i = 0; i < k->count; i++)
        if (!k->secrets[i].until_ms || now_ms < k->secrets[i].until_ms)
            k->secrets[n++] = k->secrets[i];
    k->count = n;
}

/* ---- hosts ---- */

/* A name whose last part is a number would be an address. */
static bool signing_is_host_name(struct str s)
{
    size_t last = s.n;
    while (last > 0 && is_digit(s.p[last - 1]))
        last--;
    if (last == 0 || (last < s.n && s.p[last - 1] == '.'))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        bool dot = s.p[i] == '.', ends = i == 0 || i + 1 == s.n || s.p[i - 1] == '.';
        if (dot ? ends : !is_digit(s.p[i]) && !is_alpha(s.p[i]) && s.p[i] != '-' && s.p[i] != '_')
            return false;
    }
    return true;
}

enum err signing_host_check(struct str host, char out[SIGNING_HOST_MAX], struct str *ret, struct error *e)
{
    struct str name = host;
    struct address address;
    char text[ADDRESS_TEXT];
    bool wild = str_starts(host, S("*."));
    if (wild)
        name = str_sub(host, 2, host.n);
    bool is_address = address_parse(name, &address);
    if (host.n > SIGNING_HOST_MAX || (wild && is_address) || (!is_address && !signing_is_host_name(name)))
        return error_field(e, "host",
                           "must be a name such as api.example.com, *.example.com for all names below it, or an "
                           "address, without scheme and port");
    if (is_address) {
        address_format(address, text);
        host = str_from(text);
    }
    for (size_t i = 0; i < host.n; i++)
        out[i] = ascii_lower(host.p[i]);
    *ret = (struct str){ out, host.n };
    return ERR_OK;
}

static struct str signing_host_plain(struct str host, char out[TARGET_HOST_MAX])
{
    host.n = min_of(host.n, (size_t)TARGET_HOST_MAX);
    for (size_t i = 0; i < host.n; i++)
        out[i] = ascii_lower(host.p[i]);
    return (struct str){ out, host.n && out[host.n - 1] == '.' ? host.n - 1 : host.n };
}

struct str signing_host(const struct task *t, char out[TARGET_HOST_MAX])
{
    struct target_url url;
    struct str rest = { 0 }, host = { 0 };
    if (t->target == TARGET_HTTP && target_url_read(t, &url))
        return signing_host_plain(target_host_name(url.host), out);
    if (t->target != TARGET_MESSAGE)
        return S("");
    struct str broker = target_config_text(t->target_config, "broker", url.text);
    bool is_address = message_target_broker_of(broker) != MESSAGE_TARGET_NAMED;
    return is_address && message_target_next_host(broker, &rest, &host) ? signing_host_plain(host, out) : S("");
}

struct str signing_host_of_url(struct str url, char out[TARGET_HOST_MAX])
{
    struct target_url parts;
    return target_url_split(url, &parts) ? signing_host_plain(target_host_name(parts.host), out) : S("");
}

/* An IPv6 address can be written in several ways. */
static bool signing_is_same_address(struct str pattern, struct str host)
{
    struct address a, b;
    return str_find(pattern, ':', 0) < pattern.n && address_parse(pattern, &a) && address_parse(host, &b) &&
           a.is_v6 == b.is_v6 && memcmp(a.b, b.b, sizeof a.b) == 0;
}

bool signing_host_is_same(struct str a, struct str b)
{
    return str_eq(a, b) || signing_is_same_address(a, b);
}

size_t signing_host_fit(struct str pattern, struct str host)
{
    enum { ALL = 1, BELOW = 2, EXACT = SIGNING_HOST_MAX + BELOW + 1 };
    if (!pattern.n)
        return ALL;
    if (signing_host_is_same(pattern, host))
        return EXACT;
    struct str tail = str_sub(pattern, 1, pattern.n); /* ".example.com" */
    bool below = pattern.p[0] == '*' && host.n > tail.n && str_eq(str_sub(host, host.n - tail.n, host.n), tail);
    return below ? BELOW + tail.n : 0;
}

/* The config was checked as JSON when it came in, so a walk over its text is enough. Escapes are rare (some encoders
 * write "https:\/\/"); only a text with escapes is copied. */
#include "core/target/target_url.h"

#include "base/json/json.h"

/* Returns the character of \uXXXX at `at` if it is visible ASCII, else -1: no other character is valid in a URL. */
static int target_url_unicode_escape(struct str s, size_t at)
{
    int value = 0;
    for (size_t i = at; i < at + 4; i++) {
        int digit = i < s.n ? hex_value(s.p[i]) : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value > ' ' && value <= '~' ? value : -1;
}

/* Unescapes the inside of a JSON string, up to the first character that is not valid in a URL or does not fit. */
static struct str target_url_unescape(struct str s, char out[TARGET_URL_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < s.n && n < TARGET_URL_MAX; i++) {
        int c = (unsigned char)s.p[i];
        if (c == '\\' && i + 1 < s.n) {
            bool unit = s.p[++i] == 'u';
            c = unit ? target_url_unicode_escape(s, i + 1) : s.p[i];
            i += unit ? 4 : 0;
        }
        if (c < 0)
            break;
        out[n++] = (char)c;
    }
    return (struct str){ out, n };
}

struct str target_config_text(struct str config, const char *member, char out[TARGET_URL_MAX])
{
    struct json_cursor c = { .text = config };
    struct json_part part;
    while (json_next(&c, &part.key, &part.text)) {
        if (!json_part_is(&part, member))
            continue;
        if (part.text.n < 2 || part.text.p[0] != '"')
            return S("");
        struct str inside = str_sub(part.text, 1, part.text.n - 1);
        return str_find(inside, '\\', 0) == inside.n ? str_sub(inside, 0, min_of(inside.n, (size_t)TARGET_URL_MAX))
                                                     : target_url_unescape(inside, out);
    }
    return S("");
}

static size_t target_url_find_any(struct str s, size_t from, const char *marks)
{
    while (from < s.n && !strchr(marks, s.p[from]))
        from++;
    return from;
}

bool target_url_split(struct str url, struct target_url *ret)
{
    size_t colon = str_find(url, ':', 0);
    if (colon + 3 > url.n || !str_eq(str_sub(url, colon, colon + 3), S("://")))
        return false;
    size_t from = colon + 3, to = target_url_find_any(url, from, "/?#\\");
    for (size_t at = from; at < to; at++)
        if (url.p[at] == '@')
            from = at + 1;
    ret->scheme = str_sub(url, 0, colon);
    ret->host = str_sub(url, from, to);
    ret->path = str_sub(url, to, target_url_find_any(url, to, "?#"));
    return colon > 0 && to > from;
}

bool target_url_read(const struct task *t, struct target_url *ret)
{
    return t->target == TARGET_HTTP && target_url_split(target_config_text(t->target_config, "url", ret->text), ret);
}

struct str target_url_host(const struct target_url *u, char out[TARGET_HOST_MAX])
{
    struct str own_port = str_eq_nocase(u->scheme, S("https")) ? S(":443") : S(":80"), host = u->host;
    if (host.n > own_port.n && str_eq(str_sub(host, host.n - own_port.n, host.n), own_port))
        host.n -= own_port.n;
    host.n = min_of(host.n, (size_t)TARGET_HOST_MAX);
    for (size_t i = 0; i < host.n; i++)
        out[i] = ascii_lower(host.p[i]);
    return (struct str){ out, host.n };
}

struct str target_host_name(struct str host)
{
    if (host.n && host.p[0] == '[')
        return str_sub(host, 1, str_find(host, ']', 1));
    return str_sub(host, 0, str_find(host, ':', 0));
}

struct str target_host(const struct task *t, char out[TARGET_HOST_MAX])
{
    struct target_url u;
    return target_url_read(t, &u) ? target_url_host(&u, out) : S("");
}

struct host_key host_key_of(int32_t tenant, struct str host)
{
    struct host_key k = { .n = sizeof tenant + min_of(host.n, (size_t)TARGET_HOST_MAX) };
    memcpy(k.p, &tenant, sizeof tenant);
    if (host.n)
        memcpy(k.p + sizeof tenant, host.p, k.n - sizeof tenant);
    return k;
}

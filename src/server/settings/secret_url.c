#include "server/settings/secret_url.h"

#include <stdio.h>

#include "server/settings/options.h"

static void secret_url_mask(char *url, size_t from, size_t to)
{
    if (from < to)
        memset(url + from, '*', to - from);
}

/* Masks the password in user:password@ before the hosts. */
static void secret_url_mask_user(char *url, size_t from, size_t to)
{
    struct str s = { url, to };
    size_t at = to;
    while (at > from && url[at - 1] != '@')
        at--;
    size_t colon = str_find(s, ':', from);
    if (at > from && colon < at)
        secret_url_mask(url, colon + 1, at - 1);
}

static bool secret_url_is_password(struct str name)
{
    struct str end = S("password");
    return name.n >= end.n && str_eq(str_sub(name, name.n - end.n, name.n), end);
}

/* Masks ?password=…&sslpassword=…&sasl_password=… */
static void secret_url_mask_query(char *url, size_t from, size_t n)
{
    struct str s = { url, n };
    while (from < n) {
        size_t end = str_find(s, '&', from), equals = str_find(s, '=', from);
        struct str name = str_sub(s, from, min_of(equals, end));
        if (equals < end && secret_url_is_password(name))
            secret_url_mask(url, equals + 1, end);
        from = end + 1;
    }
}

static void secret_url_mask_password(char *url, size_t n)
{
    struct str s = { url, n };
    size_t slashes = str_find(s, '/', 0), query = str_find(s, '?', 0);
    if (slashes + 2 > n)
        return;
    size_t path = min_of(str_find(s, '/', slashes + 2), query);
    secret_url_mask_user(url, slashes + 2, path);
    secret_url_mask_query(url, min_of(query + 1, n), n);
}

void secret_url_show(struct str url, struct buf *out)
{
    cleanup_with(free_charp) char *copy = xmalloc(url.n + 1);
    memcpy(copy, url.p, url.n);
    secret_url_mask_password(copy, url.n);
    buf_add(out, (struct str){ copy, url.n });
}

void secret_url_hide(struct str argument)
{
    union {
        const char *in;
        char *out;
    } text = { argument.p }; /* argv is writable */
    secret_url_mask_password(text.out, argument.n);
}

enum err secret_url_read(const struct options *o, const char *name, struct buf *ret, struct error *e)
{
    char field[32];
    const struct option_value *v = option_get(o, name);
    if (!option_given(o, name))
        return ERR_OK;
    snprintf(field, sizeof field, "--%s", name);
    if (options_read_secret(v->text, field, ret, e))
        return e->code;
    if (v->source == FROM_FLAG)
        secret_url_hide(v->text);
    return ERR_OK;
}

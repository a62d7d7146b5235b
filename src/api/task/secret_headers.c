#include "api/task/secret_headers.h"

#include <stdio.h>

#include "base/json/json.h"
#include "core/target/target_url.h"

enum { CONFIG_MAX = 16 << 20, FIELD_TEXT = 128 };

#define HIDDEN "\"***\""

static bool secret_contains(struct str name, struct str word)
{
    for (size_t i = 0; i + word.n <= name.n; i++)
        if (str_eq_nocase(str_sub(name, i, i + word.n), word))
            return true;
    return false;
}

/* A name with an escape may be any. */
static bool secret_is(struct str name)
{
    static const char *const words[] = { "authorization", "cookie", "token", "secret", "key", "password", "\\" };
    for (size_t i = 0; i < array_count(words); i++)
        if (secret_contains(name, str_from(words[i])))
            return true;
    return false;
}

static void secret_write_member(struct buf *out, bool *first, struct str name, struct str value)
{
    buf_printf(out, "%s\"" STR_FMT "\":", *first ? "" : ",", STR_ARG(name));
    buf_add(out, value);
    *first = false;
}

/* ---- hiding ---- */

static void secret_hide_headers(struct str headers, struct buf *out)
{
    struct json_cursor c = { .text = headers };
    struct str name, value;
    bool first = true;
    buf_char(out, '{');
    while (json_next(&c, &name, &value))
        secret_write_member(out, &first, name, secret_is(name) ? S(HIDDEN) : value);
    buf_char(out, '}');
}

void secret_headers_hide(struct jw *w, struct str config)
{
    struct json_cursor c = { .text = config };
    struct str name, value;
    bool first = true;
    if (!secret_contains(config, S("\"headers\""))) {
        jw_raw(w, config);
        return;
    }
    cleanup_with(buf_release) struct buf shown, headers;
    buf_init(&shown, CONFIG_MAX);
    buf_init(&headers, CONFIG_MAX);
    buf_char(&shown, '{');
    while (json_next(&c, &name, &value)) {
        bool are_headers = str_eq(name, S("headers")) && value.n && value.p[0] == '{';
        if (are_headers)
            secret_hide_headers(value, &headers);
        secret_write_member(&shown, &first, name, are_headers ? buf_str(&headers) : value);
    }
    buf_char(&shown, '}');
    jw_raw(w, buf_str(&shown));
}

/* ---- keeping ---- */

/* The member of an object, as text; empty: none. */
static struct str secret_member(struct str object, struct str wanted)
{
    struct json_cursor c = { .text = object };
    struct str name, value;
    while (object.n && object.p[0] == '{' && json_next(&c, &name, &value))
        if (str_eq_nocase(name, wanted))
            return value;
    return S("");
}

struct secret_keeper {
    struct str old; /* headers */
    bool same_host;
    struct error *e;
};

static enum err secret_refuse(struct str name, const char *why, struct error *e)
{
    char field[FIELD_TEXT];
    snprintf(field, sizeof field, "target_config.headers." STR_FMT, STR_ARG(str_utf8_cut(name, FIELD_TEXT / 2)));
    return error_field(e, field, "%s", why);
}

static enum err secret_keep_headers(const struct secret_keeper *k, struct str headers, struct buf *out)
{
    struct json_cursor c = { .text = headers };
    struct str name, value;
    bool first = true;
    buf_char(out, '{');
    while (json_next(&c, &name, &value)) {
        if (secret_is(name) && str_eq(value, S(HIDDEN))) {
            value = secret_member(k->old, name);
            if (!value.n)
                return secret_refuse(name, "is ***, which stands for a value that is not shown; give the value", k->e);
            if (!k->same_host)
                return secret_refuse(name, "must be given again, or be null, because the host or broker is another one",
                                     k->e);
        }
        secret_write_member(out, &first, name, value);
    }
    buf_char(out, '}');
    return ERR_OK;
}

static struct str secret_scheme(struct str config)
{
    struct str url = secret_member(config, S("url"));
    return str_sub(url, 0, str_find(url, ':', 0));
}

static bool secret_same_host(const struct task *current, enum target_kind kind, struct str config)
{
    char was[TARGET_HOST_MAX], is[TARGET_HOST_MAX];
    struct task next = { .target = kind, .target_config = config };
    return current && current->target == kind && str_eq(target_host(current, was), target_host(&next, is)) &&
           str_eq_nocase(secret_scheme(current->target_config), secret_scheme(config)) &&
           str_eq(secret_member(current->target_config, S("broker")), secret_member(config, S("broker")));
}

enum err secret_headers_keep(const struct task *current, enum target_kind kind, struct str config, struct arena *a,
                             struct str *ret, struct error *e)
{
    *ret = config;
    if (!secret_contains(config, S(HIDDEN)))
        return ERR_OK;
    struct secret_keeper k = { .old = current ? secret_member(current->target_config, S("headers")) : S(""),
                               .same_host = secret_same_host(current, kind, config),
                               .e = e };
    struct json_cursor c = { .text = config };
    struct str name, value;
    bool first = true;
    cleanup_with(buf_release) struct buf kept, headers;
    buf_init(&kept, CONFIG_MAX);
    buf_init(&headers, CONFIG_MAX);
    buf_char(&kept, '{');
    while (json_next(&c, &name, &value)) {
        bool are_headers = str_eq(name, S("headers")) && value.n && value.p[0] == '{';
        if (are_headers && secret_keep_headers(&k, value, &headers))
            return e->code;
        secret_write_member(&kept, &first, name, are_headers ? buf_str(&headers) : value);
    }
    buf_char(&kept, '}');
    return !kept.full && arena_str(a, buf_str(&kept), ret) ? ERR_OK : error_set(e, ERR_LIMIT, "the body is too large");
}

#include "api/task/secret_headers.h"

#include <stdio.h>

#include "core/target/target_url.h"

enum { CONFIG_MAX = 16 << 20, FIELD_TEXT = 128 };

#define HIDDEN "\"***\""

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
        secret_write_member(out, &first, name, header_is_secret(name) ? S(HIDDEN) : value);
    buf_char(out, '}');
}

void secret_headers_hide(struct jw *w, struct str config)
{
    struct json_cursor c = { .text = config };
    struct str name, value;
    bool first = true;
    if (!str_contains_nocase(config, S("\"headers\""))) {
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
    const struct secret_sealer *sealer;
    const struct uuid *from; /* NULL, or the row for which the values are encrypted */
    struct arena *a;
    struct error *e;
};

static enum err secret_refuse(struct str name, const char *why, struct error *e)
{
    char field[FIELD_TEXT];
    snprintf(field, sizeof field, "target_config.headers." STR_FMT, STR_ARG(str_utf8_cut(name, FIELD_TEXT / 2)));
    return error_field(e, field, "%s", why);
}

/* A name or a value as written in JSON, without its escapes. */
static enum err secret_decode(const struct secret_keeper *k, struct str text, struct str *ret)
{
    cleanup_with(buf_release) struct buf object;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    buf_init(&object, CONFIG_MAX);
    buf_printf(&object, "{\"v\":" STR_FMT "}", STR_ARG(text));
    if (json_parse(buf_str(&object), &doc, k->e))
        return k->e->code;
    return arena_str(k->a, json_text_at(doc.root, "v"), ret) ? ERR_OK : error_no_room(k->e);
}

static enum err secret_place_of(const struct secret_keeper *k, struct str name, struct uuid row,
                                struct secret_place *ret)
{
    struct str quoted = { name.p - 1, name.n + 2 };
    *ret = (struct secret_place){ k->sealer->tenant, row, name };
    return str_find(name, '\\', 0) < name.n ? secret_decode(k, quoted, &ret->field) : ERR_OK;
}

/* The stored value of a header, if it is this text, encrypted for this place: then it stays, and the task is the same
 * as before. Empty: it is not. */
static struct str secret_unchanged(const struct secret_keeper *k, const struct secret_place *at, struct str name,
                                   struct str plain)
{
    struct str old = secret_member(k->old, name), was;
    struct error ignored;
    bool same = str_starts(old, S("\"" SECRET_PREFIX)) &&
                !secret_open(k->sealer->secrets, at, str_sub(old, 1, old.n - 1), k->a, &was, &ignored) &&
                str_eq(was, plain);
    return same ? old : S("");
}

/* Encrypts a value, a string in JSON. One that is encrypted stays as it is, unless it moves to another row. */
static enum err secret_seal_value(const struct secret_keeper *k, struct str name, struct str value, bool stored,
                                  struct buf *out)
{
    struct secret_place at;
    struct str plain;
    bool sealed = (stored || k->sealer->keeps_sealed) && str_starts(value, S("\"" SECRET_PREFIX));
    if (!k->sealer->secrets || !value.n || value.p[0] != '"' || (sealed && !k->from)) {
        buf_add(out, value);
        return ERR_OK;
    }
    if (secret_decode(k, value, &plain) || secret_place_of(k, name, k->sealer->row, &at))
        return k->e->code;
    struct secret_place was = at;
    was.row = k->from ? *k->from : at.row;
    if (sealed && secret_open(k->sealer->secrets, &was, plain, k->a, &plain, k->e))
        return k->e->code;
    if (!header_is_secret(at.field)) { /* it looked like one by its escapes */
        buf_add(out, value);
        return ERR_OK;
    }
    struct str old = secret_unchanged(k, &at, name, plain);
    if (old.n) {
        buf_add(out, old);
        return ERR_OK;
    }
    buf_char(out, '"');
    secret_seal(k->sealer->secrets, &at, plain, out);
    buf_char(out, '"');
    return ERR_OK;
}

static enum err secret_keep_headers(const struct secret_keeper *k, struct str headers, struct buf *out)
{
    struct json_cursor c = { .text = headers };
    struct str name, value;
    bool first = true;
    cleanup_with(buf_release) struct buf sealed;
    buf_init(&sealed, CONFIG_MAX);
    buf_char(out, '{');
    while (json_next(&c, &name, &value)) {
        bool is_secret = header_is_secret(name), kept = is_secret && str_eq(value, S(HIDDEN)) && !k->from;
        if (kept && !k->sealer->keeps_hidden) {
            value = secret_member(k->old, name);
            if (!value.n)
                return secret_refuse(name, "is ***, which stands for a value that is not shown; give the value", k->e);
            if (!k->same_host)
                return secret_refuse(name, "must be given again, or be null, because the host or broker is another one",
                                     k->e);
        }
        buf_reset(&sealed);
        if (is_secret && secret_seal_value(k, name, value, kept || k->from, &sealed))
            return k->e->code;
        secret_write_member(out, &first, name, is_secret ? buf_str(&sealed) : value);
    }
    buf_char(out, '}');
    return ERR_OK;
}

static struct str secret_scheme(struct str config)
{
    struct str url = secret_member(config, S("url"));
    return str_sub(url, 0, str_find(url, ':', 0));
}

bool secret_headers_same_host(const struct task *current, enum target_kind kind, struct str config)
{
    char was[TARGET_HOST_MAX], is[TARGET_HOST_MAX];
    struct task next = { .target = kind, .target_config = config };
    return current && current->target == kind && str_eq(target_host(current, was), target_host(&next, is)) &&
           str_eq_nocase(secret_scheme(current->target_config), secret_scheme(config)) &&
           str_eq(secret_member(current->target_config, S("broker")), secret_member(config, S("broker")));
}

static enum err secret_rewrite(const struct secret_keeper *k, struct str config, struct str *ret)
{
    struct json_cursor c = { .text = config };
    struct str name, value;
    bool first = true;
    cleanup_with(buf_release) struct buf kept, headers;
    buf_init(&kept, CONFIG_MAX);
    buf_init(&headers, CONFIG_MAX);
    buf_char(&kept, '{');
    while (json_next(&c, &name, &value)) {
        bool are_headers = str_eq(name, S("headers")) && value.n && value.p[0] == '{';
        if (are_headers && secret_keep_headers(k, value, &headers))
            return k->e->code;
        secret_write_member(&kept, &first, name, are_headers ? buf_str(&headers) : value);
    }
    buf_char(&kept, '}');
    return !kept.full && arena_str(k->a, buf_str(&kept), ret) ? ERR_OK
                                                              : error_set(k->e, ERR_LIMIT, "the body is too large");
}

/* Without keys, values are stored as they are. One that looks like a ciphertext would be taken for one. */
static enum err secret_check_plain(const struct secret_keeper *k, struct str config)
{
    struct json_cursor c = { .text = secret_member(config, S("headers")) };
    struct str name, value, plain;
    while (c.text.n && c.text.p[0] == '{' && json_next(&c, &name, &value)) {
        bool may_be = header_is_secret(name) && value.n && value.p[0] == '"' &&
                      (str_find(value, '\\', 0) < value.n || str_starts(value, S("\"" SECRET_PREFIX)));
        if (may_be && secret_decode(k, value, &plain))
            return k->e->code;
        if (may_be && secret_is_sealed(plain))
            return secret_refuse(name, "must not begin with " SECRET_PREFIX ", which marks an encrypted value", k->e);
    }
    return ERR_OK;
}

enum err secret_headers_keep(const struct task *current, enum target_kind kind, struct str config,
                             const struct secret_sealer *sealer, struct arena *a, struct str *ret, struct error *e)
{
    *ret = config;
    if (!str_contains_nocase(config, S("\"headers\"")))
        return ERR_OK;
    struct secret_keeper k = { .old = current ? secret_member(current->target_config, S("headers")) : S(""),
                               .same_host = secret_headers_same_host(current, kind, config),
                               .sealer = sealer,
                               .a = a,
                               .e = e };
    if (!sealer->secrets && secret_check_plain(&k, config))
        return e->code;
    bool as_it_is = !sealer->secrets && !str_contains_nocase(config, S(HIDDEN));
    return as_it_is ? ERR_OK : secret_rewrite(&k, config, ret);
}

enum err secret_headers_move(const struct secret_sealer *to, struct uuid from, struct str config, struct str old,
                             struct arena *a, struct str *ret, struct error *e)
{
    struct secret_keeper k = { .old = secret_member(old, S("headers")), .sealer = to, .from = &from, .a = a, .e = e };
    *ret = config;
    if (!to->secrets || !str_contains_nocase(config, S("\"" SECRET_PREFIX)))
        return ERR_OK;
    return secret_rewrite(&k, config, ret);
}

/* ---- the keys of a configuration ---- */

struct json_cursor secret_headers_keys(struct str config)
{
    return (struct json_cursor){ .text = secret_member(config, S("headers")) };
}

bool secret_headers_next_key(struct json_cursor *c, struct str *ret_id)
{
    struct str name, value, sealed = S("\"" SECRET_PREFIX);
    while (c->text.n && c->text.p[0] == '{' && json_next(c, &name, &value)) {
        if (!header_is_secret(name) || !str_starts(value, sealed))
            continue;
        value = str_sub(value, sealed.n, value.n);
        *ret_id = str_sub(value, 0, str_find(value, ':', 0));
        return true;
    }
    return false;
}

#include "core/target/webhook.h"

#include "base/json/json.h"
#include "base/sentence.h"

static const char *const methods[] = {
    [METHOD_POST] = "POST",     [METHOD_GET] = "GET",   [METHOD_PUT] = "PUT",         [METHOD_PATCH] = "PATCH",
    [METHOD_DELETE] = "DELETE", [METHOD_HEAD] = "HEAD", [METHOD_OPTIONS] = "OPTIONS", NULL,
};

/* Headers that Belfry or the HTTP connection sets. A name that ends in '-' stands for all headers with that prefix. */
/* clang-format off */
static const char *const reserved[] = {
    "belfry-", "connection", "content-length", "expect", "host", "idempotency-key", "keep-alive", "proxy-", "te",
    "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade", "webhook-", "x-idempotency-key", NULL,
};
/* clang-format on */

const char *webhook_method_name(enum webhook_method m)
{
    return methods[m];
}

/* A token of HTTP. */
static bool webhook_is_header_name(struct str s)
{
    return str_is_plain(s, "!#$%&'*+-.^_`|~");
}

static bool webhook_is_visible_ascii(struct str s, bool blanks)
{
    for (size_t i = 0; i < s.n; i++) {
        bool blank = s.p[i] == ' ' || s.p[i] == '\t';
        if ((s.p[i] <= ' ' || s.p[i] > '~') && !(blanks && blank))
            return false;
    }
    return true;
}

static bool webhook_is_reserved(struct str name)
{
    for (const char *const *r = reserved; *r; r++) {
        struct str row = str_from(*r);
        bool prefix = row.p[row.n - 1] == '-' && name.n >= row.n;
        if (str_eq_nocase(prefix ? str_sub(name, 0, row.n) : name, row))
            return true;
    }
    return false;
}

enum err webhook_header_check(struct str name, struct str value, struct error *e)
{
    if (!webhook_is_header_name(name))
        return error_set(e, ERR_INVALID, "is not a valid header name; use letters, digits and dashes");
    if (webhook_is_reserved(name))
        return error_set(e, ERR_INVALID, "is reserved: Belfry or the HTTP connection sets it");
    bool sealed = str_starts(value, S("enc:1:")); /* port/secrets.h: a third longer than what it holds */
    if (value.n > (size_t)(sealed ? 2 : 1) * WEBHOOK_HEADER_VALUE_MAX)
        return error_set(e, ERR_INVALID, "must be at most %d bytes long", WEBHOOK_HEADER_VALUE_MAX);
    if (!webhook_is_visible_ascii(value, true))
        return error_set(e, ERR_INVALID, "must hold visible ASCII characters only");
    return ERR_OK;
}

/* ---- reading a target ---- */

struct webhook_config {
    struct str url;
    int method;
    json_t *headers, *body;
    bool has_body;
    int64_t timeout_ms;
};

#define AT(member) .offset = offsetof(struct webhook_config, member)
/* clang-format off */
static const struct json_field fields[] = {
    { .name = "url", .kind = JSON_KIND_STR, AT(url), .min = 1, .max = WEBHOOK_URL_MAX, .required = true },
    { .name = "method", .kind = JSON_KIND_ENUM, AT(method), .names = methods, .nullable = true },
    { .name = "headers", .kind = JSON_KIND_RAW, AT(headers), .nullable = true },
    { .name = "body", .kind = JSON_KIND_RAW, AT(body), .seen_offset = offsetof(struct webhook_config, has_body), .nullable = true },
    { .name = "timeout_ms", .kind = JSON_KIND_I64, AT(timeout_ms), .min = 1, .max = DAY_MS, .nullable = true },
};
/* clang-format on */

static enum err webhook_header_error(struct error *e, const char *name, struct error *why)
{
    char field[sizeof why->field];
    char shown[QUOTE_TEXT];
    quote_text(str_from(name), shown);
    snprintf(field, sizeof field, "headers.%.*s", (int)strlen(shown) - 2, shown + 1);
    return error_field(e, field, "%s", why->text);
}

static enum err webhook_read_header(const char *name, json_t *v, struct arena *a, struct webhook_header *ret,
                                    struct error *e)
{
    struct error why;
    struct str value = { json_string_value(v), json_string_length(v) };
    if (!json_is_string(v)) {
        (void)error_set(&why, ERR_INVALID, "must be a string");
        return webhook_header_error(e, name, &why);
    }
    if (webhook_header_check(str_from(name), value, &why))
        return webhook_header_error(e, name, &why);
    struct webhook_header h;
    if (!arena_str(a, str_from(name), &h.name) || !arena_str(a, str_trim(value), &h.value))
        return error_no_room(e);
    *ret = h;
    return ERR_OK;
}

enum err webhook_headers_read(json_t *object, struct arena *a, struct webhook *w, struct error *e)
{
    if (!object)
        return ERR_OK;
    if (!json_is_object(object))
        return error_field(e, "headers", "must be an object");
    if (json_object_size(object) > WEBHOOK_HEADERS_MAX)
        return error_field(e, "headers", "must be at most %d", WEBHOOK_HEADERS_MAX);
    w->headers = arena_array(a, struct webhook_header, json_object_size(object));
    if (!w->headers)
        return error_no_room(e);
    const char *name;
    json_t *v;
    json_object_foreach (object, name, v) {
        struct webhook_header *h = &w->headers[w->header_count++];
        if (webhook_read_header(name, v, a, h, e))
            return e->code;
        w->has_content_type |= str_eq_nocase(h->name, S("content-type"));
    }
    return ERR_OK;
}

enum err webhook_body_read(const struct task *t, json_t *body, bool has_body, const struct json_doc *doc,
                           struct arena *a, struct webhook *w, struct error *e)
{
    bool carries = w->method != METHOD_GET && w->method != METHOD_HEAD;
    if (body && w->method == METHOD_HEAD)
        return error_field(e, "body", "cannot go with HEAD");
    if (json_is_string(body)) {
        w->has_body = true;
        struct str text = { json_string_value(body), json_string_length(body) };
        return arena_str(a, text, &w->body) ? ERR_OK : error_no_room(e);
    }
    if (body)
        w->body = json_member_text(doc, "body");
    else if (!has_body && carries)
        w->body = t->payload;
    w->has_body = w->body_is_json = w->body.n > 0;
    return ERR_OK;
}

enum err webhook_read(const struct task *t, struct arena *a, struct webhook *ret, struct error *e)
{
    struct error own; /* so that e may be NULL */
    e = e ? e : &own;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(t->target_config.n ? t->target_config : S("{}"), &doc, e))
        return e->code;
    struct webhook_config c = { .method = METHOD_POST };
    if (json_read(doc.root, fields, array_count(fields), &c, a, e))
        return e->code;
    if (!webhook_is_visible_ascii(c.url, false))
        return error_field(e, "url", "must hold visible ASCII characters only; write others as %%XX");
    struct webhook w = { .url = c.url, .method = (enum webhook_method)c.method, .timeout_ms = c.timeout_ms };
    if (webhook_headers_read(c.headers, a, &w, e) || webhook_body_read(t, c.body, c.has_body, &doc, a, &w, e))
        return e->code;
    *ret = w;
    return ERR_OK;
}

#include "api/task/target.h"

#include "base/date.h"
#include "base/sentence.h"
#include "core/flow/reference.h"
#include "core/target/message_target.h"
#include "core/target/webhook.h"

enum { URL_MAX = 2048, HEADERS_MAX = 50, HEADER_NAME_MAX = 128, CONFIG_TEXT_MAX = 32 << 20, HASH_TEXT = 64 };

struct http_config {
    struct str url;
    int method;
    json_t *headers, *body;
    int64_t timeout_ms;
};

struct workflow_config {
    struct str workflow, definition;
    int64_t version, deadline_ms;
    json_t *input;
};

#define DEADLINE_MAX_MS (366LL * DAY_MS)
enum { NO_METHOD = -1, HEAD = 5 };
static const char *const methods[] = { "GET", "POST", "PUT", "PATCH", "DELETE", [HEAD] = "HEAD", NULL };

/* ---- URL ---- */

/* The end of the scheme, or 0. */
static size_t target_scheme_end(struct str url)
{
    static const struct str schemes[] = { { "http://", 7 }, { "https://", 8 } };
    for (size_t i = 0; i < array_count(schemes); i++)
        if (url.n >= schemes[i].n && str_eq_nocase(str_sub(url, 0, schemes[i].n), schemes[i]))
            return schemes[i].n;
    return 0;
}

static enum err target_check_url_bytes(struct str url, const char *field, struct error *e)
{
    for (size_t i = 0; i < url.n; i++) {
        char shown[STR_CHAR_TEXT];
        unsigned char c = (unsigned char)url.p[i];
        if (c <= ' ' || c == 0x7F || c == '\\' || c == '"' || c == '<' || c == '>')
            return error_field(e, field, "must not hold %s (at position %zu); write it as %%%02X",
                               str_show_char(url.p[i], shown), i + 1, c);
        if (c >= 0x80)
            return error_field(e, field,
                               "must be ASCII (at position %zu); write a host in its xn-- form, other bytes as %%%02X",
                               i + 1, c);
    }
    return ERR_OK;
}

/* host, host:port, [v6] or [v6]:port → the end of the host. SIZE_MAX: a '[' without ']'. */
static size_t target_host_end(struct str authority)
{
    if (authority.n == 0 || authority.p[0] != '[')
        return str_find(authority, ':', 0);
    size_t close = str_find(authority, ']', 0);
    return close == authority.n ? SIZE_MAX : close + 1;
}

static enum err target_check_authority(struct str authority, const char *field, struct error *e)
{
    if (str_find(authority, '@', 0) < authority.n)
        return error_field(e, field, "must not hold a user or password; send them in a header");
    size_t end = target_host_end(authority);
    if (end == SIZE_MAX)
        return error_field(e, field, "has a '[' without its ']'");
    if (end == 0 || str_eq(str_sub(authority, 0, end), S("[]")))
        return error_field(e, field, "has no host");
    int64_t port = 1;
    struct str rest = str_sub(authority, end, authority.n);
    if (rest.n && (rest.p[0] != ':' || (rest.n > 1 && !str_to_i64(str_sub(rest, 1, rest.n), 1, 65535, &port))))
        return error_field(e, field, "has a port that is not between 1 and 65535");
    return ERR_OK;
}

static enum err target_check_url(struct str url, const char *field, struct error *e)
{
    if (target_check_url_bytes(url, field, e))
        return ERR_INVALID;
    size_t from = target_scheme_end(url);
    if (from == 0)
        return error_field(e, field, "must begin with http:// or https://");
    size_t to = from;
    while (to < url.n && url.p[to] != '/' && url.p[to] != '?' && url.p[to] != '#')
        to++;
    return target_check_authority(str_sub(url, from, to), field, e);
}

/* ---- headers ---- */

static enum err target_check_header(const char *name, json_t *v, struct error *e)
{
    struct error why;
    char field[sizeof why.field];
    snprintf(field, sizeof field, "headers." STR_FMT, STR_ARG(str_utf8_cut(str_from(name), QUOTE_TEXT)));
    if (!json_is_string(v))
        return error_field(e, field, "must be a string");
    if (strlen(name) > HEADER_NAME_MAX)
        return error_field(e, "headers", "must have names of at most %d bytes", HEADER_NAME_MAX);
    if (webhook_header_check(str_from(name), (struct str){ json_string_value(v), json_string_length(v) }, &why))
        return error_field(e, field, "%s", why.text);
    return ERR_OK;
}

static bool target_header_is_repeated(json_t *headers, struct str name)
{
    const char *other;
    json_t *v;
    json_object_foreach (headers, other, v) {
        if (other == name.p)
            return false;
        if (str_eq_nocase(str_from(other), name))
            return true;
    }
    return false;
}

static enum err target_check_headers(json_t *headers, struct error *e)
{
    if (!headers)
        return ERR_OK;
    if (!json_is_object(headers))
        return error_field(e, "headers", "must be an object of names and strings");
    if (json_object_size(headers) > HEADERS_MAX)
        return error_field(e, "headers", "must have at most %d members, not %zu", HEADERS_MAX,
                           json_object_size(headers));
    const char *name;
    json_t *v;
    json_object_foreach (headers, name, v) {
        if (target_check_header(name, v, e))
            return ERR_INVALID;
        if (target_header_is_repeated(headers, str_from(name)))
            return error_field(e, "headers", "'%s' is given twice: case makes no difference", name);
    }
    return ERR_OK;
}

/* ---- configs ---- */

#define AT(member) .offset = offsetof(struct http_config, member)
/* clang-format off */
static const struct json_field http_fields[] = {
    { .name = "url", .kind = JSON_KIND_STR, AT(url), .min = 1, .max = URL_MAX, .required = true },
    { .name = "method", .kind = JSON_KIND_ENUM, AT(method), .names = methods },
    { .name = "headers", .kind = JSON_KIND_RAW, AT(headers), .nullable = true },
    { .name = "body", .kind = JSON_KIND_RAW, AT(body), .nullable = true },
    { .name = "timeout_ms", .kind = JSON_KIND_I64, AT(timeout_ms), .min = 1, .max = TIMEOUT_MAX_MS },
};

static const struct json_field short_fields[] = {
    { .name = "webhook_url", .kind = JSON_KIND_STR, AT(url), .min = 1, .max = URL_MAX, .required = true },
    { .name = "method", .kind = JSON_KIND_ENUM, AT(method), .names = methods, .nullable = true },
    { .name = "body", .kind = JSON_KIND_RAW, AT(body), .nullable = true },
};
enum { MIXED_FIELDS = 2 }; /* of these: the body is the rest of the payload */

#undef AT
#define AT(member) .offset = offsetof(struct workflow_config, member)
static const struct json_field workflow_fields[] = {
    { .name = "workflow", .kind = JSON_KIND_STR, AT(workflow), .min = 1, .max = STEP_NAME_MAX },
    { .name = "definition", .kind = JSON_KIND_STR, AT(definition), .min = HASH_TEXT, .max = HASH_TEXT },
    { .name = "version", .kind = JSON_KIND_I64, AT(version), .min = 1, .max = INT64_MAX, .nullable = true },
    { .name = "input", .kind = JSON_KIND_RAW, AT(input) },
    { .name = "deadline_seconds", .kind = JSON_KIND_SECONDS, AT(deadline_ms), .min = 1, .max = DEADLINE_MAX_MS, .nullable = true },
};
/* clang-format on */

static enum err target_check_http_body(const struct http_config *h, struct error *e)
{
    return h->body && h->method == HEAD ? error_field(e, "body", "cannot be sent with HEAD; use another method")
                                        : ERR_OK;
}

static enum err target_check_http(json_t *config, struct arena *a, int64_t *ret_timeout_ms, struct error *e)
{
    struct http_config h = { .method = NO_METHOD };
    enum err rc = json_read(config, http_fields, array_count(http_fields), &h, a, e);
    if (rc)
        return rc;
    if (target_check_url(h.url, "url", e) || target_check_headers(h.headers, e) || target_check_http_body(&h, e))
        return ERR_INVALID;
    if (h.timeout_ms)
        *ret_timeout_ms = h.timeout_ms;
    return ERR_OK;
}

static enum err target_check_message(json_t *config, struct arena *a, int64_t *ret_timeout_ms, struct error *e)
{
    struct message_target l;
    enum err rc = message_target_check(config, a, &l, e);
    if (rc == ERR_OK && l.content.timeout_ms)
        *ret_timeout_ms = l.content.timeout_ms;
    return rc;
}

static enum err target_check_workflow(json_t *config, struct arena *a, struct error *e)
{
    struct workflow_config c = { 0 };
    struct error why;
    enum err rc = json_read(config, workflow_fields, array_count(workflow_fields), &c, a, e);
    if (rc)
        return rc;
    if (c.workflow.n && step_name_check(c.workflow, &why))
        return error_field(e, "workflow", "%s", why.text);
    if (!c.workflow.n && !c.definition.n)
        return error_field(e, "workflow", "is required: the name of a workflow");
    if (c.workflow.n && c.definition.n && !c.version) /* with a version, it is a run that is bound to its definition */
        return error_field(e, "workflow", "cannot be given together with 'definition', which is a hash");
    if (!c.workflow.n && c.version)
        return error_field(e, "version", "belongs to a name; a 'definition' has none");
    return ERR_OK;
}

enum err target_check(enum target_kind kind, json_t *config, struct arena *a, int64_t *ret_timeout_ms, struct error *e)
{
    if (kind == TARGET_HTTP)
        return target_check_http(config, a, ret_timeout_ms, e);
    if (kind == TARGET_MESSAGE)
        return target_check_message(config, a, ret_timeout_ms, e);
    if (kind == TARGET_WORKFLOW)
        return target_check_workflow(config, a, e);
    return json_read(config, NULL, 0, NULL, a, e); /* WORKER, NOOP: {} */
}

bool target_is_short(json_t *payload)
{
    return json_object_get(payload, "webhook_url") != NULL;
}

static enum err target_write_short(const struct http_config *h, struct str body, struct arena *a, struct str *ret,
                                   struct error *e)
{
    cleanup_with(buf_release) struct buf out;
    struct jw w;
    buf_init(&out, CONFIG_TEXT_MAX);
    jw_init(&w, &out);
    jw_object(&w);
    jw_kv_str(&w, "url", h->url);
    if (h->method != NO_METHOD)
        jw_kv_cstr(&w, "method", methods[h->method]);
    if (body.n) {
        jw_key(&w, "body");
        jw_raw(&w, body);
    }
    jw_object_end(&w);
    return out.full || !arena_str(a, buf_str(&out), ret) ? error_no_room(e) : ERR_OK;
}

enum err target_from_short(json_t *payload, struct str text, struct arena *a, struct str *ret, struct error *e)
{
    struct http_config h = { .method = NO_METHOD };
    enum err rc = json_read(payload, short_fields, array_count(short_fields), &h, a, e);
    if (rc)
        return rc;
    if (target_check_url(h.url, "webhook_url", e) || target_check_http_body(&h, e))
        return ERR_INVALID;
    struct json_part parts[array_count(short_fields)];
    size_t n = json_parts(text, parts, array_count(parts));
    struct str body = { 0 };
    for (size_t i = 0; i < n; i++)
        if (json_part_is(&parts[i], "body"))
            body = parts[i].text;
    return target_write_short(&h, body, a, ret, e);
}

/* Writes the members of the payload that do not describe the target. False: there are none. */
static bool target_write_rest(struct str text, struct buf *out)
{
    struct json_cursor c = { .text = text };
    struct str name, value;
    bool any = false;
    while (json_next(&c, &name, &value)) {
        if (str_eq(name, S("webhook_url")) || str_eq(name, S("method")))
            continue;
        buf_printf(out, "%c\"" STR_FMT "\":", any ? ',' : '{', STR_ARG(name));
        buf_add(out, value);
        any = true;
    }
    if (any)
        buf_char(out, '}');
    return any;
}

enum err target_from_mixed(json_t *payload, struct str text, struct arena *a, struct str *ret, struct str *ret_rest,
                           struct error *e)
{
    struct http_config h = { .method = NO_METHOD };
    json_t *own = json_object();
    for (size_t i = 0; i < MIXED_FIELDS; i++)
        if (json_object_get(payload, short_fields[i].name))
            json_object_set(own, short_fields[i].name, json_object_get(payload, short_fields[i].name));
    enum err rc = json_read(own, short_fields, MIXED_FIELDS, &h, a, e);
    json_decref(own);
    if (rc)
        return rc;
    cleanup_with(buf_release) struct buf rest;
    buf_init(&rest, CONFIG_TEXT_MAX);
    *ret_rest = (struct str){ 0 };
    if (target_check_url(h.url, "webhook_url", e))
        return ERR_INVALID;
    if (target_write_rest(text, &rest) && (rest.full || !arena_str(a, buf_str(&rest), ret_rest)))
        return error_no_room(e);
    return target_write_short(&h, (struct str){ 0 }, a, ret, e);
}

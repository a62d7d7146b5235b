#include "api/server/respond.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "api/server/seal.h"
#include "base/hash.h"

static const struct {
    int status;
    const char *slug, *title;
} problems[] = {
#define X(id, status, slug, title) [PROBLEM_##id] = { status, slug, title },
    PROBLEM_MAP(X)
#undef X
};

void response_init(struct response *r)
{
    *r = (struct response){ 0 };
    buf_init(&r->body, ANSWER_MAX);
}

void response_release(struct response *r)
{
    buf_release(&r->body);
}

/* Empties the answer, except the settings of the connection, the id of the request and the rate limit headers. */
static void response_reset(struct response *r)
{
    struct response kept = { .body = r->body, .close = r->close, .request_id = r->request_id };
    buf_reset(&kept.body);
    memcpy(kept.rate, r->rate, sizeof kept.rate);
    memcpy(kept.rate_policy, r->rate_policy, sizeof kept.rate_policy);
    *r = kept;
}

enum problem problem_of_status(int status)
{
    for (enum problem p = 0; p < PROBLEM_COUNT; p++)
        if (problems[p].status == status)
            return p;
    return PROBLEM_INTERNAL;
}

static void write_errors(struct jw *w, const struct error *e, size_t n)
{
    jw_key(w, "errors");
    jw_array(w);
    for (size_t i = 0; i < n; i++) {
        jw_object(w);
        jw_kv_cstr(w, "field", e[i].field);
        jw_kv_cstr(w, "message", e[i].text[0] ? e[i].text : err_text(e[i].code));
        jw_object_end(w);
    }
    jw_array_end(w);
}

/* n errors; the first one is the sentence. */
static void problem_write_all(struct jw *w, enum problem p, const struct error *e, size_t n, const char *detail,
                              struct str request_id)
{
    char text[sizeof(struct error) + 64], type[96], more[48] = "";
    if (n > 1)
        snprintf(more, sizeof more, " (and %zu more error%s)", n - 1, n > 2 ? "s" : "");
    snprintf(type, sizeof type, "urn:belfry:problem:%s", problems[p].slug);
    if (detail)
        snprintf(text, sizeof text, "%s", detail);
    else if (e && e->text[0])
        snprintf(text, sizeof text, "%s%s%s%s", e->field, e->field[0] ? " " : "", e->text, more);
    else
        snprintf(text, sizeof text, "%s", problems[p].title);
    jw_object(w);
    jw_kv_cstr(w, "type", type);
    jw_kv_cstr(w, "title", problems[p].title);
    jw_kv_i64(w, "status", problems[p].status);
    jw_kv_cstr(w, "detail", text);
    if (request_id.n)
        jw_kv_str(w, "request_id", request_id);
    if (e && e->field[0])
        write_errors(w, e, n);
    jw_object_end(w);
}

void problem_write(struct jw *w, enum problem p, const struct error *e, const char *detail)
{
    problem_write_all(w, p, e, 1, detail, S(""));
}

static void respond_with(struct response *r, enum problem p, const struct error *e, size_t n, const char *detail)
{
    response_reset(r);
    r->status = problems[p].status;
    r->type = TYPE_PROBLEM;
    r->retry_after_s = p == PROBLEM_UNAVAILABLE || p == PROBLEM_KEY_LIMIT ? RETRY_AFTER_S
                       : p == PROBLEM_QUOTA                               ? QUOTA_RETRY_AFTER_S
                                                                          : 0;
    struct jw w;
    jw_init(&w, &r->body);
    problem_write_all(&w, p, e, n, detail, r->request_id);
}

void respond_problem(struct response *r, enum problem p, const char *detail, ...)
{
    char text[sizeof(struct error)];
    va_list args;
    va_start(args, detail);
    vsnprintf(text, sizeof text, detail, args);
    va_end(args);
    respond_with(r, p, NULL, 0, text);
}

void respond_field(struct response *r, enum problem p, const struct error *e)
{
    respond_with(r, p, e, 1, NULL);
}

void respond_invalid(struct response *r, const struct error *e, size_t n)
{
    respond_with(r, PROBLEM_INVALID, e, n, NULL);
}

static enum problem problem_of_limit(const char *field)
{
    static const struct {
        const char *field;
        enum problem problem;
    } rows[] = {
        { "max_pending", PROBLEM_QUOTA }, { "max_recurring", PROBLEM_QUOTA }, { "creates_per_second", PROBLEM_QUOTA },
        { "requires", PROBLEM_QUOTA },    { "resources", PROBLEM_QUOTA },     { "payload_bytes", PROBLEM_TOO_LARGE },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (strcmp(field, rows[i].field) == 0)
            return rows[i].problem;
    return PROBLEM_INVALID;
}

enum problem problem_of(const struct error *e)
{
    switch (e->code) {
    case ERR_INVALID: return PROBLEM_INVALID;
    case ERR_LIMIT: return problem_of_limit(e->field);
    case ERR_NOT_FOUND: return PROBLEM_NOT_FOUND;
    case ERR_CONFLICT: return PROBLEM_CONFLICT;
    case ERR_UNAVAILABLE: return PROBLEM_UNAVAILABLE;
    case ERR_OK:
    case ERR_CORRUPT: break;
    }
    return PROBLEM_INTERNAL;
}

void respond_error(struct response *r, const struct error *e)
{
    static const char *const hidden[] = {
        [ERR_UNAVAILABLE] = "the store cannot be reached; try again",
        [ERR_CORRUPT] = "the server has logged the cause; as far as it knows, nothing was changed",
    };
    const char *detail = (size_t)e->code < array_count(hidden) ? hidden[e->code] : NULL;
    respond_with(r, problem_of(e), detail ? NULL : e, 1, detail);
}

struct jw respond_json(struct response *r, int status)
{
    response_reset(r);
    r->status = status;
    r->type = TYPE_JSON;
    struct jw w;
    jw_init(&w, &r->body);
    return w;
}

void respond_nothing(struct response *r)
{
    response_reset(r);
    r->status = 204;
}

void respond_page(struct response *r, int status, const char *type)
{
    response_reset(r);
    r->status = status;
    r->type = type;
    r->is_page = true;
}

void respond_etag(struct response *r, int64_t version)
{
    snprintf(r->etag, sizeof r->etag, "\"%lld\"", (long long)version);
}

static void respond_etag_end(struct response *r, const char *end)
{
    size_t n = strlen(r->etag);
    char begin[sizeof r->etag] = "";
    if (n > 2)
        memcpy(begin, r->etag + 1, n - 2);
    snprintf(r->etag, sizeof r->etag, "\"%.*s%s%s\"", (int)sizeof begin - 24, begin, begin[0] ? "-" : "", end);
}

void respond_etag_of_body(struct response *r)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)hash_bytes(HASH_STABLE, buf_str(&r->body)));
    respond_etag_end(r, hash);
}

void respond_etag_gzip(struct response *r)
{
    respond_etag_end(r, "gzip");
}

void respond_not_modified(struct response *r)
{
    char etag[sizeof r->etag];
    bool is_static = r->is_static, is_page = r->is_page;
    const char *cache = r->cache;
    memcpy(etag, r->etag, sizeof etag);
    response_reset(r);
    r->status = 304;
    r->is_static = is_static;
    r->is_page = is_page;
    r->cache = cache;
    memcpy(r->etag, etag, sizeof etag);
}

/* "3-5f…" → 3; without quotes too, a common mistake. Empty: not a tag. */
static struct str if_match_version(struct str tag)
{
    bool quoted = tag.n >= 2 && tag.p[0] == '"' && tag.p[tag.n - 1] == '"';
    struct str text = quoted ? str_sub(tag, 1, tag.n - 1) : tag;
    return str_sub(text, 0, str_find(text, '-', 0));
}

bool if_match_allows(struct str if_match, int64_t version)
{
    if (if_match.n == 0)
        return true;
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)version);
    struct str rest = if_match, piece;
    while (str_cut(&rest, ',', &piece)) {
        piece = str_trim(piece);
        if (str_eq(piece, S("*")) || str_eq(if_match_version(piece), str_from(text)))
            return true;
    }
    return false;
}

void pagination_write(const struct request *q, struct jw *w, const struct pagination *p)
{
    char cursor[SEAL_TEXT_MAX + 1];
    struct str next = p->next_name.n ? p->next_name : uuid_bytes(&p->next);
    jw_key(w, "pagination");
    jw_object(w);
    jw_kv_cstr(w, "next_cursor", p->more ? seal_text(q, SEAL_CURSOR, next, cursor).p : NULL);
    jw_kv_i64(w, "limit", p->limit);
    if (p->page)
        jw_kv_i64(w, "page", p->page);
    if (p->total >= 0) {
        jw_kv_i64(w, "total", p->total);
        jw_kv_bool(w, "total_exact", p->total_exact);
    }
    jw_object_end(w);
}

/* Searches tasks for a text, newest first, for at most SEARCH_MS a request.
 *
 * No index helps it: an index on keys, traces and payloads would cost every create and every settlement. A request
 * looks at as many tasks as it can within its time, and its cursor says where the next request goes on. Only an
 * Idempotency-Key is looked up: its task does not have it. */
#include "api/resource/listing.h"
#include "api/server/internal.h"
#include "api/server/request_context.h"
#include "base/json/json.h"
#include "core/task/trace.h"

enum { SEARCH_MS = 250, SEARCH_PAGE = 100 };

struct search {
    struct request *q;
    struct reader *r;
    struct task_filter filter; /* of the next page; its `before` moves down */
    struct jw w;
    struct task_context context;
    struct str text;
    bool in_payload, is_brief;
    bool is_id; /* text is an id, or the beginning of one: between the next two */
    struct uuid lowest, highest;
    struct uuid keyed;              /* the task that a create with this Idempotency-Key made; nil: none */
    size_t limit, found, looked_at; /* found: without the keyed one, which comes first and beyond the limit */
    int64_t back_to_ms;             /* the creation of the last task that was looked at; 0: there was none */
    bool more;
};

/* ---- what matches ---- */

/* The body of a call. The other members of target_config may hold secrets, which a search must not reveal. */
static bool search_matches_body(const struct search *s, const struct task *t)
{
    if (!str_contains_nocase(t->target_config, s->text))
        return false; /* most: they are not parsed */
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    return json_parse(t->target_config, &doc, NULL) == ERR_OK &&
           str_contains_nocase(json_member_text(&doc, "body"), s->text);
}

static bool search_matches_trace(const struct search *s, const struct task *t)
{
    if (s->text.n != TRACE_ID && !t->trace.n)
        return false;
    struct trace trace = trace_of(t);
    return str_eq_nocase(str_from(trace.id), s->text) || (trace.request.n && str_eq(trace.request, s->text));
}

static bool search_matches(const struct search *s, const struct task *t)
{
    if (uuid_eq(t->id, s->keyed))
        return false; /* it was found by its key */
    if (s->in_payload)
        return str_contains_nocase(t->payload, s->text) || search_matches_body(s, t);
    const struct str texts[] = { t->name, t->concurrency_key, t->dedupe_key };
    for (size_t i = 0; i < array_count(texts); i++)
        if (str_contains_nocase(texts[i], s->text))
            return true;
    bool by_id = s->is_id && uuid_cmp(t->id, s->lowest) >= 0 && uuid_cmp(t->id, s->highest) <= 0;
    return by_id || search_matches_trace(s, t);
}

/* ---- pages ---- */

static enum err search_write(struct search *s, struct task *v, size_t n, struct error *e)
{
    if (reader_unstarted(s->r, v, n, s->q->now_ms, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        (s->is_brief ? task_summary_to_json : task_to_json)(&s->w, &v[i], &s->context);
    return ERR_OK;
}

/* Keeps the matches of a page, up to the limit, and remembers how far it looked. Returns how many they are. */
static size_t search_keep_matches(struct search *s, const struct task_page *page)
{
    struct task *v = page->tasks.v;
    size_t n = 0, i = 0;
    for (; i < page->tasks.n && s->found + n < s->limit; i++)
        if (search_matches(s, &v[i]))
            v[n++] = v[i];
    s->found += n;
    s->looked_at += i;
    s->more = page->more || i < page->tasks.n;
    if (i > 0) {
        s->filter.before = v[i - 1].id;
        s->back_to_ms = v[i - 1].created_ms;
    }
    return n;
}

/* If payloads are so large that a page does not fit into memory, the next page is half as long. */
static enum err search_page(struct search *s, struct error *e)
{
    struct arena *arena = &s->q->arena;
    struct arena_mark mark = arena_mark(arena);
    struct task_page page = { 0 };
    enum err rc = reader_list(s->r, &s->filter, arena, &page, e);
    if (rc == ERR_OK)
        rc = search_write(s, page.tasks.v, search_keep_matches(s, &page), e);
    else if (rc == ERR_LIMIT && s->filter.limit > 1) {
        s->filter.limit /= 2;
        rc = ERR_OK;
    }
    arena_rewind(arena, mark);
    return rc;
}

static enum err search_pages(struct search *s, struct error *e)
{
    struct clock *clock = s->q->server->setup.clock;
    int64_t end_ms = clock_steady_ms(clock) + SEARCH_MS;
    enum err rc;
    s->more = true;
    do
        rc = search_page(s, e);
    while (rc == ERR_OK && s->more && s->found < s->limit && clock_steady_ms(clock) < end_ms);
    return rc;
}

/* ---- by Idempotency-Key ---- */

static bool search_read_id(struct str answer, struct uuid *ret)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(answer, &doc, NULL))
        return false;
    json_t *id = json_object_get(doc.root, "id");
    return json_is_string(id) && uuid_parse(str_from(json_string_value(id)), ret);
}

static enum err search_find_keyed(struct search *s, struct error *e)
{
    static const char *const paths[] = { "/v1/tasks", "/v1/tasks/recurring", "/v1/recurring-tasks", "/v1/workflows" };
    struct request *q = s->q;
    struct error ignored = { 0 };
    if (s->in_payload || idempotency_check_key(s->text, "search", &ignored))
        return ERR_OK; /* no key looks like this */
    for (size_t i = 0; i < array_count(paths); i++) {
        struct idempotency found,
            wanted = idempotency_of(q->who.tenant, S("POST"), str_from(paths[i]), S(""), s->text, S(""), q->now_ms);
        enum err rc = reader_idempotency(s->r, q->who.tenant, wanted.key, &q->arena, &found, e);
        if (rc == ERR_OK && search_read_id(found.answer, &s->keyed))
            return ERR_OK;
        if (rc && rc != ERR_NOT_FOUND)
            return rc;
    }
    return ERR_OK;
}

/* The other filters hold for it, too. */
static enum err search_show_keyed(struct search *s, struct error *e)
{
    char id[UUID_TEXT + 1];
    struct task_page page = { 0 };
    struct task_filter f = s->filter;
    uuid_format(s->keyed, id);
    listing_filter_by_id(str_from(id), &f);
    f.limit = 1;
    if (reader_list(s->r, &f, &s->q->arena, &page, e))
        return e->code;
    return search_write(s, page.tasks.v, page.tasks.n, e);
}

/* ---- the answer ---- */

static void search_write_end(struct search *s)
{
    jw_array_end(&s->w);
    jw_key(&s->w, "search");
    jw_object(&s->w);
    jw_kv_i64(&s->w, "looked_at", (int64_t)s->looked_at);
    jw_kv_time_or_null(&s->w, "back_to", s->back_to_ms);
    jw_kv_bool(&s->w, "complete", !s->more);
    jw_object_end(&s->w);
    struct pagination p = { .more = s->more, .next = s->filter.before, .limit = (int64_t)s->limit, .total = -1 };
    pagination_write(s->q, &s->w, &p);
    jw_object_end(&s->w);
}

enum handled listing_search(struct request *q, struct reader *r, const struct listing *l, struct task_filter filter)
{
    struct error e = { 0 };
    struct search s = { .q = q, .r = r, .text = l->search, .filter = filter, .limit = (size_t)l->limit };
    s.is_brief = l->view == LISTING_VIEW_BRIEF;
    s.context = request_context(q);
    s.in_payload = str_starts(s.text, S(LISTING_IN_PAYLOAD));
    if (s.in_payload)
        s.text = str_sub(s.text, strlen(LISTING_IN_PAYLOAD), s.text.n);
    s.is_id = !s.in_payload && uuid_parse_prefix(s.text, &s.lowest, &s.highest);
    s.filter.limit = SEARCH_PAGE;
    s.filter.brief = !s.in_payload && s.is_brief;
    s.w = respond_json(&q->response, 200);
    jw_object(&s.w);
    jw_key(&s.w, "tasks");
    jw_array(&s.w);
    if (search_find_keyed(&s, &e) || (!uuid_is_nil(s.keyed) && uuid_is_nil(l->before) && search_show_keyed(&s, &e)) ||
        search_pages(&s, &e)) {
        if (e.code == ERR_LIMIT)
            return request_refuse(q, PROBLEM_INVALID, LISTING_TOO_LARGE);
        return request_fail(q, &e);
    }
    search_write_end(&s);
    return HANDLED_DONE;
}

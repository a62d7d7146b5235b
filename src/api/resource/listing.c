#include "api/resource/listing.h"

#include "api/server/internal.h"
#include "api/server/request_context.h"
#include "core/flow/reference.h"

enum { TOTAL_MAX = 10000, OFFSET_MAX = 1000000 };

static const char *const listing_group_names[] = { "cause", NULL };
static const char *const listing_yes_no_names[] = { "false", "true", NULL };
static const char *const listing_view_names[] = { "full", "brief", NULL };
static const char *const listing_kind_names[] = { "ONE_TIME", "RECURRING", NULL };

#define FIELD(text, kind_, member, ...)                                                                                \
    {                                                                                                                  \
        .name = (text), .kind = (kind_), .offset = offsetof(struct listing, member), __VA_ARGS__                       \
    }
static const struct query_field listing_fields[] = {
    FIELD("status", QUERY_STATES, states, .max = 0),
    FIELD("type", QUERY_CHOICE, kind, .names = listing_kind_names),
    FIELD("name", QUERY_TEXT, name, .max = NAME_FILTER_MAX),
    FIELD("queue", QUERY_TEXT, queue, .max = 255),
    FIELD("task_type", QUERY_TEXT, task_type, .max = 255),
    FIELD("due_before", QUERY_TIME, due_before_ms, .max = 0),
    FIELD("due_after", QUERY_TIME, due_after_ms, .max = 0),
    FIELD("limit", QUERY_I64, limit, .min = 1, .max = LIST_MAX),
    FIELD("cursor", QUERY_TEXT, cursor, .max = SEAL_TEXT_MAX),
    FIELD("page", QUERY_I64, page, .min = 1, .max = OFFSET_MAX),
    FIELD("cause", QUERY_TEXT, cause, .max = 64),
    FIELD("group_by", QUERY_CHOICE, group_by, .names = listing_group_names),
    FIELD("resolved", QUERY_CHOICE, resolved, .names = listing_yes_no_names),
    FIELD("id", QUERY_TEXT, id, .max = UUID_TEXT),
    FIELD("occurrences", QUERY_CHOICE, occurrences, .names = listing_yes_no_names),
    FIELD("workflow", QUERY_TEXT, workflow, .max = STEP_NAME_MAX),
    FIELD("created_before", QUERY_TIME, created_before_ms, .max = 0),
    FIELD("created_after", QUERY_TIME, created_after_ms, .max = 0),
    FIELD("view", QUERY_CHOICE, view, .names = listing_view_names),
    FIELD("search", QUERY_TEXT, search, .max = SEARCH_TEXT_MAX),
};

/* The parameters that each kind of list has: bit i for row i of the table. */
static const unsigned listing_known_fields[] = {
    [LISTING_TASKS] = 0xf63ff,
    [LISTING_RECURRING] = 0x723ff & ~0x2,     /* not type: it is always RECURRING */
    [LISTING_OCCURRENCES] = 0x40000 | 0x0381, /* status, paging and the view */
    [LISTING_DLQ] = 0x73fff & ~0x63,          /* not status, type and due times */
    [LISTING_RUNS] = 0x3818d, /* status, name, queue, workflow, times of creation and paging by cursor */
};

static enum err listing_check(const struct listing *l, struct error *e)
{
    struct uuid lowest, highest;
    if (l->id.p && !uuid_parse_prefix(l->id, &lowest, &highest))
        return error_field(e, "id", "must be an id or its beginning, such as 019c3f2e-7a4");
    if (l->page && l->cursor.n)
        return error_field(e, "page", "and 'cursor' exclude each other");
    if (l->page && l->search.n)
        return error_field(e, "page", "and 'search' exclude each other; use 'cursor'");
    if (str_eq(l->search, S(LISTING_IN_PAYLOAD)))
        return error_field(e, "search", "has no text behind '" LISTING_IN_PAYLOAD "'");
    if (l->page && (l->page - 1) * l->limit > OFFSET_MAX)
        return error_field(e, "page", "reaches beyond %d tasks; use 'cursor'", OFFSET_MAX);
    return ERR_OK;
}

bool listing_read(struct request *q, enum listing_kind kind, struct listing *ret)
{
    struct error e = { 0 };
    *ret = (struct listing){ .limit = LIST_DEFAULT };
    struct query_field rows[array_count(listing_fields)];
    size_t n = 0;
    for (size_t i = 0; i < array_count(listing_fields); i++)
        if (listing_known_fields[kind] & 1U << i)
            rows[n++] = listing_fields[i];
    if (query_read(q->query, rows, n, ret, &q->arena, &e) == ERR_OK && listing_check(ret, &e) == ERR_OK &&
        seal_open_id(q, ret->cursor, &ret->before, &e) == ERR_OK)
        return true;
    request_fail(q, &e);
    return false;
}

static enum err listing_count_total(struct reader *r, const struct task_filter *f, struct pagination *p,
                                    struct error *e)
{
    struct task_count total = { 0 };
    enum err rc = reader_count_tasks(r, f, TOTAL_MAX + 1, &total, e);
    p->total = (int64_t)min_of(total.n, (size_t)TOTAL_MAX);
    p->total_exact = total.n <= TOTAL_MAX && !total.is_cut;
    return rc;
}

void listing_filter_by_id(struct str text, struct task_filter *f)
{
    struct uuid lowest, highest;
    if (!text.n || !uuid_parse_prefix(text, &lowest, &highest))
        return;
    f->from = lowest;
    for (size_t i = sizeof highest.b; i > 0 && ++highest.b[i - 1] == 0; i--)
        ; /* the next one: `before` is exclusive; nil, which is no bound, after the last */
    if (uuid_is_nil(f->before) || (!uuid_is_nil(highest) && uuid_cmp(highest, f->before) < 0))
        f->before = highest;
}

static struct task_filter listing_filter(const struct request *q, const struct listing *l, struct task_filter f)
{
    f.tenant = q->who.tenant;
    f.states = f.states ? f.states : l->states;
    f.shown_at_ms = q->now_ms;
    f.by_kind = f.by_kind || l->kind;
    f.recurring = f.recurring || l->kind == 2;
    f.name = l->name;
    f.queue = l->queue;
    f.task_type = l->task_type;
    f.cause = l->cause;
    f.due_before_ms = l->due_before_ms;
    f.due_after_ms = l->due_after_ms;
    f.created_before_ms = l->created_before_ms;
    f.created_after_ms = l->created_after_ms;
    f.brief = l->view == LISTING_VIEW_BRIEF;
    f.before = l->before;
    f.limit = (size_t)l->limit;
    f.offset = l->page ? (size_t)((l->page - 1) * l->limit) : 0;
    f.may_lag = true;
    f.occurrences = f.occurrences || l->occurrences == 2;
    listing_filter_by_id(l->id, &f);
    return f;
}

enum handled listing_answer(struct request *q, struct reader *r, const struct listing *l, struct task_filter filter)
{
    struct error e = { 0 };
    struct task_page page = { 0 };
    struct pagination p = { .limit = l->limit, .page = l->page, .total = -1 };
    struct task_filter f = listing_filter(q, l, filter);
    if (l->search.n)
        return listing_search(q, r, l, f);
    enum err rc = reader_list(r, &f, &q->arena, &page, &e);
    if (rc == ERR_OK)
        rc = reader_unstarted(r, page.tasks.v, page.tasks.n, q->now_ms, &e);
    if (rc == ERR_OK && l->page)
        rc = listing_count_total(r, &f, &p, &e);
    if (rc == ERR_LIMIT)
        return request_refuse(q, PROBLEM_INVALID, LISTING_TOO_LARGE);
    if (rc)
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    struct task_context c = request_context(q);
    jw_object(&w);
    jw_key(&w, "tasks");
    jw_array(&w);
    for (size_t i = 0; i < page.tasks.n; i++)
        (f.brief ? task_summary_to_json : task_to_json)(&w, &page.tasks.v[i], &c);
    jw_array_end(&w);
    p.more = page.more && !l->page;
    p.next = page.next_before;
    pagination_write(q, &w, &p);
    jw_object_end(&w);
    return HANDLED_DONE;
}

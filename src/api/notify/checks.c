/* Checks: the tasks that are expected to succeed in time. */
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/task/json.h"
#include "core/notify/check.h"

struct check_query {
    int64_t limit;
    struct str cursor;
    int state;
    struct uuid task;
};

static const char *const check_states[] = { "OK", "LATE", NULL };

static void checks_write(struct jw *w, const struct task *t, const struct check *c, const struct expectation *x,
                         int64_t ok_ms)
{
    bool is_late = check_is_late(c, ok_ms);
    jw_object(w);
    jw_kv_uuid(w, "task_id", t->id);
    jw_kv_str_or_null(w, "name", t->name);
    jw_kv_cstr(w, "status", task_state_name(t->state));
    jw_key(w, "expect");
    jw_raw(w, task_extra(t, TASK_EXPECT));
    jw_kv_cstr(w, "state", check_states[is_late]);
    jw_kv_time_or_null(w, "next_deadline", check_shown_deadline(c, x, ok_ms));
    jw_kv_time_or_null(w, "missed_at", is_late ? c->missed_ms : 0);
    jw_kv_time_or_null(w, "last_success", ok_ms);
    jw_object_end(w);
}

/* The notifier looks at a task soon after it was written. Until then the check is as it will find it. */
static enum err checks_begin(struct request *q, const struct task *t, int64_t ok_ms, struct check *c, struct error *e)
{
    const struct api_setup *setup = &q->server->setup;
    struct task_check *of = arena_new(&q->arena, struct task_check);
    if (!of)
        return error_no_room(e);
    *of = (struct task_check){ 0 };
    enum err rc = task_check_read(t, setup->zones, setup->catalog, &q->arena, of, e);
    if (!rc) {
        of->facts.ok_ms = ok_ms;
        check_begin(c, &of->facts);
        int64_t deadline_ms = check_deadline(c, &of->facts);
        c->deadline_ms = deadline_ms == INT64_MAX ? 0 : deadline_ms;
    }
    rule_base_release(&of->base);
    return rc;
}

/* The record of a task that has ended, or expects nothing any more, is about to be removed. */
static enum err checks_show(struct request *q, struct reader *r, struct jw *w, const struct record *record, int state,
                            struct error *e)
{
    struct execution_filter f = {
        .tenant = record->tenant, .task = record->incident, .statuses = 1U << EXECUTION_COMPLETED, .limit = 1
    };
    struct execution_page page = { 0 };
    struct task t;
    struct check c;
    struct expectation x;
    enum err rc = reader_get(r, record->tenant, record->incident, &q->arena, &t, e);
    if (rc == ERR_NOT_FOUND || (!rc && (t.deleted || task_is_final(t.state) || !task_extra(&t, TASK_EXPECT).n)))
        return ERR_OK;
    if (rc || expectation_read(task_extra(&t, TASK_EXPECT), t.kind == TASK_RECURRING, &q->arena, &x, e) ||
        check_read(record->doc, &q->arena, &c, e) || reader_executions(r, &f, &q->arena, &page, e))
        return e->code;
    int64_t ok_ms = page.executions.n ? page.executions.v[0].completed_us / 1000 : 0;
    if (c.version != t.version && checks_begin(q, &t, ok_ms, &c, e))
        return e->code;
    if (!state || state - 1 == check_is_late(&c, ok_ms))
        checks_write(w, &t, &c, &x, ok_ms);
    return ERR_OK;
}

enum handled checks_list(struct request *q, struct reader *r)
{
    static const struct query_field fields[] = {
        { .name = "limit", .kind = QUERY_I64, .min = 1, .max = LIST_MAX },
        { .name = "cursor", .kind = QUERY_TEXT, .offset = offsetof(struct check_query, cursor), .max = SEAL_TEXT_MAX },
        { .name = "state", .kind = QUERY_CHOICE, .offset = offsetof(struct check_query, state), .names = check_states },
        { .name = "task", .kind = QUERY_ID, .offset = offsetof(struct check_query, task) },
    };
    struct check_query p = { .limit = LIST_DEFAULT };
    struct record_filter f = { .kind = RECORD_CHECK, .tenant = q->who.tenant };
    struct record_page page = { 0 };
    struct error e = { 0 };
    if (query_read(q->query, fields, array_count(fields), &p, &q->arena, &e) ||
        seal_open_id(q, p.cursor, &f.before, &e))
        return request_fail(q, &e);
    f.limit = (size_t)p.limit;
    f.incident = p.task;
    if (reader_records(r, &f, &q->arena, &page, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "checks");
    jw_array(&w);
    for (size_t i = 0; i < page.n; i++)
        if (checks_show(q, r, &w, &page.v[i], p.state, &e))
            return request_fail(q, &e);
    jw_array_end(&w);
    struct pagination shown = { .more = page.more, .limit = p.limit, .total = -1 };
    if (page.more)
        shown.next = page.v[page.n - 1].id;
    pagination_write(q, &w, &shown);
    jw_object_end(&w);
    return HANDLED_DONE;
}

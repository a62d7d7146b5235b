/* The history of a task: its attempts and, of a recurring task, its occurrences. */
#include "api/resource/listing.h"
#include "api/server/internal.h"
#include "api/task/json.h"

struct executions_query {
    unsigned results;
    int64_t limit;
    struct str cursor;
    struct uuid before; /* the cursor's */
};

static const struct query_field fields[] = {
    { .name = "status", .kind = QUERY_RESULTS, .offset = offsetof(struct executions_query, results) },
    { .name = "limit",
      .kind = QUERY_I64,
      .offset = offsetof(struct executions_query, limit),
      .min = 1,
      .max = LIST_MAX },
    { .name = "cursor", .kind = QUERY_TEXT, .offset = offsetof(struct executions_query, cursor), .max = SEAL_TEXT_MAX },
};

/* The attempt in progress has no row yet: it is shown from its task. */
static void executions_write_running(struct jw *w, const struct task *t, int64_t now_ms)
{
    char id[UUID_TEXT + 1], parent[UUID_TEXT + 1];
    uuid_format(t->id, id);
    uuid_format(t->parent, parent);
    bool occurrence = t->kind == TASK_OCCURRENCE;
    jw_object(w);
    jw_kv_cstr(w, "id", NULL);
    jw_kv_cstr(w, "task_id", occurrence ? parent : id);
    jw_kv_cstr(w, "occurrence_id", occurrence ? id : NULL);
    jw_kv_time(w, "scheduled_for", t->scheduled_ms);
    jw_kv_i64(w, "attempt_number", t->attempts + 1);
    jw_kv_cstr(w, "status", task_state_name(task_shown_state(t, now_ms)));
    jw_kv_time(w, "started_at", t->due_ms);
    static const char *const unknown[] = { "completed_at", "delay_ms",      "delay_cause", "worker",
                                           "http_status",  "error_message", "output",      "trace_id" };
    for (size_t i = 0; i < array_count(unknown); i++)
        jw_kv_cstr(w, unknown[i], NULL);
    jw_object_end(w);
}

static void executions_write_page(struct request *q, const struct task *t, const struct executions_query *p,
                                  const struct execution_page *page)
{
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "executions");
    jw_array(&w);
    bool first_page = uuid_is_nil(p->before) && !p->results;
    if (first_page && task_shown_state(t, q->now_ms) == TASK_RUNNING)
        executions_write_running(&w, t, q->now_ms);
    for (size_t i = 0; i < page->executions.n; i++)
        if (t->kind != TASK_OCCURRENCE || uuid_eq(page->executions.v[i].occurrence, t->id))
            execution_to_json(&w, &page->executions.v[i]);
    jw_array_end(&w);
    pagination_write(
        q, &w, &(struct pagination){ .more = page->more, .next = page->next_before, .limit = p->limit, .total = -1 });
    jw_object_end(&w);
}

enum handled executions_list(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct task t;
    struct executions_query p = { .limit = LIST_DEFAULT };
    struct execution_page page = { 0 };
    if (query_read(q->query, fields, array_count(fields), &p, &q->arena, &e) ||
        seal_open_id(q, p.cursor, &p.before, &e) || request_get_task(q, r, &t, &e))
        return request_fail(q, &e);
    struct execution_filter f = { .tenant = q->who.tenant, .statuses = p.results, .before = p.before, .may_lag = true };
    f.task = t.kind == TASK_OCCURRENCE ? t.parent : t.id;
    f.limit = (size_t)p.limit;
    if (reader_executions(r, &f, &q->arena, &page, &e))
        return request_fail(q, &e);
    executions_write_page(q, &t, &p, &page);
    return HANDLED_DONE;
}

enum handled occurrences_list(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct task t;
    struct listing l;
    if (!listing_read(q, LISTING_OCCURRENCES, &l))
        return HANDLED_DONE;
    if (request_get_task(q, r, &t, &e))
        return request_fail(q, &e);
    if (t.kind != TASK_RECURRING)
        return request_refuse(q, PROBLEM_NOT_FOUND, "only a recurring task has occurrences");
    return listing_answer(q, r, &l, (struct task_filter){ .parent = t.id });
}

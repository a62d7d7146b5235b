/* The history of a task: its attempts and, of a recurring task, its occurrences. */
#include <assert.h>

#include "api/resource/listing.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/task/json.h"
#include "api/workflow/run.h"

#define HISTORY_TIME_MAX (INT64_MAX / 1000000) /* in milliseconds: its microseconds can be counted */

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

/* A page of a task's attempts. The attempt in progress has no row yet: it is shown from its task. If the task is
 * RUNNING in the store, the node is asked whether and when it has started. */
struct executions_read {
    struct explain_answer answer;
    struct explain_facts facts; /* none: only its place in the node matters */
    struct request *q;
    struct task task;
    struct executions_query query;
    struct execution_page page;
    bool runs;
    int64_t started_ms; /* of the attempt in progress; 0: not known */
};

static void executions_write_running(struct jw *w, const struct executions_read *x)
{
    const struct task *t = &x->task;
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
    jw_kv_cstr(w, "status", task_state_name(TASK_RUNNING));
    jw_kv_time_or_null(w, "started_at", x->started_ms);
    static const char *const unknown[] = { "completed_at", "delay_ms",      "delay_cause", "worker",
                                           "http_status",  "error_message", "output",      "trace_id" };
    for (size_t i = 0; i < array_count(unknown); i++)
        jw_kv_cstr(w, unknown[i], NULL);
    jw_object_end(w);
}

static enum handled executions_write_page(const struct executions_read *x)
{
    struct request *q = x->q;
    const struct execution_page *page = &x->page;
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "executions");
    jw_array(&w);
    if (x->runs)
        executions_write_running(&w, x);
    for (size_t i = 0; i < page->executions.n; i++)
        if (x->task.kind != TASK_OCCURRENCE || uuid_eq(page->executions.v[i].occurrence, x->task.id))
            execution_to_json(&w, &page->executions.v[i]);
    jw_array_end(&w);
    pagination_write(
        q, &w,
        &(struct pagination){ .more = page->more, .next = page->next_before, .limit = x->query.limit, .total = -1 });
    jw_object_end(&w);
    return HANDLED_DONE;
}

static void executions_on_node_answer(struct explain_answer *a)
{
    struct executions_read *x = container_of(a, struct executions_read, answer);
    x->runs = !a->explanation.waits;
    x->started_ms = a->explanation.started_ms;
    executions_write_page(x);
    request_answer(x->q);
}

static enum err executions_read_page(struct executions_read *x, struct reader *r, struct error *e)
{
    struct request *q = x->q;
    struct executions_query *p = &x->query;
    if (query_read(q->query, fields, array_count(fields), p, &q->arena, e) ||
        seal_open_id(q, p->cursor, &p->before, e) || request_get_task(q, r, &x->task, e))
        return e->code;
    const struct task *t = &x->task;
    struct execution_filter f = {
        .tenant = q->who.tenant, .statuses = p->results, .before = p->before, .may_lag = true
    };
    f.task = t->kind == TASK_OCCURRENCE ? t->parent : t->id;
    f.limit = (size_t)p->limit;
    return reader_executions(r, &f, &q->arena, &x->page, e);
}

enum handled executions_list(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct executions_read *x = arena_new(&q->arena, struct executions_read);
    assert(x); /* there is room for a small object */
    x->q = q;
    x->query.limit = LIST_DEFAULT;
    if (executions_read_page(x, r, &e))
        return request_fail(q, &e);
    const struct task *t = &x->task;
    bool first_page = uuid_is_nil(x->query.before) && !x->query.results, leased = t->target == TARGET_WORKER;
    bool waits = task_awaits_attempt(t, q->now_ms); /* a run between its attempts */
    x->runs = first_page && !waits && task_shown_state(t, q->now_ms) == TASK_RUNNING;
    if (x->runs && leased)
        x->started_ms = task_leased_ms(t);
    if (!x->runs || leased || !q->server->setup.explain)
        return executions_write_page(x);
    x->answer = (struct explain_answer){ .done = executions_on_node_answer, .task = t, .facts = &x->facts };
    q->server->setup.explain(q->server->setup.context, &x->answer);
    return HANDLED_LATER;
}

/* ---- of all tasks ---- */

struct history_query {
    unsigned results;
    int64_t limit, from_ms, to_ms;
    struct str cursor, worker, queue, error;
    int steps; /* 2: true */
};

static enum err history_read_filter(struct request *q, struct history_query *p, struct history_filter *ret,
                                    struct error *e)
{
    enum { NOW_SLACK_MS = 60000 /* clocks of nodes differ */, ERROR_BYTES = 4096 };
    static const char *const yes_no_names[] = { "false", "true", NULL };
    static const struct query_field known[] = {
        { .name = "status", .kind = QUERY_RESULTS, .offset = offsetof(struct history_query, results) },
        { .name = "limit",
          .kind = QUERY_I64,
          .offset = offsetof(struct history_query, limit),
          .min = 1,
          .max = LIST_MAX },
        { .name = "cursor",
          .kind = QUERY_TEXT,
          .offset = offsetof(struct history_query, cursor),
          .max = SEAL_TEXT_MAX },
        { .name = "worker", .kind = QUERY_TEXT, .offset = offsetof(struct history_query, worker) },
        { .name = "queue", .kind = QUERY_TEXT, .offset = offsetof(struct history_query, queue) },
        { .name = "error", .kind = QUERY_TEXT, .offset = offsetof(struct history_query, error), .max = ERROR_BYTES },
        { .name = "from", .kind = QUERY_TIME, .offset = offsetof(struct history_query, from_ms) },
        { .name = "to", .kind = QUERY_TIME, .offset = offsetof(struct history_query, to_ms) },
        { .name = "steps",
          .kind = QUERY_CHOICE,
          .offset = offsetof(struct history_query, steps),
          .names = yes_no_names },
    };
    struct history_filter f = { .tenant = q->who.tenant, .may_lag = true };
    if (query_read(q->query, known, array_count(known), p, &q->arena, e) || seal_open_id(q, p->cursor, &f.before, e))
        return e->code;
    if (p->to_ms && query_check_range(p->from_ms, p->to_ms, e))
        return e->code;
    f.statuses = p->results;
    f.worker = p->worker;
    f.queue = p->queue;
    f.error = p->error;
    f.from_us = max_of(p->from_ms, (int64_t)0) * 1000;
    f.to_us = (p->to_ms > 0 ? min_of(p->to_ms, HISTORY_TIME_MAX) : q->now_ms + NOW_SLACK_MS) * 1000;
    f.limit = (size_t)p->limit;
    *ret = f;
    return ERR_OK;
}

/* Of a step of a workflow: its run and its name. Steps have no name of their own, and a list of ids tells nobody
 * anything. */
static void history_write_step(struct request *q, struct reader *r, struct jw *w, const struct history_row *row)
{
    struct arena_mark mark = arena_mark(&q->arena);
    struct error ignored;
    struct task t, run;
    struct str step;
    bool is_step = !row->name.n && row->queue.n &&
                   reader_get(r, q->who.tenant, row->execution.task, &q->arena, &t, &ignored) == ERR_OK &&
                   !uuid_is_nil(t.run);
    if (is_step && run_step_name(q, r, &t, &step, &ignored) == ERR_OK && step.n) {
        bool is_named = reader_get(r, q->who.tenant, t.run, &q->arena, &run, &ignored) == ERR_OK;
        jw_kv_uuid(w, "run", t.run);
        jw_kv_str_or_null(w, "run_name", is_named ? run.name : S(""));
        run_write_place(w, &t, step);
    }
    arena_rewind(&q->arena, mark);
}

enum handled executions_of_all(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct history_query p = { .limit = LIST_DEFAULT };
    struct history_filter f;
    struct history_page page = { 0 };
    if (history_read_filter(q, &p, &f, &e) || reader_history(r, &f, &q->arena, &page, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "executions");
    jw_array(&w);
    for (size_t i = 0; i < page.n; i++) {
        jw_object(&w);
        execution_facts(&w, &page.v[i].execution);
        jw_kv_str_or_null(&w, "task_name", page.v[i].name);
        jw_kv_str_or_null(&w, "queue", page.v[i].queue);
        if (p.steps == 2)
            history_write_step(q, r, &w, &page.v[i]);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    pagination_write(
        q, &w, &(struct pagination){ .more = page.more, .next = page.next_before, .limit = p.limit, .total = -1 });
    jw_object_end(&w);
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

/* The fire is at the time at which the node expects it, or else, as for other tasks that are held, at its own time. */
#include "api/forecast/due_task.h"

#include <assert.h>

#include "api/forecast/explain_shared.h"
#include "api/server/request_context.h"

struct due_task {
    struct explain_names names; /* the context of the request */
    struct explain_query *query;
    int64_t from_ms;
};

bool due_task_may_wait(const struct task *t, int64_t now_ms)
{
    bool waits = t->state == TASK_SCHEDULED || t->state == TASK_BLOCKED || t->state == TASK_RUNNING;
    bool is_leased = t->target == TARGET_WORKER && t->state == TASK_RUNNING;
    return waits && !is_leased && t->kind != TASK_RECURRING && t->due_ms <= now_ms &&
           !(t->links & (TASK_WAITS | TASK_OPEN | TASK_OPENED | TASK_AWAITS));
}

static void due_task_write(struct jw *w, const struct due_task *d, const struct explanation *x)
{
    const struct task *t = &d->query->row;
    bool runs = x->outcome == EXPLAIN_WILL_RUN, never = x->outcome == EXPLAIN_WILL_EXPIRED;
    int64_t at_ms = runs ? x->estimate_ms : t->due_ms;
    bool has_begun = x->gate == EXPLAIN_RUNNING || x->gate == EXPLAIN_LEASED;
    if (has_begun || (runs && at_ms < d->from_ms))
        return;
    jw_object(w);
    jw_kv_time(w, "at", at_ms);
    jw_kv_cstr(w, "note", never || !x->n ? x->text : x->steps[0].text);
    if (never)
        jw_kv_bool(w, "skipped", true);
    jw_object_end(w);
}

static void due_task_on_node_answer(struct explain_answer *a)
{
    struct explain_query *query = container_of(a, struct explain_query, answer);
    struct request *q = query->q;
    const struct due_task *d = container_of(q->context, const struct due_task, names);
    struct explanation *x = &a->explanation;
    explain_use_names(q, &query->facts, x);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_cstr(&w, "status", task_state_name(x->waits ? TASK_SCHEDULED : task_shown_state(&query->row, q->now_ms)));
    jw_key(&w, "upcoming");
    jw_array(&w);
    due_task_write(&w, d, x);
    jw_array_end(&w);
    jw_key(&w, "warnings");
    jw_array(&w);
    jw_array_end(&w);
    jw_object_end(&w);
    request_answer(q);
}

enum handled due_task_answer(struct request *q, struct reader *r, const struct task *t, int64_t from_ms)
{
    struct error e = { 0 };
    struct due_task *d = arena_new(&q->arena, struct due_task);
    assert(d); /* there is room for a small object */
    q->context = &d->names;
    d->from_ms = from_ms;
    d->query = explain_query_new(q, t);
    if (run_place_read(q, r, t, &d->names.place, &e))
        return request_fail(q, &e);
    return explain_ask_node(q, r, d->query, due_task_on_node_answer);
}

/* Runs of workflows, and steps whose call comes from a definition: the planner says what happens with a claimed one
 * (port/planner.h), and it is carried out here. While a task is planned, it is neither on the wheel nor ready.
 *
 * If an operation fails, or its answer is lost, the task is planned again: what was done already is found done, and if
 * the claim is over, the store says so. */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/scheduler/internal.h"
#include "port/planner.h"
#include "port/store/operation_table.h"

enum {
    PLAN_ARENA = 256 << 20,
    PLAN_ANSWER_ARENA = 1 << 20,
    PLAN_RETRY_MS = 200,
    PLANNED_BYTES = 64 << 20, /* of calls that are planned and not pushed */
    PLANNED_WAIT_MS = 5,
    ARRIVALS_WAIT_MS = 20,
    PLANS_MAX = 64, /* with the planner at once, or being stored; others wait in scheduler.to_plan */
    STOP_ROWS = 1000,
    STOPS_AT_ONCE = 32, /* runs within a run: the store commits what comes together once */
};

struct planning {
    struct plan plan;
    struct scheduler *scheduler;
    struct armed *armed;
    struct list link; /* in scheduler.planning */
    union {
        struct op op;
        struct op_open open;
        struct op_await await;
        struct op_stop stop;
        struct op_settle settle;
    };
    struct settlement settlement;
    struct task task;      /* PLAN_CALL: with its fields filled in */
    size_t opened;         /* rows of plan.open that are stored */
    size_t also;           /* of plan.open.also */
    size_t stopped;        /* of plan.stop.others: those that are stopped, or are being stopped */
    struct op_stop *stops; /* STOPS_AT_ONCE of these; NULL: none yet */
    size_t stopping;       /* of these: without an answer */
    bool disowned;         /* the task belongs to another node */
};

static void planning_free(struct planning *p)
{
    free(p->stops);
    arena_release(&p->plan.arena);
    free(p);
}

/* ---- calls that were planned ---- */

/* A task with the call that its plan gave it, until it has left the scheduler. */
struct planned_call {
    struct task task;
    struct list link; /* in claim.planned */
    size_t bytes;
    char texts[];
};

static struct planned_call *planned_call_new(const struct task *t, struct str config, struct str payload)
{
    size_t bytes = str_pack_size(config) + str_pack_size(payload);
    struct planned_call *x = xmalloc(sizeof *x + bytes);
    char *at = x->texts;
    x->task = *t;
    x->bytes = bytes;
    x->task.target_config = str_pack(config, &at);
    x->task.payload = str_pack(payload, &at);
    return x;
}

static void planned_call_free(struct scheduler *s, struct planned_call *x)
{
    list_remove(&x->link);
    s->planned_bytes -= x->bytes;
    free(x);
}

void scheduler_drop_planned(struct scheduler *s, struct armed *a)
{
    if (a->call)
        planned_call_free(s, take(a->call));
}

void scheduler_free_planned(struct scheduler *s, struct list *planned)
{
    while (!list_empty(planned))
        planned_call_free(s, container_of(planned->next, struct planned_call, link));
}

/* The planner takes one more: the most urgent task that waits for it is due once more. */
static void planning_next(struct scheduler *s)
{
    struct heap_node *next = heap_pop(&s->to_plan);
    if (next)
        wheel_add(&s->wheel, &container_of(next, struct armed, to_plan)->entry, s->now.wall_ms);
}

/* Ends the planning. False: the task belongs to another node by now. */
static bool planning_end(struct planning *p)
{
    struct claim *c = p->armed->claim;
    list_remove(&p->link);
    p->scheduler->planning_count--;
    planning_next(p->scheduler);
    if (!p->disowned)
        return true;
    planning_free(p);
    claim_unref(c);
    return false;
}

/* It is planned again after that time. */
static void planning_again(struct planning *p, int64_t in_ms)
{
    struct scheduler *s = p->scheduler;
    struct armed *a = p->armed;
    if (!planning_end(p))
        return;
    planning_free(p);
    scheduler_rearm(s, a, in_ms);
}

/* The claim on the task is over, by what was stored or by another node. */
static void planning_leave(struct planning *p)
{
    struct scheduler *s = p->scheduler;
    struct armed *a = p->armed;
    if (!planning_end(p))
        return;
    scheduler_rearm(s, a, 0);
    scheduler_on_settled(s, a->task->id, a->task->fence, NULL);
    planning_free(p);
}

static void planning_finish(struct planning *p);
static void planning_doubt(struct planning *p);

static void planning_fail(struct planning *p)
{
    struct str why;
    if (!arena_str(&p->plan.arena, str_from(p->op.error.text), &why))
        why = S("the run is too large");
    p->plan.outcome = (struct outcome){ .kind = OUTCOME_FAILED,
                                        .failure = FAILURE_REFUSED,
                                        .retry_after_ms = -1,
                                        .started_us = p->plan.now_ms * 1000,
                                        .completed_us = p->plan.now_ms * 1000,
                                        .error = why };
    planning_finish(p);
}

/* Whether the operation has failed; then the rest is done. */
static bool planning_failed(struct planning *p)
{
    if (!p->op.rc)
        return false;
    if (p->op.rc == ERR_CONFLICT && strcmp(p->op.error.field, "fence") == 0)
        planning_leave(p);
    else if (p->op.rc == ERR_LIMIT) /* the run is too large: to try again would not help */
        planning_fail(p);
    else {
        log_warn("workflow_failed", kv_str("operation", str_from(op_table[p->op.kind].name)), kv_err(&p->op.error));
        planning_doubt(p);
        planning_again(p, PLAN_RETRY_MS);
    }
    return true;
}

static void planning_submit_op(struct planning *p, struct op *op, void (*done)(struct op *op))
{
    arena_init(&op->arena, PLAN_ANSWER_ARENA);
    op->done = done;
    op->context = p;
    writer_submit(p->scheduler->setup.writer, op);
}

static void planning_submit(struct planning *p, void (*done)(struct op *op))
{
    planning_submit_op(p, &p->op, done);
}

/* ---- opening ---- */

static void planning_open_page(struct planning *p);

/* Lanes of rows that wait are known from now on: when they are released, only a bit of their lane is told. */
static void planning_know_rows(struct planning *p)
{
    struct scheduler *s = p->scheduler;
    for (size_t i = 0; i < p->open.n; i++) {
        const struct task *t = &p->open.rows[i].task;
        if (task_is_final(t->state))
            continue;
        struct lane_entry *lane = lanes_know(s->lanes, task_lane(t));
        if (t->state == TASK_SCHEDULED)
            lanes_due(s->lanes, lane, t->due_ms, false);
        if (task_is_leased(t) || t->expires_after_ms)
            s->setup.nudge(s->setup.context, t);
    }
}

/* The task goes on in this lane, with these bits. */
static struct lane_entry *planning_know_task(struct planning *p, int links)
{
    struct task after = *p->armed->task;
    after.links |= links;
    return lanes_know(p->scheduler->lanes, task_lane(&after));
}

static void planning_tell_opened(struct planning *p)
{
    const struct scheduler_setup *setup = &p->scheduler->setup;
    if (setup->opened)
        setup->opened(setup->context, p->armed->task);
}

static void planning_on_opened(struct op *op)
{
    struct planning *p = op->context;
    struct scheduler *s = p->scheduler;
    arena_release(&op->arena);
    if (planning_failed(p))
        return;
    if (p->open.ret_stopped) {
        planning_again(p, 0);
        return;
    }
    if (p->open.ret_arrivals_left) {
        s->setup.unblocked(s->setup.context, UINT64_MAX); /* asks for them */
        planning_again(p, ARRIVALS_WAIT_MS);
        return;
    }
    if (p->open.first && (p->open.again || !(p->armed->task->links & TASK_OPENED)))
        planning_tell_opened(p);
    planning_know_rows(p);
    (void)planning_know_task(p, TASK_OPENED); /* first: if no row has to run, its lane is told, too */
    s->setup.unblocked(s->setup.context, p->open.ret_unblocked_lanes);
    p->opened += p->open.n;
    p->also += p->open.also_count;
    if (!p->open.last) {
        planning_open_page(p);
        return;
    }
    planning_leave(p);
}

static void planning_open_page(struct planning *p)
{
    const struct op_open *all = &p->plan.open;
    size_t rows = p->scheduler->setup.open_rows ? p->scheduler->setup.open_rows : OPEN_ROWS_MAX;
    p->open = *all;
    p->open.op = (struct op){ .kind = OP_OPEN };
    p->open.first = all->first && p->opened == 0 && p->also == 0;
    p->open.begin = p->open.first ? all->begin : NULL;
    p->open.rows = all->n ? all->rows + p->opened : NULL;
    p->open.n = min_of(all->n - p->opened, rows);
    p->open.also = all->also_count ? all->also + p->also : NULL;
    p->open.also_count = min_of(all->also_count - p->also, (size_t)OPEN_ROWS_MAX);
    p->open.last = p->opened + p->open.n == all->n && p->also + p->open.also_count == all->also_count;
    /* The first page says when the run began, and its row says the same. */
    p->open.now_ms = p->open.first ? p->plan.now_ms : p->scheduler->now.wall_ms;
    planning_submit(p, planning_on_opened);
}

/* ---- waiting for a signal ---- */

static void planning_know_await(struct planning *p)
{
    struct lane_entry *lane = planning_know_task(p, TASK_AWAITS);
    int64_t started_ms = p->armed->task->started_ms;
    if (p->plan.await.timeout_ms)
        lanes_due(p->scheduler->lanes, lane, (started_ms ? started_ms : p->await.now_ms) + p->plan.await.timeout_ms,
                  false);
}

static void planning_on_awaits(struct op *op)
{
    struct planning *p = op->context;
    struct scheduler *s = p->scheduler;
    arena_release(&op->arena);
    if (planning_failed(p))
        return;
    if (!(p->armed->task->links & TASK_AWAITS))
        planning_tell_opened(p);
    planning_know_await(p);
    s->setup.unblocked(s->setup.context, p->await.ret_unblocked_lanes);
    planning_leave(p);
}

static void planning_await(struct planning *p)
{
    const struct task *t = p->armed->task;
    p->await = (struct op_await){ .op = { .kind = OP_AWAIT },
                                  .id = t->id,
                                  .fence = t->fence,
                                  .signal = p->plan.await.signal,
                                  .seen = p->plan.await.seen,
                                  .timeout_ms = p->plan.await.timeout_ms,
                                  .now_ms = p->scheduler->now.wall_ms };
    planning_submit(p, planning_on_awaits);
}

/* ---- stopping runs ---- */

static struct op_stop planning_stop_of(const struct planning *p, struct uuid run)
{
    return (struct op_stop){ .op = { .kind = OP_STOP },
                             .tenant = p->armed->task->tenant,
                             .run = run,
                             .change = p->plan.stop.stop ? RUN_CANCEL : RUN_CLOSE,
                             .stop = p->plan.stop.stop,
                             .has_range = p->plan.stop.has_range,
                             .from = p->plan.stop.from,
                             .to = p->plan.stop.to,
                             .why = p->plan.stop.why,
                             .max = STOP_ROWS,
                             .now_ms = p->scheduler->now.wall_ms };
}

/* Whether the run is stopped, or was purged or has ended meanwhile. False: there is more of it, or the store failed. */
static bool planning_take_stop(struct planning *p, struct op_stop *op)
{
    struct scheduler *s = p->scheduler;
    bool gone = op->op.rc == ERR_NOT_FOUND || op->op.rc == ERR_CONFLICT;
    if (!op->op.rc) {
        /* If only what waits is closed, what runs ends by itself. */
        for (size_t i = 0; p->plan.stop.stop && i < op->ret_running_count; i++)
            s->setup.abort(s->setup.context, &op->ret_running[i]);
        s->setup.unblocked(s->setup.context, op->ret_unblocked_lanes);
    }
    arena_release(&op->op.arena);
    return gone || (!op->op.rc && !op->ret_more);
}

static void planning_on_other_stopped(struct op *op);

/* The next ones of plan.stop.others, together. */
static void planning_stop_others(struct planning *p)
{
    size_t n = min_of(p->plan.stop.other_count - p->stopped, (size_t)STOPS_AT_ONCE);
    if (n == 0) {
        planning_again(p, 0);
        return;
    }
    if (!p->stops)
        p->stops = xcalloc(STOPS_AT_ONCE, sizeof *p->stops);
    p->stopping = n;
    for (size_t i = 0; i < n; i++)
        p->stops[i] = planning_stop_of(p, p->plan.stop.others[p->stopped++]);
    for (size_t i = 0; i < n; i++)
        planning_submit_op(p, &p->stops[i].op, planning_on_other_stopped);
}

static void planning_on_other_stopped(struct op *op)
{
    struct planning *p = op->context;
    struct op_stop *stop = (struct op_stop *)op;
    bool done = planning_take_stop(p, stop);
    if (!done && !op->rc) {
        *stop = planning_stop_of(p, stop->run);
        planning_submit_op(p, op, planning_on_other_stopped);
        return;
    }
    if (!done)
        p->stop = *stop;
    if (--p->stopping)
        return;
    if (!planning_failed(p))
        planning_stop_others(p);
}

static void planning_stop(struct planning *p);

static void planning_on_stopped(struct op *op)
{
    struct planning *p = op->context;
    bool done = planning_take_stop(p, &p->stop);
    if (!done && planning_failed(p))
        return;
    p->op.rc = ERR_OK;
    if (done)
        planning_stop_others(p);
    else
        planning_stop(p);
}

static void planning_stop(struct planning *p)
{
    p->stop = planning_stop_of(p, p->plan.stop.run);
    planning_submit(p, planning_on_stopped);
}

/* ---- calls that are stored ---- */

static void planning_on_kept(struct op *op)
{
    struct planning *p = op->context;
    struct scheduler *s = p->scheduler;
    arena_release(&op->arena);
    if (planning_failed(p))
        return;
    s->setup.unblocked(s->setup.context, op_unblocked(p->settle.ret_unblocked_lanes, p->settle.ret_arrivals_left));
    if (!p->settlement.stale)
        s->setup.nudge(s->setup.context, &p->task);
    planning_leave(p);
}

static void planning_keep(struct planning *p)
{
    p->task.state = TASK_SCHEDULED;
    p->task.links &= ~TASK_PLANNED;
    p->task.claim = (struct uuid){ { 0 } };
    p->task.updated_ms = p->scheduler->now.wall_ms;
    p->settlement =
        (struct settlement){ .id = p->task.id, .fence = p->task.fence, .tenant = p->task.tenant, .replace = &p->task };
    p->settle = (struct op_settle){
        .op = { .kind = OP_SETTLE }, .v = &p->settlement, .n = 1, .now_ms = p->scheduler->now.wall_ms
    };
    planning_submit(p, planning_on_kept);
}

/* The operation may have been stored, and only its answer lost. Then the task is not this node's any more, and nobody
 * else says which lanes have something to claim now. */
static void planning_doubt(struct planning *p)
{
    struct scheduler *s = p->scheduler;
    if (p->op.kind == OP_OPEN) {
        planning_know_rows(p);
        (void)planning_know_task(p, TASK_OPENED);
    } else if (p->op.kind == OP_AWAIT) {
        planning_know_await(p);
    } else if (p->op.kind == OP_SETTLE) {
        s->setup.nudge(s->setup.context, &p->task);
    }
    s->setup.unblocked(s->setup.context, UINT64_MAX);
}

/* ---- plans ---- */

/* The task goes on as any other, with the call that the plan gives it. */
static void planning_call(struct planning *p)
{
    struct scheduler *s = p->scheduler;
    struct armed *a = p->armed;
    p->task = *a->task;
    p->task.target_config = p->plan.target_config;
    p->task.payload = p->plan.payload;
    if (p->plan.keeps) {
        planning_keep(p);
        return;
    }
    if (!planning_end(p))
        return;
    a->call = planned_call_new(a->task, p->plan.target_config, p->plan.payload);
    a->task = &a->call->task;
    list_push(&a->claim->planned, &a->call->link);
    s->planned_bytes += a->call->bytes;
    planning_free(p);
    /* The clock may have been set back meanwhile. */
    bool ends = a->held->taken_back || a->held->wanted_back || a->held->replaced;
    scheduler_rearm(s, a, ends ? 0 : max_of(a->task->due_ms - s->now.wall_ms, (int64_t)0));
}

static void planning_finish(struct planning *p)
{
    struct scheduler *s = p->scheduler;
    struct armed *a = p->armed;
    if (!planning_end(p))
        return;
    scheduler_rearm(s, a, 0);
    scheduler_off_wheel(s, a);
    scheduler_end_as(s, a, &p->plan.outcome);
    planning_free(p);
}

static void planning_on_planned(struct plan *plan)
{
    struct planning *p = container_of(plan, struct planning, plan);
    if (plan->rc) {
        log_warn("plan_failed", kv_err(&plan->error));
        planning_again(p, PLAN_RETRY_MS);
        return;
    }
    if (p->disowned || p->scheduler->draining) { /* the wheel returns it */
        planning_again(p, 0);
        return;
    }
    switch (plan->kind) {
    case PLAN_CALL: planning_call(p); break;
    case PLAN_END: planning_finish(p); break;
    case PLAN_OPEN: planning_open_page(p); break;
    case PLAN_AWAIT: planning_await(p); break;
    case PLAN_STOP: planning_stop(p); break;
    }
}

void scheduler_plan(struct scheduler *s, struct armed *a)
{
    if (!s->setup.planner) {
        wheel_add(&s->wheel, &a->entry, s->now.wall_ms + PLAN_RETRY_MS);
        return;
    }
    if (s->planned_bytes >= PLANNED_BYTES) { /* calls that wait for a place */
        wheel_add(&s->wheel, &a->entry, s->now.wall_ms + PLANNED_WAIT_MS);
        return;
    }
    if (s->planning_count >= PLANS_MAX) {
        heap_push(&s->to_plan, &a->to_plan,
                  lane_order_ms(&(struct lane){ .priority = a->task->priority }, a->task->due_ms));
        return;
    }
    struct planning *p = xnew(*p);
    p->scheduler = s;
    p->armed = a;
    p->plan = (struct plan){ .task = a->task, .now_ms = s->now.wall_ms, .done = planning_on_planned };
    arena_init(&p->plan.arena, PLAN_ARENA);
    scheduler_off_list(s, a);
    a->held->where = HELD_PLANNING;
    list_push(&s->planning, &p->link);
    s->planning_count++;
    planner_submit(s->setup.planner, &p->plan);
}

void scheduler_disown_plans(struct scheduler *s)
{
    list_each (&s->planning, link)
        container_of(link, struct planning, link)->disowned = true;
}

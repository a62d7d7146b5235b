#include "role/node.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum { RECOVER_BATCH = 1000, RECOVER_ARENA = 256 << 20, RECOVER_RETRY_MS = 500, RECALL_RETRY_MS = 200 };

/* What a process before this one had claimed when it died: asked for and settled batch by batch, until nothing is left. A
 * settlement that failed is just asked for again: what was applied is not held any more. */
struct recovery {
    union {
        struct op op;
        struct op_held held;
        struct op_settle settle;
    };
    struct arena arena; /* of what is being settled */
    struct tasks tasks;
    int64_t ask_at_ms;
    bool in_flight, over;
    size_t total;
};

struct node {
    struct node_setup setup;
    struct uuid id;
    struct scheduler *scheduler;
    struct worker *worker;
    struct updater *updater;
    struct recovery recovery;
    struct prng random;
    size_t recalls; /* with the writer */
    struct list waiting_recalls;
    int64_t now_ms;
    bool draining;
};

static void settled(void *context, const struct event *e, const struct settlement *s)
{
    struct node *n = context;
    scheduler_freed(n->scheduler, e->task.id, e->task.fence);
    /* Its lane is known: it was claimed from it. A stale one may be our own, applied before and its answer lost. */
    if (s->verdict.next == TASK_SCHEDULED)
        scheduler_nudge_due(n->scheduler, s->verdict.due_ms);
    if (n->setup.observe)
        n->setup.observe(n->setup.observe_context, e, s);
}

struct node *node_new(const struct node_setup *setup, int64_t now_ms)
{
    struct node *n = xnew(*n);
    struct uuid_gen ids;
    n->setup = *setup;
    n->now_ms = now_ms;
    list_init(&n->waiting_recalls);
    uuid_gen_init(&ids, setup->seed);
    n->id = uuid_next(&ids, now_ms);
    prng_init(&n->random, setup->seed + 3);
    n->scheduler = scheduler_new(&(struct scheduler_setup){ .writer = setup->writer,
                                                            .queue = setup->queue,
                                                            .zones = setup->zones,
                                                            .metrics = setup->metrics,
                                                            .node = n->id,
                                                            .seed = setup->seed + 1,
                                                            .slots = setup->slots,
                                                            .spawn_ahead_ms = setup->spawn_ahead_ms,
                                                            .arm_min_ms = setup->arm_min_ms,
                                                            .arm_max_ms = setup->arm_max_ms,
                                                            .poll_ms = setup->poll_ms },
                                 now_ms);
    struct worker_setup worker = { .queue = setup->queue,
                                   .events = setup->events,
                                   .metrics = setup->metrics,
                                   .id = n->id,
                                   .name = setup->name,
                                   .slots = setup->slots,
                                   .visibility_ms = setup->visibility_ms };
    memcpy(worker.runners, setup->runners, sizeof worker.runners);
    n->worker = worker_new(&worker);
    n->updater = updater_new(&(struct updater_setup){ .events = setup->events,
                                                      .writer = setup->writer,
                                                      .metrics = setup->metrics,
                                                      .seed = setup->seed + 2,
                                                      .settled = settled,
                                                      .context = n });
    n->recovery.ask_at_ms = now_ms;
    return n;
}

void node_free(struct node *n)
{
    if (!n)
        return;
    assert(n->recalls == 0 && !n->recovery.in_flight);
    scheduler_free(n->scheduler);
    worker_free(n->worker);
    updater_free(n->updater);
    free(n);
}

/* ---- recovery ---- */

static void recovery_failed(struct node *n, const struct op *op)
{
    log_warn("recovery_failed", kv_err(&op->error));
    n->recovery.ask_at_ms = n->now_ms + RECOVER_RETRY_MS;
}

static void lost_done(struct op *op)
{
    struct node *n = op->context;
    struct recovery *r = &n->recovery;
    r->in_flight = false;
    if (op->rc)
        recovery_failed(n, op);
    for (size_t i = 0; i < r->settle.n; i++) {
        const struct verdict *v = &r->settle.v[i].verdict;
        scheduler_know_lane(n->scheduler, task_lane(&r->tasks.v[i]));
        if (v->next == TASK_SCHEDULED) /* if the answer was lost, it is so all the same */
            scheduler_nudge_due(n->scheduler, v->due_ms);
        if (op->rc == ERR_OK && v->has_execution)
            metric_add(n->setup.metrics, METRIC_TASKS_RECOVERED, 1);
    }
    r->total += op->rc ? 0 : r->settle.n;
    free(r->settle.v);
    arena_release(&op->arena);
    arena_release(&r->arena);
}

/* What was due may have fired, what was not yet due cannot have; unless the clock was set back since. Then the claim's id was
 * made in what is now the future; and what is to run at most once is never claimed before its time. */
static bool may_have_fired(const struct node *n, const struct task *t)
{
    return t->due_ms <= n->now_ms || t->delivery == DELIVER_AT_MOST_ONCE || uuid_time_ms(t->claim) > n->now_ms;
}

static void settle_lost(struct node *n)
{
    struct recovery *r = &n->recovery;
    r->settle = (struct op_settle){
        .op = { .kind = OP_SETTLE, .done = lost_done, .context = n },
        .v = xcalloc(r->tasks.n, sizeof *r->settle.v),
        .n = r->tasks.n,
        .now_ms = n->now_ms,
    };
    arena_init(&r->op.arena, 4096);
    for (size_t i = 0; i < r->tasks.n; i++) {
        const struct task *t = &r->tasks.v[i];
        struct settle_facts facts = settle_facts_of(t);
        struct outcome o = { .kind = may_have_fired(n, t) ? OUTCOME_LOST : OUTCOME_RETURNED, .retry_after_ms = -1 };
        r->settle.v[i] = (struct settlement){
            .id = t->id, .fence = t->fence, .parent = t->parent, .verdict = settle(&facts, &o, n->now_ms, &n->random)
        };
    }
    r->in_flight = true;
    writer_submit(n->setup.writer, &r->op);
}

static void held_done(struct op *op)
{
    struct node *n = op->context;
    struct recovery *r = &n->recovery;
    r->in_flight = false;
    r->arena = op->arena;
    r->tasks = r->held.ret;
    if (op->rc == ERR_OK && r->tasks.n) {
        settle_lost(n);
        return;
    }
    if (op->rc)
        recovery_failed(n, op);
    else
        r->over = true;
    if (r->over && r->total)
        log_info("recovered", kv_i64("tasks", (int64_t)r->total));
    arena_release(&r->arena);
}

static void recover(struct node *n)
{
    struct recovery *r = &n->recovery;
    if (r->over || r->in_flight || n->draining || n->now_ms < r->ask_at_ms)
        return;
    r->held = (struct op_held){ .op = { .kind = OP_HELD, .done = held_done, .context = n },
                                .not_node = n->id,
                                .max = RECOVER_BATCH };
    arena_init(&r->op.arena, RECOVER_ARENA);
    r->in_flight = true;
    writer_submit(n->setup.writer, &r->op);
}

/* ---- recall ---- */

static void submit_recall(struct node *n, struct recall *r)
{
    n->recalls++;
    r->op.op.rc = ERR_OK;
    writer_submit(n->setup.writer, &r->op.op);
}

/* It is off the wheel and nobody else's: if the store could not take the settlement, it is sent again until it does. */
static void recall_settled(struct op *op)
{
    struct recall *r = container_of(op, struct recall, op.op);
    struct node *n = r->node;
    n->recalls--;
    if (op->rc) {
        log_warn("recall_failed", kv_uuid("task", r->id), kv_err(&op->error));
        r->tried = true;
        r->retry_at_ms = n->now_ms + RECALL_RETRY_MS;
        list_push(&n->waiting_recalls, &r->link);
        return;
    }
    scheduler_freed(n->scheduler, r->id, r->fence);
    /* Nobody else could settle it: stale at a second try means that the first was applied and its answer lost. */
    r->result = r->settlement.stale && !r->tried ? RECALL_RUNNING : RECALL_DONE;
    if (r->result == RECALL_DONE && r->replace->state == TASK_SCHEDULED) /* who asked may not wait for us any more */
        scheduler_nudge(n->scheduler, r->replace, n->now_ms);
    arena_release(&op->arena);
    r->done(r);
}

static int64_t retry_recalls(struct node *n)
{
    int64_t wake = INT64_MAX;
    list_each (&n->waiting_recalls, link) {
        struct recall *r = container_of(link, struct recall, link);
        if (r->retry_at_ms <= n->now_ms) {
            list_remove(link);
            submit_recall(n, r);
        } else {
            wake = min_of(wake, r->retry_at_ms);
        }
    }
    return wake;
}

void node_recall(struct node *n, struct recall *r)
{
    bool recalled = scheduler_unarm(n->scheduler, r->id, r->fence);
    struct error e;
    if (!recalled && queue_recall(n->setup.queue, (struct delivery_id){ r->id, r->fence }, &recalled, &e))
        recalled = false;
    if (!recalled) {
        r->known = scheduler_holds(n->scheduler, r->id, r->fence);
        r->result = r->abort && worker_abort(n->worker, r->id, r->fence) ? RECALL_ABORTING : RECALL_RUNNING;
        r->done(r);
        return;
    }
    r->node = n;
    r->tried = false;
    r->settlement = (struct settlement){ .id = r->id, .fence = r->fence, .replace = r->replace };
    r->op = (struct op_settle){
        .op = { .kind = OP_SETTLE, .done = recall_settled }, .v = &r->settlement, .n = 1, .now_ms = n->now_ms
    };
    arena_init(&r->op.op.arena, 4096);
    submit_recall(n, r);
}

/* ---- drain ---- */

static void hand_back(void *context, const struct task *t)
{
    struct node *n = context;
    struct event ev = { .task = settle_facts_of(t), .outcome = { .kind = OUTCOME_RETURNED, .retry_after_ms = -1 } };
    struct error e;
    if (events_publish(n->setup.events, &ev, 1, &e)) /* it will be found by who recovers */
        log_warn("hand_back_failed", kv_uuid("task", t->id), kv_err(&e));
}

void node_drain(struct node *n)
{
    n->draining = true;
    worker_stop_taking(n->worker);
}

void node_give_up(struct node *n)
{
    worker_give_up(n->worker);
}

static void drain_queue(struct node *n)
{
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, RECOVER_ARENA);
    struct take all = {
        .max = TAKE_MAX, .now_ms = n->now_ms, .visibility_ms = n->setup.visibility_ms, .worker = n->id
    };
    struct tasks waiting = { 0 };
    struct error e;
    while (queue_depth(n->setup.queue) && queue_take(n->setup.queue, &all, &a, &waiting, &e) == ERR_OK && waiting.n) {
        for (size_t i = 0; i < waiting.n; i++) {
            struct delivery_id d = { waiting.v[i].id, waiting.v[i].fence };
            hand_back(n, &waiting.v[i]);
            if (queue_ack(n->setup.queue, &d, 1, &e))
                log_warn("ack_failed", kv_err(&e));
        }
    }
}

bool node_is_idle(const struct node *n)
{
    return scheduler_is_idle(n->scheduler) && worker_running(n->worker) == 0 && worker_unpublished(n->worker) == 0 &&
           updater_is_idle(n->updater) && n->recalls == 0 && list_empty(&n->waiting_recalls) &&
           !n->recovery.in_flight && queue_depth(n->setup.queue) == 0;
}

/* ---- doors ---- */

/* Whatever waits for a time does not wait for the one that the clock showed before. */
static void clock_set_back(struct node *n, int64_t now_ms)
{
    scheduler_clock_set_back(n->scheduler, now_ms);
    n->recovery.ask_at_ms = now_ms;
    list_each (&n->waiting_recalls, link)
        container_of(link, struct recall, link)->retry_at_ms = now_ms;
}

int64_t node_step(struct node *n, int64_t now_us)
{
    int64_t now_ms = now_us / 1000;
    if (now_ms < n->now_ms)
        clock_set_back(n, now_ms);
    n->now_ms = now_ms;
    recover(n);
    if (n->draining) {
        scheduler_drain(n->scheduler, hand_back, n);
        drain_queue(n);
    }
    int64_t wake = scheduler_step(n->scheduler, now_ms);
    wake = min_of(wake, worker_step(n->worker, now_ms));
    wake = min_of(wake, updater_step(n->updater, now_ms));
    wake = min_of(wake, retry_recalls(n));
    if (!n->recovery.over && !n->recovery.in_flight && !n->draining)
        wake = min_of(wake, n->recovery.ask_at_ms);
    return wake;
}

void node_know_lane(struct node *n, struct lane lane)
{
    scheduler_know_lane(n->scheduler, lane);
}

void node_nudge(struct node *n, const struct task *tasks, size_t count, int64_t now_ms)
{
    for (size_t i = 0; i < count; i++)
        if (tasks[i].state == TASK_SCHEDULED)
            scheduler_nudge(n->scheduler, &tasks[i], now_ms);
}

struct node_status node_status(const struct node *n)
{
    return (struct node_status){
        .scheduler = scheduler_status(n->scheduler),
        .id = n->id,
        .running = worker_running(n->worker),
        .queued = queue_depth(n->setup.queue),
        .recovering = !n->recovery.over,
        .draining = n->draining,
    };
}

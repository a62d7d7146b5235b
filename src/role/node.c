#include "role/node.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "role/missed.h"
#include "role/recovery.h"

enum {
    DRAIN_ARENA = 256 << 20,
    RECALL_ARENA = 4096,
    RECALL_RETRY_MS = 200,
    STALL_MS = 2500, /* a step that comes so much later than it was asked for: nobody was running */
};

struct node {
    struct node_setup setup;
    struct uuid id;
    struct scheduler *scheduler;
    struct worker *worker;
    struct updater *updater;
    struct recovery *recovery;
    struct missed *missed;
    struct prng random;
    size_t recalls; /* with the writer */
    struct list waiting_recalls;
    int64_t now_ms;
    int64_t expected_ms; /* the next step at the latest; while an operation is in flight: soon */
    bool draining;
};

static void settled(void *context, const struct event *e, const struct settlement *s)
{
    struct node *n = context;
    scheduler_freed(n->scheduler, e->task.id, e->task.fence, &s->verdict);
    worker_settled(n->worker, e->task.id, e->task.fence);
    if (n->setup.observe)
        n->setup.observe(n->setup.observe_context, e, s);
}

static void woke(void *context, uint64_t lanes)
{
    struct node *n = context;
    scheduler_woke(n->scheduler, lanes);
}

/* Whoever recovers knows the lane of what it finds, too. */
static void found(void *context, const struct task *t)
{
    struct node *n = context;
    scheduler_nudge(n->scheduler, t, n->now_ms);
}

static void nothing_is_missed(void *context)
{
    struct node *n = context;
    scheduler_let_go(n->scheduler);
}

static bool end_claim(void *context, const struct task *t, const struct outcome *o)
{
    struct node *n = context;
    struct event ev = { .task = settle_facts_of(t, o, NULL), .outcome = *o };
    struct error e;
    if (events_publish(n->setup.events, &ev, 1, &e) == ERR_OK)
        return true;
    log_warn("publish_failed", kv_err(&e), kv_uuid("task", t->id));
    return false;
}

static void gated(void *context, const struct task *t)
{
    struct node *n = context;
    if (n->setup.observe_gated)
        n->setup.observe_gated(n->setup.observe_context, t);
}

/* Whether it waits on the wheel, in the queue or runs: it ends as cancelled, and gives its slot away with that. */
static void replaced(void *context, const struct replaced *r)
{
    struct node *n = context;
    char text[SLOT_REASON_MAX];
    struct str why = slot_replace_reason(r->by_scheduled_ms, text);
    if (!scheduler_holds(n->scheduler, r->id, r->fence)) /* it has ended, and is being settled as what it was */
        return;
    metric_add(n->setup.metrics, METRIC_TASKS_REPLACED, 1);
    if (!scheduler_replace(n->scheduler, r->id, r->fence, why))
        worker_replace(n->worker, r->id, r->fence, why);
}

static void make_worker(struct node *n)
{
    const struct node_setup *setup = &n->setup;
    struct worker_setup worker = { .queue = setup->queue,
                                   .events = setup->events,
                                   .metrics = setup->metrics,
                                   .id = n->id,
                                   .name = setup->name,
                                   .slots = setup->slots,
                                   .visibility_ms = setup->visibility_ms,
                                   .hash = { setup->seed, ~setup->seed } };
    memcpy(worker.runners, setup->runners, sizeof worker.runners);
    n->worker = worker_new(&worker);
}

static void make_scheduler(struct node *n, int64_t now_ms)
{
    const struct node_setup *setup = &n->setup;
    n->scheduler = scheduler_new(&(struct scheduler_setup){ .writer = setup->writer,
                                                            .queue = setup->queue,
                                                            .zones = setup->zones,
                                                            .book = setup->book,
                                                            .breakers = worker_breakers(n->worker),
                                                            .metrics = setup->metrics,
                                                            .node = n->id,
                                                            .seed = setup->seed + 1,
                                                            .slots = setup->slots,
                                                            .spawn_ahead_ms = setup->spawn_ahead_ms,
                                                            .arm_min_ms = setup->arm_min_ms,
                                                            .arm_max_ms = setup->arm_max_ms,
                                                            .poll_ms = setup->poll_ms,
                                                            .end = end_claim,
                                                            .gated = gated,
                                                            .replaced = replaced,
                                                            .context = n },
                                 now_ms);
}

struct node *node_new(const struct node_setup *setup, int64_t now_ms)
{
    struct node *n = xnew(*n);
    struct uuid_gen ids;
    n->setup = *setup;
    n->now_ms = n->expected_ms = now_ms;
    prng_init(&n->random, setup->seed + 4);
    list_init(&n->waiting_recalls);
    uuid_gen_init(&ids, setup->seed);
    n->id = uuid_next(&ids, now_ms);
    make_worker(n);
    make_scheduler(n, now_ms);
    n->updater = updater_new(&(struct updater_setup){ .events = setup->events,
                                                      .writer = setup->writer,
                                                      .metrics = setup->metrics,
                                                      .seed = setup->seed + 2,
                                                      .settled = settled,
                                                      .woke = woke,
                                                      .context = n });
    n->recovery = recovery_new(&(struct recovery_setup){ .writer = setup->writer,
                                                         .metrics = setup->metrics,
                                                         .node = n->id,
                                                         .seed = setup->seed + 3,
                                                         .nudge = found,
                                                         .woke = woke,
                                                         .context = n },
                               now_ms);
    n->missed =
        missed_new(&(struct missed_setup){ .writer = setup->writer, .over = nothing_is_missed, .context = n }, now_ms);
    return n;
}

void node_free(struct node *n)
{
    if (!n)
        return;
    assert(n->recalls == 0);
    recovery_free(n->recovery);
    missed_free(n->missed);
    scheduler_free(n->scheduler);
    worker_free(n->worker);
    updater_free(n->updater);
    free(n);
}

/* ---- recall ---- */

static void submit_recall(struct node *n, struct recall *r)
{
    n->recalls++;
    r->op.op.rc = ERR_OK;
    writer_submit(n->setup.writer, &r->op.op);
}

/* Its key has a record: the first try was applied and its answer lost, or the same request was answered another way. It is off
 * the wheel all the same, so it is handed back as it was: stale, if it is the replacement already. */
static void hand_back_instead(struct node *n, struct recall *r)
{
    struct outcome o = { .kind = OUTCOME_RETURNED, .retry_after_ms = -1 };
    struct arena *a = &r->op.op.arena;
    struct settle_facts facts = settle_facts_of(r->running, &o, a);
    r->settlement.verdict = settle(&facts, &o, n->now_ms, &n->random, a);
    r->settlement.replace = NULL;
    r->op.idempotency = NULL;
    submit_recall(n, r);
}

static void try_recall_again(struct node *n, struct recall *r)
{
    log_warn("recall_failed", kv_uuid("task", r->running->id), kv_err(&r->op.op.error));
    r->tried = true;
    r->retry_at_ms = n->now_ms + RECALL_RETRY_MS;
    list_push(&n->waiting_recalls, &r->link);
    scheduler_woke(n->scheduler, UINT64_MAX);
}

/* It is off the wheel and nobody else's: if the store could not take the settlement, it is sent again until it does. */
static void recall_settled(struct op *op)
{
    struct recall *r = container_of(op, struct recall, op.op);
    struct node *n = r->node;
    n->recalls--;
    if (op->rc == ERR_CONFLICT) {
        hand_back_instead(n, r);
        return;
    }
    if (op->rc) {
        try_recall_again(n, r);
        return;
    }
    scheduler_freed(n->scheduler, r->running->id, r->running->fence, NULL);
    worker_settled(n->worker, r->running->id, r->running->fence);
    scheduler_woke(n->scheduler, r->op.ret_woke);
    /* Nobody else could settle it: stale at a second try means that the first was applied and its answer lost. */
    bool applied = !r->settlement.stale || r->tried;
    r->result = !r->settlement.replace ? RECALL_ANSWERED : applied ? RECALL_DONE : RECALL_RUNNING;
    if (applied && r->replace->state == TASK_SCHEDULED) /* who asked may not wait for us any more */
        scheduler_nudge(n->scheduler, r->replace, n->now_ms);
    if (r->result == RECALL_ANSWERED)
        scheduler_nudge(n->scheduler, r->running, n->now_ms);
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
    struct delivery_id d = { r->running->id, r->running->fence };
    bool recalled = scheduler_unarm(n->scheduler, d.task, d.fence);
    struct error e;
    if (!recalled && queue_recall(n->setup.queue, d, &recalled, &e))
        recalled = false;
    if (!recalled) {
        r->known = scheduler_holds(n->scheduler, d.task, d.fence);
        r->result = r->abort && worker_abort(n->worker, d.task, d.fence) ? RECALL_ABORTING : RECALL_RUNNING;
        r->done(r);
        return;
    }
    r->node = n;
    r->tried = false;
    r->settlement = (struct settlement){ .id = d.task, .fence = d.fence, .replace = r->replace };
    r->op = (struct op_settle){
        .op = { .kind = OP_SETTLE, .done = recall_settled },
        .v = &r->settlement,
        .n = 1,
        .now_ms = n->now_ms,
        .idempotency = r->idempotency,
    };
    arena_init(&r->op.op.arena, RECALL_ARENA);
    submit_recall(n, r);
}

/* ---- drain ---- */

void node_drain(struct node *n)
{
    n->draining = true;
    recovery_stop(n->recovery);
    missed_stop(n->missed);
    worker_stop_taking(n->worker);
}

void node_give_up(struct node *n)
{
    worker_give_up(n->worker);
}

static void hand_back(struct node *n, const struct task *t)
{
    struct outcome o = { .kind = OUTCOME_RETURNED, .retry_after_ms = -1 };
    struct delivery_id d = { t->id, t->fence };
    struct error e;
    if (end_claim(n, t, &o) && queue_ack(n->setup.queue, &d, 1, &e)) /* else it will be found by who recovers */
        log_warn("ack_failed", kv_err(&e));
}

static void drain_queue(struct node *n)
{
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, DRAIN_ARENA);
    struct take all = {
        .max = TAKE_MAX, .now_ms = n->now_ms, .visibility_ms = n->setup.visibility_ms, .worker = n->id
    };
    struct tasks waiting = { 0 };
    struct error e;
    while (queue_depth(n->setup.queue) && queue_take(n->setup.queue, &all, &a, &waiting, &e) == ERR_OK && waiting.n)
        for (size_t i = 0; i < waiting.n; i++)
            hand_back(n, &waiting.v[i]);
}

bool node_is_idle(const struct node *n)
{
    return scheduler_is_idle(n->scheduler) && worker_running(n->worker) == 0 && worker_unpublished(n->worker) == 0 &&
           updater_is_idle(n->updater) && n->recalls == 0 && list_empty(&n->waiting_recalls) &&
           !recovery_in_flight(n->recovery) && !missed_in_flight(n->missed) && queue_depth(n->setup.queue) == 0;
}

/* ---- doors ---- */

/* Whatever waits for a time does not wait for the one that the clock showed before. */
static void clock_set_back(struct node *n, int64_t now_ms)
{
    scheduler_clock_set_back(n->scheduler, now_ms);
    recovery_clock_set_back(n->recovery, now_ms);
    missed_clock_set_back(n->missed, now_ms);
    list_each (&n->waiting_recalls, link)
        container_of(link, struct recall, link)->retry_at_ms = now_ms;
}

/* A process that was stopped and continued, or a clock that was set forward, is an outage like any other; so is a store that keeps
 * one operation waiting for that long. What is armed or in the queue by then was claimed in time, and fires. */
static void notice_stall(struct node *n, int64_t now_ms)
{
    if (now_ms - STALL_MS <= n->expected_ms || n->draining)
        return;
    log_warn("stalled", kv_i64("ms", now_ms - n->expected_ms));
    missed_look_again(n->missed, now_ms);
    scheduler_hold_back(n->scheduler);
}

static bool is_settled_in(const struct node *n)
{
    return recovery_is_over(n->recovery) && missed_is_over(n->missed);
}

int64_t node_step(struct node *n, int64_t now_us)
{
    int64_t now_ms = now_us / 1000;
    if (now_ms < n->now_ms)
        clock_set_back(n, now_ms);
    notice_stall(n, now_ms);
    n->now_ms = now_ms;
    int64_t wake = recovery_step(n->recovery, now_ms);
    missed_step(n->missed, now_ms, !scheduler_awaits(n->scheduler));
    if (n->draining) {
        scheduler_drain(n->scheduler);
        drain_queue(n);
    } else if (is_settled_in(n)) {
        scheduler_begin(n->scheduler, recovery_found_suspects(n->recovery));
    }
    wake = min_of(wake, scheduler_step(n->scheduler, now_ms));
    wake = min_of(wake, worker_step(n->worker, now_ms));
    wake = min_of(wake, updater_step(n->updater, now_ms));
    wake = min_of(wake, retry_recalls(n));
    bool awaits = scheduler_awaits(n->scheduler);
    if (!awaits)
        wake = min_of(wake, missed_next_ms(n->missed));
    n->expected_ms = awaits ? now_ms : max_of(wake, now_ms);
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

void node_woke(struct node *n, uint64_t lanes)
{
    scheduler_woke(n->scheduler, lanes);
}

void node_rules_changed(struct node *n, int64_t now_ms)
{
    scheduler_rules_changed(n->scheduler, now_ms);
}

void node_queue(struct node *n, int32_t tenant, int64_t now_ms, struct queue_standing *q)
{
    struct lanes *lanes = scheduler_lanes(n->scheduler);
    q->known = false;
    for (int class_ = CLASS_LOW; class_ <= CLASS_HIGH; class_++) {
        struct lane_entry *e = lanes_get(lanes, (struct lane){ tenant, q->name, (enum priority_class)class_ });
        if (!e)
            continue;
        struct lane_hold hold = lanes_hold_of(lanes, e, now_ms);
        if (!q->known || hold.until_ms < q->hold.until_ms)
            q->hold = hold;
        q->held = lanes_facts(lanes, e).queue_held;
        q->known = true;
    }
}

void node_explain(struct node *n, const struct task *t, int64_t now_ms, struct explanation *ret)
{
    struct explain_view v = { .scheduler = n->scheduler,
                              .worker = n->worker,
                              .book = n->setup.book,
                              .slots = n->setup.slots,
                              .recovering = !is_settled_in(n) };
    explain(&v, t, now_ms, ret);
}

struct node_status node_status(const struct node *n)
{
    return (struct node_status){
        .scheduler = scheduler_status(n->scheduler),
        .id = n->id,
        .running = worker_running(n->worker),
        .queued = queue_depth(n->setup.queue),
        .recovering = !is_settled_in(n),
        .draining = n->draining,
    };
}

void node_each_breaker(struct node *n, int64_t now_ms, void (*see)(void *context, const struct breaker_view *b),
                       void *context)
{
    breakers_each(worker_breakers(n->worker), now_ms, see, context);
}

#include "role/node.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "role/missed.h"
#include "role/recovery.h"
#include "role/wishes.h"

enum {
    DRAIN_ARENA = 256 << 20,
    RECALL_ARENA = 4096,
    RECALL_RETRY_MS = 200,
    STALL_MS = 2500,       /* a step that comes so much later than it was asked for: nobody was running */
    POLL_SHARED_MS = 1000, /* should another node's nudge be lost */
};

struct node {
    struct node_setup setup;
    struct uuid id;
    struct scheduler *scheduler;
    struct worker *worker;
    struct updater *updater;
    struct membership *membership;
    struct recovery *recovery;
    struct missed *missed;
    struct wishes *wishes;
    struct prng random;
    enum company company; /* as far as it was heeded */
    bool joined;          /* and recovery was begun */
    size_t recalls;       /* with the writer */
    struct list waiting_recalls;
    int64_t now_ms;
    int64_t
        expected_ms; /* the next step at the latest; while an operation is in flight: soon. If shared, by the steady clock */
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
    if (!scheduler_holds(n->scheduler, r->id, r->fence)) { /* it has ended, and is being settled as what it was */
        if (n->setup.shared)                               /* or another node has it */
            wishes_replace(n->wishes, r->id, r->fence, r->by_scheduled_ms);
        return;
    }
    metric_add(n->setup.metrics, METRIC_TASKS_REPLACED, 1);
    if (!scheduler_replace(n->scheduler, r->id, r->fence, why))
        worker_replace(n->worker, r->id, r->fence, why);
}

/* ---- among others ---- */

static bool may_fire(void *context)
{
    const struct node *n = context;
    return membership_may_fire(n->membership);
}

static bool may_start(void *context, const struct task *t)
{
    const struct node *n = context;
    return membership_may_fire(n->membership) && (!t || scheduler_holds(n->scheduler, t->id, t->fence));
}

static void refused(void *context)
{
    struct node *n = context;
    membership_beat_now(n->membership);
}

static void describe(void *context, struct jw *w)
{
    const struct node *n = context;
    struct scheduler_status s = scheduler_status(n->scheduler);
    int64_t oldest_ms = INT64_MAX;
    for (int i = 0; i <= CLASS_HIGH; i++)
        oldest_ms = min_of(oldest_ms, s.oldest_due_ms[i]);
    jw_kv_i64(w, "running", (int64_t)worker_running(n->worker));
    jw_kv_i64(w, "slots", (int64_t)n->setup.slots);
    jw_kv_i64(w, "lag_ms", oldest_ms == INT64_MAX ? 0 : max_of(n->now_ms - oldest_ms, (int64_t)0));
    jw_kv_i64(w, "skew_us", membership_skew_us(n->membership));
    jw_kv_i64(w, "skew_error_us", membership_offset(n->membership).error_us);
}

static void shares_changed(void *context)
{
    struct node *n = context;
    scheduler_set_own(n->scheduler, membership_own(n->membership));
}

static void somebody_died(void *context)
{
    struct node *n = context;
    recovery_look_again(n->recovery, n->now_ms);
}

static void wished(void *context)
{
    struct node *n = context;
    wishes_heard(n->wishes);
}

/* Results that are known already are published all the same: they are true, and refused if somebody was faster. */
static void died(void *context, struct uuid new_id)
{
    struct node *n = context;
    n->id = new_id;
    n->company = COMPANY_UNKNOWN;
    n->joined = false;
    missed_wait(n->missed);
    scheduler_disown(n->scheduler, new_id);
    worker_disown(n->worker);
    if (n->setup.rejoined)
        n->setup.rejoined(n->setup.observe_context, new_id);
}

static void make_membership(struct node *n, int64_t now_ms)
{
    const struct node_setup *setup = &n->setup;
    n->membership =
        membership_new(&(struct membership_setup){ .writer = setup->writer,
                                                   .clock = setup->clock,
                                                   .name = setup->name,
                                                   .version = setup->version,
                                                   .seed = setup->seed,
                                                   .shared = setup->shared,
                                                   .beat_ms = setup->beat_ms ? setup->beat_ms : MEMBERSHIP_BEAT_MS,
                                                   .describe = describe,
                                                   .shares_changed = shares_changed,
                                                   .found_dead = somebody_died,
                                                   .wished = wished,
                                                   .died = died,
                                                   .context = n },
                       now_ms);
    n->id = membership_id(n->membership);
}

static void abort_for(struct node *n, const struct wish *w)
{
    char text[SLOT_REASON_MAX];
    bool by = w->by_scheduled_ms != 0;
    struct str why = by ? slot_replace_reason(w->by_scheduled_ms, text) : S("cancelled");
    if (!scheduler_replace(n->scheduler, w->id, w->fence, why))
        worker_replace(n->worker, w->id, w->fence, by ? why : S("cancelled while it ran"));
}

/* What another node wants back. One that waits in the queue has fired, as far as anybody can tell. */
static enum wish_grant grant(void *context, const struct wish *w)
{
    struct node *n = context;
    struct outcome o = { .kind = OUTCOME_RETURNED, .retry_after_ms = WISHES_BACK_MS };
    if (!scheduler_holds(n->scheduler, w->id, w->fence))
        return WISH_UNKNOWN;
    if (w->abort) {
        abort_for(n, w);
        return WISH_DONE;
    }
    const struct task *t = scheduler_armed(n->scheduler, w->id, w->fence);
    if (!t)
        return WISH_REFUSED;
    if (!end_claim(n, t, &o))
        return WISH_UNKNOWN;
    scheduler_unarm(n->scheduler, w->id, w->fence);
    return WISH_DONE;
}

/* ---- beginning and end ---- */

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
                                   .may_start = setup->shared ? may_start : NULL,
                                   .context = n,
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
                                                            .shared = setup->shared,
                                                            .spawn_ahead_ms = setup->spawn_ahead_ms,
                                                            .arm_min_ms = setup->arm_min_ms,
                                                            .arm_max_ms = setup->arm_max_ms,
                                                            .poll_ms = setup->poll_ms,
                                                            .may_fire = may_fire,
                                                            .refused = refused,
                                                            .end = end_claim,
                                                            .gated = gated,
                                                            .replaced = replaced,
                                                            .context = n },
                                 now_ms);
}

struct node *node_new(const struct node_setup *setup, int64_t now_ms)
{
    struct node *n = xnew(*n);
    n->setup = *setup;
    n->now_ms = now_ms;
    n->expected_ms = setup->shared ? clock_steady_ms(setup->clock) : now_ms;
    if (setup->shared)
        n->setup.poll_ms = POLL_SHARED_MS;
    prng_init(&n->random, setup->seed + 4);
    list_init(&n->waiting_recalls);
    make_membership(n, now_ms);
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
                                                         .seed = setup->seed + 3,
                                                         .nudge = found,
                                                         .woke = woke,
                                                         .context = n });
    n->wishes =
        wishes_new(&(struct wishes_setup){ .writer = setup->writer, .node = &n->id, .grant = grant, .context = n });
    n->missed =
        missed_new(&(struct missed_setup){ .writer = setup->writer, .over = nothing_is_missed, .context = n }, now_ms);
    missed_wait(n->missed);
    return n;
}

void node_free(struct node *n)
{
    if (!n)
        return;
    assert(n->recalls == 0);
    membership_free(n->membership);
    recovery_free(n->recovery);
    missed_free(n->missed);
    wishes_free(n->wishes);
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
    /* Nobody else could settle it: stale at a second try means that the first was applied and its answer lost. Unless others are there,
     * who may have buried us in between: then only its row can tell. */
    bool applied = !r->settlement.stale || (r->tried && !n->setup.shared);
    r->known = !r->tried;
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
        if (!r->known && n->setup.shared) {
            wishes_ask(n->wishes, r);
            return;
        }
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
    membership_close(n->membership);
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

static bool holds_nothing(const struct node *n)
{
    return scheduler_is_idle(n->scheduler) && worker_running(n->worker) == 0 && worker_unpublished(n->worker) == 0 &&
           updater_is_idle(n->updater) && n->recalls == 0 && list_empty(&n->waiting_recalls) &&
           wishes_is_idle(n->wishes) && !recovery_in_flight(n->recovery) && !missed_in_flight(n->missed) &&
           queue_depth(n->setup.queue) == 0;
}

bool node_is_idle(const struct node *n)
{
    return holds_nothing(n) && !membership_in_flight(n->membership) &&
           (!n->draining || membership_has_left(n->membership));
}

/* ---- doors ---- */

/* Whatever waits for a time does not wait for the one that the clock showed before. */
static void clock_set_back(struct node *n, int64_t now_ms)
{
    scheduler_clock_set_back(n->scheduler, now_ms);
    recovery_clock_set_back(n->recovery, now_ms);
    missed_clock_set_back(n->missed, now_ms);
    wishes_clock_set_back(n->wishes, now_ms);
    list_each (&n->waiting_recalls, link)
        container_of(link, struct recall, link)->retry_at_ms = now_ms;
}

/* What a stall is measured by. Where the store's clock is the one that counts, ours is set forward by what it says. */
static int64_t stall_clock_ms(const struct node *n, int64_t now_ms)
{
    return n->setup.shared ? clock_steady_ms(n->setup.clock) : now_ms;
}

/* A process that was stopped and continued, or a clock that was set forward, is an outage like any other; so is a store that keeps
 * one operation waiting for that long. What is armed or in the queue by then was claimed in time, and fires if it is ours still. Whether
 * others were there meanwhile is for the next beats to say. */
static void notice_stall(struct node *n, int64_t now_ms)
{
    int64_t at_ms = stall_clock_ms(n, now_ms);
    if (at_ms - STALL_MS <= n->expected_ms || n->draining)
        return;
    log_warn("stalled", kv_i64("ms", at_ms - n->expected_ms));
    scheduler_hold_back(n->scheduler);
    if (!n->setup.shared) {
        missed_look_again(n->missed, now_ms);
        return;
    }
    missed_wait(n->missed);
    membership_look_around(n->membership);
    n->company = COMPANY_UNKNOWN;
}

static void expect_step(struct node *n, int64_t now_ms, int64_t wake)
{
    bool awaits = scheduler_awaits(n->scheduler);
    int64_t in_ms = awaits ? 0 : wake == INT64_MAX ? INT64_MAX : max_of(wake - now_ms, (int64_t)0);
    n->expected_ms = in_ms == INT64_MAX ? INT64_MAX : stall_clock_ms(n, now_ms) + in_ms;
}

static bool is_settled_in(const struct node *n)
{
    return n->joined && recovery_is_over(n->recovery) && missed_is_over(n->missed);
}

/* First we join; then what the dead held is settled, and what was missed taken back, if nobody else was there to run it. */
static void settle_in(struct node *n)
{
    if (n->draining || !membership_has_joined(n->membership))
        return;
    if (!n->joined) {
        n->joined = true;
        recovery_begin(n->recovery, n->id, n->now_ms);
    }
    enum company company = membership_company(n->membership);
    if (company != n->company && company == COMPANY_OTHERS)
        missed_skip(n->missed);
    else if (company != n->company && company == COMPANY_NOBODY)
        missed_look_again(n->missed, n->now_ms);
    n->company = company;
}

/* A node that comes tries a suspect alone first, if one waits: whoever died of it may have been another. */
static void begin(struct node *n)
{
    scheduler_begin(n->scheduler, n->setup.shared || recovery_found_suspects(n->recovery));
    membership_set_ready(n->membership, true);
}

int64_t node_step(struct node *n, int64_t now_us)
{
    int64_t now_ms = now_us / 1000, behind_ms = clock_behind_ms(n->setup.clock);
    if (now_ms < n->now_ms)
        clock_set_back(n, now_ms);
    notice_stall(n, now_ms);
    n->now_ms = now_ms;
    settle_in(n);
    int64_t wake = recovery_step(n->recovery, now_ms);
    missed_step(n->missed, now_ms, !scheduler_awaits(n->scheduler));
    if (n->draining) {
        scheduler_drain(n->scheduler);
        drain_queue(n);
    } else if (is_settled_in(n)) {
        begin(n);
    }
    wake = min_of(wake, scheduler_step(n->scheduler, now_ms));
    wake = min_of(wake, worker_step(n->worker, now_ms, behind_ms));
    wake = min_of(wake, updater_step(n->updater, now_ms, behind_ms));
    wake = min_of(wake, retry_recalls(n));
    wake = min_of(wake, wishes_step(n->wishes, now_ms));
    if (n->draining && holds_nothing(n))
        membership_leave(n->membership);
    wake = min_of(wake, membership_step(n->membership, now_ms));
    if (!scheduler_awaits(n->scheduler))
        wake = min_of(wake, missed_next_ms(n->missed));
    expect_step(n, now_ms, wake);
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

void node_nodes_changed(struct node *n)
{
    membership_beat_now(n->membership);
}

bool node_is_leader(const struct node *n)
{
    return membership_is_leader(n->membership);
}

const struct node_rows *node_others(const struct node *n)
{
    return membership_nodes(n->membership);
}

uint64_t node_others_generation(const struct node *n)
{
    return membership_generation(n->membership);
}

void node_woke(struct node *n, uint64_t lanes)
{
    scheduler_woke(n->scheduler, lanes);
}

void node_heard_due(struct node *n, int64_t due_ms)
{
    lanes_all_due(scheduler_lanes(n->scheduler), due_ms);
}

void node_know_lanes(struct node *n, const struct lane *lanes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!lanes_get(scheduler_lanes(n->scheduler), lanes[i]))
            scheduler_know_lane(n->scheduler, lanes[i]);
}

void node_await_rules(struct node *n, bool await)
{
    scheduler_await_rules(n->scheduler, await);
}

void node_heard_wish(struct node *n)
{
    wishes_heard(n->wishes);
}

void node_heard_given_back(struct node *n)
{
    wishes_given_back(n->wishes);
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
    const struct partitions *own = membership_own(n->membership);
    return (struct node_status){
        .scheduler = scheduler_status(n->scheduler),
        .id = n->id,
        .running = worker_running(n->worker),
        .queued = queue_depth(n->setup.queue),
        .recovering = !is_settled_in(n),
        .draining = n->draining,
        .leader = membership_is_leader(n->membership),
        .fenced = !membership_may_fire(n->membership),
        .partitions = own ? partitions_count(own) : PARTITIONS,
        .skew_us = membership_skew_us(n->membership),
        .error_us = membership_offset(n->membership).error_us,
    };
}

void node_each_breaker(struct node *n, int64_t now_ms, void (*see)(void *context, const struct breaker_view *b),
                       void *context)
{
    breakers_each(worker_breakers(n->worker), now_ms, see, context);
}

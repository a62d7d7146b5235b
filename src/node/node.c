#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/node_internal.h"

enum {
    POLL_SHARED_MS = 1000, /* in case another node's nudge is lost */
    FORGET_LANES_MS = 1000,
    FIRE_ROUNDS = 32, /* in one step of the node */
    CLOCK_JUMP_MS = 1000,
    HELD_UP_MS = 300, /* less than users wait for a claim to be given back (recall_ms of api_server.h) */
    REPLACE_STEPS = 1000,
    REPLACE_ARENA = 1 << 20,
};

bool node_has_role(const struct node *n, unsigned role)
{
    return !n->setup.roles || (n->setup.roles & role);
}

/* As recovery_setup.settled. */
static void node_observe(void *context, const struct event *e, const struct settlement *s)
{
    const struct node *n = context;
    if (n->setup.observe)
        n->setup.observe(n->setup.observe_context, e, s);
}

void node_settled(void *context, const struct event *e, const struct settlement *s)
{
    struct node *n = context;
    node_fleet_settled(n, s);
    scheduler_on_settled(n->scheduler, e->task.id, e->task.fence, &s->verdict);
    worker_settled(n->worker, e->task.id, e->task.fence);
    if (s->ret_state == TASK_SCHEDULED && e->task.expires_ms != INT64_MAX)
        leasing_may_expire(n->leasing);
    node_observe(n, e, s);
}

/* The task's lane becomes known, too. */
static void node_on_recovered(void *context, const struct task *t)
{
    struct node *n = context;
    scheduler_nudge(n->scheduler, t);
}

static void node_on_caught_up(void *context)
{
    struct node *n = context;
    scheduler_resume(n->scheduler);
}

static void node_on_published(struct io_request *e)
{
    if (e->rc)
        log_warn("publish_failed", kv_err(&e->error));
}

bool node_end_claim(struct node *n, const struct settle_facts *t, const struct outcome *o)
{
    struct event ev = { .task = *t, .outcome = *o };
    struct io_publish io_request = { .io_request = { .kind = IO_PUBLISH, .done = node_on_published },
                                     .v = &ev,
                                     .n = 1 };
    async_io_submit(n->setup.own, &io_request.io_request);
    return io_request.io_request.rc == ERR_OK;
}

static bool node_on_claim_ended(void *context, const struct task *t, const struct outcome *o)
{
    struct settle_facts facts = settle_facts_of(t, o, NULL);
    return node_end_claim(context, &facts, o);
}

static void node_on_gated(void *context, const struct task *t, bool is_missed)
{
    struct node *n = context;
    if (n->setup.observe_gated)
        n->setup.observe_gated(n->setup.observe_context, t, is_missed);
}

/* Ends a step whose run was stopped, wherever it is. */
static void node_on_stopped(void *context, const struct fenced_id *id)
{
    struct node *n = context;
    struct str why = S("cancelled: its run was stopped");
    if (!scheduler_holds(n->scheduler, id->id, id->fence)) {
        recall_requests_replace(n->recall_requests, id->id, id->fence, 0);
        node_fleet_abort(n, id->id, id->fence);
        return;
    }
    if (!scheduler_replace(n->scheduler, id->id, id->fence, why) && !node_fleet_end(n, id->id, id->fence, why))
        worker_replace(n->worker, id->id, id->fence, why);
}

/* It has ended and is being settled, or another node holds it, or it is leased. */
static void node_replace_elsewhere(struct node *n, const struct replaced *r)
{
    recall_requests_replace(n->recall_requests, r->id, r->fence, r->by_scheduled_ms);
    node_fleet_abort(n, r->id, r->fence);
}

/* Stops a run that a later one replaces; who claims it then ends it. */
struct run_replacement {
    struct op_stop op;
    struct node *node;
    struct replaced replaced;
    char why[SLOT_REASON_MAX];
};

static void node_on_run_stopped(struct op *op)
{
    struct run_replacement *x = container_of(op, struct run_replacement, op.op);
    struct node *n = x->node;
    n->recalls--;
    if (op->rc == ERR_NOT_FOUND)
        node_replace_elsewhere(n, &x->replaced);
    else if (op->rc && op->rc != ERR_CONFLICT) /* a conflict: it has ended meanwhile */
        log_warn("replace_failed", kv_uuid("task", x->replaced.id), kv_err(&op->error));
    else {
        for (size_t i = 0; i < x->op.ret_running_count; i++)
            node_on_stopped(n, &x->op.ret_running[i]);
        node_on_lanes_unblocked(n, x->op.ret_unblocked_lanes);
    }
    arena_release(&op->arena);
    free(x);
}

static void node_replace_run(struct node *n, const struct replaced *r)
{
    struct run_replacement *x = xnew(*x);
    *x = (struct run_replacement){ .node = n, .replaced = *r };
    x->op = (struct op_stop){ .op = { .kind = OP_STOP, .done = node_on_run_stopped },
                              .tenant = r->tenant,
                              .run = r->id,
                              .change = RUN_CANCEL,
                              .stop = RUN_CANCELLED,
                              .why = slot_replace_reason(r->by_scheduled_ms, x->why),
                              .max = REPLACE_STEPS,
                              .now_ms = n->now.wall_ms };
    arena_init(&x->op.op.arena, REPLACE_ARENA);
    n->recalls++;
    writer_submit(n->setup.writer, &x->op.op);
}

/* Cancels a task that a later run replaces, whether it waits on the wheel, in the queue or runs. Its slot becomes
 * free with that. */
static void node_on_replaced(void *context, const struct replaced *r)
{
    struct node *n = context;
    char text[SLOT_REASON_MAX];
    struct str why = slot_replace_reason(r->by_scheduled_ms, text);
    bool opened = scheduler_is_opened(n->scheduler, r->id, r->fence);
    if (opened || !scheduler_holds(n->scheduler, r->id, r->fence)) {
        if (r->is_run)
            node_replace_run(n, r);
        else
            node_replace_elsewhere(n, r);
        return;
    }
    metric_add(n->setup.metrics, METRIC_TASKS_REPLACED, 1);
    if (!scheduler_replace(n->scheduler, r->id, r->fence, why) && !node_fleet_end(n, r->id, r->fence, why))
        worker_replace(n->worker, r->id, r->fence, why);
}

static void node_on_kept(void *context, const struct task *t)
{
    node_nudge(context, t, 1);
}

/* ---- callbacks for the scheduler and the worker ---- */

static bool node_may_fire(void *context)
{
    const struct node *n = context;
    return membership_may_fire(n->membership) && n->now.wall_ms <= membership_fires_until_ms(n->membership) &&
           !n->held_up_ms;
}

struct str node_lane_of_host(void *context, int32_t tenant, struct str host)
{
    struct node *n = context;
    return tenant_hosts_lane(n->hosts, tenant, host);
}

/* Its place is free although the store may take a while to know. */
void node_on_ended(void *context, struct uuid id, int64_t fence)
{
    struct node *n = context;
    scheduler_on_ended(n->scheduler, id, fence);
}

static struct op *node_claim_behind(void *context, const struct event *v, size_t n)
{
    struct node *node = context;
    return scheduler_claim_behind(node->scheduler, v, n);
}

void node_on_breaker_news(void *context, const struct event *e)
{
    struct node *n = context;
    breaker_table_on_news(n->breakers, e, n->now);
}

static void node_on_started(void *context, const struct task *t)
{
    const struct node *n = context;
    if (n->setup.observe_started)
        n->setup.observe_started(n->setup.observe_context, t);
}

static void node_on_opened(void *context, const struct task *t)
{
    const struct node *n = context;
    if (n->setup.observe_opened)
        n->setup.observe_opened(n->setup.observe_context, t);
}

static void node_on_spawned(void *context, const struct task *occurrence)
{
    const struct node *n = context;
    if (n->setup.observe_spawned)
        n->setup.observe_spawned(n->setup.observe_context, occurrence);
}

static void node_before_fire(void *context, int64_t now_ms)
{
    const struct node *n = context;
    if (n->setup.before_fire)
        n->setup.before_fire(n->setup.observe_context, now_ms);
}

static bool node_may_start(void *context, const struct task *t)
{
    const struct node *n = context;
    return membership_may_fire(n->membership) && (!t || scheduler_holds(n->scheduler, t->id, t->fence));
}

void node_on_refused(void *context)
{
    struct node *n = context;
    membership_heartbeat_now(n->membership);
}

/* ---- creation and release ---- */

struct reaper_setup node_reaper_setup(struct node *n, uint64_t seed)
{
    return (struct reaper_setup){ .writer = n->setup.writer,
                                  .async_io = n->setup.async_io,
                                  .metrics = n->setup.metrics,
                                  .seed = seed,
                                  .settled = node_settled,
                                  .batch_settled = node_fleet_on_batch_settled,
                                  .unblocked = node_unblocked,
                                  .context = n };
}

struct worker_setup node_worker_setup(const struct node *n, struct async_io *async_io, struct uuid id)
{
    const struct node_setup *setup = &n->setup;
    struct worker_setup worker = { .async_io = async_io,
                                   .metrics = setup->metrics,
                                   .tracer = setup->tracer,
                                   .fences = n->fences,
                                   .id = id,
                                   .name = setup->name,
                                   .version = setup->version,
                                   .slots = setup->slots,
                                   .visibility_ms = setup->visibility_ms,
                                   .filter = setup->filter,
                                   .hash = { setup->seed, ~setup->seed } };
    memcpy(worker.runners, setup->runners, sizeof worker.runners);
    return worker;
}

static void node_make_worker(struct node *n)
{
    n->fences = n->setup.fleet ? recent_fences_new() : NULL;
    struct worker_setup setup = node_worker_setup(n, n->setup.own, n->id);
    setup.may_start = n->setup.shared ? node_may_start : NULL;
    setup.started = node_on_started;
    setup.ended = node_on_ended;
    setup.breaker_news = node_on_breaker_news;
    setup.context = n;
    n->worker = worker_new(&setup);
}

static void node_on_handed(void *context, struct uuid claim, uint64_t epoch)
{
    struct node *n = context;
    handoff_claim(n->fleet.handoff, claim, epoch);
}

static void node_make_scheduler(struct node *n)
{
    const struct node_setup *setup = &n->setup;
    const struct runner *http = setup->runners[TARGET_HTTP];
    n->scheduler = scheduler_new(&(struct scheduler_setup){ .writer = setup->writer,
                                                            .async_io = setup->async_io,
                                                            .own = setup->fallback ? setup->own : NULL,
                                                            .own_filter = setup->filter,
                                                            .fleet = setup->fleet,
                                                            .zones = setup->zones,
                                                            .catalog = setup->catalog,
                                                            .metrics = setup->metrics,
                                                            .node = n->id,
                                                            .seed = setup->seed + 1,
                                                            .open_rows = setup->open_rows,
                                                            .slots = setup->slots,
                                                            .host_calls = http ? http->host_calls_max : 0,
                                                            .shared = setup->shared,
                                                            .spawn_ahead_ms = setup->spawn_ahead_ms,
                                                            .arm_min_ms = setup->arm_min_ms,
                                                            .arm_max_ms = setup->arm_max_ms,
                                                            .ahead_ms = setup->ahead_ms,
                                                            .ahead_bytes = setup->ahead_bytes,
                                                            .poll_ms = setup->poll_ms,
                                                            .may_fire = node_may_fire,
                                                            .before_fire = node_before_fire,
                                                            .refused = node_on_refused,
                                                            .end = node_on_claim_ended,
                                                            .handed = node_on_handed,
                                                            .retaken = node_fleet_retaken,
                                                            .gated = node_on_gated,
                                                            .planner = setup->planner,
                                                            .unblocked = node_unblocked,
                                                            .nudge = node_on_kept,
                                                            .spawned = node_on_spawned,
                                                            .opened = node_on_opened,
                                                            .abort = node_on_stopped,
                                                            .replaced = node_on_replaced,
                                                            .context = n },
                                 n->now);
}

static void node_make_recovery(struct node *n)
{
    const struct node_setup *setup = &n->setup;
    bool can_ask = setup->fleet && setup->async_io->push_again;
    n->recovery = recovery_new(
        &(struct recovery_setup){ .reaper = node_reaper_setup(n, setup->seed + 3),
                                  .last_fired_ms = setup->knows_last_fire ? setup->last_fired_ms : INT64_MAX,
                                  .nudge = node_on_recovered,
                                  .settled = node_observe,
                                  .view_queue = can_ask ? node_fleet_view_queue : NULL,
                                  .refused = node_on_refused,
                                  .context = n });
}

struct node *node_new(const struct node_setup *setup, struct moment now)
{
    struct node *n = xnew(*n);
    n->setup = *setup;
    if (!setup->fleet)
        n->setup.own = setup->async_io;
    n->now = now;
    n->expected_ms = setup->shared ? now.steady_ms : now.wall_ms;
    n->wakes_at_ms = INT64_MAX;
    if (setup->shared)
        n->setup.poll_ms = POLL_SHARED_MS;
    prng_init(&n->random, setup->seed + 4);
    list_init(&n->waiting_recalls);
    list_init(&n->recalls_in_line);
    map_init(&n->lasting_recalls, HASH_STABLE);
    n->hosts = tenant_set_new(TENANT_HOSTS_MAX);
    node_join(n);
    node_make_worker(n);
    node_make_scheduler(n);
    n->breakers = breaker_table_new(&(struct breaker_table_setup){ .writer = setup->writer,
                                                                   .lanes = scheduler_lanes(n->scheduler),
                                                                   .own = worker_breakers(n->worker),
                                                                   .seed = setup->seed + 6 });
    n->updater = updater_new(&(struct updater_setup){ .async_io = n->setup.own,
                                                      .writer = setup->writer,
                                                      .metrics = setup->metrics,
                                                      .seed = setup->seed + 2,
                                                      .ended = node_on_ended,
                                                      .aside = node_lane_of_host,
                                                      .settled = node_settled,
                                                      .batch_settled = node_fleet_on_batch_settled,
                                                      .unblocked = node_unblocked,
                                                      .claim_behind = node_claim_behind,
                                                      .unblocked_before_claim = node_unblocked_before_claim,
                                                      .context = n });
    node_make_recovery(n);
    n->arrivals = arrivals_new(&(struct arrivals_setup){
        .writer = setup->writer, .shared = setup->shared, .unblocked = node_unblocked, .context = n });
    node_serve_recalls(n);
    n->catch_up =
        catch_up_new(&(struct catch_up_setup){ .writer = setup->writer, .over = node_on_caught_up, .context = n }, now);
    catch_up_wait(n->catch_up);
    node_leasing_init(n);
    node_fleet_init(n);
    return n;
}

void node_free(struct node *n)
{
    if (!n)
        return;
    thread_owner_drop(&n->owner); /* the loop has ended, perhaps on another thread */
    assert(n->recalls == 0);
    node_fleet_release(n);
    membership_free(n->membership);
    recovery_free(n->recovery);
    catch_up_free(n->catch_up);
    recall_requests_free(n->recall_requests);
    map_release(&n->lasting_recalls);
    leasing_free(n->leasing);
    breaker_table_free(n->breakers);
    arrivals_free(n->arrivals);
    scheduler_free(n->scheduler);
    worker_free(n->worker);
    recent_fences_free(n->fences);
    updater_free(n->updater);
    tenant_set_free(n->hosts);
    free(n);
}

/* ---- drain ---- */

void node_drain(struct node *n)
{
    assert_owned(&n->owner);
    n->draining = true;
    membership_close(n->membership);
    recovery_stop(n->recovery);
    catch_up_stop(n->catch_up);
    worker_stop_taking(n->worker);
    leasing_stop(n->leasing);
    recall_requests_stop(n->recall_requests);
    node_fleet_drain(n);
}

void node_give_up(struct node *n)
{
    assert_owned(&n->owner);
    worker_give_up(n->worker);
    if (n->fleet.worker)
        worker_give_up(n->fleet.worker);
}

size_t node_queued(const struct node *n)
{
    return n->setup.own->ops->queue_depth(n->setup.own);
}

static bool node_holds_nothing(const struct node *n)
{
    return scheduler_is_idle(n->scheduler) && worker_is_idle(n->worker) && updater_is_idle(n->updater) &&
           n->recalls == 0 && list_empty(&n->waiting_recalls) && list_empty(&n->recalls_in_line) &&
           recall_requests_is_idle(n->recall_requests) && recovery_is_idle(n->recovery) &&
           !catch_up_in_flight(n->catch_up) && node_queued(n) == 0 && leasing_is_idle(n->leasing) &&
           breaker_table_is_idle(n->breakers) && arrivals_is_idle(n->arrivals) && node_fleet_is_idle(n);
}

bool node_is_idle(const struct node *n)
{
    assert_owned(&n->owner);
    return node_holds_nothing(n) && !membership_in_flight(n->membership) &&
           (!n->draining || membership_has_left(n->membership));
}

/* ---- steps ---- */

/* The clock that stalls are measured by. On a shared store the wall clock is corrected by the store's, which is no
 * stall. */
static int64_t node_stall_clock_ms(const struct node *n)
{
    return n->setup.shared ? n->now.steady_ms : n->now.wall_ms;
}

static void node_begin_catch_up(struct node *n)
{
    if (node_has_role(n, NODE_SCHEDULER))
        catch_up_begin(n->catch_up, n->now);
}

/* Three things count as an outage, if they last longer than MISSED_MS: the process was stopped and continued, the wall
 * clock was set forward, the store kept an operation waiting. Tasks that were claimed ahead and are overdue by then go
 * back: they were missed. Others that are armed or in the queue fire if they are still this node's. The next heartbeats
 * tell whether other nodes were active meanwhile. */
static void node_notice_stall(struct node *n)
{
    int64_t at_ms = node_stall_clock_ms(n);
    if (at_ms - MISSED_MS <= n->expected_ms || n->draining)
        return;
    log_warn("stalled", kv_i64("ms", at_ms - n->expected_ms));
    scheduler_suspend(n->scheduler);
    scheduler_return_overdue(n->scheduler, n->now);
    if (!n->setup.shared) {
        node_begin_catch_up(n);
        return;
    }
    catch_up_wait(n->catch_up);
    membership_forget_peers(n->membership);
    n->active_peers = ACTIVE_PEERS_UNKNOWN;
}

/* Whoever cancels or pauses a task that this node has claimed waits for its answer only for a while. If the process was
 * held up, it may have missed such requests, and nothing fires before it has read them. */
static int64_t node_notice_hold_up(struct node *n)
{
    int64_t now_ms = n->now.steady_ms;
    if (n->setup.shared && n->joined && now_ms - HELD_UP_MS > n->wakes_at_ms) {
        n->held_up_ms = now_ms;
        n->read_again_ms = now_ms;
    }
    if (n->draining ||
        recall_requests_has_read(n->recall_requests, n->held_up_ms)) /* who drains returns what it holds */
        n->held_up_ms = 0;
    if (!n->held_up_ms)
        return INT64_MAX;
    if (now_ms >= n->read_again_ms) {
        n->read_again_ms = now_ms + HELD_UP_MS;
        recall_requests_on_notice(n->recall_requests);
    }
    return moment_wall_at(n->now, n->read_again_ms);
}

/* The wall clock has not gone along with the steady one. Tasks follow the wall clock, as users do. */
static void node_notice_clock(struct node *n, struct moment now)
{
    int64_t jump_ms = (now.wall_ms - n->now.wall_ms) - (now.steady_ms - n->now.steady_ms);
    if (jump_ms < CLOCK_JUMP_MS && jump_ms > -CLOCK_JUMP_MS)
        return;
    n->clock_set_ms = now.steady_ms;
    n->clock_jump_ms = jump_ms;
    metric_add(n->setup.metrics, METRIC_CLOCK_JUMPS, 1);
    log_warn("clock_was_set", kv_i64("by_ms", jump_ms));
}

static void node_expect_step(struct node *n, int64_t wake)
{
    bool awaits = scheduler_awaits(n->scheduler);
    int64_t in_ms = awaits ? 0 : wake == INT64_MAX ? INT64_MAX : max_of(wake - n->now.wall_ms, (int64_t)0);
    n->expected_ms = in_ms == INT64_MAX ? INT64_MAX : node_stall_clock_ms(n) + in_ms;
    n->wakes_at_ms = wake == INT64_MAX ? INT64_MAX : n->now.steady_ms + max_of(wake - n->now.wall_ms, (int64_t)0);
}

bool node_is_settled_in(const struct node *n)
{
    bool looked = catch_up_is_over(n->catch_up) || !node_has_role(n, NODE_SCHEDULER);
    return n->joined && recovery_is_over(n->recovery) && looked;
}

/* In this order: join; settle the claims of dead nodes; catch up, if no other node was active. */
static void node_settle_in(struct node *n)
{
    if (n->draining || !membership_has_joined(n->membership))
        return;
    if (!n->joined) {
        n->joined = true;
        recovery_begin(n->recovery, n->id, n->now);
    }
    enum active_peers active = membership_active_peers(n->membership);
    if (active != n->active_peers && active == ACTIVE_PEERS_SOME)
        catch_up_skip(n->catch_up);
    else if (active != n->active_peers && active == ACTIVE_PEERS_NONE)
        node_begin_catch_up(n);
    n->active_peers = active;
}

/* A node that starts tries a suspect alone first, if there is one: it may have killed another node. In a fleet the
 * workers do that. */
static void node_begin_claims(struct node *n)
{
    if (!node_has_role(n, NODE_SCHEDULER))
        return;
    scheduler_begin(n->scheduler, !n->setup.fleet && (n->setup.shared || recovery_found_suspects(n->recovery)));
    membership_set_ready(n->membership, true);
}

/* Occurrences that this node, or the process before it, had claimed and never fired were missed as well: they are back
 * in the store first. */
static bool node_may_catch_up(const struct node *n)
{
    return !scheduler_awaits(n->scheduler) && recovery_is_over(n->recovery) && !scheduler_is_returning(n->scheduler);
}

static void node_on_used_lane(void *context, const struct lane *lane)
{
    struct node *n = context;
    tenant_hosts_know(n->hosts, lane, 1);
    if (n->setup.needs)
        tenant_needs_know(n->setup.needs, lane, 1);
}

/* If a tenant was refused a lane because it has as many as it may have, those without tasks no longer count. */
static void node_forget_unused_lanes(struct node *n)
{
    bool refused = tenant_set_has_refused(n->hosts) || (n->setup.needs && tenant_set_has_refused(n->setup.needs));
    if (!refused || n->now.steady_ms < n->forget_at_ms)
        return;
    n->forget_at_ms = n->now.steady_ms + FORGET_LANES_MS;
    tenant_set_clear(n->hosts);
    if (n->setup.needs)
        tenant_set_clear(n->setup.needs);
    lanes_each_used(scheduler_lanes(n->scheduler), node_on_used_lane, n);
}

/* If many tasks are due at once, the first ones start before the last ones are fired. A task that has ended or is
 * parked gives its place back, and the scheduler gives it to another one. */
static int64_t node_schedule_and_work(struct node *n, int64_t behind_ms)
{
    int64_t wake = INT64_MAX;
    bool more = true;
    for (int i = 0; i < FIRE_ROUNDS && more; i++) {
        size_t parked = worker_parked_long(n->worker);
        scheduler_set_parked(n->scheduler, parked);
        wake = scheduler_step(n->scheduler, n->now);
        wake = moment_earlier(wake, worker_step(n->worker, n->now, behind_ms));
        more = worker_parked_long(n->worker) > parked || scheduler_has_more(n->scheduler);
    }
    return more ? n->now.wall_ms : wake;
}

int64_t node_step(struct node *n, struct moment now)
{
    if (!n->owner.thread)
        thread_owner_take(&n->owner);
    assert_owned(&n->owner);
    int64_t behind_ms = clock_behind_ms(n->setup.clock);
    if (now.wall_ms < n->now.wall_ms) {
        breaker_table_on_clock_set_back(n->breakers, n->now.wall_ms - now.wall_ms, now.wall_ms);
        scheduler_on_clock_set_back(n->scheduler, now);
    }
    node_notice_clock(n, now);
    n->now = now;
    node_notice_stall(n);
    int64_t held_wake = node_notice_hold_up(n);
    node_settle_in(n);
    int64_t wake = min_of(held_wake, recovery_step(n->recovery, now));
    catch_up_step(n->catch_up, now, node_may_catch_up(n));
    if (n->draining) {
        scheduler_drain(n->scheduler);
        node_drain_queue(n);
    } else if (node_is_settled_in(n)) {
        node_begin_claims(n);
    }
    node_fleet_before(n);
    node_forget_unused_lanes(n);
    wake = moment_earlier(wake, node_schedule_and_work(n, behind_ms));
    wake = moment_earlier(wake, updater_step(n->updater, now, behind_ms));
    wake = moment_earlier(wake, node_fleet_step(n, behind_ms));
    wake = moment_earlier(wake, breaker_table_step(n->breakers, now));
    wake = moment_earlier(wake, arrivals_step(n->arrivals, now, n->joined && !n->draining));
    wake = moment_earlier(wake, node_retry_recalls(n));
    wake = moment_earlier(wake, recall_requests_step(n->recall_requests, now));
    wake = moment_earlier(wake, leasing_step(n->leasing, now, n->joined && node_is_leader(n)));
    if (n->draining && node_holds_nothing(n))
        membership_leave(n->membership);
    wake = moment_earlier(wake, membership_step(n->membership, now));
    if (node_may_catch_up(n))
        wake = min_of(wake, catch_up_next_ms(n->catch_up));
    node_expect_step(n, wake);
    return wake;
}

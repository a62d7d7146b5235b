/* Invariants:
 *  - At most one claim is in flight. A claim whose answer was lost is read back by its id before the next one is
 *    made.
 *  - `held` has each task of our claims that is not settled, once. A claim asks for at most the slots that are
 *    left.
 *  - An armed task is held, and on the wheel, ready, or waiting for the planner. A task that is being pushed is in
 *    neither, and not armed.
 *  - At most one suspect is held. */
#include "node/scheduler/internal.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum { RULES_WAIT_MS = 100, FAILING_MS = 10000, ABORT_AGAIN_MS = 500 };

static void scheduler_on_spawned(void *context, const struct task *t)
{
    struct scheduler *s = context;
    scheduler_nudge(s, t);
    if (t->expires_after_ms && s->setup.nudge)
        s->setup.nudge(s->setup.context, t);
    if (s->setup.spawned)
        s->setup.spawned(s->setup.context, t);
}

static void scheduler_on_skipped(void *context, const struct task *t)
{
    struct scheduler *s = context;
    s->setup.gated(s->setup.context, t, true);
}

struct scheduler *scheduler_new(const struct scheduler_setup *setup, struct moment now)
{
    assert(setup->slots > 0 && setup->arm_min_ms > 0 && setup->arm_max_ms >= setup->arm_min_ms);
    struct scheduler *s = xnew(*s);
    s->setup = *setup;
    s->now = now;
    s->polled_ms = now.steady_ms;
    s->rules_come_ms = INT64_MIN;
    s->rules_came_ms = INT64_MIN / 2;
    s->window_ms = setup->arm_min_ms;
    s->lanes = lanes_new(&(struct lanes_setup){ .catalog = setup->catalog,
                                                .slots = setup->slots,
                                                .host_calls = setup->host_calls,
                                                .writer = setup->shared ? setup->writer : NULL,
                                                .node = &s->setup.node });
    lanes_set_window(s->lanes, s->window_ms);
    s->suspended = true;
    s->resumed_ms = INT64_MIN;
    s->spawner = spawner_new(&(struct spawner_setup){ .writer = setup->writer,
                                                      .zones = setup->zones,
                                                      .catalog = setup->catalog,
                                                      .metrics = setup->metrics,
                                                      .ahead_ms = setup->spawn_ahead_ms,
                                                      .poll_ms = setup->poll_ms,
                                                      .spawned = scheduler_on_spawned,
                                                      .skipped = scheduler_on_skipped,
                                                      .context = s },
                             now);
    uuid_gen_init(&s->ids, setup->seed ^ 0x5ced);
    wheel_init(&s->wheel, now.wall_ms);
    list_init(&s->armed);
    map_init(&s->held, HASH_STABLE);
    list_init(&s->planning);
    heap_init(&s->to_plan);
    list_init(&s->pushing);
    list_init(&s->queued);
    list_init(&s->ready);
    s->slow_since_ms = now.steady_ms;
    s->ahead_at_ms = INT64_MIN / 2;
    s->ahead_ms = setup->ahead_ms;
    lanes_set_ahead(s->lanes, s->ahead_ms);
    return s;
}

static void scheduler_held_free(struct scheduler *s, struct held *h)
{
    s->suspects -= h->suspect;
    s->parents -= h->is_parent;
    s->returning -= h->returned;
    if (h->where == HELD_QUEUED) {
        list_remove(&h->link);
        lanes_on_queued(s->lanes, h->lane, false);
    }
    if (h->left_claim)
        claim_unref(h->left_claim);
    free(h->replaced);
    free(h->facts);
    free(h);
}

void scheduler_free(struct scheduler *s)
{
    if (!s)
        return;
    assert(!s->claiming && !s->retaking.claim && list_empty(&s->pushing) && list_empty(&s->planning));
    list_each (&s->armed, link)
        claim_unref(container_of(link, struct armed, link)->claim);
    wheel_release(&s->wheel);
    heap_release(&s->to_plan);
    map_each (&s->held, slot)
        scheduler_held_free(s, slot->value);
    map_release(&s->held);
    free(s->free_push);
    lanes_free(s->lanes);
    spawner_free(s->spawner);
    free(s);
}

/* ---- steps ---- */

/* In case a nudge was lost. */
static void scheduler_poll(struct scheduler *s)
{
    if (!s->setup.poll_ms || s->now.steady_ms < s->polled_ms + s->setup.poll_ms)
        return;
    s->polled_ms = s->now.steady_ms;
    lanes_all_due(s->lanes, s->now.wall_ms);
}

/* Due at once: scheduler_fire ends it. */
static void scheduler_end_at_once(struct scheduler *s, struct armed *a)
{
    scheduler_off_wheel(s, a);
    wheel_add(&s->wheel, &a->entry, s->now.wall_ms);
}

void scheduler_apply_rules(struct scheduler *s)
{
    if (!s->setup.catalog || catalog_cache_generation(s->setup.catalog) == s->generation)
        return;
    s->generation = catalog_cache_generation(s->setup.catalog);
    lanes_rules_changed(s->lanes);
    list_each (&s->armed, link) {
        struct armed *a = container_of(link, struct armed, link);
        if (!a->held->placed || a->held->taken_back || !lanes_is_to_return(s->lanes, a->held->lane, s->now.wall_ms))
            continue;
        a->held->taken_back = true;
        scheduler_end_at_once(s, a);
    }
}

static int64_t scheduler_step_lanes(struct scheduler *s)
{
    return s->draining ? INT64_MAX : lanes_step(s->lanes, s->now, s->claiming != NULL);
}

/* When to call again, besides `wake`. */
static int64_t scheduler_next_ms(struct scheduler *s, int64_t wake)
{
    int64_t next_ms = wheel_next(&s->wheel);
    if (next_ms > s->now.wall_ms ||
        scheduler_may_fire(s)) /* else the answer of a push, or the next heartbeat, brings a step */
        wake = min_of(min_of(wake, next_ms), scheduler_next_ahead_ms(s));
    if (s->claiming)
        return s->claiming->waits ? min_of(wake, moment_wall_at(s->now, s->retry_at_ms)) : wake;
    bool may_claim = scheduler_may_claim(s);
    if (s->isolating && s->suspects)
        return min_of(wake, moment_wall_at(s->now, s->alone_until_ms));
    if (!may_claim)
        return s->now.steady_ms < s->rules_come_ms ? min_of(wake, moment_wall_at(s->now, s->rules_come_ms)) : wake;
    if (s->setup.poll_ms && lanes_count(s->lanes))
        wake = min_of(wake, moment_wall_at(s->now, s->polled_ms + s->setup.poll_ms));
    return min_of(wake, scheduler_next_claim_ms(s));
}

int64_t scheduler_step(struct scheduler *s, struct moment now)
{
    s->now = now;
    s->freed = false;
    lanes_set_time(s->lanes, now);
    scheduler_measure_claim(s);
    scheduler_apply_rules(s);
    scheduler_poll(s);
    scheduler_fire(s);
    scheduler_return_ready(s);
    int64_t wake = moment_earlier(spawner_step(s->spawner, now), scheduler_retake_step(s));
    scheduler_step_lanes(s); /* while no claim is under way */
    scheduler_claim(s);
    wake = moment_earlier(wake, scheduler_step_lanes(s));
    scheduler_fire(s); /* a claim may have been answered at once */
    metric_set(s->setup.metrics, METRIC_TASKS_ARMED, (double)s->armed_count);
    metric_set(s->setup.metrics, METRIC_TASKS_AHEAD, (double)s->ahead_count);
    metric_set(s->setup.metrics, METRIC_AHEAD_BYTES, (double)s->ahead_bytes);
    return scheduler_next_ms(s, wake);
}

void scheduler_nudge(struct scheduler *s, const struct task *t)
{
    if (t->kind == TASK_RECURRING)
        spawner_nudge(s->spawner, t->cursor_ms);
    else
        lanes_due(s->lanes, lanes_know(s->lanes, task_lane(t)), t->due_ms, task_is_suspect(t));
}

/* If rules change all the time, claims still go on: after a wait, as much time again is left for claims. */
void scheduler_await_rules(struct scheduler *s, bool await)
{
    if (!await)
        s->rules_come_ms = INT64_MIN;
    else if (s->now.steady_ms >= s->rules_came_ms + 2 * RULES_WAIT_MS)
        s->rules_come_ms = (s->rules_came_ms = s->now.steady_ms) + RULES_WAIT_MS;
}

void scheduler_begin(struct scheduler *s, bool found_suspects)
{
    if (s->begun)
        return;
    s->begun = true;
    s->isolating = found_suspects;
    s->alone_until_ms = s->now.steady_ms + SCHEDULER_ISOLATION_MS;
}

static void scheduler_comes_again(struct scheduler *s, const struct held *h, const struct verdict *v)
{
    struct lane_entry *lane = lanes_after(s->lanes, h->lane, v->aside, v->recalled);
    if (v->aside.n && v->due_ms <= s->now.wall_ms)
        lanes_on_host_busy(s->lanes, lane, s->now.wall_ms);
    lanes_due(s->lanes, lane, v->due_ms, v->losses >= SUSPECT_LOSSES);
}

void scheduler_on_settled(struct scheduler *s, struct uuid id, int64_t fence, const struct verdict *v)
{
    struct held *h = scheduler_remove_held(s, id, fence);
    bool comes_again = v && v->next == TASK_SCHEDULED;
    if (!h) {
        if (comes_again) /* another node's claim, or a repeated call: the lane is not known */
            lanes_all_due(s->lanes, v->due_ms);
        return;
    }
    if (comes_again && h->fired && !v->has_execution)
        lanes_not_started(s->lanes, h->lane, s->now.wall_ms);
    if (comes_again)
        scheduler_comes_again(s, h, v);
    scheduler_settled_unpushed(s, h);
    scheduler_end_stored(s, h);
    s->isolating = s->isolating && !h->suspect; /* the suspect has ended and this process lives: the others go on */
    scheduler_leave_place(s, h);
    scheduler_held_free(s, h);
}

void scheduler_on_ended(struct scheduler *s, struct uuid id, int64_t fence)
{
    struct held *h = scheduler_find_held(s, id, fence);
    if (!h || h->armed)
        return;
    if (h->where == HELD_QUEUED) {
        list_remove(&h->link);
        lanes_on_queued(s->lanes, h->lane, false);
    }
    h->where = HELD_ENDED;
    scheduler_leave_place(s, h);
}

bool scheduler_has_more(const struct scheduler *s)
{
    return s->freed || scheduler_has_due(s);
}

bool scheduler_holds(const struct scheduler *s, struct uuid id, int64_t fence)
{
    return scheduler_find_held(s, id, fence) != NULL;
}

bool scheduler_is_placed(const struct scheduler *s, struct uuid id, int64_t fence)
{
    const struct held *h = scheduler_find_held(s, id, fence);
    return h && h->placed;
}

/* A task that may be in the queue counts as fired. */
static struct armed *scheduler_find_armed(const struct scheduler *s, struct uuid id, int64_t fence)
{
    const struct held *h = scheduler_find_held(s, id, fence);
    return h && h->armed && h->where == HELD_ARMED && !h->armed->unsure ? h->armed : NULL;
}

const struct task *scheduler_armed(const struct scheduler *s, struct uuid id, int64_t fence)
{
    const struct armed *a = scheduler_find_armed(s, id, fence);
    return a ? a->task : NULL;
}

bool scheduler_unarm(struct scheduler *s, struct uuid id, int64_t fence)
{
    struct armed *a = scheduler_find_armed(s, id, fence);
    if (!a)
        return false;
    scheduler_off_wheel(s, a);
    scheduler_leave_armed(s, a);
    scheduler_disarm(s, a);
    return true;
}

bool scheduler_want_back(struct scheduler *s, struct uuid id, int64_t fence)
{
    struct held *h = scheduler_find_held(s, id, fence);
    if (!h || !h->armed)
        return false;
    bool planned = h->where == HELD_PLANNING && !scheduler_is_opened(s, id, fence);
    h->wanted_back = h->wanted_back || planned || h->where == HELD_PUSHING || h->armed->unsure;
    return planned;
}

bool scheduler_is_being_settled(const struct scheduler *s, struct uuid id, int64_t fence)
{
    const struct held *h = scheduler_find_held(s, id, fence);
    return h && !h->armed && h->where == HELD_ARMED;
}

bool scheduler_may_start(const struct scheduler *s, struct uuid id, int64_t fence)
{
    const struct held *h = scheduler_find_held(s, id, fence);
    return h && !scheduler_is_opened(s, id, fence) && h->where != HELD_QUEUED && h->where != HELD_ENDED;
}

bool scheduler_is_opened(const struct scheduler *s, struct uuid id, int64_t fence)
{
    const struct held *h = scheduler_find_held(s, id, fence);
    const struct task *t = h && h->armed ? h->armed->task : NULL;
    return t && t->target == TARGET_WORKFLOW && t->links & TASK_OPENED;
}

bool scheduler_replace(struct scheduler *s, struct uuid id, int64_t fence, struct str why)
{
    struct armed *a = scheduler_find_armed(s, id, fence);
    struct held *h = scheduler_find_held(s, id, fence);
    if (!h || !h->armed)
        return false;
    if (scheduler_is_opened(s, id, fence)) /* it ends after its tasks: its plan sees that it was stopped */
        return true;
    free(h->replaced);
    h->replaced = xmalloc(why.n + 1);
    memcpy(h->replaced, why.p, why.n);
    h->replaced[why.n] = '\0';
    if (!a) /* it is being pushed: in case it comes back */
        return false;
    scheduler_end_at_once(s, a);
    return true;
}

void scheduler_set_parked(struct scheduler *s, size_t parked)
{
    lanes_set_parked(s->lanes, parked);
}

/* ---- functions of a fleet ---- */

void scheduler_set_workers(struct scheduler *s, const struct lanes_workers *w)
{
    assert(s->setup.fleet);
    lanes_set_workers(s->lanes, w);
}

void scheduler_queue_answers(struct scheduler *s)
{
    s->probe = s->is_down;
}

size_t scheduler_queued_since(struct scheduler *s, int64_t before_ms, struct fenced_id *ret, size_t max)
{
    size_t n = 0;
    while (n < max && !list_empty(&s->queued)) {
        struct held *h = container_of(s->queued.next, struct held, link);
        if (h->asked_ms >= before_ms)
            break;
        h->asked_ms = s->now.steady_ms;
        list_remove(&h->link);
        list_push(&s->queued, &h->link);
        ret[n++] = (struct fenced_id){ h->key.id, h->key.fence };
    }
    return n;
}

const struct settle_facts *scheduler_queued(const struct scheduler *s, struct uuid id, int64_t fence)
{
    const struct held *h = scheduler_find_held(s, id, fence);
    return h && (h->where == HELD_QUEUED || h->where == HELD_PUSHING) ? h->facts : NULL;
}

bool scheduler_ask_abort(struct scheduler *s, struct uuid id, int64_t fence)
{
    struct held *h = scheduler_find_held(s, id, fence);
    if (!h || (h->abort_asked_ms && s->now.steady_ms - h->abort_asked_ms < ABORT_AGAIN_MS))
        return false;
    h->abort_asked_ms = s->now.steady_ms;
    return true;
}

uint64_t scheduler_queue_epoch(const struct scheduler *s, struct uuid id, int64_t fence)
{
    const struct held *h = scheduler_find_held(s, id, fence);
    return h && h->where == HELD_QUEUED ? h->epoch : 0;
}

/* ---- other nodes, the clock, drain ---- */

void scheduler_suspend(struct scheduler *s)
{
    s->suspended = true;
    spawner_suspend(s->spawner, true);
}

void scheduler_resume(struct scheduler *s)
{
    s->suspended = false;
    s->resumed_ms = s->now.wall_ms;
    lanes_all_due(s->lanes, s->now.wall_ms);
    spawner_suspend(s->spawner, false);
    spawner_nudge(s->spawner, 0);
}

static void scheduler_drop_held(struct scheduler *s, struct held *h)
{
    scheduler_leave_place(s, h);
    scheduler_held_free(s, h);
}

static void scheduler_disown_claim(struct scheduler *s)
{
    struct claim *c = s->claiming;
    if (!c)
        return;
    c->disowned = true;
    if (c->waits)
        claim_unref(take(s->claiming));
}

void scheduler_disown(struct scheduler *s, struct uuid node)
{
    list_each (&s->armed, link) {
        struct armed *a = container_of(link, struct armed, link);
        scheduler_off_wheel(s, a);
        scheduler_leave_armed(s, a);
        a->held->armed = NULL;
        claim_unref(a->claim); /* the claim is not handed over */
    }
    list_init(&s->armed);
    s->armed_count = 0;
    scheduler_forget_pushes(s);
    scheduler_disown_plans(s);
    map_each (&s->held, slot)
        scheduler_drop_held(s, slot->value);
    map_release(&s->held);
    map_init(&s->held, HASH_STABLE);
    scheduler_disown_claim(s);
    scheduler_disown_retake(s);
    s->setup.node = node;
    s->begun = s->isolating = false;
    scheduler_suspend(s);
}

void scheduler_set_own(struct scheduler *s, const struct partitions *own)
{
    s->shares = own != NULL;
    if (own)
        s->own = *own;
    spawner_set_own(s->spawner, own);
    lanes_all_due(s->lanes, s->now.wall_ms);
    spawner_nudge(s->spawner, 0);
}

void scheduler_on_clock_set_back(struct scheduler *s, struct moment now)
{
    s->now = now;
    list_each (&s->armed, link) {
        struct armed *a =
            container_of(link, struct armed, link); /* also if it waits for a retry: its time comes again */
        if (a->ready.at || a->to_plan.at) {
            scheduler_off_wheel(s, a);
            wheel_add(&s->wheel, &a->entry, now.wall_ms);
        }
        a->entry.due_ms = a->held->taken_back || a->held->replaced ? now.wall_ms : a->task->due_ms;
    }
    wheel_rebase(&s->wheel, now.wall_ms);
    lanes_rules_changed(s->lanes);
    lanes_all_due(s->lanes, now.wall_ms);
    spawner_on_clock_set_back(s->spawner, now);
}

void scheduler_drain(struct scheduler *s)
{
    s->draining = true;
    spawner_drain(s->spawner);
    struct armed **all = xcalloc(s->armed_count, sizeof(struct armed *));
    size_t n = 0;
    list_each (&s->armed, link)
        all[n++] = container_of(link, struct armed, link);
    for (size_t i = 0; i < n; i++) {
        scheduler_off_wheel(s, all[i]);
        scheduler_end(s, all[i], all[i]->held->replaced ? OUTCOME_CANCELLED : OUTCOME_RETURNED);
    }
    free(all);
}

bool scheduler_awaits(const struct scheduler *s)
{
    return (s->claiming && !s->claiming->waits) || !spawner_is_idle(s->spawner);
}

bool scheduler_is_idle(const struct scheduler *s)
{
    return !s->claiming && !s->retaking.claim && spawner_is_idle(s->spawner) && s->armed_count == 0 &&
           list_empty(&s->pushing) && list_empty(&s->planning) && lanes_is_idle(s->lanes);
}

static int64_t scheduler_wall_of(const struct scheduler *s, int64_t steady_ms)
{
    return s->now.wall_ms - (s->now.steady_ms - steady_ms);
}

/* A claim that failed some time ago, with none after it, says nothing of the store now. */
static bool scheduler_claims_fail(const struct scheduler *s)
{
    return s->failing_ms && s->now.steady_ms - s->failed_ms < FAILING_MS;
}

struct scheduler_status scheduler_status(const struct scheduler *s)
{
    bool fails = scheduler_claims_fail(s);
    struct scheduler_status ret = {
        .armed = s->armed_count,
        .held = s->held.n,
        .placed = lanes_places(s->lanes).taken,
        .ahead = s->ahead_count,
        .ready = s->ready_count,
        .room = lanes_places(s->lanes).all,
        .lanes = lanes_count(s->lanes),
        .suspects = s->suspects,
        .window_ms = s->window_ms,
        .ahead_ms = s->ahead_ms,
        .last_claim_ms = s->last_claim_ms,
        .isolating = s->isolating,
        .falls_back = scheduler_falls_back(s),
        .failing_since_ms = fails ? scheduler_wall_of(s, s->failing_ms) : 0,
        .claim_failures = fails ? s->failures : 0,
        .queue_down_since_ms = s->is_down ? scheduler_wall_of(s, s->down_ms) : 0,
        .next_claim_ms = scheduler_next_claim_ms(s),
        .next_spawn_ms = spawner_next_ms(s->spawner),
    };
    for (int i = 0; i <= CLASS_HIGH; i++)
        ret.oldest_due_ms[i] = lanes_oldest_ms(s->lanes, (enum priority_class)i);
    return ret;
}

struct lanes *scheduler_lanes(struct scheduler *s)
{
    return s->lanes;
}

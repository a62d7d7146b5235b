/* Invariants:
 *  - at most one claim is in flight. A claim whose answer was lost is read back by its id before the next one is made;
 *  - held knows the tasks of our claims that are not settled, each once; a claim asks for at most slots less those;
 *  - an armed task is in the wheel and in the index, or in neither;
 *  - claim_at is when the next claim is worth making: INT64_MAX while nothing is known to come. */
#include "role/scheduler.h"

#include <assert.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "base/map.h"
#include "base/prng.h"
#include "core/spawn.h"
#include "core/wheel.h"

enum {
    CLAIM_BATCH = 2000,
    CLAIM_BYTES = 64 << 20,
    PUSH_BATCH = 256,
    RECURRING_BATCH = 100,
    RETRY_MIN_MS = 20,
    RETRY_MAX_MS = 1000,
    SPAWN_TROUBLE_MS = 5000,
    SPAWN_ARENA = 16 << 20,
};

/* One claim and what it brought; lives until the last of its tasks has been pushed. */
struct claim {
    union {
        struct op op;
        struct op_claim ask;
        struct op_claimed readback;
    };
    struct scheduler *scheduler;
    struct armed *armed;
    struct lane_quota *lanes;
    size_t references;
    int64_t begun_ms;
    bool waits; /* to be read back, at claim_at; else it is with the writer */
};

/* A task of ours from its claim to its settlement, which outlives the claim's memory. */
struct held {
    struct uuid id;
    int64_t fence;
};

struct armed {
    struct wheel_entry entry;
    const struct task *task;
    struct claim *claim;
};

struct spawning {
    struct op_spawn op;
    struct spawn_plan plan;
    struct task task;
    struct scheduler *scheduler;
};

struct scheduler {
    struct scheduler_setup setup;
    struct prng random;
    struct uuid_gen ids;
    int64_t now_ms;

    struct lane *lanes; /* high classes first; queue names are ours */
    size_t lane_count, lane_cap;

    struct wheel wheel;
    struct map index; /* id → armed */
    struct map held;  /* id and fence → struct held */

    struct claim *claiming; /* NULL: none in flight */
    int64_t claim_at_ms, retry_ms, last_claim_ms;
    int64_t nudged_ms; /* the earliest due time heard of while a claim was in flight */
    int64_t slowest_ms, window_ms;
    int64_t
        answered_begun_ms; /* of a claim that was answered since the last step, which knows what time it is; else 0 */
    bool answered_full;

    struct op_recurring *recurring; /* NULL: none in flight */
    size_t spawns_in_flight;
    int64_t spawn_at_ms;
    bool spawn_more, spawn_trouble;
    bool draining;
};

struct scheduler *scheduler_new(const struct scheduler_setup *setup, int64_t now_ms)
{
    assert(setup->slots > 0 && setup->arm_min_ms > 0 && setup->arm_max_ms >= setup->arm_min_ms);
    struct scheduler *s = xnew(*s);
    s->setup = *setup;
    s->now_ms = now_ms;
    s->claim_at_ms = now_ms;
    s->spawn_at_ms = now_ms;
    s->nudged_ms = INT64_MAX;
    s->window_ms = setup->arm_min_ms;
    prng_init(&s->random, setup->seed);
    uuid_gen_init(&s->ids, setup->seed ^ 0x5ced);
    wheel_init(&s->wheel, now_ms);
    map_init(&s->index, HASH_STABLE);
    map_init(&s->held, HASH_STABLE);
    return s;
}

static void claim_unref(struct claim *c)
{
    assert(c->references > 0);
    if (--c->references)
        return;
    arena_release(&c->op.arena);
    free(c->armed);
    free(c->lanes);
    free(c);
}

void scheduler_free(struct scheduler *s)
{
    if (!s)
        return;
    assert(!s->claiming && !s->recurring && !s->spawns_in_flight);
    struct wheel_entry *e;
    while ((e = wheel_expire(&s->wheel, INT64_MAX - WHEEL_SLOTS)))
        claim_unref(container_of(e, struct armed, entry)->claim);
    wheel_release(&s->wheel);
    map_release(&s->index);
    map_each (&s->held, slot)
        free(slot->value);
    map_release(&s->held);
    for (size_t i = 0; i < s->lane_count; i++)
        free_const(s->lanes[i].queue.p);
    free(s->lanes);
    free(s);
}

/* ---- lanes ---- */

static bool lane_eq(struct lane a, struct lane b)
{
    return a.tenant == b.tenant && a.class_ == b.class_ && str_eq(a.queue, b.queue);
}

void scheduler_know_lane(struct scheduler *s, struct lane lane)
{
    size_t at = 0;
    for (size_t i = 0; i < s->lane_count; i++) {
        if (lane_eq(s->lanes[i], lane))
            return;
        if (s->lanes[i].class_ >= lane.class_)
            at = i + 1;
    }
    if (s->lane_count == s->lane_cap) {
        s->lane_cap = max_of(s->lane_cap * 2, (size_t)16);
        s->lanes = xrealloc(s->lanes, s->lane_cap * sizeof *s->lanes);
    }
    memmove(s->lanes + at + 1, s->lanes + at, (s->lane_count - at) * sizeof *s->lanes);
    char *queue = xmalloc(lane.queue.n + 1);
    memcpy(queue, lane.queue.p, lane.queue.n);
    queue[lane.queue.n] = '\0';
    s->lanes[at] = (struct lane){ lane.tenant, { queue, lane.queue.n }, lane.class_ };
    s->lane_count++;
}

/* ---- firing ---- */

static void push(struct scheduler *s, const struct task *tasks, struct armed *const *armed, size_t n)
{
    struct error e;
    failpoint("before_fire");
    enum err rc = queue_push(s->setup.queue, tasks, n, &e);
    if (rc)
        log_warn("push_failed", kv_err(&e), kv_i64("tasks", (int64_t)n));
    for (size_t i = 0; i < n; i++) {
        if (rc) { /* the queue is down: they are due and stay so */
            wheel_add(&s->wheel, &armed[i]->entry, s->now_ms + RETRY_MAX_MS);
            continue;
        }
        map_remove(&s->index, uuid_bytes(&armed[i]->task->id));
        claim_unref(armed[i]->claim);
    }
}

/* Pushes what is due. Nothing before its time: the wheel gives out only what is due at now. */
static void fire(struct scheduler *s)
{
    struct task tasks[PUSH_BATCH];
    struct armed *armed[PUSH_BATCH];
    struct wheel_entry *e;
    size_t n = 0;
    while ((e = wheel_expire(&s->wheel, s->now_ms))) {
        armed[n] = container_of(e, struct armed, entry);
        tasks[n] = *armed[n]->task;
        if (++n == PUSH_BATCH) {
            push(s, tasks, armed, n);
            n = 0;
        }
    }
    if (n)
        push(s, tasks, armed, n);
}

/* ---- claiming ---- */

static void adapt_window(struct scheduler *s, int64_t took_ms, bool full)
{
    s->slowest_ms = max_of(took_ms, s->slowest_ms - s->slowest_ms / 8 - 1);
    int64_t wanted = full ? s->setup.arm_max_ms : 4 * s->slowest_ms;
    wanted = max_of(wanted, s->window_ms - s->window_ms / 8); /* falls slowly, rises at once */
    s->window_ms = min_of(max_of(wanted, s->setup.arm_min_ms), s->setup.arm_max_ms);
}

static struct str held_key(const struct held *h)
{
    _Static_assert(sizeof *h == sizeof h->id + sizeof h->fence, "no gap in what is hashed");
    return (struct str){ (const char *)h, sizeof *h };
}

static void hold(struct scheduler *s, const struct task *t)
{
    struct held *h = xnew(*h);
    *h = (struct held){ t->id, t->fence };
    free(map_put(&s->held, held_key(h), h));
}

static void arm(struct scheduler *s, struct claim *c, const struct tasks *tasks)
{
    c->armed = xcalloc(tasks->n, sizeof *c->armed);
    c->references += tasks->n;
    for (size_t i = 0; i < tasks->n; i++) {
        hold(s, &tasks->v[i]);
        c->armed[i].task = &tasks->v[i];
        c->armed[i].claim = c;
        map_put(&s->index, uuid_bytes(&tasks->v[i].id), &c->armed[i]);
        wheel_add(&s->wheel, &c->armed[i].entry, tasks->v[i].due_ms);
    }
    metric_add(s->setup.metrics, METRIC_CLAIMS, 1);
}

static void want_claim(struct scheduler *s, int64_t due_ms)
{
    s->claim_at_ms = min_of(s->claim_at_ms, due_ms == INT64_MAX ? INT64_MAX : due_ms - s->window_ms);
}

static void claim_failed(struct scheduler *s, struct claim *c);

static void readback_done(struct op *op)
{
    struct claim *c = container_of(op, struct claim, op);
    struct scheduler *s = c->scheduler;
    if (op->rc) {
        claim_failed(s, c);
        return;
    }
    s->claiming = NULL;
    s->retry_ms = 0;
    s->claim_at_ms = s->now_ms;
    if (!s->draining || c->readback.ret.n)
        arm(s, c, &c->readback.ret);
    claim_unref(c);
}

/* Nobody knows whether it was committed: ask by its id, later and later, until somebody answers. */
static void claim_failed(struct scheduler *s, struct claim *c)
{
    log_warn("claim_failed", kv_err(&c->op.error));
    s->retry_ms = min_of(max_of(s->retry_ms * 2, (int64_t)RETRY_MIN_MS), (int64_t)RETRY_MAX_MS);
    s->claim_at_ms = s->now_ms + s->retry_ms;
    c->waits = true;
    if (c->op.kind == OP_CLAIM) {
        struct uuid id = c->ask.claim;
        arena_reset(&c->op.arena);
        struct arena arena = c->op.arena;
        c->readback =
            (struct op_claimed){ .op = { .kind = OP_CLAIMED, .arena = arena, .done = readback_done }, .claim = id };
    }
}

static void claim_done(struct op *op)
{
    struct claim *c = container_of(op, struct claim, op);
    struct scheduler *s = c->scheduler;
    if (op->rc) {
        claim_failed(s, c);
        return;
    }
    const struct op_claim *a = &c->ask;
    bool full = a->ret.n == a->max;
    s->claiming = NULL;
    s->retry_ms = 0;
    s->last_claim_ms = a->now_ms;
    s->answered_begun_ms = c->begun_ms;
    s->answered_full = full;
    /* What is left at or before `until` is to be claimed at its due time and not before (AT_MOST_ONCE), unless we were full. */
    s->claim_at_ms = full ? s->now_ms : a->ret_next_due_ms <= a->until_ms ? a->ret_next_due_ms : INT64_MAX;
    if (!full && a->ret_next_due_ms > a->until_ms)
        want_claim(s, a->ret_next_due_ms);
    want_claim(s, s->nudged_ms);
    s->nudged_ms = INT64_MAX;
    if (a->ret.n)
        arm(s, c, &a->ret);
    claim_unref(c);
}

static void submit_claim(struct scheduler *s, size_t room)
{
    struct claim *c = xnew(*c);
    c->scheduler = s;
    c->references = 1;
    c->begun_ms = s->now_ms;
    c->lanes = xcalloc(s->lane_count, sizeof *c->lanes);
    for (size_t i = 0; i < s->lane_count; i++)
        c->lanes[i] = (struct lane_quota){ s->lanes[i], room };
    c->ask = (struct op_claim){
        .op = { .kind = OP_CLAIM, .done = claim_done },
        .claim = uuid_next(&s->ids, s->now_ms),
        .node = s->setup.node,
        .lanes = c->lanes,
        .lane_count = s->lane_count,
        .now_ms = s->now_ms,
        .until_ms = s->now_ms + s->window_ms,
        .max = min_of(room, (size_t)CLAIM_BATCH),
        .max_bytes = CLAIM_BYTES,
    };
    arena_init(&c->op.arena, 2 * (size_t)CLAIM_BYTES);
    s->claiming = c;
    writer_submit(s->setup.writer, &c->op);
}

static void claim(struct scheduler *s)
{
    if (s->claiming && s->claiming->waits && s->claim_at_ms <= s->now_ms) {
        s->claiming->waits = false;
        writer_submit(s->setup.writer, &s->claiming->op);
        return;
    }
    size_t room = s->setup.slots - min_of(s->held.n, s->setup.slots);
    if (s->claiming || s->draining || s->lane_count == 0 || room == 0 || s->claim_at_ms > s->now_ms)
        return;
    submit_claim(s, room);
}

/* ---- spawning ---- */

static void spawning_free(struct spawning *sp)
{
    arena_release(&sp->op.op.arena);
    free(sp);
}

static void spawn_visit_over(struct scheduler *s)
{
    struct op_recurring *r = s->recurring;
    bool again = s->spawn_more || r->ret.n == r->max;
    if (s->spawn_trouble)
        s->spawn_at_ms = min_of(s->spawn_at_ms, s->now_ms + SPAWN_TROUBLE_MS);
    else if (again)
        s->spawn_at_ms = s->now_ms;
    else if (r->ret_next_ms != INT64_MAX) /* half the way: each visit makes some seconds' worth at once */
        s->spawn_at_ms = min_of(s->spawn_at_ms, r->ret_next_ms - s->setup.spawn_ahead_ms / 2);
    arena_release(&r->op.arena);
    free(r);
    s->recurring = NULL;
}

static void nudge_spawned(struct scheduler *s, const struct spawn_plan *plan)
{
    for (size_t i = 0; i < plan->occurrences.n; i++)
        if (plan->occurrences.v[i].state == TASK_SCHEDULED)
            scheduler_nudge(s, &plan->occurrences.v[i], s->now_ms);
}

static void spawn_done(struct op *op)
{
    struct spawning *sp = container_of(op, struct spawning, op.op);
    struct scheduler *s = sp->scheduler;
    if (op->rc == ERR_OK) {
        nudge_spawned(s, &sp->plan);
        metric_add(s->setup.metrics, METRIC_TASKS_SCHEDULED, sp->plan.runs);
        metric_add(s->setup.metrics, METRIC_RUNS_SKIPPED, sp->plan.skipped);
        s->spawn_more = s->spawn_more || sp->plan.more;
        if (!sp->plan.ended)
            s->spawn_at_ms = min_of(s->spawn_at_ms, sp->plan.cursor_ms - s->setup.spawn_ahead_ms / 2);
    } else if (op->rc ==
               ERR_CONFLICT) { /* a user's change; whether he nudges or not, the task is to be looked at again */
        s->spawn_more = true;
    } else {
        log_warn("spawn_failed", kv_uuid("task", sp->task.id), kv_err(&op->error));
        nudge_spawned(s, &sp->plan); /* it may have been done, and its answer lost */
        s->spawn_trouble = true;
    }
    spawning_free(sp);
    if (--s->spawns_in_flight == 0)
        spawn_visit_over(s);
}

static bool plan_spawn(struct scheduler *s, struct spawning *sp, struct error *e)
{
    struct tz *zone = NULL;
    struct recurrence rule;
    enum err rc = zoneinfo_get(s->setup.zones, sp->task.schedule.time_zone, &zone, e);
    if (rc == ERR_OK)
        rc = schedule_rule(&sp->task.schedule, sp->task.id, zone, NULL, sp->task.created_ms, &rule, e);
    if (rc == ERR_OK)
        rc = spawn_plan(&sp->task, &rule, s->now_ms, s->now_ms + s->setup.spawn_ahead_ms, &sp->op.op.arena, &sp->plan,
                        e);
    tz_unref(zone);
    return rc == ERR_OK;
}

static void spawn_one(struct scheduler *s, const struct task *t)
{
    struct spawning *sp = xnew(*sp);
    struct error e;
    sp->scheduler = s;
    arena_init(&sp->op.op.arena, SPAWN_ARENA);
    if (!task_copy(&sp->op.op.arena, t, &sp->task) || !plan_spawn(s, sp, &e)) {
        log_error("spawn_impossible", kv_uuid("task", t->id), kv_err(&e));
        s->spawn_trouble = true;
        spawning_free(sp);
        return;
    }
    sp->op.op.kind = OP_SPAWN;
    sp->op.op.done = spawn_done;
    sp->op.id = t->id;
    sp->op.version = t->version;
    sp->op.cursor_ms = t->cursor_ms;
    sp->op.plan = &sp->plan;
    sp->op.now_ms = s->now_ms;
    s->spawns_in_flight++;
    writer_submit(s->setup.writer, &sp->op.op);
}

static void recurring_done(struct op *op)
{
    struct op_recurring *r = container_of(op, struct op_recurring, op);
    struct scheduler *s = op->context;
    s->spawn_more = s->spawn_trouble = false;
    if (op->rc) {
        log_warn("spawn_failed", kv_err(&op->error));
        r->ret.n = 0;
        s->spawn_trouble = true;
    }
    s->spawns_in_flight++; /* ours: so that a spawn done at once does not end the visit */
    for (size_t i = 0; i < r->ret.n && !s->draining; i++)
        spawn_one(s, &r->ret.v[i]);
    if (--s->spawns_in_flight == 0)
        spawn_visit_over(s);
}

static void spawn(struct scheduler *s)
{
    if (s->recurring || s->draining || s->spawn_at_ms > s->now_ms)
        return;
    struct op_recurring *r = xnew(*r);
    r->op = (struct op){ .kind = OP_RECURRING, .done = recurring_done, .context = s };
    arena_init(&r->op.arena, SPAWN_ARENA);
    r->until_ms = s->now_ms + s->setup.spawn_ahead_ms;
    r->max = RECURRING_BATCH;
    s->recurring = r;
    s->spawn_at_ms = INT64_MAX;
    writer_submit(s->setup.writer, &r->op);
}

/* ---- doors ---- */

static void measure_claim(struct scheduler *s)
{
    if (!s->answered_begun_ms)
        return;
    int64_t took_ms = max_of(s->now_ms - s->answered_begun_ms, (int64_t)0);
    s->answered_begun_ms = 0;
    adapt_window(s, took_ms, s->answered_full);
    metric_observe_us(s->setup.metrics, METRIC_CLAIM_TIME, took_ms * 1000);
}

int64_t scheduler_step(struct scheduler *s, int64_t now_ms)
{
    s->now_ms = now_ms;
    measure_claim(s);
    fire(s);
    spawn(s);
    claim(s);
    fire(s); /* a claim may have been answered at once */
    metric_set(s->setup.metrics, METRIC_TASKS_ARMED, (double)s->wheel.count);
    int64_t wake = wheel_next(&s->wheel);
    if (!s->recurring && s->setup.poll_ms)
        s->spawn_at_ms = min_of(s->spawn_at_ms, now_ms + s->setup.poll_ms);
    if (!s->recurring && !s->draining)
        wake = min_of(wake, s->spawn_at_ms);
    bool can_claim = !s->claiming && !s->draining && s->held.n < s->setup.slots && s->lane_count > 0;
    bool waits_to_ask_again = s->claiming && s->claiming->waits;
    if (can_claim && s->setup.poll_ms)
        s->claim_at_ms = min_of(s->claim_at_ms, now_ms + s->setup.poll_ms);
    if (can_claim || waits_to_ask_again)
        wake = min_of(wake, s->claim_at_ms);
    return wake;
}

void scheduler_nudge_due(struct scheduler *s, int64_t due_ms)
{
    if (s->claiming)
        s->nudged_ms = min_of(s->nudged_ms, due_ms);
    else
        want_claim(s, due_ms);
}

void scheduler_nudge(struct scheduler *s, const struct task *t, int64_t now_ms)
{
    s->now_ms = max_of(s->now_ms, now_ms);
    if (t->kind == TASK_RECURRING) {
        if (t->cursor_ms != INT64_MAX) /* else nothing is to come: no reason to wake up, ever */
            s->spawn_at_ms = min_of(s->spawn_at_ms, t->cursor_ms - s->setup.spawn_ahead_ms / 2);
        return;
    }
    scheduler_know_lane(s, task_lane(t));
    scheduler_nudge_due(s, t->due_ms);
}

void scheduler_freed(struct scheduler *s, struct uuid id, int64_t fence)
{
    struct held h = { id, fence };
    free(map_remove(&s->held, held_key(&h)));
}

bool scheduler_holds(const struct scheduler *s, struct uuid id, int64_t fence)
{
    struct held h = { id, fence };
    return map_get(&s->held, held_key(&h)) != NULL;
}

bool scheduler_unarm(struct scheduler *s, struct uuid id, int64_t fence)
{
    struct armed *a = map_get(&s->index, uuid_bytes(&id));
    if (!a || a->task->fence != fence)
        return false;
    wheel_remove(&s->wheel, &a->entry);
    map_remove(&s->index, uuid_bytes(&a->task->id));
    claim_unref(a->claim);
    return true;
}

void scheduler_clock_set_back(struct scheduler *s, int64_t now_ms)
{
    s->now_ms = now_ms;
    map_each (&s->index, slot) {
        struct armed *a = slot->value;
        a->entry.due_ms = a->task->due_ms; /* not the time at which a push that failed was to be tried again */
    }
    wheel_rebase(&s->wheel, now_ms);
    s->claim_at_ms = min_of(s->claim_at_ms, now_ms);
    s->spawn_at_ms = min_of(s->spawn_at_ms, now_ms);
}

void scheduler_drain(struct scheduler *s, void (*give)(void *context, const struct task *t), void *context)
{
    s->draining = true;
    struct wheel_entry *e;
    while ((e = wheel_expire(&s->wheel, INT64_MAX - WHEEL_SLOTS))) {
        struct armed *a = container_of(e, struct armed, entry);
        map_remove(&s->index, uuid_bytes(&a->task->id));
        give(context, a->task);
        claim_unref(a->claim);
    }
}

bool scheduler_is_idle(const struct scheduler *s)
{
    return !s->claiming && !s->recurring && !s->spawns_in_flight && s->wheel.count == 0;
}

struct scheduler_status scheduler_status(const struct scheduler *s)
{
    return (struct scheduler_status){
        .armed = s->wheel.count,
        .held = s->held.n,
        .lanes = s->lane_count,
        .window_ms = s->window_ms,
        .last_claim_ms = s->last_claim_ms,
        .next_claim_ms = s->claim_at_ms,
        .next_spawn_ms = s->spawn_at_ms,
    };
}

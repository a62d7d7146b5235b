/* Calls to the receiver are judged as they come; promises to users are judged when everything has drained. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>

#include "core/task/fence.h"
#include "core/task/spawn.h"
#include "sim.h"

enum { LATE_CALM_MS = 1000, FAILOVER_MS = 5000, HEALING_MS = 15000, TURN_MS = 3000, TRIALS_MS = 3000 };

static struct str key_of(const struct uuid *id)
{
    return (struct str){ (const char *)id->b, sizeof id->b };
}

struct oracle *oracle_new(void)
{
    struct oracle *o = xnew(*o);
    map_init(&o->by_id, HASH_STABLE);
    map_init(&o->fences, HASH_STABLE);
    return o;
}

void oracle_free(struct oracle *o)
{
    for (size_t i = 0; i < o->n; i++) {
        tz_unref(o->v[i]->zone);
        free(o->v[i]->calls);
        free(o->v[i]);
    }
    map_release(&o->by_id);
    map_each (&o->fences, slot)
        free(slot->value);
    map_release(&o->fences);
    free(o->v);
    free(o);
}

struct subject *oracle_find(struct sim *s, struct uuid id)
{
    return map_get(&s->oracle->by_id, key_of(&id));
}

struct subject *oracle_add(struct sim *s, const struct task *t)
{
    struct oracle *o = s->oracle;
    struct subject *x = xnew(*x);
    *x = (struct subject){
        .id = t->id,
        .parent = t->parent,
        .tenant = t->tenant,
        .kind = t->kind,
        .overlap = t->kind == TASK_RECURRING ? t->schedule.overlap : t->overlap,
        .key_limit = t->concurrency_limit,
        .expires_after_ms = t->expires_after_ms,
        .max_attempts = t->retry.max_attempts,
        .max_delay_ms = t->retry.max_delay_ms,
        .delivery = t->delivery,
        .quiet_us = INT64_MAX,
        .stopped_us = INT64_MAX,
        .due_min_ms = t->scheduled_ms,
        .scheduled_ms = t->scheduled_ms,
        .schedule = t->schedule,
        .cursor_ms = t->cursor_ms,
        .priority = t->priority,
        .queue = (int)(gates_queue(s, t) - gates_tenant(s, t)->queues),
        .host = gates_host(t),
        .need = isolation_need(t),
        .due_ms = t->due_ms,
    };
    if (o->n == o->cap) {
        o->cap = o->cap * 2 + 64;
        o->v = xrealloc(o->v, o->cap * sizeof(struct subject *));
    }
    o->v[o->n++] = x;
    map_put(&o->by_id, key_of(&x->id), x);
    s->stats->tasks += t->kind != TASK_RECURRING;
    return x;
}

/* It is to start when it is due. */
static void oracle_waits(struct sim *s, struct subject *x, int64_t due_ms)
{
    if (x->flow) /* its run may be stopped or paused */
        return;
    x->waits = true;
    x->waits_us = s->steady_us;
    x->due_ms = due_ms;
}

void oracle_acked(struct sim *s, struct subject *x)
{
    if (!x->acked)
        s->stats->acknowledged++;
    if (!x->acked && !x->call_count)
        oracle_waits(s, x, x->due_ms);
    x->acked = true;
    x->acked_wall_ms = wall_ms(s);
}

void oracle_quiet(struct sim *s, struct subject *x, enum action a)
{
    x->quiet_us = s->steady_us;
    if (a != ACTION_PAUSE)
        x->stopped_us = min_of(x->stopped_us, s->steady_us);
}

void oracle_awake(struct sim *s, struct subject *x)
{
    x->quiet_us = INT64_MAX;
    x->due_min_ms = min_of(x->due_min_ms, wall_ms(s));
}

void oracle_redriven(struct subject *x)
{
    x->redrives++;
    if (x->call_count)
        x->calls[x->call_count - 1].redriven = true;
}

/* ---- as calls come ---- */

static bool is_of_a_rule(const struct subject *parent, int64_t scheduled_ms)
{
    for (size_t i = 0; i < parent->rule_count; i++) {
        const struct recurrence *r = &parent->rules[i];
        struct occurrence o;
        if (recurrence_next(r, scheduled_ms + recurrence_spread(r), &o) && o.scheduled_ms == scheduled_ms)
            return true;
    }
    return false;
}

/* What a user asked for: the task itself, or a recurring task whose rule has this moment. */
static struct subject *subject_of(struct sim *s, const struct task *t)
{
    struct subject *x = oracle_find(s, t->id);
    if (x)
        return x;
    struct subject *parent = oracle_find(s, t->parent);
    x = oracle_add(s, t);
    x->flow = flows_task(s, t->id) != NULL;
    if (x->flow)
        return x;
    if (t->kind != TASK_OCCURRENCE || !parent || parent->kind != TASK_RECURRING)
        breach(s, BREACH_UNASKED, "nobody asked for %s", short_id(t->id));
    else if (!uuid_eq(t->id, occurrence_id(t->parent, t->scheduled_ms)) || !is_of_a_rule(parent, t->scheduled_ms))
        breach(s, BREACH_UNASKED, "%s has no occurrence %s at %lld", short_id(t->parent), short_id(t->id),
               (long long)t->scheduled_ms);
    /* A lost attempt counts as begun; in a fleet also one that was claimed before: it may have been with a worker. */
    int64_t quiet_ms = parent ? wall_ms(s) - (s->steady_us - parent->quiet_us) / 1000 : 0;
    bool was_claimed = !fence_is_unclaimed(t->fence - 1);
    bool begun = t->losses || (is_fleet(s) && (was_claimed || uuid_time_ms(t->claim) <= quiet_ms));
    if (parent && parent->quiet_us < s->steady_us && !begun)
        breach(s, BREACH_AFTER_STOP, "occurrence %s of %s started %lld ms after its stop was acknowledged",
               short_id(t->id), short_id(t->parent), (long long)(s->steady_us - parent->quiet_us) / 1000);
    return x;
}

/* Of a recurring task that was cancelled no attempt begins any more, unless a user retries one occurrence. A worker of a
 * fleet may have had the task before the cancel. */
static void judge_cancelled(struct sim *s, const struct subject *x, const struct task *t)
{
    const struct subject *parent = oracle_find(s, t->parent);
    if (!parent || x->flow || x->redrives || parent->stopped_us >= s->steady_us)
        return;
    int64_t ago_ms = (s->steady_us - parent->stopped_us) / 1000;
    if (!is_fleet(s) || uuid_time_ms(t->claim) > wall_ms(s) - ago_ms)
        breach(s, BREACH_AFTER_STOP, "%s of %s started %lld ms after the cancel was acknowledged", short_id(t->id),
               short_id(t->parent), (long long)ago_ms);
}

/* A task that a breaker held keeps its due time, and waits in a lane of its host from then on. When the breaker's time
 * is over, one at a time is tried, for a call's time each. */
static int64_t held_until_ms(const struct sim *s, const struct task *t)
{
    return t->aside.n ? s->breakers_ms + TRIALS_MS : 0;
}

/* Tasks that a dead node had begun are begun anew by other nodes. */
static void judge_failover(struct sim *s, const struct subject *x, const struct task *t, const struct known_call *last)
{
    int64_t after_ms = (s->steady_us - last->crashed_us) / 1000;
    bool held = t->fence > last->fence + 1; /* it was claimed in time, and a host answered with Retry-After */
    bool aside = wall_ms(s) - held_until_ms(s, t) < FAILOVER_MS; /* the breaker of its host was open meanwhile */
    bool put_off = x->pause_sent || x->stop_sent || x->redrives || held || aside || last->retried || task_is_suspect(t);
    put_off = put_off || (x->flow && (t->concurrency_limit || flows_were_put_off(s, t->id)));
    if (s->profile.failover && last->at_crash && !put_off && after_ms > FAILOVER_MS)
        breach(s, BREACH_FAILOVER, "%s was lost with its node, and started again %lld ms later", short_id(x->id),
               (long long)after_ms);
}

static void judge_repeat(struct sim *s, const struct subject *x, const struct known_call *last, bool forgiven)
{
    if (last->settled && task_is_final(last->next) && !last->redriven && !forgiven)
        breach(s, BREACH_REPEATED, "%s started again after it was %s", short_id(x->id), task_state_name(last->next));
    if (!last->settled && !last->at_crash && !forgiven)
        breach(s, BREACH_REPEATED, "%s started again, its attempt before neither settled nor lost", short_id(x->id));
    if (last->at_crash)
        s->stats->duplicated++;
    int sent = 0;
    for (size_t i = 0; i < x->call_count; i++)
        sent += x->calls[i].sent;
    if (x->delivery == DELIVER_AT_MOST_ONCE && sent > x->redrives)
        breach(s, BREACH_REPEATED, "%s is to run at most once and runs again", short_id(x->id));
}

/* Outcomes since it was created or retried by a user, including this one. */
static void judge_attempts(struct sim *s, const struct subject *x)
{
    int outcomes = 1;
    for (size_t i = x->call_count; i-- > 0 && !x->calls[i].redriven;)
        outcomes += x->calls[i].ended && !x->calls[i].at_crash;
    if (outcomes > x->max_attempts)
        breach(s, BREACH_TOO_OFTEN, "%s is tried for the %dth time, %d allowed", short_id(x->id), outcomes,
               x->max_attempts);
}

/* Nothing is wrong, or nothing has been for a while. */
static void judge_lateness(struct sim *s, const struct task *t, int64_t late_ms)
{
    if (s->profile.failover && late_ms > FAILOVER_MS)
        breach(s, BREACH_FAILOVER, "%s is %lld ms late", short_id(t->id), (long long)late_ms);
    else if (!s->profile.failover && late_ms > LATE_CALM_MS)
        breach(s, BREACH_LATE, "%s is %lld ms late", short_id(t->id), (long long)late_ms);
}

void oracle_breakers(struct sim *s, const struct op_breakers *op)
{
    for (size_t i = 0; i < op->n; i++)
        s->breakers_ms = max_of(s->breakers_ms, op->v[i].close ? wall_ms(s) : op->v[i].row.until_ms);
}

static void judge_time(struct sim *s, const struct subject *x, const struct task *t)
{
    /* A task that was due and waited in a failing queue, or for a connection to its host, when the clock was set back is
     * not called back. */
    int64_t now_ms = wall_ms(s);
    bool was_due = (s->profile.ports_percent || s->profile.connections) && t->due_ms <= s->wall_max_us / 1000;
    bool is_first = x->kind == TASK_ONE_TIME && !x->call_count;
    if (!was_due && (now_ms < t->due_ms || (is_first && now_ms < x->due_min_ms)))
        breach(s, BREACH_EARLY, "%s started at %lld, due %lld, asked for %lld", short_id(t->id), (long long)now_ms,
               (long long)t->due_ms, (long long)x->due_min_ms);
    struct subject *parent = oracle_find(s, t->parent);
    int64_t known_ms = max_of(x->acked_wall_ms, parent ? parent->acked_wall_ms : 0);
    int64_t free_ms = max_of(s->joined_ms, s->suspect_ended_ms); /* a suspect has its worker for itself */
    int64_t late_ms = now_ms - max_of(max_of(max_of(t->due_ms, known_ms), free_ms), held_until_ms(s, t));
    struct sim_stats *st = s->stats;
    if (st->late_count == st->late_cap) {
        st->late_cap = st->late_cap * 2 + 1024;
        st->late_ms = xrealloc(st->late_ms, st->late_cap * sizeof *st->late_ms);
    }
    st->late_ms[st->late_count++] = (int32_t)min_of(max_of(late_ms, (int64_t)0), (int64_t)INT32_MAX);
    bool waits_its_turn = t->concurrency_limit || (t->kind == TASK_OCCURRENCE && t->overlap != OVERLAP_ALLOW);
    bool in_the_open = !gates_were_ever_closed(s) && !waits_its_turn && !task_is_suspect(t);
    if (s->profile.slots >= ROOM_FOR_ALL && in_the_open && (s->profile.calm || s->healed))
        judge_lateness(s, t, s->profile.calm ? late_ms : min_of(late_ms, now_ms - s->healed_ms - HEALING_MS));
}

/* A recurring task that has ended decides on nothing any more: its occurrences run, however late. */
static bool has_ended(struct sim *s, const struct subject *parent)
{
    cleanup_with(arena_release) struct arena a;
    struct task t;
    struct error e;
    arena_init(&a, 1 << 20);
    return reader_get(s->reader, parent->tenant, parent->id, &a, &t, &e) || task_is_final(t.state);
}

/* An occurrence that waited for its turn runs when it comes, however late; so do those that were due before it. */
static bool may_have_queued(const struct subject *parent, const struct task *t)
{
    bool queues = t->overlap != OVERLAP_ALLOW && t->overlap != OVERLAP_SKIP;
    return queues || t->concurrency_limit || parent->key_limit || t->overlap != parent->overlap;
}

/* After an outage of any length, an occurrence that was due before its end runs only as its catch-up mode says: none,
 * one for all, or all, and none older than the catch-up window. A task that was claimed before the crash is no late
 * run: it was under way, and has a loss. */
static void judge_catch_up(struct sim *s, const struct subject *x, const struct task *t)
{
    struct subject *parent = oracle_find(s, t->parent);
    bool gated = t->fence > 1 || gates_were_ever_closed(s); /* by a breaker, a pause or a limit: no outage */
    if (!parent || x->manual || x->call_count || t->losses || may_have_queued(parent, t) || gated)
        return;
    int64_t at_ms = t->scheduled_ms + schedule_spread(&parent->schedule, parent->id);
    bool put_off = t->due_ms > at_ms; /* it was started in time, and a host answered with Retry-After */
    if (s->born_ms == INT64_MIN || at_ms >= s->born_ms - MISSED_MS || put_off)
        return;
    if (uuid_time_ms(t->claim) < s->born_ms || has_ended(s, parent))
        return;
    parent->late_runs = parent->late_after == s->outages ? parent->late_runs + 1 : 1;
    parent->late_after = s->outages;
    static const int allowed[] = { [CATCH_UP_ONE] = 1, [CATCH_UP_ALL] = INT_MAX, [CATCH_UP_NONE] = 0 };
    bool too_old = at_ms < s->born_ms - MISSED_MS - parent->schedule.catch_up_window_ms;
    if (too_old || parent->late_runs > allowed[parent->schedule.catch_up])
        breach(s, BREACH_CATCH_UP, "%s runs %lld ms late, the %dth of %s that was due before the node was there",
               short_id(t->id), (long long)(wall_ms(s) - at_ms), parent->late_runs, short_id(parent->id));
}

struct known_call *oracle_started(struct sim_node *n, const struct task *t)
{
    struct sim *s = n->sim;
    struct subject *x = subject_of(s, t);
    const struct known_call *last = x->call_count ? &x->calls[x->call_count - 1] : NULL;
    trace(s, "receiver: %s attempt %d fence %lld due %lld from node %d, tenant %d, " STR_FMT ", priority %d, host %d",
          short_id(t->id), t->attempts + 1, (long long)t->fence, (long long)t->due_ms, n->number, t->tenant,
          STR_ARG(t->queue), t->priority, gates_host(t));
    s->stats->calls++;
    judge_time(s, x, t);
    joins_judge_start(s, x);
    nodes_judge_start(n, t);
    limits_judge_start(n, t);
    x->waits = false;
    isolation_judge_start(n, t);
    judge_catch_up(s, x, t);
    bool forgiven = fleet_forgives(s, t);
    if (!forgiven) {
        flows_judge_start(s, t);
        judge_cancelled(s, x, t);
    }
    if (x->quiet_us < s->steady_us && !forgiven)
        breach(s, BREACH_AFTER_STOP, "%s started %lld ms after its stop was acknowledged", short_id(t->id),
               (long long)(s->steady_us - x->quiet_us) / 1000);
    if (last && last->fence >= t->fence && !forgiven)
        breach(s, BREACH_TWO_RESULTS, "%s started with fence %lld after %lld", short_id(t->id), (long long)t->fence,
               (long long)last->fence);
    if (last)
        judge_repeat(s, x, last, forgiven);
    if (last)
        judge_failover(s, x, t, last);
    if (!forgiven)
        judge_attempts(s, x);
    if (x->call_count == x->call_cap) {
        x->call_cap = x->call_cap * 2 + 4;
        x->calls = xrealloc(x->calls, x->call_cap * sizeof *x->calls);
    }
    struct known_call *c = &x->calls[x->call_count++];
    *c = (struct known_call){ .claim = t->claim,
                              .at_crash = forgiven,
                              .crashed_us = s->steady_us,
                              .fence = t->fence,
                              .due_ms = t->due_ms,
                              .started_us = s->steady_us,
                              .started_wall_ms = wall_ms(s),
                              .at = n,
                              .retry_after_ms = -1 };
    return c;
}

static struct known_call *call_of(struct sim *s, struct uuid id, int64_t fence)
{
    struct subject *x = oracle_find(s, id);
    for (size_t i = x ? x->call_count : 0; i-- > 0;)
        if (x->calls[i].fence == fence)
            return &x->calls[i];
    return NULL;
}

const struct known_call *oracle_call(struct sim *s, struct uuid id, int64_t fence)
{
    return call_of(s, id, fence);
}

struct last_fence {
    struct uuid id;
    int64_t fence;
};

int64_t oracle_settled_fence(struct sim *s, struct uuid id)
{
    const struct last_fence *f = map_get(&s->oracle->fences, key_of(&id));
    return f ? f->fence : 0;
}

static void remember_fence(struct sim *s, const struct settlement *v)
{
    struct last_fence *f = map_get(&s->oracle->fences, key_of(&v->id));
    if (!f) {
        f = xnew(*f);
        f->id = v->id;
        map_put(&s->oracle->fences, key_of(&f->id), f);
    }
    f->fence = max_of(f->fence, v->fence);
}

/* A fault may have sent it twice under one fence. */
static struct known_call *running_call_of(struct sim *s, struct uuid id, int64_t fence)
{
    struct subject *x = oracle_find(s, id);
    for (size_t i = x ? x->call_count : 0; i-- > 0;)
        if (x->calls[i].fence == fence && !x->calls[i].ended)
            return &x->calls[i];
    return NULL;
}

void oracle_ended(struct sim *s, const struct task *t, const struct outcome *o)
{
    struct known_call *c = running_call_of(s, t->id, t->fence);
    assert(c);
    trace(s, "receiver: %s fence %lld ends %s", short_id(t->id), (long long)t->fence,
          o->kind == OUTCOME_OK          ? "well"
          : o->kind == OUTCOME_CANCELLED ? "aborted"
                                         : "badly");
    c->ended = true;
    c->outcome = o->kind;
    c->ended_wall_ms = wall_ms(s);
    c->failure = o->failure;
    c->retry_after_ms = o->retry_after_ms;
    s->ended_late = s->ended_late || s->stopped_ms;
    if (task_is_suspect(t))
        s->suspect_ended_ms = wall_ms(s);
    limits_ended(s, t, o);
    blame_answered(s, t, o, c->started_us);
}

static void judge_result(struct sim *s, const struct subject *x, struct known_call *c, const struct settlement *v)
{
    static const enum execution_status status_of[] = { [OUTCOME_OK] = EXECUTION_COMPLETED,
                                                       [OUTCOME_FAILED] = EXECUTION_FAILED,
                                                       [OUTCOME_CANCELLED] = EXECUTION_CANCELLED };
    const struct verdict *verdict = &v->verdict;
    bool lost = !verdict->has_execution || verdict->execution.status == EXECUTION_LOST;
    bool given = false; /* to any of them: a fault may have sent it twice under one fence */
    for (size_t i = 0; i < x->call_count && !lost; i++)
        given = given || (x->calls[i].fence == v->fence && x->calls[i].ended &&
                          verdict->execution.status == status_of[x->calls[i].outcome]);
    c->retried = !lost; /* by its policy, and so as late as that says */
    if (lost ? !c->at_crash : !given)
        breach(s, BREACH_TWO_RESULTS, "%s fence %lld: the result kept is not the one that was given", short_id(x->id),
               (long long)v->fence);
    if (lost || !c->ended || c->outcome != OUTCOME_FAILED || verdict->next != TASK_SCHEDULED || s->jumped)
        return;
    int64_t most_ms = max_of(c->retry_after_ms, x->max_delay_ms); /* the larger of both holds */
    int64_t least_ms = max_of(c->retry_after_ms, (int64_t)0);
    /* Nodes are behind the store's time by as much as its answers take, and make up for it. */
    int64_t behind_ms = nodes_behind_ms(s);
    if (verdict->due_ms < c->ended_wall_ms + least_ms || verdict->due_ms > wall_ms(s) + most_ms + behind_ms)
        breach(s, BREACH_TOO_OFTEN,
               "%s is retried at %lld, not between %lld ms from its end at %lld and %lld ms from now", short_id(x->id),
               (long long)verdict->due_ms, (long long)least_ms, (long long)c->ended_wall_ms, (long long)most_ms);
}

void oracle_settled(struct sim *s, const struct settlement *v, int64_t now_ms)
{
    (void)now_ms;
    struct subject *x = oracle_find(s, v->id);
    struct known_call *c = call_of(s, v->id, v->fence);
    remember_fence(s, v);
    flows_settled(s, v);
    if (x && !v->replace && v->verdict.next == TASK_SCHEDULED)
        oracle_waits(s, x, v->verdict.due_ms);
    if (!c && !v->replace && v->verdict.has_execution && v->verdict.execution.status != EXECUTION_LOST &&
        !flows_is_control(s, v->id))
        breach(s, BREACH_RECORD, "%s fence %lld has an execution, and was never called", short_id(v->id),
               (long long)v->fence);
    if (!c) { /* it never fired: it was returned, put aside, recalled, or lost before */
        if (x)
            isolation_unfired(s, x);
        return;
    }
    if (c->settled)
        breach(s, BREACH_TWO_RESULTS, "%s fence %lld was settled twice", short_id(v->id), (long long)v->fence);
    if (v->replace)
        breach(s, BREACH_TWO_RESULTS, "%s fence %lld was recalled after it fired", short_id(v->id),
               (long long)v->fence);
    else
        judge_result(s, x, c, v);
    c->settled = true;
    c->next = v->verdict.next;
}

void oracle_crashed(struct sim_node *n)
{
    struct oracle *o = n->sim->oracle;
    for (size_t i = 0; i < o->n; i++) {
        struct subject *x = o->v[i];
        struct known_call *last = x->call_count ? &x->calls[x->call_count - 1] : NULL;
        /* If the node that was to settle the lost call dies too, the queue tells another one: the failover begins anew. */
        if (!last || last->settled || (last->at != n && last->reaper != n))
            continue;
        last->at_crash = true;
        last->crashed_us = n->sim->steady_us;
        last->reaper = NULL;
    }
}

void oracle_timed_out(const struct sim_node *n, const struct task *t)
{
    struct subject *x = oracle_find(n->sim, t->id);
    struct known_call *last = x && x->call_count ? &x->calls[x->call_count - 1] : NULL;
    if (last && last->fence == t->fence && last->at_crash)
        last->reaper = n;
}

void oracle_forgive(struct sim *s, bool (*forgives)(struct sim *s, const struct known_call *c))
{
    for (size_t i = 0; i < s->oracle->n; i++) {
        struct subject *x = s->oracle->v[i];
        struct known_call *last = x->call_count ? &x->calls[x->call_count - 1] : NULL;
        if (!last || last->settled || !forgives(s, last))
            continue;
        last->at_crash = true;
        last->crashed_us = s->steady_us;
    }
}

/* ---- when everything has drained ---- */

static bool ended_with(const struct subject *x, enum outcome_kind kind)
{
    for (size_t i = 0; i < x->call_count; i++)
        if (x->calls[i].ended && x->calls[i].outcome == kind)
            return true;
    return false;
}

/* Whether the row's state is possible, after what users asked for and the receiver got. */
static bool is_explained(struct sim *s, const struct subject *x, const struct task *t)
{
    bool crash_ate_it = x->delivery == DELIVER_AT_MOST_ONCE && s->lives > 1;
    bool convicted = t->losses > SUSPECT_LOSSES && s->lives > SUSPECT_LOSSES;
    bool is_run = x->kind == TASK_OCCURRENCE && !x->manual;
    const struct subject *parent = oracle_find(s, x->parent);
    enum overlap policy =
        parent ? parent->overlap : x->overlap; /* a missed occurrence waits, and may be replaced all the same */
    int64_t queue_ms =
        s->profile.slots < ROOM_FOR_ALL ? TURN_MS : 0; /* a burst at the very end: not all had a slot yet */
    switch (t->state) {
    case TASK_COMPLETED: return x->force_sent || ended_with(x, OUTCOME_OK);
    case TASK_FAILED: return crash_ate_it || convicted || ended_with(x, OUTCOME_FAILED);
    case TASK_CANCELLED:
        return x->stop_sent || (parent && (parent->stop_sent || (x->manual && parent->force_sent))) ||
               (is_run && policy == OVERLAP_CANCEL_PREVIOUS);
    case TASK_PAUSED: return x->pause_sent;
    case TASK_SCHEDULED:
        /* A task that ended while the node was asked to stop may have given its slot to one that nobody claims any
         * more. */
        return max_of(t->due_ms, s->crowded_ms) >= s->stopped_ms - queue_ms ||
               (s->ended_late && limits_is_in_line(s, t)) ||
               (s->profile.poison && task_is_suspect(t)); /* suspects run one by one, and the poison task struck late */
    case TASK_BLOCKED: return limits_is_in_line(s, t);
    case TASK_SKIPPED: return is_run && (policy == OVERLAP_SKIP || policy == OVERLAP_QUEUE_ONE);
    case TASK_EXPIRED: return x->expires_after_ms > 0;
    default: return false;
    }
}

/* If only the poison task takes the node down, it alone is dead-lettered for that. */
static void check_poison(struct sim *s, const struct subject *x, const struct task *t)
{
    if (!s->profile.poison)
        return;
    bool poison = uuid_eq(x->id, s->gates.poison);
    bool blamed = t->state == TASK_FAILED && !ended_with(x, OUTCOME_FAILED) && x->delivery != DELIVER_AT_MOST_ONCE;
    bool called_off = x->stop_sent || x->force_sent || x->pause_sent;
    if (poison && x->call_count && !blamed && !called_off)
        breach(s, BREACH_INNOCENT, "the poison task %s is %s", short_id(x->id), task_state_name(t->state));
    if (!poison && blamed)
        breach(s, BREACH_INNOCENT, "%s was blamed, lost %d times", short_id(x->id), t->losses);
}

static void check_one(struct sim *s, struct subject *x)
{
    if (x->flow)
        return;
    cleanup_with(arena_release) struct arena a;
    struct task t;
    struct error e;
    arena_init(&a, 1 << 20);
    const struct subject *parent = oracle_find(s, x->parent);
    bool promised = x->acked || (!x->manual && parent && parent->acked);
    /* A task that was in flight at a crash may look as if it had never fired, if the clock was set back, too. */
    bool withdrawn =
        parent && parent->withdrawn && !x->manual && (!x->call_count || x->calls[x->call_count - 1].at_crash);
    if (reader_get(s->reader, x->tenant, x->id, &a, &t, &e)) {
        if (promised && !x->stop_sent && !withdrawn)
            breach(s, BREACH_LOST, "%s is gone: %s", short_id(x->id), e.text);
        return;
    }
    joins_check(s, x, &t);
    if (promised && !withdrawn && !is_explained(s, x, &t) && !joins_explain(x, &t))
        breach(s, BREACH_LOST, "%s is %s, due %lld, %zu calls", short_id(x->id), task_state_name(t.state),
               (long long)t.due_ms, x->call_count);
    check_poison(s, x, &t);
    limits_check(s, &t);
    for (const struct subject *rival = x->rival; rival; rival = rival->rival)
        if (reader_get(s->reader, rival->tenant, rival->id, &a, &t, &e) == ERR_OK)
            breach(s, BREACH_TWICE_MADE, "%s and %s", short_id(x->id), short_id(rival->id));
}

static bool has_expired(struct sim *s, const struct subject *x)
{
    cleanup_with(arena_release) struct arena a;
    struct task t;
    struct error e;
    arena_init(&a, 1 << 20);
    return x->expires_after_ms && reader_get(s->reader, x->tenant, x->id, &a, &t, &e) == ERR_OK &&
           t.state == TASK_EXPIRED;
}

/* Runs that a user asked for by hand do not count, nor runs that expired before they ended. */
static void check_max_runs(struct sim *s, const struct subject *x)
{
    int64_t ran = 0;
    for (size_t i = 0; x->schedule.max_runs && i < s->oracle->n; i++) {
        const struct subject *one = s->oracle->v[i];
        ran += one->call_count && !one->manual && uuid_eq(one->parent, x->id) && !has_expired(s, one);
    }
    if (ran > x->schedule.max_runs)
        breach(s, BREACH_OCCURRENCE, "%s ran %lld times, %lld allowed", short_id(x->id), (long long)ran,
               (long long)x->schedule.max_runs);
}

/* What happened to the occurrences of a rule until its cursor. */
struct tally {
    int64_t ran, called_off, skipped, waiting;
};

/* An occurrence with a row is what its row says; one without a row was skipped when it was due. */
static void count_occurrence(struct sim *s, const struct subject *x, const struct occurrence *o, struct tally *n)
{
    cleanup_with(arena_release) struct arena a;
    struct uuid id = occurrence_id(x->id, o->scheduled_ms);
    const struct subject *one = oracle_find(s, id);
    struct task t;
    struct error e;
    arena_init(&a, 1 << 20);
    bool has_row = reader_get(s->reader, x->tenant, id, &a, &t, &e) == ERR_OK;
    if (!has_row || t.state == TASK_SKIPPED || (t.state == TASK_EXPIRED && !t.started_ms))
        n->skipped++;
    else if ((one && one->call_count) ||
             t.state == TASK_EXPIRED) /* expired after a crash, before which it may have run */
        n->ran++;
    else if (t.state == TASK_CANCELLED && x->overlap == OVERLAP_CANCEL_PREVIOUS)
        n->called_off++;
    else if (o->at_ms >= s->stopped_ms - 20000 || limits_is_in_line(s, &t))
        n->waiting++;
    else if (!(x->delivery == DELIVER_AT_MOST_ONCE && s->lives > 1))
        breach(s, BREACH_OCCURRENCE, "%s of %s neither ran nor was counted as skipped: it is %s", short_id(id),
               short_id(x->id), task_state_name(t.state));
}

/* It expired before its time came: it counts, however late that is. */
static bool expired_early(struct sim *s, const struct subject *x, const struct occurrence *o)
{
    cleanup_with(arena_release) struct arena a;
    struct task t;
    struct error e;
    arena_init(&a, 1 << 20);
    return reader_get(s->reader, x->tenant, occurrence_id(x->id, o->scheduled_ms), &a, &t, &e) == ERR_OK &&
           t.state == TASK_EXPIRED;
}

/* Walks the rule so far: each occurrence has run, or is counted as skipped. */
static void check_occurrences(struct sim *s, const struct subject *x, const struct task *t)
{
    struct tally n = { 0 };
    struct occurrence o;
    int64_t end_ms = t->state == TASK_COMPLETED ? INT64_MAX : t->cursor_ms; /* a task that has ended spawns no more */
    for (int64_t from_ms = x->cursor_ms; recurrence_next(&x->rules[0], from_ms, &o); from_ms = o.at_ms + 1) {
        if (o.at_ms >= end_ms || (x->schedule.max_runs && n.ran >= x->schedule.max_runs))
            break;
        if (o.at_ms >= s->stopped_ms && !expired_early(s, x, &o))
            break;
        count_occurrence(s, x, &o, &n);
    }
    bool may_skip = x->overlap == OVERLAP_SKIP || x->overlap == OVERLAP_QUEUE_ONE || x->expires_after_ms;
    /* A change that withdraws a waiting occurrence decides anew on those that were skipped because of it. If a
     * breaker held the withdrawn one, later ones have run by then, and are decided on again. */
    bool held = metric_count(s->metrics, METRIC_TASKS_HELD) > 0;
    bool exact = !(x->withdrawn && (may_skip || held));
    if (exact && n.skipped != t->skipped_count && t->state != TASK_COMPLETED)
        breach(s, BREACH_OCCURRENCE, "%s: %lld ran, %lld did not, %lld were counted as skipped", short_id(x->id),
               (long long)n.ran, (long long)n.skipped, (long long)t->skipped_count);
    if (x->schedule.catch_up == CATCH_UP_ALL && x->schedule.catch_up_window_ms > 3600000 && t->skipped_count &&
        !may_skip)
        breach(s, BREACH_OCCURRENCE, "%s skipped %lld though it runs all that was missed", short_id(x->id),
               (long long)t->skipped_count);
}

static void check_recurring(struct sim *s, struct subject *x)
{
    cleanup_with(arena_release) struct arena a;
    struct task t;
    struct error e;
    arena_init(&a, 1 << 20);
    if (x->stop_sent || x->force_sent || !x->acked)
        return;
    if (reader_get(s->reader, x->tenant, x->id, &a, &t, &e)) {
        breach(s, BREACH_LOST, "%s is gone: %s", short_id(x->id), e.text);
        return;
    }
    if (t.state == TASK_PAUSED && x->pause_sent)
        return;
    if (t.state != TASK_SCHEDULED && t.state != TASK_COMPLETED)
        breach(s, BREACH_LOST, "recurring %s is %s", short_id(x->id), task_state_name(t.state));
    if (t.state == TASK_SCHEDULED && t.cursor_ms < s->stopped_ms - 20000)
        breach(s, BREACH_OCCURRENCE, "%s has spawned nothing since %lld", short_id(x->id), (long long)t.cursor_ms);
    if (!x->schedule_edited)
        check_occurrences(s, x, &t);
    check_max_runs(s, x);
}

static void check_row_is_not_stuck(struct sim *s)
{
    struct store_counts counts;
    struct error e;
    if (reader_counts(s->reader, wall_ms(s), &counts, &e))
        breach(s, BREACH_STUCK, "counting: %s", e.text);
    else if (counts.by_state[TASK_RUNNING] > flows_count_open(s))
        breach(s, BREACH_LOST, "%lld tasks are RUNNING and nobody runs them",
               (long long)(counts.by_state[TASK_RUNNING] - flows_count_open(s)));
}

void oracle_check(struct sim *s)
{
    struct oracle *o = s->oracle;
    for (size_t i = 0; i < o->n; i++) {
        struct subject *x = o->v[i];
        if (x->kind == TASK_RECURRING)
            check_recurring(s, x);
        else
            check_one(s, x);
    }
    flows_check(s);
    check_row_is_not_stuck(s);
}

#include "node/explain.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/rfc3339.h"
#include "core/target/target_url.h"

enum { RULES_ARENA = 1 << 16, SHOWN_MAX = 200 };

const char *explain_gate_name(enum explain_gate g)
{
    static const char *const names[] = {
#define X(id, name) [EXPLAIN_##id] = name,
        EXPLAIN_GATE_MAP(X)
#undef X
    };
    return names[g];
}

__attribute__((format(printf, 4, 5))) static bool explain_answer(struct explanation *ret, enum explain_gate gate,
                                                                 int64_t until_ms, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    ret->gate = gate;
    ret->until_ms = until_ms == INT64_MAX ? 0 : until_ms;
    vsnprintf(ret->text, sizeof ret->text, fmt, args);
    va_end(args);
    return true;
}

/* A time as text. */
struct when {
    char text[RFC3339_TEXT + 1];
};

static struct when explain_time(int64_t ms)
{
    struct when w;
    rfc3339_format(ms, w.text);
    return w;
}

static struct str explain_cut(struct str s)
{
    return str_utf8_cut(s, SHOWN_MAX);
}

/* ---- one gate each; true: it is the answer ---- */

/* It has fired. If the workers that could run it have left since, it waits in the fleet's queue. */
static bool explain_by_queue(const struct explain_view *v, const struct task *t, struct explanation *ret)
{
    struct lanes *lanes = scheduler_lanes(v->scheduler);
    const struct lane_entry *e = lanes_get(lanes, task_lane(t));
    struct pool_shortage s = { .need = POOL_NOTHING };
    if (e && scheduler_queued(v->scheduler, t->id, t->fence))
        s = lanes_shortage(lanes, e);
    if (s.need == POOL_NOTHING)
        return explain_answer(ret, EXPLAIN_RUNNING, 0, "it has fired: it runs, or its outcome is being written");
    return explain_answer(ret, EXPLAIN_NO_WORKER, 0, "it has fired, and %s: unless it runs, it waits in the queue",
                          s.reason);
}

static bool explain_by_claim(const struct explain_view *v, const struct task *t, int64_t now_ms,
                             struct explanation *ret)
{
    if (t->state != TASK_RUNNING)
        return false;
    if (!scheduler_armed(v->scheduler, t->id, t->fence)) {
        if (scheduler_holds(v->scheduler, t->id, t->fence))
            return explain_by_queue(v, t, ret);
        return explain_answer(ret, EXPLAIN_RUNNING, 0, "another node has claimed it, or a node that is gone");
    }
    if (t->due_ms > now_ms)
        return explain_answer(ret, EXPLAIN_ARMED, t->due_ms, "it is claimed, and fires at %s",
                              explain_time(t->due_ms).text);
    return false; /* due, and on the wheel: its queue's rate holds it */
}

/* When the breaker lets a call go, since when it is open, and how to close it. */
struct breaker_ways {
    char text[192];
};

static struct breaker_ways explain_breaker_ways(const struct breaker_row *b, int64_t now_ms)
{
    struct breaker_ways w;
    char id[UUID_TEXT + 1];
    bool waits = b->until_ms > now_ms;
    uuid_format(b->id, id);
    snprintf(w.text, sizeof w.text, "It is open since %s; %s%s. To close it: belfry breakers close %s",
             explain_time(b->opened_ms).text, waits ? "the next trial is at " : "one task at a time is tried now",
             waits ? explain_time(b->until_ms).text : "", id);
    return w;
}

/* A task that was put aside waits for the breaker of its host, or of its tenant. */
static bool explain_by_open_breaker(const struct explain_view *v, const struct task *t, int64_t now_ms,
                                    struct explanation *ret)
{
    const struct breaker_row *b = t->aside.n ? breaker_table_find(v->breakers, t->tenant, t->aside) : NULL;
    if (!b)
        return false;
    char host[TARGET_HOST_MAX];
    struct str at = explain_cut(target_host(t, host)), reason = explain_cut(b->reason);
    struct breaker_ways ways = explain_breaker_ways(b, now_ms);
    int64_t until_ms = max_of(b->until_ms, t->due_ms);
    struct when until = explain_time(until_ms);
    if (str_eq(b->host, BREAKER_ANY_HOST))
        return explain_answer(ret, EXPLAIN_TENANT_BREAKER, until_ms,
                              "%lld of %lld calls of its tenant to several hosts failed, and none to " STR_FMT
                              " succeeded lately: the circuit breaker of the tenant holds it until %s. %s",
                              (long long)b->failures, (long long)b->calls, STR_ARG(at), until.text, ways.text);
    if (str_starts(b->reason, S(BREAKER_RETRY_AFTER)))
        return explain_answer(ret, EXPLAIN_HOST_BREAKER, until_ms,
                              "the host " STR_FMT " asked to be left alone until %s (" STR_FMT "). %s", STR_ARG(at),
                              explain_time(b->until_ms).text, STR_ARG(reason), ways.text);
    return explain_answer(
        ret, EXPLAIN_HOST_BREAKER, until_ms,
        "the circuit breaker of " STR_FMT " holds it until %s: %lld of %lld calls to the host failed (" STR_FMT "). %s",
        STR_ARG(at), until.text, (long long)b->failures, (long long)b->calls, STR_ARG(reason), ways.text);
}

/* A task that has not been put aside yet will be. */
static bool explain_by_breaker(const struct explain_view *v, const struct task *t, int64_t now_ms,
                               struct explanation *ret)
{
    char text[TARGET_HOST_MAX];
    struct str host = target_host(t, text);
    struct breaker_view b;
    if (explain_by_open_breaker(v, t, now_ms, ret))
        return true;
    if (!breakers_holds(worker_breakers(v->worker), t->tenant, host, now_ms, &b))
        return false;
    const struct breaker_status *s = &b.status;
    int64_t until_ms = max_of(s->until_ms, t->due_ms);
    struct when until = explain_time(until_ms);
    if (!b.host.n)
        return explain_answer(ret, EXPLAIN_TENANT_BREAKER, until_ms,
                              "%d of %d calls of its tenant to several hosts failed, and none to " STR_FMT
                              " succeeded lately: the circuit breaker of the tenant holds it until %s",
                              s->counts.failures, s->counts.total, STR_ARG(host), until.text);
    if (s->held_by_retry_after)
        return explain_answer(ret, EXPLAIN_HOST_BREAKER, until_ms,
                              "the host " STR_FMT " asked to be left alone until %s (Retry-After)", STR_ARG(host),
                              explain_time(s->until_ms).text);
    return explain_answer(ret, EXPLAIN_HOST_BREAKER, until_ms,
                          "the circuit breaker of " STR_FMT " holds it until %s: %d of %d calls to the host failed",
                          STR_ARG(host), until.text, s->counts.failures, s->counts.total);
}

static bool explain_by_time(const struct explain_view *v, const struct task *t, int64_t now_ms, struct explanation *ret)
{
    if (t->due_ms > now_ms) {
        bool was_held = str_starts(t->last_error, S("held: "));
        if (was_held && explain_by_breaker(v, t, now_ms, ret))
            return true;
        if (was_held) /* by another node or worker, or its breaker has closed meanwhile */
            return explain_answer(ret, EXPLAIN_DUE_TIME, t->due_ms, "it is due again at %s; it was " STR_FMT,
                                  explain_time(t->due_ms).text, STR_ARG(explain_cut(t->last_error)));
        return explain_answer(ret, EXPLAIN_DUE_TIME, t->due_ms,
                              t->attempts ? "its next attempt is due at %s" : "it is due at %s",
                              explain_time(t->due_ms).text);
    }
    int64_t expires_ms = task_expires_ms(t);
    if (is_expired(expires_ms, now_ms))
        return explain_answer(ret, EXPLAIN_EXPIRED, now_ms, "it expired at %s and will not run",
                              explain_time(expires_ms).text);
    return false;
}

static bool explain_by_suspicion(const struct explain_view *v, const struct task *t, struct explanation *ret)
{
    struct scheduler_status s = scheduler_status(v->scheduler);
    if (v->recovering)
        return explain_answer(
            ret, EXPLAIN_RECOVERY, 0,
            "this node has just started: it first settles tasks that were running when it died, and catches up");
    if (s.isolating && !task_is_suspect(t))
        return explain_answer(
            ret, EXPLAIN_RECOVERY, 0,
            "this node has restarted after a crash: for a few seconds it first runs the tasks that may "
            "have caused it, one at a time");
    if (!task_is_suspect(t) || s.suspects == 0)
        return false;
    return explain_answer(
        ret, EXPLAIN_SUSPECT, 0,
        "the process that ran it died %d times: such tasks run one at a time, and another one is running", t->losses);
}

static bool explain_by_pause(const struct explain_view *v, const struct task *t, struct explanation *ret)
{
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, RULES_ARENA);
    struct queue_rules r = catalog_cache_queue(v->catalog, t->tenant, t->queue, &a);
    const char *until = r.paused_until_ms ? ", until " : "";
    struct when when = explain_time(r.paused_until_ms);
    return explain_answer(ret, EXPLAIN_QUEUE_PAUSED, r.paused_until_ms,
                          "its queue " STR_FMT " is paused since %s%s" STR_FMT "%s" STR_FMT "%s%s",
                          STR_ARG(explain_cut(t->queue)), explain_time(r.paused_ms).text, r.paused_by.n ? " by " : "",
                          STR_ARG(explain_cut(r.paused_by)), r.paused_reason.n ? ": " : "",
                          STR_ARG(explain_cut(r.paused_reason)), until, r.paused_until_ms ? when.text : "");
}

static bool explain_by_limits(const struct explain_view *v, const struct task *t, struct lane_entry *e, int64_t now_ms,
                              struct explanation *ret)
{
    struct lanes *lanes = scheduler_lanes(v->scheduler);
    struct lane_hold h = lanes_hold_of(lanes, e, now_ms);
    struct lane_facts f = lanes_facts(lanes, e);
    struct str queue = explain_cut(t->queue);
    switch (h.gate) {
    case LANE_NONE: return false;
    case LANE_PAUSED: return explain_by_pause(v, t, ret);
    case LANE_RATE:
        return explain_answer(ret, EXPLAIN_QUEUE_RATE, h.until_ms, "its queue " STR_FMT " has used up its rate for now",
                              STR_ARG(queue));
    case LANE_CONCURRENCY:
        if (f.queue_elsewhere)
            return explain_answer(ret, EXPLAIN_QUEUE_CONCURRENCY, 0,
                                  "%zu of its queue " STR_FMT " run here, %lld of %lld places are with other nodes",
                                  f.queue_held, STR_ARG(queue), (long long)f.queue_elsewhere, (long long)f.queue_limit);
        return explain_answer(ret, EXPLAIN_QUEUE_CONCURRENCY, 0,
                              "%zu of its queue " STR_FMT " run, and no more than %lld may", f.queue_held,
                              STR_ARG(queue), (long long)f.queue_limit);
    case LANE_TENANT_DISABLED:
        return explain_answer(ret, EXPLAIN_TENANT_DISABLED, 0, "its tenant is disabled: what it has scheduled waits");
    case LANE_TENANT_LIMIT:
        if (f.tenant_elsewhere)
            return explain_answer(ret, EXPLAIN_TENANT_LIMIT, 0,
                                  "%zu tasks of its tenant run here, %lld of %lld places are with other nodes",
                                  f.tenant_held, (long long)f.tenant_elsewhere, (long long)f.tenant_limit);
        return explain_answer(ret, EXPLAIN_TENANT_LIMIT, 0, "%zu tasks of its tenant run, and no more than %lld may",
                              f.tenant_held, (long long)f.tenant_limit);
    case LANE_TENANT_SHARE:
        return explain_answer(
            ret, EXPLAIN_TENANT_SHARE, 0,
            f.pool_workers
                ? "its tenant has %zu of the %zu places at workers that can run it, and %lld are the most for "
                  "one tenant among several"
                : "its tenant has %zu of this node's %zu slots, and %lld are the most for one tenant among "
                  "several",
            f.tenant_pool_held, f.pool_places, (long long)f.tenant_limit);
    case LANE_HOST_BUSY:
        return explain_answer(ret, EXPLAIN_HOST_BUSY, 0,
                              "its host " STR_FMT " has as many calls under way as one host gets at once",
                              STR_ARG(explain_cut(t->aside)));
    case LANE_BREAKER: return explain_by_breaker(v, t, now_ms, ret);
    case LANE_NO_WORKER:
        return explain_answer(ret, EXPLAIN_NO_WORKER, 0, "%s: it waits until one joins that can run it",
                              lanes_shortage(lanes, e).reason);
    }
    __builtin_unreachable();
}

/* Its pool has no place for it. */
static void explain_by_places(const struct lane_facts *f, struct explanation *ret)
{
    if (f->pool_workers)
        explain_answer(
            ret, EXPLAIN_NO_FREE_SLOT, 0,
            "the %zu worker%s that can run it ha%s %zu slots, and %zu tasks of this node run there or wait for "
            "a slot: no more may",
            f->pool_workers, f->pool_workers == 1 ? "" : "s", f->pool_workers == 1 ? "s" : "ve", f->pool_slots,
            f->pool_taken);
    else if (f->pool_taken >= f->pool_places)
        explain_answer(ret, EXPLAIN_NO_FREE_SLOT, 0, "all %zu slots of this node are taken", f->pool_places);
    else
        explain_answer(ret, EXPLAIN_NO_FREE_SLOT, 0,
                       "%zu of this node's %zu slots are taken, and the others are kept for higher priorities",
                       f->pool_taken, f->pool_places);
}

static void explain_by_backlog(const struct explain_view *v, const struct task *t, struct lane_entry *e,
                               struct explanation *ret)
{
    struct lane_facts f = { .next_due_ms = INT64_MAX };
    if (e)
        f = lanes_facts(scheduler_lanes(v->scheduler), e);
    if (f.pool_waits)
        explain_by_places(&f, ret);
    else if (f.next_due_ms < t->due_ms)
        explain_answer(ret, EXPLAIN_BACKLOG, 0,
                       "others of its tenant, queue and priority wait longer: the first is due since %s",
                       explain_time(f.next_due_ms).text);
    else if (t->state == TASK_RUNNING)
        explain_answer(ret, EXPLAIN_QUEUE_RATE, 0, "it is claimed, and waits for its queue's rate");
    else
        explain_answer(ret, EXPLAIN_NONE, 0, "nothing holds it: it is about to be claimed");
}

void explain(const struct explain_view *v, const struct task *t, int64_t now_ms, struct explanation *ret)
{
    assert((t->state == TASK_SCHEDULED || t->state == TASK_RUNNING) && t->kind != TASK_RECURRING);
    struct lane_entry *e = lanes_get(scheduler_lanes(v->scheduler), task_lane(t));
    if (explain_by_claim(v, t, now_ms, ret) || explain_by_time(v, t, now_ms, ret) || explain_by_suspicion(v, t, ret) ||
        (e && explain_by_limits(v, t, e, now_ms, ret)) || explain_by_breaker(v, t, now_ms, ret))
        return;
    explain_by_backlog(v, t, e, ret);
}

/* Circuit breakers, and hosts that have as many calls as they get at once. A breaker lets one task at a time try its
 * host. So when it lets a task go is known only of the first one. */
#include <stdio.h>

#include "core/target/target_url.h"
#include "node/explain_internal.h"

static const char *const explain_one_at_a_time = "only one task at a time is tried, and others may be tried before it";

/* ---- breakers ---- */

/* When the breaker lets a call go, since when it is open, and how to close it. */
struct explain_breaker_ways {
    char text[192];
};

static struct explain_breaker_ways explain_breaker_ways(const struct breaker_row *b, int64_t now_ms)
{
    struct explain_breaker_ways w;
    char id[UUID_TEXT + 1];
    bool waits = b->until_ms > now_ms;
    uuid_format(b->id, id);
    snprintf(w.text, sizeof w.text, "It is open since %s; %s%s. To close it: belfry breakers close %s",
             explain_when(b->opened_ms).text, waits ? "the next trial is at " : "one task at a time is tried now",
             waits ? explain_when(b->until_ms).text : "", id);
    return w;
}

static void explain_stored_breaker(struct explain_walk *w, const struct breaker_row *b, int64_t until_ms)
{
    char host[TARGET_HOST_MAX];
    struct str at = explain_cut(target_host(w->task, host)), reason = explain_cut(b->reason);
    struct explain_breaker_ways ways = explain_breaker_ways(b, w->now_ms);
    struct explain_when until = explain_when(until_ms);
    if (str_eq(b->host, BREAKER_ANY_HOST))
        explain_gate_until(w, EXPLAIN_TENANT_BREAKER, until_ms,
                           "%lld of %lld calls of its tenant to several hosts failed, and none to " STR_FMT
                           " succeeded lately: the circuit breaker of the tenant holds it until %s. %s",
                           (long long)b->failures, (long long)b->calls, STR_ARG(at), until.text, ways.text);
    else if (str_starts(b->reason, S(BREAKER_RETRY_AFTER)))
        explain_gate_until(w, EXPLAIN_HOST_BREAKER, until_ms,
                           "the host " STR_FMT " asked to be left alone until %s (" STR_FMT "). %s", STR_ARG(at),
                           explain_when(b->until_ms).text, STR_ARG(reason), ways.text);
    else
        explain_gate_until(w, EXPLAIN_HOST_BREAKER, until_ms,
                           "the circuit breaker of " STR_FMT
                           " holds it until %s: %lld of %lld calls to the host failed (" STR_FMT "). %s",
                           STR_ARG(at), until.text, (long long)b->failures, (long long)b->calls, STR_ARG(reason),
                           ways.text);
}

static const struct breaker_row *explain_breaker_of(const struct explain_walk *w)
{
    const struct task *t = w->task;
    return t->aside.n ? breaker_table_find(w->view->breakers, t->tenant, t->aside) : NULL;
}

/* A task that was put aside waits in a lane of its host, or of the tenant's breaker. It is the next trial if no other
 * lane of the host has a task, and none of its own is due before it, or with it. */
void explain_look_aside(struct explain_walk *w)
{
    const struct task *t = w->task;
    const struct breaker_row *b = explain_breaker_of(w);
    if (!b || w->claimed)
        return;
    struct lanes_breaker_forecast f = lanes_forecast_breaker(w->lanes, t->tenant, t->aside);
    bool is_first = w->lane && f.lanes == 1 && w->lane_facts.next_due_ms >= t->due_ms && !w->facts->queue_twins;
    explain_stored_breaker(w, b, max_of(max_of(b->until_ms, f.open ? f.until_ms : 0), w->at_ms));
    if (!is_first || f.trial_runs || lanes_tenant_has_others(w->lane, w->at_ms))
        explain_unsure(w, explain_one_at_a_time);
}

static void explain_own_breaker(struct explain_walk *w, const struct breaker_view *b, struct str host, int64_t until_ms)
{
    const struct breaker_status *s = &b->status;
    struct explain_when until = explain_when(until_ms);
    if (!b->host.n)
        explain_gate_until(w, EXPLAIN_TENANT_BREAKER, until_ms,
                           "%d of %d calls of its tenant to several hosts failed, and none to " STR_FMT
                           " succeeded lately: the circuit breaker of the tenant holds it until %s",
                           s->counts.failures, s->counts.total, STR_ARG(host), until.text);
    else if (s->held_by_retry_after)
        explain_gate_until(w, EXPLAIN_HOST_BREAKER, until_ms,
                           "the host " STR_FMT " asked to be left alone until %s (Retry-After)", STR_ARG(host),
                           explain_when(s->until_ms).text);
    else
        explain_gate_until(w, EXPLAIN_HOST_BREAKER, until_ms,
                           "the circuit breaker of " STR_FMT " holds it until %s: %d of %d calls to the host failed",
                           STR_ARG(host), until.text, s->counts.failures, s->counts.total);
}

/* A task that has not been put aside yet will be, if the breaker is still open when it fires. Tasks that were, and
 * tasks that fire before it, are tried first. */
void explain_look_breakers(struct explain_walk *w)
{
    const struct task *t = w->task;
    char text[TARGET_HOST_MAX];
    struct str host = target_host(t, text);
    struct breaker_view b;
    if (!host.n || explain_breaker_of(w) || !w->near ||
        !breakers_holds(worker_breakers(w->view->worker), t->tenant, host, w->now_ms, &b))
        return;
    struct lanes_breaker_forecast f = lanes_forecast_breaker(w->lanes, t->tenant, b.host.n ? host : BREAKER_ANY_HOST);
    explain_own_breaker(w, &b, host, max_of(b.status.until_ms, w->at_ms));
    if (f.lanes || f.trial_runs || !b.status.until_ms || explain_crowd(w) + explain_about_to_fire(w))
        explain_unsure(w, explain_one_at_a_time);
}

/* ---- busy hosts ---- */

void explain_look_host(struct explain_walk *w)
{
    const struct task *t = w->task;
    char text[TARGET_HOST_MAX];
    struct str host = target_host_name(target_host(t, text));
    struct worker_host_use use = worker_host_use(w->view->worker, t);
    struct lane_hold h = { 0 };
    bool is_due = t->due_ms <= w->now_ms;
    if (w->lane_facts.pool_workers) /* they have connections of their own */
        use = (struct worker_host_use){ 0 };
    if (!host.n || !w->near || w->at_ms - w->now_ms > EXPLAIN_NEAR_MS)
        return;
    if (is_due && w->lane && !w->claimed)
        h = lanes_hold_of(w->lanes, w->lane, w->now_ms);
    if (h.gate == LANE_HOST_BUSY || (is_due && use.max && use.calls + use.parked >= use.max)) {
        w->ret->position = t->aside.n ? w->facts->queue_ahead : (int64_t)use.parked;
        explain_gate_unknown(w, EXPLAIN_HOST_BUSY, "a call to its host must end first",
                             "its host " STR_FMT " has as many calls under way as one host gets at once",
                             STR_ARG(host));
        return;
    }
    int64_t before = (int64_t)(use.calls + use.parked) + explain_crowd(w) + explain_about_to_fire(w);
    if (use.max && before >= (int64_t)use.max)
        explain_gate_unknown(w, EXPLAIN_HOST_BUSY, "its host may be busy then",
                             "its host " STR_FMT
                             " gets %zu calls at once: %zu are under way, and others come before it",
                             STR_ARG(host), use.max, use.calls);
}

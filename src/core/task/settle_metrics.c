#include "core/task/settle_metrics.h"

#include "base/stats/stats.h"
#include "base/tenant_metrics.h"

static const char *const fault_names[FAULTS] = {
#define X(id, name) [FAULT_##id] = name,
    FAULT_MAP(X)
#undef X
};

/* A task of a user's own worker is lost with its lease: by the user, not by Belfry. */
enum fault fault_of(enum target_kind target, const struct outcome *o)
{
    if (o->kind == OUTCOME_LOST && target == TARGET_WORKER)
        return FAULT_TARGET;
    if (o->kind == OUTCOME_LOST || (o->failure == FAILURE_INTERNAL && !o->by_step))
        return FAULT_BELFRY;
    return outcome_is_final(o) ? FAULT_REQUEST : FAULT_TARGET;
}

/* Whether Belfry alone is to answer for the delay. Users and targets cause the others. A task of a user's own worker
 * waits until that worker asks for it. */
static bool settle_is_own_delay(enum late_cause by, enum target_kind target)
{
    static const bool own[LATE_CAUSES] = {
        [LATE_NONE] = true, [LATE_DOWN] = true, [LATE_ROOM] = true, [LATE_BACKLOG] = true
    };
    return own[by] && !(by == LATE_ROOM && target == TARGET_WORKER);
}

static void settle_count_execution(struct metrics *m, const struct settled_attempt *s, int64_t stats[STATS])
{
    const struct execution *x = &s->verdict->execution;
    int64_t delay_us = x->started_us - x->due_ms * 1000, run_us = max_of(x->completed_us - x->started_us, (int64_t)0);
    if (x->status != EXECUTION_LOST) {
        metric_add(m, METRIC_TASKS_EXECUTED, 1);
        metric_add(m, METRIC_RUN_TIME, run_us);
        stats[STAT_EXECUTED]++;
        stats_observe_us(stats, STAT_RUN_0, run_us);
    }
    if (x->attempt == 1 && settle_is_own_delay(x->late_by, s->target)) {
        metric_observe_us(m, METRIC_START_DELAY, delay_us);
        if (s->trace)
            metric_note_exemplar(m, METRIC_START_DELAY, delay_us, s->trace, x->completed_us / 1000);
        stats_observe_us(stats, STAT_DELAY_0, delay_us);
        tenant_metrics_observe_delay_us(metrics_tenants(m), s->tenant, delay_us);
    }
}

static void settle_count_one(struct metrics *m, const struct settled_attempt *s, int64_t stats[STATS],
                             enum tenant_outcome o)
{
    static const struct {
        enum metric metric;
        enum stats_id stat;
    } counted[TENANT_OUTCOMES] = {
        [TENANT_COMPLETED] = { METRIC_TASKS_COMPLETED, STAT_COMPLETED },
        [TENANT_FAILED] = { METRIC_TASKS_FAILED, STAT_FAILED },
        [TENANT_RETRIED] = { METRIC_TASKS_RETRIED, STAT_RETRIED },
        [TENANT_LOST] = { METRIC_TASKS_RECOVERED, STAT_LOST },
        [TENANT_EXPIRED] = { METRIC_TASKS_EXPIRED, STAT_EXPIRED },
    };
    metric_add(m, counted[o].metric, 1);
    tenant_metrics_count(metrics_tenants(m), s->tenant, o);
    stats[counted[o].stat]++;
}

static void settle_count_fault(struct metrics *m, enum fault fault, int64_t stats[STATS])
{
    metric_add_labelled(m, METRIC_TASK_FAILURES, fault_names, fault, 1);
    stats[STAT_FAULTS]++;
    stats[STAT_BELFRY_FAULTS] += fault == FAULT_BELFRY;
}

void settle_count_from_zero(struct metrics *m)
{
    for (size_t i = 0; i < FAULTS; i++)
        metric_add_labelled(m, METRIC_TASK_FAILURES, fault_names, i, 0);
}

void settle_count(struct metrics *m, const struct settled_attempt *s)
{
    bool ran = s->verdict->has_execution, lost = ran && s->verdict->execution.status == EXECUTION_LOST;
    bool failed = ran ? s->verdict->execution.status == EXECUTION_FAILED : s->state == TASK_FAILED;
    if (!s->tenant) /* Belfry's own work */
        return;
    int64_t *stats = stats_begin(metrics_stats(m), s->tenant);
    if (ran)
        settle_count_execution(m, s, stats);
    if (lost)
        settle_count_one(m, s, stats, TENANT_LOST);
    else if (ran && s->state == TASK_SCHEDULED)
        settle_count_one(m, s, stats, TENANT_RETRIED);
    if (lost || failed)
        settle_count_fault(m, s->fault, stats);
    if (s->state == TASK_COMPLETED)
        settle_count_one(m, s, stats, TENANT_COMPLETED);
    if (s->state == TASK_FAILED) {
        settle_count_one(m, s, stats, TENANT_FAILED);
        metric_add(m, METRIC_DEAD_LETTERS, 1);
    }
    if (s->state == TASK_EXPIRED)
        settle_count_one(m, s, stats, TENANT_EXPIRED);
    stats_end(metrics_stats(m));
}

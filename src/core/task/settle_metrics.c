#include "core/task/settle_metrics.h"

#include "base/tenant_metrics.h"

static const char *const fault_names[FAULTS] = {
#define X(id, name) [FAULT_##id] = name,
    FAULT_MAP(X)
#undef X
};

enum fault fault_of(const struct outcome *o)
{
    if (o->kind == OUTCOME_LOST || o->failure == FAILURE_INTERNAL)
        return FAULT_BELFRY;
    return outcome_is_final(o) ? FAULT_REQUEST : FAULT_TARGET;
}

/* Whether Belfry alone is to answer for the delay. Users and targets cause the others. */
static bool settle_is_own_delay(enum late_cause by)
{
    static const bool own[LATE_CAUSES] = {
        [LATE_NONE] = true, [LATE_DOWN] = true, [LATE_ROOM] = true, [LATE_BACKLOG] = true
    };
    return own[by];
}

static void settle_count_execution(struct metrics *m, const struct settled_attempt *s)
{
    const struct execution *x = &s->verdict->execution;
    int64_t delay_us = x->started_us - x->due_ms * 1000;
    if (x->status != EXECUTION_LOST) {
        metric_add(m, METRIC_TASKS_EXECUTED, 1);
        metric_add(m, METRIC_RUN_TIME, max_of(x->completed_us - x->started_us, (int64_t)0));
    }
    if (x->attempt == 1 && settle_is_own_delay(x->late_by)) {
        metric_observe_us(m, METRIC_START_DELAY, delay_us);
        tenant_metrics_observe_delay_us(metrics_tenants(m), s->tenant, delay_us);
    }
}

static void settle_count_one(struct metrics *m, const struct settled_attempt *s, enum metric id, enum tenant_outcome o)
{
    metric_add(m, id, 1);
    tenant_metrics_count(metrics_tenants(m), s->tenant, o);
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
    if (ran)
        settle_count_execution(m, s);
    if (lost)
        settle_count_one(m, s, METRIC_TASKS_RECOVERED, TENANT_LOST);
    else if (ran && s->state == TASK_SCHEDULED)
        settle_count_one(m, s, METRIC_TASKS_RETRIED, TENANT_RETRIED);
    if (lost || failed)
        metric_add_labelled(m, METRIC_TASK_FAILURES, fault_names, s->fault, 1);
    if (s->state == TASK_COMPLETED)
        settle_count_one(m, s, METRIC_TASKS_COMPLETED, TENANT_COMPLETED);
    if (s->state == TASK_FAILED) {
        settle_count_one(m, s, METRIC_TASKS_FAILED, TENANT_FAILED);
        metric_add(m, METRIC_DEAD_LETTERS, 1);
    }
    if (s->state == TASK_EXPIRED)
        settle_count_one(m, s, METRIC_TASKS_EXPIRED, TENANT_EXPIRED);
}

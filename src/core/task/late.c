#include "core/task/late.h"

const char *const late_cause_names[LATE_CAUSES + 1] = {
#define X(id, text) [LATE_##id] = #id,
    LATE_CAUSE_MAP(X)
#undef X
};

enum late_cause late_cause_of(int64_t delay_ms, enum late_cause known)
{
    if (delay_ms < LATE_MS)
        return LATE_NONE;
    return known ? known : LATE_BACKLOG;
}

void late_measure(struct metrics *m, int64_t awaited_ms, int64_t started_us, enum late_cause known)
{
    int64_t delay_us = started_us - awaited_ms * 1000;
    enum late_cause by = late_cause_of(delay_us / 1000, known);
    metric_observe_us(m, METRIC_EXECUTION_DELAY, delay_us);
    if (by) {
        metric_add_labelled(m, METRIC_LATE_EXECUTIONS, late_cause_names, (size_t)by, 1);
        metric_add_labelled(m, METRIC_LATE_TIME, late_cause_names, (size_t)by, delay_us);
    }
}

#pragma once
/* tests/support/task_eq.h - compares two tasks, or two executions, field by field: NULL if equal, else the first field
 * that differs. */
#include "core/task/task.h"

/* Tables of fields; X is applied to each field. */
/* clang-format off */
#define TASK_NUMBERS(X)                                                                                                \
    X(tenant) X(kind) X(state) X(due_ms) X(scheduled_ms) X(version) X(fence) X(attempts) X(losses) X(priority)         \
    X(delivery) X(timeout_ms) X(expires_after_ms) X(retry.max_attempts) X(retry.backoff) X(retry.base_delay_ms)        \
    X(retry.max_delay_ms) X(retry.jitter) X(target) X(created_ms) X(updated_ms) X(started_ms) X(completed_ms) X(deleted)\
    X(runs_count) X(skipped_count) X(cursor_ms) X(concurrency_limit) X(overlap) X(dedupe_window_ms) X(dedupe) X(resolved_ms)       \
    X(cpu_milli) X(memory_mb) X(recalled) X(awaited_ms) X(late_by) X(links) X(place)
#define TASK_TEXTS(X)                                                                                                  \
    X(queue) X(name) X(task_type) X(retry.rules) X(target_config) X(payload) X(extra) X(trace) X(last_error)                    \
    X(concurrency_key) X(waits_for) X(dedupe_key) X(cause) X(resolution) X(requires) X(aside)
#define TASK_IDS(X) X(id) X(parent) X(claim) X(run)

/* Fields of a RECURRING task only. */
#define RECURRING_NUMBERS(X)                                                                                           \
    X(schedule.interval_ms) X(schedule.calendar_policy) X(schedule.gap) X(schedule.repeat) X(schedule.start_ms)        \
    X(schedule.end_ms) X(schedule.max_runs) X(schedule.spread_ms) X(schedule.catch_up) X(schedule.catch_up_window_ms)  \
    X(schedule.overlap) X(last_run_ms)
#define RECURRING_TEXTS(X) X(schedule.cron) X(schedule.time_zone) X(schedule.calendar)

#define EXECUTION_NUMBERS(X)                                                                                           \
    X(tenant) X(scheduled_ms) X(due_ms) X(started_us) X(completed_us) X(attempt) X(fence) X(status) X(http_status) X(late_by)
#define EXECUTION_TEXTS(X) X(worker) X(error) X(output) X(trace_id)
#define EXECUTION_IDS(X)   X(id) X(task) X(occurrence)

/* clang-format on */

#define NUMBER_DIFFERS(field)                                                                                          \
    if (a->field != b->field)                                                                                          \
        return #field;
#define TEXT_DIFFERS(field)                                                                                            \
    if (!str_eq(a->field, b->field))                                                                                   \
        return #field;
#define ID_DIFFERS(field)                                                                                              \
    if (!uuid_eq(a->field, b->field))                                                                                  \
        return #field;

static inline const char *task_difference(const struct task *a, const struct task *b)
{
    TASK_IDS(ID_DIFFERS)
    TASK_NUMBERS(NUMBER_DIFFERS)
    TASK_TEXTS(TEXT_DIFFERS)
    if (a->kind != TASK_RECURRING)
        return NULL;
    RECURRING_NUMBERS(NUMBER_DIFFERS)
    RECURRING_TEXTS(TEXT_DIFFERS)
    return NULL;
}

static inline const char *execution_difference(const struct execution *a, const struct execution *b)
{
    EXECUTION_IDS(ID_DIFFERS)
    EXECUTION_NUMBERS(NUMBER_DIFFERS)
    EXECUTION_TEXTS(TEXT_DIFFERS)
    return NULL;
}

#define assert_same_task(a, b)                                                                                         \
    do {                                                                                                               \
        const char *field_ = task_difference((a), (b));                                                                \
        if (field_)                                                                                                    \
            fail_msg("%s and %s differ in %s", #a, #b, field_);                                                        \
    } while (0)

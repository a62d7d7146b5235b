#include "check.h"

#include <stdio.h>

#include "base/tenant_metrics.h"
#include "core/task/settle_metrics.h"

static int open_metrics(void **state)
{
    *state = metrics_new();
    return 0;
}

static int close_metrics(void **state)
{
    metrics_free(*state);
    return 0;
}

static void a_fault_is_of_the_target_the_request_or_belfry(void **state)
{
    (void)state;
    static const struct {
        enum outcome_kind kind;
        enum failure failure;
        int http_status;
        enum fault fault;
    } rows[] = {
        { OUTCOME_LOST, FAILURE_NONE, 0, FAULT_BELFRY },       { OUTCOME_FAILED, FAILURE_INTERNAL, 0, FAULT_BELFRY },
        { OUTCOME_FAILED, FAILURE_HTTP, 404, FAULT_REQUEST },  { OUTCOME_FAILED, FAILURE_HTTP, 301, FAULT_REQUEST },
        { OUTCOME_FAILED, FAILURE_REFUSED, 0, FAULT_REQUEST }, { OUTCOME_FAILED, FAILURE_HTTP, 429, FAULT_TARGET },
        { OUTCOME_FAILED, FAILURE_HTTP, 503, FAULT_TARGET },   { OUTCOME_FAILED, FAILURE_CONNECT, 0, FAULT_TARGET },
        { OUTCOME_FAILED, FAILURE_TIMEOUT, 0, FAULT_TARGET },  { OUTCOME_FAILED, FAILURE_TLS, 0, FAULT_TARGET },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct outcome o = { .kind = rows[i].kind, .failure = rows[i].failure, .http_status = rows[i].http_status };
        assert_int_equal(fault_of(TARGET_HTTP, &o), rows[i].fault);
    }
    struct outcome of_run = { .kind = OUTCOME_FAILED, .failure = FAILURE_INTERNAL, .by_step = true };
    assert_int_equal(fault_of(TARGET_WORKFLOW, &of_run), FAULT_TARGET);
    struct outcome of_lease = { .kind = OUTCOME_LOST };
    assert_int_equal(fault_of(TARGET_WORKER, &of_lease), FAULT_TARGET);
}

static void count(struct metrics *m, int32_t tenant, enum task_state state, const struct execution *x)
{
    struct verdict v = { .has_execution = x != NULL };
    if (x)
        v.execution = *x;
    settle_count(m, &(struct settled_attempt){ tenant, &v, state, FAULT_TARGET });
}

static void an_attempt_counts_by_what_became_of_it(void **state)
{
    struct metrics *m = *state;
    const struct execution ok = { .attempt = 1, .started_us = 1000, .completed_us = 3000 };
    const struct execution bad = { .attempt = 2, .status = EXECUTION_FAILED };
    const struct execution lost = { .attempt = 3, .status = EXECUTION_LOST };
    count(m, 1, TASK_COMPLETED, &ok);
    count(m, 1, TASK_SCHEDULED, &bad);
    count(m, 1, TASK_SCHEDULED, &lost);
    count(m, 1, TASK_FAILED, &bad);
    count(m, 1, TASK_FAILED, NULL); /* refused: no attempt began */
    count(m, 1, TASK_EXPIRED, NULL);
    count(m, 1, TASK_SCHEDULED, NULL); /* returned */
    assert_int_equal(metric_count(m, METRIC_TASKS_EXECUTED), 3);
    assert_int_equal(metric_count(m, METRIC_RUN_TIME), 2000);
    assert_int_equal(metric_count(m, METRIC_TASKS_COMPLETED), 1);
    assert_int_equal(metric_count(m, METRIC_TASKS_RETRIED), 1);
    assert_int_equal(metric_count(m, METRIC_TASKS_RECOVERED), 1);
    assert_int_equal(metric_count(m, METRIC_TASKS_FAILED), 2);
    assert_int_equal(metric_count(m, METRIC_DEAD_LETTERS), 2);
    assert_int_equal(metric_count(m, METRIC_TASKS_EXPIRED), 1);
    assert_int_equal(metric_count_labelled(m, METRIC_TASK_FAILURES, FAULT_TARGET), 4);
}

static void only_first_attempts_that_belfry_alone_delayed_have_a_start_delay(void **state)
{
    struct metrics *m = *state;
    for (int by = 0; by < LATE_CAUSES; by++)
        for (int attempt = 1; attempt <= 2; attempt++) {
            const struct execution x = { .attempt = attempt, .late_by = (enum late_cause)by };
            count(m, 1, TASK_COMPLETED, &x);
        }
    assert_int_equal(metric_count(m, METRIC_START_DELAY), 4); /* NONE, DOWN, ROOM, BACKLOG */
}

static void a_task_that_the_users_worker_did_not_ask_for_is_not_late_by_belfry(void **state)
{
    struct metrics *m = *state;
    struct verdict v = { .has_execution = true, .execution = { .attempt = 1, .late_by = LATE_ROOM } };
    settle_count(m, &(struct settled_attempt){ 1, &v, TASK_COMPLETED, FAULT_TARGET, .target = TARGET_WORKER });
    assert_int_equal(metric_count(m, METRIC_START_DELAY), 0);
    v.execution.late_by = LATE_DOWN; /* it could not have asked */
    settle_count(m, &(struct settled_attempt){ 1, &v, TASK_COMPLETED, FAULT_TARGET, .target = TARGET_WORKER });
    assert_int_equal(metric_count(m, METRIC_START_DELAY), 1);
}

static void tasks_of_belfry_itself_do_not_count(void **state)
{
    struct metrics *m = *state;
    count(m, 0, TASK_FAILED, &(struct execution){ .attempt = 1, .status = EXECUTION_FAILED });
    assert_int_equal(metric_count(m, METRIC_TASKS_EXECUTED), 0);
    assert_int_equal(metric_count(m, METRIC_TASKS_FAILED), 0);
}

int main(void)
{
#define metrics_test(f) cmocka_unit_test_setup_teardown(f, open_metrics, close_metrics)
    const struct CMUnitTest tests[] = {
        metrics_test(a_fault_is_of_the_target_the_request_or_belfry),
        metrics_test(an_attempt_counts_by_what_became_of_it),
        metrics_test(only_first_attempts_that_belfry_alone_delayed_have_a_start_delay),
        metrics_test(a_task_that_the_users_worker_did_not_ask_for_is_not_late_by_belfry),
        metrics_test(tasks_of_belfry_itself_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

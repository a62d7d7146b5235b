/* Slots, expiry and breakers, by hand: a waiting task goes on at once, a replaced one ends, an expired or held one
 * does not start. */
#include <stdio.h>

#include "node_world.h"

static struct task keyed(int n, int64_t due_ms)
{
    struct task t = plain_task(n, due_ms);
    t.concurrency_key = S("door");
    t.concurrency_limit = 1;
    return t;
}

static struct task parent_of_runs(struct world *w, enum overlap overlap)
{
    struct task t = plain_task(200, NOW);
    t.kind = TASK_RECURRING;
    t.schedule =
        (struct schedule){ .interval_ms = 10000, .time_zone = S("UTC"), .end_ms = INT64_MAX, .overlap = overlap };
    t.cursor_ms = NOW + HOUR;
    t.runs_count = 5;
    return add_task(w, t);
}

static struct task run_of(const struct task *parent, int64_t due_ms)
{
    struct task t = plain_task(0, due_ms);
    t.id = occurrence_id(parent->id, due_ms);
    t.parent = parent->id;
    t.kind = TASK_OCCURRENCE;
    t.overlap = parent->schedule.overlap;
    t.runs_count = 1;
    return t;
}

/* ---- slots ---- */

static void who_waits_for_a_slot_starts_with_the_settle_of_its_holder(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task first = add_task(w, keyed(1, NOW - 1)), second = add_task(w, keyed(2, NOW));
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    assert_true(is_running(w, &first));
    assert_int_equal(state_of(w, second.id), TASK_BLOCKED);
    assert_int_equal(metric_count(w->metrics, METRIC_TASKS_BLOCKED), 1);
    end_run(w, OUTCOME_OK);
    settle_down(w); /* the clock stands still */
    assert_true(is_running(w, &second));
}

static void who_waits_starts_also_when_the_answer_to_the_settle_was_lost(void **state)
{
    struct world *w = *state;
    settle_down(w);
    add_task(w, keyed(1, NOW - 1));
    struct task second = add_task(w, keyed(2, NOW));
    settle_down(w);
    end_run(w, OUTCOME_OK);
    step_at(w, NOW);
    deny(w, OP_SETTLE, true);
    step_at(w, NOW + 1);
    answer(w, OP_CLAIM);
    step_at(w, NOW + 1);
    assert_true(is_running(w, &second));
    step_at(w, NOW + 1000);
    settle_down(w);
}

static void who_waits_starts_when_a_user_ends_its_holder(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task parent = parent_of_runs(w, OVERLAP_QUEUE_ALL);
    struct task first = add_task(w, run_of(&parent, NOW)), second = add_task(w, run_of(&parent, NOW + 10));
    settle_down(w);
    end_run(w, OUTCOME_FAILED); /* waits for its retry, and is not over */
    step_at(w, NOW + 10);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    assert_int_equal(state_of(w, second.id), TASK_BLOCKED);
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 16);
    struct task row = row_of(w, &first, &a), cancelled = row;
    struct op_put put = {
        .op = { .kind = OP_PUT }, .task = &cancelled, .version = row.version, .fence = row.fence, .state = row.state
    };
    cancelled.state = TASK_CANCELLED;
    cancelled.version++;
    apply_op(w, &put.op);
    assert_true(put.ret_unblocked_lanes == lane_bit(task_lane(&second)));
    assert_true(step_at(w, NOW + 10) > NOW + 10); /* the node was not told yet */
    node_on_lanes_unblocked(w->node, put.ret_unblocked_lanes);
    settle_down(w);
    assert_true(is_running(w, &second));
}

static void a_run_that_finds_the_last_one_running_is_skipped_and_counted(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task parent = parent_of_runs(w, OVERLAP_SKIP);
    add_task(w, run_of(&parent, NOW));
    settle_down(w);
    struct task second = add_task(w, run_of(&parent, NOW + 100));
    step_at(w, NOW + 99);
    settle_down(w);
    assert_int_equal(state_of(w, second.id), TASK_SCHEDULED); /* not before it is due */
    step_at(w, NOW + 100);
    settle_down(w);
    assert_int_equal(state_of(w, second.id), TASK_SKIPPED);
    assert_int_equal(metric_count(w->metrics, METRIC_RUNS_SKIPPED), 1);
    assert_int_equal(w->run_count, 1);
}

/* ---- replaced tasks ---- */

static void a_run_that_is_replaced_ends_and_says_by_whom(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task parent = parent_of_runs(w, OVERLAP_CANCEL_PREVIOUS);
    struct task first = add_task(w, run_of(&parent, NOW));
    settle_down(w);
    assert_true(is_running(w, &first));
    struct task second = add_task(w, run_of(&parent, NOW + 100));
    step_at(w, NOW + 100);
    settle_down(w);
    assert_false(is_running(w, &first));
    assert_true(is_running(w, &second));
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 16);
    struct task row = row_of(w, &first, &a);
    assert_int_equal(row.state, TASK_CANCELLED);
    assert_str(row.last_error, "replaced by the run of 2026-03-03T10:00:00.100Z");
    assert_int_equal(row.attempts, 1);
    assert_int_equal(metric_count(w->metrics, METRIC_TASKS_REPLACED), 1);
}

/* Both are due at the same moment: the first is claimed with the second, and must not even begin. */
static void one_that_is_replaced_before_it_fires_never_starts(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task parent = parent_of_runs(w, OVERLAP_CANCEL_PREVIOUS);
    struct task first = add_task(w, run_of(&parent, NOW - 2)), second = add_task(w, run_of(&parent, NOW - 1));
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    assert_true(is_running(w, &second));
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 16);
    struct task row = row_of(w, &first, &a);
    assert_int_equal(row.state, TASK_CANCELLED);
    assert_int_equal(row.attempts, 0);
    assert_int_equal(row.started_ms, 0);
}

/* ---- expiry ---- */

static struct task short_lived(int n, int64_t due_ms)
{
    struct task t = plain_task(n, due_ms);
    t.expires_after_ms = 100;
    return t;
}

static void what_is_too_late_is_dropped_and_counted(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task in_time = add_task(w, short_lived(1, NOW - 99)), late = add_task(w, short_lived(2, NOW - 100));
    settle_down(w);
    assert_true(is_running(w, &in_time));
    assert_false(is_running(w, &late));
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 16);
    struct task row = row_of(w, &late, &a);
    assert_int_equal(row.state, TASK_EXPIRED);
    assert_int_equal(row.attempts, 0);
    assert_true(str_starts(row.last_error, S("expired: ")));
    assert_int_equal(metric_count(w->metrics, METRIC_TASKS_EXPIRED), 1);
    assert_int_equal(node_status(w->node).scheduler.held, 1);
}

static enum err take_nothing(struct queue *q, const struct take *t, struct arena *a, struct taken *ret, struct error *e)
{
    (void)q, (void)t, (void)a, (void)ret;
    return error_set(e, ERR_UNAVAILABLE, "the queue is down");
}

static void what_waited_too_long_in_the_queue_does_not_start(void **state)
{
    struct world *w = *state;
    settle_down(w);
    const struct queue_ops *whole = w->queue->ops;
    struct queue_ops stuck = *whole;
    stuck.take = take_nothing;
    w->queue->ops = &stuck;
    struct task late = add_task(w, short_lived(1, NOW));
    settle_down(w);
    w->queue->ops = whole;
    assert_int_equal(queue_depth(w->queue), 1);
    step_at(w, NOW + 500);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    assert_int_equal(state_of(w, late.id), TASK_EXPIRED);
    assert_int_equal(node_status(w->node).scheduler.held, 0);
}

/* ---- breakers ---- */

static struct task call(int n, const char *url)
{
    struct task t = plain_task(n, NOW);
    t.target = TARGET_HTTP;
    t.target_config = str_from(url);
    t.retry.max_attempts = 1;
    return t;
}

#define HERE  "{\"url\":\"https://here.example/a\"}"
#define THERE "{\"url\":\"https://there.example/b\"}"

static void fail_run(struct world *w, int64_t retry_after_ms)
{
    struct outcome o = { .kind = OUTCOME_FAILED,
                         .failure = FAILURE_HTTP,
                         .http_status = 503,
                         .sent = true,
                         .retry_after_ms = retry_after_ms,
                         .started_us = w->now_ms * 1000,
                         .completed_us = w->now_ms * 1000 };
    struct run *run = w->runs[--w->run_count];
    run->done(run, &o);
}

static void count_breaker(void *context, const struct breaker_view *b)
{
    if (b->status.state == BREAKER_OPEN)
        (*(int *)context)++;
}

static void a_host_that_keeps_failing_is_left_alone_and_costs_no_attempt(void **state)
{
    struct world *w = *state;
    settle_down(w);
    for (int i = 1; i <= 10; i++) {
        add_task(w, call(i, HERE));
        settle_down(w);
        fail_run(w, -1);
        settle_down(w);
    }
    struct task held = add_task(w, call(11, HERE)), other = add_task(w, call(12, THERE));
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    assert_true(is_running(w, &other));
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 16);
    struct task row = row_of(w, &held, &a);
    assert_int_equal(row.state, TASK_SCHEDULED);
    assert_int_equal(row.attempts, 0);
    assert_int_equal(row.due_ms, NOW); /* it keeps its place */
    assert_str(row.aside, "here.example");
    assert_str(row.last_error, "held: the circuit breaker of here.example is open");
    assert_int_equal(metric_count(w->metrics, METRIC_TASKS_HELD), 1);
    int open = 0;
    node_each_breaker(w->node, NOW, count_breaker, &open);
    assert_int_equal(open, 1);
    step_at(w, NOW + 29999);
    settle_down(w);
    assert_false(is_running(w, &held));
    step_at(w, NOW + 30000);
    settle_down(w);
    assert_true(is_running(w, &held)); /* the trial */
}

static void what_one_is_told_to_wait_holds_the_others_of_that_host(void **state)
{
    struct world *w = *state;
    settle_down(w);
    add_task(w, call(1, HERE));
    settle_down(w);
    fail_run(w, 7000);
    struct task held = add_task(w, call(2, HERE));
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 16);
    struct task row = row_of(w, &held, &a);
    assert_int_equal(row.due_ms, NOW);
    step_at(w, NOW + 6999);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    step_at(w, NOW + 7000);
    settle_down(w);
    assert_true(is_running(w, &held));
}

#define GOOD "{\"url\":\"https://good.example/\"}"

/* n calls that fail, to so many hosts in turn. */
static void fail_calls(struct world *w, int hosts, int n)
{
    static int task = 1000;
    for (int i = 0; i < n; i++) {
        char url[64];
        snprintf(url, sizeof url, "{\"url\":\"https://host%d.example/\"}", i % hosts);
        add_task(w, call(task++, url));
        settle_down(w);
        fail_run(w, -1);
        settle_down(w);
    }
}

static void a_tenant_that_fails_on_many_hosts_goes_on_with_those_that_answer(void **state)
{
    struct world *w = *state;
    settle_down(w);
    add_task(w, call(1, GOOD));
    settle_down(w);
    end_run(w, OUTCOME_OK);
    fail_calls(w, 5, 19); /* 19 of 20 calls; no host has failed often enough to open its own breaker */
    struct task held = add_task(w, call(2, THERE));
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    struct task good = add_task(w, call(3, GOOD)), noop = add_task(w, plain_task(4, NOW));
    settle_down(w);
    assert_int_equal(w->run_count, 2);
    assert_true(is_running(w, &good) && is_running(w, &noop));
    end_run(w, OUTCOME_OK);
    end_run(w, OUTCOME_OK);
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 16);
    struct task row = row_of(w, &held, &a);
    assert_int_equal(row.attempts, 0);
    assert_int_equal(row.due_ms, NOW);
    assert_str(row.aside, "*");
    assert_str(row.last_error,
               "held: the circuit breaker of the tenant is open, and no call to there.example succeeded lately");
    step_at(w, NOW + 59999);
    settle_down(w);
    assert_false(is_running(w, &held));
    step_at(w, NOW + 60000);
    settle_down(w);
    assert_true(is_running(w, &held)); /* the trial */
    end_run(w, OUTCOME_OK);
    add_task(w, call(31, "{\"url\":\"https://host1.example/\"}"));
    add_task(w, call(32, "{\"url\":\"https://new.example/\"}"));
    settle_down(w);
    assert_int_equal(w->run_count, 2); /* a success closes it */
}

static void one_host_that_fails_delays_nothing_else_of_its_tenant(void **state)
{
    struct world *w = *state;
    settle_down(w);
    for (int i = 0; i < 9; i++) /* over some minutes, so that its breaker stays closed */
        for (int j = 0; j < 5; j++) {
            fail_calls(w, 1, 1);
            step_at(w, w->now_ms + 8000);
            settle_down(w);
        }
    struct task t = call(1, THERE), noop = plain_task(2, w->now_ms);
    t.due_ms = w->now_ms;
    add_task(w, t);
    add_task(w, noop);
    settle_down(w);
    assert_true(is_running(w, &t) && is_running(w, &noop));
}

int main(void)
{
#define node_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        node_test(who_waits_for_a_slot_starts_with_the_settle_of_its_holder),
        node_test(who_waits_starts_also_when_the_answer_to_the_settle_was_lost),
        node_test(who_waits_starts_when_a_user_ends_its_holder),
        node_test(a_run_that_finds_the_last_one_running_is_skipped_and_counted),
        node_test(a_run_that_is_replaced_ends_and_says_by_whom),
        node_test(one_that_is_replaced_before_it_fires_never_starts),
        node_test(what_is_too_late_is_dropped_and_counted),
        node_test(what_waited_too_long_in_the_queue_does_not_start),
        node_test(a_host_that_keeps_failing_is_left_alone_and_costs_no_attempt),
        node_test(what_one_is_told_to_wait_holds_the_others_of_that_host),
        node_test(a_tenant_that_fails_on_many_hosts_goes_on_with_those_that_answer),
        node_test(one_host_that_fails_delays_nothing_else_of_its_tenant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

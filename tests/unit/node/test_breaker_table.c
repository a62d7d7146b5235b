/* node/breaker_table.c with the lanes and the worker of a node: which tasks wait for a breaker, for how long, and what is
 * written of it. */
#include <stdio.h>

#include "node_world.h"

enum { MANY = 10000, OTHER_TENANT = 2 };

static struct task call_of(int n, int32_t tenant, const char *host)
{
    static char urls[64][96];
    char *url = urls[n % 64];
    snprintf(url, sizeof urls[0], "{\"url\":\"https://%s/\"}", host);
    struct task t = plain_task(n, NOW);
    t.tenant = tenant;
    t.target = TARGET_HTTP;
    t.retry.max_attempts = 1;
    t.target_config = str_from(url);
    return t;
}

static struct task call(struct world *w, int n, const char *host)
{
    struct task t = add_task(w, call_of(n, TENANT, host));
    settle_down(w);
    return t;
}

static void end_call(struct world *w, bool ok)
{
    struct outcome o = { .kind = ok ? OUTCOME_OK : OUTCOME_FAILED,
                         .failure = ok ? FAILURE_NONE : FAILURE_HTTP,
                         .http_status = ok ? 200 : 503,
                         .retry_after_ms = -1,
                         .started_us = w->now_ms * 1000,
                         .completed_us = w->now_ms * 1000,
                         .error = ok ? S("") : S("HTTP 503") };
    struct run *run = w->runs[--w->run_count];
    run->done(run, &o);
    settle_down(w);
}

/* Ten calls of the tenant fail: the breaker of the host opens. */
static void open_breaker(struct world *w, const char *host)
{
    for (int i = 0; i < 10; i++) {
        call(w, 20000 + i, host);
        end_call(w, false);
    }
}

static struct breaker_rows stored(struct world *w, struct arena *a)
{
    struct breaker_rows rows = { 0 };
    struct error e = { 0 };
    struct breaker_filter f = { .all_tenants = true, .limit = 10 };
    assert_ok(reader_breakers(w->reader, &f, a, &rows, &e), &e);
    return rows;
}

static size_t stored_count(struct world *w)
{
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 16);
    return stored(w, &a).n;
}

static void at(struct world *w, int64_t now_ms)
{
    step_at(w, now_ms);
    settle_down(w);
}

static void an_opening_is_stored_with_its_counts_and_its_reason(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 16);
    settle_down(w);
    open_breaker(w, "here.example");
    struct breaker_rows rows = stored(w, &a);
    assert_int_equal(rows.n, 1);
    assert_true(rows.v[0].tenant == TENANT && rows.v[0].opened_ms == NOW && rows.v[0].until_ms == NOW + 30000);
    assert_true(rows.v[0].calls == 10 && rows.v[0].failures == 10 && rows.v[0].reopened == 0);
    assert_str(rows.v[0].host, "here.example");
    assert_str(rows.v[0].reason, "HTTP 503");
}

static void one_task_at_a_time_is_the_trial_and_a_success_lets_all_go(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 16);
    settle_down(w);
    open_breaker(w, "here.example");
    for (int i = 1; i <= 3; i++)
        call(w, i, "here.example");
    assert_int_equal(w->run_count, 0);
    at(w, NOW + 30000);
    assert_int_equal(w->run_count, 1);
    end_call(w, false);
    assert_int_equal(w->run_count, 0); /* it is open again */
    struct breaker_rows rows = stored(w, &a);
    assert_true(rows.n == 1 && rows.v[0].until_ms == NOW + 60000 && rows.v[0].reopened == 1);
    at(w, NOW + 59999);
    assert_int_equal(w->run_count, 0);
    at(w, NOW + 60000);
    assert_int_equal(w->run_count, 1);
    call(w, 4, "here.example"); /* of the main lane: it is put aside, since a trial runs */
    assert_int_equal(w->run_count, 1);
    end_call(w, true);
    assert_int_equal(w->run_count, 2);
    assert_int_equal(stored_count(w), 0);
    end_call(w, true);
    end_call(w, true);
}

static void a_trial_without_a_result_is_followed_by_the_next(void **state)
{
    struct world *w = *state;
    settle_down(w);
    open_breaker(w, "here.example");
    struct task first = call(w, 1, "here.example"), second = call(w, 2, "here.example");
    at(w, NOW + 30000);
    assert_true(is_running(w, &first) && !is_running(w, &second));
    abort_run(&w->runner, w->runs[0]);
    settle_down(w);
    assert_true(w->run_count == 1 && is_running(w, &second));
    assert_int_equal(stored_count(w), 1);
    end_call(w, true);
}

/* How many operations that write tasks or breakers are made until nothing more is to be done. */
static size_t writes(struct world *w)
{
    size_t n = 0;
    for (;;) {
        step_at(w, w->now_ms);
        if (list_empty(&w->pending))
            return n;
        struct op *op = first_op(w);
        n += op->kind == OP_CLAIM || op->kind == OP_SETTLE || op->kind == OP_BREAKERS;
        answer_op(w, op);
    }
}

static void ten_thousand_tasks_behind_an_open_breaker_cost_no_write(void **state)
{
    struct world *w = *state;
    settle_down(w);
    open_breaker(w, "here.example");
    for (int i = 1; i <= MANY; i++)
        add_task(w, call_of(i, TENANT, "here.example"));
    assert_true(writes(w) > 0); /* each is put aside once */
    assert_int_equal(metric_count(w->metrics, METRIC_TASKS_HELD), MANY);
    size_t n = 0;
    for (int64_t ms = 100; ms <= 25000; ms += 100) {
        set_clock(w, NOW + ms);
        n += writes(w);
    }
    assert_int_equal(n, 0);
    set_clock(w, NOW + 30000);
    assert_true(writes(w) > 0);
    assert_int_equal(w->run_count, 1);
    end_call(w, false);
    assert_int_equal(metric_count(w->metrics, METRIC_TASKS_HELD), MANY); /* and none a second time */
}

static void a_breaker_that_is_closed_by_hand_lets_all_go_at_once(void **state)
{
    struct world *w = *state;
    settle_down(w);
    open_breaker(w, "here.example");
    call(w, 1, "here.example");
    call(w, 2, "here.example");
    assert_int_equal(w->run_count, 0);
    node_on_breaker_closed(w->node, TENANT, S("here.example"));
    settle_down(w);
    assert_int_equal(w->run_count, 2);
    end_call(w, false);
    end_call(w, false);
    call(w, 3, "here.example");
    assert_int_equal(w->run_count, 1); /* earlier failures no longer count */
    end_call(w, true);
}

static void another_tenants_calls_to_the_same_host_go_on(void **state)
{
    struct world *w = *state;
    settle_down(w);
    open_breaker(w, "here.example");
    call(w, 1, "here.example");
    struct task theirs = add_task(w, call_of(2, OTHER_TENANT, "here.example"));
    settle_down(w);
    assert_true(w->run_count == 1 && is_running(w, &theirs));
    end_call(w, true);
    assert_int_equal(stored_count(w), 1); /* their success is no news of it */
    at(w, NOW + 20000);
    assert_int_equal(w->run_count, 0);
}

static void what_other_nodes_open_and_close_holds_here(void **state)
{
    struct world *w = *state;
    struct breaker_row theirs = { .id = { { 7 } },
                                  .tenant = TENANT,
                                  .host = S("here.example"),
                                  .opened_ms = NOW,
                                  .until_ms = NOW + 30000,
                                  .calls = 20,
                                  .failures = 15 };
    settle_down(w);
    node_follow_breakers(w->node, &theirs, 1);
    struct task t = call(w, 1, "here.example");
    assert_int_equal(w->run_count, 0);
    node_follow_breakers(w->node, &theirs, 1);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    theirs.until_ms = NOW + 60000; /* their trial failed */
    node_follow_breakers(w->node, &theirs, 1);
    at(w, NOW + 59999);
    assert_int_equal(w->run_count, 0);
    node_follow_breakers(w->node, NULL, 0); /* their next one did not */
    settle_down(w);
    assert_true(is_running(w, &t));
    end_call(w, true);
}

static void a_breaker_outlives_its_process(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 16);
    settle_down(w);
    open_breaker(w, "here.example");
    struct task t = call(w, 1, "here.example");
    node_drain(w->node);
    settle_down(w);
    node_free(w->node);
    async_io_direct_free(w->async_io);
    queue_free(w->queue);
    events_free(w->events);
    set_clock(w, NOW + 1000);
    start_node(w);
    struct breaker_rows rows = stored(w, &a);
    node_follow_breakers(w->node, rows.v, rows.n);
    struct lane aside = {
        .tenant = TENANT, .queue = S("default"), .priority = PRIORITY_DEFAULT, .host = S("here.example")
    };
    node_know_lanes(w->node, &aside, 1);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    at(w, NOW + 30000);
    assert_true(is_running(w, &t));
    end_call(w, true);
    assert_int_equal(stored_count(w), 0);
}

static void a_clock_set_back_lets_nobody_wait_longer(void **state)
{
    struct world *w = *state;
    settle_down(w);
    open_breaker(w, "here.example");
    struct task t = call(w, 1, "here.example");
    at(w, NOW - HOUR);
    at(w, NOW - HOUR + 29999);
    assert_int_equal(w->run_count, 0);
    at(w, NOW - HOUR + 30000);
    assert_int_equal(w->run_count, 0); /* the task itself is due later now */
    at(w, NOW);
    assert_true(is_running(w, &t));
    end_call(w, true);
}

static void a_breaker_that_nobody_has_tried_for_a_day_is_removed(void **state)
{
    struct world *w = *state;
    struct breaker_change old = { .row = { .id = { { 7 } },
                                           .tenant = TENANT,
                                           .host = S("gone.example"),
                                           .opened_ms = NOW - 26 * HOUR,
                                           .until_ms = NOW - 25 * HOUR } };
    struct op_breakers op = { .op = { .kind = OP_BREAKERS }, .v = &old, .n = 1 };
    apply_op(w, &op.op);
    settle_down(w);
    node_follow_breakers(w->node, &old.row, 1);
    settle_down(w);
    assert_int_equal(stored_count(w), 0);
    call(w, 1, "gone.example");
    call(w, 2, "gone.example");
    assert_int_equal(w->run_count, 2);
    end_call(w, true);
    end_call(w, true);
}

static void a_write_that_fails_is_repeated(void **state)
{
    struct world *w = *state;
    settle_down(w);
    for (int i = 0; i < 9; i++) {
        call(w, 20000 + i, "here.example");
        end_call(w, false);
    }
    call(w, 1, "here.example");
    struct run *run = w->runs[--w->run_count];
    run->done(run, &(struct outcome){ .kind = OUTCOME_FAILED,
                                      .failure = FAILURE_CONNECT,
                                      .retry_after_ms = -1,
                                      .started_us = NOW * 1000,
                                      .completed_us = NOW * 1000 });
    step_at(w, NOW);
    deny(w, OP_BREAKERS, false);
    settle_down(w);
    assert_int_equal(stored_count(w), 0);
    at(w, NOW + 1000);
    assert_int_equal(stored_count(w), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(an_opening_is_stored_with_its_counts_and_its_reason),
        T(one_task_at_a_time_is_the_trial_and_a_success_lets_all_go),
        T(a_trial_without_a_result_is_followed_by_the_next),
        T(ten_thousand_tasks_behind_an_open_breaker_cost_no_write),
        T(a_breaker_that_is_closed_by_hand_lets_all_go_at_once),
        T(another_tenants_calls_to_the_same_host_go_on),
        T(what_other_nodes_open_and_close_holds_here),
        T(a_breaker_outlives_its_process),
        T(a_clock_set_back_lets_nobody_wait_longer),
        T(a_breaker_that_nobody_has_tried_for_a_day_is_removed),
        T(a_write_that_fails_is_repeated),
    };
    return cmocka_run_group_tests_name("breaker_table", tests, NULL, NULL);
}

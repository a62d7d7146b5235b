/* What makes a task late is known when it fires: it is in the task that the worker gets, and in the execution. */
#include "node_world.h"

static enum late_cause cause_of_run(const struct world *w, const struct task *t)
{
    for (size_t i = 0; i < w->run_count; i++)
        if (uuid_eq(w->runs[i]->task->id, t->id))
            return w->runs[i]->task->late_by;
    fail_msg("it does not run");
    return LATE_NONE;
}

static struct execution the_execution(struct world *w, const struct task *t)
{
    static struct arena a;
    struct execution_filter f = { .tenant = TENANT, .task = t->id, .limit = 1 };
    struct execution_page page = { 0 };
    struct error e;
    arena_release(&a);
    arena_init(&a, 1 << 16);
    assert_ok(reader_executions(w->reader, &f, &a, &page, &e), &e);
    assert_int_equal(page.executions.n, 1);
    struct execution x = page.executions.v[0];
    arena_release(&a);
    return x;
}

/* Ends all that run at that time. */
static void end_all_at(struct world *w, int64_t now_ms)
{
    step_at(w, now_ms);
    while (w->run_count)
        end_run(w, OUTCOME_OK);
    settle_down(w);
}

static void a_task_in_time_has_no_cause(void **state)
{
    struct world *w = *state;
    struct task t = one_running(w);
    assert_int_equal(cause_of_run(w, &t), LATE_NONE);
    end_all_at(w, NOW + 45);
    assert_int_equal(the_execution(w, &t).late_by, LATE_NONE);
    assert_true(the_execution(w, &t).due_ms == NOW + 40);
}

static void a_task_that_finds_no_slot_waits_for_room(void **state)
{
    struct world *w = *state;
    struct task last = { 0 };
    settle_down(w);
    for (int i = 1; i <= SLOTS + 1; i++)
        last = task_due(w, i, NOW);
    settle_down(w);
    assert_false(is_running(w, &last));
    end_all_at(w, NOW + 700);
    assert_int_equal(cause_of_run(w, &last), LATE_ROOM);
    end_all_at(w, NOW + 700);
    assert_int_equal(the_execution(w, &last).late_by, LATE_ROOM);
    assert_int_equal(metric_count_labelled(w->metrics, METRIC_LATE_EXECUTIONS, LATE_ROOM), 1);
    assert_int_equal(metric_count_labelled(w->metrics, METRIC_LATE_TIME, LATE_ROOM), 700000);
}

static void a_task_behind_a_limit_of_its_queue_was_limited(void **state)
{
    static const struct queue_rules rules[] = { { .weight = 100, .concurrent = 1 },
                                                { .weight = 100, .rate = 1, .burst = 1 } };
    for (size_t i = 0; i < array_count(rules); i++) {
        if (i) {
            teardown(state);
            setup(state);
        }
        struct world *w = *state;
        settle_down(w);
        put_queue(w, &rules[i]);
        task_due(w, 1, NOW);
        struct task t = task_due(w, 2, NOW);
        settle_down(w);
        assert_false(is_running(w, &t));
        end_all_at(w, NOW + 950);
        for (int64_t at_ms = NOW + 960; !is_running(w, &t) && at_ms < NOW + 2000; at_ms += 20) {
            step_at(w, at_ms);
            settle_down(w);
        }
        assert_int_equal(cause_of_run(w, &t), LATE_LIMIT);
    }
}

static void a_task_of_a_queue_that_was_paused_says_so(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_queue(w, &(struct queue_rules){ .weight = 100, .paused = true, .paused_ms = NOW });
    struct task t = task_due(w, 1, NOW);
    settle_down(w);
    step_at(w, NOW + 5000);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    put_queue(w, &(struct queue_rules){ .weight = 100 });
    step_at(w, NOW + 5000);
    settle_down(w);
    assert_int_equal(cause_of_run(w, &t), LATE_PAUSED);
}

/* The queue ramps up after the pause, 50 tasks in the first second: the later ones wait for that, too. */
static void of_a_pause_and_what_follows_it_the_longer_is_the_cause(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_queue(w, &(struct queue_rules){ .weight = 100, .paused = true, .paused_ms = NOW });
    struct task first = task_due(w, 1, NOW), second = task_due(w, 2, NOW), late = task_due(w, 3, NOW + 2990);
    settle_down(w);
    step_at(w, NOW + 3000);
    settle_down(w);
    put_queue(w, &(struct queue_rules){ .weight = 100, .resumed_ms = NOW + 3000, .rate = 1, .burst = 1 });
    for (int64_t at_ms = NOW + 3000; !is_running(w, &late) && at_ms < NOW + 9000; at_ms += 20) {
        step_at(w, at_ms);
        settle_down(w);
    }
    assert_int_equal(cause_of_run(w, &first), LATE_PAUSED);
    assert_int_equal(cause_of_run(w, &second), LATE_PAUSED);
    assert_int_equal(cause_of_run(w, &late), LATE_LIMIT);
}

static void a_task_that_was_due_before_the_start_found_nobody(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = plain_task(1, NOW + 1000);
    w->now_ms += 7000;
    struct op_insert op = { .op = { .kind = OP_INSERT }, .tasks = &t, .count = 1 };
    apply_op(w, &op.op);
    die_and_start_again(w);
    step_at(w, w->now_ms);
    settle_down(w);
    node_nudge(w->node, &t, 1);
    settle_down(w);
    assert_int_equal(cause_of_run(w, &t), LATE_DOWN);
    end_all_at(w, w->now_ms);
    assert_true(the_execution(w, &t).due_ms == NOW + 1000);
}

static void a_lost_run_comes_again_late_because_its_node_died(void **state)
{
    struct world *w = *state;
    struct task t = one_running(w);
    w->run_count = 0;
    w->now_ms = NOW + 3040;
    die_and_start_again(w);
    settle_down(w);
    assert_int_equal(cause_of_run(w, &t), LATE_DOWN);
    struct task row = read_task(w, t.id);
    assert_true(task_awaited_ms(&row) == NOW + 40 && row.due_ms == NOW + 3040);
    struct execution lost = the_execution(w, &t);
    assert_int_equal(lost.status, EXECUTION_LOST);
    assert_true(lost.completed_us == (NOW + 3040) * 1000);
}

int main(void)
{
#define node_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        node_test(a_task_in_time_has_no_cause),
        node_test(a_task_that_finds_no_slot_waits_for_room),
        node_test(a_task_behind_a_limit_of_its_queue_was_limited),
        node_test(a_task_of_a_queue_that_was_paused_says_so),
        node_test(of_a_pause_and_what_follows_it_the_longer_is_the_cause),
        node_test(a_task_that_was_due_before_the_start_found_nobody),
        node_test(a_lost_run_comes_again_late_because_its_node_died),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

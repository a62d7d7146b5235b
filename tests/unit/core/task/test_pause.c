/* core/task/pause: who paused a task, why and until when. */
#include "core/task/pause.h"

#include "check_with_arena.h"

#define NOW 1767225600000LL

static void a_pause_comes_back_as_it_was_set(void **state)
{
    (void)state;
    struct task t = { .state = TASK_PAUSED };
    struct pause p = { .by = S("ops"), .reason = S("a \"reason\""), .since_ms = NOW, .until_ms = NOW + 7200000 }, got;
    assert_true(task_set_pause(&t, &p, &arena));
    assert_true(str_eq(t.resolution, S("{\"by\":\"ops\",\"reason\":\"a \\\"reason\\\"\",\"since\":"
                                       "\"2026-01-01T00:00:00.000Z\",\"until\":\"2026-01-01T02:00:00.000Z\"}")));
    assert_true(task_pause(&t, &arena, &got));
    assert_true(str_eq(got.by, p.by) && str_eq(got.reason, p.reason));
    assert_int_equal(got.since_ms, NOW);
    assert_int_equal(got.until_ms, NOW + 7200000);
    assert_int_equal(task_paused_until_ms(&t), NOW + 7200000);
}

static void a_pause_without_an_end_has_none(void **state)
{
    (void)state;
    struct task t = { .state = TASK_PAUSED };
    struct pause got;
    assert_true(task_set_pause(&t, &(struct pause){ .since_ms = NOW }, &arena));
    assert_true(task_pause(&t, &arena, &got));
    assert_int_equal(got.until_ms, 0);
    assert_int_equal(got.by.n + got.reason.n, 0);
    assert_int_equal(task_paused_until_ms(&t), 0);
}

static void only_a_paused_task_has_a_pause(void **state)
{
    (void)state;
    struct task t = { .state = TASK_PAUSED };
    struct pause got;
    assert_false(task_pause(&t, &arena, &got));
    assert_true(task_set_pause(&t, &(struct pause){ .since_ms = NOW, .until_ms = NOW + 1 }, &arena));
    t.state = TASK_FAILED;
    assert_false(task_pause(&t, &arena, &got));
    assert_int_equal(task_paused_until_ms(&t), 0);
    t.state = TASK_PAUSED;
    t.resolution = S("{\"how\":\"archived\"}");
    assert_false(task_pause(&t, &arena, &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_comes_back_as_it_was_set),
        cmocka_unit_test(a_pause_without_an_end_has_none),
        cmocka_unit_test(only_a_paused_task_has_a_pause),
    };
    return cmocka_run_group_tests(tests, arena_set_up, arena_tear_down);
}

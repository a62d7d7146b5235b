#include "core/flow/critical.h"

#include "check.h"

enum { MEMORY = 1 << 20 };

static const uint32_t after_0[] = { 0 }, after_1_2[] = { 1, 2 }, after_1[] = { 1 }, after_3[] = { 3 };

/* 0 → 1, 2 → 3, in milliseconds. */
static void make_diamond(struct critical_step s[4])
{
    s[0] = (struct critical_step){ NULL, 0, 1000, 1010, 1100, 100, true };
    s[1] = (struct critical_step){ after_0, 1, 1100, 1150, 1200, 100, true };
    s[2] = (struct critical_step){ after_0, 1, 1100, 1101, 1500, 400, true };
    s[3] = (struct critical_step){ after_1_2, 2, 1500, 1600, 1650, 50, true };
}

static void the_path_goes_through_the_parent_that_ended_last(void **state)
{
    (void)state;
    struct critical_step s[4];
    struct critical_path p;
    struct arena a;
    struct error e;
    arena_init(&a, MEMORY);
    make_diamond(s);
    assert_ok(critical_path(s, 4, 9999, &a, &p, &e), &e);
    assert_int_equal(p.n, 3);
    assert_int_equal(p.v[0], 0);
    assert_int_equal(p.v[1], 2);
    assert_int_equal(p.v[2], 3);
    assert_int_equal(p.waited_ms, 10 + 1 + 100);
    assert_int_equal(p.ran_ms, 90 + 399 + 50);
    assert_int_equal(critical_waited_ms(&s[1], 9999), 50);
    arena_release(&a);
}

static void a_step_that_was_repeated_waited_until_its_first_start_and_ran_since_then(void **state)
{
    (void)state;
    struct critical_step s[4];
    struct critical_path p;
    struct arena a;
    struct error e;
    arena_init(&a, MEMORY);
    make_diamond(s);
    s[3].started_ms = 1640; /* the latest attempt */
    s[3].first_ms = 1510;
    assert_ok(critical_path(s, 4, 9999, &a, &p, &e), &e);
    assert_int_equal(p.waited_ms, 10 + 1 + 10);
    assert_int_equal(p.ran_ms, 90 + 399 + 140);
    s[3].started_ms = s[3].completed_ms = 0; /* it waits for its next attempt */
    s[3].is_final = false;
    assert_int_equal(critical_waited_ms(&s[3], 9999), 10);
    arena_release(&a);
}

/* 0 → 1, skipped → 3, which also waits for 2. A step that was skipped may have the time at which it was. */
static void the_path_goes_through_a_skipped_step_to_what_that_one_waited_for(void **state)
{
    (void)state;
    static const uint32_t after_1_4[] = { 1, 4 };
    struct critical_step s[5];
    struct critical_path p;
    struct arena a;
    struct error e;
    arena_init(&a, MEMORY);
    for (int skipped_ms = 0; skipped_ms <= 1101; skipped_ms += 1101) {
        make_diamond(s);
        s[1] = (struct critical_step){ after_0, 1, 0, 0, skipped_ms, 100, true };
        s[2] = (struct critical_step){ NULL, 0, 900, 910, 1000, 400, true };
        assert_ok(critical_path(s, 4, 9999, &a, &p, &e), &e);
        assert_int_equal(p.n, 2);
        assert_int_equal(p.v[0], 0);
        assert_int_equal(p.v[1], 3);
        assert_int_equal(p.ran_ms, 90 + 50);
        s[2].completed_ms = 1500; /* now it ended after step 0 */
        assert_ok(critical_path(s, 4, 9999, &a, &p, &e), &e);
        assert_int_equal(p.v[0], 2);
        s[2].completed_ms = 1000;
        s[3].parents = after_1_4;
        s[4] = (struct critical_step){ after_1, 1, 0, 0, skipped_ms, 100, true }; /* skipped, too: two ways to step 0 */
        assert_ok(critical_path(s, 5, 9999, &a, &p, &e), &e);
        assert_int_equal(p.n, 2);
        assert_int_equal(p.v[0], 0);
    }
    arena_release(&a);
}

static void a_parent_that_ended_after_the_start_released_nothing(void **state)
{
    (void)state;
    struct critical_step s[4];
    struct critical_path p;
    struct arena a;
    struct error e;
    arena_init(&a, MEMORY);
    make_diamond(s);
    s[3].released_ms = 1200; /* join ANY: step 1 released it */
    s[3].started_ms = 1210;
    assert_ok(critical_path(s, 4, 9999, &a, &p, &e), &e);
    assert_int_equal(p.n, 3);
    assert_int_equal(p.v[1], 1);
    arena_release(&a);
}

static void a_running_step_ends_now_and_a_waiting_one_is_not_on_the_path(void **state)
{
    (void)state;
    struct critical_step s[4];
    struct critical_path p;
    struct arena a;
    struct error e;
    arena_init(&a, MEMORY);
    make_diamond(s);
    s[2].completed_ms = 0;
    s[2].is_final = false;
    s[3] = (struct critical_step){ after_1_2, 2, 0, 0, 0, 50, false };
    assert_ok(critical_path(s, 4, 1300, &a, &p, &e), &e);
    assert_int_equal(p.n, 2);
    assert_int_equal(p.v[1], 2);
    assert_int_equal(p.ran_ms, 90 + 199);
    assert_int_equal(critical_waited_ms(&s[3], 1300), 0);
    assert_ok(critical_path(s, 0, 1300, &a, &p, &e), &e);
    assert_int_equal(p.n, 0);
    arena_release(&a);
}

static void the_estimate_adds_usual_times_along_the_longest_way(void **state)
{
    (void)state;
    struct critical_step s[4];
    struct critical_estimate x;
    struct arena a;
    struct error e;
    arena_init(&a, MEMORY);
    make_diamond(s);
    assert_ok(critical_estimate(s, 4, 9999, &a, &x, &e), &e);
    assert_int_equal(x.end_ms, 1650); /* it has ended */
    s[2].completed_ms = 0;
    s[2].is_final = false;
    s[3] = (struct critical_step){ after_1_2, 2, 0, 0, 0, 50, false };
    assert_ok(critical_estimate(s, 4, 1300, &a, &x, &e), &e);
    assert_int_equal(x.end_ms, 1100 + 400 + 50);
    assert_int_equal(x.unknown, 0);
    assert_ok(critical_estimate(s, 4, 1900, &a, &x, &e), &e); /* late: it ends now at the earliest */
    assert_int_equal(x.end_ms, 1900 + 50);
    s[3].usual_ms = -1;
    assert_ok(critical_estimate(s, 4, 1900, &a, &x, &e), &e);
    assert_int_equal(x.end_ms, 1900);
    assert_int_equal(x.unknown, 1);
    arena_release(&a);
}

static void a_skipped_step_takes_no_time(void **state)
{
    (void)state;
    struct critical_step s[3] = {
        { NULL, 0, 1000, 1000, 1100, 100, true },
        { after_0, 1, 0, 0, 0, 5000, true },
        { after_1, 1, 0, 0, 0, 50, false },
    };
    struct critical_estimate x;
    struct arena a;
    struct error e;
    arena_init(&a, MEMORY);
    assert_ok(critical_estimate(s, 3, 1200, &a, &x, &e), &e);
    assert_int_equal(x.end_ms, 1250);
    arena_release(&a);
}

static void a_circle_is_refused_and_does_not_hang(void **state)
{
    (void)state;
    struct critical_step s[4] = {
        { NULL, 0, 1, 1, 5, 1, true },
        { after_3, 1, 5, 5, 5, 1, true },
        { NULL, 0, 1, 1, 2, 1, true },
        { after_1, 1, 5, 5, 5, 1, true },
    };
    struct critical_estimate x;
    struct critical_path p;
    struct arena a;
    struct error e;
    arena_init(&a, MEMORY);
    assert_int_equal(critical_estimate(s, 4, 10, &a, &x, &e), ERR_INVALID);
    assert_ok(critical_path(s, 4, 10, &a, &p, &e), &e);
    assert_true(p.n <= 4);
    arena_release(&a);
}

static void the_median_is_the_one_in_the_middle(void **state)
{
    (void)state;
    assert_int_equal(critical_median((int64_t[]){ 7 }, 1), 7);
    assert_int_equal(critical_median((int64_t[]){ 9, 1, 5 }, 3), 5);
    assert_int_equal(critical_median((int64_t[]){ 9, 1, 5, 3 }, 4), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_goes_through_the_parent_that_ended_last),
        cmocka_unit_test(a_step_that_was_repeated_waited_until_its_first_start_and_ran_since_then),
        cmocka_unit_test(the_path_goes_through_a_skipped_step_to_what_that_one_waited_for),
        cmocka_unit_test(a_parent_that_ended_after_the_start_released_nothing),
        cmocka_unit_test(a_running_step_ends_now_and_a_waiting_one_is_not_on_the_path),
        cmocka_unit_test(the_estimate_adds_usual_times_along_the_longest_way),
        cmocka_unit_test(a_skipped_step_takes_no_time),
        cmocka_unit_test(a_circle_is_refused_and_does_not_hang),
        cmocka_unit_test(the_median_is_the_one_in_the_middle),
    };
    return cmocka_run_group_tests_name("critical", tests, NULL, NULL);
}

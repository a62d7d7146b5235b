/* A clock that shows the store's time. */
#include "base/mem.h"
#include "check.h"
#include "platform/clock_offset.h"

struct machine {
    struct clock base;
    int64_t wall_us, steady_us;
};

static int64_t wall_us(struct clock *c)
{
    return container_of(c, struct machine, base)->wall_us;
}

static int64_t steady_ns(struct clock *c)
{
    return container_of(c, struct machine, base)->steady_us * 1000;
}

static const struct clock_ops ops = { .wall_us = wall_us, .steady_ns = steady_ns };

static void it_is_the_machines_until_it_is_corrected(void **state)
{
    (void)state;
    struct machine m = { { &ops }, .wall_us = 5000000, .steady_us = 100 };
    struct clock *c = clock_offset_new(&m.base);
    assert_int_equal(clock_wall_us(c), 5000000);
    assert_int_equal(clock_ahead_us(c), 0);
    clock_correct(c, 7000000, 0);
    assert_int_equal(clock_wall_us(c), 7000100);
    assert_int_equal(clock_machine_us(c), 5000000);
    assert_int_equal(clock_ahead_us(c), 2000100);
    assert_int_equal(clock_steady_us(c), 100);
    clock_offset_free(c);
}

static void who_sets_the_machines_clock_changes_nothing(void **state)
{
    (void)state;
    struct machine m = { { &ops }, .wall_us = 5000000, .steady_us = 100 };
    struct clock *c = clock_offset_new(&m.base);
    clock_correct(c, 7000000, 0);
    m.wall_us = 0;
    m.steady_us = 200;
    assert_int_equal(clock_wall_us(c), 7000200);
    clock_offset_free(c);
}

static void a_small_correction_does_not_set_it_back(void **state)
{
    (void)state;
    struct machine m = { { &ops }, .steady_us = 100 };
    struct clock *c = clock_offset_new(&m.base);
    clock_correct(c, 7000000, 0);
    assert_int_equal(clock_wall_us(c), 7000100);
    clock_correct(c, 6999000, 0);
    assert_int_equal(clock_wall_us(c), 7000100);
    m.steady_us = 1200;
    assert_int_equal(clock_wall_us(c), 7000200);
    clock_correct(c, 2000000, 0); /* the store's clock was set */
    assert_int_equal(clock_wall_us(c), 2001200);
    clock_offset_free(c);
}

static void it_says_by_how_much_it_may_be_behind(void **state)
{
    (void)state;
    struct machine m = { { &ops }, .steady_us = 100 };
    struct clock *c = clock_offset_new(&m.base);
    assert_int_equal(clock_behind_ms(c), 0);
    clock_correct(c, 7000800, 3300);
    assert_true(clock_wall_ms(c) + clock_behind_ms(c) >= (100 + 7000800 + 3300 + 999) / 1000);
    assert_int_equal(clock_behind_ms(c), 5);
    assert_int_equal(clock_behind_ms(&m.base), 0);
    clock_offset_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_machines_until_it_is_corrected),
        cmocka_unit_test(who_sets_the_machines_clock_changes_nothing),
        cmocka_unit_test(a_small_correction_does_not_set_it_back),
        cmocka_unit_test(it_says_by_how_much_it_may_be_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

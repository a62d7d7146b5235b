/* core/time/offset: how far the store's clock is ahead of the local one. */
#include <stdlib.h>

#include "base/prng.h"
#include "check.h"
#include "core/time/offset.h"

#define AHEAD 1700000000000000LL /* of the store's clock */

enum { SECOND = 1000000 };

static void nothing_is_known_before_an_answer(void **state)
{
    (void)state;
    struct offset o = { 0 };
    assert_false(offset_view(&o, 5 * SECOND).known);
    assert_int_equal(offset_view(&o, 5 * SECOND).low_us, 0);
}

static void the_error_is_half_the_round_trip(void **state)
{
    (void)state;
    struct offset o = { 0 };
    offset_add(&o, 1000, 3000, AHEAD + 1500);
    struct offset_view v = offset_view(&o, 3000);
    assert_true(v.known);
    assert_int_equal(v.error_us, 1000);
    assert_int_equal(v.low_us, v.middle_us - v.error_us);
    assert_int_equal(v.low_us, AHEAD - 1500);
}

/* With any network delays the lower bound is never ahead of the store, and not far behind it. */
static void noisy_answers_never_put_us_ahead(void **state)
{
    (void)state;
    struct offset o = { 0 };
    struct prng r;
    prng_init(&r, 7);
    int64_t now_us = SECOND;
    for (int i = 0; i < 10000; i++) {
        int64_t there_us = prng_between(&r, 100, 20000), back_us = prng_between(&r, 100, 20000);
        offset_add(&o, now_us, now_us + there_us + back_us, AHEAD + now_us + there_us);
        now_us += there_us + back_us;
        struct offset_view v = offset_view(&o, now_us);
        assert_true(v.low_us <= AHEAD);
        assert_true(v.middle_us + v.error_us >= AHEAD);
        if (i > OFFSET_SAMPLES)
            assert_true(v.low_us > AHEAD - 15000);
        now_us += SECOND / 2;
    }
}

static void the_best_of_the_recent_answers_counts(void **state)
{
    (void)state;
    struct offset o = { 0 };
    offset_add(&o, 0, 200, AHEAD + 100);
    for (int64_t i = 1; i < OFFSET_SAMPLES; i++)
        offset_add(&o, i * SECOND / 2, i * SECOND / 2 + 50000, AHEAD + i * SECOND / 2 + 25000);
    struct offset_view v = offset_view(&o, 8 * SECOND);
    assert_true(v.low_us <= AHEAD && v.low_us > AHEAD - 3000); /* the bound is widened for a few seconds of drift */
    offset_add(&o, 8 * SECOND, 8 * SECOND + 50000, AHEAD + 8 * SECOND + 25000);
    assert_int_equal(offset_view(&o, 8 * SECOND + 50000).low_us / 10000, (AHEAD - 25000) / 10000);
}

static void a_clock_that_was_set_is_believed_at_once(void **state)
{
    (void)state;
    for (int back = 0; back <= 1; back++) {
        struct offset o = { 0 };
        int64_t by_us = back ? -3600LL * SECOND : 3600LL * SECOND;
        for (int64_t i = 0; i < 10; i++)
            offset_add(&o, i * SECOND, i * SECOND + 1000, AHEAD + i * SECOND + 500);
        offset_add(&o, 10 * SECOND, 10 * SECOND + 1000, AHEAD + by_us + 10 * SECOND + 500);
        assert_int_equal(offset_view(&o, 10 * SECOND + 1000).middle_us, AHEAD + by_us);
        offset_add(&o, 11 * SECOND, 11 * SECOND + 1000, AHEAD + by_us + 11 * SECOND + 500);
        assert_true(llabs(offset_view(&o, 11 * SECOND + 1000).middle_us - AHEAD - by_us) < 500);
    }
}

static void clocks_that_drift_apart_are_followed(void **state)
{
    (void)state;
    struct offset o = { 0 };
    for (int64_t i = 0; i < 1000; i++) {
        /* the local clock is too fast by 100 parts per million */
        int64_t at_us = i * SECOND / 2, ahead_us = AHEAD - at_us / 10000;
        offset_add(&o, at_us, at_us + 1000, ahead_us + at_us + 500);
        struct offset_view v = offset_view(&o, at_us + 1000);
        assert_true(v.low_us <= ahead_us);
        assert_true(v.low_us > ahead_us - 2000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_before_an_answer),
        cmocka_unit_test(the_error_is_half_the_round_trip),
        cmocka_unit_test(noisy_answers_never_put_us_ahead),
        cmocka_unit_test(the_best_of_the_recent_answers_counts),
        cmocka_unit_test(a_clock_that_was_set_is_believed_at_once),
        cmocka_unit_test(clocks_that_drift_apart_are_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

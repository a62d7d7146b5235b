/* core/sharing/bucket: a token bucket with a rate and a burst. */
#include "core/sharing/bucket.h"

#include "check.h"
#include "seed.h"

#define NOW 1767225600000LL

static struct bucket bucket_of(double rate, int64_t burst)
{
    struct bucket b;
    bucket_init(&b, rate, burst, NOW);
    return b;
}

static void a_new_one_is_full(void **state)
{
    (void)state;
    struct bucket b = bucket_of(10, 5);
    assert_int_equal(bucket_available(&b, NOW), 5);
    assert_int_equal(bucket_take(&b, 3, NOW), 3);
    assert_int_equal(bucket_take(&b, 3, NOW), 2);
    assert_int_equal(bucket_take(&b, 3, NOW), 0);
    assert_int_equal(bucket_available(&b, NOW), 0);
    assert_int_equal(bucket_take(&b, -1, NOW), 0);
}

static void tokens_come_at_the_rate_and_not_a_millisecond_before(void **state)
{
    (void)state;
    struct bucket b = bucket_of(10, 5);
    assert_int_equal(bucket_take(&b, 5, NOW), 5);
    assert_true(bucket_next_ms(&b, NOW) == NOW + 100);
    assert_int_equal(bucket_available(&b, NOW + 99), 0);
    assert_int_equal(bucket_available(&b, NOW + 100), 1);
    assert_int_equal(bucket_available(&b, NOW + 399), 3);
    assert_true(bucket_next_ms(&b, NOW + 399) == NOW + 399);
}

static void its_level_has_the_part_of_a_token_that_has_come(void **state)
{
    (void)state;
    struct bucket b = bucket_of(10, 5);
    assert_int_equal(bucket_take(&b, 5, NOW), 5);
    assert_true(bucket_level(&b, NOW) == 0);
    assert_true(bucket_level(&b, NOW + 250) == 2.5);
    assert_true(bucket_level(&b, NOW + 3600000) == 5);
}

static void it_holds_no_more_than_its_burst(void **state)
{
    (void)state;
    struct bucket b = bucket_of(1000, 3);
    assert_int_equal(bucket_take(&b, 3, NOW), 3);
    assert_int_equal(bucket_take(&b, 100, NOW + 3600000), 3);
    assert_int_equal(bucket_take(&b, 100, NOW + 3600000), 0);
}

static void what_was_not_used_goes_back_and_never_above_the_burst(void **state)
{
    (void)state;
    struct bucket b = bucket_of(1, 10);
    assert_int_equal(bucket_take(&b, 10, NOW), 10);
    bucket_give_back(&b, 4, NOW);
    assert_int_equal(bucket_available(&b, NOW), 4);
    bucket_give_back(&b, 6, NOW + 5000);
    assert_int_equal(bucket_take(&b, 100, NOW + 5000), 10);
    assert_int_equal(bucket_available(&b, NOW + 5000), 0);
}

static void a_year_of_odd_rates_does_not_drift(void **state)
{
    (void)state;
    static const double rates[] = { 0.1, 1.0 / 3, 7.3, 333.3 };
    for (size_t i = 0; i < array_count(rates); i++) {
        struct bucket b = bucket_of(rates[i], 1000000);
        int64_t taken = bucket_take(&b, 1000000, NOW) - 1000000, now = NOW;
        while (now < NOW + 365 * 86400000LL) {
            now += 977 * 1000;
            taken += bucket_take(&b, INT64_MAX, now);
        }
        double expected = rates[i] * (double)(now - NOW) / 1000;
        assert_true((double)taken <= expected + 1e-3 && (double)taken > expected - 1 - 1e-3);
    }
}

static void taking_each_as_it_comes_gives_the_rate_exactly(void **state)
{
    (void)state;
    static const double rates[] = { 0.7, 3, 9.99, 70, 999, 2500 };
    for (size_t i = 0; i < array_count(rates); i++) {
        struct bucket b = bucket_of(rates[i], 10);
        int64_t now = NOW, taken = 0;
        bucket_take(&b, 10, NOW);
        while (now < NOW + 100000) {
            int64_t next = bucket_next_ms(&b, now);
            assert_true(next > now);
            assert_int_equal(bucket_available(&b, next - 1), 0);
            now = next;
            int64_t got = bucket_take(&b, 100, now);
            assert_true(got > 0);
            taken += got;
        }
        double expected = rates[i] * (double)(now - NOW) / 1000;
        assert_true((double)taken <= expected + 1e-6 && (double)taken > expected - 1);
    }
}

static void a_clock_set_back_takes_nothing_out_and_puts_nothing_in(void **state)
{
    (void)state;
    struct bucket b = bucket_of(10, 100);
    bucket_take(&b, 97, NOW);
    assert_int_equal(bucket_available(&b, NOW - 86400000), 3);
    assert_int_equal(bucket_available(&b, NOW - 86400000 + 100), 4);
    assert_int_equal(bucket_available(&b, NOW - 2 * 86400000 + 99), 4);
    assert_int_equal(bucket_available(&b, NOW - 2 * 86400000 + 199), 5);
}

static void times_to_and_fro_bring_no_tokens(void **state)
{
    (void)state;
    struct bucket b = bucket_of(1000, 100);
    bucket_take(&b, 100, NOW);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(bucket_available(&b, NOW + 5), 5);
        assert_int_equal(bucket_available(&b, NOW), 5);
    }
    bucket_take(&b, 5, NOW);
    assert_true(bucket_next_ms(&b, NOW) == NOW + 6);
}

static void a_clock_that_jumped_ahead_and_back_fills_it_once(void **state)
{
    (void)state;
    struct bucket b = bucket_of(10, 5);
    bucket_take(&b, 5, NOW);
    assert_int_equal(bucket_take(&b, 100, NOW + 86400000), 5);
    assert_int_equal(bucket_take(&b, 100, NOW), 0);
    assert_true(bucket_next_ms(&b, NOW) == NOW + 100);
}

static void other_limits_keep_what_is_in_it(void **state)
{
    (void)state;
    struct bucket b = bucket_of(10, 100);
    bucket_take(&b, 90, NOW);
    bucket_set(&b, 20, 50, NOW + 50); /* there were 10 and a half */
    assert_int_equal(bucket_available(&b, NOW + 50), 10);
    assert_int_equal(bucket_available(&b, NOW + 75), 11);
    bucket_set(&b, 20, 4, NOW + 75);
    assert_int_equal(bucket_available(&b, NOW + 75), 4);
    bucket_set(&b, 20, 4, NOW + 75);
    assert_int_equal(bucket_available(&b, NOW + 75), 4);
    bucket_set(&b, 40, 4, NOW + 75);
    bucket_take(&b, 4, NOW + 75);
    assert_true(bucket_next_ms(&b, NOW + 75) == NOW + 100);
}

static void setting_the_same_limits_over_and_over_loses_no_fraction(void **state)
{
    (void)state;
    struct bucket b = bucket_of(3, 1);
    int64_t taken = bucket_take(&b, 1, NOW) - 1;
    for (int64_t now = NOW; now <= NOW + 100000; now++) {
        bucket_set(&b, 3, 1, now);
        taken += bucket_take(&b, 1, now);
    }
    assert_true(taken >= 299 && taken <= 300);
}

static void a_rate_of_next_to_nothing_is_next_to_never(void **state)
{
    (void)state;
    struct bucket b = bucket_of(1e-300, 1);
    bucket_take(&b, 1, NOW);
    int64_t next = bucket_next_ms(&b, NOW);
    assert_true(next > NOW + 1000LL * 365 * 86400000 && next < INT64_MAX / 2);
}

static void whatever_the_clock_does_the_rate_holds(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    for (int i = 0; i < 200; i++) {
        double rate = 0.5 + (double)prng_below(&r, 500000) / 1000;
        int64_t burst = prng_between(&r, 1, 200), now = NOW, forward = 0, taken = 0;
        struct bucket b;
        bucket_init(&b, rate, burst, now);
        for (int k = 0; k < 300; k++) {
            int64_t step = prng_below(&r, 20) ? prng_between(&r, 0, 200) : prng_between(&r, -100000, -2000);
            now += step;
            forward += max_of(step, (int64_t)0);
            int64_t there = bucket_available(&b, now), n = prng_between(&r, 0, 50);
            int64_t got = bucket_take(&b, n, now);
            assert_true(there >= 0 && there <= burst && got == min_of(n, there));
            taken += got;
            assert_true((double)taken <= (double)burst + rate * (double)forward / 1000 + 1e-6);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_one_is_full),
        cmocka_unit_test(tokens_come_at_the_rate_and_not_a_millisecond_before),
        cmocka_unit_test(its_level_has_the_part_of_a_token_that_has_come),
        cmocka_unit_test(it_holds_no_more_than_its_burst),
        cmocka_unit_test(what_was_not_used_goes_back_and_never_above_the_burst),
        cmocka_unit_test(a_year_of_odd_rates_does_not_drift),
        cmocka_unit_test(taking_each_as_it_comes_gives_the_rate_exactly),
        cmocka_unit_test(a_clock_set_back_takes_nothing_out_and_puts_nothing_in),
        cmocka_unit_test(times_to_and_fro_bring_no_tokens),
        cmocka_unit_test(a_clock_that_jumped_ahead_and_back_fills_it_once),
        cmocka_unit_test(other_limits_keep_what_is_in_it),
        cmocka_unit_test(setting_the_same_limits_over_and_over_loses_no_fraction),
        cmocka_unit_test(a_rate_of_next_to_nothing_is_next_to_never),
        cmocka_unit_test(whatever_the_clock_does_the_rate_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

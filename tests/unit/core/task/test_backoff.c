/* core/task/backoff: the delay before the next attempt. */
#include "core/task/backoff.h"

#include "check.h"
#include "seed.h"

static struct prng random_stream;

static int setup(void **state)
{
    (void)state;
    prng_init(&random_stream, 1);
    return 0;
}

static struct outcome http(int status)
{
    return (
        struct outcome){ .kind = OUTCOME_FAILED, .retry_after_ms = -1, .failure = FAILURE_HTTP, .http_status = status };
}

static int64_t delay(struct retry_policy p, const struct outcome *o, int attempts)
{
    return backoff_delay_ms(&p, o, attempts, &random_stream);
}

static void exponential_doubles_up_to_its_cap(void **state)
{
    (void)state;
    struct retry_policy p = { .base_delay_ms = 100, .max_delay_ms = 1000, .jitter = JITTER_NONE };
    struct outcome o = http(500);
    static const int64_t expected[] = { 100, 200, 400, 800, 1000, 1000, 1000 };
    for (size_t i = 0; i < array_count(expected); i++)
        assert_true(delay(p, &o, (int)i + 1) == expected[i]);
    assert_true(delay(p, &o, 1000000) == 1000);
    p.backoff = BACKOFF_FIXED;
    for (int n = 1; n < 100; n++)
        assert_true(delay(p, &o, n) == 100);
    p.max_delay_ms = 60; /* the cap holds for a fixed delay, too */
    assert_true(delay(p, &o, 1) == 60);
}

static void doubling_does_not_overflow(void **state)
{
    (void)state;
    struct outcome overloaded = http(503), plain = http(500);
    struct retry_policy p = { .base_delay_ms = 1, .max_delay_ms = INT64_MAX, .jitter = JITTER_NONE };
    assert_true(delay(p, &plain, 62) == (1LL << 61));
    assert_true(delay(p, &plain, 64) == INT64_MAX);
    assert_true(delay(p, &overloaded, 64) == INT64_MAX);
    p.base_delay_ms = INT64_MAX - 1;
    assert_true(delay(p, &overloaded, 1) == INT64_MAX);
    p.base_delay_ms = 0;
    assert_true(delay(p, &plain, 5000) == 0);
}

static void overloaded_targets_wait_twice_as_long(void **state)
{
    (void)state;
    struct retry_policy p = { .base_delay_ms = 100, .max_delay_ms = 1000, .jitter = JITTER_NONE };
    struct outcome busy = http(429), unavailable = http(503), plain = http(502);
    assert_true(delay(p, &busy, 1) == 200 && delay(p, &unavailable, 2) == 400 && delay(p, &plain, 2) == 200);
    assert_true(delay(p, &busy, 4) == 1000); /* within the cap */
    p.backoff = BACKOFF_FIXED;
    assert_true(delay(p, &busy, 9) == 200);
}

static void retry_after_is_honoured_up_to_a_day_and_not_below_the_backoff(void **state)
{
    (void)state;
    struct retry_policy p = { .base_delay_ms = 100, .max_delay_ms = 1000, .jitter = JITTER_NONE };
    enum { day = 86400000 };
    static const int64_t rows[][2] = {
        { 0, 400 }, { 399, 400 }, { 401, 401 }, { 120000, 120000 }, { day, day }, { day + 1, day }, { INT64_MAX, day },
    };
    struct outcome o = http(503), of_worker = { .kind = OUTCOME_FAILED };
    for (size_t i = 0; i < array_count(rows); i++) {
        o.retry_after_ms = of_worker.retry_after_ms = rows[i][0];
        assert_true(delay(p, &o, 3) == rows[i][1]);
        assert_true(delay(p, &of_worker, 3) == min_of(rows[i][0], day)); /* the user's own worker says when */
    }
}

static void full_jitter_spreads_over_the_whole_delay(void **state)
{
    (void)state;
    struct retry_policy p = { .base_delay_ms = 9, .max_delay_ms = 9, .jitter = JITTER_FULL };
    struct outcome o = http(500);
    int seen[10] = { 0 };
    for (int i = 0; i < 2000; i++) {
        int64_t d = delay(p, &o, 1);
        assert_in_range(d, 0, 9);
        seen[d]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(seen[i], 120, 300);
}

static void any_policy_keeps_its_delay_within_bounds(void **state)
{
    (void)state;
    struct prng r = seeded_prng("any_policy_keeps_its_delay_within_bounds");
    for (int i = 0; i < 20000; i++) {
        struct retry_policy p = { .backoff = (enum backoff)prng_below(&r, 2),
                                  .base_delay_ms = prng_between(&r, 0, 1LL << prng_below(&r, 62)),
                                  .max_delay_ms = prng_between(&r, 0, 1LL << prng_below(&r, 62)),
                                  .jitter = (enum jitter)prng_below(&r, 2) };
        struct outcome o = http(prng_below(&r, 2) ? 503 : 500);
        o.retry_after_ms = prng_below(&r, 2) ? -1 : prng_between(&r, 0, 1LL << prng_below(&r, 26));
        int64_t d = backoff_delay_ms(&p, &o, (int)prng_between(&r, 1, 100), &r);
        assert_true(d >= max_of(o.retry_after_ms, 0) && d <= max_of(o.retry_after_ms, p.max_delay_ms));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential_doubles_up_to_its_cap),
        cmocka_unit_test(doubling_does_not_overflow),
        cmocka_unit_test(overloaded_targets_wait_twice_as_long),
        cmocka_unit_test(retry_after_is_honoured_up_to_a_day_and_not_below_the_backoff),
        cmocka_unit_test(full_jitter_spreads_over_the_whole_delay),
        cmocka_unit_test(any_policy_keeps_its_delay_within_bounds),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

/* Figures of a minute: adding, quantiles, and counting by tenant. */
#include <pthread.h>
#include <stdlib.h>

#include "base/stats/stats.h"
#include "check.h"

static void sums_add_up_and_levels_keep_the_highest(void **state)
{
    (void)state;
    struct stats a = { 0 }, b = { 0 };
    a.v[STAT_FAILED] = 2;
    a.v[STAT_BACKLOG] = 7;
    b.v[STAT_FAILED] = 3;
    b.v[STAT_BACKLOG] = 5;
    b.v[STAT_SKEW_MS] = 1;
    stats_add(&a, &b);
    assert_true(a.v[STAT_FAILED] == 5 && a.v[STAT_BACKLOG] == 7 && a.v[STAT_SKEW_MS] == 1);
}

static void quantiles_lie_within_their_bucket(void **state)
{
    (void)state;
    struct stats s = { 0 };
    assert_true(stats_quantile(&s, STAT_RUN_0, 0.99) == 0);
    for (int i = 0; i < 98; i++)
        stats_observe_us(s.v, STAT_RUN_0, 10000); /* a bound is inclusive */
    stats_observe_us(s.v, STAT_RUN_0, 20000000);
    stats_observe_us(s.v, STAT_RUN_0, 20000000);
    assert_true(s.v[STAT_RUN_0] == 98 && s.v[STAT_RUN_6] == 2 && s.v[STAT_RUN_US] == 98 * 10000 + 40000000);
    assert_int_equal(stats_observed(&s, STAT_RUN_0), 100);
    assert_true(stats_observed(&s, STAT_DELAY_0) == 0);
    assert_true(stats_quantile(&s, STAT_RUN_0, 0.49) == 0.005);
    assert_true(stats_quantile(&s, STAT_RUN_0, 0.99) == 17.5); /* half of the way from 5 to 30 */
}

static void an_observation_beyond_all_bounds_is_at_the_last_one(void **state)
{
    (void)state;
    struct stats s = { 0 };
    stats_observe_us(s.v, STAT_DELAY_0, INT64_C(3600000000));
    stats_observe_us(s.v, STAT_DELAY_0, -5);
    assert_true(s.v[STAT_DELAY_8] == 1 && s.v[STAT_DELAY_0] == 1 && s.v[STAT_DELAY_US] == INT64_C(3600000000));
    assert_true(stats_quantile(&s, STAT_DELAY_0, 0.99) == 60);
}

static void what_was_counted_is_taken_once(void **state)
{
    (void)state;
    struct stats_counters *c = stats_counters_new();
    size_t n = 1;
    assert_null(stats_take(c, &n));
    assert_int_equal(n, 0);
    stats_count(c, 5, STAT_CREATED, 0); /* nothing */
    assert_null(stats_take(c, &n));
    stats_count(c, 5, STAT_CREATED, 2);
    stats_count(c, 2053, STAT_CREATED, 1);
    stats_count(c, 5, STAT_CREATED, 1);
    struct tenant_stats *v = stats_take(c, &n);
    assert_int_equal(n, 2);
    assert_true(v[0].tenant == 5 && v[0].stats.v[STAT_CREATED] == 3);
    assert_true(v[1].tenant == 2053 && v[1].stats.v[STAT_CREATED] == 1);
    free(v);
    assert_null(stats_take(c, &n));
    stats_counters_free(c);
    stats_counters_free(NULL);
}

static void tenants_beyond_the_limit_are_added_up(void **state)
{
    (void)state;
    struct stats_counters *c = stats_counters_new();
    size_t n;
    for (int round = 0; round < 2; round++)
        for (int32_t tenant = 1; tenant <= STATS_TENANTS_MAX + 20; tenant++)
            stats_count(c, tenant * 2048, STAT_EXECUTED, 1); /* they all want the same cell */
    struct tenant_stats *v = stats_take(c, &n);
    assert_int_equal(n, STATS_TENANTS_MAX + 1);
    assert_true(v[0].tenant == STATS_OTHER && v[0].stats.v[STAT_EXECUTED] == 40);
    for (size_t i = 1; i < n; i++)
        assert_true(v[i].tenant == (int32_t)i * 2048 && v[i].stats.v[STAT_EXECUTED] == 2);
    free(v);
    stats_counters_free(c);
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *count_all(void *context)
{
    for (int i = 0; i < ROUNDS; i++)
        stats_count(context, 1 + i % 3, STAT_RETRIED, 1);
    return NULL;
}

static void nothing_is_lost_while_it_is_taken(void **state)
{
    (void)state;
    struct stats_counters *c = stats_counters_new();
    pthread_t threads[THREADS];
    int64_t sum = 0;
    size_t n;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_all, c), 0);
    for (int i = 0; i <= 100; i++) {
        for (size_t k = 0; i == 100 && k < THREADS; k++)
            pthread_join(threads[k], NULL);
        struct tenant_stats *v = stats_take(c, &n);
        for (size_t k = 0; k < n; k++)
            sum += v[k].stats.v[STAT_RETRIED];
        free(v);
    }
    assert_int_equal(sum, THREADS * ROUNDS);
    stats_counters_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_add_up_and_levels_keep_the_highest),
        cmocka_unit_test(quantiles_lie_within_their_bucket),
        cmocka_unit_test(an_observation_beyond_all_bounds_is_at_the_last_one),
        cmocka_unit_test(what_was_counted_is_taken_once),
        cmocka_unit_test(tenants_beyond_the_limit_are_added_up),
        cmocka_unit_test(nothing_is_lost_while_it_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

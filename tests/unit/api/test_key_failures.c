/* Requests without a valid API key (api/server/key_failures.h), by a clock of the test. */
#include <arpa/inet.h>

#include "api/server/key_failures.h"
#include "check.h"

static int64_t now_ns;

static int64_t test_clock_ns(struct clock *c)
{
    (void)c;
    return now_ns;
}

static const struct clock_ops test_clock_ops = { .steady_ns = test_clock_ns };
static struct clock test_clock = { &test_clock_ops };
static struct metrics *metrics;
static struct key_failures failures;

static int start(void **state)
{
    (void)state;
    now_ns = 1000000000000;
    metrics = metrics_new();
    key_failures_init(&failures, &test_clock, metrics);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    key_failures_release(&failures);
    metrics_free(metrics);
    return 0;
}

static union peer peer_of(uint32_t address)
{
    return (union peer){ .v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) } };
}

static void an_address_may_fail_ten_times_a_second(void **state)
{
    (void)state;
    union peer one = peer_of(0x7f000001), other = peer_of(0x7f000002);
    for (int i = 0; i < 10; i++)
        assert_false(key_failures_add(&failures, &one, KEY_FAILURE_REFUSED).limited);
    assert_true(key_failures_add(&failures, &one, KEY_FAILURE_REFUSED).limited);
    assert_false(key_failures_add(&failures, &other, KEY_FAILURE_REFUSED).limited);
    now_ns += 100 * 1000000; /* one more */
    assert_false(key_failures_add(&failures, &one, KEY_FAILURE_REFUSED).limited);
    assert_true(key_failures_add(&failures, &one, KEY_FAILURE_REFUSED).limited);
    assert_int_equal(metric_count_labelled(metrics, METRIC_KEY_FAILURES, KEY_FAILURE_REFUSED), 12);
    assert_int_equal(metric_count_labelled(metrics, METRIC_KEY_FAILURES, KEY_FAILURE_LIMITED), 2);
}

static void what_is_no_key_is_counted_only(void **state)
{
    (void)state;
    union peer one = peer_of(0x7f000001);
    for (int i = 0; i < 100; i++)
        assert_false(key_failures_add(&failures, &one, KEY_FAILURE_MISSING).limited);
    assert_int_equal(failures.addresses.n, 0);
    for (int i = 0; i < 100; i++)
        assert_false(key_failures_add(&failures, &one, KEY_FAILURE_MALFORMED).limited);
    assert_false(key_failures_add(&failures, &one, KEY_FAILURE_REFUSED).limited);
    assert_int_equal(metric_count_labelled(metrics, METRIC_KEY_FAILURES, KEY_FAILURE_MALFORMED), 100);
    assert_int_equal(metric_count_labelled(metrics, METRIC_KEY_FAILURES, KEY_FAILURE_MISSING), 100);
}

static void many_addresses_take_a_fixed_amount_of_memory(void **state)
{
    (void)state;
    union peer busy = peer_of(1);
    for (uint32_t i = 2; i < 3 * KEY_FAILURES_ADDRESSES; i++) {
        union peer p = peer_of(i);
        key_failures_add(&failures, &p, KEY_FAILURE_REFUSED);
        key_failures_add(&failures, &busy, KEY_FAILURE_REFUSED);
    }
    assert_int_equal(failures.addresses.n, KEY_FAILURES_ADDRESSES);
    assert_true(key_failures_add(&failures, &busy, KEY_FAILURE_REFUSED)
                    .limited); /* it fails all the time, so it is not forgotten */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_address_may_fail_ten_times_a_second, start, stop),
        cmocka_unit_test_setup_teardown(what_is_no_key_is_counted_only, start, stop),
        cmocka_unit_test_setup_teardown(many_addresses_take_a_fixed_amount_of_memory, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Requests without a valid API key (api/auth/key_failures.h), by a clock of the test. */
#include <arpa/inet.h>

#include "api/auth/key_failures.h"
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

static struct key_refusal refuse(const union peer *peer, enum key_failure reason)
{
    return key_failures_add(&failures, peer, reason, NULL);
}

static void an_address_may_fail_ten_times_a_second(void **state)
{
    (void)state;
    union peer one = peer_of(0x7f000001), other = peer_of(0x7f000002);
    for (int i = 0; i < 10; i++)
        assert_false(refuse(&one, KEY_FAILURE_REFUSED).limited);
    assert_true(refuse(&one, KEY_FAILURE_REFUSED).limited);
    assert_false(refuse(&other, KEY_FAILURE_REFUSED).limited);
    now_ns += 100 * 1000000; /* one more */
    assert_false(refuse(&one, KEY_FAILURE_REFUSED).limited);
    assert_true(refuse(&one, KEY_FAILURE_REFUSED).limited);
    assert_int_equal(metric_count_labelled(metrics, METRIC_KEY_FAILURES, KEY_FAILURE_REFUSED), 12);
    assert_int_equal(metric_count_labelled(metrics, METRIC_KEY_FAILURES, KEY_FAILURE_LIMITED), 2);
}

static void what_is_no_key_is_counted_only(void **state)
{
    (void)state;
    union peer one = peer_of(0x7f000001);
    for (int i = 0; i < 100; i++)
        assert_false(refuse(&one, KEY_FAILURE_MISSING).limited);
    assert_int_equal(failures.addresses.rows.n, 0);
    for (int i = 0; i < 100; i++)
        assert_false(refuse(&one, KEY_FAILURE_MALFORMED).limited);
    assert_false(refuse(&one, KEY_FAILURE_REFUSED).limited);
    assert_int_equal(metric_count_labelled(metrics, METRIC_KEY_FAILURES, KEY_FAILURE_MALFORMED), 100);
    assert_int_equal(metric_count_labelled(metrics, METRIC_KEY_FAILURES, KEY_FAILURE_MISSING), 100);
}

static void many_addresses_take_a_fixed_amount_of_memory(void **state)
{
    (void)state;
    union peer busy = peer_of(1);
    for (uint32_t i = 2; i < 3 * KEY_FAILURES_ADDRESSES; i++) {
        union peer p = peer_of(i);
        refuse(&p, KEY_FAILURE_REFUSED);
        refuse(&busy, KEY_FAILURE_REFUSED);
    }
    assert_int_equal(failures.addresses.rows.n, KEY_FAILURES_ADDRESSES);
    assert_true(refuse(&busy, KEY_FAILURE_REFUSED).limited); /* it fails all the time, so it is not forgotten */
}

static struct key_failure_row rows[KEY_FAILURES_ROWS];

static size_t minute_ends(bool *ret_again)
{
    now_ns += KEY_FAILURES_MINUTE_MS * 1000000LL;
    return key_failures_take(&failures, rows, ret_again);
}

static void what_was_counted_is_recorded_when_the_minute_ends(void **state)
{
    (void)state;
    union peer one = peer_of(0x7f000001);
    bool again;
    struct key_refusal first = refuse(&one, KEY_FAILURE_MALFORMED);
    assert_true(first.is_due && first.starts);
    assert_int_equal(first.row.count, 1);
    for (int i = 0; i < 30; i++) {
        struct key_refusal next = refuse(&one, KEY_FAILURE_MALFORMED);
        assert_false(next.is_due || next.starts);
    }
    assert_int_equal(minute_ends(&again), 1);
    assert_true(again);
    assert_int_equal(rows[0].count, 30);
    assert_int_equal(rows[0].reason, KEY_FAILURE_MALFORMED);
    assert_false(refuse(&one, KEY_FAILURE_MALFORMED).is_due); /* it goes on: one row a minute */
    assert_int_equal(minute_ends(&again), 1);
    assert_int_equal(rows[0].count, 1);
    assert_int_equal(minute_ends(&again), 0);
    assert_false(again);
    first = refuse(&one, KEY_FAILURE_MALFORMED);
    assert_true(first.is_due && first.starts);
    assert_int_equal(minute_ends(&again), 0);
    assert_false(again);
}

static void reasons_and_keys_are_not_mixed(void **state)
{
    (void)state;
    static const enum key_failure reasons[] = { KEY_FAILURE_MALFORMED, KEY_FAILURE_REFUSED, KEY_FAILURE_REVOKED,
                                                KEY_FAILURE_EXPIRED, KEY_FAILURE_REVOKED };
    struct identity keys[] = { { 0 }, { 0 }, { 7, 0, "first" }, { 7, 0, "first" }, { 8, 0, "second" } };
    union peer one = peer_of(0x7f000001);
    bool again, seen[array_count(reasons)] = { 0 };
    refuse(&one, KEY_FAILURE_REFUSED); /* recorded at once */
    for (size_t i = 0; i < array_count(reasons); i++)
        for (size_t n = 0; n <= i; n++) {
            now_ns += 200 * 1000000; /* slow enough not to be limited, and within the second of the row before */
            failures.recorded_ns = now_ns;
            assert_false(key_failures_add(&failures, &one, reasons[i], &keys[i]).limited);
        }
    assert_int_equal(minute_ends(&again), array_count(reasons));
    for (size_t k = 0; k < array_count(reasons); k++)
        for (size_t i = 0; i < array_count(reasons); i++)
            if (rows[k].reason == reasons[i] && rows[k].count == (int64_t)i + 1) {
                seen[i] = true;
                assert_string_equal(rows[k].who.key_id, keys[i].key_id);
                assert_int_equal(rows[k].who.tenant, keys[i].tenant ? keys[i].tenant : TENANT_DEFAULT);
            }
    for (size_t i = 0; i < array_count(reasons); i++)
        assert_true(seen[i]);
}

static void addresses_beyond_the_lines_are_summed(void **state)
{
    (void)state;
    enum { MANY = 3 * KEY_FAILURES_ADDRESSES };
    bool again;
    int64_t recorded = 0, others = 0;
    for (uint32_t i = 1; i <= MANY; i++) {
        union peer p = peer_of(i);
        recorded += refuse(&p, KEY_FAILURE_REFUSED).is_due;
    }
    struct identity who = { 7, 0, "first" };
    union peer mine = peer_of(0x7f000001);
    key_failures_add(&failures, &mine, KEY_FAILURE_EXPIRED, &who); /* strangers do not take the line of a known key */
    size_t n = minute_ends(&again);
    assert_true(n <= KEY_FAILURES_ROWS);
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        bool is_mine = strcmp(rows[i].who.key_id, "first") == 0;
        found = found || is_mine;
        recorded += is_mine ? 0 : rows[i].count;
        others += rows[i].is_of_others ? rows[i].count : 0;
    }
    assert_true(found);
    assert_int_equal(recorded, MANY);
    assert_int_equal(others, MANY - KEY_FAILURES_LINES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_address_may_fail_ten_times_a_second, start, stop),
        cmocka_unit_test_setup_teardown(what_is_no_key_is_counted_only, start, stop),
        cmocka_unit_test_setup_teardown(many_addresses_take_a_fixed_amount_of_memory, start, stop),
        cmocka_unit_test_setup_teardown(what_was_counted_is_recorded_when_the_minute_ends, start, stop),
        cmocka_unit_test_setup_teardown(reasons_and_keys_are_not_mixed, start, stop),
        cmocka_unit_test_setup_teardown(addresses_beyond_the_lines_are_summed, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

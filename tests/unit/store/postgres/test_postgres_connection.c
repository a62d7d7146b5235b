/* How often a failing connect is tried again. No server listens at the address: each try fails at once. */
#include <stdlib.h>

#include "check.h"
#include "store/postgres/internal.h"

struct world {
    struct clock clock;
    int64_t steady_ns;
    struct pg_conn conn;
};

static int64_t steady_ns(struct clock *c)
{
    return container_of(c, struct world, clock)->steady_ns;
}

static int setup(void **state)
{
    static const struct clock_ops ops = { .steady_ns = steady_ns };
    struct world *w = xnew(*w);
    struct error e;
    w->clock.ops = &ops;
    w->steady_ns = 1;
    assert_ok(pg_conn_init(&w->conn, "postgres://x@127.0.0.1:1/x", false, &w->clock, &e), &e);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    pg_conn_release(&w->conn);
    free(w);
    return 0;
}

/* The longest pause in that many tries. */
static int64_t longest_pause_ms(struct world *w, int tries)
{
    int64_t longest_ns = 0;
    struct error e;
    for (int i = 0; i < tries; i++) {
        assert_int_equal(pg_conn_ready(&w->conn, &e), ERR_UNAVAILABLE);
        assert_true(w->conn.retry_at_ns > w->steady_ns);
        longest_ns = max_of(longest_ns, w->conn.retry_at_ns - w->steady_ns);
        w->steady_ns = w->conn.retry_at_ns;
    }
    return longest_ns / 1000000;
}

static void tries_become_rarer_up_to_two_seconds(void **state)
{
    struct world *w = *state;
    assert_int_equal(longest_pause_ms(w, 1), 100);
    assert_int_equal(longest_pause_ms(w, 2), 400);
    assert_int_equal(longest_pause_ms(w, 10), 2000);
}

static void who_carries_beats_waits_no_longer_than_one(void **state)
{
    struct world *w = *state;
    w->conn.backoff_max_ms = 500;
    assert_int_equal(longest_pause_ms(w, 10), 500);
}

static void before_its_time_nothing_is_tried(void **state)
{
    struct world *w = *state;
    struct error e;
    assert_int_equal(longest_pause_ms(w, 3), 400);
    w->steady_ns -= 1000000;
    int64_t before_ns = w->conn.retry_at_ns;
    assert_int_equal(pg_conn_ready(&w->conn, &e), ERR_UNAVAILABLE);
    assert_int_equal(w->conn.retry_at_ns, before_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tries_become_rarer_up_to_two_seconds, setup, teardown),
        cmocka_unit_test_setup_teardown(who_carries_beats_waits_no_longer_than_one, setup, teardown),
        cmocka_unit_test_setup_teardown(before_its_time_nothing_is_tried, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "check.h"

#include "core/sharing/workers_wanted.h"

static const int64_t SECOND_NS = 1000000000;

/* Adds a sample every 5 s up to and including `until_s`; rate and run time are constant, the backlog is given. */
static int64_t run_until(struct workers_wanted *w, int64_t from_s, int64_t until_s, int64_t rate, int64_t run_us,
                         int64_t backlog)
{
    int64_t wanted = -1;
    for (int64_t s = from_s; s <= until_s; s += 5)
        wanted = workers_wanted_add(w, &(struct workload){ .at_ns = s * SECOND_NS,
                                                           .ended = s * rate,
                                                           .ran_us = s * rate * run_us,
                                                           .backlog = backlog,
                                                           .slots = 10 });
    return wanted;
}

static void a_steady_load_needs_its_slots_and_a_quarter_more(void **state)
{
    (void)state;
    struct workers_wanted w;
    workers_wanted_init(&w, 0);
    assert_int_equal(run_until(&w, 0, 0, 100, 2000000, 0), -1);
    assert_int_equal(run_until(&w, 5, 300, 100, 2000000, 0), 25); /* 200 busy slots, 80 %, 10 a worker */
}

static void a_backlog_is_to_end_within_a_minute(void **state)
{
    (void)state;
    struct workers_wanted w;
    workers_wanted_init(&w, 0);
    assert_int_equal(run_until(&w, 0, 300, 100, 2000000, 6000), 45); /* 6,000 * 2 s / 60 s / 10 more */
}

static void it_falls_by_a_tenth_a_minute_also_after_another_leader(void **state)
{
    (void)state;
    struct workers_wanted w;
    workers_wanted_init(&w, 100);
    assert_int_equal(run_until(&w, 0, 0, 0, 0, 0), 100);
    assert_int_equal(run_until(&w, 5, 60, 0, 0, 0), 90);
    assert_int_equal(run_until(&w, 65, 120, 0, 0, 0), 81);
    assert_int_equal(run_until(&w, 125, 7200, 0, 0, 0), 0);
}

static void totals_that_fall_with_a_dead_node_do_no_harm(void **state)
{
    (void)state;
    struct workers_wanted w;
    workers_wanted_init(&w, 0);
    int64_t before = run_until(&w, 0, 300, 100, 2000000, 0);
    struct workload less = { .at_ns = 305 * SECOND_NS, .ended = 10, .ran_us = 20, .slots = 10 };
    assert_int_equal(workers_wanted_add(&w, &less), before);
}

static void a_growing_backlog_counts_as_arrivals(void **state)
{
    (void)state;
    struct workers_wanted w;
    int64_t wanted = 0;
    workers_wanted_init(&w, 0);
    for (int64_t s = 0; s <= 600; s += 5)
        wanted = workers_wanted_add(&w, &(struct workload){ .at_ns = s * SECOND_NS,
                                                            .ended = s * 100,
                                                            .ran_us = s * 100 * 1000000,
                                                            .backlog = s * 100,
                                                            .slots = 100 });
    assert_int_equal(wanted, 13); /* 200 a second of 1 s at 80 %: 2.5; 60,000 within a minute: 10 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_load_needs_its_slots_and_a_quarter_more),
        cmocka_unit_test(a_backlog_is_to_end_within_a_minute),
        cmocka_unit_test(it_falls_by_a_tenth_a_minute_also_after_another_leader),
        cmocka_unit_test(totals_that_fall_with_a_dead_node_do_no_harm),
        cmocka_unit_test(a_growing_backlog_counts_as_arrivals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

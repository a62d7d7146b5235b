/* A worker's slots by priority class: what a take may bring, and when a take that waits is ended for another class. */
#include "worker_calls.h"

enum { SLOTS = 20 };

static int setup(void **state)
{
    *state = bench_open(SLOTS, NULL);
    return 0;
}

static void push_of(struct bench *b, int priority, int from, int to)
{
    for (int n = from; n <= to; n++) {
        struct task t = some_task(n);
        t.priority = priority;
        push_task(b, t);
    }
    come_to_rest(b);
}

static void a_take_keeps_slots_for_higher_classes(void **state)
{
    struct bench *b = *state;
    push_of(b, 0, 1, 20);
    assert_waiting(b, 16, 0);
    assert_int_equal(asked(b)->max, 4);
    assert_int_equal(asked(b)->kept[CLASS_NORMAL], 2);
    assert_int_equal(asked(b)->kept[CLASS_HIGH], 2);
    push_of(b, 5, 21, 23);
    assert_waiting(b, 18, 0);
    push_of(b, 9, 24, 26);
    assert_waiting(b, 20, 0);
}

static const struct queue_filter low_only = { .priority_max = 3 };

static int setup_low_only(void **state)
{
    *state = bench_open(SLOTS, &low_only);
    return 0;
}

static void who_serves_one_class_keeps_nothing_for_others(void **state)
{
    struct bench *b = *state;
    push_of(b, 3, 1, 21);
    assert_waiting(b, SLOTS, 0);
}

/* The take in flight waits for a higher class; a low task waits in the queue, and does not wake it. */
static void a_take_that_waits_ends_when_a_lower_class_has_a_slot(void **state)
{
    struct bench *b = *state;
    push_of(b, 0, 1, 17);
    assert_waiting(b, 16, 0);
    step(b, 0);
    assert_null(find_io_request(&b->async_io, IO_UNBLOCK));
    end_run(b, 0, OUTCOME_OK);
    step(b, 0); /* its outcome takes up the slot */
    assert_null(find_io_request(&b->async_io, IO_UNBLOCK));
    carry(&b->async_io, IO_PUBLISH);
    step(b, 0);
    struct io_request *e = find_io_request(&b->async_io, IO_UNBLOCK);
    assert_non_null(e);
    assert_memory_equal(&container_of(e, struct io_unblock, io_request)->worker, &(struct uuid){ { 7 } },
                        sizeof(struct uuid));
    carry(&b->async_io, IO_UNBLOCK);
    step(b, 0);
    assert_null(find_io_request(&b->async_io, IO_UNBLOCK)); /* once for each take */
    carry(&b->async_io, IO_TAKE);
    step(b, 0);
    assert_int_equal(asked(b)->max, 5);
    carry(&b->async_io, IO_TAKE);
    step(b, 0);
    assert_waiting(b, 16, 0);
}

/* The take in flight said that no CPU is free; a task that needs some waits in the queue, and does not wake it. */
static void a_take_that_waits_ends_when_there_is_more_cpu(void **state)
{
    struct bench *b = *state;
    struct task t = some_task(1);
    t.cpu_milli = 1000;
    push_task(b, t);
    come_to_rest(b);
    assert_waiting(b, 1, 0);
    assert_int_equal(asked(b)->cpu_milli, 0);
    step(b, 0);
    assert_null(find_io_request(&b->async_io, IO_UNBLOCK));
    end_run(b, 0, OUTCOME_OK);
    step(b, 0);
    assert_non_null(find_io_request(&b->async_io, IO_UNBLOCK));
    carry(&b->async_io, IO_UNBLOCK);
    carry(&b->async_io, IO_TAKE);
    assert_int_equal(asked(b)->cpu_milli, 1000);
}

/* A high call ends: its slot is kept for the next high one, not for the low task that waits for the same host. */
static void what_was_parked_starts_into_no_kept_slot(void **state)
{
    struct bench *b = *state;
    for (int n = 1; n <= 5; n++) {
        struct task t = call_to(n, "https://a.example/");
        t.priority = n <= 2 ? 9 : 0;
        push_task(b, t);
        come_to_rest(b);
    }
    assert_waiting(b, 4, 1);
    push_of(b, 0, 6, 30);
    assert_waiting(b, 18, 1); /* 2 are kept for the normal class */
    end_call(b, 1, OUTCOME_OK);
    come_to_rest(b);
    assert_waiting(b, 17, 1);
    end_call(b, 6, OUTCOME_OK);
    step(b, 0);
    assert_waiting(b, 17, 0);
    assert_true(is_running(b, 5));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, bench_close)
    const struct CMUnitTest tests[] = {
        T(a_take_keeps_slots_for_higher_classes),
        cmocka_unit_test_setup_teardown(who_serves_one_class_keeps_nothing_for_others, setup_low_only, bench_close),
        T(a_take_that_waits_ends_when_a_lower_class_has_a_slot),
        T(a_take_that_waits_ends_when_there_is_more_cpu),
        T(what_was_parked_starts_into_no_kept_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

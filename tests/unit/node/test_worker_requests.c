/* What users want of tasks that a worker has taken and not started. */
#include "worker_bench.h"

enum { SLOTS = 3 };

static int setup(void **state)
{
    *state = bench_open(SLOTS, NULL);
    return 0;
}

static void want_back(struct bench *b, const struct task *t)
{
    struct error e;
    bool waits = true;
    assert_ok(queue_want_back(b->async_io.queue, t, &waits, &e), &e);
    assert_false(waits);
}

/* Carries a take, whose answer lies here while the process is stopped. */
static void take_and_stop(struct bench *b, int64_t ms)
{
    b->async_io.hears = true;
    step(b, 0);
    carry(&b->async_io, IO_TAKE);
    step(b, ms);
}

static void who_was_stopped_asks_what_is_wanted_back_before_it_starts_what_it_had_taken(void **state)
{
    struct bench *b = *state;
    struct task wanted = pushed(b, 1), ended = pushed(b, 2);
    struct event e;
    struct error why;
    pushed(b, 3);
    take_and_stop(b, DELIVERY_HEARD_MS);
    assert_int_equal(b->run_count, 0);
    want_back(b, &wanted);
    assert_ok(queue_abort(b->async_io.queue, (struct fenced_id){ ended.id, ended.fence }, &why), &why);
    struct io_request *take = find_io_request(&b->async_io, IO_TAKE);
    assert_non_null(take);
    assert_int_equal(container_of(take, struct io_take, io_request)->ask.max, 0);
    assert_int_equal(container_of(take, struct io_take, io_request)->ask.wait_ms, 0);
    carry(&b->async_io, IO_TAKE);
    step(b, 1);
    assert_int_equal(b->run_count, 1);
    assert_int_equal(b->runs[0]->task->id.b[0], 3);
    carry_all(&b->async_io);
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 2);
}

static void what_it_took_a_moment_ago_starts_at_once(void **state)
{
    struct bench *b = *state;
    pushed(b, 1);
    take_and_stop(b, DELIVERY_HEARD_MS - 1);
    assert_int_equal(b->run_count, 1);
}

/* What users want may have been in the answer that was lost. */
static void what_it_had_taken_is_returned_if_it_cannot_hear_what_is_wanted_back(void **state)
{
    struct bench *b = *state;
    struct event e;
    pushed(b, 1);
    take_and_stop(b, DELIVERY_HEARD_MS);
    refuse(&b->async_io, IO_TAKE, false);
    step(b, 1);
    carry_all(&b->async_io);
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 1);
    assert_int_equal(e.outcome.kind, OUTCOME_RETURNED);
    assert_int_equal(b->run_count, 0);
}

static void what_runs_goes_on_although_it_is_wanted_back(void **state)
{
    struct bench *b = *state;
    struct task t = pushed(b, 1);
    struct event e;
    take_and_stop(b, 0);
    assert_int_equal(b->run_count, 1);
    want_back(b, &t);
    carry(&b->async_io, IO_TAKE);
    step(b, 1);
    carry_all(&b->async_io);
    assert_int_equal(b->run_count, 1);
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, bench_close)
    const struct CMUnitTest tests[] = {
        T(who_was_stopped_asks_what_is_wanted_back_before_it_starts_what_it_had_taken),
        T(what_it_took_a_moment_ago_starts_at_once),
        T(what_it_had_taken_is_returned_if_it_cannot_hear_what_is_wanted_back),
        T(what_runs_goes_on_although_it_is_wanted_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

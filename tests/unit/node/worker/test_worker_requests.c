/* What users want of tasks that a worker has taken and not started. */
#include "worker_calls.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"

enum { SLOTS = 6, TOO_LONG_MS = DELIVERY_HEARD_MS + 50 };

static int setup(void **state)
{
    *state = bench_open(SLOTS, NULL);
    return 0;
}

static void assert_no_outcome_yet(struct bench *b)
{
    struct event e;
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 0);
}

/* So many; nothing else became of any. */
static void assert_returned(struct bench *b, size_t n)
{
    struct event e = { 0 };
    assert_int_equal(published(b, EVENT_OUTCOME, &e), n);
    assert_int_equal(e.outcome.kind, OUTCOME_RETURNED);
}

static void want_back(struct bench *b, const struct task *t)
{
    struct error e;
    enum want_back_answer answer;
    assert_ok(queue_want_back(b->async_io.queue, t, 0, &answer, &e), &e);
    assert_int_equal(answer, WANT_BACK_TOLD);
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

/* ---- a queue that answers late ---- */

/* The answer to a take, which is on its way for so long. */
static struct io_request *late_answer(struct bench *b, int64_t ms)
{
    struct io_request *e = next_io_request(&b->async_io, IO_TAKE);
    b->async_io.hears = true;
    run_io_request(&b->async_io, e);
    b->now_ms += ms;
    return e;
}

static void answer_late(struct bench *b, int64_t ms)
{
    struct io_request *e = late_answer(b, ms);
    e->done(e);
    step(b, 0);
}

/* Its tasks never start, because each answer is too old. */
static void what_waits_to_hear_is_given_back_before_its_delivery_times_out(void **state)
{
    struct bench *b = *state;
    pushed(b, 1);
    step(b, 0);
    int64_t taken_ms = b->now_ms;
    while (b->now_ms + TOO_LONG_MS < taken_ms + VISIBILITY_MS / 2) {
        answer_late(b, TOO_LONG_MS);
        carry_all(&b->async_io);
        assert_non_null(find_io_request(&b->async_io, IO_TAKE));
    }
    assert_no_outcome_yet(b);
    answer_late(b, TOO_LONG_MS);
    carry_all(&b->async_io);
    assert_returned(b, 1);
    assert_int_equal(b->run_count, 0);
}

static void who_waits_for_a_queue_that_is_silent_wakes_in_time_to_give_back_what_it_has(void **state)
{
    struct bench *b = *state;
    pushed(b, 1);
    take_and_stop(b, DELIVERY_HEARD_MS);
    int64_t wake_ms = b->now_ms, late_ms = NOW + VISIBILITY_MS / 2;
    while (wake_ms < late_ms) {
        b->now_ms = wake_ms;
        carry_all(&b->async_io);
        wake_ms = worker_step(b->worker, both_at(b->now_ms), 0);
        assert_true(wake_ms > b->now_ms && wake_ms <= late_ms);
    }
    assert_no_outcome_yet(b);
    step(b, wake_ms - b->now_ms);
    carry_all(&b->async_io);
    assert_returned(b, 1);
}

static void what_waits_to_hear_is_renewed_like_what_runs(void **state)
{
    struct bench *b = *state;
    pushed(b, 1);
    take_and_stop(b, 0);
    assert_int_equal(b->run_count, 1);
    pushed(b, 2);
    answer_late(b, TOO_LONG_MS);
    assert_int_equal(b->run_count, 1);
    step(b, VISIBILITY_MS / 3 - TOO_LONG_MS);
    struct io_request *e = find_io_request(&b->async_io, IO_RENEW);
    assert_non_null(e);
    assert_int_equal(container_of(e, struct io_renew, io_request)->n, 2);
}

static void who_is_to_stop_gives_back_what_waits_to_hear_at_once(void **state)
{
    struct bench *b = *state;
    pushed(b, 1);
    take_and_stop(b, DELIVERY_HEARD_MS);
    worker_stop_taking(b->worker);
    step(b, 0);
    carry_all(&b->async_io);
    assert_returned(b, 1);
}

static size_t times_in_log(int fd, const char *what)
{
    static char text[1 << 14];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    size_t times = 0;
    assert_true(n >= 0);
    text[n] = '\0';
    for (const char *at = text; (at = strstr(at, what)); at++)
        times++;
    return times;
}

static int64_t log_time(void *context)
{
    (void)context;
    return NOW;
}

/* A take that waits is answered after its wait, in a queue (Redis) that was not asked again meanwhile. */
static void a_queue_is_slow_if_it_takes_long_for_an_answer_that_need_not_wait(void **state)
{
    struct bench *b = *state;
    int fd = memfd_create("log", MFD_CLOEXEC);
    log_open(&(struct log_setup){ .fd = fd, .format = LOG_LOGFMT, .level = LOG_WARN, .now_ms = log_time });
    step(b, 0);
    for (int i = 0; i < 5; i++)
        answer_late(b, 1000);
    assert_int_equal(times_in_log(fd, "queue_slow"), 0);
    pushed(b, 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(times_in_log(fd, "queue_slow"), i >= 3);
        answer_late(b, TOO_LONG_MS);
    }
    assert_int_equal(times_in_log(fd, "queue_slow"), 1);
    log_open(&(struct log_setup){ .fd = STDERR_FILENO, .format = LOG_LOGFMT, .level = LOG_WARN, .now_ms = log_time });
    close(fd);
}

/* ---- what stays ---- */

static void an_abort_stays_one_whatever_comes_after_it(void **state)
{
    struct bench *b = *state;
    pushed(b, 1);
    struct task ended = pushed(b, 2);
    struct event e;
    struct error why;
    take_and_stop(b, DELIVERY_HEARD_MS);
    assert_ok(queue_abort(b->async_io.queue, (struct fenced_id){ ended.id, ended.fence }, &why), &why);
    answer_late(b, TOO_LONG_MS); /* the first one goes on waiting, so the second has its turn later */
    want_back(b, &ended);
    answer_late(b, TOO_LONG_MS);
    refuse(&b->async_io, IO_TAKE, false);
    worker_stop_taking(b->worker);
    step(b, 0);
    carry_all(&b->async_io);
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 2);
    assert_int_equal(e.task.id.b[0], 2);
    assert_int_equal(e.outcome.kind, OUTCOME_CANCELLED);
}

/* It is parked when its turn comes, and the worker has heard again by then: what it was to hear is lost all the same. */
static void what_may_have_been_lost_stays_lost(void **state)
{
    struct bench *b = *state;
    for (int n = 1; n <= HOST_CALLS + 1; n++)
        push_call(b, n);
    step(b, 0);
    struct io_request *e = late_answer(b, 0);
    container_of(e, struct io_take, io_request)->ret.unheard = true;
    e->done(e);
    step(b, 0);
    assert_waiting(b, HOST_CALLS, 1);
    step(b, DELIVERY_HEARD_MS);
    carry(&b->async_io, IO_TAKE);
    end_call(b, 1, OUTCOME_OK);
    for (int i = 0; i < 2; i++) { /* the outcome of the call is published first */
        step(b, 0);
        carry_all(&b->async_io);
    }
    struct event last;
    assert_int_equal(published(b, EVENT_OUTCOME, &last), 2);
    assert_int_equal(last.task.id.b[0], HOST_CALLS + 1);
    assert_int_equal(last.outcome.kind, OUTCOME_RETURNED);
    assert_int_equal(b->run_count, HOST_CALLS - 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, bench_close)
    const struct CMUnitTest tests[] = {
        T(who_was_stopped_asks_what_is_wanted_back_before_it_starts_what_it_had_taken),
        T(what_it_took_a_moment_ago_starts_at_once),
        T(what_it_had_taken_is_returned_if_it_cannot_hear_what_is_wanted_back),
        T(what_runs_goes_on_although_it_is_wanted_back),
        T(what_waits_to_hear_is_given_back_before_its_delivery_times_out),
        T(who_waits_for_a_queue_that_is_silent_wakes_in_time_to_give_back_what_it_has),
        T(what_waits_to_hear_is_renewed_like_what_runs),
        T(who_is_to_stop_gives_back_what_waits_to_hear_at_once),
        T(a_queue_is_slow_if_it_takes_long_for_an_answer_that_need_not_wait),
        T(an_abort_stays_one_whatever_comes_after_it),
        T(what_may_have_been_lost_stays_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A worker in a process of its own: over an async_io whose requests take their time. */
#include "worker_bench.h"

enum { SLOTS = 3 };

static int setup(void **state)
{
    *state = bench_open(SLOTS, NULL);
    return 0;
}

static void an_outcome_is_published_before_its_delivery_is_acknowledged(void **state)
{
    struct bench *b = *state;
    pushed(b, 1);
    come_to_rest(b);
    assert_int_equal(b->run_count, 1);
    end_run(b, 0, OUTCOME_OK);
    step(b, 0);
    assert_null(find_io_request(&b->async_io, IO_ACK));
    carry(&b->async_io, IO_PUBLISH);
    struct event e;
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 1);
    assert_non_null(find_io_request(&b->async_io, IO_ACK));
}

static void what_can_not_be_published_takes_up_a_slot_and_is_not_dropped(void **state)
{
    struct bench *b = *state;
    for (int i = 1; i <= 5; i++)
        pushed(b, i);
    come_to_rest(b);
    assert_int_equal(b->run_count, SLOTS);
    while (b->run_count)
        end_run(b, 0, OUTCOME_OK);
    step(b, 0);
    refuse(&b->async_io, IO_PUBLISH, false);
    step(b, 50);
    struct io_request *take = find_io_request(&b->async_io, IO_TAKE);
    assert_true(!take || container_of(take, struct io_take, io_request)->ask.max == 0);
    assert_int_equal(worker_unpublished(b->worker), SLOTS);
    step(b, 200);
    carry(&b->async_io, IO_PUBLISH);
    assert_int_equal(worker_unpublished(b->worker), 0);
    come_to_rest(b);
    assert_int_equal(b->run_count, 2);
}

static void what_waits_to_be_published_is_renewed_like_what_runs(void **state)
{
    struct bench *b = *state;
    pushed(b, 1);
    pushed(b, 2);
    come_to_rest(b);
    end_run(b, 0, OUTCOME_OK);
    step(b, 0);
    refuse(&b->async_io, IO_PUBLISH, false);
    step(b, VISIBILITY_MS / 3);
    struct io_request *e = find_io_request(&b->async_io, IO_RENEW);
    assert_non_null(e);
    assert_int_equal(container_of(e, struct io_renew, io_request)->n, 2);
}

static void an_ack_that_failed_is_sent_again(void **state)
{
    struct bench *b = *state;
    struct task t = pushed(b, 1);
    come_to_rest(b);
    end_run(b, 0, OUTCOME_OK);
    step(b, 0);
    carry(&b->async_io, IO_PUBLISH);
    refuse(&b->async_io, IO_ACK, false);
    step(b, 200);
    carry(&b->async_io, IO_ACK);
    struct fenced_id id = { t.id, t.fence };
    struct error e;
    bool known;
    assert_ok(queue_known(b->async_io.queue, &id, NULL, 1, &known, &e), &e);
    assert_false(known);
}

static void one_take_is_in_flight_and_waits_for_something(void **state)
{
    struct bench *b = *state;
    step(b, 0);
    struct io_request *e = find_io_request(&b->async_io, IO_TAKE);
    assert_non_null(e);
    assert_true(container_of(e, struct io_take, io_request)->ask.wait_ms > 0);
    assert_int_equal(container_of(e, struct io_take, io_request)->ask.max, SLOTS);
    step(b, 100);
    list_remove(&e->link);
    assert_null(find_io_request(&b->async_io, IO_TAKE));
    list_push(&b->async_io.io_requests, &e->link);
}

static void after_a_take_that_brought_nothing_the_next_one_goes_out_at_once(void **state)
{
    struct bench *b = *state;
    step(b, 0);
    carry(&b->async_io, IO_TAKE);
    step(b, 0);
    assert_non_null(find_io_request(&b->async_io, IO_TAKE));
}

/* A node pushes before it hears that the slots are taken. */
static void what_waited_in_the_queue_for_a_free_slot_was_late_for_lack_of_room(void **state)
{
    struct bench *b = *state;
    struct event e;
    for (int i = 1; i <= SLOTS + 1; i++)
        pushed(b, i);
    struct task paused = some_task(SLOTS + 2);
    paused.late_by = LATE_PAUSED;
    push_task(b, paused);
    come_to_rest(b);
    assert_int_equal(b->run_count, SLOTS);
    step(b, 500);
    for (int i = 0; i < SLOTS; i++)
        end_run(b, 0, OUTCOME_OK);
    come_to_rest(b);
    assert_int_equal(b->run_count, 2);
    assert_int_equal(published(b, EVENT_OUTCOME, &e), SLOTS);
    assert_int_equal(e.outcome.late_by, LATE_NONE); /* it was taken at once */
    for (int i = 0; i < 2; i++) {
        bool was_paused = uuid_eq(b->runs[0]->task->id, paused.id);
        end_run(b, 0, OUTCOME_OK);
        come_to_rest(b);
        assert_true(published(b, EVENT_OUTCOME, &e) > 0);
        assert_int_equal(e.outcome.late_by, was_paused ? LATE_PAUSED : LATE_ROOM);
    }
    struct task later = some_task(SLOTS + 3); /* due after that */
    later.due_ms = later.scheduled_ms = b->now_ms + 1;
    push_task(b, later);
    come_to_rest(b);
    end_run(b, 0, OUTCOME_OK);
    come_to_rest(b);
    assert_true(published(b, EVENT_OUTCOME, &e) > 0);
    assert_int_equal(e.outcome.late_by, LATE_NONE);
}

static void who_is_full_asks_only_what_it_should_end(void **state)
{
    struct bench *b = *state;
    struct task t = pushed(b, 1);
    pushed(b, 2);
    pushed(b, 3);
    come_to_rest(b);
    assert_int_equal(b->run_count, SLOTS);
    struct error e;
    assert_ok(queue_abort(b->async_io.queue, (struct fenced_id){ t.id, t.fence }, &e), &e);
    step(b, 300);
    struct io_request *take = find_io_request(&b->async_io, IO_TAKE);
    assert_non_null(take);
    assert_int_equal(container_of(take, struct io_take, io_request)->ask.max, 0);
    carry(&b->async_io, IO_TAKE);
    step(b, 0);
    assert_int_equal(b->run_count, SLOTS - 1);
    assert_false(worker_runs(b->worker, t.id, t.fence));
}

static void a_machine_without_room_takes_nothing_until_it_has_some(void **state)
{
    struct bench *b = *state;
    b->full = true;
    pushed(b, 1);
    step(b, 0);
    assert_null(find_io_request(&b->async_io, IO_TAKE));
    b->full = false;
    step(b, 300);
    assert_non_null(find_io_request(&b->async_io, IO_TAKE));
}

static void room_is_what_its_settings_give_less_what_runs(void **state)
{
    struct bench *b = *state;
    struct task t = pushed(b, 1), large = t;
    struct error e;
    struct pushed came;
    large.id.b[0] = 9;
    large.cpu_milli = 700;
    assert_ok(queue_push(b->async_io.queue, &large, 1, 0, &came, &e), &e);
    come_to_rest(b);
    step(b, 0);
    struct io_request *take = find_io_request(&b->async_io, IO_TAKE);
    assert_int_equal(container_of(take, struct io_take, io_request)->ask.cpu_milli, 300);
    assert_int_equal(container_of(take, struct io_take, io_request)->ask.memory_mb, -1);
}

static void a_suspect_runs_alone(void **state)
{
    struct bench *b = *state;
    struct task t = pushed(b, 1);
    struct error e;
    struct pushed came;
    come_to_rest(b);
    t.id.b[0] = 9;
    t.losses = SUSPECT_LOSSES;
    assert_ok(queue_push(b->async_io.queue, &t, 1, 0, &came, &e), &e);
    carry(&b->async_io, IO_TAKE);
    step(b, 0);
    assert_int_equal(b->run_count, 1);
    end_run(b, 0, OUTCOME_OK);
    carry(&b->async_io, IO_TAKE); /* asked while the other ran */
    come_to_rest(b);
    assert_true(worker_runs(b->worker, t.id, t.fence));
    pushed(b, 3);
    come_to_rest(b);
    assert_int_equal(b->run_count, 1);
}

static void what_was_taken_long_ago_is_given_back_and_not_started(void **state)
{
    struct bench *b = *state;
    pushed(b, 1);
    step(b, 0);
    struct io_request *e = next_io_request(&b->async_io, IO_TAKE);
    run_io_request(&b->async_io, e);
    container_of(e, struct io_take, io_request)->ret.queue_us = b->now_ms * 1000;
    e->done(e);
    assert_int_equal(b->queue_us, NOW * 1000);
    step(b, VISIBILITY_MS);
    assert_int_equal(b->run_count, 0);
    carry_all(&b->async_io);
    struct event event;
    assert_int_equal(published(b, EVENT_OUTCOME, &event), 1);
    assert_int_equal(event.outcome.kind, OUTCOME_RETURNED);
}

static void it_tells_of_itself_and_when_it_goes(void **state)
{
    struct bench *b = *state;
    struct event e;
    step(b, 0);
    carry(&b->async_io, IO_PUBLISH);
    assert_int_equal(published(b, EVENT_WORKER, &e), 1);
    assert_int_equal(e.worker.slots, SLOTS);
    assert_false(e.worker.left);
    assert_str(e.worker.doc, "{\"zone\":\"north\"}");
    step(b, WORKER_REPORT_MS - 1);
    assert_null(find_io_request(&b->async_io, IO_PUBLISH));
    step(b, 1);
    carry(&b->async_io, IO_PUBLISH);
    worker_stop_taking(b->worker);
    carry(&b->async_io, IO_TAKE);
    step(b, 0);
    assert_false(worker_is_idle(b->worker));
    refuse(&b->async_io, IO_PUBLISH, false);
    step(b, 250);
    carry(&b->async_io, IO_PUBLISH);
    assert_true(published(b, EVENT_WORKER, &e) >= 1);
    assert_true(e.worker.left);
    assert_true(worker_is_idle(b->worker));
}

static void what_arrives_after_it_was_stopped_is_given_back(void **state)
{
    struct bench *b = *state;
    pushed(b, 1);
    step(b, 0);
    worker_stop_taking(b->worker);
    carry(&b->async_io, IO_TAKE);
    step(b, 0);
    assert_int_equal(b->run_count, 0);
    carry_all(&b->async_io);
    struct event e;
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 1);
    assert_int_equal(e.outcome.kind, OUTCOME_RETURNED);
}

static void what_is_aborted_in_its_runner_never_began(void **state)
{
    struct bench *b = *state;
    struct event e;
    struct task t = pushed(b, 1);
    come_to_rest(b);
    b->holds_runs = true;
    assert_true(worker_abort(b->worker, t.id, t.fence));
    come_to_rest(b);
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 1);
    assert_int_equal(e.outcome.kind, OUTCOME_CANCELLED);
    assert_int_equal(e.outcome.started_us, 0);
    assert_str(e.outcome.error, "cancelled before it began");
}

static void who_gives_up_returns_what_has_not_begun(void **state)
{
    struct bench *b = *state;
    struct event e;
    pushed(b, 1);
    come_to_rest(b);
    b->holds_runs = true;
    worker_give_up(b->worker);
    come_to_rest(b);
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 1);
    assert_int_equal(e.outcome.kind, OUTCOME_RETURNED);
}

/* Its push got no answer, so it was claimed anew; the first copy was in the queue all the same. */
static void a_copy_under_a_lower_fence_is_not_called_after_a_higher_one(void **state)
{
    struct bench *b = *state;
    struct event e;
    struct task old = some_task(1), later = old;
    later.fence = 3;
    push_task(b, later);
    come_to_rest(b);
    assert_int_equal(b->run_count, 1);
    end_run(b, 0, OUTCOME_OK);
    come_to_rest(b);
    push_task(b, old);
    come_to_rest(b);
    assert_int_equal(b->run_count, 0);
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 2);
    assert_int_equal(e.outcome.kind, OUTCOME_RETURNED);
    assert_int_equal(e.task.fence, 1);
    later.fence = 4;
    push_task(b, later);
    come_to_rest(b);
    assert_int_equal(b->run_count, 1);
}

/* So many, and no more: the memory is bounded. */
static void the_fences_of_the_last_tasks_are_remembered(void **state)
{
    (void)state;
    struct recent_fences *f = recent_fences_new();
    struct uuid id = { 0 };
    for (uint32_t i = 0; i <= RECENT_FENCES; i++) {
        memcpy(id.b, &i, sizeof i);
        recent_fences_note(f, id, 5);
        recent_fences_note(f, id, 2);
        assert_true(recent_fences_has_higher(f, id, 4));
        assert_false(recent_fences_has_higher(f, id, 5));
    }
    assert_false(recent_fences_has_higher(f, (struct uuid){ 0 }, 4));
    assert_true(recent_fences_has_higher(f, (struct uuid){ { 1 } }, 4));
    recent_fences_free(f);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, bench_close)
    const struct CMUnitTest tests[] = {
        T(an_outcome_is_published_before_its_delivery_is_acknowledged),
        T(what_can_not_be_published_takes_up_a_slot_and_is_not_dropped),
        T(what_waits_to_be_published_is_renewed_like_what_runs),
        T(an_ack_that_failed_is_sent_again),
        T(one_take_is_in_flight_and_waits_for_something),
        T(after_a_take_that_brought_nothing_the_next_one_goes_out_at_once),
        T(what_waited_in_the_queue_for_a_free_slot_was_late_for_lack_of_room),
        T(who_is_full_asks_only_what_it_should_end),
        T(a_machine_without_room_takes_nothing_until_it_has_some),
        T(room_is_what_its_settings_give_less_what_runs),
        T(a_suspect_runs_alone),
        T(what_was_taken_long_ago_is_given_back_and_not_started),
        T(it_tells_of_itself_and_when_it_goes),
        T(what_arrives_after_it_was_stopped_is_given_back),
        T(what_is_aborted_in_its_runner_never_began),
        T(who_gives_up_returns_what_has_not_begun),
        T(a_copy_under_a_lower_fence_is_not_called_after_a_higher_one),
        cmocka_unit_test(the_fences_of_the_last_tasks_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

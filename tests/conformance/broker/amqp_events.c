/* Events on RabbitMQ: failures of the broker, and foreign messages. */
#include <time.h>

#include "amqp_world.h"

static struct event some_event(struct world *w, int64_t fence)
{
    return (struct event){ .task = { .id = uuid_next(&w->ids, NOW), .fence = fence, .retry = RETRY_DEFAULT },
                           .outcome = { .kind = OUTCOME_OK, .retry_after_ms = -1 } };
}

/* Polls return nothing while the broker restarts; that is no failure. */
static struct event_list poll_exactly(struct world *w, struct events *ev, size_t n)
{
    struct event_list all = { arena_array(&w->arena, struct event, n + 1), 0 };
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    while (all.n < n && rabbit_now_ms() < end) {
        struct event_list some = { 0 };
        struct error e = { 0 };
        if (events_poll(ev, n - all.n, 100, &w->arena, &some, &e))
            nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        for (size_t i = 0; i < some.n; i++)
            all.v[all.n++] = some.v[i];
    }
    assert_int_equal(all.n, n);
    return all;
}

static void poll_none(struct world *w, struct events *ev)
{
    struct event_list some = { 0 };
    struct error e = { 0 };
    assert_ok(events_poll(ev, 10, A_MOMENT_MS, &w->arena, &some, &e), &e);
    assert_int_equal(some.n, 0);
}

static void what_was_published_survives_a_crash_and_a_mark_too(void **state)
{
    struct world *w = *state;
    struct events *publisher = rabbitmq_events(w->prefix), *updater = rabbitmq_events(w->prefix);
    struct event v[] = { some_event(w, 1), some_event(w, 2), some_event(w, 3) };
    struct events_barrier mark;
    struct error e = { 0 };
    bool passed = true;
    assert_ok(events_publish(publisher, v, 3, &e), &e);
    struct event_list got = poll_exactly(w, updater, 2);
    assert_ok(events_ack(updater, &got.v[0].sequence, 1, &e), &e);
    assert_ok(events_barrier(publisher, &mark, &e), &e);
    let_queues_be_written_down();
    rabbitmq_do("kill");
    assert_int_equal(events_publish(publisher, v, 1, &e), ERR_UNAVAILABLE);
    rabbitmq_do("start");
    got = poll_exactly(w, updater, 2);
    assert_int_equal(got.v[0].task.fence, 2);
    assert_int_equal(got.v[1].task.fence, 3);
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    while (events_barrier_passed(publisher, &mark, &passed, &e) && rabbit_now_ms() < end)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    assert_false(passed); /* published again, by the new connection */
    poll_none(w, updater);
    assert_ok(events_ack(updater, &got.v[0].sequence, 1, &e), &e);
    assert_ok(events_ack(updater, &got.v[1].sequence, 1, &e), &e);
    while (!passed && rabbit_now_ms() < end) {
        poll_none(w, updater);
        assert_ok(events_barrier_passed(publisher, &mark, &passed, &e), &e);
    }
    assert_true(passed);
    events_free(updater);
    events_free(publisher);
}

static void what_is_no_event_is_passed_over_and_kept_aside(void **state)
{
    struct world *w = *state;
    struct events *publisher = rabbitmq_events(w->prefix), *updater = rabbitmq_events(w->prefix);
    struct event v[] = { some_event(w, 1), some_event(w, 2) };
    struct error e = { 0 };
    char queue[128], dead[128];
    snprintf(queue, sizeof queue, "%s.events", w->prefix);
    snprintf(dead, sizeof dead, "%s.dead", w->prefix);
    assert_ok(events_publish(publisher, v, 1, &e), &e);
    publish_text(w, queue, "{\"v\":1000}");
    publish_text(w, queue, "");
    assert_ok(events_publish(publisher, v + 1, 1, &e), &e);
    struct event_list got = poll_exactly(w, updater, 2);
    assert_int_equal(got.v[0].task.fence, 1);
    assert_int_equal(got.v[1].task.fence, 2);
    for (int i = 0; i < 2; i++)
        assert_ok(events_ack(updater, &got.v[i].sequence, 1, &e), &e);
    events_free(updater);
    updater = rabbitmq_events(w->prefix);
    poll_none(w, updater); /* it never comes again */
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    while (rabbitmq_messages(dead) != 2 && rabbit_now_ms() < end)
        ;
    assert_int_equal(rabbitmq_messages(dead), 2);
    events_free(updater);
    events_free(publisher);
}

/* Acks out of order: events in the middle stay acknowledged after the updater is gone. */
static void an_ack_in_the_middle_holds(void **state)
{
    struct world *w = *state;
    struct events *publisher = rabbitmq_events(w->prefix), *updater = rabbitmq_events(w->prefix);
    struct event v[] = { some_event(w, 1), some_event(w, 2), some_event(w, 3), some_event(w, 4) };
    struct error e = { 0 };
    assert_ok(events_publish(publisher, v, 4, &e), &e);
    struct event_list got = poll_exactly(w, updater, 4);
    assert_ok(events_ack(updater, &got.v[2].sequence, 1, &e), &e);
    assert_ok(events_ack(updater, &got.v[0].sequence, 1, &e), &e);
    events_free(updater);
    updater = rabbitmq_events(w->prefix);
    got = poll_exactly(w, updater, 2);
    assert_int_equal(got.v[0].task.fence, 2);
    assert_int_equal(got.v[1].task.fence, 4);
    poll_none(w, updater);
    events_free(updater);
    events_free(publisher);
}

static void an_alarm_is_told_and_what_is_there_is_polled(void **state)
{
    struct world *w = *state;
    struct events *publisher = rabbitmq_events(w->prefix), *updater = rabbitmq_events(w->prefix);
    struct event v[] = { some_event(w, 1), some_event(w, 2) };
    struct error e = { 0 };
    assert_ok(events_publish(publisher, v, 1, &e), &e);
    rabbitmq_do("alarm-on");
    int64_t began = rabbit_now_ms();
    while (events_publish(publisher, v + 1, 1, &e) == ERR_OK && rabbit_now_ms() - began < ENOUGH_MS)
        ;
    assert_int_equal(events_publish(publisher, v + 1, 1, &e), ERR_UNAVAILABLE);
    assert_says(&e, "the broker is short of memory or disk");
    struct event_list got = poll_exactly(w, updater, 1);
    assert_ok(events_ack(updater, &got.v[0].sequence, 1, &e), &e);
    rabbitmq_do("alarm-off");
    enum err rc;
    while ((rc = events_publish(publisher, v + 1, 1, &e)) && rabbit_now_ms() - began < 2 * ENOUGH_MS)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    assert_ok(rc, &e);
    events_free(updater);
    events_free(publisher);
}

static const struct CMUnitTest tests[] = {
    amqp_test(what_was_published_survives_a_crash_and_a_mark_too),
    amqp_test(what_is_no_event_is_passed_over_and_kept_aside),
    amqp_test(an_ack_in_the_middle_holds),
    amqp_test(an_alarm_is_told_and_what_is_there_is_polled),
};
const struct test_list event_tests = { tests, array_count(tests) };

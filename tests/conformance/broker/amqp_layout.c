/* The queues at the broker: which worker gets which tasks, and never more than it asked for. */
#include <pthread.h>
#include <time.h>

#include "amqp_world.h"
#include "platform/clock_system.h"

static void nobody_holds_more_than_was_asked_for(void **state)
{
    struct world *w = *state;
    struct task v[10];
    for (int i = 0; i < 10; i++) {
        v[i] = some_task(w);
        v[i].priority = i; /* several queues at the broker */
    }
    push(w, v, 10);
    take_exactly(w, 0, 3);
    take_exactly(w, 0, 1);
    take_exactly(w, 1, 6); /* all the rest: no task is stuck with the other worker, whose connection is open */
}

static void who_waited_in_vain_keeps_nothing_back(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    push(w, v, 1);
    take_exactly(w, 0, 1);
    take_none(w, 0); /* and consumes wakeups since then */
    push(w, v + 1, 2);
    take_exactly(w, 1, 2);
}

static void who_has_no_slot_gives_back_what_did_not_fit(void **state)
{
    struct world *w = *state;
    static char big[20002];
    memset(big, 'x', sizeof big);
    big[0] = big[sizeof big - 1] = '"';
    struct task t = some_task(w);
    t.payload = (struct str){ big, sizeof big };
    push(w, &t, 1);
    cleanup_with(arena_release) struct arena small;
    arena_init(&small, 1000);
    struct take one = take_of(1);
    one.wait_ms = ENOUGH_MS;
    struct taken got = { 0 };
    struct error e = { 0 };
    assert_int_equal(queue_take(w->workers[0], &one, &small, &got, &e), ERR_LIMIT);
    assert_int_equal(take_now(w, 0, take_of(0)).n, 0);
    struct delivery_timeouts back = timed_out_exactly(w, 1);
    assert_false(back.v[0].fired); /* it counts as not run */
    assert_true(uuid_eq(back.v[0].task.id, t.id));
}

struct waiter {
    struct world *w;
    struct arena arena;
    struct tasks got;
    int64_t ms;
};

static void *wait_for_work(void *context)
{
    struct waiter *waiter = context;
    struct take t = take_of(4);
    struct taken ret = { 0 };
    struct error e = { 0 };
    int64_t began = rabbit_now_ms();
    t.wait_ms = ENOUGH_MS;
    assert_ok(queue_take(waiter->w->workers[0], &t, &waiter->arena, &ret, &e), &e);
    waiter->got = ret.tasks;
    waiter->ms = rabbit_now_ms() - began;
    return NULL;
}

/* Its twin acknowledges, renews and pushes at the same time. */
static void who_waits_is_woken_and_holds_up_nobody(void **state)
{
    struct world *w = *state;
    struct task first = some_task(w), second = some_task(w);
    struct waiter waiter = { .w = w };
    arena_init(&waiter.arena, 1 << 20);
    push(w, &first, 1);
    take_exactly(w, 0, 1);
    struct queue *twin = queue_amqp_twin(w->workers[0]);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_work, &waiter);
    nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
    struct error e = { 0 };
    struct take by = take_of(0);
    const struct task *running = &first;
    int64_t began = rabbit_now_ms();
    assert_ok(queue_renew(twin, &running, 1, &by, &e), &e);
    assert_ok(queue_ack(twin, &(struct fenced_id){ first.id, first.fence }, 1, &e), &e);
    assert_true(rabbit_now_ms() - began < 1000);
    push(w, &second, 1);
    pthread_join(thread, NULL);
    assert_int_equal(waiter.got.n, 1);
    assert_true(uuid_eq(waiter.got.v[0].id, second.id));
    assert_true(waiter.ms < ENOUGH_MS / 2);
    queue_free(twin);
    queue_free(w->workers[0]);
    w->workers[0] = NULL;
    struct delivery_timeouts gone = timed_out_exactly(w, 1);
    assert_true(uuid_eq(gone.v[0].task.id, second.id)); /* the twin acknowledged the first */
    arena_release(&waiter.arena);
}

static void a_filter_that_cuts_a_class_is_refused_by_name(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    struct queue_filter f = { .priority_min = 5, .priority_max = PRIORITY_MAX };
    struct take ask = take_of(1);
    struct taken got = { 0 };
    struct error e = { 0 };
    ask.filter = &f;
    ask.wait_ms = ENOUGH_MS;
    assert_int_equal(queue_take(w->workers[0], &ask, &w->arena, &got, &e), ERR_INVALID);
    assert_string_equal(e.field, "worker.priorities");
    assert_int_equal(queue_amqp_can_filter(S("amqp://a"), &f, &e), ERR_INVALID);
    assert_ok(queue_amqp_can_filter(S("amqp://a?priorities=exact"), &f, &e), &e);
    f = (struct queue_filter){ .tenants = &S("acme"), .tenant_count = 1, .priority_max = PRIORITY_MAX };
    assert_ok(queue_amqp_can_filter(S("amqp://a"), &f, &e), &e);
    assert_int_equal(queue_amqp_can_filter(S("amqp://a?tenants=other"), &f, &e), ERR_INVALID);
    assert_string_equal(e.field, "worker.tenants");
}

static void exact_priorities_can_be_filtered(void **state)
{
    struct world *w = *state;
    queue_free(w->queue);
    queue_free(w->workers[0]);
    w->queue = rabbitmq_queue(w->prefix, "&priorities=exact", NULL);
    w->workers[0] = rabbitmq_queue(w->prefix, "&priorities=exact", NULL);
    struct task v[] = { some_task(w), some_task(w) };
    v[1].priority = 6;
    push(w, v, 2);
    struct queue_filter f = { .priority_min = 6, .priority_max = 6 };
    struct take ask = take_of(2);
    ask.filter = &f;
    ask.wait_ms = ENOUGH_MS;
    struct tasks got = take_now(w, 0, ask);
    assert_int_equal(got.n, 1);
    assert_true(uuid_eq(got.v[0].id, v[1].id));
}

static void tenants_that_are_not_named_share_their_queues(void **state)
{
    struct world *w = *state;
    queue_free(w->queue);
    w->queue = rabbitmq_queue(w->prefix, "&tenants=-", NULL);
    struct task v[] = { some_task(w), some_task(w) };
    v[1].tenant = 2;
    push(w, v, 2);
    assert_int_equal(hub_of(w->queue)->pushed.n, 1);
    take_exactly(w, 0, 2);
}

static void what_waits_is_counted(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    v[2].priority = 9;
    push(w, v, 3);
    take_exactly(w, 0, 1);
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    struct queue_state seen = { 0 };
    struct error e = { 0 };
    do
        assert_ok(queue_stats(w->queue, &seen, &e), &e);
    while (seen.waiting != 2 && rabbit_now_ms() < end); /* it has not read all of the catalogue yet */
    assert_int_equal(seen.waiting, 2);
    assert_int_equal(seen.timeout_max_ms, 29 * 60000);
    take_exactly(w, 0, 2);
}

/* If a task is aborted while it waits, the worker that gets it is told. */
static void an_abort_waits_for_what_waits(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 1);
    take_exactly(w, 0, 1); /* from now on it gets control messages */
    push(w, v + 1, 1);
    struct error e = { 0 };
    assert_ok(queue_abort(w->queue, (struct fenced_id){ v[1].id, 1 }, &e), &e);
    struct take t = take_of(1);
    struct taken got = { 0 };
    t.wait_ms = ENOUGH_MS;
    assert_ok(queue_take(w->workers[0], &t, &w->arena, &got, &e), &e);
    assert_int_equal(got.tasks.n, 1);
    assert_int_equal(got.abort_count, 1);
    assert_true(uuid_eq(got.aborts[0].id, v[1].id));
}

static void workers_are_told_the_time_by_who_asks_for_lapses(void **state)
{
    struct world *w = *state;
    struct take t = take_of(0);
    struct taken got = { 0 };
    struct error e = { 0 };
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    assert_ok(queue_take(w->workers[0], &t, &w->arena, &got, &e), &e);
    assert_int_equal(got.queue_us, 0); /* no control node has published the time yet */
    while (got.queue_us == 0 && rabbit_now_ms() < end) {
        timed_out_none(w);
        assert_ok(queue_take(w->workers[0], &t, &w->arena, &got, &e), &e);
    }
    int64_t now_us = clock_wall_us(clock_system());
    assert_in_range(got.queue_us, now_us - 2000000, now_us);
}

static void a_queue_that_somebody_deleted_is_there_again(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 1);
    ack(w, 0, &take_exactly(w, 0, 1).v[0]);
    struct rabbit_link *l = &hub_of(w->queue)->push;
    struct error e = { 0 };
    amqp_queue_delete_t gone = { .queue = rabbit_text(route_name(w)) };
    assert_ok(rabbit_call(l, CHANNEL_CALLS, AMQP_QUEUE_DELETE_METHOD, &gone, &e), &e);
    struct pushed pushed = { .unsure = true };
    assert_int_equal(try_push(w, &v[1], &pushed, &e), ERR_UNAVAILABLE);
    assert_false(pushed.unsure); /* certain: it was routed to no queue */
    push(w, v + 1, 1);
    take_exactly(w, 1, 1);
}

enum { MANY = 5 * GET_CHANNELS };

/* Pushed in rounds, as tasks of several classes, so that many channels answer in any order. */
static struct tasks push_and_take_many(struct world *w, struct task v[MANY])
{
    for (int i = 0; i < MANY; i++) {
        v[i] = some_task(w);
        v[i].priority = i % 2 ? 5 : 9;
    }
    push(w, v, MANY / 2);
    push(w, v + MANY / 2, MANY - MANY / 2);
    return take_exactly(w, 0, MANY);
}

static void many_come_in_the_order_they_were_pushed(void **state)
{
    struct world *w = *state;
    struct task v[MANY];
    struct tasks got = push_and_take_many(w, v);
    for (int i = 0; i < MANY / 2; i++) { /* the high class first */
        assert_true(uuid_eq(got.v[i].id, v[2 * i].id));
        assert_true(uuid_eq(got.v[MANY / 2 + i].id, v[2 * i + 1].id));
    }
}

/* An acknowledgement of several deliveries covers exactly the finished ones, in any pattern. */
static void acks_of_some_hold_for_no_others(void **state)
{
    struct world *w = *state;
    struct task v[MANY];
    struct fenced_id done[MANY];
    struct error e = { 0 };
    size_t n = 0, kept = MANY / 7;
    struct tasks got = push_and_take_many(w, v);
    for (size_t i = 0; i < MANY; i++)
        if (i % 7 != 3 || i / 7 >= kept)
            done[n++] = (struct fenced_id){ got.v[i].id, got.v[i].fence };
    assert_ok(queue_ack(w->workers[0], done + n / 2, n - n / 2, &e), &e); /* the later ones first */
    assert_ok(queue_ack(w->workers[0], done, n / 2, &e), &e);
    queue_free(w->workers[0]);
    w->workers[0] = NULL;
    struct delivery_timeouts gone = timed_out_exactly(w, kept);
    for (size_t i = 0; i < kept; i++)
        for (size_t k = 0; k < n; k++)
            assert_false(uuid_eq(gone.v[i].task.id, done[k].id));
}

static const struct CMUnitTest tests[] = {
    amqp_test(many_come_in_the_order_they_were_pushed),
    amqp_test(acks_of_some_hold_for_no_others),
    amqp_test(nobody_holds_more_than_was_asked_for),
    amqp_test(who_waited_in_vain_keeps_nothing_back),
    amqp_test(who_has_no_slot_gives_back_what_did_not_fit),
    amqp_test(who_waits_is_woken_and_holds_up_nobody),
    amqp_test(a_filter_that_cuts_a_class_is_refused_by_name),
    amqp_test(exact_priorities_can_be_filtered),
    amqp_test(tenants_that_are_not_named_share_their_queues),
    amqp_test(what_waits_is_counted),
    amqp_test(an_abort_waits_for_what_waits),
    amqp_test(workers_are_told_the_time_by_who_asks_for_lapses),
    amqp_test(a_queue_that_somebody_deleted_is_there_again),
};
const struct test_list layout_tests = { tests, array_count(tests) };

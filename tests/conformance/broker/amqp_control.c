/* Requests about tasks (an abort, or that it is wanted back) reach the worker that has the task, or gets it later. */
#include <pthread.h>
#include <time.h>

#include "amqp_world.h"

static struct queue_hub *hub_of_worker(struct world *w)
{
    return hub_of(w->workers[0]);
}

static struct taken take_all(struct world *w, struct take t)
{
    struct taken ret = { 0 };
    struct error e = { 0 };
    assert_ok(queue_take(w->workers[0], &t, &w->arena, &ret, &e), &e);
    return ret;
}

static void ask_abort(struct world *w, const struct task *t)
{
    struct error e = { 0 };
    assert_ok(queue_abort(w->queue, (struct fenced_id){ t->id, t->fence }, &e), &e);
}

/* As if the message had come from the broker. */
static void tell_worker(struct world *w, const char *type, const struct task *t)
{
    struct rabbit_message m = { .channel = CHANNEL_CONSUME };
    char id[UUID_TEXT + 1];
    uuid_format(t->id, id);
    snprintf(m.type, sizeof m.type, "%s", type);
    buf_init(&m.body, 100);
    buf_printf(&m.body, "%s %lld", id, (long long)t->fence);
    hub_lock(hub_of_worker(w));
    control_on_message(hub_of_worker(w), &m);
    hub_unlock(hub_of_worker(w));
    buf_release(&m.body);
}

/* The pause of a large run asks all workers for each of its steps. */
static void however_many_are_wanted_back_an_abort_is_known_when_its_task_comes(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    tell_worker(w, CONTROL_ABORT, &v[0]);
    tell_worker(w, CONTROL_WANT_BACK, &v[0]);
    for (int i = 0; i < TOMBSTONES; i++) {
        struct task other = some_task(w);
        tell_worker(w, CONTROL_WANT_BACK, &other);
    }
    tell_worker(w, CONTROL_WANT_BACK, &v[1]);
    push(w, v, 2);
    struct taken got = { 0 };
    for (size_t tasks = 0; tasks < 2; tasks += got.tasks.n) {
        got = take_all(w, take_of(1));
        assert_int_equal(got.tasks.n, 1);
        bool is_aborted = uuid_eq(got.tasks.v[0].id, v[0].id);
        assert_int_equal(got.abort_count, is_aborted);
        assert_int_equal(got.wanted_count, !is_aborted);
    }
}

/* ---- a take that waits while another thread connects again ---- */

struct waiting_take {
    struct world *world;
    pthread_t thread;
    struct taken got;
};

static void *wait_in_vain(void *context)
{
    struct waiting_take *t = context;
    struct take ask = take_of(1);
    ask.wait_ms = 2000;
    t->got = take_all(t->world, ask);
    return NULL;
}

/* Returns with the lock, which the take released while it waits. */
static void lock_while_it_waits(struct queue_hub *hub)
{
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    for (hub_lock(hub); !hub->waiting && rabbit_now_ms() < end; hub_lock(hub)) {
        hub_unlock(hub);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    assert_true(hub->waiting);
}

static void connect_again(struct queue_hub *hub)
{
    uint64_t before = hub->link.generation;
    struct error e = { 0 };
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    error_set(&e, ERR_UNAVAILABLE, "lost");
    rabbit_drop(&hub->link, &e);
    while (rabbit_connect(&hub->link, &e) && rabbit_now_ms() < end)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    assert_true(hub->link.generation > before);
}

static void a_take_hears_over_the_connection_that_another_thread_has_made(void **state)
{
    struct world *w = *state;
    struct waiting_take t = { .world = w };
    struct task ended = some_task(w);
    take_none(w, 0);
    assert_int_equal(pthread_create(&t.thread, NULL, wait_in_vain, &t), 0);
    lock_while_it_waits(hub_of_worker(w));
    connect_again(hub_of_worker(w));
    hub_unlock(hub_of_worker(w));
    assert_int_equal(pthread_join(t.thread, NULL), 0);
    assert_true(t.got.unheard);
    ask_abort(w, &ended); /* between two takes */
    push(w, &ended, 1);
    struct taken got = take_all(w, take_of(1));
    assert_false(got.unheard);
    assert_int_equal(got.tasks.n, 1);
    assert_int_equal(got.abort_count, 1);
}

static const struct CMUnitTest tests[] = {
    amqp_test(however_many_are_wanted_back_an_abort_is_known_when_its_task_comes),
    amqp_test(a_take_hears_over_the_connection_that_another_thread_has_made),
};
const struct test_list control_tests = { tests, array_count(tests) };

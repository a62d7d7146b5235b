/* I/O requests to ports that block, fail and answer late: requests of a channel run in order, no channel waits for
 * another, and `done` is called on the loop. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "platform/async_io_threads.h"
#include "platform/clock_system.h"

enum { MANY = 2000, PATIENCE_MS = 30000, TAKE_WAIT_MS = 1000 };

/* A queue that the test controls. */
struct fake_queue {
    struct queue base;
    struct world *world;
};

struct world {
    struct loop *loop;
    struct async_io *async_io;
    pthread_t loop_thread;
    sem_t hold, taken; /* if `holding`, a push waits for the first */
    atomic_bool held_audit, push_fails, closed_door;
    atomic_int pushed, opened, freed;
    int done, expected; /* used on the loop only */
    int64_t stop_at_ms;
};

static int64_t steady_ms(void)
{
    return clock_steady_ms(clock_system());
}

static struct world *world_of(struct queue *q)
{
    return container_of(q, struct fake_queue, base)->world;
}

static enum err fake_push(struct queue *q, const struct task *tasks, size_t n, uint64_t epoch, struct pushed *ret,
                          struct error *e)
{
    struct world *w = world_of(q);
    (void)n, (void)epoch;
    if (atomic_load(&w->held_audit))
        while (sem_wait(&w->hold) != 0)
            ;
    *ret = (struct pushed){ .epoch = 1 };
    if (atomic_load(&w->push_fails)) {
        ret->unsure = true;
        return error_set(e, ERR_UNAVAILABLE, "the answer was lost");
    }
    assert_int_equal(tasks[0].fence, atomic_fetch_add(&w->pushed, 1) + 1); /* in the order of submission */
    return ERR_OK;
}

static enum err fake_take(struct queue *q, const struct take *t, struct arena *a, struct taken *ret, struct error *e)
{
    struct world *w = world_of(q);
    struct timespec until;
    (void)a;
    (void)e;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += t->wait_ms % 1000 * 1000000;
    until.tv_sec += t->wait_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (sem_timedwait(&w->taken, &until) != 0 && errno == EINTR)
        ;
    *ret = (struct taken){ .queue_us = 1 };
    return ERR_OK;
}

static size_t fake_depth(struct queue *q)
{
    return (size_t)atomic_load(&world_of(q)->pushed);
}

static void fake_free(struct queue *q)
{
    atomic_fetch_add(&world_of(q)->freed, 1);
    free(container_of(q, struct fake_queue, base));
}

static const struct queue_ops fake_ops = {
    .push = fake_push, .take = fake_take, .depth = fake_depth, .free = fake_free, .push_again = true
};

static enum err open_fake(void *context, enum async_io_channel place, struct async_io_ports *ret, struct error *e)
{
    struct world *w = context;
    atomic_fetch_add(&w->opened, 1);
    if (atomic_load(&w->closed_door))
        return error_set(e, ERR_UNAVAILABLE, "connection refused");
    struct fake_queue *q = xnew(*q);
    q->base.ops = &fake_ops;
    q->world = w;
    if (place == ASYNC_IO_TAKE)
        ret->take = &q->base;
    else
        ret->queue = &q->base;
    return ERR_OK;
}

static int64_t step(void *context, struct moment now)
{
    struct world *w = context;
    if (w->done >= w->expected)
        loop_stop(w->loop);
    if (steady_ms() > w->stop_at_ms)
        fail_msg("%d of %d requests were done", w->done, w->expected);
    return now.wall_ms + 1000;
}

static void world_init(struct world *w)
{
    struct error e;
    *w = (struct world){ .loop_thread = pthread_self(), .stop_at_ms = steady_ms() + PATIENCE_MS };
    sem_init(&w->hold, 0, 0);
    sem_init(&w->taken, 0, 0);
    assert_ok(loop_new(&(struct loop_setup){ .clock = clock_system(), .step = step, .context = w }, &w->loop, &e), &e);
    struct async_io_threads_setup setup = {
        .loop = w->loop,
        .wanted = { [ASYNC_IO_QUEUE] = true, [ASYNC_IO_TAKE] = true },
        .push_again = true,
        .open = open_fake,
        .context = w,
    };
    assert_ok(async_io_threads_new(&setup, &w->async_io, &e), &e);
}

static void world_release(struct world *w)
{
    async_io_threads_free(w->async_io);
    loop_free(w->loop);
    sem_destroy(&w->hold);
    sem_destroy(&w->taken);
}

static void run_until_done(struct world *w, int expected)
{
    w->expected = expected;
    w->stop_at_ms = steady_ms() + PATIENCE_MS;
    if (w->done < expected)
        loop_run(w->loop);
    assert_int_equal(w->done, expected);
}

static void on_done(struct io_request *e)
{
    struct world *w = e->context;
    assert_true(pthread_equal(pthread_self(), w->loop_thread));
    w->done++;
}

struct push {
    struct io_push io_request;
    struct task task;
};

static void push(struct world *w, struct push *p, int number)
{
    *p = (struct push){ .io_request = { .io_request = { .kind = IO_PUSH, .done = on_done, .context = w }, .n = 1 },
                        .task = { .state = TASK_RUNNING, .fence = number } };
    p->io_request.tasks = &p->task;
    async_io_submit(w->async_io, &p->io_request.io_request);
}

static void submit_take(struct world *w, struct io_take *t)
{
    *t = (struct io_take){ .io_request = { .kind = IO_TAKE, .done = on_done, .context = w },
                           .ask = { .max = 1, .wait_ms = TAKE_WAIT_MS, .visibility_ms = 1000 } };
    arena_init(&t->arena, 1 << 16);
    async_io_submit(w->async_io, &t->io_request);
}

static void requests_of_one_place_are_run_in_order_and_told_on_the_loop(void **state)
{
    (void)state;
    struct world w;
    struct push *all = xcalloc(MANY, sizeof *all);
    world_init(&w);
    assert_false(w.async_io->at_once);
    for (int i = 0; i < MANY; i++)
        push(&w, &all[i], i + 1);
    run_until_done(&w, MANY);
    for (int i = 0; i < MANY; i++)
        assert_ok(all[i].io_request.io_request.rc, &all[i].io_request.io_request.error);
    assert_int_equal(atomic_load(&w.opened), 1); /* nothing was taken */
    assert_int_equal(w.async_io->ops->queue_depth(w.async_io), MANY);
    assert_true(w.async_io->push_again);
    world_release(&w);
    assert_int_equal(atomic_load(&w.freed), 1);
    free(all);
}

static void a_place_that_blocks_keeps_no_other_waiting(void **state)
{
    (void)state;
    struct world w;
    struct io_take take;
    struct push p;
    world_init(&w);
    int64_t began_ms = steady_ms();
    submit_take(&w, &take);
    push(&w, &p, 1);
    run_until_done(&w, 1); /* the push is done while the take waits */
    assert_true(steady_ms() - began_ms < TAKE_WAIT_MS);
    assert_int_equal(atomic_load(&w.pushed), 1);
    sem_post(&w.taken);
    run_until_done(&w, 2);
    assert_int_equal(take.ret.queue_us, 1);
    arena_release(&take.arena);
    world_release(&w);
}

static void a_failure_comes_back_as_the_port_said_it(void **state)
{
    (void)state;
    struct world w;
    struct push p;
    world_init(&w);
    atomic_store(&w.push_fails, true);
    push(&w, &p, 1);
    run_until_done(&w, 1);
    assert_int_equal(p.io_request.io_request.rc, ERR_UNAVAILABLE);
    assert_says(&p.io_request.io_request.error, "the answer was lost");
    assert_true(p.io_request.ret.unsure);
    world_release(&w);
}

static void a_port_that_can_not_be_opened_fails_fast_and_is_tried_again(void **state)
{
    (void)state;
    struct world w;
    struct push p[3];
    world_init(&w);
    atomic_store(&w.closed_door, true);
    for (int i = 0; i < 3; i++)
        push(&w, &p[i], i + 1);
    run_until_done(&w, 3);
    assert_int_equal(atomic_load(&w.opened), 1); /* for all three */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(p[i].io_request.io_request.rc, ERR_UNAVAILABLE);
        assert_says(&p[i].io_request.io_request.error, "connection refused");
        assert_false(p[i].io_request.ret.unsure); /* the push was not sent */
    }
    struct async_io_health health;
    async_io_threads_health(w.async_io, ASYNC_IO_QUEUE, &health);
    assert_true(!health.answered && health.down_ms > 0);
    assert_says(&health.why, "connection refused");
    atomic_store(&w.closed_door, false);
    int64_t until_ms = steady_ms() + PATIENCE_MS;
    do {
        push(&w, &p[0], 1);
        run_until_done(&w, w.done + 1);
    } while (p[0].io_request.io_request.rc && steady_ms() < until_ms);
    assert_ok(p[0].io_request.io_request.rc, &p[0].io_request.io_request.error);
    async_io_threads_health(w.async_io, ASYNC_IO_QUEUE, &health);
    assert_true(health.answered && health.down_ms == 0);
    world_release(&w);
}

static void a_blocked_take_holds_up_the_end_for_no_longer_than_it_waits(void **state)
{
    (void)state;
    struct world w;
    struct io_take take[2];
    world_init(&w);
    submit_take(&w, &take[0]);
    submit_take(&w, &take[1]); /* has not started: it is dropped */
    while (atomic_load(&w.opened) == 0)
        sched_yield();
    int64_t began_ms = steady_ms();
    world_release(&w);
    assert_true(steady_ms() - began_ms < 2 * TAKE_WAIT_MS);
    assert_int_equal(w.done, 0); /* no `done` is called any more */
    arena_release(&take[0].arena);
    arena_release(&take[1].arena);
}

static void what_was_done_when_it_ended_is_told_no_more(void **state)
{
    (void)state;
    struct world w;
    struct push p[2];
    world_init(&w);
    push(&w, &p[0], 1);
    while (atomic_load(&w.pushed) == 0)
        sched_yield();
    async_io_threads_free(w.async_io);
    w.async_io = NULL;
    loop_run(w.loop); /* expects no request: one turn */
    assert_int_equal(w.done, 0);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_of_one_place_are_run_in_order_and_told_on_the_loop),
        cmocka_unit_test(a_place_that_blocks_keeps_no_other_waiting),
        cmocka_unit_test(a_failure_comes_back_as_the_port_said_it),
        cmocka_unit_test(a_port_that_can_not_be_opened_fails_fast_and_is_tried_again),
        cmocka_unit_test(a_blocked_take_holds_up_the_end_for_no_longer_than_it_waits),
        cmocka_unit_test(what_was_done_when_it_ended_is_told_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

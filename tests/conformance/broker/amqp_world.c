#include "amqp_world.h"

#include <time.h>
#include <unistd.h>

static int open_with(void **state, const char *more)
{
    static int number;
    struct world *w = xnew(*w);
    snprintf(w->prefix, sizeof w->prefix, "amqp-%d-%lld-%d", (int)getpid(), (long long)rabbit_now_ms(), number++);
    uuid_gen_init(&w->ids, (uint64_t)getpid());
    arena_init(&w->arena, 1 << 26);
    w->queue = rabbitmq_queue(w->prefix, more, NULL);
    for (int i = 0; i < 2; i++)
        w->workers[i] = rabbitmq_queue(w->prefix, more, NULL);
    *state = w;
    return 0;
}

int world_open(void **state)
{
    return open_with(state, "");
}

int world_open_classic(void **state)
{
    return open_with(state, "&queues=classic");
}

int world_close(void **state)
{
    struct world *w = *state;
    queue_free(w->queue);
    for (int i = 0; i < 2; i++)
        queue_free(w->workers[i]);
    arena_release(&w->arena);
    free(w);
    return 0;
}

struct task some_task(struct world *w)
{
    return (struct task){ .id = uuid_next(&w->ids, NOW),
                          .tenant = 1,
                          .state = TASK_RUNNING,
                          .fence = 1,
                          .claim = uuid_next(&w->ids, NOW),
                          .due_ms = NOW,
                          .priority = PRIORITY_DEFAULT,
                          .queue = S("default"),
                          .retry = RETRY_DEFAULT,
                          .target = TARGET_NOOP };
}

enum err try_push(struct world *w, const struct task *t, struct pushed *ret, struct error *e)
{
    return queue_push(w->queue, t, 1, 0, ret, e);
}

void push(struct world *w, const struct task *v, size_t n)
{
    struct error e = { 0 };
    struct pushed pushed;
    assert_ok(queue_push(w->queue, v, n, 0, &pushed, &e), &e);
}

struct take take_of(size_t max)
{
    return (struct take){ .max = max, .now_ms = NOW, .visibility_ms = 1000, .cpu_milli = -1, .memory_mb = -1 };
}

struct tasks take_now(struct world *w, int worker, struct take t)
{
    struct taken ret = { 0 };
    struct error e = { 0 };
    assert_ok(queue_take(w->workers[worker], &t, &w->arena, &ret, &e), &e);
    return ret.tasks;
}

/* Takes return nothing while the broker restarts; that is no failure. */
struct tasks take_exactly(struct world *w, int worker, size_t n)
{
    struct tasks all = { arena_array(&w->arena, struct task, n + 1), 0 };
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    while (all.n < n && rabbit_now_ms() < end) {
        struct take t = take_of(n - all.n);
        struct taken some = { 0 };
        struct error e = { 0 };
        t.wait_ms = 100;
        if (queue_take(w->workers[worker], &t, &w->arena, &some, &e))
            nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        for (size_t i = 0; i < some.tasks.n; i++)
            all.v[all.n++] = some.tasks.v[i];
    }
    assert_int_equal(all.n, n);
    return all;
}

void take_none(struct world *w, int worker)
{
    struct take t = take_of(10);
    t.wait_ms = A_MOMENT_MS;
    assert_int_equal(take_now(w, worker, t).n, 0);
}

void ack(struct world *w, int worker, const struct task *t)
{
    struct error e = { 0 };
    assert_ok(queue_ack(w->workers[worker], &(struct fenced_id){ t->id, t->fence }, 1, &e), &e);
}

struct delivery_timeouts timed_out_exactly(struct world *w, size_t n)
{
    struct delivery_timeouts all = { arena_array(&w->arena, struct timed_out_delivery, n + 1), 0 };
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    while (all.n < n && rabbit_now_ms() < end) {
        struct delivery_timeouts some = { 0 };
        struct error e = { 0 };
        if (queue_timed_out(w->queue, NOW, &w->arena, &some, &e) || some.n == 0)
            nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        for (size_t i = 0; i < some.n; i++) {
            assert_true(all.n < n);
            all.v[all.n++] = some.v[i];
            struct fenced_id id = { some.v[i].task.id, some.v[i].task.fence };
            assert_ok(queue_ack(w->queue, &id, 1, &e), &e);
        }
    }
    assert_int_equal(all.n, n);
    timed_out_none(w);
    return all;
}

void timed_out_none(struct world *w)
{
    struct delivery_timeouts none = { 0 };
    struct error e = { 0 };
    assert_ok(queue_timed_out(w->queue, NOW, &w->arena, &none, &e), &e);
    assert_int_equal(none.n, 0);
}

uint64_t epoch_of(struct queue *q)
{
    struct queue_state state = { 0 };
    struct error e = { 0 };
    int64_t end = rabbit_now_ms() + ENOUGH_MS;
    while (queue_stats(q, &state, &e) && rabbit_now_ms() < end)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    assert_true(state.epoch != 0);
    return state.epoch;
}

void let_queues_be_written_down(void)
{
    nanosleep(&(struct timespec){ .tv_sec = 2 }, NULL);
}

const char *route_name(struct world *w)
{
    assert_true(hub_of(w->queue)->pushed.n > 0);
    return hub_of(w->queue)->pushed.v[0]->name;
}

void publish_text(struct world *w, const char *queue, const char *text)
{
    struct queue_hub *hub = hub_of(w->queue);
    struct error e = { 0 };
    assert_ok(rabbit_connect_to_publish(&hub->push, &e), &e);
    rabbit_publish_begin(&hub->push);
    struct rabbit_envelope letter = { .key = str_from(queue), .body = str_from(text), .mandatory = true };
    assert_ok(rabbit_publish(&hub->push, &letter, &e), &e);
    assert_ok(rabbit_publish_end(&hub->push, &e), &e);
}

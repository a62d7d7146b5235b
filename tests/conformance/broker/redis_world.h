#pragma once
/* tests/conformance/broker/redis_world.h - the fixture of a queue on a server of its own, which the test may stop
 * and wipe. */
#include "redis_fixture.h"
#include "redis_servers.h"

#define NOW INT64_C(1770710400000)
enum { VISIBILITY_MS = 400, ENOUGH_MS = 20000 };

struct world {
    struct redis_process server;
    char url[SERVER_URL];
    struct queue *control;
    struct queue *workers[8];
    struct uuid ids[8];
    struct arena arena;
    struct uuid_gen gen;
};

static inline int world_open_with(void **state, const char *const *more)
{
    struct world *w = xnew(*w);
    server_open(&w->server, more);
    server_url(&w->server, "one", w->url);
    arena_init(&w->arena, 1 << 26);
    uuid_gen_init(&w->gen, (uint64_t)getpid());
    w->control = redis_queue(w->url, NULL);
    for (size_t i = 0; i < array_count(w->workers); i++) {
        w->workers[i] = redis_queue(w->url, NULL);
        w->ids[i] = uuid_next(&w->gen, NOW);
    }
    *state = w;
    return 0;
}

static inline int world_open(void **state)
{
    return world_open_with(state, NULL);
}

static inline int world_open_kept(void **state)
{
    return world_open_with(state, (const char *const[]){ "--appendonly", "yes", NULL });
}

static inline int world_close(void **state)
{
    struct world *w = *state;
    queue_free(w->control);
    for (size_t i = 0; i < array_count(w->workers); i++)
        queue_free(w->workers[i]);
    arena_release(&w->arena);
    server_close(&w->server);
    free(w);
    return 0;
}

static inline struct task some_task(struct world *w)
{
    return (struct task){ .id = uuid_next(&w->gen, NOW),
                          .tenant = 1,
                          .state = TASK_RUNNING,
                          .fence = 1,
                          .claim = uuid_next(&w->gen, NOW),
                          .due_ms = NOW,
                          .priority = PRIORITY_DEFAULT,
                          .queue = S("default"),
                          .name = S("report"),
                          .retry = RETRY_DEFAULT,
                          .target = TARGET_NOOP };
}

static inline struct fenced_id id_of(const struct task *t)
{
    return (struct fenced_id){ t->id, t->fence };
}

static inline void push(struct world *w, const struct task *v, size_t n)
{
    struct error e = { 0 };
    struct pushed pushed;
    assert_ok(queue_push(w->control, v, n, 0, &pushed, &e), &e);
}

static inline struct take take_of(struct world *w, int worker, size_t max, int64_t wait_ms)
{
    return (struct take){ .max = max,
                          .wait_ms = wait_ms,
                          .visibility_ms = VISIBILITY_MS,
                          .worker = w->ids[worker],
                          .cpu_milli = -1,
                          .memory_mb = -1 };
}

static inline struct taken take_some(struct world *w, int worker, size_t max, int64_t wait_ms)
{
    struct take t = take_of(w, worker, max, wait_ms);
    struct taken got = { 0 };
    struct error e = { 0 };
    assert_ok(queue_take(w->workers[worker], &t, &w->arena, &got, &e), &e);
    return got;
}

static inline void ack(struct world *w, int worker, const struct task *t)
{
    struct fenced_id d = id_of(t);
    struct error e = { 0 };
    assert_ok(queue_ack(worker < 0 ? w->control : w->workers[worker], &d, 1, &e), &e);
}

/* Repeats the call until the server is back: calls fail for a while. */
static inline void renew_at_last(struct world *w, int worker, const struct task *t)
{
    struct take by = take_of(w, worker, 0, 0);
    struct error e = { 0 };
    enum err rc = ERR_UNAVAILABLE;
    for (int64_t end = steady_ms() + ENOUGH_MS; rc == ERR_UNAVAILABLE && steady_ms() < end; nap_ms(20))
        rc = queue_renew(w->workers[worker], &t, 1, &by, &e);
    assert_ok(rc, &e);
}

static inline struct queue_state look_at_last(struct world *w)
{
    struct queue_state s = { 0 };
    struct error e = { 0 };
    enum err rc = ERR_UNAVAILABLE;
    for (int64_t end = steady_ms() + ENOUGH_MS; rc == ERR_UNAVAILABLE && steady_ms() < end; nap_ms(20))
        rc = queue_stats(w->control, &s, &e);
    assert_ok(rc, &e);
    return s;
}

static inline bool is_known(struct world *w, const struct task *t)
{
    struct fenced_id d = id_of(t);
    struct error e = { 0 };
    bool known = false;
    assert_ok(queue_known(w->control, &d, NULL, 1, &known, &e), &e);
    return known;
}

/* The next delivery timeout. */
static inline struct timed_out_delivery timed_out_at_last(struct world *w)
{
    struct delivery_timeouts l = { 0 };
    struct error e = { 0 };
    for (int64_t end = steady_ms() + ENOUGH_MS; l.n == 0 && steady_ms() < end; nap_ms(10))
        assert_ok(queue_timed_out(w->control, 0, &w->arena, &l, &e), &e);
    assert_int_equal(l.n, 1);
    return l.v[0];
}

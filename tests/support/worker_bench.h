#pragma once
/* tests/support/worker_bench.h - a worker in a process of its own, over an async_io whose requests take their time. Its
 * runners start what they are given and end it when the test says so. HTTP calls have a limit for each host. */
#include <stdio.h>
#include <stdlib.h>

#include "both_at.h"
#include "manual_async_io.h"
#include "node/worker/worker.h"

#define NOW 1772532000000LL

enum { VISIBILITY_MS = 4000, RUNS_MAX = 64, HOST_CALLS = 4 };

struct bench {
    struct manual_async_io async_io;
    struct clock clock;
    struct metrics *metrics;
    struct runner runner, http;
    struct run *runs[RUNS_MAX];
    size_t run_count;
    struct worker *worker;
    struct recent_fences *fences;
    int64_t now_ms, queue_us;
    bool full;
    bool holds_runs; /* its runners have not begun what they were given */
};

static struct bench *the_bench;

static inline void start_run(struct runner *r, struct run *run)
{
    (void)r;
    the_bench->runs[the_bench->run_count++] = run;
}

static inline void end_run(struct bench *b, size_t i, enum outcome_kind kind)
{
    struct run *run = b->runs[i];
    struct outcome o = { .kind = kind, .retry_after_ms = -1, .started_us = !b->holds_runs, .completed_us = 2 };
    b->runs[i] = b->runs[--b->run_count];
    run->done(run, &o);
}

static inline void abort_run(struct runner *r, struct run *run)
{
    (void)r;
    for (size_t i = 0; i < the_bench->run_count; i++)
        if (the_bench->runs[i] == run)
            end_run(the_bench, i, OUTCOME_CANCELLED);
}

static inline bool may_take(void *context)
{
    return !((struct bench *)context)->full;
}

static inline void queue_time(void *context, int64_t queue_us)
{
    ((struct bench *)context)->queue_us = queue_us;
}

static inline void describe(void *context, struct jw *w)
{
    (void)context;
    jw_kv_cstr(w, "zone", "north");
}

static inline void step(struct bench *b, int64_t ms)
{
    b->now_ms += ms;
    b->async_io.now_ms = b->now_ms;
    worker_step(b->worker, both_at(b->now_ms), 0);
}

static inline int64_t bench_steady_ns(struct clock *c)
{
    return container_of(c, struct bench, clock)->now_ms * 1000000;
}

static inline struct bench *bench_open(size_t slots, const struct queue_filter *filter)
{
    static const struct runner_ops ops = { start_run, abort_run, NULL };
    static const struct clock_ops clock = { .steady_ns = bench_steady_ns };
    struct bench *b = the_bench = xnew(*b);
    manual_async_io_init(&b->async_io);
    b->now_ms = b->async_io.now_ms = NOW;
    b->clock.ops = &clock;
    b->metrics = metrics_new();
    b->runner.ops = &ops;
    b->fences = recent_fences_new();
    b->http = (struct runner){ &ops, .host_calls_max = HOST_CALLS };
    struct worker_setup setup = { .async_io = &b->async_io.base,
                                  .clock = &b->clock,
                                  .metrics = b->metrics,
                                  .fences = b->fences,
                                  .id = { { 7 } },
                                  .name = S("host:1"),
                                  .version = S("9"),
                                  .slots = slots,
                                  .visibility_ms = VISIBILITY_MS,
                                  .filter = filter,
                                  .cpu_milli = 1000,
                                  .fleet = true,
                                  .describe = describe,
                                  .may_take = may_take,
                                  .queue_time = queue_time,
                                  .context = b };
    setup.runners[TARGET_NOOP] = &b->runner;
    setup.runners[TARGET_HTTP] = &b->http;
    b->worker = worker_new(&setup);
    return b;
}

/* Until nothing is in flight except a take that finds nothing. */
static inline void come_to_rest(struct bench *b)
{
    for (int i = 0; i < 50; i++) {
        step(b, 0);
        bool some = carry_all(&b->async_io);
        struct io_request *e = find_io_request(&b->async_io, IO_TAKE);
        if (e && (!container_of(e, struct io_take, io_request)->ask.max || queue_depth(b->async_io.queue)))
            carry(&b->async_io, IO_TAKE);
        else if (!some)
            return;
    }
}

static inline int bench_close(void **state)
{
    struct bench *b = *state;
    worker_stop_taking(b->worker);
    worker_give_up(b->worker);
    for (int i = 0; i < 50 && !worker_is_idle(b->worker); i++) {
        step(b, 250);
        if (find_io_request(&b->async_io, IO_TAKE))
            carry(&b->async_io, IO_TAKE);
        carry_all(&b->async_io);
    }
    assert_true(worker_is_idle(b->worker));
    worker_free(b->worker);
    recent_fences_free(b->fences);
    manual_async_io_release(&b->async_io);
    metrics_free(b->metrics);
    free(b);
    return 0;
}

static inline struct task some_task(int n)
{
    return (struct task){ .id = { { (uint8_t)n, 1 } },
                          .tenant = 1,
                          .state = TASK_RUNNING,
                          .fence = 1,
                          .due_ms = NOW,
                          .scheduled_ms = NOW,
                          .priority = PRIORITY_DEFAULT,
                          .queue = S("default"),
                          .timeout_ms = 1000,
                          .target = TARGET_NOOP,
                          .retry = RETRY_DEFAULT };
}

static inline struct task push_task(struct bench *b, struct task t)
{
    struct error e;
    struct pushed came;
    assert_ok(queue_push(b->async_io.queue, &t, 1, 0, &came, &e), &e);
    return t;
}

static inline struct task pushed(struct bench *b, int n)
{
    return push_task(b, some_task(n));
}

static inline size_t published(struct bench *b, enum event_kind kind, struct event *ret_last)
{
    static struct arena a;
    struct event_list list = { 0 };
    struct error e;
    size_t n = 0;
    arena_release(&a);
    arena_init(&a, 1 << 20);
    assert_ok(events_poll(b->async_io.events, 100, 0, &a, &list, &e), &e);
    for (size_t i = 0; i < list.n; i++) {
        if (list.v[i].kind != kind)
            continue;
        *ret_last = list.v[i];
        n++;
    }
    return n;
}

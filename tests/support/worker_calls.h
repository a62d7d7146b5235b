#pragma once
/* worker_calls.h - tasks of a worker (worker_bench.h) that call a host, and what became of them. */
#include "worker_bench.h"

static inline struct task call_to(int n, const char *url)
{
    static char texts[256][96];
    struct task t = some_task(n);
    snprintf(texts[n], sizeof texts[n], "{\"url\": \"%s\"}", url);
    t.target = TARGET_HTTP;
    t.target_config = str_from(texts[n]);
    return t;
}

static inline struct task push_call(struct bench *b, int n)
{
    return push_task(b, call_to(n, "https://a.example/x"));
}

/* Numbers from..to. */
static inline void push_calls(struct bench *b, int from, int to)
{
    for (int n = from; n <= to; n++)
        push_call(b, n);
    come_to_rest(b);
}

static inline bool is_running(struct bench *b, int n)
{
    for (size_t i = 0; i < b->run_count; i++)
        if (b->runs[i]->task->id.b[0] == n)
            return true;
    return false;
}

static inline void end_call(struct bench *b, int n, enum outcome_kind kind)
{
    for (size_t i = 0; i < b->run_count; i++)
        if (b->runs[i]->task->id.b[0] == n) {
            end_run(b, i, kind);
            return;
        }
    fail_msg("call %d does not run", n);
}

static inline void assert_waiting(struct bench *b, size_t running, size_t parked)
{
    assert_int_equal(b->run_count, running);
    assert_int_equal(worker_running(b->worker), running);
    assert_int_equal(worker_parked(b->worker), parked);
}

static inline const struct take *asked(struct bench *b)
{
    step(b, 0);
    struct io_request *e = find_io_request(&b->async_io, IO_TAKE);
    assert_non_null(e);
    return &container_of(e, struct io_take, io_request)->ask;
}

/* The only outcome that was published since the last look. */
static inline struct event the_outcome(struct bench *b)
{
    struct event e = { 0 };
    come_to_rest(b);
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 1);
    return e;
}

static inline void assert_no_outcome(struct bench *b)
{
    struct event e;
    come_to_rest(b);
    assert_int_equal(published(b, EVENT_OUTCOME, &e), 0);
}

static inline void assert_put_aside(struct bench *b, int n, const char *host)
{
    struct event e = the_outcome(b);
    char text[128];
    snprintf(text, sizeof text, "waits: %d calls to %s are under way", HOST_CALLS, host);
    assert_int_equal(e.task.id.b[0], n);
    assert_int_equal(e.outcome.kind, OUTCOME_HELD);
    assert_true(e.outcome.retry_after_ms == 0 && e.outcome.started_us == 0);
    assert_str(e.outcome.aside, host);
    assert_int_equal(e.outcome.late_by, LATE_HOST);
    assert_str(e.outcome.error, text);
}

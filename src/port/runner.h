#pragma once
/* port/runner.h - runs the target of a task. All calls are on the loop's thread.
 *
 *  - runner_start begins one attempt. Exactly one call of run->done follows, on the same loop, possibly before
 *    runner_start returns, with the outcome (borrowed for that call).
 *  - runner_abort ends an attempt that was started and is not done: done is called with OUTCOME_CANCELLED, possibly at
 *    once. If the outcome was known already, that outcome is reported instead. If the call still waited in the runner,
 *    started_us is 0: it never began, and leaves no execution.
 *  - A runner never reports OUTCOME_LOST or OUTCOME_RETURNED, and keeps to task->timeout_ms. OUTCOME_HELD with a
 *    positive retry_after_ms: nothing was tried, because the task's tenant has all connections that it may have, or
 *    because this process lacks the key of a secret (lacks_key), or may open no more connections (lacks_file).
 *  - outcome.sent is true unless it is certain that no byte reached the target.
 *  - A run beyond host_calls_max waits in the runner, for as long as it takes. A caller that has better use for its
 *    slots counts its runs by host and keeps to the limit. */
#include "core/task/settle.h"
#include "core/task/trace.h"

struct run {
    const struct task *task; /* borrowed until done */
    struct str worker;       /* name of the worker, for the execution */
    void (*done)(struct run *run, const struct outcome *o);
    void *context;
    void *handle; /* the runner's */
    /* Whether spans of its trace are recorded, if that is decided; else the task's caller has decided. */
    bool is_decided, is_sampled;
};

/* The trace of the call, whose span is trace_span(…, TRACE_CALL). Texts are borrowed from the task. */
struct trace run_trace(const struct run *run);

struct runner {
    const struct runner_ops *ops;
    /* Calls to one host at once, of all tenants together, by target_host_name (core/target/target_url.h). 0: no
     * limit. */
    size_t host_calls_max;
};

struct runner_ops {
    void (*start)(struct runner *, struct run *);
    void (*abort)(struct runner *, struct run *);
    void (*free)(struct runner *); /* nothing is running */
};

void runner_start(struct runner *r, struct run *run);
void runner_abort(struct runner *r, struct run *run);
void runner_free(struct runner *r);

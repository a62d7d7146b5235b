#pragma once
/* port/runner.h - does what a task's target says.
 *
 *  - runner_start begins one attempt; exactly one call of run->done follows, on the same loop, perhaps before runner_start
 *    returns, with the outcome (borrowed for that call);
 *  - runner_abort ends one that was started and not done: done is called with OUTCOME_CANCELLED, perhaps at once. If the
 *    outcome was known already, that one is reported instead;
 *  - a runner never reports OUTCOME_LOST or OUTCOME_RETURNED, and keeps to task->timeout_ms;
 *  - outcome.sent is true unless it is certain that no byte reached the target. */
#include "core/task/settle.h"

struct run {
    const struct task *task; /* borrowed until done */
    struct str worker;       /* who runs it, for the record */
    void (*done)(struct run *run, const struct outcome *o);
    void *context;
    void *handle; /* the runner's */
};

struct runner {
    const struct runner_ops *ops;
};

struct runner_ops {
    void (*start)(struct runner *, struct run *);
    void (*abort)(struct runner *, struct run *);
    void (*free)(struct runner *); /* nothing is running */
};

void runner_start(struct runner *r, struct run *run);
void runner_abort(struct runner *r, struct run *run);
void runner_free(struct runner *r);

#include "port/runner.h"

#include <assert.h>

void runner_start(struct runner *r, struct run *run)
{
    assert(run->done && run->task->state == TASK_RUNNING);
    r->ops->start(r, run);
}

void runner_abort(struct runner *r, struct run *run)
{
    r->ops->abort(r, run);
}

void runner_free(struct runner *r)
{
    if (r)
        r->ops->free(r);
}

struct trace run_trace(const struct run *run)
{
    struct trace trace = trace_of(run->task);
    if (run->is_decided)
        trace.sampled = run->is_sampled;
    return trace;
}

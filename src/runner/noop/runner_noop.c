#include "runner/noop/runner_noop.h"

#include <stdlib.h>

struct runner_noop {
    struct runner base;
    struct clock *clock;
};

static void runner_noop_start(struct runner *r, struct run *run)
{
    int64_t now_us = clock_wall_us(container_of(r, struct runner_noop, base)->clock);
    run->done(run, &(struct outcome){
                       .kind = OUTCOME_OK,
                       .sent = true,
                       .retry_after_ms = -1,
                       .started_us = now_us,
                       .completed_us = now_us,
                       .worker = run->worker,
                   });
}

static void runner_noop_abort(struct runner *r, struct run *run)
{
    (void)r; /* the run has ended before it can be aborted */
    (void)run;
}

static void runner_noop_free(struct runner *r)
{
    free(container_of(r, struct runner_noop, base));
}

static const struct runner_ops runner_noop_ops = { runner_noop_start, runner_noop_abort, runner_noop_free };

struct runner *runner_noop_new(struct clock *clock)
{
    struct runner_noop *r = xnew(*r);
    r->base.ops = &runner_noop_ops;
    r->clock = clock;
    return &r->base;
}

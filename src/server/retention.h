#pragma once
/* server/retention.h - forgets what its time is up for, in the background of a server.
 *
 * In small batches, and after each it leaves the writer alone for as long as the batch took: whoever settles a task waits for one small
 * batch at most, and upkeep has half of the writer's time at most, however much there is to forget. */
#include <uv.h>

#include "base/metrics.h"
#include "port/clock.h"
#include "port/store.h"

/* How long each kind stays. */
struct retention {
    int64_t tasks_ms, dlq_ms, executions_ms, idempotency_ms, jobs_ms;
    int64_t interval_ms; /* how often it is looked */
};

struct upkeep_setup {
    uv_loop_t *loop;
    struct writer *writer; /* completes on the loop */
    struct clock *clock;
    struct metrics *metrics;
    struct retention retention;
    bool (*is_ours)(void *context); /* among several nodes one does it; NULL: this one */
    void *context;
};

struct upkeep {
    struct upkeep_setup setup;
    uv_timer_t timer;
    struct op_forget forget;
    int64_t begun_ns;
    bool busy; /* an operation is on its way: the loop must not end yet */
    bool stopped;
};

/* The first look is an interval from now. Everything is borrowed and must outlive it. */
void upkeep_start(struct upkeep *u, const struct upkeep_setup *setup);
void upkeep_stop(struct upkeep *u); /* nothing new is begun */
void upkeep_close(struct upkeep *u);

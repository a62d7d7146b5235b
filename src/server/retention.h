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

struct retention_setup {
    uv_loop_t *loop;
    struct writer *writer; /* completes on the loop */
    struct clock *clock;
    struct metrics *metrics;
    struct retention retention;
    bool (*is_ours)(void *context); /* among several nodes one does it; NULL: this one */
    void *context;
};

struct retention_task {
    struct retention_setup setup;
    uv_timer_t timer;
    struct op_purge forget;
    int64_t begun_ns;
    bool busy; /* an operation is on its way: the loop must not end yet */
    bool stopped;
};

/* The first look is an interval from now. Everything is borrowed and must outlive it. */
void retention_start(struct retention_task *u, const struct retention_setup *setup);
void retention_stop(struct retention_task *u); /* nothing new is begun */
void retention_close(struct retention_task *u);

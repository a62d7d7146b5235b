#pragma once
/* server/retention.h - purges rows whose retention is over, in the background of a server.
 *
 * It purges in small batches, and pauses after each for as long as the batch took. So other operations wait for one
 * small batch at most, and purging takes at most half of the writer's time, however many rows there are to purge.
 *
 * All functions and callbacks run on the loop thread. */
#include <uv.h>

#include "base/metrics.h"
#include "port/clock.h"
#include "port/store.h"

/* How long rows of each kind are kept. */
struct retention {
    int64_t tasks_ms, dlq_ms, executions_ms, idempotency_ms, jobs_ms, audit_ms;
    int64_t interval_ms; /* how often a purge starts */
};

struct retention_setup {
    uv_loop_t *loop;
    struct writer *writer; /* completes on the loop */
    struct clock *clock;
    struct metrics *metrics;
    struct retention retention;
    bool (*is_leader)(void *context); /* of several nodes, only the leader purges; NULL: this node does */
    void *context;
};

struct retention_task {
    struct retention_setup setup;
    uv_timer_t timer;
    struct op_purge purge;
    int64_t begun_ns;
    bool busy; /* an operation is under way: the loop must not end yet */
    bool stopped;
};

/* Starts the first purge after one interval. The pointers in setup are borrowed and must outlive the task. */
void retention_start(struct retention_task *u, const struct retention_setup *setup);
void retention_stop(struct retention_task *u);  /* starts no further purge */
void retention_close(struct retention_task *u); /* closes the timer; the loop must run once more */

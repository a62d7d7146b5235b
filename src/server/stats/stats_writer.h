#pragma once
/* server/stats/stats_writer.h - writes the figures of each minute to the store (port/store/stats.h).
 *
 * At the end of each minute it takes what this process has counted and writes it in one operation: a row for each
 * tenant, and one of all tenants together, which also has the figures of the node. If nothing happened, it writes
 * nothing; requests of such a minute count in the next row. If the store does not answer, the same rows are written
 * again later. A process that is killed loses its minute.
 *
 * All functions and callbacks run on the loop thread. */
#include <uv.h>

#include "base/metrics.h"
#include "port/clock.h"
#include "port/store.h"

struct stats_writer_setup {
    uv_loop_t *loop;
    struct writer *writer; /* completes on the loop */
    struct clock *clock;
    struct metrics *metrics;
    struct uuid (*node)(void *context); /* nil: it has not joined yet */
    /* Adds the figures that are as of now: those of all tenants, and those of tenants to the counters. */
    void (*measure)(void *context, struct stats *all, struct stats_counters *tenants);
    void *context;
};

struct stats_writer {
    struct stats_writer_setup setup;
    uv_timer_t timer;
    struct op_stats op;
    struct stats_row *rows; /* of op; NULL: nothing is to be written */
    struct stats seen;      /* the node's counters as of the last row */
    int64_t written;
    bool busy; /* an operation is under way: the loop must not end yet */
    bool failed;
    bool stopped, tried_last, finished;
};

/* The pointers in setup are borrowed and must outlive the writer. */
void stats_writer_start(struct stats_writer *w, const struct stats_writer_setup *setup);

/* The process ends: writes the last minute as far as it has come. False: call again once the loop has run. */
bool stats_writer_finish(struct stats_writer *w);
void stats_writer_close(struct stats_writer *w); /* closes the timer; the loop must run once more */

#pragma once
/* node/updater/settle_retry.h - settles claims that ended without an outcome: what lapsed, what a queue has forgotten. One batch at a time, again and
 * again until the store has taken it: a fence is used up once. */
#include "base/metrics.h"
#include "core/time/moment.h"
#include "node/updater/lost_verdict.h"

struct settle_retry_setup {
    struct writer *writer;
    struct metrics *metrics;
    void (*settled)(void *context, const struct event *e, const struct settlement *s); /* after the commit, each */
    void (*unblocked)(void *context, uint64_t unblocked);
    void (*done)(void *context); /* after the last of a batch */
    void *context;
};

struct ends {
    struct settle_retry_setup setup;
    struct op_settle op;
    const struct event *events;
    bool in_flight, waits; /* with the writer; to be sent again */
    struct moment now;
    int64_t retry_at_ms; /* steady */
};

/* Both are borrowed until done. Nothing is under way. */
void settle_retry_submit(struct ends *e, const struct event *events, struct settlement *v, size_t n, struct moment now);
int64_t settle_retry_step(struct ends *e, struct moment now); /* when to call again */
void settle_retry_give_up(struct ends *e);                    /* what waits is left to others */
bool settle_retry_is_idle(const struct ends *e);

#pragma once
/* node/fleet/delivery_timeout.h - asks the queue of a fleet which deliveries have lapsed, because whoever had them went silent, and settles them
 * (node/updater/lost_verdict.h). Each is acknowledged after its transaction: should we die before that, the queue reports it to another.
 *
 * A worker publishes an outcome before it acknowledges the delivery, so one that lapsed may have ended: nothing is settled before the updaters
 * have applied all that was published up to a moment after the queue's answer. */
#include "node/updater/settle_retry.h"
#include "port/async_io.h"

enum { LAPSES_ASK_MS = 500 };

struct lapses_setup {
    struct writer *writer;
    struct courier *courier;
    struct metrics *metrics;
    uint64_t seed;
    void (*settled)(void *context, const struct event *e, const struct settlement *s);
    void (*batch_settled)(void *context);
    void (*woke)(void *context, uint64_t woke);
    void *context;
};

struct lapse_watch;

struct lapse_watch *lapses_new(const struct lapses_setup *setup);
void lapses_free(struct lapse_watch *l); /* idle; NULL is fine */
int64_t lapses_step(struct lapse_watch *l, int64_t now_ms,
                    int64_t behind_ms);  /* when to call again; behind_ms: as updater_step's */
void lapses_stop(struct lapse_watch *l); /* ask no more */
bool lapses_is_idle(const struct lapse_watch *l);

#pragma once
/* node/fleet/delivery_timeout.h - asks the queue of a fleet which deliveries have lapsed, because whoever had them went silent, and settles them
 * (node/updater/lost_verdict.h). Each is acknowledged after its transaction: should we die before that, the queue reports it to another.
 *
 * A worker publishes an outcome before it acknowledges the delivery, so one that lapsed may have ended: nothing is settled before the updaters
 * have applied all that was published up to a moment after the queue's answer. */
#include "node/updater/settle_retry.h"
#include "port/async_io.h"

enum { DELIVERY_TIMEOUT_ASK_MS = 500 };

struct delivery_timeout_setup {
    struct writer *writer;
    struct async_io *async_io;
    struct metrics *metrics;
    uint64_t seed;
    void (*settled)(void *context, const struct event *e, const struct settlement *s);
    void (*batch_settled)(void *context);
    void (*unblocked)(void *context, uint64_t unblocked);
    void *context;
};

struct lapse_watch;

struct lapse_watch *delivery_timeout_new(const struct delivery_timeout_setup *setup);
void delivery_timeout_free(struct lapse_watch *l); /* idle; NULL is fine */
int64_t delivery_timeout_step(struct lapse_watch *l, struct moment now,
                              int64_t behind_ms);  /* when to call again; behind_ms: as updater_step's */
void delivery_timeout_stop(struct lapse_watch *l); /* ask no more */
bool delivery_timeout_is_idle(const struct lapse_watch *l);

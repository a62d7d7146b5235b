#pragma once
/* node/updater/updater.h - turns outcomes into what is kept: polls events, settles them, writes many as one operation.
 *
 * An event is acknowledged after its transaction. Applying one twice changes nothing: its fence was used up. What workers of a fleet say
 * of themselves is kept too (OP_WORKER_REPORT). */
#include "base/metrics.h"
#include "core/time/moment.h"
#include "port/async_io.h"
#include "port/store.h"

struct updater_setup {
    struct async_io *async_io; /* poll, and the ack of events */
    struct writer *writer;
    struct metrics *metrics;
    uint64_t seed;
    void (*settled)(void *context, const struct event *e, const struct settlement *s); /* after the commit, each */
    void (*batch_settled)(void *context); /* after the last of a batch; NULL: nobody wants to know */
    void (*unblocked)(void *context,
                      uint64_t unblocked); /* lanes of those who waited for a slot and go on: ret_unblocked_lanes */
    void *context;
};

struct updater;

struct updater *updater_new(const struct updater_setup *setup);
void updater_free(struct updater *u); /* nothing is in flight */

/* behind_ms: by how much now_ms may be behind the time that others go by. What waits for its next attempt waits that much longer, so
 * that nobody begins it too early. */
int64_t updater_step(struct updater *u, struct moment now, int64_t behind_ms);
void updater_stop(struct updater *u); /* poll no more: for one who shares its events with others */
bool updater_is_idle(const struct updater *u);

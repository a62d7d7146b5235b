#pragma once
/* node/updater/updater.h - polls events and settles their outcomes in the store, many in one operation.
 *
 * A state machine on the loop's thread. An event is acknowledged after its transaction. Applying an event twice
 * changes nothing: its fence was used up. Reports of workers of a fleet are stored, too (OP_WORKER_REPORT). */
#include "base/metrics.h"
#include "core/time/moment.h"
#include "port/async_io.h"
#include "port/store.h"

struct updater_setup {
    struct async_io *async_io; /* poll and acknowledge events */
    struct writer *writer;
    struct metrics *metrics;
    uint64_t seed;
    void (*ended)(void *context, struct uuid id, int64_t fence); /* before the commit, each */
    /* In which host's lane a task is to wait that is put aside for that host; NULL: in that host's own. */
    struct str (*aside)(void *context, int32_t tenant, struct str host);
    /* Before that: an outcome with news of breakers. NULL: nobody wants to know. */
    void (*breaker_news)(void *context, const struct event *e);
    void (*settled)(void *context, const struct event *e, const struct settlement *s); /* after the commit, each */
    void (*batch_settled)(void *context); /* after the last of a batch; NULL: nobody wants to know */
    /* ret_unblocked_lanes: lanes of tasks that waited for a concurrency slot. */
    void (*unblocked)(void *context, uint64_t unblocked);
    /* The claim that is to follow a settle of these outcomes (scheduler_claim_behind); NULL: never one. */
    struct op *(*claim_behind)(void *context, const struct event *v, size_t n);
    void (*unblocked_before_claim)(void *context,
                                   uint64_t unblocked); /* as `unblocked`, of a settle with such a claim */
    void (*workers_changed)(void *context);             /* reports say so (OP_WORKER_REPORT 4); NULL: no reports come */
    void *context;
};

struct updater;

struct updater *updater_new(const struct updater_setup *setup);
void updater_free(struct updater *u); /* nothing is in flight */

/* behind_ms: by how much now.wall_ms may be behind the clocks of other nodes. Retries are due that much later, so
 * that no node begins them too early. */
int64_t updater_step(struct updater *u, struct moment now, int64_t behind_ms);
void updater_stop(struct updater *u); /* polls no more: for events that are shared with other nodes */
bool updater_is_idle(const struct updater *u);

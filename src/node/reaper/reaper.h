#pragma once
/* node/reaper/reaper.h - settles claims that ended without an outcome.
 *
 * Four sources find such claims:
 *  - node/cluster/recovery.h: claims of nodes that are dead;
 *  - node/fleet/delivery_timeout.h: deliveries that a worker of the fleet did not renew in time;
 *  - node/fleet/queue_loss.h: claims that the fleet's queue has forgotten;
 *  - node/lease/lease_expiry.h: leases that ran out.
 *
 * The course is the same for all. One batch is under way at a time:
 *  1. ask: the source asks the store or the queue for such claims, or is given a batch (reaper_begin);
 *  2. event barrier, if the source wants one: a worker publishes an outcome before it acknowledges the delivery, so the
 *     claim may have ended. The reaper waits until the updaters have applied every event published before the answer;
 *  3. prepare, if the source wants to: it asks for more facts, or claims some of the tasks anew in place;
 *  4. decide: the source adds a verdict for each claim (reaper_add);
 *  5. settle: one OP_SETTLE, sent again until the store has it. A fence is used up once, so a second time is harmless;
 *  6. acknowledge, if the source wants to: the queue may forget the deliveries.
 * Then the source asks again: at ask_at_ms, which the source sets.
 *
 * A source embeds a struct reaper first. Its answers come on the loop's thread and only note what came; the next step,
 * which has the current time, goes on. If the reaper is stopped, or the barrier does not pass, the batch is left: the
 * store or the queue reports its claims again, here or to another node. */
#include "base/metrics.h"
#include "core/time/moment.h"
#include "node/fleet/event_barrier.h"
#include "node/pending_op.h"
#include "node/reaper/lost_verdict.h"

struct reaper;

struct reaper_source {
    const char *name;                  /* for the log */
    void (*ask)(struct reaper *r);     /* sets ask_at_ms, and ends with reaper_found. NULL: see reaper_begin */
    bool barrier;                      /* after ask. A source that wants one for some batches sets barrier_wanted */
    bool (*prepare)(struct reaper *r); /* true: it ends with reaper_prepared; false: nothing to prepare. NULL: never */
    void (*decide)(struct reaper *r);  /* calls reaper_add for each claim that is to be settled; perhaps for none */
    void (*settled)(struct reaper *r, size_t i); /* after the commit, each. NULL: setup.settled is told */
    void (*acknowledge)(struct reaper *r);       /* ends with reaper_acknowledged. NULL: nothing to acknowledge */
    void (*batch_over)(struct reaper *r);        /* settled or left: releases what ask has found */
};

struct reaper_setup {
    struct writer *writer;
    struct async_io *async_io; /* whose events the barrier is in; NULL: the source has none */
    struct metrics *metrics;
    uint64_t seed;
    void (*settled)(void *context, const struct event *e, const struct settlement *s); /* after the commit, each */
    void (*batch_settled)(void *context);             /* after the last of a batch; NULL: nobody wants to know */
    void (*unblocked)(void *context, uint64_t lanes); /* ret_unblocked_lanes; UINT64_MAX: the answer was lost */
    void *context;
};

enum reaper_phase {
    REAPER_IDLE,
    REAPER_ASKING, /* waits for the source, like PREPARING and ACKNOWLEDGING */
    REAPER_FOUND,
    REAPER_BARRIER,
    REAPER_PREPARING,
    REAPER_PREPARED,
    REAPER_SETTLING, /* the operation is in flight, or waits to be sent again */
    REAPER_ACKNOWLEDGING,
};

struct reaper {
    const struct reaper_source *source;
    struct reaper_setup setup;
    struct prng random;
    enum reaper_phase phase;
    bool stopped;
    struct moment now;
    int64_t behind_ms;
    int64_t ask_at_ms; /* steady; the source's to set. INT64_MAX: not until it sets it */
    size_t found;      /* claims that ask has found */
    bool barrier_wanted;

    struct event_barrier_wait barrier;
    struct arena arena;   /* the batch's verdicts: events, settlements and their texts */
    struct event *events; /* n of them, like the next */
    struct settlement *settlements;
    size_t n;
    struct op_settle op;
    struct pending_op settling;
};

void reaper_init(struct reaper *r, const struct reaper_source *source, const struct reaper_setup *setup);
void reaper_release(struct reaper *r); /* idle */

/* behind_ms: as updater_step's, added to the time of verdicts. may_ask: false keeps it from beginning a batch. Returns
 * when to call again. */
int64_t reaper_step(struct reaper *r, struct moment now, int64_t behind_ms, bool may_ask);
void reaper_stop(struct reaper *r);          /* begins no more batches; leaves one that is not being settled */
void reaper_leave(struct reaper *r);         /* leaves a batch that waits for the barrier: it is asked for again */
bool reaper_is_idle(const struct reaper *r); /* nothing is under way */

/* ---- for the sources ---- */

void reaper_begin(struct reaper *r, size_t found); /* a batch, from a source without ask. Idle, and not stopped */
void reaper_found(struct reaper *r, size_t found); /* what ask has found; 0: nothing, or it failed */
void reaper_prepared(struct reaper *r);
void reaper_acknowledged(struct reaper *r);

/* In `decide`: where the next verdict's event is put, and its settlement, which counts it. At most `found` of them. */
struct event *reaper_next_event(struct reaper *r);
void reaper_add(struct reaper *r, struct settlement s);
int64_t reaper_verdict_ms(const struct reaper *r); /* wall: the time of the verdicts */

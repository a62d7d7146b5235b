#pragma once
/* node/fleet/reconcile.h - finds tasks that the fleet's queue has forgotten: it was wiped, restored from an older
 * copy, or failed over.
 *
 * Every node reads the queue's state every RECONCILE_LOOK_MS and notices by its epoch that it may have lost
 * something. Then, and every RECONCILE_MS, the leader asks the queue about all tasks of handed-off claims that are
 * old enough. A task that the queue does not know has ended or is lost. A worker publishes an outcome before it
 * acknowledges the delivery. So once the updaters have applied every event published before that answer
 * (event_barrier.h), a task that is still RUNNING under its fence is nobody's. queue_loss.h claims it anew, returns
 * it, or settles it as lost if it must not run twice. */
#include "node/fleet/queue_loss.h"
#include "port/async_io.h"

enum {
    RECONCILE_MS = 10000,     /* between two rounds; younger claims are left alone */
    RECONCILE_LOOK_MS = 500,  /* between two reads of the queue's state */
    RECONCILE_RENEW_MS = 2000 /* after a change of epoch: time for workers to renew what they run */
};

struct reconcile_setup {
    struct reaper_setup reaper;       /* the writer, the queue and its events, and who is told of settled claims */
    struct scheduler *scheduler;      /* claims anew tasks that may simply run once more; NULL: none are */
    bool (*is_leader)(void *context); /* called with the reaper's context, like the next */
    void (*answers)(void *context);   /* the queue has answered */
};

struct reconcile;

struct reconcile *reconcile_new(const struct reconcile_setup *setup, struct moment now);
void reconcile_free(struct reconcile *r); /* idle; NULL is fine */
/* When to call again; behind_ms: as updater_step's. */
int64_t reconcile_step(struct reconcile *r, struct moment now, int64_t behind_ms);
void reconcile_stop(struct reconcile *r); /* asks no more */
bool reconcile_is_idle(const struct reconcile *r);
int64_t reconcile_silent_ms(const struct reconcile *r); /* for how long the queue has not answered; 0: it answers */
/* The queue answers, and has been in this epoch for so long that workers have made known to it what they run. */
bool reconcile_is_steady(const struct reconcile *r, uint64_t *ret_epoch);
bool reconcile_state(const struct reconcile *r, struct queue_state *ret); /* as last read; false: that failed */

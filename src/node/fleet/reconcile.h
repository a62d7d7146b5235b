#pragma once
/* node/fleet/reconcile.h - finds what a queue has forgotten: wiped, restored from an older copy, failed over (DESIGN §7).
 *
 * Every node looks at the queue now and then, and notices by its epoch when it may have lost something. The leader, then and
 * every RECONCILE_MS, asks it about all tasks of handed claims that are old enough. What it does not know has ended, or is lost: a worker
 * publishes an outcome before it acknowledges the delivery, so once the updaters have applied all that was published up to a moment
 * after that answer, whatever is still RUNNING under its fence is nobody's. It is claimed anew or returned; lost, if it must not run twice. */
#include "node/fleet/queue_loss.h"
#include "port/async_io.h"

enum {
    RECONCILE_MS = 10000,     /* between two rounds; claims that are younger are left alone */
    RECONCILE_LOOK_MS = 500,  /* between two looks */
    RECONCILE_RENEW_MS = 2000 /* after another epoch: for workers to renew what they run */
};

struct reconcile_setup {
    struct reaper_setup reaper;       /* the writer, the queue and its events, and who is told of settled claims */
    struct scheduler *scheduler;      /* claims anew what may simply run once more; NULL: nobody does */
    bool (*is_leader)(void *context); /* context: the reaper's, like the next */
    void (*answers)(void *context);   /* the queue does, to a look */
};

struct reconcile;

struct reconcile *reconcile_new(const struct reconcile_setup *setup, struct moment now);
void reconcile_free(struct reconcile *r);                                          /* idle; NULL is fine */
int64_t reconcile_step(struct reconcile *r, struct moment now, int64_t behind_ms); /* as delivery_timeout_step */
void reconcile_stop(struct reconcile *r);                                          /* ask no more */
bool reconcile_is_idle(const struct reconcile *r);
bool reconcile_state(const struct reconcile *r, struct queue_state *ret); /* at the last look; false: it failed */

#pragma once
/* role/worker.h - takes deliveries from the queue, runs them, reports their outcomes.
 *
 * What is too late to be useful, or goes to a host that a breaker keeps from being called, is not started: it is reported as EXPIRED
 * or HELD. The breakers (core/breaker.h) are the worker's: it asks them and tells them what came of each call.
 *
 * It takes no more than it has slots for, publishes outcomes in batches and acknowledges a delivery after its outcome was
 * published: what it held when it died lapses. It needs no clock but for renewing. */
#include "base/metrics.h"
#include "core/breaker.h"
#include "port/events.h"
#include "port/queue.h"
#include "port/runner.h"

enum { RUNNER_KINDS = 6 /* enum target_kind */ };

struct worker_setup {
    struct queue *queue;
    struct events *events;
    struct runner *runners[RUNNER_KINDS]; /* NULL: this worker cannot run such targets */
    struct metrics *metrics;
    struct uuid id;
    struct str name; /* for the record: host and process */
    size_t slots;
    int64_t visibility_ms;
    /* Whether a task may start here: its claim is ours still, for sure. Of NULL: whether any may. NULL: always. */
    bool (*may_start)(void *context, const struct task *t);
    void *context;
    struct hash_key hash; /* of the table of breakers: random, for hosts are users' */
};

struct worker;

struct worker *worker_new(const struct worker_setup *setup);
void worker_free(struct worker *w); /* nothing runs */

/* Takes and starts what fits, publishes what ended, renews. Returns when it wants to be called though nothing happened. */
int64_t worker_step(struct worker *w, int64_t now_ms, int64_t behind_ms); /* behind_ms: as updater_step's */

/* Asks a running attempt to end; false when it does not run here (any more). */
bool worker_abort(struct worker *w, struct uuid id, int64_t fence);

/* A later run replaces this one, and why says so: it is asked to end, or, if it has yet to be taken, will not start. Until it is told
 * that the claim is settled, the worker remembers. */
void worker_replace(struct worker *w, struct uuid id, int64_t fence, struct str why);
void worker_settled(struct worker *w, struct uuid id, int64_t fence);

struct breakers *worker_breakers(struct worker *w);

void worker_stop_taking(struct worker *w); /* drain: finish what runs */
void worker_give_up(struct worker *w);     /* the deadline has passed: what runs is aborted and reported as lost */
/* Others run all of it now: what runs is aborted, what waits in the queue is dropped, and neither is reported. */
void worker_disown(struct worker *w);
size_t worker_running(const struct worker *w); /* those that were disowned and have not ended yet among them */
size_t worker_unpublished(const struct worker *w);

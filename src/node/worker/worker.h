#pragma once
/* node/worker/worker.h - takes deliveries from the queue, runs them, reports their outcomes.
 *
 * What is too late to be useful, or goes to a host that a breaker keeps from being called, is not started: it is reported as EXPIRED
 * or HELD. The breakers (core/sharing/breaker.h) are the worker's: it asks them and tells them what came of each call.
 *
 * It takes no more than it has slots for, publishes outcomes in batches and acknowledges a delivery after its outcome was
 * published: what it held when it died lapses. It renews what it has until then. Its clock need be right only for what expires.
 *
 * It is a part of a node, or all of a worker process. Whoever drives it calls worker_step with the time, whenever something happened
 * (an errand was done, a run ended) and when the step before wanted it. */
#include "base/json/jsonw.h"
#include "base/metrics.h"
#include "core/sharing/breaker.h"
#include "core/time/moment.h"
#include "port/async_io.h"
#include "port/runner.h"

enum { RUNNER_KINDS = 6 /* enum target_kind */, WORKER_REPORT_MS = 2000 };

struct worker_setup {
    struct async_io *async_io;            /* take, renew, ack; publish */
    struct runner *runners[RUNNER_KINDS]; /* NULL: this worker cannot run such targets */
    struct metrics *metrics;
    struct uuid id;
    struct str name, version; /* for the record: host and process; of the program */
    size_t slots;
    int64_t visibility_ms;
    const struct queue_filter *filter; /* what it serves; NULL: all that requires no label. Borrowed */
    int64_t cpu_milli, memory_mb;      /* room for those that say how much they need; <= 0: no limit */

    /* One of a fleet: it tells of itself every WORKER_REPORT_MS (EVENT_WORKER), and when it goes; and a suspect runs alone there. */
    bool fleet;
    void (*describe)(void *context, struct jw *w); /* members of the report's doc; NULL: none */

    /* Whether a task may start here: its claim is ours still, for sure. Of NULL: whether any may. NULL: always. */
    bool (*may_start)(void *context, const struct task *t);
    /* Whether the machine has room for more: CPU and memory. Asked before each take; no is asked again soon. NULL: always. */
    bool (*may_take)(void *context);
    /* What the queue's clock showed when it answered a take, since 1970. The answer may have been long on its way: of what steady time
     * and this differ by, the most is the truest. NULL: nobody wants to know. */
    void (*queue_time)(void *context, int64_t queue_us);
    void *context;
    struct hash_key hash; /* of the table of breakers: random, for hosts are users' */
};

struct worker;

struct worker *worker_new(const struct worker_setup *setup);
void worker_free(struct worker *w); /* nothing runs, nothing is in flight */

/* Takes and starts what fits, publishes what ended, renews. Returns when it wants to be called though nothing happened. */
int64_t worker_step(struct worker *w, struct moment now, int64_t behind_ms); /* behind_ms: as updater_step's */

bool worker_runs(const struct worker *w, struct uuid id, int64_t fence);
/* Asks a running attempt to end; false when it does not run here (any more). */
bool worker_abort(struct worker *w, struct uuid id, int64_t fence);

/* A later run replaces this one, and why says so: it is asked to end, or, if it has yet to be taken, will not start. Until it is told
 * that the claim is settled, the worker remembers. */
void worker_replace(struct worker *w, struct uuid id, int64_t fence, struct str why);
void worker_settled(struct worker *w, struct uuid id, int64_t fence);

struct breakers *worker_breakers(struct worker *w);

void worker_stop_taking(struct worker *w); /* drain: finish what runs; one of a fleet says that it goes, when it has */
void worker_give_up(struct worker *w);     /* the deadline has passed: what runs is aborted and reported as lost */
/* Others run all of it now: what runs is aborted, what waits in the queue is dropped, and neither is reported. Only over a courier
 * that is at_once. */
void worker_disown(struct worker *w);
size_t worker_running(const struct worker *w); /* those that were disowned and have not ended yet among them */
size_t worker_unpublished(const struct worker *w);
bool worker_is_idle(const struct worker *w); /* nothing runs, nothing waits, nothing is in flight; after
                                                worker_stop_taking: and it has said that it goes */

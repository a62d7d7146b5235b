#pragma once
/* node/worker/worker.h - takes deliveries from the queue, runs them and reports their outcomes.
 *
 * A task that is expired, or that a circuit breaker of its host or tenant holds, is not started: it is reported as
 * EXPIRED or HELD. The breakers (core/sharing/breaker.h) belong to the worker: it asks them, and tells them the result
 * of each call. If one opens or closes, its outcome says so (event.breakers): nodes then claim nothing from the lanes
 * of that host, or claim again.
 *
 * If a host has as many calls as its runner makes at once (port/runner.h), a further task for it is parked: it waits
 * for a second at most, holds no slot and has not started. Then, or if too many are parked, it is reported as HELD.
 *
 * The worker takes no more than it has slots for and keeps slots for higher classes (core/sharing/class_slots.h). It
 * publishes outcomes in batches and acknowledges a delivery after its outcome was published. Until then it renews the
 * delivery. If the worker dies, its deliveries time out. Its clock must be right only for tasks that expire.
 *
 * A task that users want back must not start after they were answered. So a worker starts a task only if it has heard
 * from the queue what is wanted back within the last DELIVERY_HEARD_MS (port/queue.h), by a clock that goes on while
 * the process is stopped. Else it asks the queue first. What waits for the answer is renewed; after half of its
 * visibility it is returned: the queue is slow or down. If an answer was lost, the worker returns what it has not
 * started.
 *
 * The worker is a part of a node, or all of a worker process. Its driver calls worker_step whenever something
 * happened (a request was answered, a run ended) and when the step before asked for it. A worker belongs to the
 * thread that steps it: its first step takes ownership, and the other functions assert it. worker_free may be called
 * on another thread after the loop has ended. */
#include "base/json/jsonw.h"
#include "base/metrics.h"
#include "core/sharing/breaker.h"
#include "core/time/moment.h"
#include "node/worker/recent_fences.h"
#include "port/async_io.h"
#include "port/clock.h"
#include "port/runner.h"
#include "port/tracer.h"

enum { RUNNER_KINDS = 6 /* enum target_kind */, WORKER_REPORT_MS = 2000, WORKER_VISIBILITY_MS = 4000 };

struct worker_setup {
    struct async_io *async_io;            /* take, renew and ack; publish */
    struct clock *clock;                  /* read before each start; NULL: the queue is in this process. Borrowed */
    struct runner *runners[RUNNER_KINDS]; /* NULL: this worker cannot run such targets */
    struct metrics *metrics;
    struct tracer *tracer;        /* NULL: no spans are recorded */
    struct recent_fences *fences; /* NULL: no task can come twice. Borrowed */
    struct uuid id;
    struct str name, version; /* for the record: host and process; of the program */
    size_t slots;
    int64_t visibility_ms;
    const struct queue_filter *filter; /* which tasks it serves; NULL: every task that requires no label. Borrowed */
    int64_t cpu_milli, memory_mb;      /* for tasks that say how much they need; <= 0: no limit */

    /* A worker of a fleet reports itself every WORKER_REPORT_MS (EVENT_WORKER) and when it leaves, and runs a suspect
     * alone. */
    bool fleet;
    void (*describe)(void *context, struct jw *w); /* writes members of the report's document; NULL: none */

    /* Whether a task may start here: its claim is certainly still valid. With t NULL: whether any may. NULL: always. */
    bool (*may_start)(void *context, const struct task *t);
    /* An attempt begins. NULL: nobody wants to know. */
    void (*started)(void *context, const struct task *t);
    /* The outcome of a task is known, and will be published. NULL: nobody wants to know. */
    void (*ended)(void *context, struct uuid id, int64_t fence);
    /* Before that: an outcome with news of breakers. NULL: nobody in this process wants to know. */
    void (*breaker_news)(void *context, const struct event *e);
    /* Whether the machine has CPU and memory for more. Asked before each take; after a no, asked again soon. NULL:
     * always. */
    bool (*may_take)(void *context);
    /* The queue's clock when it answered a take, in microseconds since 1970. The answer may have been on its way for
     * long: of the differences to steady time, the largest is the most accurate. NULL: nobody wants to know. */
    void (*queue_time)(void *context, int64_t queue_us);
    void *context;
    struct hash_key hash; /* for the table of breakers: random, because users choose the hosts */
};

struct worker;

struct worker *worker_new(const struct worker_setup *setup);
void worker_free(struct worker *w); /* nothing runs, nothing is in flight */

/* Takes and starts tasks, publishes outcomes, renews deliveries. Returns when to call again although nothing
 * happened. */
int64_t worker_step(struct worker *w, struct moment now, int64_t behind_ms); /* behind_ms: as updater_step's */

bool worker_runs(const struct worker *w, struct uuid id, int64_t fence); /* or it is parked */
/* Asks a running attempt to end; a parked task is cancelled at once. False: it does not run here. */
bool worker_abort(struct worker *w, struct uuid id, int64_t fence);
/* Takes a parked task back: it does not start and is not reported. False: it is not parked here. Only if async_io
 * answers at once. */
bool worker_recall(struct worker *w, struct uuid id, int64_t fence);
/* The same, but it is reported, as RETURNED. With any async_io. */
bool worker_return(struct worker *w, struct uuid id, int64_t fence, const struct outcome *returned);

/* A later run replaces this task, and `why` says so: it is asked to end, or will not start if it has yet to be taken.
 * The worker remembers that until worker_settled. */
void worker_replace(struct worker *w, struct uuid id, int64_t fence, struct str why);
void worker_settled(struct worker *w, struct uuid id, int64_t fence);

struct breakers *worker_breakers(struct worker *w);

/* For explain: where a task that was pushed is. */
struct worker_standing {
    enum { WORKER_HAS_NOT, WORKER_PARKED, WORKER_STARTED } at;
    int64_t started_ms; /* STARTED: wall */
    size_t ahead;       /* PARKED: so many tasks are before it in the line of its host */
};
struct worker_standing worker_standing(const struct worker *w, struct uuid id, int64_t fence);

/* The calls to the task's host. max 0: it has no host, or the host has no limit. */
struct worker_host_use {
    size_t calls, max, parked;
};
struct worker_host_use worker_host_use(const struct worker *w, const struct task *t);

/* Drain: running tasks finish, parked ones are returned; a worker of a fleet then reports that it leaves. */
void worker_stop_taking(struct worker *w);
/* The drain deadline has passed: running tasks are aborted and reported as lost, parked ones are returned. */
void worker_give_up(struct worker *w);
/* Another node owns everything: running tasks are aborted, parked ones and those in the queue are dropped, and none is
 * reported. Only if async_io answers at once. */
void worker_disown(struct worker *w);
size_t worker_running(const struct worker *w); /* including disowned runs that have not ended */
size_t worker_parked(const struct worker *w);
size_t worker_parked_long(const struct worker *w); /* those that do not start within half a second */
size_t worker_unpublished(const struct worker *w);
/* Nothing runs, waits or is in flight; after worker_stop_taking in a fleet: and its leaving is reported. */
bool worker_is_idle(const struct worker *w);

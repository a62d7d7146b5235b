#pragma once
/* node/scheduler/scheduler.h - claims what is due a hair early and hands it to the queue on the dot.
 *
 * A state machine: scheduler_step(now) does all that is to be done at now and returns when it wants to be called again;
 * operations it submitted come back through their `done` on the same thread, before a later step. It owns the claimed tasks
 * until they are pushed: nothing touches the store at the moment of firing.
 *
 * Three things happen in a step: what is due on the wheel is pushed; if there is room and something is due within the arm
 * window, a claim is made (of which lanes and how much, role/lanes says); recurring tasks whose cursor comes near spawn their
 * occurrences (role/spawner). */
#include "node/scheduler/lanes.h"
#include "node/scheduler/spawner.h"
#include "port/async_io.h"

struct scheduler_setup {
    struct writer *writer;
    struct async_io *async_io; /* push */
    struct async_io *own;      /* in a fleet: what runs here while the queue is down (fallback); NULL: it waits */
    const struct queue_filter *own_filter; /* what the worker behind it serves */
    struct zoneinfo *zones;
    struct catalog_cache *catalog; /* NULL: no rules, no calendars */
    struct breakers *breakers;     /* NULL: none */
    struct metrics *metrics;
    struct uuid node;
    uint64_t seed;
    size_t slots;           /* tasks that may be claimed and not yet settled; in a fleet scheduler_set_room says */
    bool fleet;             /* what was pushed is others': see `handed` */
    bool shared;            /* limits hold for all nodes of the store together */
    int64_t spawn_ahead_ms; /* longer than a failover takes */
    int64_t arm_min_ms, arm_max_ms;
    int64_t poll_ms; /* ask at least this often although nobody nudged; 0: never */

    /* Whether what is held is ours still, for sure: else nothing fires. NULL: always. */
    bool (*may_fire)(void *context);
    /* The store says that this node is dead. NULL: nobody wants to know. */
    void (*refused)(void *context);
    /* A claim ends before its task has fired: RETURNED, EXPIRED or CANCELLED. False: it could not be told, and comes again. */
    bool (*end)(void *context, const struct task *t, const struct outcome *o);
    /* In a fleet: the queue has all of this claim that is not settled otherwise, pushed in that epoch, or from it on; 0: nobody knows. */
    void (*handed)(void *context, struct uuid claim, uint64_t epoch);
    /* In a fleet: these were claimed anew in place. What held them under the fence before, here or elsewhere, holds them no more. */
    void (*retaken)(void *context, const struct tasks *t);
    /* A claim has put this one off: BLOCKED, SKIPPED or CANCELLED, as it is now. */
    void (*gated)(void *context, const struct task *t);
    /* A later run replaces this one, which is claimed: end it. */
    void (*replaced)(void *context, const struct replaced *r);
    void *context;
};

struct scheduler;

struct scheduler *scheduler_new(const struct scheduler_setup *setup, struct moment now);
void scheduler_free(struct scheduler *s); /* nothing of it is in flight */

int64_t scheduler_step(struct scheduler *s, struct moment now);

/* Somebody put a task there, or changed one: look in time for it. The lane becomes known. */
void scheduler_nudge(struct scheduler *s, const struct task *t);

/* If the catalog cache has changed, its rules hold from now on: limits, and armed tasks of a queue that was paused are
 * given back. Every step does that first. */
void scheduler_apply_rules(struct scheduler *s);

/* Another node has changed rules, and somebody reads them: what is claimed is to be claimed by them. For a moment at most: then it goes on
 * with those that it has. */
void scheduler_await_rules(struct scheduler *s, bool await);

/* Claims are made from now on, unless it is held back: what died with another process has been judged. If suspects were among that, the
 * first of them is tried with nothing else running, for a few seconds: should the process die again, it is known of what. */
void scheduler_begin(struct scheduler *s, bool found_suspects);

/* A claim on a task has ended: if it was made here there is room again, and what the verdict says of its next time is heeded. NULL: the
 * caller nudges. Events may come twice, so it may be told twice. */
void scheduler_on_settled(struct scheduler *s, struct uuid id, int64_t fence, const struct verdict *v);
bool scheduler_holds(const struct scheduler *s, struct uuid id, int64_t fence); /* claimed here and not settled */

/* ---- in a fleet ---- */

/* How many may be held from now on. */
void scheduler_set_room(struct scheduler *s, size_t room);

/* The queue has answered somebody: if it was down, it is tried again. */
void scheduler_queue_answers(struct scheduler *s);

/* Those that the queue has had for longest since it got them or somebody was told of them here, before that (steady) time: at most max. */
size_t scheduler_queued_since(struct scheduler *s, int64_t before_ms, struct fenced_id *ret, size_t max);

/* To end one by that the queue has, or had; NULL: it is not held here, or not there. */
const struct settle_facts *scheduler_queued(const struct scheduler *s, struct uuid id, int64_t fence);

/* What the queue has forgotten, claimed anew in place (OP_RETAKE): it is ours then, whoever's it was, beyond the room there is if need be.
 * Whether a task is one to ask for: one that may simply run once more, and that no limit counts for another node. */
bool scheduler_may_retake(struct scheduler *s, const struct task *t);

struct scheduler_retake {
    const struct fenced_id *v; /* up to CLAIM_MAX; borrowed until it is done */
    size_t n;
    void (*done)(void *context, const struct tasks *taken); /* once; the tasks are for the call */
    void *context;
};
bool scheduler_retake(struct scheduler *s, const struct scheduler_retake *r); /* false: not now */

/* A claimed task that has not fired; NULL: it is not there (fired, or never here). */
const struct task *scheduler_armed(const struct scheduler *s, struct uuid id, int64_t fence);

/* Takes such a task off the wheel; false when it is not there. The caller settles it. */
bool scheduler_unarm(struct scheduler *s, struct uuid id, int64_t fence);

/* A later run replaces it, and why says so: it is taken off the wheel and ended as CANCELLED; false when it is not there. */
bool scheduler_replace(struct scheduler *s, struct uuid id, int64_t fence, struct str why);

/* Held back, it makes no claim and no visit to recurring tasks until it is let go; what it has armed fires. It begins held back:
 * somebody must first take back what was missed. Let go, it looks at everything anew. */
void scheduler_suspend(struct scheduler *s);
void scheduler_resume(struct scheduler *s);

/* Others took all that is held here: nothing of it fires or is told of any more, and claims are made as `node`, once it begins and is
 * let go again. */
void scheduler_disown(struct scheduler *s, struct uuid node);

/* Which tasks are this node's; others only when nobody else has taken them in time. NULL: all. It looks at everything anew. */
void scheduler_set_own(struct scheduler *s, const struct partitions *own);

/* The wall clock was set back: what has not fired waits anew. */
void scheduler_on_clock_set_back(struct scheduler *s, struct moment now);

/* Drain: no more claims or spawns; each task that was claimed and has not fired is handed back (`end`). To be called again until it is
 * idle. */
void scheduler_drain(struct scheduler *s);
bool scheduler_awaits(const struct scheduler *s);  /* an operation is in flight */
bool scheduler_is_idle(const struct scheduler *s); /* and nothing is armed either */

struct scheduler_status {
    size_t armed, held, lanes, suspects;
    size_t room;     /* how many may be held */
    bool falls_back; /* the queue of the fleet is down, and what is due runs here */
    bool isolating;  /* a suspect is tried, and nothing else runs */
    int64_t window_ms, last_claim_ms, next_claim_ms, next_spawn_ms;
    int64_t oldest_due_ms[CLASS_HIGH + 1]; /* of what waits in a class; INT64_MAX: nothing */
};
struct scheduler_status scheduler_status(const struct scheduler *s);
struct lanes *scheduler_lanes(struct scheduler *s);                         /* for who explains, and who gives leases */
void scheduler_report_gated(struct scheduler *s, const struct op_claim *a); /* what a claim did to others */

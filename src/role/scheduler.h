#pragma once
/* role/scheduler.h - claims what is due a hair early and hands it to the queue on the dot.
 *
 * A state machine: scheduler_step(now) does all that is to be done at now and returns when it wants to be called again;
 * operations it submitted come back through their `done` on the same thread, before a later step. It owns the claimed tasks
 * until they are pushed: nothing touches the store at the moment of firing.
 *
 * Three things happen in a step: what is due on the wheel is pushed; if there is room and something is due within the arm
 * window, a claim is made; recurring tasks whose cursor comes near spawn their occurrences. */
#include "base/metrics.h"
#include "port/queue.h"
#include "port/store.h"
#include "port/zoneinfo.h"

struct scheduler_setup {
    struct writer *writer;
    struct queue *queue;
    struct zoneinfo *zones;
    struct metrics *metrics;
    struct uuid node;
    uint64_t seed;
    size_t slots;           /* tasks that may be claimed and not yet settled */
    int64_t spawn_ahead_ms; /* longer than a failover takes */
    int64_t arm_min_ms, arm_max_ms;
    int64_t poll_ms; /* ask at least this often although nobody nudged; 0: never */
};

struct scheduler;

struct scheduler *scheduler_new(const struct scheduler_setup *setup, int64_t now_ms);
void scheduler_free(struct scheduler *s); /* nothing of it is in flight */

int64_t scheduler_step(struct scheduler *s, int64_t now_ms);

/* Somebody put a task there, or changed one: look in time for it. The lane becomes known. */
void scheduler_nudge(struct scheduler *s, const struct task *t, int64_t now_ms);
void scheduler_nudge_due(struct scheduler *s, int64_t due_ms); /* of a lane that is known */
void scheduler_know_lane(struct scheduler *s, struct lane lane);

/* A claim on a task has ended: if it was made here there is room again. Events may come twice, so it may be told twice. */
void scheduler_freed(struct scheduler *s, struct uuid id, int64_t fence);
bool scheduler_holds(const struct scheduler *s, struct uuid id, int64_t fence); /* claimed here and not settled */

/* Takes a claimed task that has not fired off the wheel; false when it is not there (fired, or never here). The caller settles
 * it. */
bool scheduler_unarm(struct scheduler *s, struct uuid id, int64_t fence);

/* The wall clock was set back: what has not fired waits anew. */
void scheduler_clock_set_back(struct scheduler *s, int64_t now_ms);

/* Drain: no more claims or spawns; `give` is called for each task that was claimed and has not fired, for it to be handed
 * back. */
void scheduler_drain(struct scheduler *s, void (*give)(void *context, const struct task *t), void *context);
bool scheduler_is_idle(const struct scheduler *s); /* no operation in flight, nothing armed */

struct scheduler_status {
    size_t armed, held, lanes;
    int64_t window_ms, last_claim_ms, next_claim_ms, next_spawn_ms;
};
struct scheduler_status scheduler_status(const struct scheduler *s);

#pragma once
/* store/postgres/flow/runs.h - what the operations on runs and their steps (runs.c, run_signals.c, run_stop.c) do with
 * rows of tasks: read a few columns, decide, write them all with one statement. */
#include "store/postgres/internal.h"

/* The columns of a task that runs need, with "t." before each. */
#define STEP_COLUMNS                                                                                                   \
    "t.id, t.tenant_id, t.state, t.fence, t.claim_id, t.links, t.lane, t.queue, t.due_ms, t.scheduled_ms, "            \
    "t.awaited_ms, t.late_by, t.started_ms, t.completed_ms, t.run_id, t.place, t.priority, t.target, t.losses, "       \
    "t.deleted, t.gates, t.waits_for, t.kind, t.updated_ms, t.attempts"

/* A task before and after a change. Of both, only the members of STEP_COLUMNS are set, and last_error of `next`. */
struct pg_step {
    struct task was, next;
    int64_t lane; /* of `was` */
    bool gated;   /* it may hold slots */
};

/* Reads a row of STEP_COLUMNS. Its texts are in s->arena. Nothing may be in flight. */
enum err pg_step_read(struct store_postgres *s, const struct pg_result *r, int row, struct pg_step *ret,
                      struct error *e) must_use;
/* Locks a task's row and reads it. *ret_found false: there is none. */
enum err pg_step_lock(struct store_postgres *s, struct uuid id, struct pg_step *ret, bool *ret_found,
                      struct error *e) must_use;
/* Whether the claim with that fence holds the task; else ERR_CONFLICT, field "fence". */
enum err pg_step_check_fence(const struct pg_step *t, bool found, int64_t fence, struct error *e) must_use;
/* Writes `next` of each, without a slot that it waits for, and all that follows from it: lane, counts, claims, notices.
 * Adds the lanes of those that have become SCHEDULED to *unblocked. */
enum err pg_steps_write(struct store_postgres *s, const struct pg_step *v, size_t n, uint64_t *unblocked,
                        struct error *e) must_use;

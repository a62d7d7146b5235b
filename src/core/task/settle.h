#pragma once
/* core/task/settle.h - settling: turns the outcome of one attempt into the next state of its task. Pure: the same facts
 * give the same verdict. */
#include "base/prng.h"
#include "core/task/fingerprint.h"
#include "core/task/outcome.h"

/* The facts of a task that settling needs. A worker sends them with its outcome, so that the updater need not read the
 * store. */
struct settle_facts {
    struct uuid id, parent;
    int32_t tenant;
    enum task_kind kind;
    int64_t fence, scheduled_ms, due_ms;
    int64_t awaited_ms; /* as in struct task, like the next */
    enum late_cause late_by;
    int attempts, losses;
    enum delivery delivery;
    struct retry_policy retry;
    int64_t expires_ms; /* task_expires_ms */
    enum target_kind target;
    /* the target's place (core/task/fingerprint.h), for the cause of a failure; at most PLACE_MAX bytes */
    struct str place;
    /* for those who watch, like the next; version: 0, if the worker is older than this release */
    struct str queue, name;
    int64_t version;
    /* for the log and for traces: struct task, `run`, and its `trace` without the caller's tracestate */
    struct uuid run;
    struct str trace;
    int links; /* for the log, of control work; 0, if a worker ran the task */
};

/* Texts are borrowed from the task. The place is computed only for an outcome that may fail the task, and is copied
 * into the arena; if the arena is NULL, there is no place. */
struct settle_facts settle_facts_of(const struct task *t, const struct outcome *o, struct arena *a);

/* Whether the task is too late to be useful. Checked before it fires. */
static inline bool is_expired(int64_t expires_ms, int64_t now_ms)
{
    return now_ms >= expires_ms;
}

struct verdict {
    enum task_state next;
    int64_t due_ms; /* if SCHEDULED, like the next two */
    int64_t awaited_ms;
    enum late_cause late_by;
    int attempts, losses;
    bool has_execution;
    struct execution execution;     /* its id is derived from task and fence: settling twice writes one row */
    struct str last_error;          /* borrowed from the outcome, a constant, or in the arena */
    struct fingerprint cause;       /* if FAILED; else empty */
    struct fingerprint retry_cause; /* if SCHEDULED after a failed attempt: of that attempt */
    struct str aside;               /* if SCHEDULED: the task's `aside` from now on; empty: as it was */
    bool recalled;                  /* if SCHEDULED: the task is `recalled` from now on; else as it was */
};

/* The completed_ms of a task with that verdict, settled at now_ms; 0: it is not final. The clock of the worker may be
 * ahead of the one that settles: the task never ends before its last attempt. */
int64_t settle_completed_ms(const struct verdict *v, int64_t now_ms);

/* Rules:
 * - If a retry would come after the task has expired, the task is EXPIRED at once.
 * - If a task is RETURNED or HELD without a time to wait, it keeps its due time.
 * - If a task is HELD beyond its expiry, it comes back at the expiry.
 * - If a task is RETURNED, HELD or LOST, its user still waits for the same moment. A retry has its own.
 * - An execution ends when its outcome was reported; a LOST one when it was found, at now_ms. It never ends before it
 *   starts.
 * - If a task is FAILED as refused and has no started_us, no attempt began: it leaves no execution.
 * - A reported outcome (OK, FAILED, CANCELLED) resets losses to 0: its worker survived.
 * - If a control task (target WORKFLOW) is LOST, it counts as RETURNED: nothing outside has seen it.
 * - A suspect that is LOST and was alone is FAILED as a poison task. Any other LOST suspect keeps its due time, and so
 *   its place before other suspects.
 *
 * The arena (may be NULL) is for a last_error that has to be formatted. */
struct verdict settle(const struct settle_facts *t, const struct outcome *o, int64_t now_ms, struct prng *random,
                      struct arena *a);

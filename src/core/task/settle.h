#pragma once
/* core/task/settle.h - settling: turns the outcome of one attempt into the next state of its task. Pure: the same facts
 * give the same verdict. */
#include "base/prng.h"
#include "core/task/fingerprint.h"
#include "core/task/task.h"

/* The kind of a failure. retry.rules name them, and they decide whether a failure is final. */
enum failure {
    FAILURE_NONE,
    FAILURE_HTTP,    /* an answer other than success, given by http_status */
    FAILURE_CONNECT, /* the target was not reached: refused, no route, name not found */
    FAILURE_TLS,
    FAILURE_TIMEOUT,
    FAILURE_NETWORK, /* broke off after the first byte was sent */
    FAILURE_REFUSED, /* Belfry does not call such a target (bad URL, blocked address): final */
    FAILURE_INTERNAL,
};

enum outcome_kind {
    OUTCOME_OK,
    OUTCOME_FAILED,
    OUTCOME_LOST, /* its claim ended without an outcome after it may have fired */
    /* Its claim ended before it fired: drained or recalled. If retry_after_ms is positive, it comes back after that
     * time; else it keeps its due time, and so its place. Costs no attempt. */
    OUTCOME_RETURNED,
    /* Aborted because its user cancelled it or a later run replaces it; `error` says which. If started_us is 0, it
     * never began. */
    OUTCOME_CANCELLED,
    /* Its claim ended before it fired because its host takes no more calls now, or a breaker is open. retry_after_ms as
     * above; `aside` says where it waits. Costs no attempt. */
    OUTCOME_HELD,
    OUTCOME_EXPIRED, /* its claim ended before it fired: too late to be useful */
    OUTCOME_SKIPPED, /* its claim ended before it fired: a step whose condition does not hold; `error` says so */
};

struct outcome {
    enum outcome_kind kind;
    enum failure failure;
    bool sent;  /* a byte may have reached the target: AT_MOST_ONCE is not retried */
    bool alone; /* LOST: nothing else ran on its worker, this time and the last time. Set by the node that finds it. */
    int http_status;                  /* 0: none */
    int64_t retry_after_ms;           /* from the target, relative; -1: none */
    int64_t started_us, completed_us; /* since 1970, in microseconds since lag is measured in less than a millisecond */
    struct str error, output, worker, trace_id;
    /* RETURNED, HELD: what puts it off. Of an attempt that started: what its worker knows to have put it off. NONE: as
     * the task says. */
    enum late_cause late_by;
    struct str aside; /* HELD: the host in whose lane it waits from now on; empty: it stays in its lane */
    bool lacks_key;   /* HELD, by a runner: this process lacks the key of a secret (port/secrets.h) */
    bool lacks_file;  /* HELD, by a runner: this process may open no more files and connections */
    bool recalled;    /* RETURNED: because a user is about to change it */
    bool sampled;     /* of an attempt that started: its worker records the spans of its trace */
    bool by_step;     /* FAILED, of a run or a map: because a step or an item failed */
    bool begun_again; /* a run that was retried: no queue held it, so it was due when it started */
};

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

/* Final failures: redirects, 4xx except 408, 425 and 429, and targets that Belfry refuses to call. */
bool outcome_is_final(const struct outcome *o);

#pragma once
/* core/task/settle.h - what one attempt's outcome makes of its task. Pure: the same facts give the same verdict. */
#include "base/prng.h"
#include "core/task/fingerprint.h"
#include "core/task/task.h"

/* What kind of failure it was: retry.rules name them, and they decide what is final. */
enum failure {
    FAILURE_NONE,
    FAILURE_HTTP,    /* an answer that is no success: http_status says which */
    FAILURE_CONNECT, /* never reached the target: refused, no route, name not found */
    FAILURE_TLS,
    FAILURE_TIMEOUT,
    FAILURE_NETWORK, /* broke off after the first byte was sent */
    FAILURE_REFUSED, /* we do not call such a target (bad URL, blocked address): final */
    FAILURE_INTERNAL,
};

enum outcome_kind {
    OUTCOME_OK,
    OUTCOME_FAILED,
    OUTCOME_LOST,     /* its claim ended without an outcome after it may have fired */
    OUTCOME_RETURNED, /* its claim ended before it fired: drained, recalled; retry_after_ms: not before; costs nothing */
    OUTCOME_CANCELLED, /* aborted because its user cancelled it, or because a later run replaces it: `error` says so. Without
                          a started_us, it never began */
    OUTCOME_HELD, /* its claim ended before it fired: not now (a breaker is open); retry_after_ms says when; costs nothing */
    OUTCOME_EXPIRED, /* its claim ended before it fired: too late to be useful */
};

struct outcome {
    enum outcome_kind kind;
    enum failure failure;
    bool sent; /* a byte may have reached the target: AT_MOST_ONCE is not tried again */
    bool
        alone; /* LOST: nothing else ran where it did, now and the last time (DESIGN §7); the node that finds it so says it */
    int http_status;                  /* 0: none */
    int64_t retry_after_ms;           /* from the target, relative; -1: none */
    int64_t started_us, completed_us; /* since 1970: lag is measured finer than a millisecond */
    struct str error, output, worker, trace_id;
};

/* What settling needs of a task; a worker sends it along with its outcome, so that an updater need not ask the store. */
struct settle_facts {
    struct uuid id, parent;
    int32_t tenant;
    enum task_kind kind;
    int64_t fence, scheduled_ms, due_ms;
    int attempts, losses;
    enum delivery delivery;
    struct retry_policy retry;
    int64_t expires_ms; /* task_expires_ms */
    enum target_kind target;
    struct str place; /* where it goes (core/task/fingerprint.h), for the cause of a failure; at most PLACE_MAX bytes */
};

/* Texts are borrowed from the task, but for the place: it is looked up only for an outcome that may fail the task, which is what
 * the arena is for. It may be NULL, and then there is no place. */
struct settle_facts settle_facts_of(const struct task *t, const struct outcome *o, struct arena *a);

/* Too late to be useful, by its user's word: asked before it fires. */
static inline bool is_expired(int64_t expires_ms, int64_t now_ms)
{
    return now_ms >= expires_ms;
}

struct verdict {
    enum task_state next;
    int64_t due_ms; /* if SCHEDULED */
    int attempts, losses;
    bool has_execution;
    struct execution execution; /* its id is derived from task and fence: settling twice writes one row */
    struct str last_error;      /* borrowed from the outcome, a constant, or in the arena */
    struct fingerprint cause;   /* of a FAILED one; else empty */
};

/* A retry that would come when the task has expired makes it EXPIRED at once; HELD beyond that time, it comes back at that time. An
 * outcome that was reported (OK, FAILED, CANCELLED) sets its losses back to 0: who reports did not die of it. A suspect that is LOST
 * and was alone is FAILED as a poison task; else it keeps its due time, and so its place before other suspects. The arena (may be NULL) is for a last_error that has to be written. */
struct verdict settle(const struct settle_facts *t, const struct outcome *o, int64_t now_ms, struct prng *random,
                      struct arena *a);

/* The delay before attempt n + 1 after n outcomes, within [0, max_delay]; what the target asked for (Retry-After) instead,
 * which may be longer, up to a day. */
int64_t retry_delay_ms(const struct retry_policy *p, const struct outcome *o, int attempts, struct prng *random);

/* 410, 4xx but 408 425 429, redirects, and what we refuse to call. */
bool outcome_is_final(const struct outcome *o);

#pragma once
/* core/task/outcome.h - what became of one attempt, as its runner tells it, and which failures are final. */
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

/* A repeated call would get the same answer: redirects, which are not followed, and 4xx except 408, 425 and 429. */
bool http_status_is_final(int status);

/* Whether retry.rules alone can have the attempt repeated: such an answer, or a target that Belfry refuses to call. */
bool outcome_is_final(const struct outcome *o);

#pragma once
/* node/explain.h - why a task has not run yet, as far as its node knows.
 *
 * The caller explains what the row itself says (paused, blocked by a slot, final). Here are the gates between a
 * SCHEDULED task and its runner, in the order in which the task meets them; the first one that holds it is the
 * answer. */
#include "node/breaker_table.h"
#include "node/scheduler/scheduler.h"
#include "node/worker/worker.h"

#define EXPLAIN_GATE_MAP(X)                                                                                            \
    X(DUE_TIME, "due_time")                                                                                            \
    X(ARMED, "armed") /* claimed; fires when it is due */                                                              \
    X(RUNNING, "running")                                                                                              \
    X(EXPIRED, "expired")                                                                                              \
    X(RECOVERY, "recovery") /* the node has just started after a crash */                                              \
    X(SUSPECT, "suspect")                                                                                              \
    X(QUEUE_PAUSED, "queue_paused")                                                                                    \
    X(QUEUE_RATE, "queue_rate")                                                                                        \
    X(QUEUE_CONCURRENCY, "queue_concurrency")                                                                          \
    X(TENANT_DISABLED, "tenant_disabled")                                                                              \
    X(TENANT_LIMIT, "tenant_limit")                                                                                    \
    X(HOST_BUSY, "host_busy")                                                                                          \
    X(NO_WORKER, "no_worker") /* no worker of the fleet can run it */                                                  \
    X(TENANT_SHARE, "tenant_share")                                                                                    \
    X(TENANT_BREAKER, "tenant_breaker")                                                                                \
    X(HOST_BREAKER, "host_breaker")                                                                                    \
    X(NO_FREE_SLOT, "no_free_slot")                                                                                    \
    X(BACKLOG, "backlog")                                                                                              \
    X(NONE, "none") /* it is about to be claimed */
enum explain_gate {
#define X(id, name) EXPLAIN_##id,
    EXPLAIN_GATE_MAP(X)
#undef X
};
const char *explain_gate_name(enum explain_gate g);

enum { EXPLAIN_TEXT = 800 };

struct explanation {
    enum explain_gate gate;
    char text[EXPLAIN_TEXT];
    int64_t until_ms; /* when it may go on; 0: not known */
};

/* The modules that are asked. */
struct explain_view {
    struct scheduler *scheduler;
    struct worker *worker;
    const struct catalog_cache *catalog; /* NULL: none */
    const struct breaker_table *breakers;
    bool recovering;
};

/* t is SCHEDULED or RUNNING, and not RECURRING. */
void explain(const struct explain_view *v, const struct task *t, int64_t now_ms, struct explanation *ret);

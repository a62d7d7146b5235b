#pragma once
/* node/explain.h - what will happen to a task, and what stands between it and its start, as far as its node knows.
 *
 * A task meets gates one after the other. Each gate says until when it holds the task, or that this cannot be known.
 * The walk (explain.c) goes through all of them (explain_gates.c, explain_limits.c, explain_breakers.c) and adds up:
 * the time to which the known gates put the task off is never later than its start. So if the task expires before that
 * time, it will not run, whatever the other gates do.
 *
 * The answer holds if nobody changes anything, and it looks EXPLAIN_NEAR_MS ahead: if the task is due later, calls of
 * today are taken to be over by then.
 *
 * The store's part of the answer (explain_facts.h) is read before, on the thread of the request. */
#include "node/breaker_table.h"
#include "node/explain_facts.h"
#include "node/scheduler/scheduler.h"
#include "node/worker/worker.h"

#define EXPLAIN_GATE_MAP(X)                                                                                            \
    X(NONE, "none") /* it is about to be claimed */                                                                    \
    X(DUE_TIME, "due_time")                                                                                            \
    X(ARMED, "armed") /* claimed; fires when it is due */                                                              \
    X(RUNNING, "running")                                                                                              \
    X(FINAL, "final")                                                                                                  \
    X(PAUSED, "paused")                                                                                                \
    X(DEPENDENCY, "dependency")                                                                                        \
    X(SIGNAL, "signal") /* of a workflow */                                                                            \
    X(EXPIRED, "expired")                                                                                              \
    X(DEADLINE, "deadline") /* of a workflow's run: it is stopped then, whatever holds it */                           \
    X(CALENDAR, "calendar") /* the next time of its schedule is left out */                                            \
    X(SCHEDULE_END, "schedule_end")                                                                                    \
    X(OVERLAP, "overlap")                                                                                              \
    X(CONCURRENCY_KEY, "concurrency_key")                                                                              \
    X(RECOVERY, "recovery") /* the node has just started after a crash */                                              \
    X(STORE, "store")       /* it takes no claims */                                                                   \
    X(SUSPECT, "suspect")                                                                                              \
    X(QUEUE_PAUSED, "queue_paused")                                                                                    \
    X(QUEUE_RATE, "queue_rate")                                                                                        \
    X(QUEUE_CONCURRENCY, "queue_concurrency")                                                                          \
    X(TENANT_DISABLED, "tenant_disabled")                                                                              \
    X(TENANT_LIMIT, "tenant_limit")                                                                                    \
    X(HOST_BUSY, "host_busy")                                                                                          \
    X(NO_WORKER, "no_worker")     /* no worker of the fleet can run it */                                              \
    X(FLEET_QUEUE, "fleet_queue") /* it waits in the fleet's queue for a worker */                                     \
    X(QUEUE_DOWN, "queue_down")   /* the fleet's queue does not answer */                                              \
    X(TENANT_SHARE, "tenant_share")                                                                                    \
    X(TENANT_BREAKER, "tenant_breaker")                                                                                \
    X(HOST_BREAKER, "host_breaker")                                                                                    \
    X(NO_FREE_SLOT, "no_free_slot")                                                                                    \
    X(BACKLOG, "backlog")                                                                                              \
    X(WORKER, "worker") /* an outside worker must ask for it */                                                        \
    X(LEASED, "leased")
enum explain_gate {
#define X(id, name) EXPLAIN_##id,
    EXPLAIN_GATE_MAP(X)
#undef X
};
const char *explain_gate_name(enum explain_gate g);

/* What will happen. ENDED: nothing, it is over. */
#define EXPLAIN_OUTCOME_MAP(X) X(RUN) X(SKIPPED) X(EXPIRED) X(ENDED) X(UNKNOWN)
enum explain_outcome {
#define X(name) EXPLAIN_WILL_##name,
    EXPLAIN_OUTCOME_MAP(X)
#undef X
};
const char *explain_outcome_name(enum explain_outcome o);

enum {
    EXPLAIN_TEXT = 800,
    EXPLAIN_SENTENCE = 1200,
    EXPLAIN_STEPS_MAX = 10,
    EXPLAIN_HOLDS_MAX = 2,
    EXPLAIN_EXACT_MS = 500, /* an estimate that may be wrong by more is none */
};

/* A gate ahead of the task. */
struct explain_step {
    enum explain_gate gate;
    int64_t until_ms; /* when it lets the task go; 0: not known */
    char text[EXPLAIN_TEXT];
};

struct explanation {
    enum explain_outcome outcome;
    int64_t estimate_ms;    /* when that happens: the call starts, or it is skipped or expires; 0: not known */
    int64_t position;       /* how many are ahead of it in its line; -1: not known */
    bool waits;             /* it is RUNNING in the store, and is known not to have started */
    int64_t started_ms;     /* it runs on this node since then; 0: not known */
    bool needs_people;      /* nothing happens before a person, or a worker that joins, opens a gate */
    int64_t not_before_ms;  /* it does not start earlier; 0: it has started, perhaps */
    int64_t resumes_ms;     /* SKIPPED because of an earlier run that does not start before; 0: it runs, or is paused */
    enum explain_gate gate; /* that holds it now: the first step, or the state that it is in */
    char text[EXPLAIN_SENTENCE]; /* what holds it, and what will happen */
    size_t n;
    struct explain_step steps[EXPLAIN_STEPS_MAX]; /* in the order in which the task meets them */
};

/* A gate of the task itself, which it meets before all others: its pause, or the tasks that it waits for. */
struct explain_hold {
    enum explain_gate gate;
    int64_t until_ms; /* when it ends by itself; 0: not known */
    const char *why;  /* why it is not known when the task goes on; NULL: it goes on at until_ms */
    char text[EXPLAIN_TEXT];
};

struct explain_holds {
    size_t n; /* 0: the task is neither PAUSED nor TASK_WAITS */
    struct explain_hold v[EXPLAIN_HOLDS_MAX];
};

/* The task as it is when all of them have ended: SCHEDULED, and not due before. Of a recurring task, an occurrence. */
struct task explain_behind(const struct task *t, const struct explain_holds *holds, int64_t now_ms);

__attribute__((format(printf, 4, 5))) void explain_add(struct explanation *x, enum explain_gate gate, int64_t until_ms,
                                                       const char *fmt, ...);
/* There is no gate: `text` is all that there is to say. */
__attribute__((format(printf, 3, 4))) void explain_state(struct explanation *x, enum explain_gate gate, const char *fmt,
                                                         ...);

/* The modules that are asked. */
struct explain_view {
    struct scheduler *scheduler;
    struct worker *worker;
    struct worker *fleet_worker;         /* takes from the shared queue, in this process; NULL: none */
    const struct catalog_cache *catalog; /* NULL: none */
    const struct breaker_table *breakers;
    bool recovering;
};

/* t is neither final nor RECURRING. If it is PAUSED or waits for other tasks, it is given as explain_behind makes it,
 * with its holds; NULL: none. */
void explain(const struct explain_view *v, const struct task *t, const struct explain_holds *holds,
             const struct explain_facts *facts, int64_t now_ms, struct explanation *ret);
/* The outcome of a task that starts nothing, and that only others let go on, as `why` says. `ret` has its gates. */
void explain_held_by_others(const char *why, struct explanation *ret);

#pragma once
/* role/node.h - one process's scheduler, worker and updater, tied together.
 *
 * The loop calls node_step with the time, after it has delivered the operations that completed, and whenever something
 * happened; the answer is when to call again. Recovery, recall and drain are here because they need all three. */
#include "role/explain.h"
#include "role/updater.h"

struct node_setup {
    struct writer *writer;
    struct queue *queue;
    struct events *events;
    struct zoneinfo *zones;
    struct book *book; /* NULL: no rules, no calendars */
    struct metrics *metrics;
    struct runner *runners[RUNNER_KINDS];
    struct str name; /* host and process, for the record */
    uint64_t seed;
    size_t slots;
    int64_t spawn_ahead_ms, arm_min_ms, arm_max_ms, poll_ms, visibility_ms;
    void (*observe)(void *context, const struct event *e,
                    const struct settlement *s);                /* NULL, or told what was settled */
    void (*observe_gated)(void *context, const struct task *t); /* NULL, or told what found no slot, as it is then */
    void *observe_context;
};

struct node;

struct node *node_new(const struct node_setup *setup, int64_t now_ms);
void node_free(struct node *n); /* idle */

/* now in microseconds since 1970; answers in milliseconds. INT64_MAX: only when something happens. */
int64_t node_step(struct node *n, int64_t now_us);

void node_know_lane(struct node *n, struct lane lane);
void node_nudge(struct node *n, const struct task *tasks, size_t count, int64_t now_ms);

/* A put let somebody go on who waited for a slot (its ret_woke); UINT64_MAX: nobody knows, its answer was lost. */
void node_woke(struct node *n, uint64_t lanes);

/* The book has changed: that holds from now on. */
void node_rules_changed(struct node *n, int64_t now_ms);

/* How a queue stands: what was claimed of it here and is not settled, and what holds it back. */
struct queue_standing {
    struct str name;
    bool known; /* else no task of it has been seen */
    size_t held;
    struct lane_hold hold; /* of the class that waits least */
};
void node_queue(struct node *n, int32_t tenant, int64_t now_ms, struct queue_standing *q); /* by its name */

/* Why a task that is SCHEDULED or RUNNING, and not RECURRING, has not run yet. */
void node_explain(struct node *n, const struct task *t, int64_t now_ms, struct explanation *ret);

/* A user changes a task that is claimed. If it has not fired it is taken back and becomes `replace`, in one transaction with
 * the record of the request's key (RECALL_DONE). If it runs and abort is set, it is asked to end (RECALL_ABORTING): its outcome will
 * be settled as cancelled, and the caller looks again. If its key has a record by now, the task is let go and the stored answer
 * holds (RECALL_ANSWERED). Else nothing happens (RECALL_RUNNING). The struct is the caller's until done. */
enum recall_result { RECALL_DONE, RECALL_ABORTING, RECALL_RUNNING, RECALL_ANSWERED };

struct recall {
    const struct task *running; /* as it was claimed */
    const struct task *replace;
    const struct idempotency *idempotency; /* NULL: none */
    bool abort;
    void (*done)(struct recall *r);
    void *context;
    enum recall_result result;
    bool known; /* RECALL_RUNNING: it runs here or has just ended; else its claim has yet to arrive here: ask again */
    struct op_settle op; /* from here on the node's */
    struct settlement settlement;
    struct node *node;
    struct list link;
    int64_t retry_at_ms;
    bool tried; /* and failed, or its answer was lost */
};
void node_recall(struct node *n, struct recall *r);

/* Stops claiming, hands back what has not fired and lets what runs finish; node_give_up ends that by force. */
void node_drain(struct node *n);
void node_give_up(struct node *n);
bool node_is_idle(const struct node *n);

struct node_status {
    struct scheduler_status scheduler;
    struct uuid id;
    size_t running, queued;
    bool recovering, draining;
};
struct node_status node_status(const struct node *n);
/* Breakers that are not simply closed, in no order. */
void node_each_breaker(struct node *n, int64_t now_ms, void (*see)(void *context, const struct breaker_view *b),
                       void *context);

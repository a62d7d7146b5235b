#pragma once
/* node/node.h - one process's scheduler, worker and updater, tied together.
 *
 * The loop calls node_step with the time, after it has delivered the operations that completed, and whenever something
 * happened; the answer is when to call again. Recovery, recall and drain are here because they need all three.
 *
 * Time. The step functions of a node and its modules take a struct moment (core/time/moment.h) and follow one rule:
 *  - a relative wait (a retry, a poll, a timeout, the interval between two questions) is kept in steady milliseconds and is
 *    immune to somebody setting the clock; only due times, the times of tasks and the store's times are wall time;
 *  - a step returns the wall time in milliseconds at which it wants to be called again, or INT64_MAX. A module converts
 *    its steady waits with moment_wall_at when it returns. Whoever drives the node steps it at once when the clock is set,
 *    so that they are converted anew;
 *  - a wall clock that was set forward makes due what is due by it. One that was set back is noticed by node_step, which
 *    tells the scheduler (scheduler_on_clock_set_back), and nobody else: what has not fired waits anew, and the recurring
 *    tasks are looked at again. Cursors do not move back. */
#include "node/cluster/membership.h"
#include "node/explain.h"
#include "node/recall.h"
#include "node/updater/updater.h"

/* What a node does besides answering its API. */
enum { NODE_SCHEDULER = 1, NODE_WORKER = 2, NODE_UPDATER = 4, NODE_ALL = 7 };

struct node_setup {
    struct writer *writer;
    struct clock
        *clock;      /* to know when we were stopped, and corrected by the store's; node_step is given what it shows */
    bool shared;     /* other nodes may be on the store */
    int64_t beat_ms; /* 0: MEMBERSHIP_BEAT_MS */
    struct str version;        /* of the program, for the others */
    struct async_io *async_io; /* to the queue and the events */

    /* In a fleet others take from that queue, and what it has confirmed is the queue's, whatever becomes of this node. */
    bool fleet;
    struct async_io *own; /* with it: a queue and events in memory, for what runs or ends in this process */
    bool fallback;        /* while the queue is down, what is due runs in this process; else it waits */
    size_t waiting; /* that may wait in the queue, of all nodes together; 0: half of the workers' slots, at least 100 */
    bool lease;     /* who leads is for the courier's lease to say, not for the store */
    unsigned roles; /* NODE_…; 0: all. Who does not schedule neither claims nor spawns */
    const struct queue_filter *filter; /* what its worker serves; NULL: all that requires no label. Borrowed */
    void (*describe_worker)(void *context, struct jw *w); /* as worker_setup's */
    void (*notify_settled)(void *context, const struct fenced_id *settled,
                           size_t n); /* those who hold them: tasks that were settled here */
    void (*read_lanes)(
        void *context); /* a task comes again that was claimed in another life of this node: its lane may be unknown.
                                          NULL: somebody looks for lanes by himself, as where the store is shared */

    struct zoneinfo *zones;
    struct catalog_cache *catalog; /* NULL: no rules, no calendars */
    struct metrics *metrics;
    struct runner *runners[RUNNER_KINDS];
    struct str name; /* host and process, for the record */
    uint64_t seed;
    size_t slots;
    int64_t spawn_ahead_ms, arm_min_ms, arm_max_ms, poll_ms, visibility_ms;
    void (*observe)(void *context, const struct event *e,
                    const struct settlement *s);                /* NULL, or told what was settled */
    void (*observe_gated)(void *context, const struct task *t); /* NULL, or told what found no slot, as it is then */
    void (*rejoined)(void *context, struct uuid id);            /* NULL, or told that it is another node from now on */
    void *observe_context;
};

struct node;

struct node *node_new(const struct node_setup *setup, struct moment now);
void node_free(struct node *n); /* idle */

/* Does all that is to be done at `now`. Answers when to call again though nothing happened: wall time in milliseconds,
 * INT64_MAX: only when something happens. */
int64_t node_step(struct node *n, struct moment now);

void node_nudge(struct node *n, const struct task *tasks, size_t count);

/* Other nodes have done something that concerns this one (struct store_notice): one came, left or was buried. */
void node_on_nodes_changed(struct node *n);

/* Duties that one node does for all are this one's; on a store that is not shared they are, always. */
bool node_is_leader(const struct node *n);

/* What the nodes of the store looked like at the last beat; it changes with the generation, on the node's thread. */
const struct node_rows *node_others(const struct node *n);
uint64_t node_others_generation(const struct node *n);

/* A put let somebody go on who waited for a slot (its ret_unblocked_lanes); UINT64_MAX: nobody knows, its answer was lost. */
void node_on_lanes_unblocked(struct node *n, uint64_t lanes);

/* What other nodes have done (port/store.h): something is due in any lane; these lanes are there; rules have changed; a task that is held here is wished back;
 * one that was wished is given back. Each may be said for nothing. */
void node_on_due(struct node *n, int64_t due_ms);
void node_know_lanes(struct node *n, const struct lane *lanes, size_t count);
void node_await_rules(struct node *n, bool await); /* they are being read; they have been, or could not be */
void node_on_recall_request(struct node *n);
void node_on_recall_returned(struct node *n);
void node_on_settled_elsewhere(struct node *n, const struct fenced_id *settled,
                               size_t count); /* store_notice.settled */

/* How the queue of a fleet was found the last time, about every second; false: it does not answer. */
bool node_queue_state(const struct node *n, struct queue_state *ret);

/* The book has changed: that holds from now on. */
void node_rules_changed(struct node *n);

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

/* A user changes a task that is claimed; where other nodes share the store (setup.shared), by one of them perhaps. */
void node_recall(struct node *n, struct recall *r);

/* A worker outside asks for tasks (node/lease/leasing.h); one that had leased a task from that queue has reported, and whom that let go on.
 * What is waited for is answered: nothing, and from now on at once. */
struct lease_ask;
void node_lease(struct node *n, struct lease_ask *a, struct moment now);
void node_on_lease_settled(struct node *n, int32_t tenant, struct str queue, uint64_t unblocked);
void node_stop_leasing(struct node *n);

/* Stops claiming, hands back what has not fired and lets what runs finish; node_give_up ends that by force. */
void node_drain(struct node *n);
void node_give_up(struct node *n);
bool node_is_idle(const struct node *n);

struct node_status {
    struct scheduler_status scheduler;
    struct uuid id;
    size_t running, queued, partitions;
    bool recovering, draining, leader;
    bool aside;       /* it schedules nothing: others do */
    bool fenced;      /* its beats are not answered: nothing fires */
    int64_t skew_us;  /* by which the machine's clock is behind the store's; 0: as far as known, not at all */
    int64_t error_us; /* of that, at most */
};
struct node_status node_status(const struct node *n);
/* Breakers that are not simply closed, in no order. */
void node_each_breaker(struct node *n, int64_t now_ms, void (*see)(void *context, const struct breaker_view *b),
                       void *context);

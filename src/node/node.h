#pragma once
/* node/node.h - one Belfry process: its scheduler, worker, updater and membership, stepped together.
 *
 * The loop calls node_step after it has delivered completed operations, and whenever something happened. The result
 * says when to call again. Recovery, recall and drain are part of the node because they need all of its modules.
 *
 * Threads. A node belongs to the loop's thread: its first step takes ownership, and every function below asserts it.
 * Other threads reach the node through loop_call (platform/loop_uv.h). node_new may run on another thread before the
 * loop runs, node_free after the loop has ended.
 *
 * Time. The step functions of a node and its modules take a struct moment (core/time/moment.h) and follow these
 * rules:
 *  - A relative wait (a retry, a poll, a timeout, the interval between two questions) is kept in steady
 *    milliseconds. Setting the wall clock does not change it. Only due times, the times of tasks and the store's
 *    times are wall time.
 *  - A step returns the wall time in milliseconds at which it wants to be called again, or INT64_MAX. Each module
 *    converts its steady waits with moment_wall_at when it returns. Whoever drives the node steps it at once if the
 *    wall clock is set, so that the waits are converted anew.
 *  - If the wall clock is set forward, tasks become due by it at once.
 *  - If the wall clock is set back, node_step tells the scheduler (scheduler_on_clock_set_back), and no other
 *    module: tasks that have not fired wait anew, and the spawner visits all recurring tasks again. Cursors do not
 *    move back. */
#include "node/cluster/membership.h"
#include "node/explain.h"
#include "node/recall.h"
#include "node/updater/updater.h"

/* The roles of a node. Every node answers its API. */
enum { NODE_SCHEDULER = 1, NODE_WORKER = 2, NODE_UPDATER = 4, NODE_ALL = 7 };

struct tenant_set;
struct node_setup {
    struct writer *writer;
    struct planner *planner; /* of runs of workflows; NULL: they wait */
    size_t open_rows;        /* of a page that opens a run; 0: as many as the store takes */
    /* Membership reads it to notice that the process was stopped, and corrects it by the store's clock. */
    struct clock *clock;
    bool shared;               /* other nodes may use the same store */
    int64_t heartbeat_ms;      /* 0: MEMBERSHIP_HEARTBEAT_MS */
    struct str version;        /* of the program; other nodes show it */
    struct async_io *async_io; /* to the queue and the events */

    /* A fleet: workers of other processes take from the queue. A claim that the queue has confirmed is the queue's,
     * whatever happens to this node. */
    bool fleet;
    struct async_io *own; /* fleet: a queue and events in memory, for tasks that run or end in this process */
    bool fallback;        /* while the queue is down, due tasks run in this process; otherwise they wait */
    /* How many tasks of a pool of workers may wait in the queue, for all nodes together; 0: half of the pool's slots,
     * and up to 100 if tasks end fast. */
    size_t waiting;
    bool lease;     /* the leader is chosen by a lease of async_io, not by the store */
    unsigned roles; /* NODE_…; 0: all. A node without NODE_SCHEDULER neither claims nor spawns */
    /* Which tasks its worker serves; NULL: every task that requires no label. Borrowed. */
    const struct queue_filter *filter;
    void (*describe_worker)(void *context, struct jw *w); /* as worker_setup.describe */
    /* Tells the other nodes which tasks were settled here. */
    void (*notify_settled)(void *context, const struct fenced_id *settled, size_t n);
    /* Reads the lanes from the store: a task that an earlier life of this node had claimed is SCHEDULED again, and
     * its lane may be unknown. NULL: lanes are read regularly, as on a shared store. */
    void (*read_lanes)(void *context);

    struct zoneinfo *zones;
    struct catalog_cache *catalog; /* NULL: no rules, no calendars */
    struct tenant_set *needs;      /* NULL: a tenant may have as many combinations of needs as it wants */
    struct metrics *metrics;
    struct tracer *tracer; /* NULL: no spans are recorded */
    struct runner *runners[RUNNER_KINDS];
    struct str name; /* host and process, for the record */
    uint64_t seed;
    size_t slots;
    int64_t spawn_ahead_ms, arm_min_ms, arm_max_ms, ahead_ms, poll_ms, visibility_ms;
    size_t ahead_bytes; /* memory of tasks that are claimed ahead_ms before they are due */
    /* On a store that is not shared: when the process before this one last fired a task (wall), if that is known. */
    bool knows_last_fire;
    int64_t last_fired_ms;
    void (*before_fire)(void *observe_context,
                        int64_t now_ms); /* tasks are about to fire; NULL: nobody wants to know */
    /* NULL, or called for each settled task. */
    void (*observe)(void *context, const struct event *e, const struct settlement *s);
    /* NULL, or called for each attempt that begins in this process, and for each occurrence that was written or may
     * have been. */
    void (*observe_started)(void *context, const struct task *t);
    void (*observe_spawned)(void *context, const struct task *occurrence);
    /* NULL, or called for each run, map and wait for a signal that this node begins. */
    void (*observe_opened)(void *context, const struct task *t);
    /* NULL, or adds members to the document that other nodes read (struct node_row). */
    void (*describe)(void *context, struct jw *w);
    /* NULL, or called for each task that found no free slot, and for each missed occurrence that is skipped, as it is
     * now; for each task that expired before it started. */
    void (*observe_gated)(void *context, const struct task *t, bool is_missed);
    void (*observe_expired)(void *context, const struct task *t, enum task_state from);
    /* NULL, or called when the node was marked dead and joins again under another id. */
    void (*rejoined)(void *context, struct uuid id);
    void *observe_context;
};

struct node;

struct node *node_new(const struct node_setup *setup, struct moment now);
void node_free(struct node *n); /* idle */

/* Does everything that is to be done at `now`. Returns when to call again although nothing happened, in wall
 * milliseconds; INT64_MAX: only when something happens. */
int64_t node_step(struct node *n, struct moment now);

void node_nudge(struct node *n, const struct task *tasks, size_t count);

/* Another node joined, left or was marked dead (struct store_notice). */
void node_on_nodes_changed(struct node *n);

/* Whether this node does the duties that one node does for all. On a store that is not shared, it always does. */
bool node_is_leader(const struct node *n);

/* The nodes of the store as of the last heartbeat. The rows change when the generation does. */
const struct node_rows *node_others(const struct node *n);
uint64_t node_others_generation(const struct node *n);

/* A write unblocked tasks that waited for a concurrency slot or for other tasks (its ret_unblocked_lanes); UINT64_MAX:
 * its answer was lost, or it has left arrivals for OP_ARRIVE (op_unblocked). */
void node_on_lanes_unblocked(struct node *n, uint64_t lanes);

/* Notices of other nodes (port/store.h), each perhaps for nothing: a task is due, in any lane; these lanes exist;
 * rules have changed; another node requests a task that is held here; a task that this node requested was returned;
 * tasks were settled. */
void node_on_due(struct node *n, int64_t due_ms);
void node_know_lanes(struct node *n, const struct lane *lanes, size_t count);
/* True: the changed rules are being read. false: they have been read, or could not be. */
void node_await_rules(struct node *n, bool await);
void node_on_recall_request(struct node *n);
void node_on_recall_returned(struct node *n);
/* All circuit breakers that the store has; a user has closed this one ("*": the tenant's own). */
void node_follow_breakers(struct node *n, const struct breaker_row *rows, size_t count);
void node_on_breaker_closed(struct node *n, int32_t tenant, struct str host);
/* store_notice.settled. */
void node_on_settled_elsewhere(struct node *n, const struct fenced_id *settled, size_t count);

/* The state of the fleet's queue, refreshed about every half second; false: the queue does not answer. */
bool node_queue_state(const struct node *n, struct queue_state *ret);

/* The catalog cache has changed: its rules hold from now on. */
void node_rules_changed(struct node *n);

/* What this node knows of one queue: how many of its tasks are claimed here and not settled, and what holds it back. */
struct queue_standing {
    struct str name;
    bool known; /* false: no task of the queue has been seen */
    size_t held;
    struct lane_hold hold; /* of the priority class that waits least */
};
void node_queue(struct node *n, int32_t tenant, int64_t now_ms, struct queue_standing *q); /* q->name says which */

/* What will happen to a task, and what holds it (explain). */
void node_explain(struct node *n, const struct task *t, const struct explain_holds *holds,
                  const struct explain_facts *facts, int64_t now_ms, struct explanation *ret);

/* A user changes a task that is claimed. If the store is shared, another node may hold it. */
void node_recall(struct node *n, struct recall *r);

/* Leases (node/lease/leasing.h): an external worker asks for tasks; the task of a lease was settled by its worker's
 * report, which unblocked these lanes; shutdown: every waiting ask is answered with nothing, and later ones at once. */
struct lease_ask;
void node_lease(struct node *n, struct lease_ask *a, struct moment now);
void node_on_lease_settled(struct node *n, int32_t tenant, struct str queue, uint64_t unblocked);
void node_stop_leasing(struct node *n);

/* Stops claiming, returns tasks that have not fired and lets running tasks finish. node_give_up ends running tasks by
 * force. */
void node_drain(struct node *n);
void node_give_up(struct node *n);
bool node_is_idle(const struct node *n);

/* Of a fleet; else 0. */
struct node_workers {
    int64_t count, slots;
};

struct node_status {
    struct scheduler_status scheduler;
    struct uuid id;
    size_t running, queued, partitions;
    struct node_workers workers;
    bool recovering, draining, leader;
    bool aside;            /* it does not schedule: other nodes do */
    bool fenced;           /* its heartbeats are not answered: nothing fires */
    int64_t store_lost_ms; /* wall: its claims or its heartbeats fail since then; 0: they do not */
    int64_t skew_us;      /* by how much the machine's clock is behind the store's; 0: not at all, as far as is known */
    int64_t error_us;     /* of skew_us, at most */
    int64_t clock_set_ms; /* wall: when the clock was set, in the last minutes; 0: it was not */
    int64_t clock_jump_ms; /* by how much */
};
struct node_status node_status(const struct node *n);
/* What due tasks lack because no worker has it, with the number of their lanes, in no order. */
void node_each_missing(const struct node *n, void (*see)(void *context, const struct pool_shortage *s, size_t lanes),
                       void *context);
/* Tenants with tasks that this node runs, or is about to, in no order. */
void node_each_tenant(const struct node *n, void (*see)(void *context, int32_t tenant, size_t running), void *context);
/* Every circuit breaker that is not simply closed, by tenant, then by host; in a fleet in no order. */
void node_each_breaker(struct node *n, int64_t now_ms, void (*see)(void *context, const struct breaker_view *b),
                       void *context);

#pragma once
/* node/node_internal.h - what node*.c share.
 *
 *  - node.c creates the modules and steps them
 *  - node_notices.c: notices from this process and from other nodes
 *  - node_view.c: what a node shows of itself
 *  - node_peers.c: callbacks of membership, and recall requests of other nodes
 *  - node_recall.c: takes back tasks that users change
 *  - node_leases.c: leases for external workers
 *  - node_fleet.c: a queue that other processes share
 *  - node_drain.c: empties the queue of this process */
#include "base/thread_owner.h"
#include "node/arrivals.h"
#include "node/breaker_table.h"
#include "node/cluster/recall_requests.h"
#include "node/cluster/recovery.h"
#include "node/fleet/delivery_timeout.h"
#include "node/fleet/handoff.h"
#include "node/fleet/held_audit.h"
#include "node/fleet/reconcile.h"
#include "node/lease/leasing.h"
#include "node/node.h"
#include "node/scheduler/catch_up.h"
#include "node/tenant_needs.h"

/* State that only a node of a fleet has. */
struct node_fleet {
    struct worker *worker;   /* takes from the shared queue; NULL: the node has no NODE_WORKER role */
    struct updater *updater; /* polls the shared events; NULL: no NODE_UPDATER role */
    struct handoff *handoff;
    struct held_audit *held_audit;
    struct delivery_timeout *delivery_timeouts;
    struct reconcile *reconcile;
    struct fenced_id *settled; /* settled here and claimed by another node, which is notified after the batch */
    size_t settled_count, settled_cap;
    bool comes_again;      /* one of them is SCHEDULED again, and its lane may be unknown here */
    size_t io_requests;    /* in flight, of node_fleet.c itself */
    bool abort_is_failing; /* the last request to abort a task failed, and that was logged */
    bool begun;
    struct worker_group own; /* this process as the only worker */
    struct arena own_arena;
    bool here;                   /* it is */
    uint64_t workers_generation; /* of membership, when the scheduler was last told of the workers */
};

struct node {
    struct thread_owner owner; /* the loop's thread, from the first step on */
    struct node_setup setup;   /* own: in a process without a fleet, the same as async_io */
    struct uuid id;
    struct scheduler *scheduler;
    struct worker *worker;
    struct recent_fences *fences; /* of both workers of a fleet's node; NULL: it is in no fleet */
    struct tenant_set *hosts;     /* that have lanes of their own */
    int64_t forget_at_ms;         /* steady: when lanes without tasks may be forgotten again */
    int64_t clock_set_ms;         /* steady: when the wall clock was last set */
    int64_t clock_jump_ms;        /* by how much; 0: never */
    struct updater *updater;
    struct membership *membership;
    struct recovery *recovery;
    struct catch_up_run *catch_up;
    struct recall_requests *recall_requests;
    struct leasing *leasing;
    struct breaker_table *breakers;
    struct arrivals *arrivals;
    struct node_fleet fleet;
    struct prng random;
    enum active_peers active_peers; /* as far as node_settle_in has acted on it */
    bool joined;                    /* and recovery has begun */
    size_t recalls;                 /* with the writer, or with async_io */
    struct list waiting_recalls;
    struct map lasting_recalls;  /* struct fenced_id → struct recall */
    struct list recalls_in_line; /* that last, and wait until fewer of them ask the shared queue */
    size_t recalls_asking;       /* so many do */
    struct moment now;
    /* When the next step comes at the latest; while an operation is in flight, soon. Steady time if the store is
     * shared, else wall time. */
    int64_t expected_ms;
    int64_t wakes_at_ms; /* steady: when the next step was to come; INT64_MAX: when something happens */
    int64_t held_up_ms;  /* steady: when it came much later, and the recall requests have not been read since; 0: no */
    int64_t read_again_ms; /* then: when they are asked for again */
    bool draining;
};

/* Publishes the outcome of a claim that this node holds; its updater settles it. False: the events do not take it. */
bool node_end_claim(struct node *n, const struct settle_facts *t, const struct outcome *o);

void node_leasing_init(struct node *n); /* node_leases.c */
void node_join(struct node *n);         /* node_peers.c, like the next */
void node_serve_recalls(struct node *n);
bool node_is_settled_in(const struct node *n); /* recovery and catch-up are over: it may claim */
size_t node_queued(const struct node *n);

void node_settled(void *context, const struct event *e, const struct settlement *s);
void node_unblocked_before_claim(void *context, uint64_t lanes); /* updater.h */
void node_unblocked(void *context, uint64_t lanes); /* as the modules' `unblocked`: node_on_lanes_unblocked */
void node_on_refused(void *context);                /* the store says that this node is dead */
struct str node_lane_of_host(void *context, int32_t tenant, struct str host);
void node_on_ended(void *context, struct uuid id, int64_t fence);
void node_on_breaker_news(void *context, const struct event *e);
struct reaper_setup node_reaper_setup(struct node *n, uint64_t seed);
enum queue_view node_fleet_view_queue(void *context, uint64_t *ret_epoch); /* as recovery_setup.view_queue */
bool node_has_role(const struct node *n, unsigned role);
struct worker_setup node_worker_setup(const struct node *n, struct async_io *async_io, struct uuid id);

/* ---- functions of a fleet: each does nothing in a process without one ---- */

void node_fleet_init(struct node *n);
void node_fleet_release(struct node *n);
void node_fleet_before(struct node *n); /* before the scheduler's step: says which workers run its tasks */
int64_t node_fleet_step(struct node *n, int64_t behind_ms); /* after the scheduler's step; returns when to call again */
void node_fleet_drain(struct node *n);
bool node_fleet_is_idle(const struct node *n);
void node_fleet_settled(struct node *n, const struct settlement *s); /* before the scheduler is told */
void node_fleet_retaken(void *context, const struct tasks *t);       /* as scheduler_setup.retaken */
/* Notifies other nodes of tasks that were settled since the last call. */
void node_fleet_on_batch_settled(void *context);

/* Ends a task that the queue has or had: takes it out of the queue, or asks its worker to end it. False: the
 * scheduler does not hold the task in the queue. */
bool node_fleet_end(struct node *n, struct uuid id, int64_t fence, struct str why);
void node_fleet_abort(struct node *n, struct uuid id, int64_t fence); /* asks any worker that runs it to end it */

int64_t node_retry_recalls(struct node *n); /* when to call again */

/* Returns all tasks that wait in the queue of this process. */
void node_drain_queue(struct node *n);

#pragma once
/* node/node_internal.h - what node*.c share: node.c ties the parts together and steps them, node_news.c is what it is told, node_view.c what it shows,
 * node_peers.c what it is to other nodes, node_recall.c takes back what users change, node_leases.c gives tasks to who asks for them, node_fleet.c is what
 * it does for a queue that others share, node_drain.c empties a node that goes. */
#include "base/thread_owner.h"
#include "node/cluster/recall_requests.h"
#include "node/cluster/recovery.h"
#include "node/fleet/delivery_timeout.h"
#include "node/fleet/handoff.h"
#include "node/fleet/held_audit.h"
#include "node/fleet/reconcile.h"
#include "node/lease/leasing.h"
#include "node/node.h"
#include "node/scheduler/catch_up.h"

/* What only a node of a fleet has. */
struct node_fleet {
    struct worker *worker;   /* takes from the shared queue; NULL: it is not its role */
    struct updater *updater; /* polls the shared events; NULL as well */
    struct handoff *handoff;
    struct held_audit *held_audit;
    struct delivery_timeout *delivery_timeouts;
    struct reconcile *reconcile;
    struct fenced_id *told; /* settled here, held elsewhere: to be told when the batch is through */
    size_t told_count, told_cap;
    bool comes_again;   /* one of those that were settled, whose lane may be unknown */
    size_t io_requests; /* of its own, in flight */
    bool begun;
};

struct node {
    struct thread_owner owner; /* the loop's thread, from the first step on */
    struct node_setup setup;   /* own: in a process without a fleet, the courier */
    struct uuid id;
    struct scheduler *scheduler;
    struct worker *worker;
    struct updater *updater;
    struct membership *membership;
    struct recovery *recovery;
    struct catch_up_run *catch_up;
    struct recall_requests *recall_requests;
    struct leasing *leasing;
    struct node_fleet fleet;
    struct prng random;
    enum active_peers active_peers; /* as far as it was heeded */
    bool joined;                    /* and recovery was begun */
    size_t recalls;                 /* with the writer, or a courier */
    struct list waiting_recalls;
    struct moment now;
    int64_t
        expected_ms; /* the next step at the latest; while an operation is in flight: soon. If shared, by the steady clock */
    bool draining;
};

/* A claim that is ours ends: whoever settles it gets to know. */
bool node_end_claim(struct node *n, const struct settle_facts *t, const struct outcome *o);

void node_leasing_init(struct node *n); /* node_leases.c */
void node_join(struct node *n);         /* node_peers.c, like the next */
void node_serve_recalls(struct node *n);
bool node_is_settled_in(const struct node *n); /* it knows what there is, and may claim */
size_t node_queued(const struct node *n);

void node_settled(void *context, const struct event *e, const struct settlement *s);
void node_unblocked(void *context, uint64_t lanes); /* as the modules' `unblocked`: node_on_lanes_unblocked */
void node_on_refused(void *context);                /* the store says that this node is dead */
struct reaper_setup node_reaper_setup(struct node *n, uint64_t seed);
bool node_has_role(const struct node *n, unsigned role);
struct worker_setup node_worker_setup(const struct node *n, struct async_io *async_io, struct uuid id);

/* ---- in a fleet: each does nothing in a process without one ---- */

void node_fleet_init(struct node *n);
void node_fleet_release(struct node *n);
void node_fleet_before(struct node *n);                     /* the scheduler's step: how much it may hold */
int64_t node_fleet_step(struct node *n, int64_t behind_ms); /* after it; when to call again */
void node_fleet_drain(struct node *n);
bool node_fleet_is_idle(const struct node *n);
void node_fleet_settled(struct node *n, const struct settlement *s); /* before the scheduler is told */
void node_fleet_retaken(void *context, const struct tasks *t);       /* as scheduler_setup.retaken */
void node_fleet_on_batch_settled(void *context); /* others, of what was settled since the last time */

/* Ends one that the queue has or had: it is taken out, or whoever runs it is asked to end it. False: the scheduler does not hold it
 * there. */
bool node_fleet_end(struct node *n, struct uuid id, int64_t fence, struct str why);
void node_fleet_abort(struct node *n, struct uuid id, int64_t fence); /* whoever runs it, whoever holds it */

int64_t node_retry_recalls(struct node *n); /* when to call again */

/* What waits in the queue of this process is handed back. */
void node_drain_queue(struct node *n);

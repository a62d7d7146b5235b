#pragma once
/* node/cluster/membership.h - this node among the other nodes on its store.
 *
 * A state machine on the loop's thread. It sends heartbeats. From their answers it learns which nodes live, shares
 * the partitions with them, marks silent nodes dead, measures the store's clock and holds the leader's lease. If this
 * node was itself marked dead, it tells the node to drop everything it held, and joins again under a new id.
 *
 * A node counts as silent only while our own heartbeats are answered without a gap: a store that is down kills
 * nobody. A silent node is marked dead later than it stops firing by itself (membership_may_fire). That counts from
 * the moment at which it sent the last heartbeat that was answered, by a clock that goes on while a process is
 * stopped.
 *
 * On a store that is not shared there is a single heartbeat, which says so: every other node is dead. */
#include "base/json/jsonw.h"
#include "base/metrics.h"
#include "core/time/offset.h"
#include "port/async_io.h"
#include "port/clock.h"
#include "port/store.h"

enum { MEMBERSHIP_HEARTBEAT_MS = 500 };

struct membership_setup {
    struct writer *writer;
    struct clock *clock; /* read for steady time, and corrected by the store's clock */
    struct str name, version;
    uint64_t seed;
    bool shared;
    bool fleet;             /* heartbeats tell which workers there are: they go on although the store is not shared */
    bool aside;             /* it does not schedule: it has no partitions, and never leads */
    struct async_io *lease; /* holds the leader's lease; NULL: the store does */
    int64_t heartbeat_ms;   /* after five of them, a silent node is marked dead; after four unanswered, nothing fires */

    void (*describe)(void *context, struct jw *w); /* writes members of the document that other nodes read */
    void (*partitions_changed)(void *context);     /* membership_own has changed */
    void (*marked_dead)(void *context);            /* this node has marked another dead */
    void (*found_dead)(void *context);             /* a dead node had claimed tasks (OP_ORPHANS) */
    void (*recall_requested)(void *context);       /* other nodes request tasks of this node (OP_RECALL_LIST) */
    /* This node was marked dead: everything it held belongs to others. */
    void (*died)(void *context, struct uuid new_id);
    void *context;
};

struct membership;

struct membership *membership_new(const struct membership_setup *setup, struct moment now);
void membership_free(struct membership *m); /* nothing is in flight; NULL is fine */

int64_t membership_step(struct membership *m, struct moment now); /* when to call again */
/* The nodes or the workers have changed, or must be told of something. */
void membership_heartbeat_now(struct membership *m);

/* Wall: when the first of the heartbeats was sent that the store has not taken since; 0: it took the last one. */
int64_t membership_failing_since_ms(const struct membership *m);

struct uuid membership_id(const struct membership *m);
bool membership_has_joined(const struct membership *m);

/* Whether the claims of this node are certainly still its own. Reads the clock: a process that was stopped between
 * two instructions must notice. */
bool membership_may_fire(const struct membership *m);
/* Wall: tasks that are due later do not fire before another heartbeat is answered. The store has that promise: if this
 * node dies, other nodes know that those tasks have not fired. INT64_MAX: the store is not shared. */
int64_t membership_fires_until_ms(const struct membership *m);

/* The partitions of this node; NULL: all. Nodes that are not ready have none. */
const struct partitions *membership_own(const struct membership *m);
bool membership_is_leader(const struct membership *m);

/* Whether other nodes were scheduling tasks until now. To know it, each of them must have shown that it lives, or be
 * marked dead. If several nodes start at once, all but one wait until that one is ready. */
enum active_peers { ACTIVE_PEERS_UNKNOWN, ACTIVE_PEERS_SOME, ACTIVE_PEERS_NONE };
enum active_peers membership_active_peers(const struct membership *m);
/* After an outage of this node: which of the others live is not known. */
void membership_forget_peers(struct membership *m);
void membership_set_ready(struct membership *m, bool ready); /* it schedules the tasks of its partitions */

void membership_close(struct membership *m); /* it claims nothing more: its partitions go to the others */
void membership_leave(struct membership *m); /* it holds nothing any more */
bool membership_has_left(const struct membership *m);
bool membership_in_flight(const struct membership *m);

/* The nodes as of the last heartbeat, borrowed until the next step or answer. The generation rises when they change. */
const struct node_rows *membership_nodes(const struct membership *m);
const struct worker_groups *membership_workers(const struct membership *m); /* of the fleet, borrowed likewise */
size_t membership_ready_count(const struct membership *m);                  /* nodes that schedule; at least 1 */
uint64_t membership_generation(const struct membership *m);
struct offset_view membership_offset(const struct membership *m);
/* By how much the machine's clock is behind the store's; 0: not known. */
int64_t membership_skew_us(const struct membership *m);

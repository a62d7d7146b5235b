#pragma once
/* node/cluster/membership.h - this node among the others on its store (DESIGN §7).
 *
 * A state machine like the scheduler. It beats; from the answers it learns who else lives, shares the partitions with them, buries who
 * has been silent for long enough, measures the store's clock and holds the leader's lease. Who finds itself dead tells the node to drop
 * all that it held, and joins again under a new id.
 *
 * Silence is counted only while our own beats came through without a gap: a store that is down kills nobody. It is longer than the
 * time after which the silent one stops firing by itself (membership_may_fire), which counts from the moment at which it sent the last
 * beat that was answered, by a clock that goes on while a process is stopped.
 *
 * On a store that is not shared there is one beat, which says so: whoever else is there is dead. Then it costs nothing. */
#include "base/json/jsonw.h"
#include "base/metrics.h"
#include "core/time/offset.h"
#include "port/async_io.h"
#include "port/clock.h"
#include "port/store.h"

enum { MEMBERSHIP_BEAT_MS = 500 };

struct membership_setup {
    struct writer *writer;
    struct clock *clock; /* steady: how long ago; and it is corrected by the store's */
    struct str name, version;
    uint64_t seed;
    bool shared;
    bool fleet;             /* beats tell how many workers there are: they go on, though the store is not shared */
    bool aside;             /* it looks after no tasks: it has no share, and never leads */
    struct async_io *lease; /* who leads is its lease to say; NULL: the store's */
    int64_t beat_ms;        /* silent for five of them is dead, four without an answer are too many to fire */

    void (*describe)(void *context, struct jw *w);   /* members of the doc that others may read */
    void (*partitions_changed)(void *context);       /* membership_own has */
    void (*found_dead)(void *context);               /* somebody who died held tasks (OP_ORPHANS) */
    void (*recall_requested)(void *context);         /* tasks of ours are wished back (OP_RECALL_LIST) */
    void (*died)(void *context, struct uuid new_id); /* all that was held is others' now */
    void *context;
};

struct membership;

struct membership *membership_new(const struct membership_setup *setup, struct moment now);
void membership_free(struct membership *m); /* nothing is in flight; NULL is fine */

int64_t membership_step(struct membership *m, struct moment now); /* when it wants to be called again */
void membership_heartbeat_now(struct membership *m); /* something about the nodes has changed, or must be told */

struct uuid membership_id(const struct membership *m);
bool membership_has_joined(const struct membership *m);

/* Whether what we hold is ours still, for sure. Asks the clock: who was stopped between two lines of code must notice. */
bool membership_may_fire(const struct membership *m);

/* Which tasks are ours to look after before others; NULL: all. Nodes that are not ready have no share. */
const struct partitions *membership_own(const struct membership *m);
bool membership_is_leader(const struct membership *m);

/* Whether anybody has looked after the tasks until now. To be known, each of the others must have shown that it lives, or be buried.
 * Of several that come at once, all but one wait until that one is ready. */
enum active_peers { ACTIVE_PEERS_UNKNOWN, ACTIVE_PEERS_SOME, ACTIVE_PEERS_NONE };
enum active_peers membership_active_peers(const struct membership *m);
void membership_forget_peers(struct membership *m);          /* we were away: who knows what has become of the others */
void membership_set_ready(struct membership *m, bool ready); /* we look after our share */

void membership_close(struct membership *m); /* nothing more is claimed: our share is the others' */
void membership_leave(struct membership *m); /* we hold nothing any more */
bool membership_has_left(const struct membership *m);
bool membership_in_flight(const struct membership *m);

/* What the latest beat showed: borrowed until the next step or answer. The generation rises when it changes. */
const struct node_rows *membership_nodes(const struct membership *m);
int64_t membership_worker_slots(const struct membership *m); /* of all workers of the fleet; 0: none was seen */
size_t membership_ready_count(const struct membership *m);   /* nodes that look after tasks; at least 1 */
uint64_t membership_generation(const struct membership *m);
struct offset_view membership_offset(const struct membership *m);
int64_t
membership_skew_us(const struct membership *m); /* our machine's clock is so much behind the store's; 0: not known */

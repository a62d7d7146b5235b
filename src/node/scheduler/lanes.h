#pragma once
/* node/scheduler/lanes.h - which lanes have something due, and how much of each may be claimed now.
 *
 * A lane remembers the earliest due time in it: from what claims said is left, and from nudges. So a claim asks only lanes with
 * something due, and what holds a lane back (a pause, a rate, a limit, a breaker) costs nothing until it may be over: a time, or an
 * event that is told here. How the room is shared is core/fair's to say, within the limits that the book has of queues and tenants.
 *
 * Counts are of what was claimed here and is not settled; where limits are shared with other nodes, they are held against this node's part. A rate counts what fires: what was claimed a hair early takes its token at
 * the moment of firing (lanes_may_fire). */
#include "core/sharing/breaker.h"
#include "core/sharing/fair.h"
#include "core/time/moment.h"
#include "node/catalog_cache.h"
#include "port/store.h"

struct lanes_setup {
    const struct catalog_cache *catalog; /* NULL: no rules for anybody */
    struct breakers *breakers;           /* of tenants; NULL: none */
    size_t slots;
    struct writer *
        writer; /* NULL: limits are this node's alone; else they hold for all nodes of the store, see node/scheduler/limit_shares.h */
    const struct uuid *node; /* with a writer: who this is, from time to time */
};

struct lanes;
struct lane_entry; /* of a lane that is known; as long as the lanes are */

struct lanes *lanes_new(const struct lanes_setup *setup);
void lanes_free(struct lanes *l); /* NULL is fine */

struct lane_entry *lanes_know(struct lanes *l, struct lane lane);
struct lane_entry *lanes_get(const struct lanes *l, struct lane lane); /* NULL: not known */
size_t lanes_count(const struct lanes *l);

/* Something is due there, or may be. */
void lanes_due(struct lanes *l, struct lane_entry *e, int64_t due_ms, bool suspect);
void lanes_on_unblocked(struct lanes *l, uint64_t unblocked, int64_t now_ms); /* ret_unblocked_lanes of an operation */
void lanes_all_due(struct lanes *l, int64_t now_ms);                          /* who knows: ask them all */

/* The book has changed, or the clock was set: whatever was closed is looked at again. */
void lanes_rules_changed(struct lanes *l);

/* Sees to limits that are shared with other nodes; claiming: an answer is awaited. When to call again. */
int64_t lanes_step(struct lanes *l, struct moment now, bool claiming);
bool lanes_is_idle(const struct lanes *l); /* nothing is under way */

/* How many may be held at once, from now on. */
void lanes_set_slots(struct lanes *l, size_t slots);

/* How early lanes are asked. */
void lanes_set_window(struct lanes *l, int64_t window_ms);

/* Suspects stand apart: they are asked for in rounds of their own. */
enum lanes_wanted { LANES_DUE, LANES_SUSPECT, LANES_EITHER };

/* When a claim is worth making; INT64_MAX: only when something happens. */
int64_t lanes_next_ms(const struct lanes *l, enum lanes_wanted wanted);

/* What a claim is to ask for: quotas of some lanes, or one suspect of some. */
struct lanes_round {
    struct lane_quota *v;
    struct lane_entry **entries;
    size_t n;
    bool suspects; /* one, and nothing else */
    int64_t until_ms;
    struct fair_round fair;
};

/* False: there is nothing to ask for now. At most one round is open: it ends with lanes_answered, or with lanes_answer_lost when
 * nobody knows what came of it. */
bool lanes_ask(struct lanes *l, size_t room, enum lanes_wanted wanted, struct moment now, struct lanes_round *ret);
void lanes_answered(struct lanes *l, struct lanes_round *r, const struct op_claim *answer);
void lanes_answer_lost(struct lanes *l, struct lanes_round *r);

/* A task of this lane was claimed; has fired, or was taken back before it did; has been settled. */
void lanes_on_claimed(struct lanes *l, struct lane_entry *e);
void lanes_on_unarmed(struct lanes *l, struct lane_entry *e);
void lanes_on_settled(struct lanes *l, struct lane_entry *e, bool taken_back);

/* Whether one that is due may fire now; then it has taken its token. Else, when to ask again. */
bool lanes_may_fire(struct lanes *l, struct lane_entry *e, int64_t now_ms, int64_t *ret_when_ms);
void lanes_not_fired(struct lanes *l, struct lane_entry *e, int64_t now_ms); /* though it might: it is armed again */

/* What holds a lane back. */
#define LANE_GATE_MAP(X)                                                                                               \
    X(NONE) X(PAUSED) X(RATE) X(CONCURRENCY) X(TENANT_DISABLED) X(TENANT_LIMIT) X(TENANT_SHARE) X(TENANT_BREAKER)
enum lane_gate {
#define X(name) LANE_##name,
    LANE_GATE_MAP(X)
#undef X
};

struct lane_hold {
    enum lane_gate gate;
    int64_t until_ms; /* INT64_MAX: until something happens; NONE: 0 */
};
struct lane_hold lanes_hold_of(struct lanes *l, struct lane_entry *e, int64_t now_ms);

/* Leases (node/lease/leasing.h): how many of the lane's queue may be given now; 0: *ret says why. Claims under way have begun, for at most so
 * many, and end with what was given. If `counts`, what was given counts here until lanes_lease_over; else the store counts it. */
int64_t lanes_lease_room(struct lanes *l, struct lane_entry *e, struct moment now, struct lane_hold *ret);
void lanes_lease_begin(struct lanes *l, struct lane_entry *e, size_t n);
void lanes_lease_end(struct lanes *l, struct lane_entry *e, size_t n, size_t given, int64_t now_ms, bool counts);
void lanes_lease_over(struct lanes *l, int32_t tenant, struct str queue);
void lanes_lease_found(struct lanes *l, int32_t tenant, struct str queue); /* it was given before this node began */

/* Whether one that was claimed and has not fired is to be given back, because its queue or tenant may run nothing any more, or less
 * than it did. Yes is said once: it is on its way back then, until it is settled. */
bool lanes_is_to_return(struct lanes *l, struct lane_entry *e, int64_t now_ms);

/* Whether one that runs may be claimed anew in place: it may run, and counts here already (held), or nothing counts what its queue and
 * tenant run. */
bool lanes_may_retake(struct lanes *l, struct lane_entry *e, bool held, int64_t now_ms);

struct lane_facts {
    size_t queue_held, tenant_held;
    int64_t queue_limit, tenant_limit;         /* 0: none */
    int64_t queue_elsewhere, tenant_elsewhere; /* places that this node wanted and other nodes have */
    int64_t next_due_ms;                       /* of the lane's head, as far as known */
};
struct lane_facts lanes_facts(struct lanes *l, struct lane_entry *e);

/* The earliest due time in lanes of a class that nobody has closed on purpose; INT64_MAX: none. */
int64_t lanes_oldest_ms(const struct lanes *l, enum priority_class class_);

#pragma once
/* port/store_fleet.h - what a store is asked about tasks that others run: workers of a fleet, and those who lease them (DESIGN §7). A part
 * of port/store.h, which includes it. */
#include "core/task/task.h"
#include "port/op.h"

/* OP_HANDOFF: a queue has all tasks of these claims: it owns them from now on, and the node's death changes nothing (OP_ORPHANS). Claims of this
 * node's that hold nothing any more are passed over. What is kept with each is the queue's epoch in which it was pushed, for OP_HANDED_OFF; of
 * one that was handed before, as it was. A node that is marked dead hands nothing: ERR_CONFLICT, field "node". */
struct op_handoff {
    struct op op;
    struct uuid node;
    const struct uuid *claims;
    const uint64_t *epochs; /* of each; 0: not known, and NULL: of none */
    size_t n;
};

/* OP_HANDED_OFF: RUNNING tasks of handed claims that are no leases, made (uuid_time_ms of the claim) before before_ms; claim by claim and in it
 * task by task, by their ids; those behind `after`, at most max: for who asks the queue whether it still knows them, and settles what it
 * does not. So there is no payload or extra in them, and a target_config only in those that may run but once, whose failure has a cause.
 * With each comes the epoch that its claim was handed with. Tasks are of any size: one is told of only if the target_configs of those before it have fewer than max_bytes together. */
struct handed_place {
    struct uuid claim, task;
};

struct op_handed_off {
    struct op op;
    int64_t before_ms;
    struct handed_place after; /* nil: from the first on */
    size_t max;
    size_t max_bytes; /* 0: whatever they have */
    struct tasks ret;
    uint64_t *ret_epochs; /* one for each task; 0: not known */
    bool ret_more;
};

static inline uint64_t hand_epoch(const struct op_handoff *op, size_t i)
{
    return op->epochs ? op->epochs[i] : 0;
}

/* Whether the next may be told of as well: `bytes` are those of the target_configs so far. */
static inline bool handed_goes_on(const struct op_handed_off *op, size_t bytes)
{
    return op->max_bytes == 0 || bytes < op->max_bytes;
}

static inline bool handed_has_config(const struct task *t)
{
    return t->delivery == DELIVER_AT_MOST_ONCE;
}

/* OP_RUNNING: which of these tasks are RUNNING under just that fence still. */
struct op_running {
    struct op op;
    const struct fenced_id *v;
    size_t n;
    bool *ret; /* the caller's, n of them */
};

/* OP_RETAKE: what a queue has forgotten, claimed anew in place: each task that is RUNNING under just that fence leaves the claim that it is
 * under for this one, of this node's own, which is not handed. Its fence rises by one; all else stays, its due_ms and its slots too. So it
 * is the same as if it had been returned and claimed by OP_CLAIM, in one step. Not taken is what must not simply run once more: what is
 * AT_MOST_ONCE, leased (WORKER), deleted, or wished back under that fence (OP_RECALL), and what has more than max_bytes in its payload and
 * target_config, for the answer is to be held. A store that others write to may leave out one that somebody else is changing. A claim id
 * that exists already: ERR_CONFLICT; a node that is marked dead: the same, field "node". */
struct op_retake {
    struct op op;
    struct uuid claim, node;
    const struct fenced_id *v; /* no task twice; at most CLAIM_MAX */
    size_t n;
    size_t max_bytes;
    struct tasks ret; /* those that were taken, as they are now, in no order */
};

/* Whether one that is RUNNING under the fence may be taken, unless somebody has wished it back. */
static inline bool retake_may(const struct op_retake *op, const struct task *t)
{
    return t->delivery == DELIVER_AT_LEAST_ONCE && t->target != TARGET_WORKER && !t->deleted &&
           t->payload.n + t->target_config.n <= op->max_bytes;
}

/* OP_LEASE_RENEW: who leased tasks goes on with them: each of the tenant's that is RUNNING under that fence by a lease gets until_ms, and progress
 * if it is not empty; else `kept` is false: it is over, or somebody else's by now. `ended`: its user wants it ended (OP_RECALL with
 * abort, which is told every time until the task leaves that claim). */
struct lease_renewal {
    struct uuid id;
    int64_t fence;
    int64_t until_ms;
    struct str progress; /* JSON text; empty: as it was */
    bool ret_kept, ret_ended;
};

struct op_lease_renew {
    struct op op;
    int32_t tenant;
    struct lease_renewal *v; /* no task twice */
    size_t n;
    int64_t now_ms;
};

/* OP_LEASES_EXPIRED: RUNNING tasks whose lease was over at now_ms, at most max, the longest over first: for who settles them as lost.
 * ret_next_ms: when the next one will be; INT64_MAX: there is none. Leases of tasks that have left their claim go on the way. */
struct op_leases_expired {
    struct op op;
    int64_t now_ms;
    size_t max;
    struct tasks ret;
    int64_t ret_next_ms;
};

/* OP_WORKER_REPORT: what workers of a fleet say of themselves (port/events.h): each is put in or replaced by its id; joined_ms is now_ms if it is
 * new and stays otherwise; seen_ms is now_ms, but never goes back; left_ms is now_ms of one that goes, and of one that did it stays. */
struct worker_row {
    struct uuid id;
    struct str name, version, doc;
    int64_t slots, running;
    int64_t joined_ms, seen_ms;
    int64_t left_ms; /* 0: it did not say that it goes */
};

struct worker_rows {
    struct worker_row *v;
    size_t n;
};

struct op_worker_report {
    struct op op;
    const struct worker_row *v; /* id, name, version, doc, slots, running; left_ms: not 0, it goes */
    size_t n;
    int64_t now_ms;
};

#pragma once
/* port/store/fleet.h - tasks that others run: workers of a fleet (OP_HANDOFF, OP_HANDED_OFF, OP_RUNNING, OP_RETAKE,
 * OP_WORKER_REPORT) and outside workers that lease tasks (OP_LEASE_RENEW, OP_LEASES_EXPIRED). A part of
 * port/store.h. */
#include "core/sharing/pools.h"
#include "core/task/task.h"
#include "port/store/operation.h"

/* OP_HANDOFF - records that a queue has all tasks of these claims. The queue owns them from now on; the death of the
 * node changes nothing (OP_ORPHANS 1).
 *
 *  1. Claims of this node that hold no task are passed over.
 *  2. The queue's epoch in which a claim was pushed is kept with it, for OP_HANDED_OFF. A claim that was handed off
 *     before keeps its epoch.
 *  3. A node that is marked dead hands nothing off: ERR_CONFLICT, field "node".
 *  4. orphaned: the claims are those of other nodes that do not live (OP_ORPHANS), which died before they had handed
 *     them off. Others are passed over. */
struct op_handoff {
    struct op op;
    struct uuid node;
    const struct uuid *claims;
    const uint64_t *epochs; /* one for each claim; 0: unknown. NULL: none is known */
    size_t n;
    bool orphaned;
};

/* OP_HANDED_OFF - reads RUNNING tasks of claims that were handed off. The caller asks the queue whether it still knows
 * them, and settles the others.
 *
 *  1. No leases. Only claims made (uuid_time_ms of the claim) before before_ms.
 *  2. By claim id, then task id; those behind `after`; at most max.
 *  3. The tasks have no payload and no extra. target_config is there only for AT_MOST_ONCE tasks, whose failure has a
 *     cause.
 *  4. A task is returned only if the target_configs of those before it have fewer than max_bytes together.
 *  5. ret_epochs has the epoch with which each task's claim was handed off. */
struct handed_place {
    struct uuid claim, task;
};

struct op_handed_off {
    struct op op;
    int64_t before_ms;
    struct handed_place after; /* nil: from the first on */
    size_t max;
    size_t max_bytes; /* 0: no bound */
    struct tasks ret;
    uint64_t *ret_epochs; /* one for each task; 0: unknown */
    bool ret_more;
};

static inline uint64_t hand_epoch(const struct op_handoff *op, size_t i)
{
    return op->epochs ? op->epochs[i] : 0;
}

/* Rule 4; bytes: of the target_configs so far. */
static inline bool handed_goes_on(const struct op_handed_off *op, size_t bytes)
{
    return op->max_bytes == 0 || bytes < op->max_bytes;
}

/* OP_RUNNING - says which of these tasks are still RUNNING under exactly that fence. */
struct op_running {
    struct op op;
    const struct fenced_id *v;
    size_t n;
    bool *ret; /* the caller's, n of them */
};

/* OP_RETAKE - claims again, in place, tasks that a queue has lost.
 *
 *  1. Each task that is RUNNING under exactly that fence leaves its claim for this one, which belongs to this node and
 *     is not handed off. Its fence rises as by a claim. All else stays, due_ms and slots too. The effect is that of a
 *     return and an OP_CLAIM in one step.
 *  2. Not taken, because it must not simply run again: an AT_MOST_ONCE task, a leased one (WORKER), a deleted one, one
 *     with a recall request under that fence (OP_RECALL), and one with more than max_bytes in payload and
 *     target_config, since the answer is held in memory.
 *  3. A shared store may leave out a task that another node is changing.
 *  4. A claim id that exists: ERR_CONFLICT. A node that is marked dead: ERR_CONFLICT, field "node". */
struct op_retake {
    struct op op;
    struct uuid claim, node;
    const struct fenced_id *v; /* no task twice; at most CLAIM_MAX */
    size_t n;
    size_t max_bytes;
    struct tasks ret; /* those that were taken, as they are now, in no order */
};

/* Rule 2, except for recall requests; of a task that is RUNNING under the fence. */
static inline bool retake_may(const struct op_retake *op, const struct task *t)
{
    return t->delivery == DELIVER_AT_LEAST_ONCE && t->target != TARGET_WORKER && !t->deleted &&
           t->payload.n + t->target_config.n <= op->max_bytes;
}

/* OP_LEASE_RENEW - extends leases of a tenant.
 *
 *  1. A task that is RUNNING under that fence by a lease gets until_ms, and progress if it is not empty.
 *  2. Else ret_kept is false: the lease has ended, or the task belongs to another.
 *  3. ret_ended: its user wants it ended (OP_RECALL with abort). This is told each time until the task leaves the
 *     claim. */
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

/* OP_LEASES_EXPIRED - reads RUNNING tasks whose lease had expired at now_ms, the longest expired first, at most max.
 * The caller settles them as lost. ret_next_ms: when the next lease expires; INT64_MAX: there is none. Leases of tasks
 * that have left their claim are deleted on the way.
 *
 * With max_waiting, ret_waiting has tasks that wait for their start (task_may_expire) and had expired at now_ms
 * (task_expires_ms), by that time and then by id, at most max_waiting. A claim may never come to them: their queue is
 * paused, a limit or a key holds them, or no worker asks. So the caller ends them. ret_next_waiting_ms: when the next
 * one expires; INT64_MAX: none is left. ret_expires: some task that is not final has an expires_after_ms, and may wait
 * later if it does not now. */
struct op_leases_expired {
    struct op op;
    int64_t now_ms;
    size_t max, max_waiting;
    struct tasks ret, ret_waiting;
    int64_t ret_next_ms, ret_next_waiting_ms;
    bool ret_expires;
};

/* OP_WORKER_REPORT - stores what workers of a fleet report of themselves (port/events.h).
 *
 *  1. Each is inserted or replaced by its id. Of several reports of one worker the last counts; it leaves if any says
 *     so.
 *  2. joined_ms is now_ms of a new one and stays otherwise. seen_ms is now_ms and never goes back.
 *  3. left_ms is now_ms of a worker that leaves, and stays once it is set.
 *  4. ret_changed: the groups of live workers (OP_HEARTBEAT 8) may be others than before (worker_report_changes). Nodes
 *     of a shared store get a notice (store_notice.nodes). */
struct worker_row {
    struct uuid id;
    struct str name, version, doc;
    struct worker_kind kind;
    int64_t slots, running;
    int64_t joined_ms, seen_ms;
    int64_t left_ms; /* 0: it has not said that it leaves */
};

struct worker_rows {
    struct worker_row *v;
    size_t n;
};

struct op_worker_report {
    struct op op;
    const struct worker_row *v; /* all but joined_ms and seen_ms; left_ms not 0: it leaves */
    size_t n;
    int64_t now_ms;
    bool ret_changed;
};

/* For stores: the reports as rows of new workers, each worker once (rule 1); returns how many. v has room for op->n. */
size_t worker_reports_merge(const struct op_worker_report *op, struct worker_row *v);
/* For stores: rule 4, of one worker. It is new, leaves, serves other tasks, has other slots, or was silent. */
bool worker_report_changes(const struct worker_row *before, const struct worker_row *now); /* NULL: it is new */

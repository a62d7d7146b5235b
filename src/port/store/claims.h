#pragma once
/* port/store/claims.h - the hot path: OP_CLAIM, OP_CLAIMED, OP_ORPHANS, OP_SETTLE, and the recall of claimed tasks:
 * OP_RECALL, OP_RECALL_LIST. A part of port/store.h. */
#include "core/sharing/partition.h"
#include "core/sharing/slot.h"
#include "core/task/settle.h"
#include "core/task/task.h"
#include "port/store/operation.h"

/* OP_CLAIM - takes due tasks of the given lanes: SCHEDULED becomes RUNNING, the fence becomes
 * fence_after (core/task/fence.h).
 *
 *  Selection
 *  1. Lanes that stand together form a line (struct claim_line). Lines are served in the order given. From each line at
 *     most its max, and from each lane at most its quota, in the order of lane_order_ms, then id. No lane is given
 *     twice. ret has that order. Without lines each lane is a line of its own.
 *  2. From all lanes together at most max. The bytes of a task are those of its payload and its target_config. The task
 *     with which their sum reaches max_bytes is the last one taken, so that a task of any size is taken.
 *  3. Only tasks with due_ms <= until_ms; AT_MOST_ONCE tasks only with due_ms <= now_ms.
 *  4. Never RECURRING tasks. WORKER tasks only by a lease (struct lease_terms), and no others by one.
 *  5. ret_next_due_ms counts every task that was left for later, by a quota or otherwise, and no task that no claim
 *     would ever take. A task due later than CLAIM_SIGHT_MS from now may count as due at that time, even in a lane that
 *     has none: a caller that is told that time or a later one asks again then.
 *  The claim
 *  6. A row of the claim (id, node) is kept while tasks hold it. A claim id that exists: ERR_CONFLICT.
 *  7. A node that is marked dead (OP_NODE_DEAD) claims nothing: ERR_CONFLICT, field "node".
 *  Partitions, with `own`
 *  8. A task of another node's partition is taken only if due_ms + help_after_ms <= now_ms. In ret_next_due_ms it
 *     counts with that sum as its due_ms. The same holds for suspects.
 *  Suspects (core/task/task.h)
 *  9. Suspects are in lanes of their own. They count neither in a quota nor in a lane's ret_next_due_ms. Of all lanes
 *     together, whatever their quotas, at most max_suspects are taken, after all other tasks, in the order of due_ms,
 *     then id, within max and max_bytes.
 *  Slots (core/sharing/slot.h)
 * 10. A task that needs slots is taken if it holds or can take each of them; it takes them with the claim. A slot is
 *     free if fewer tasks than its limit hold its key and no task waits in its line before this one.
 * 11. A task that finds no slot is left while due_ms > now_ms, and counts in ret_next_due_ms. So is an occurrence that
 *     does not hold its overlap slot, free or not, while an earlier one is still to come: a SCHEDULED or BLOCKED task
 *     that needs the same slot and has an earlier due_ms, then scheduled_ms, then id. A task whose slot another node is
 *     changing at this moment is left too, due or not, and counts in ret_conflicts.
 * 12. From its due time on, slot_decide says what becomes of a task without a slot. Such a task counts neither in a
 *     quota nor in max; its bytes count in max_bytes:
 *       SLOT_WAIT     BLOCKED; waits_for is the key; late_by is SLOT or KEY (slot_late_cause), unless it was put
 *                     off before (awaited_ms).
 *                     It keeps the slots that it took before that one, and no others.
 *       SLOT_SKIP     SKIPPED; last_error "skipped: the run of <RFC 3339> is not over", with the earliest scheduled_ms
 *                     of a holder. If its runs_count is 1, it becomes 0, and one moves from its parent's runs_count
 *                     (not below 0) to skipped_count.
 *       SLOT_REPLACE  BLOCKED as well. Holders that are not RUNNING become CANCELLED, last_error "replaced by the run
 *                     of <RFC 3339>", and release their slot at once. Holders that are RUNNING, under this claim too,
 *                     are in ret_replaced, for the caller to abort. Other tasks that wait for the key become CANCELLED.
 *                     A cancelled one that never started (started_ms 0) is not counted: if its runs_count is 1, it
 *                     becomes 0, and one is subtracted from its parent's (not below 0). skipped_count stays.
 *     A task that waits with policy QUEUE_ALL is not replaced: behind one that is first, the answer is SLOT_WAIT.
 *     If an occurrence that is not due yet and has never fired holds the overlap slot (slot_is_held_ahead), the answer
 *     is SLOT_WAIT, whatever the policy.
 * 13. updated_ms is now_ms; of a final task completed_ms is too.
 * 14. Tasks that are BLOCKED, SKIPPED or CANCELLED when all is done are in ret_gated, in no order.
 * 15. One claim decides about CLAIM_GATED_MAX such tasks, then it stops. It leaves a lane after it passed over as many
 *     in it. So a long line delays no other lane.
 *  Lines of waiting tasks
 * 16. A slot goes to the task that waits longest. Whenever a holder releases a slot (by a settle, a put, or a claim
 *     that cancels; slot_outlives says which states release which slots), or the first of a line leaves it, the first
 *     of the line takes the slot in the same transaction: the BLOCKED task of that key with the earliest due_ms, then
 *     id. It is SCHEDULED again with its own due_ms. This repeats while the next one fits.
 * 17. ret_unblocked_lanes has the bit (lane_bit) of each such task's lane; 0: there was none. The task is claimed like
 *     any other, and holds its slot already; the claim that gave it the slot takes it, if its turn is still to come. */
struct lane_quota {
    struct lane lane;
    size_t max;
    size_t ret_taken;
    int64_t ret_next_due_ms; /* the earliest due_ms left in this lane; INT64_MAX: none */
    int64_t ret_next_own_ms; /* the same without tasks of other nodes' partitions (rule 8) */
};

struct claim_line {
    size_t lanes; /* how many of the claim's lanes belong to it, behind those of the lines before it */
    size_t max;   /* tasks */
};

struct replaced {
    struct uuid id;
    int64_t fence;
    int64_t by_scheduled_ms; /* of the run that replaces it */
    int32_t tenant;
    bool is_run; /* of a workflow: OP_STOP ends it if it is open */
};

/* A claim for an outside worker (POST /v1/leases).
 *  1. It takes WORKER tasks and no others, of any partition, only if due at now_ms: store_apply sets until_ms and own
 *     so. None of its lanes is late: WORKER tasks are in no such lane.
 *  2. Each task is under a lease from then on: until_ms, worker, no progress yet.
 *  3. The claim counts as handed off (OP_HANDOFF) from the start: the death of the node does not matter to it. */
struct lease_terms {
    int64_t until_ms;
    struct str worker; /* a name for people */
};

struct op_claim {
    struct op op;
    struct uuid claim, node;
    const struct lease_terms *lease; /* NULL: the node itself runs or pushes the tasks */
    struct lane_quota *lanes;
    size_t lane_count;
    const struct claim_line *lines; /* NULL: each lane is a line of its own; else their lanes add up to lane_count */
    size_t line_count;
    int64_t now_ms, until_ms;
    size_t max, max_bytes, max_suspects;
    const struct partitions *own; /* NULL: all */
    int64_t help_after_ms;        /* with own */
    struct tasks ret;             /* as they are after the claim, suspects last */
    struct tasks ret_gated;       /* tasks that found no slot (rule 14) */
    struct replaced *ret_replaced;
    size_t ret_replaced_count;
    int64_t ret_next_due_ms;     /* the earliest due_ms left in these lanes; INT64_MAX: none */
    int64_t ret_next_suspect_ms; /* the same for suspects of these lanes */
    uint64_t ret_unblocked_lanes;
    size_t ret_conflicts; /* tasks that were left because another node was changing them at that moment */
};

/* For stores: the i-th line, which begins at that lane. A line of one lane has that lane's quota at most. */
struct claim_line claim_line_at(const struct op_claim *op, size_t i, size_t lane);

/* For stores: whether a task of this due time is for the caller now, and with which time it counts if it was left (rule
 * 8). */
bool claim_is_for(const struct op_claim *op, struct uuid id, int64_t due_ms);
int64_t claim_counts_as(const struct op_claim *op, struct uuid id, int64_t due_ms);
bool claim_is_own(const struct op_claim *op, struct uuid id); /* its partition is the caller's */
enum err node_is_dead(struct error *e);                       /* rule 7 */
/* The same for OP_RECURRING: own NULL means all partitions; a time is INT64_MAX at most. */
bool partition_is_own(const struct partitions *own, struct uuid id);
int64_t later_by(int64_t at_ms, int64_t delay_ms);

/* OP_CLAIMED - reads the tasks that a claim holds now, in no order; of an unknown claim, none. For a node that does not
 * know whether its claim was committed. The answer is final: a transaction of that claim that is still being committed
 * is waited for. */
struct op_claimed {
    struct op op;
    struct uuid claim;
    struct tasks ret;
};

/* OP_ORPHANS - reads RUNNING tasks of claims whose node does not live: marked dead (OP_NODE_DEAD) or unknown.
 *
 *  1. Not of this node's own claims, and not of claims that were handed off (OP_HANDOFF).
 *  2. At most max, in no order.
 *  3. A node that never sent a heartbeat is unknown.
 *  4. ret_fires_until_ms has, for each task, the fires_until_ms of its node (OP_HEARTBEAT 9); INT64_MAX: not known. */
struct op_orphans {
    struct op op;
    struct uuid not_node;
    size_t max;
    struct tasks ret;
    int64_t *ret_fires_until_ms;
};

/* For stores: rule 4, by what the row of the node has. */
static inline int64_t orphan_fires_until_ms(int64_t of_node_ms)
{
    return of_node_ms ? of_node_ms : INT64_MAX;
}

/* OP_SETTLE - applies verdicts on claimed tasks.
 *
 *  1. A settlement is applied only if its task is RUNNING under exactly its fence. Else it is `stale` and changes
 *     nothing; a stale settlement, a repeated one among them, does not fail the operation.
 *  2. Applied means: state, attempts, losses and last_error as in the verdict; due_ms, awaited_ms and late_by too if
 *     the new state is SCHEDULED; the task leaves its claim; updated_ms is now_ms; completed_ms is settle_completed_ms.
 *     If the verdict has `aside`, that is the task's `aside` from then on; else it stays. `recalled` likewise.
 *  3. The verdict's execution is written with it. An execution of the same task and id exists already if this is a
 *     repeat. started_ms becomes its started_us in milliseconds.
 *  4. The parent of an OCCURRENCE gets last_run_ms: the execution's started_us in milliseconds, unless it has a later
 *     one. Without an execution last_run_ms stays.
 *  5. `cause` of a FAILED task is the verdict's; of any other it becomes empty.
 *  6. If an OCCURRENCE with runs_count 1 that never started (started_ms 0) becomes EXPIRED or SKIPPED, its runs_count
 *     becomes 0, and one moves from its parent's runs_count (not below 0) to skipped_count. If it becomes CANCELLED, by
 *     a verdict or by `replace`, the same is subtracted, and skipped_count stays.
 *  7. With `replace`, the task becomes that row instead (state, fields, version and fence as in the row). The verdict's
 *     execution is written all the same. OP_PUT 11 to 14 hold.
 *  8. With `idempotency` there is exactly one settlement. The record of its key is checked first, whatever the fence
 *     says. It is stored if the settlement is applied, so a repeat of an applied one fails by its key. A stale one
 *     stores none.
 *  9. A task that becomes final arrives at its children (port/store/dependencies.h).
 *  Occurrences of tasks that were called off, whoever ends the claim: a node that drains, lives no more or lost a lease
 * 10. If a verdict would make an OCCURRENCE SCHEDULED again and its parent is CANCELLED or deleted, the occurrence
 *     ends (settle_in_schedule). After an attempt that failed it is FAILED with the error and the cause of it, and is
 *     not retried. Else, lost or never begun, it is CANCELLED, last_error as put_cancel_reason, and rule 6 holds.
 * 11. If its parent is PAUSED, and the occurrence has not fired (no execution, attempts or losses) and was spawned by
 *     the schedule (runs_count not 0), it is withdrawn as by OP_PUT 7 to 10: it is deleted and releases its slots, the
 *     cursor goes back to it, and it does not count as a run. ret_state is SCHEDULED.
 * 12. Rules 10 and 11 do not hold for `replace` (but see rule 13), a run that was opened (TASK_OPENED), an occurrence
 *     that a user has retried (runs_count 0, started_ms not 0, version not 1), and one without a stored parent.
 * 13. If `replace` would make an OCCURRENCE PAUSED or SCHEDULED and its parent is CANCELLED or deleted, the row becomes
 *     CANCELLED instead: completed_ms and updated_ms are now_ms, last_error is put_cancel_reason, and rule 6 holds. A
 *     pause or an edit that takes the occurrence back may end after the recurring task was cancelled: the occurrence
 *     would stay PAUSED for ever, or start. The exceptions are those of rule 12. */
struct settlement {
    struct uuid id;
    int64_t fence;
    struct uuid parent; /* nil: none */
    int32_t tenant;     /* for hits (port/store/incidents.h) */
    struct verdict verdict;
    const struct task *replace; /* NULL: the verdict decides */
    bool stale;                 /* result */
    /* Result, unless stale: the state that was stored. It is not the verdict's if the run was stopped or paused
     * meanwhile (port/store/runs.h, rules 7, 8 and 10), or the recurring task was called off (rules 10 and 13). */
    enum task_state ret_state;
};

struct op_settle {
    struct op op;
    struct settlement *v;
    size_t n;
    int64_t now_ms;
    const struct idempotency *idempotency; /* NULL: none */
    uint64_t ret_unblocked_lanes;          /* OP_CLAIM 17, and of children that their join starts */
    bool ret_arrivals_left;                /* OP_ARRIVE is needed */
};

/* For stores: OP_SETTLE 10 to 13. What is stored of an occurrence that would wait, and of its parent. */
struct settle_schedule {
    struct task parent;                      /* state, deleted */
    int64_t runs_count, started_ms, version; /* of the occurrence, as before */
    int links;                               /* likewise */
};
bool settle_asks_parent(const struct settlement *v);
/* Changes the verdict by rule 10, or the replacement by rule 13: to *row, which the caller keeps as long as v. True:
 * the occurrence is withdrawn (rule 11). */
bool settle_in_schedule(const struct settle_schedule *of, int64_t now_ms, struct settlement *v, struct task *row);

/* OP_RECALL - asks the holder of a RUNNING task to return it, or, with `abort`, to abort it if it has fired.
 *
 *  1. The request is kept until the task is no longer RUNNING under that fence.
 *  2. ret_owner is the node whose claim holds the task.
 *  3. If the task is not RUNNING under that fence, or no claim holds it: ERR_CONFLICT, field "fence".
 *  4. Repeated, it stays one request. It aborts if either asked to abort. It names the replacing run if either does;
 *     the later name counts.
 *  5. The worker that leases a task learns of the request when it renews its lease (OP_LEASE_RENEW); the node does
 *  not.
 *  6. ret_refused: ret_owner has refused the request (OP_RECALL_LIST 3). ret_handed_off: the claim was handed off to a
 *     queue (OP_HANDOFF). If that is in the same transaction, it may still be false. */
struct op_recall {
    struct op op;
    struct uuid id;
    int64_t fence;
    bool abort;
    int64_t by_scheduled_ms; /* of the run that replaces it; 0: it is not replaced */
    int64_t now_ms;
    struct uuid ret_owner;
    bool ret_refused, ret_handed_off;
};

enum err recall_too_late(struct error *e); /* rule 3, for stores */

/* OP_RECALL_LIST - reads the recall requests for tasks that a node holds, and notes which of them the node refuses.
 *
 *  1. ret has the requests for tasks with an id above `after`, at most max, by task id.
 *  2. ret has no request that is over (OP_RECALL 1), and none that was refused, unless it aborts.
 *  3. First, the requests for the tasks `refused` under those fences are refused: the tasks run. A store may leave some
 *     of them as they are if another transaction changes them at that moment; they are in the next list again. */
struct recall_request {
    struct uuid id;
    int64_t fence;
    bool abort;
    int64_t by_scheduled_ms; /* as in struct op_recall */
};

struct op_recall_list {
    struct op op;
    struct uuid node;
    struct uuid after; /* nil: from the first on */
    size_t max;
    const struct fenced_id *refused;
    size_t refused_count;
    struct recall_request *ret;
    size_t ret_count;
};

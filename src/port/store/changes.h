#pragma once
/* port/store/changes.h - changes of tasks' states that operations make beside what they are asked for. A part of
 * port/store.h.
 *
 * The answer of an operation says what became of the tasks that the operation names. What it ends, starts or holds back
 * together with them is told to a listener, for the log (node/trace/transition_log.h).
 *
 *  1. Each task whose state an operation has changed is told once, with the states before and after the operation.
 *  2. Not told are
 *     - OP_CLAIM: tasks that are taken. If such a task was BLOCKED when the operation began, it is told as SCHEDULED;
 *     - OP_SETTLE: the tasks of its settlements (settlement.ret_state);
 *     - OP_PUT: its task (op_put.ret_state) and `also`. If the task gets a slot after that, this is told;
 *     - OP_INSERT: tasks that depend on no other; OP_SPAWN: its occurrences;
 *     - tasks whose rows are removed.
 *  3. A new task has no state before (CHANGE_NEW): a task of OP_INSERT that depends on others, a row of OP_OPEN.
 *  4. The states are as people see them (change_state): of a task that was opened RUNNING, unless it waits for its next
 *     attempt; of a step that awaits signals BLOCKED. A claimed control task was SCHEDULED until OP_OPEN starts it
 *     (open_starts), and until OP_AWAIT lets it wait.
 *  5. The listener is called after the commit, before store_apply returns, on the thread that called it. Nothing is
 *     told of an operation that failed, nor of a transaction that failed or may have failed.
 *  6. The changes are in the order of their operations; those of one operation in no order. Of a transaction, at most
 *     CHANGES_TOLD_MAX are told. The others are counted (left_out).
 *  7. Of the task are set: id, tenant, kind, parent, run, queue, attempts, fence and trace, as they are when the
 *     transaction ends, and last_error if it became CANCELLED or SKIPPED. A task that has no row then is not told.
 *  8. If nobody listens, nothing is collected or read. */
#include "core/task/task.h"
#include "port/store/operation.h"

enum { CHANGES_TOLD_MAX = 1000, CHANGE_NEW = -1 };

struct task_change {
    struct task task; /* rule 7 */
    int from;         /* enum task_state, or CHANGE_NEW */
    enum task_state to;
    struct str request; /* of the operation */
};

struct change_listener {
    void (*told)(const struct change_listener *l, const struct task_change *v, size_t n, size_t left_out);
};

/* ---- for stores, so that all answer alike ---- */

struct store;

/* What is collected in a transaction. The store reads the rows of v before it commits. */
struct change_list {
    const struct change_listener *listener;
    struct task_change *v;
    size_t n, left_out;
    size_t first, left_out_before; /* where those of the current operation begin */
    struct str request;            /* of the current operation */
    struct arena texts;
};

void changes_begin(struct store *s); /* a transaction, also one that is tried again */
void changes_begin_op(struct store *s, const struct op *op);
void changes_drop_op(struct store *s); /* the operation has failed */
/* The task's state was `from` before this change. A second change of the same operation is added to the first. */
void change_add(struct store *s, struct uuid id, int from, enum task_state to);
enum task_state change_state(enum task_state state, int links);
/* Of a task whose state and links were `was`. */
void change_add_links(struct store *s, const struct task *was, const struct task *next);
/* The same of the claimed task of OP_OPEN (starts: open_starts) and OP_AWAIT. */
void change_add_opened(struct store *s, bool starts, const struct task *next);
void change_add_awaiting(struct store *s, int links, const struct task *next);
/* A copy that lives as long as the list; empty: it does not fit. */
struct str change_text(struct change_list *l, struct str text);
bool change_has_reason(const struct task_change *c); /* rule 7: last_error is read */

/* ---- for port/store.c ---- */

void store_tell(struct store *s); /* after the commit */
void store_free_changes(struct store *s);

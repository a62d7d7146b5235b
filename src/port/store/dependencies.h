#pragma once
/* port/store/dependencies.h - tasks that wait for other tasks: what OP_INSERT, OP_PUT and OP_SETTLE do with them, and
 * OP_ARRIVE. A part of port/store.h.
 *
 * A child has edges from its parents, and one join over them (core/flow/flow.h: what the types of edges and the joins
 * mean). Parents and children are ONE_TIME tasks of one tenant.
 *
 *  Edges
 *  1. A parent must exist, belong to the child's tenant, be ONE_TIME and not deleted: else ERR_INVALID, field
 *     "depends_on[i]". A task that exists already (OP_INSERT 2) gets no new edges, and its parents are not checked.
 *  2. A parent that is final arrives at once.
 *  3. An edge arrives once. What a parent becomes after that, by a retry for example, changes nothing.
 *  4. The edges of a child are kept until the child is purged, those from purged parents too.
 *  The join
 *  5. While flow_decide says WAIT, the child has TASK_WAITS in `links`. It is BLOCKED with an empty waits_for, or
 *     PAUSED.
 *  6. START: TASK_WAITS is cleared, and a BLOCKED child becomes SCHEDULED (dependency_release): due_ms and scheduled_ms
 *     are now_ms, unless they are later. A PAUSED child stays PAUSED, with the same times.
 *  7. A skip: the child becomes SKIPPED, with dependency_skip_reason as last_error and now_ms as completed_ms. It gets
 *     TASK_BROKEN if the skip is broken. It is final, so its own children follow.
 *  8. A child without TASK_WAITS is not changed any more: it was started by hand, is final, or its join is decided. Its
 *     edges arrive all the same.
 *  9. updated_ms is now_ms; the version stays.
 *  Parents
 * 10. Whatever makes a task final (OP_SETTLE, OP_PUT) applies its arrivals in the same transaction, in waves: first the
 *     children of all tasks that the operation made final, by child, then by parent, then the children of those that
 *     were skipped.
 * 11. One operation applies ARRIVALS_MAX edges, and 2 more for each settlement. What is left then, and edges to
 *     children that another transaction is changing, are recorded by parent. ret_arrivals_left says so: OP_ARRIVE
 *     applies them.
 *  Changes of a row
 * 12. OP_PUT and `replace` of OP_SETTLE keep the row's TASK_HAS_PARENTS, TASK_HAS_CHILDREN and TASK_BROKEN. TASK_WAITS
 *     stays if the row and the new task have it and the new task is not final. With it, SCHEDULED becomes BLOCKED.
 *     Without it, BLOCKED with an empty waits_for becomes SCHEDULED (dependency_tidy). TASK_KEEPS_OUTPUT is that of the
 *     new task: a task may become a run.
 * 13. OP_PUT with `depends` adds and removes edges, then decides the join anew over all edges. A task without edges is
 *     not BLOCKED by them. An edge that exists stays as it is. An edge to be removed that does not exist:
 *     ERR_NOT_FOUND, field "depends_on".
 * 14. If the task would depend on itself: ERR_CONFLICT, field "depends_on", with the cycle as a path. If the search
 *     meets more than CYCLE_TASKS_MAX tasks, or the task would have more than DEPENDENCIES_MAX edges: ERR_LIMIT, field
 *     "depends_on". Edges that have arrived close no cycle.
 * 15. OP_PUT does not change the state of a final task while arrivals of it are left (rule 11): ERR_CONFLICT, field
 *     "arrivals". Some of its children would be told how it ended before, and others how it ended then. */
#include "core/flow/flow.h"
#include "core/task/task.h"
#include "port/store/operation.h"

enum { DEPENDENCIES_MAX = 1000, CYCLE_TASKS_MAX = 10000, ARRIVALS_MAX = 250 };

struct dependency {
    struct uuid parent;
    enum dag_type type;
};

/* What a new task waits for. */
struct depends_on {
    enum dag_join join;
    const struct dependency *v; /* no parent twice; at most DEPENDENCIES_MAX */
    size_t n;                   /* 0: for nothing */
};

/* What OP_PUT changes. */
struct depends_change {
    const struct dependency *add; /* no parent twice */
    size_t n;
    struct uuid remove; /* a parent; nil: none */
    bool sets_join;     /* else the join stays; a new one is ALL */
    enum dag_join join;
};

/* OP_ARRIVE - applies arrivals that an earlier operation has left (rule 11).
 *
 *  1. The parents recorded first come first. At most ARRIVALS_MAX edges.
 *  2. ret_more: there are others. If ret_applied is 0 then, other transactions have the children: ask again later. */
struct op_arrive {
    struct op op;
    int64_t now_ms;
    size_t ret_applied; /* edges */
    bool ret_more;
    uint64_t ret_unblocked_lanes; /* OP_CLAIM 17 */
};

/* What a node is told after an operation that may have ended tasks: its ret_unblocked_lanes. UINT64_MAX: any lane, and
 * OP_ARRIVE is needed. */
static inline uint64_t op_unblocked(uint64_t unblocked_lanes, bool arrivals_left)
{
    return arrivals_left ? UINT64_MAX : unblocked_lanes;
}

/* ---- for stores, so that all answer alike ---- */

/* How an edge has arrived. */
enum edge_state { EDGE_OPEN, EDGE_MET, EDGE_BROKEN, EDGE_UNMET };
enum { EDGE_STATES = EDGE_UNMET + 1 };

/* Of a task that is final. */
enum flow_outcome dependency_outcome(enum task_state state, int links);
enum edge_state edge_arrives(enum dag_type type, enum flow_outcome parent);
struct flow_counts edge_counts(enum edge_state s); /* of EDGE_OPEN: none */

/* Rule 1. found: the task was read. */
enum err dependency_check(const struct task *parent, bool found, const struct dependency *d, size_t i, int32_t tenant,
                          struct error *e) must_use;
enum err dependency_is_left(struct error *e);                                    /* rule 15 */
bool dependency_ends_anew(enum task_state was, int links, enum task_state next); /* rule 15 may apply */
enum err dependency_cycle(const struct uuid *path, size_t n, struct error *e);   /* from the task to itself */

/* The join over all edges; a task without edges starts. */
enum flow_decision dependency_decide(enum dag_join join, uint32_t expected, struct flow_counts c);

/* The join of a task that was opened (port/store/runs.h): it waits, or goes on. SKIP_BROKEN: it goes on because more
 * than max_broken are broken; -1: it waits for all. */
enum flow_decision open_decide(uint32_t expected, int64_t max_broken, struct flow_counts c);

/* "skipped: it depends on <id> with MUST_SUCCEED, which is FAILED" */
#define DEPENDENCY_SKIPPED "skipped: it depends on "
enum { DEPENDENCY_REASON_MAX = 160 };
struct str dependency_skip_reason(struct uuid parent, enum dag_type type, enum flow_outcome is,
                                  char out[DEPENDENCY_REASON_MAX]);

/* Apply a decision to a task with TASK_WAITS or without (rules 5 to 9); `why` is copied by reference. */
void dependency_apply(struct task *t, enum flow_decision d, struct str why, int64_t now_ms);
/* The same after an arrival. A task that is still being opened does not wait yet: it is only marked TASK_BROKEN, if its
 * join says so. False: the task stays as it is. */
bool dependency_arrive(struct task *t, enum flow_decision d, struct str why, int64_t now_ms);
void dependency_tidy(struct task *next, int old_links); /* rule 12 */

/* ---- reading ---- */

/* A task at the other end of an edge. */
struct linked_task {
    struct uuid id;
    enum dag_type type;
    enum edge_state edge;
    bool exists; /* false: it was purged or deleted; the next ones are not set then */
    enum task_state state;
    int64_t due_ms, started_ms;
    struct str name;
};

struct task_links {
    bool has_join; /* it has parents; else the next three are not set */
    enum dag_join join;
    uint32_t expected;
    struct flow_counts counts;
    struct linked_task *parents, *children; /* by id */
    size_t parent_count, child_count;       /* LIST_MAX each at most */
    bool more_children;
};

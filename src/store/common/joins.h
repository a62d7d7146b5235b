#pragma once
/* store/common/joins.h - the rules for tasks that depend on others (port/store/dependencies.h), shared by every store
 * that uses SQL.
 *
 * All decisions are here. A store provides the primitives that read and change its rows (struct joins_ops), and decides
 * nothing. Table `edges` has a row for each parent and child, `joins` one for each child with the counts of its edges,
 * `arrivals` one for each parent whose arrivals are not all applied. A task without edges has no bit in its column
 * `links` and never comes here.
 *
 * If other nodes write to the same store, a child is locked before its join is read: then its counts and its row stay
 * as they are until the transaction ends. A child that another transaction has locked is left out, never waited for. */
#include "port/store.h"

/* A task's row as far as joins need it: only id, tenant, kind, state, deleted, links, due_ms, scheduled_ms, awaited_ms
 * and late_by of the task are set. */
struct join_task {
    bool found;
    int64_t rid; /* in a store that numbers its rows; else 0, and the id identifies the row */
    int64_t lane;
    struct task task;
};

struct join_row {
    enum dag_join join;
    uint32_t expected;
    struct flow_counts counts;
    int64_t max_broken; /* of a task that was opened, see open_decide */
};

/* An open edge, with the row and the join of its child. */
struct open_edge {
    struct uuid parent;
    enum dag_type type;
    struct join_task child;
    struct join_row join;
};

struct open_edges {
    struct open_edge *v;
    size_t n, cap;
};

struct edge_id {
    struct uuid parent, child;
};

struct arrival {
    struct uuid parent;
    enum flow_outcome outcome;
};

/* What the arrivals of a wave change. A child has one entry in `joins`, and one in `children` if its join is decided.
 * */
struct join_arrival {
    struct edge_id id;
    enum edge_state state;
};

struct join_counts {
    struct uuid child;
    struct flow_counts counts;
};

struct join_change {
    struct join_task next; /* its task also has updated_ms, completed_ms and last_error */
    enum task_state was;
};

struct join_wave {
    struct join_arrival *edges;
    struct join_counts *joins;
    struct join_change *children;
    size_t edge_count, join_count, child_count;
};

/* Stores embed this. */
struct joins {
    const struct joins_ops *ops;
    struct store *store; /* is told of changes */
};

struct joins_ops {
    /* Reads the parents of a task, and keeps them from becoming final until the transaction ends. */
    enum err (*parents)(struct joins *, const struct uuid *ids, size_t n, struct join_task *ret, struct error *);
    enum err (*mark_parents)(struct joins *, const struct uuid *ids, size_t n, struct error *); /* TASK_HAS_CHILDREN */
    /* Adds open edges from these parents, at most max. *ret_left: there are more, or their children are locked. */
    enum err (*children)(struct joins *, const struct arrival *parents, size_t n, size_t max, struct open_edges *ret,
                         bool *ret_left, struct error *);
    /* *ret_new: there was no such edge; NULL: there is none. */
    enum err (*edge_put)(struct joins *, const struct task *child, const struct dependency *, enum edge_state,
                         bool *ret_new, struct error *);
    enum err (*edge_remove)(struct joins *, const struct edge_id *, enum edge_state *ret, bool *ret_found,
                            struct error *);
    /* The parents of a task's open edges; at most max. */
    enum err (*open_parents)(struct joins *, const struct uuid *child, size_t max, struct uuid *ret, size_t *ret_n,
                             struct error *);
    enum err (*join_get)(struct joins *, const struct uuid *child, struct join_row *ret, bool *ret_found,
                         struct error *);
    enum err (*join_put)(struct joins *, const struct task *child, const struct join_row *, struct error *);
    /* Writes the states of edges, the counts of joins, and of children state, links, due_ms, scheduled_ms, awaited_ms,
     * late_by, updated_ms, completed_ms, last_error and the counts of states. *ret_unblocked: the lanes of children
     * that are SCHEDULED now. */
    enum err (*wave_put)(struct joins *, const struct join_wave *, uint64_t *ret_unblocked, struct error *);
    /* Records those of the parents that still have open edges. */
    enum err (*leave)(struct joins *, const struct arrival *, size_t n, int64_t now_ms, struct error *);
    /* Removes the records made first, at most max, and returns them. */
    enum err (*take_left)(struct joins *, size_t max, struct arrival *ret, size_t *ret_n, struct error *);
    enum err (*has_left)(struct joins *, bool *ret, struct error *);
    enum err (*is_left)(struct joins *, const struct uuid *parent, bool *ret, struct error *); /* of this one */
    enum err (*run_is_left)(struct joins *, const struct uuid *run, bool *ret,
                            struct error *); /* of one of its steps */
    /* An edge to a task that is opened (struct end_edge): reads it; writes it, as one of the task's join. NULL: the
     * store does without joins_end and joins_wait_for. */
    enum err (*end_get)(struct joins *, const struct edge_id *, struct end_edge *ret, struct error *);
    enum err (*end_put)(struct joins *, const struct edge_id *, int32_t tenant, enum dag_type, enum edge_state,
                        struct error *);
    enum err (*lock_tenant)(struct joins *, int32_t tenant, struct error *); /* NULL: one transaction at a time */
};

void open_edges_add(struct open_edges *o, const struct open_edge *e);

/* ---- children that are created or changed ---- */

/* A new child: what its parents make of it. */
struct join_plan {
    struct task task; /* the row to insert */
    const struct depends_on *depends;
    enum edge_state *edges; /* of depends */
    struct uuid *unmarked;  /* parents with open edges that have no TASK_HAS_CHILDREN yet */
    size_t unmarked_count;
    struct join_row join;
    char why[DEPENDENCY_REASON_MAX];
};
enum err join_plan_make(struct joins *j, const struct task *t, const struct depends_on *d, struct join_plan *ret,
                        struct error *e) must_use;
/* Writes the edges and the join of a child whose row was inserted. */
enum err join_plan_write(struct joins *j, const struct join_plan *p, struct error *e) must_use;
void join_plan_release(struct join_plan *p); /* a zeroed one is fine */

/* OP_PUT with `depends`: changes edges and join, and `next` with them. `why` must live as long as next. */
enum err joins_change(struct joins *j, const struct depends_change *c, struct task *next,
                      char why[DEPENDENCY_REASON_MAX], struct error *e) must_use;

/* OP_OPEN: the edges to the task t from rows that end it; the caller writes the join `row`. */
struct end_of {
    struct task parent; /* id, state and links */
    enum dag_type type;
    bool is_more; /* the join did not expect it */
    bool is_new;  /* its row was inserted just now: it has no edge yet */
};
enum err joins_end(struct joins *j, const struct end_of *v, size_t n, const struct task *t, struct join_row *row,
                   struct error *e) must_use;
/* OP_OPEN with `also`; the caller writes the join `row`. */
enum err joins_wait_for(struct joins *j, const struct task *t, const struct uuid *parents, size_t n, enum dag_type type,
                        struct join_row *row, struct error *e) must_use;

/* OP_PUT: whether a task in state `was` may become `next`. */
enum err joins_check_put(struct joins *j, const struct task *next, enum task_state was, int links,
                         struct error *e) must_use;

/* ---- parents that became final ---- */

struct join_fold {
    struct joins *joins;
    int64_t now_ms;
    size_t budget; /* edges that may still be applied */
    struct arrival *v;
    size_t n, cap;
    size_t applied;
    bool left;
    uint64_t unblocked;
};
void join_fold_init(struct join_fold *f, struct joins *j, int64_t now_ms, size_t settlements);
void join_fold_release(struct join_fold *f);
/* Notes that a task is in this state now; ignores tasks without children and states that are not final. */
void join_fold_add(struct join_fold *f, const struct uuid *task, enum task_state state, int links);
enum err join_fold_run(struct join_fold *f, struct error *e) must_use;

enum err joins_arrive(struct joins *j, struct op_arrive *op, struct error *e) must_use; /* OP_ARRIVE */

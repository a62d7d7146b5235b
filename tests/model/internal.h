#pragma once
/* model/internal.h - shared by the writing and the reading half of the memory store. */
#include <pthread.h>

#include "model/store_memory.h"
#include "model/table.h"

/* Tasks that depend on others (joins.c): plain lists. */
struct memory_edge {
    struct uuid parent, child;
    enum dag_type type;
    enum edge_state state;
    bool old; /* of a join that its child had before: it does not count any more */
};

struct memory_join {
    struct uuid child;
    enum dag_join join;
    uint32_t expected; /* of a task that was opened, like the next */
    int64_t max_broken;
};

struct memory_arrival {
    struct uuid parent;
    enum flow_outcome outcome;
};

struct memory_joins {
    struct memory_edge *edges;
    size_t edge_count, edge_cap;
    struct memory_join *joins;
    size_t join_count, join_cap;
    struct memory_arrival *left; /* that OP_ARRIVE will apply */
    size_t left_count, left_cap;
    enum memory_bug bug; /* planted; every third time */
    unsigned turns;
};

/* Runs of workflows (runs.c, run_records.c): plain lists that own their texts. */
struct memory_definition {
    struct definition definition;
    int64_t put_ms;
};

struct memory_workflow {
    struct workflow_row row;
    bool removed;
};

struct memory_output {
    struct uuid run;
    struct run_output output;
};

struct memory_runs {
    struct run_row *runs;
    size_t run_count, run_cap;
    struct memory_definition *definitions;
    size_t definition_count, definition_cap;
    struct memory_workflow *workflows;
    size_t workflow_count, workflow_cap;
    struct memory_output *outputs;
    size_t output_count, output_cap;
    struct signal_row *signals;
    size_t signal_count, signal_cap;
};

/* Figures of minutes (stats.c): a plain list. */
struct memory_stats_rows {
    struct stats_row *v;
    size_t n, cap;
};

#define MEMORY_GROW(v, n, cap)                                                                                         \
    do {                                                                                                               \
        if ((n) == (cap)) {                                                                                            \
            (cap) = (cap)*2 + 16;                                                                                      \
            (v) = xrealloc((v), (cap) * sizeof *(v));                                                                  \
        }                                                                                                              \
    } while (0)

struct store_memory {
    struct store base;
    pthread_mutex_t lock; /* guards all members below */
    struct table table;
    struct order executions;            /* by id: struct execution, its texts behind it */
    struct map idempotency;             /* idempotency_key → struct idempotency_row */
    struct map keys;                    /* id → struct api_key, its texts behind it */
    struct map leases;                  /* name → struct lease */
    struct map dedupe;                  /* tenant and key → struct dedupe_row */
    struct map catalog;                 /* kind, tenant and name → struct catalog_row */
    struct map nodes;                   /* id → struct node_entry (nodes.c) */
    struct map shares;                  /* key → struct share_entry (limit_take.c) */
    struct map recall_requests;         /* task → struct recall_entry (recall_requests.c) */
    struct map task_leases;             /* task → struct lease_entry (leases.c) */
    struct order task_leases_by_expiry; /* the same, by until_ms */
    struct map workers;                 /* id → struct worker_entry (workers.c) */
    struct map breakers;                /* tenant and host → struct breaker_entry (breakers.c) */
    struct order audit;                 /* by id: struct audit, its texts behind it */
    int64_t audit_seq;
    struct order hits, records; /* by id (incidents.c) */
    struct memory_joins joins;
    struct memory_runs runs;
    struct memory_stats_rows stats;
    struct touched_rows touched; /* by the current operation (changes.c) */
};

/* ---- changes that are told (changes.c) ---- */

void memory_changes_begin_op(struct store_memory *s, const struct op *op);
void memory_changes_end_op(struct store_memory *s, const struct op *op);
void memory_changes_read(struct store_memory *s); /* when the transaction ends */

/* Tasks borrowed from the table, to be copied into an arena. */
struct picks {
    const struct task **v;
    size_t n, cap;
};

void picks_add(struct picks *p, const struct task *t);
void picks_release(struct picks *p);
void picks_held(const struct claim *c, size_t max, struct picks *p); /* adds tasks of the claim, until there are max */
enum err picks_copy(const struct picks *p, struct arena *a, struct tasks *ret, struct error *e) must_use;

/* ---- idempotency (records.c) ---- */

struct idempotency_key {
    int32_t tenant;
    uint8_t key[32];
};

struct idempotency_row {
    struct idempotency_key key;
    struct idempotency record; /* its answer is stored behind the row */
};

static inline struct str idempotency_bytes(const struct idempotency_key *k)
{
    return (struct str){ (const char *)k, sizeof *k };
}

struct idempotency_key idempotency_key_of(int32_t tenant, const uint8_t key[32]);
enum err memory_idempotency_check(const struct store_memory *s, const struct idempotency *i, struct error *e) must_use;
void memory_idempotency_put(struct store_memory *s, const struct idempotency *i);

/* ---- dedupe keys (records.c) ---- */

struct dedupe_row {
    struct uuid task;
    int64_t until_ms;
    struct str key; /* tenant and key, in bytes */
    char bytes[];
};

/* The keys that an operation takes. dedupe_keep stores them if the operation succeeds; otherwise they are released. */
struct dedupe_taking {
    struct store_memory *store;
    const struct task *put; /* NULL, or a task in its new form, which is not in the table yet */
    struct map rows;        /* as in the store */
};

struct dedupe_taking dedupe_begin(struct store_memory *s, const struct task *put);
enum err dedupe_take(struct dedupe_taking *k, const struct task *t, struct uuid takes_over, struct error *e) must_use;
void dedupe_keep(struct dedupe_taking *k);
void dedupe_release(struct dedupe_taking *k);
const struct dedupe_row *dedupe_find(const struct store_memory *s, int32_t tenant, struct str key); /* NULL: none */

/* ---- audit rows (audit.c) ---- */

void memory_audit_write(struct store_memory *s, const struct op *op); /* which has been applied */
size_t memory_audit_purge(struct store_memory *s, int64_t before_ms, size_t max);
enum err memory_sealed(struct reader *r, struct str key_id, bool *ret, struct error *e);
enum err memory_sealed_page(struct reader *r, struct str key_id, struct uuid after, size_t max, struct arena *a,
                            struct sealed_page *ret, struct error *e);
enum err memory_key_prints(struct reader *r, struct key_prints *ret, struct error *e);
bool memory_execution_copy(struct arena *a, const struct execution *x, struct execution *ret);
enum err memory_history(struct reader *r, const struct history_filter *f, struct arena *a, struct history_page *ret,
                        struct error *e);
enum err memory_audit(struct reader *r, const struct audit_filter *f, struct arena *a, struct audit_page *ret,
                      struct error *e);

/* ---- the catalog (catalog.c) ---- */

struct catalog_row {
    struct catalog_entry entry; /* its texts are stored behind the row */
    struct str key;             /* kind, tenant and name; stored behind the row too */
    char bytes[];
};

const struct catalog_entry *memory_catalog_find(const struct store_memory *s, int32_t tenant, enum catalog_kind kind,
                                                struct str name); /* NULL: none */

/* ---- limits and calendars (limits.c) ---- */

enum err memory_limits_check(const struct store_memory *s, const struct op_insert *op, struct error *e) must_use;
enum err memory_calendar_check(const struct store_memory *s, const struct task *t, struct error *e) must_use;
enum err memory_calendar_unused(const struct store_memory *s, const struct catalog_entry *x, struct error *e) must_use;

/* ---- operations: each is in the file of the name that it has in the other stores ---- */

#define op_as(type, base) container_of(base, type, op)
#define X(name, verb)     enum err memory_##verb(struct store_memory *s, struct op *base);
OP_MAP(X)
#undef X

/* Unless its id exists. */
void memory_insert_absent(struct store_memory *s, const struct task *t);
enum err memory_id_conflict(const struct task *t, struct error *e);

/* ---- nodes, their shares of limits, and recall requests ---- */

const struct node_row *memory_node_find(const struct store_memory *s, struct uuid id); /* NULL: unknown */
bool memory_claim_is_orphaned(const struct store_memory *s, const struct claim *c, struct uuid not_node);
bool memory_has_orphans(const struct store_memory *s, struct uuid not_node);
bool memory_node_is_dead(const struct store_memory *s, struct uuid id);
bool memory_node_is_alive(const struct store_memory *s, struct uuid id); /* known and not dead */
/* Unless tasks that it handed to a queue still run. */
void memory_places_drop(struct store_memory *s, struct uuid node);
/* Drops the places of nodes that are not alive, once no task that they handed still runs. */
void memory_places_drop_stale(struct store_memory *s);
void memory_shares_release(struct map *shares);
bool memory_node_has_recalls(const struct store_memory *s, struct uuid node);
bool memory_recall_exists(const struct store_memory *s, struct uuid task, int64_t fence);
/* A recall request asks to abort it. */
bool memory_abort_requested(const struct store_memory *s, struct uuid task, int64_t fence);

/* ---- tasks that run outside of their node ---- */

/* RUNNING under a claim, with exactly that fence. */
bool memory_task_runs(const struct store_memory *s, struct uuid task, int64_t fence);
void memory_lease_put(struct store_memory *s, struct uuid task, int64_t fence, const struct lease_terms *terms);
void memory_lease_leave(struct store_memory *s, struct uuid task); /* it leaves its claim */
void memory_leases_release(struct store_memory *s);
bool memory_worker_groups(const struct store_memory *s, int64_t now_ms, struct arena *a, struct worker_groups *ret);

bool memory_stats_purge(struct store_memory *s, int64_t now_ms, size_t max); /* true: there may be more */
enum err memory_reader_stats(struct reader *r, const struct stats_filter *f, struct arena *a, struct stats_points *ret,
                             struct error *e);
void memory_hits_write(struct store_memory *s, const struct op *op);
void memory_checks_write(struct store_memory *s, const struct op *op);
void memory_incidents_release(struct store_memory *s);
enum err memory_hits(struct reader *r, size_t max, struct arena *a, struct hit_list *ret, struct error *e);
enum err memory_records(struct reader *r, const struct record_filter *f, struct arena *a, struct record_page *ret,
                        struct error *e);
enum err memory_reader_breakers(struct reader *r, const struct breaker_filter *f, struct arena *a,
                                struct breaker_rows *ret, struct error *e);
enum err memory_reader_lease(struct reader *r, int32_t tenant, struct uuid task, struct arena *a, struct lease_row *ret,
                             struct error *e);
enum err memory_workers(struct reader *r, struct uuid before, size_t max, struct arena *a, struct worker_rows *ret,
                        struct error *e);

/* Frees and removes the entries for which may_go is true, at most max; returns how many. `w` is passed to may_go. */
struct sweep {
    const struct store_memory *store;
    int64_t now_ms;
    struct uuid node; /* nil: any */
};
size_t memory_sweep(struct map *m, size_t max, bool (*may_go)(const void *entry, const struct sweep *w),
                    const struct sweep *w);
bool memory_node_may_go(const void *entry, const struct sweep *w);
bool memory_share_may_go(const void *entry, const struct sweep *w);
bool memory_recall_may_go(const void *entry, const struct sweep *w);
bool memory_worker_may_go(const void *entry, const struct sweep *w); /* last seen before now_ms */

/* ---- readers ---- */

/* Locks until the end of the scope: cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r); */
struct store_memory *memory_lock(struct reader *r);
void memory_unlock(struct store_memory **s);
enum err memory_not_found(const char *what, struct error *e);
enum err memory_no_room(struct error *e);
bool memory_copy_key(struct arena *a, const struct api_key *k, struct api_key *ret) must_use;

enum err memory_keys(struct reader *r, int32_t tenant, struct arena *a, struct key_list *ret, struct error *e);
enum err memory_dedupe(struct reader *r, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                       struct error *e);
enum err memory_causes(struct reader *r, int32_t tenant, size_t max, struct arena *a, struct cause_groups *ret,
                       struct error *e);
enum err memory_names(struct reader *r, int32_t tenant, struct str prefix, size_t max, struct arena *a,
                      struct task_names *ret, struct error *e);
enum err memory_catalog_get(struct reader *r, int32_t tenant, enum catalog_kind kind, struct str name, struct arena *a,
                            struct catalog_entry *ret, struct error *e);
enum err memory_catalog_list(struct reader *r, const struct catalog_filter *f, struct arena *a,
                             struct catalog_page *ret, struct error *e);

enum err memory_usage(struct reader *r, int32_t tenant, struct tenant_usage *ret, struct error *e);
enum err memory_backlog(struct reader *r, int64_t now_ms, struct arena *a, struct backlog_rows *ret, struct error *e);
enum err memory_queue_due(struct reader *r, int32_t tenant, struct str queue, int64_t now_ms, int64_t *ret,
                          struct error *e);

/* ---- slots (slots.c) ---- */

/* Whether the task, which does not hold the slot, could take it now. */
bool memory_slot_is_free(const struct table *t, const struct task *task, const struct slot_need *need);
/* Whether an earlier occurrence that needs the overlap slot is still to come (OP_CLAIM 11). */
bool memory_slot_has_earlier(const struct table *t, const struct task *task, const struct slot_need *need);

/* Replaces the row by the task, as OP_PUT says if a user has edited it. Adds the keys of released slots to `keys`, for
 * memory_hand_over. */
void memory_change_row(struct table *t, const struct task *next, bool edited, struct slot_keys *keys);
void memory_drop_row(struct table *t, struct uuid id, struct slot_keys *keys);
void memory_hand_over(struct table *t, const struct slot_keys *keys, uint64_t *unblocked);

/* An OCCURRENCE that never started will not run: subtracts it from its parent's runs_count. A skipped one is added to
 * skipped_count. */
void memory_uncount_run(struct table *t, struct task *occurrence, struct uuid parent, bool skipped);

/* ---- dependencies (joins.c) ---- */

enum err memory_depends_check(const struct store_memory *s, const struct dependency *v, size_t n, int32_t tenant,
                              struct error *e) must_use;
void memory_insert_child(struct store_memory *s, const struct task *t, const struct depends_on *d);
/* Changes the edges of a task that OP_PUT makes `next`. Nothing changes on failure. `why` lives as long as next. */
enum err memory_depends_change(struct store_memory *s, const struct depends_change *c, struct task *next,
                               char why[DEPENDENCY_REASON_MAX], struct error *e) must_use;

/* Tasks that an operation made final. */
struct memory_arrivals {
    struct memory_arrival *v;
    size_t n, cap;
    size_t budget, applied;
    bool left;
};
void memory_arrivals_add(struct memory_arrivals *a, const struct task *t);
/* Applies and releases them. */
void memory_arrivals_run(struct store_memory *s, struct memory_arrivals *a, int64_t now_ms, uint64_t *unblocked);
bool memory_is_left(const struct store_memory *s, struct uuid parent);  /* for OP_ARRIVE */
bool memory_run_is_left(const struct store_memory *s, struct uuid run); /* one of its steps is */
void memory_joins_drop(struct store_memory *s, struct uuid child);      /* it is purged */
void memory_joins_release(struct store_memory *s);
enum err memory_links(struct reader *r, int32_t tenant, struct uuid task, struct arena *a, struct task_links *ret,
                      struct error *e);

/* A task has become final: OP_ARRIVE will tell its children. False: nobody waits for it. */
bool memory_leave(struct store_memory *s, const struct task *t);
void memory_left_drop(struct store_memory *s, struct uuid parent); /* it runs again */
/* A task is opened: its edges so far are closed and do not count, and its join is that of its children. */
void memory_join_restart(struct store_memory *s, struct uuid child, uint32_t expected, int64_t max_broken);
void memory_open_row_edges(struct store_memory *s, const struct open_row *row); /* OP_OPEN 4 */
/* The edge from a row to a task that is opened (OP_OPEN 6). Returns whether the join has one edge more. */
bool memory_end_edge(struct store_memory *s, struct uuid parent, struct uuid child, enum dag_type type);
struct open_join memory_open_join(const struct store_memory *s, struct uuid child);
void memory_mark_parent(struct store_memory *s, struct uuid id);         /* it has children */
void memory_join_expect_more(struct store_memory *s, struct uuid child); /* by one */
enum flow_decision memory_join_decide(const struct memory_joins *j, const struct task *child);

/* ---- runs of workflows (runs.c and its neighbours) ---- */

struct str memory_text(struct str s); /* a copy, until memory_text_free */
void memory_text_free(struct str s);
void memory_signal_free(struct signal_row *x);
enum err memory_fence_check(const struct store_memory *s, struct uuid id, int64_t fence, struct error *e);
/* Adds the lane of a SCHEDULED task. */
void memory_add_lane(const struct task *t, uint64_t *unblocked);
struct run_row *memory_run_find(const struct store_memory *s, struct uuid run); /* NULL: it was never opened */
void memory_run_begin(struct store_memory *s, const struct op_open *op, const struct run_row *outer, int links);
void memory_run_resume(struct store_memory *s, struct uuid run);
void memory_run_stop(struct run_row *r, const struct op_stop *op, int links); /* its row */
size_t memory_signals_count(const struct store_memory *s, struct uuid run, struct str name, size_t *ret_bytes);
void memory_signals_drop(struct store_memory *s, struct uuid run, struct str name); /* an empty name: all */
void memory_definition_put(struct store_memory *s, const struct definition *d, int64_t now_ms);
/* The task becomes COMPLETED with this output. */
void memory_output_keep(struct store_memory *s, const struct task *t, struct str output);
void memory_output_drop(struct store_memory *s, const struct task *t); /* of a step, and what it has as a run */
void memory_run_drop(struct store_memory *s, struct uuid run);         /* all that is known of it beside tasks */
bool memory_definition_reseal(struct store_memory *s, const struct resealed_definition *r);
size_t memory_purge_definitions(struct store_memory *s, int64_t before_ms, size_t max);
void memory_runs_release(struct store_memory *s);
/* The tasks of a run, by place. */
struct picks memory_steps_of(const struct store_memory *s, struct uuid run);

enum err memory_definitions(struct reader *r, const struct definition *after, size_t max, struct arena *a,
                            struct definition_page *ret, struct error *e);
enum err memory_definition(struct reader *r, int32_t tenant, const uint8_t hash[DEFINITION_HASH], struct arena *a,
                           struct str *ret, struct error *e);
enum err memory_workflow(struct reader *r, int32_t tenant, struct str name, int64_t version, struct arena *a,
                         struct workflow_row *ret, struct error *e);
enum err memory_workflows(struct reader *r, int32_t tenant, struct str after, size_t max, struct arena *a,
                          struct workflow_rows *ret, struct error *e);
enum err memory_run(struct reader *r, int32_t tenant, struct uuid run, struct arena *a, struct run_row *ret,
                    struct error *e);
/* Whether a set of states (0: any) has that of a task: the one shown at this time, or the stored one. */
bool memory_state_matches(unsigned states, int64_t shown_at_ms, const struct task *t);
enum err memory_steps(struct reader *r, const struct step_filter *f, struct arena *a, struct tasks *ret,
                      struct error *e);
enum err memory_outputs(struct reader *r, struct uuid run, int64_t from, int64_t to, size_t max, struct arena *a,
                        struct run_outputs *ret, struct error *e);
enum err memory_signals(struct reader *r, struct uuid run, struct str name, struct arena *a, struct signal_rows *ret,
                        struct error *e);

enum err memory_reader(struct store *base, struct reader **ret, struct error *e) must_use;

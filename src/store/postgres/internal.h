#pragma once
/* store/postgres/internal.h - what the files of the PostgreSQL store share: the writer's state and what operations do
 * with it. Connections are in connection.h, reads in reader/reader.h. */
#include <pthread.h>
#include <stdatomic.h>

#include "store/common/claim_hold.h"
#include "store/common/joins.h"
#include "store/common/slots.h"
#include "store/common/sql_states.h"
#include "store/common/tally.h"
#include "store/postgres/connection.h"
#include "store/postgres/store_postgres.h"

/* The server's clock, in microseconds since 1970. */
#define CLOCK_US "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

/* ---- fences (fences.c) ---- */

/* The fence of the next claim of a task (core/task/fence.h). */
#define SQL_NEXT_FENCE                                                                                                 \
    "greatest(fence, (SELECT convert_from(value, 'UTF8')::bigint FROM cluster WHERE name = 'fence_floor')) + 1"

/* For a new connection: raises the floor of the fences if this is another database than before. */
enum err pg_fences_check(struct pg_conn *c, struct error *e) must_use;
enum err pg_fences_raise(struct pg_conn *c, struct pg_params *p, int64_t now_ms, struct error *e) must_use;

/* ---- writer (store_postgres.c; its operations are in the folders) ---- */

/* A task that became final in an operation, and when: rows of table `ended`, by which OP_PURGE finds it. */
struct pg_ended_task {
    int64_t completed_ms;
    struct uuid id;
};

struct pg_ended {
    struct pg_ended_task *v;
    size_t n, cap;
    size_t kept; /* entries of operations that succeeded; those behind are dropped if the current operation fails */
};

/* A change to the row of a claim: tasks have left it, or its node has handed it off. */
struct pg_claim_note {
    struct uuid id;
    int64_t left;   /* how many tasks have left */
    int64_t handed; /* > 0: the claim was handed off */
    int64_t epoch;  /* of the queue that it was handed to */
};

struct pg_claim_notes {
    struct pg_claim_note *v;
    size_t n, cap, kept; /* kept: as in struct pg_ended */
};

/* ---- due watermarks: where claims begin to scan (due_watermark.c) ---- */

struct pg_watermark {
    int64_t due_ms;   /* no task of the lane is due before; INT64_MIN: unknown */
    int64_t again_ns; /* steady clock: when the whole lane is to be scanned again */
    uint64_t notices; /* pg_watermarks.notices at the last full scan */
};

struct pg_noted_watermark {
    int64_t lane;
    struct pg_watermark watermark;
};

struct pg_watermarks {
    struct pg_watermark *v; /* indexed by the lane's number */
    size_t cap;
    struct pg_noted_watermark *noted; /* by this transaction; stored if it commits */
    size_t noted_count, noted_cap;
    atomic_uint_least64_t notices; /* counts notices by other nodes of a due time before a watermark */
    atomic_int_least64_t highest;  /* no watermark is above this */
};

/* A claim's scan of one lane. */
struct pg_scan {
    int64_t from_ms;  /* where it began; INT64_MIN: at the lane's start */
    uint64_t notices; /* pg_watermarks.notices before it began */
    int64_t begun_ns, ended_ns;
};

void pg_watermarks_release(struct pg_watermarks *f); /* a zeroed one is fine */
void pg_watermarks_reset(struct pg_watermarks *f);
/* When a claim begins. */
void pg_watermarks_begin(struct pg_watermarks *f, int64_t now_ms);
/* Where a claim's scan of the lane begins; INT64_MIN: at the lane's start. */
int64_t pg_watermark_of(struct pg_watermarks *f, int64_t lane, int64_t steady_ns);
/* The scan has left nothing in the lane that is due before left_ms. */
void pg_watermark_note(struct pg_watermarks *f, int64_t lane, const struct pg_scan *scan, int64_t left_ms,
                       int64_t now_ms);
/* The transaction has committed; `own` is its notice. */
void pg_watermarks_commit(struct pg_watermarks *f, const struct store_notice *own);
/* Another node's notice, or that of another store of this process. Any thread. */
void pg_watermarks_on_notice(struct pg_watermarks *f, const struct store_notice *notice);

struct pg_notifier;         /* notify.c */
struct pg_partition_thread; /* monthly_partitions.c */

enum { PG_SIBLINGS_MAX = 4 };

struct store_postgres {
    struct store base;
    struct store_postgres_setup setup; /* its strings are copies in `texts` */
    char *texts[4];
    struct pg_conn conn;
    struct pg_params params; /* of the statement that is being built */
    struct store_lanes lanes;
    bool made_lanes;     /* this transaction has made lanes: `lanes` is reset if it does not commit */
    bool lanes_reset;    /* and has not been loaded since: it may lack lanes, of suspects too */
    uint64_t generation; /* of the connection from which `lanes` was read */
    uint64_t set_up;     /* generation of the connection whose session settings were made */
    struct uuid strand;  /* of its audit rows, like the next */
    int64_t audit_seq;
    bool committing; /* COMMIT was sent: until its result arrives, the outcome is unknown */
    int shard;       /* this process's rows of table `counts` */
    struct tallies of_op, of_transaction;
    struct pg_ended ended;
    struct pg_claim_notes claims;
    struct task *scratch; /* tasks of the result that is being read */
    size_t scratch_cap;
    struct arena arena;         /* scratch memory of one operation; not for its results */
    struct store_notice notice; /* of this transaction; published after its commit */
    struct pg_watermarks watermarks;
    struct store_watch own_watch; /* passes notices to the watermarks, then to `watcher` */
    struct store_watch *watcher;  /* the node that watches this store; NULL: none */
    struct pg_notifier *notifier; /* shared with sibling_of, if that is set */
    struct store_postgres *sibling_of;
    _Atomic(struct store_postgres *) siblings[PG_SIBLINGS_MAX]; /* stores whose sibling_of is this one */
    struct pg_partition_thread *partition_thread;               /* NULL before the first OP_PURGE */
    struct prng random;                                         /* for retry pauses */
    struct arena_mark *marks; /* the operations' arenas before the transaction, to rewind them */
    size_t mark_cap;
    struct joins joins;
    struct slots slots;
    struct map slot_keys, slots_held; /* slots read in this transaction (slots.c) */
    bool has_met_slots;               /* this process has ever met a task that needs a slot */
};

/* Notes that operations make and the transaction writes at its end (deferred_writes.c). pg_tally_ counts tasks by
 * tenant and state, pg_note_ended records tasks that became final, pg_note_left and pg_note_handed record changes to
 * claims. */
void pg_tally_move(struct store_postgres *s, int32_t tenant, bool deleted, enum task_state from, enum task_state to);
void pg_tally_new(struct store_postgres *s, int32_t tenant, bool deleted, enum task_state state,
                  int64_t n); /* n < 0: deleted */
void pg_note_ended(struct store_postgres *s, struct uuid id, enum task_state state, int64_t completed_ms);
void pg_note_left(struct store_postgres *s, struct uuid claim);
void pg_note_handed(struct store_postgres *s, struct uuid claim, uint64_t epoch);

/* Write the notes of the operations that succeeded: at the end of the transaction, or before an operation that reads
 * these tables. */
enum err pg_send_tallies(struct store_postgres *s, struct error *e) must_use;
enum err pg_send_ended(struct store_postgres *s, struct error *e) must_use;
enum err pg_read_changes(struct store_postgres *s, struct error *e) must_use; /* port/store/changes.h 7 */
enum err pg_send_claims(struct store_postgres *s, struct error *e) must_use;
/* The audit rows of the operations that succeeded (record/audit.c). */
enum err pg_send_audit(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e) must_use;
/* Their hits (record/incidents.c). */
enum err pg_send_hits(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e) must_use;
enum err pg_send_checks(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e) must_use;

/* A task is SCHEDULED for that time. If it is near, other nodes get a notice after the commit. */
void pg_note_due(struct store_postgres *s, int64_t due_ms);

/* pg_lanes_find, for the writer. */
enum err pg_lane_numbers(struct store_postgres *s, struct pg_lane_want *v, size_t n, struct error *e) must_use;

/* pg_scratch_read reads a row with the columns "part" and TASK_COLUMNS into scratch[n]; pg_scratch_take copies the
 * first n of scratch into the arena as a result. */
enum err pg_scratch_read(struct store_postgres *s, const struct pg_result *r, int row, size_t n, struct arena *a,
                         struct error *e) must_use;
enum err pg_scratch_take(struct store_postgres *s, size_t n, struct arena *a, struct tasks *ret,
                         struct error *e) must_use;

/* Advisory locks, held until the transaction ends. They guard a read and the change that follows where no row can be
 * locked: the holders of a slot key, the number of a tenant's tasks, the use of a calendar. Several are taken in the
 * order of their numbers. PG_LOCK_SHARE is unused and keeps its number: the later ones must not change. */
enum pg_lock {
    PG_LOCK_SLOT = 1,
    PG_LOCK_TENANT,
    PG_LOCK_CALENDAR,
    PG_LOCK_SHARE,
    PG_LOCK_MIGRATE,
    PG_LOCK_PARTITIONS,
    PG_LOCK_DEPENDENCIES,
    PG_LOCK_WORKFLOW
};
enum err pg_lock(struct store_postgres *s, enum pg_lock what, const struct str *keys, size_t n,
                 struct error *e) must_use;

int64_t pg_lock_number(enum pg_lock what, struct str key);

/* Runs fn in a savepoint. If fn fails, its writes are rolled back, and its notes in s->of_op, s->ended and s->claims
 * are dropped. */
enum err pg_in_savepoint(struct store_postgres *s, struct op *op,
                         enum err (*fn)(struct store_postgres *, struct op *)) must_use;

/* The columns that decide whether an operation may change a task. pg_read_guards locks the row until the transaction
 * ends (FOR UPDATE). */
struct pg_guards {
    bool found;
    int64_t version, fence;
    int32_t tenant;
    enum task_state state;
    bool deleted;
    enum task_kind kind;
    int64_t cursor_ms, last_run_ms, runs_count, skipped_count, lane;
    int losses;
    bool gated;               /* it may hold slots */
    bool any_recall_requests; /* table `wishes` is not empty: some task has a recall request */
    struct str waits_for;     /* in s->arena; empty: it waits for no slot */
    struct uuid claim, parent;
    int links; /* enum task_link */
    struct uuid run;
    int64_t place, created_ms, started_ms, scheduled_ms;
};
/* Of n tasks, ret[i] for ids[i]. The rows are locked in the order of their ids. */
enum err pg_read_guards(struct store_postgres *s, const struct uuid *ids, size_t n, struct pg_guards *ret,
                        struct error *e) must_use;

/* Insert whole rows; replace one. Both update counts, lanes, `ended` and the notice. ret_new[i] is false if the id
 * existed already. */
enum err pg_insert_rows(struct store_postgres *s, const struct task *const *tasks, size_t n, bool *ret_new,
                        struct error *e) must_use;
enum err pg_replace_row(struct store_postgres *s, const struct pg_guards *old, const struct task *t,
                        struct error *e) must_use;
/* Deletes rows. The caller updates the counts. */
enum err pg_delete_rows(struct store_postgres *s, const struct uuid *ids, size_t n, struct error *e) must_use;
/* Locks the rows of recurring tasks. */
enum err pg_lock_parents(struct store_postgres *s, const struct uuid *parents, size_t n, struct error *e) must_use;

/* Adds a task to a claim: the claim's row holds the number of its tasks and their ids. pg_note_left removes it. */
enum err pg_claim_join(struct store_postgres *s, struct uuid claim, struct uuid task, struct error *e) must_use;

/* Inserts the record of an idempotency key; i may be NULL. If the key exists: ERR_CONFLICT, field "idempotency-key". */
enum err pg_idempotency_put(struct store_postgres *s, const struct idempotency *i, struct error *e) must_use;
enum err pg_idempotency_used_error(struct error *e);

/* ---- slots (slots.c, over store/common/slots.h) ---- */

void pg_slots_init(struct store_postgres *s);
/* Drops all that is cached: with each transaction, and after a rollback to a savepoint. */
void pg_slots_reset(struct store_postgres *s);

/* Takes the slot locks of all tasks that the operations settle. A transaction begins with it. */
enum err pg_slots_lock_settled(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e) must_use;

/* Locks the slot keys that these tasks hold, in order, and reads their state, in one batch. */
enum err pg_slots_prefetch(struct store_postgres *s, const struct uuid *tasks, size_t n, struct error *e) must_use;

/* Rules 9 and 12 of port/store/runs.h. */
enum err pg_run_resume(struct store_postgres *s, enum task_state was, const struct task *next,
                       struct error *e) must_use;
enum err pg_run_forget(struct store_postgres *s, const struct task *t, struct error *e) must_use;

/* pg_replace_row, and releases the slots that the new row does not keep. Adds the keys of the slots to hand over to
 * `keys`. *ret_state: as it is stored. */
enum err pg_change_task(struct store_postgres *s, const struct pg_guards *old, const struct task *t,
                        struct slot_keys *keys, enum task_state *ret_state, struct error *e) must_use;
/* As slots_release, slots_settle and slots_hand_over in store/common/slots.h. */
enum err pg_slots_release(struct store_postgres *s, const struct uuid *task, const struct task *next,
                          struct slot_keys *keys, struct error *e) must_use;
enum err pg_slots_settle(struct store_postgres *s, const struct uuid *task, enum task_state next, uint64_t *unblocked,
                         struct error *e) must_use;
enum err pg_slots_hand_over(struct store_postgres *s, const struct slot_keys *keys, uint64_t *unblocked,
                            struct error *e) must_use;
/* Occurrences that never started will not run: subtracts them from their parents' runs_count. Skipped ones are added
 * to skipped_count. */
enum err pg_uncount_runs(struct store_postgres *s, const struct uuid *ids, const struct uuid *parents,
                         const bool *skipped, size_t n, struct error *e) must_use;

/* ---- dependencies (joins.c, over store/common/joins.h) ---- */

void pg_joins_init(struct store_postgres *s);
/* These tasks are purged: deletes their joins and the edges from their parents. */
enum err pg_joins_purge(struct store_postgres *s, const struct uuid *children, size_t n, struct error *e) must_use;

/* ---- outputs of steps and runs (step_rows.c) ---- */

struct pg_output {
    struct uuid task, run; /* run: of a step; else nil */
    int64_t place;
    struct str text;
};
/* Keeps them as rule 5 of port/store/runs.h says. */
enum err pg_outputs_keep(struct store_postgres *s, const struct pg_output *v, size_t n, struct error *e) must_use;

/* ---- definitions of workflows (definitions.c) ---- */

/* Stores a definition, if it is not NULL. */
enum err pg_definition_put(struct store_postgres *s, const struct definition *d, int64_t now_ms,
                           struct error *e) must_use;

/* ---- limits and calendars (limits.c) ---- */

enum err pg_limits_lock_tenant(struct store_postgres *s, int32_t tenant, struct error *e) must_use;
enum err pg_limits_check(struct store_postgres *s, const struct op_insert *op, bool has_new_recurring,
                         struct error *e) must_use;
enum err pg_calendar_check(struct store_postgres *s, const struct task *t, struct error *e) must_use;
enum err pg_calendar_unused(struct store_postgres *s, const struct catalog_entry *x, struct error *e) must_use;

/* One function for each operation: postgres_claim and so on. It returns the operation's result. */
#define X(name, verb) enum err postgres_##verb(struct store_postgres *s, struct op *base);
OP_MAP(X)
#undef X

/* Runs as many inserts from ops[0] on as fit into one batch, at least one, and sets their results. In a batch of more
 * than one, a failed insert has left nothing in s->of_op, s->ended and s->claims. */
size_t postgres_insert_many(struct store_postgres *s, struct op *const *ops, size_t n, enum err *ret, struct error *e);
/* Runs as many spawns from ops[0] on as fit into one batch, at least one, and sets their results. */
size_t postgres_spawn_many(struct store_postgres *s, struct op *const *ops, size_t n);

/* ---- leases (leases.c) ---- */

/* The columns of a task with "t." before each, in the order that pg_scratch_read expects. */
#define SQL_OF_T(column, kind, member, max) ", t." #column
#define TASK_OF_T                           "t.part" TASK_COLUMNS(SQL_OF_T)

/* Write the leases of the tasks that a claim takes; delete those of tasks that have left their claim. Both only queue
 * the statement. */
enum err pg_lease_put_terms(struct store_postgres *s, const struct uuid *tasks, size_t n,
                            const struct lease_terms *terms, struct error *e) must_use;
enum err pg_lease_drop_terms(struct store_postgres *s, const struct uuid *tasks, size_t n, struct error *e) must_use;
/* Reads the first n rows of a result, with the columns "part" and TASK_COLUMNS. */
enum err pg_read_tasks(struct store_postgres *s, const struct pg_result *r, size_t n, struct arena *a,
                       struct tasks *ret, struct error *e) must_use;
/* Inserts the row of a claim, with the ids of its tasks. */
extern const struct pg_statement pg_insert_claim;
void pg_add_claim(struct pg_params *p, struct uuid claim, struct uuid node, const struct uuid *tasks, size_t n,
                  enum claim_hold hold);
void pg_add_ids(struct pg_params *p, const struct uuid *ids, size_t n);
/* Empties the parameters, and adds an id. */
struct pg_params *pg_node_params(struct store_postgres *s, struct uuid id);

/* Deletes the places of nodes that do not live (nodes.c). */
extern const struct pg_statement pg_drop_places;

/* The task of a recall request is RUNNING under its fence. OFFSET 0 keeps the planner from scanning `tasks`, which its
 * statistics may show as nearly empty. */
#define SQL_RECALL_RUNS(recall_request)                                                                                \
    "EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = " recall_request ".task_id AND t.state = " SQL_RUNNING              \
    " AND t.claim_id IS NOT NULL AND t.fence = " recall_request ".fence OFFSET 0)"

/* The task's node has to look at a recall request. */
#define SQL_RECALL_UNREFUSED(recall_request)                                                                           \
    "(" recall_request ".abort OR " recall_request ".refused_fence <> " recall_request ".fence)"

/* ---- settings of the whole cluster (cluster_settings.c) ---- */

/* The fingerprints of keys, and reading them. */
extern const struct pg_statement pg_cluster_keys;
enum err pg_cluster_key_prints(const struct pg_result *r, struct key_prints *ret, struct error *e) must_use;
/* The value of a name, n bytes. If there is none yet, the given value is stored. */
enum err pg_cluster_value(struct pg_conn *c, struct str name, void *value, size_t n, struct error *e) must_use;

/* ---- migrations (migrate.c) ---- */

struct pg_migration {
    const struct schema *schema;
    int to;             /* STORE_POSTGRES_NEWEST, or a version */
    bool nodes_running; /* other nodes are running: refuse steps that they cannot work with */
};
enum err pg_migrate(const char *url, struct clock *clock, const struct pg_migration *m, struct error *e) must_use;
/* Checks that this binary can work with the schema. Migrates an older schema if setup->migrate is set. */
enum err pg_schema_check(struct pg_conn *c, const struct store_postgres_setup *setup, struct error *e) must_use;

/* ---- monthly partitions of executions (monthly_partitions.c) ---- */

/* A thread that makes the partitions of the coming months and archives and drops those that are over. */
struct pg_partition_thread *pg_partition_thread_new(const struct store_postgres_setup *setup);
void pg_partition_thread_free(struct pg_partition_thread *k); /* NULL is fine */
/* Called by each OP_PURGE. Wakes the thread if it has not run within the hour. Returns the error of its last run,
 * once. */
enum err pg_partition_thread_nudge(struct pg_partition_thread *k, int64_t executions_before_ms,
                                   struct error *e) must_use;
/* One run, on the caller's thread: makes the partition of now_ms and those ahead of it; archives and drops partitions
 * that ended before before_ms. */
struct pg_partition_job {
    int64_t now_ms, before_ms;
    const char *archive_dir; /* NULL: drop without archiving */
    const atomic_bool *stop; /* NULL, or a flag that ends the run between two pages */
};
enum err pg_maintain_partitions(struct pg_conn *c, const struct pg_partition_job *k, struct error *e) must_use;

/* ---- readers (reader/reader.c) ---- */

enum err reader_postgres_open(struct store_postgres *s, struct reader **ret, struct error *e) must_use;

/* ---- notices between nodes (notify.c) ---- */

/* Two threads, each with a connection: one sends NOTIFY after commits, at most once in 5 ms; one LISTENs. */
enum err pg_notifier_new(const struct store_postgres_setup *setup, struct pg_notifier **ret, struct error *e) must_use;
void pg_notifier_free(struct pg_notifier *n); /* NULL is fine */
/* Starts the listener, which calls w->on_notice on its thread; NULL stops it. */
void pg_notifier_watch(struct pg_notifier *n, struct store_watch *w);
/* Tells the other nodes that these tasks are settled. Any thread. */
void pg_notifier_settled(struct pg_notifier *n, const struct fenced_id *v, size_t count);
/* As store_broadcast. Any thread. */
void pg_notifier_broadcast(struct pg_notifier *n, struct str line);
/* Tells the other nodes what a transaction has done. Any thread. */
void pg_notifier_publish(struct pg_notifier *n, const struct store_notice *notice);
/* The nodes that the last heartbeat has seen. */
void pg_notifier_set_nodes(struct pg_notifier *n, struct uuid self, const struct node_rows *nodes);
/* As store_barrier_wait, store_barrier_cancel and store_catalog_applied. Any thread. */
void pg_notifier_barrier_wait(struct pg_notifier *n, struct store_barrier *barrier);
bool pg_notifier_barrier_cancel(struct pg_notifier *n, struct store_barrier *barrier);
void pg_notifier_catalog_applied(struct pg_notifier *n, uint64_t catalog_change);

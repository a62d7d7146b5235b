#pragma once
/* store/sqlite/internal.h - the shared parts of the SQLite store: connections, rows, the writer's state, its statements
 * and operations. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "store/common/claim_hold.h"
#include "store/common/columns.h"
#include "store/common/joins.h"
#include "store/common/lane_table.h"
#include "store/common/reading.h"
#include "store/common/slots.h"
#include "store/common/sql_states.h"
#include "store/common/tally.h"
#include "store/sqlite/store_sqlite.h"

/* ---- connections: statements and lanes (connection.c) ---- */

struct conn {
    sqlite3 *db;
    char *path;
    bool is_backup; /* CONN_VERIFY: the errors do not advise to restore a backup */
    const char *const *sql;
    sqlite3_stmt **stmts; /* one for each text; NULL: not prepared yet */
    size_t stmt_count;
    enum err failed; /* set by conn_fail: the transaction on this connection must be rolled back */
    struct error failure;
    struct store_lanes lanes;
    struct buf texts[4]; /* JSON of the row that is being bound */
};

enum conn_mode {
    CONN_WRITER,
    CONN_READER,
    CONN_CHECKPOINT,
    CONN_COPY,   /* reads, and may write to another file */
    CONN_VERIFY, /* reads a backup */
};

enum err conn_open(struct conn *c, const char *path, enum conn_mode mode, struct error *e) must_use;
/* A server has many readers, and each runs few of the statements: a reader's are prepared when they are first used. */
enum err conn_set_statements(struct conn *c, const char *const *sql, size_t count, struct error *e) must_use;
enum err conn_prepare(struct conn *c, const char *const *sql, size_t count, struct error *e) must_use; /* all at once */
/* NULL if it cannot be prepared. To bind and to step NULL are errors, and conn_fail says why it is NULL. */
sqlite3_stmt *conn_stmt(struct conn *c, size_t which);
void conn_release(struct conn *c); /* a zeroed one is fine */

/* Converts SQLite's latest error on this connection to an enum err. Also stores it in `failed`. */
enum err conn_fail(struct conn *c, struct error *e);
/* The same for damage that our own code found. */
enum err conn_corrupt(struct conn *c, const char *what, struct error *e);
enum err conn_exec(struct conn *c, const char *sql, struct error *e) must_use;
enum err conn_number(struct conn *c, const char *sql, int64_t *ret, struct error *e) must_use; /* one row, one column */

/* Runs a bound statement that returns no row, and resets it. */
enum err conn_run(struct conn *c, sqlite3_stmt *st, struct error *e) must_use;
/* *ret_row says whether the statement stands on a row. If it does not, or on an error, the statement is reset. */
enum err conn_step(struct conn *c, sqlite3_stmt *st, bool *ret_row, struct error *e) must_use;

enum err lanes_load(struct conn *c, struct error *e) must_use;
const struct lane_row *lanes_find(struct conn *c, struct lane lane, int pool); /* NULL: none */
enum err lanes_at(struct conn *c, int64_t number, const struct lane_row **ret, struct error *e) must_use;

/* ---- fences (cluster_settings.c) ---- */

/* When the store is opened: raises the floor if the file is a copy. */
enum err sqlite_fences_open(struct conn *c, const char *path, int64_t now_ms, int64_t *ret_floor,
                            struct error *e) must_use;
enum err sqlite_fences_raise(struct conn *c, int64_t now_ms, int64_t *ret_floor, struct error *e) must_use;

/* ---- rows and structs (row.c) ---- */

#define SQL_MARK(column, kind, member, max) ", ?"

/* Nearly every inserted task is one-time and has never run: half of its columns are 0 or NULL. The statement for such a
 * fresh task holds these values as literals, so that they are not bound. */
#define FRESH_id                             "?"
#define FRESH_tenant_id                      "?"
#define FRESH_state                          SQL_SCHEDULED
#define FRESH_fence                          "0"
#define FRESH_deleted                        "0"
#define FRESH_claim_id                       "NULL"
#define FRESH_kind                           "0"
#define FRESH_lane                           "?"
#define FRESH_due_ms                         "?"
#define FRESH_delivery                       "?"
#define FRESH_version                        "?"
#define FRESH_attempts                       "0"
#define FRESH_losses                         "0"
#define FRESH_completed_ms                   "0"
#define FRESH_scheduled_ms                   "?"
#define FRESH_started_ms                     "0"
#define FRESH_updated_ms                     "?"
#define FRESH_created_ms                     "?"
#define FRESH_parent_id                      "NULL"
#define FRESH_cursor_ms                      "0"
#define FRESH_last_run_ms                    "0"
#define FRESH_runs_count                     "0"
#define FRESH_skipped_count                  "0"
#define FRESH_priority                       "?"
#define FRESH_target                         "?"
#define FRESH_timeout_ms                     "?"
#define FRESH_expires_after_ms               "?"
#define FRESH_name                           "?"
#define FRESH_task_type                      "?"
#define FRESH_retry                          "?"
#define FRESH_schedule                       "NULL"
#define FRESH_last_error                     "NULL"
#define FRESH_target_config                  "?"
#define FRESH_extra                          "?"
#define FRESH_payload                        "?"
#define FRESH_gates                          "?"
#define FRESH_needs                          "NULL"
#define FRESH_aside                          "NULL"
#define FRESH_recalled                       "0"
#define FRESH_awaited_ms                     "0"
#define FRESH_late_by                        "0"
#define FRESH_links                          "0"
#define FRESH_run_id                         "NULL"
#define FRESH_place                          "0"
#define FRESH_queue                          "NULL"
#define FRESH_trace                          "?"
#define FRESH_waits_for                      "NULL"
#define FRESH_cause                          "NULL"
#define FRESH_resolved_ms                    "0"
#define FRESH_resolution                     "NULL"
#define FRESH_failed_ms                      "NULL"
#define FRESH_calendar                       "NULL"
#define SQL_FRESH(column, kind, member, max) ", " FRESH_##column
bool row_is_fresh(struct conn *c, const struct task *t);
void row_bind_fresh(struct conn *c, sqlite3_stmt *st, const struct task *t, int64_t lane);

#define STATS_NODES "ffffffffffffffffffffffffffffffff" /* the node of rows of several nodes */
/* Figures of stats: a parameter, their total over rows, and what is added to a row that is there. */
#define STATS_PARAMETER(id, column, how) ", ?"
#define STATS_TOTAL(id, column, how)     ", " #how "(" #column ")"
#define STATS_ADD_SUM(column)            #column " = " #column " + excluded." #column
#define STATS_ADD_MAX(column)            #column " = max(" #column ", excluded." #column ")"
#define STATS_ADD(id, column, how)       ", " STATS_ADD_##how(column)
#define STATS_CONFLICT                   "ON CONFLICT (" STATS_KEY ") DO UPDATE SET grain = grain" STATS_MAP(STATS_ADD)
#define STATS_OLDEST                     "FROM stats WHERE grain = ?1 AND minute_ms < ?2 ORDER BY minute_ms, tenant_id, node_id LIMIT ?3"

/* Binds the struct's members from parameter `first` on, except the lane, which the caller binds. Texts are borrowed
 * until the next bind. */
void row_bind(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, const void *row);

/* Reads the columns from `first` on into a zeroed struct. ERR_LIMIT: the arena is full. ERR_CORRUPT: the row is not
 * valid. */
enum err row_read(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, struct arena *a, void *row,
                  struct error *e) must_use;
/* The same, but column left_out of the statement is not read; -1: none. */
enum err row_read_without(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, int left_out,
                          struct arena *a, void *row, struct error *e) must_use;
/* Reads only the column `gates`, into a task whose kind is set. NULL is fine. */
enum err row_read_gates(sqlite3_stmt *st, int at, struct arena *a, struct task *ret, struct error *e) must_use;
struct uuid row_uuid(sqlite3_stmt *st, int column); /* nil when NULL */
struct str row_text(sqlite3_stmt *st, int column);  /* SQLite's, until the next step */
bool bind_uuid(sqlite3_stmt *st, int at, const struct uuid *u);
bool bind_str(sqlite3_stmt *st, int at, struct str s); /* empty is "", not NULL */

/* ---- migrations (migrate.c) ---- */

enum { MIGRATE_NEWEST = -1 };
enum err sqlite_migrate_to(struct conn *c, int to_version, int64_t now_ms, struct error *e) must_use;
/* The version of an existing file. ERR_CORRUPT: not a file of Belfry. ERR_INVALID: newer than this binary. */
enum err sqlite_schema_version(struct conn *c, int *ret, struct error *e) must_use;

/* ---- the data directory: its lock and the path of the database file (data_directory.c) ---- */
struct directory {
    int lock_fd;
    char *path; /* of the database file */
};
enum err directory_lock(const char *directory, struct directory *ret, struct error *e) must_use;
void directory_unlock(struct directory *d);
char *directory_file(const char *directory) must_use;
char *directory_path(const char *directory, const char *name) must_use;
#define DIRECTORY_COPY_MARK "copied-to" /* copy_mark.h */
/* If a restore was decided but interrupted, completes it. The caller has the lock (restore.c). */
enum err directory_finish(const char *directory, struct error *e) must_use;

/* ---- the write-ahead log file (wal_file.c) ---- */

const char *wal_file_vfs(void); /* name of the SQLite VFS that the writer opens its files with */

/* ---- the checkpoint thread (checkpoint.c) ---- */

struct checkpointer {
    struct conn conn;
    pthread_t thread;
    bool started;
    int wake_fd;
    atomic_bool stop;
    atomic_int wal_pages;     /* pages in the write-ahead log after the latest commit */
    pthread_mutex_t *writing; /* the store's mutex */
};
enum err checkpointer_start(struct checkpointer *k, const char *path, struct conn *writer, pthread_mutex_t *writing,
                            struct error *e) must_use;
void checkpointer_stop(struct checkpointer *k); /* leaves the write-ahead log empty, unless a reader still uses it */

/* ---- the writer (store_sqlite.c); one file for each group of operations ---- */

/* Tasks that became final in a transaction, for the table `ended` (purge.c). */
struct ended {
    struct ended_task {
        int64_t completed_ms, rid;
    } * v;
    size_t n, cap;
    size_t kept; /* entries of operations that succeeded; entries behind them are dropped if their operation fails */
};

struct store_sqlite {
    struct store base;
    struct directory directory;
    pthread_mutex_t writing; /* held during store_apply, and while the write-ahead log is restarted */
    struct conn conn;
    struct checkpointer checkpointer;
    struct tallies of_op, of_transaction;
    bool made_lanes;      /* this transaction inserted lanes: if it does not commit, the cached lanes are dropped */
    struct task *scratch; /* tasks of the result that is being built */
    int64_t *rids;        /* their rids */
    size_t scratch_cap;
    struct ended ended;
    int64_t fence_floor; /* cluster_settings.c */
    struct uuid strand;  /* audit.c, like the next */
    int64_t audit_seq;
    bool can_shrink; /* the file has incremental auto_vacuum, so it can shrink */
    struct slots slots;
    struct joins joins;
    struct map slot_counts; /* slot key → number of holders, cached during a transaction (slots.c) */
    struct arena arena;     /* for values that are not part of a result */
};

/* The writer's statements. Their texts are in store_sqlite.c; they are prepared when the store opens. */
enum writer_statement {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_SAVEPOINT,
    ST_RELEASE,
    ST_ROLLBACK_TO,
    ST_COUNT_ADD,
    ST_LANE_INSERT,
    ST_TASK_INSERT,
    ST_TASK_INSERT_FRESH,
    ST_TASK_CREATED,
    ST_TASK_GUARDS,
    ST_SETTLE_GUARDS,
    ST_TASK_BY_RID,
    ST_HANDED_BY_RID,
    ST_TASK_REPLACE,
    ST_TASK_DELETE,
    ST_TASK_CHANGED,
    ST_DUE,
    ST_DUE_BEHIND,
    ST_DUE_KEYS,
    ST_DUE_KEYS_BEHIND,
    ST_DUE_BY_RID,
    ST_NEXT_DUE,
    ST_BRING_NEAR,
    ST_FAR_EXISTS,
    ST_CLAIM_EXISTS,
    ST_CLAIM_TASK,
    ST_CLAIM_INSERT,
    ST_CLAIM_JOIN,
    ST_CLAIM_LEAVE,
    ST_CLAIM_DELETE,
    ST_CLAIM_BY_ID,
    ST_CLAIMS_ORPHANED,
    ST_CLAIM_HAND,
    ST_CLAIMS_HANDED,
    ST_TASK_OF_CLAIM,
    ST_RUNNING,
    ST_RETAKEN,
    ST_RETAKE,
    ST_TASK_LEASE_PUT,
    ST_TASK_LEASE_DELETE,
    ST_TASK_LEASE_RENEW,
    ST_TASK_LEASES_OF_QUEUE,
    ST_TASK_LEASES_OF_TENANT,
    ST_TASK_LEASES_DELETE_STALE,
    ST_TASK_LEASES_BY_EXPIRY,
    ST_WAITING_BY_EXPIRY,
    ST_ANY_EXPIRES,
    ST_ABORT_REQUESTED,
    ST_WORKER_PUT,
    ST_WORKER,
    ST_WORKER_GROUPS,
    ST_BREAKER_PUT,
    ST_BREAKER_CLOSE,
    ST_BREAKER_CLOSE_HOST,
    ST_STATS_ADD,
    ST_STATS_MERGE,
    ST_STATS_PURGE,
    ST_HIT_INSERT,
    ST_HIT_DELETE,
    ST_RECORD_INSERT,
    ST_CHECK_PUT,
    ST_RECORD_UPDATE,
    ST_RECORD_DELETE,
    ST_RESEAL,
    ST_RESEAL_DEFINITION,
    ST_SETTLE,
    ST_SETTLE_DONE,
    ST_MOVE_LANE,
    ST_UNCOUNT,
    ST_UNCOUNT_PARENT,
    ST_SLOT_COUNT,
    ST_SLOT_TAKE,
    ST_SLOT_DROP,
    ST_SLOTS_OF,
    ST_SLOT_FIRST,
    ST_SLOT_OTHER,
    ST_SLOT_HOLDERS,
    ST_SLOT_SINCE,
    ST_SLOT_EARLIER,
    ST_SLOT_HELD_AHEAD,
    ST_SLOT_WAITED_FOR,
    ST_SLOT_UNBLOCK,
    ST_SLOT_BLOCK,
    ST_SLOT_GIVE_UP,
    ST_EXECUTION_INSERT,
    ST_LAST_RUN,
    ST_SETTLE_PARENT,
    ST_JOIN_TASK,
    ST_JOIN_MARK,
    ST_JOIN_CHILDREN,
    ST_JOIN_PUT,
    ST_JOIN_COUNT,
    ST_JOIN_GET,
    ST_JOIN_DELETE,
    ST_JOIN_CHILD_PUT,
    ST_EDGE_PUT,
    ST_EDGE_ARRIVE,
    ST_EDGE_REMOVE,
    ST_EDGES_DELETE,
    ST_OPEN_PARENTS,
    ST_ARRIVAL_LEAVE,
    ST_ARRIVALS,
    ST_ARRIVAL_OF,
    ST_ARRIVAL_OF_RUN,
    ST_ARRIVAL_DELETE,
    ST_ARRIVAL_DROP,
    ST_EDGES_CLOSE,
    ST_END,
    ST_END_PUT,
    ST_STEP,
    ST_STEP_PUT,
    ST_STEPS,
    ST_STEPS_RUNNING,
    ST_RUN,
    ST_RUN_PUT,
    ST_RUN_COUNT,
    ST_RUN_RESUME,
    ST_OUTPUT_PUT,
    ST_OUTPUT_PUT_SUB_RUN,
    ST_OUTPUT_DELETE,
    ST_SIGNAL,
    ST_SIGNAL_PUT,
    ST_SIGNALS_COUNT,
    ST_SIGNALS_DELETE,
    ST_DEFINITION_PUT,
    ST_WORKFLOW,
    ST_WORKFLOW_PUT,
    ST_WORKFLOW_REMOVE,
    ST_RECURRING,
    ST_TAKEN,
    ST_SPAWN_MOVE,
    ST_SPAWN_END,
    ST_SPAWNED,
    ST_CUT_FIND,
    ST_CUT,
    ST_SPAWNED_CANCEL,
    ST_CATCH_UP_NEXT,
    ST_CATCH_UP_TASK,
    ST_CATCH_UP_OCCURRENCES,
    ST_CATCH_UP_REWIND,
    ST_IDEMPOTENCY_INSERT,
    ST_IDEMPOTENCY_DELETE,
    ST_KEY_PUT,
    ST_KEY_PURGE,
    ST_KEY_REMOVE,
    ST_LEASE,
    ST_DEDUPE_TAKE,
    ST_PENDING,
    ST_RECURRING_COUNT,
    ST_CALENDAR_EXISTS,
    ST_CALENDAR_USED,
    ST_NODE_IS_DEAD,
    ST_NODE_HEARTBEAT,
    ST_NODE_LEAVE,
    ST_NODE_MARK_DEAD,
    ST_NODE_MARK_OTHERS_DEAD,
    ST_NODES,
    ST_ORPHAN_EXISTS,
    ST_SHARE,
    ST_SHARE_PUT,
    ST_PLACES,
    ST_PLACES_PUT,
    ST_PLACES_GIVE_UP,
    ST_PLACES_OF_DEAD,
    ST_CLAIMS_HANDED_BY,
    ST_RECALL_OWNER,
    ST_RECALL,
    ST_RECALL_REFUSED,
    ST_RECALL_EXISTS,
    ST_RECALLS_DELETE_OVER,
    ST_RECALL_REFUSE,
    ST_RECALLS,
    ST_CATALOG_FIND,
    ST_CATALOG_PUT,
    ST_CATALOG_REMOVE,
    ST_ENDED_INSERT,
    ST_ENDED_OLDEST,
    ST_ENDED_CUT,
    ST_ENDED_REMOVE,
    ST_ENDED_TASK,
    ST_STEPS_PURGED,
    ST_PURGE_OUTPUTS,
    ST_PURGE_SIGNALS,
    ST_PURGE_RUN,
    ST_PURGE_HIDE,
    ST_DEFINITIONS_USED,
    ST_PURGE_DEFINITIONS,
    ST_FAILED_OLD,
    ST_JOBS_OLD,
    ST_PURGE_IDEMPOTENCY,
    ST_PURGE_EXECUTIONS,
    ST_PURGE_DEDUPE,
    ST_PURGE_RECALLS,
    ST_PURGE_SHARES,
    ST_PURGE_NODES,
    ST_PURGE_WORKERS,
    ST_AUDIT_INSERT,
    ST_AUDIT_OLDEST,
    ST_AUDIT_PURGE_BEGIN,
    ST_AUDIT_PURGE,
    ST_AUDIT_PURGE_END,
    ST_VACUUM,
    ST_WRITER_COUNT
};

static inline sqlite3_stmt *writer_stmt(struct store_sqlite *s, enum writer_statement which)
{
    return s->conn.stmts[which];
}

void scratch_grow(struct store_sqlite *s, size_t n); /* makes room for one more entry behind n */
/* Reads the current row of a statement into entry n of the scratch. A due task has only the columns TASK_COLUMNS_DUE
 * and gates. */
enum err scratch_read_due(struct store_sqlite *s, sqlite3_stmt *st, size_t n, struct arena *a,
                          struct error *e) must_use;
enum err scratch_read(struct store_sqlite *s, sqlite3_stmt *st, size_t n, struct arena *a, struct error *e) must_use;
/* Copies the first n entries of the scratch into the arena as a result. */
enum err scratch_take(struct store_sqlite *s, size_t n, struct arena *a, struct tasks *ret, struct error *e) must_use;

/* The columns of a row that decide whether an operation may change it. */
struct guards {
    bool found;
    int64_t rid, version, fence;
    int32_t tenant;
    enum task_state state;
    bool deleted;
    enum task_kind kind;
    int64_t cursor_ms, last_run_ms, runs_count, skipped_count, created_ms, lane;
    int losses;
    bool gated; /* has gates: may hold slots */
    bool waits; /* waits for a slot */
    int links;  /* enum task_link */
    struct uuid claim;
    struct uuid run; /* of a step; only for a settle, as is place */
    int64_t place;
};
enum err sqlite_read_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret,
                            struct error *e) must_use;
/* Reads only the columns that a settle needs; the others are 0. */
enum err sqlite_read_settle_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret,
                                   struct error *e) must_use;
enum err sqlite_replace_task(struct store_sqlite *s, const struct guards *old, const struct task *t,
                             struct error *e) must_use;
enum err sqlite_delete_task(struct store_sqlite *s, int64_t rid,
                            struct error *e) must_use; /* the caller updates the counts */
/* The number of a lane; inserts the lane at its first use. */
enum err sqlite_lane_number(struct store_sqlite *s, struct lane lane, int pool, int64_t *ret, struct error *e) must_use;
/* ERR_CONFLICT: the node is marked dead, or the claim's id exists already. */
enum err sqlite_claim_check_new(struct store_sqlite *s, const struct uuid *claim, const struct uuid *node,
                                struct error *e) must_use;
/* Inserts a claim that holds the first n tasks of the scratch. Overwrites their s->rids. */
enum err sqlite_claim_insert(struct store_sqlite *s, const struct uuid *claim, const struct uuid *node,
                             enum claim_hold hold, size_t n, struct error *e) must_use;
enum err sqlite_claim_leave(struct store_sqlite *s, struct uuid claim, int64_t n, struct error *e) must_use;
enum err sqlite_claim_join(struct store_sqlite *s, struct uuid claim, int64_t rid, struct error *e) must_use;

/* Inserts one task; *ret_new is false if its id exists already. */
enum err sqlite_insert_task(struct store_sqlite *s, const struct task *t, bool *ret_new, struct error *e) must_use;

/* Inserts the record of an idempotency key; NULL: none. *ret_rowid is its rowid: an operation without a savepoint
 * deletes it by that if it fails later. */
enum err sqlite_idempotency_put(struct store_sqlite *s, const struct idempotency *i, int64_t *ret_rowid,
                                struct error *e) must_use;
enum err sqlite_idempotency_delete(struct store_sqlite *s, int64_t rowid, struct error *e) must_use;

/* Notes that a row is final, so that OP_PURGE finds it later. Ignores states that are not final, and FAILED. */
void sqlite_ended_note(struct store_sqlite *s, int64_t rid, enum task_state state, int64_t completed_ms);
/* Writes the entries of operations that succeeded so far. */
enum err sqlite_ended_write(struct store_sqlite *s, struct error *e) must_use;

/* ---- audit rows (audit.c) ---- */

/* Writes the rows of the operations that succeeded. */
enum err sqlite_audit_write(struct store_sqlite *s, struct op *const *ops, size_t n, struct error *e) must_use;
enum err sqlite_audit_purge(struct store_sqlite *s, int64_t before_ms, size_t max, size_t *count,
                            struct error *e) must_use;

/* ---- hits, incidents and messages (incident/records.c) ---- */

/* Writes the hits of the operations that succeeded. */
enum err sqlite_hits_write(struct store_sqlite *s, struct op *const *ops, size_t n, struct error *e) must_use;
enum err sqlite_checks_write(struct store_sqlite *s, struct op *const *ops, size_t n, struct error *e) must_use;
enum err reader_sqlite_hits(struct reader *base, size_t max, struct arena *a, struct hit_list *ret, struct error *e);
enum err reader_sqlite_records(struct reader *base, const struct record_filter *f, struct arena *a,
                               struct record_page *ret, struct error *e);

struct key_prints;
enum err sqlite_key_prints(struct conn *c, struct key_prints *ret, struct error *e) must_use; /* cluster_settings.c */
enum err reader_sqlite_sealed(struct reader *base, struct str key_id, bool *ret, struct error *e);
enum err reader_sqlite_sealed_page(struct reader *base, struct str key_id, struct uuid after, size_t max,
                                   struct arena *a, struct sealed_page *ret, struct error *e);
enum err reader_sqlite_key_prints(struct reader *base, struct key_prints *ret, struct error *e);
enum err reader_sqlite_history(struct reader *base, const struct history_filter *f, struct arena *a,
                               struct history_page *ret, struct error *e);
enum err reader_sqlite_audit(struct reader *base, const struct audit_filter *f, struct arena *a, struct audit_page *ret,
                             struct error *e);

/* ---- tasks that are due in days (far_due.c); the conditions must match its indexes ---- */

#define SQL_NEAR          "state = " SQL_SCHEDULED " AND kind <> 1 AND (near OR due_ms - created_ms < 108000000) "
#define SQL_FAR           "state = " SQL_SCHEDULED " AND kind <> 1 AND NOT near AND due_ms - created_ms >= 108000000 "
#define SQL_FAR_UNTIL(ms) SQL_FAR "AND due_ms / 86400000 <= " ms " / 86400000 " /* due by the end of that day */

enum err sqlite_far_before_claim(struct store_sqlite *s, int64_t now_ms, int64_t until_ms, struct error *e) must_use;
enum err sqlite_far_purge(struct store_sqlite *s, int64_t now_ms, size_t max, bool *ret_more, struct error *e) must_use;
enum err sqlite_far_exists(struct store_sqlite *s, bool *ret, struct error *e) must_use;

/* ---- slots (slots.c, and for claims slot_gate.c); the decisions are in store/common/slots.h ---- */

static inline struct store_sqlite *sqlite_of_slots(struct slots *s)
{
    return container_of(s, struct store_sqlite, slots);
}
void sqlite_slots_init(struct store_sqlite *s);
void sqlite_slot_counts_clear(struct store_sqlite *s);

/* The primitives that only claims use (struct slots_ops). */
enum err sqlite_slot_block(struct slots *base, const struct slot_row *r, const struct slot_need *need, int64_t now_ms,
                           struct error *e);
enum err sqlite_slot_give_up(struct slots *base, const struct slot_row *r, enum task_state state, struct str why,
                             int64_t now_ms, struct error *e);
enum err sqlite_slot_holders(struct slots *base, struct str key, struct slot_row **ret, size_t *ret_count,
                             struct error *e);
enum err sqlite_slot_other(struct slots *base, struct str key, const struct slot_row *but, struct slot_row *ret,
                           bool *ret_found, struct error *e);
enum err sqlite_slot_since(struct slots *base, struct str key, int64_t *ret, struct error *e);
enum err sqlite_slot_held_ahead(struct slots *base, struct str key, int64_t now_ms, bool *ret, struct error *e);

/* sqlite_replace_task, and the consequences for slots. *ret_state: as it is stored. */
enum err sqlite_change_task(struct store_sqlite *s, const struct guards *old, const struct task *t,
                            struct slot_keys *keys, enum task_state *ret_state, struct error *e) must_use;
/* An OCCURRENCE that never started will not run: subtracts it from its parent's runs_count. A skipped one is added to
 * skipped_count. */
enum err sqlite_uncount_run(struct store_sqlite *s, int64_t rid, const struct uuid *parent, bool skipped,
                            struct error *e) must_use;

/* ---- dependencies (joins.c); the decisions are in store/common/joins.h ---- */

void sqlite_joins_init(struct store_sqlite *s);
/* A task is purged: deletes its join and the edges from its parents. */
enum err sqlite_joins_purge(struct store_sqlite *s, const struct uuid *task, int links, struct error *e) must_use;

/* ---- runs of workflows (runs.c, run_stop.c, definitions.c) ---- */

enum err sqlite_definition_put(struct store_sqlite *s, const struct definition *d, int64_t now_ms,
                               struct error *e) must_use;
/* Keeps the output of a task: of a step at its run, of a run at itself; a sub-run is both. */
enum err sqlite_output_keep(struct store_sqlite *s, const struct task *t, struct str output, struct error *e) must_use;
enum err sqlite_output_delete(struct store_sqlite *s, const struct uuid *run, int64_t place, struct error *e) must_use;
enum err sqlite_run_resume(struct store_sqlite *s, const struct uuid *run, struct error *e) must_use; /* rule 9 */
enum err sqlite_run_forget(struct store_sqlite *s, const struct task *t, struct error *e) must_use;   /* rule 12 */

bool sqlite_insert_alone(const struct op *op); /* true: an insert that needs no savepoint */

/* One function for each operation: sqlite_claim and so on. It returns the operation's result. */
#define X(name, verb) enum err sqlite_##verb(struct store_sqlite *s, struct op *base);
OP_MAP(X)
#undef X

/* ---- limits and calendars (limits.c) ---- */

#define SQL_PENDING "SELECT sum(n) FROM counts WHERE tenant_id = ?1 AND state <= " SQL_RUNNING
#define SQL_BY_CALENDAR                                                                                                \
    "INDEXED BY tasks_calendar WHERE kind = 1 AND state < " SQL_RUNNING " AND deleted = 0 AND tenant_id = ?1"
#define SQL_RECURRING "SELECT count(*) FROM (SELECT 1 FROM tasks " SQL_BY_CALENDAR

enum err sqlite_limits_check(struct store_sqlite *s, const struct op_insert *op, bool has_new_recurring,
                             struct error *e) must_use;
enum err sqlite_calendar_check(struct store_sqlite *s, const struct task *t, struct error *e) must_use;
enum err sqlite_calendar_check_unused(struct store_sqlite *s, const struct catalog_entry *x, struct error *e) must_use;
enum err reader_sqlite_usage(struct reader *base, int32_t tenant, struct tenant_usage *ret, struct error *e);

/* ---- tasks that run outside of their node (handoff.c, leases.c, workers.c) ---- */

/* How many RUNNING tasks of a limit's subject a node has handed to a queue, and how many are leased. Counts up to
 * max. */
enum err sqlite_count_handed(struct store_sqlite *s, const struct uuid *node, const struct share_subject *about,
                             int64_t max, int64_t *ret, struct error *e) must_use;
enum err sqlite_count_leased(struct store_sqlite *s, const struct share_subject *about, int64_t max, int64_t *ret,
                             struct error *e) must_use;
enum err sqlite_task_lease_put(struct store_sqlite *s, const struct task *t, const struct lease_terms *terms,
                               struct error *e) must_use;
/* Deletes the lease of a task that leaves its claim, if it may have one. */
enum err sqlite_task_lease_leave(struct store_sqlite *s, const struct guards *g, const struct uuid *task,
                                 struct error *e) must_use;
enum err sqlite_worker_groups(struct store_sqlite *s, int64_t now_ms, struct arena *a, struct worker_groups *ret,
                              struct error *e) must_use;

/* Whether a node is known, and whether it is marked dead (nodes.c). */
enum err sqlite_node_find(struct store_sqlite *s, const struct uuid *id, bool *ret_known, bool *ret_dead,
                          struct error *e) must_use;

/* ---- reading (reader.c; records other than tasks in reader_records.c) ---- */

struct reader_sqlite {
    struct reader base;
    struct conn conn;
    struct task *tasks; /* of the page that is being built */
    size_t task_room;
    struct execution *executions;
};

/* A reader's statements. Their texts are in reader.c. */
enum reader_statement {
    RD_TASK,
    RD_LIST,
    RD_LIST_FAILED,
    RD_LIST_CAUSE,
    RD_LIST_WAITING,
    RD_LIST_NAME,
    RD_LIST_TYPE,
    RD_LIST_PARENT,
    RD_EXECUTIONS,
    RD_IDEMPOTENCY,
    RD_KEY,
    RD_SLOTS,
    RD_JOIN,
    RD_PARENTS,
    RD_CHILDREN,
    RD_COUNTS,
    RD_DUE,
    RD_KEYS,
    RD_DEDUPE,
    RD_NEXT_NAME,
    RD_NAMED,
    RD_NEXT_CAUSE,
    RD_CAUSE,
    RD_LAST_ERROR,
    RD_CATALOG,
    RD_CATALOG_LIST,
    RD_CATALOG_LIST_ALL,
    RD_LIST_CALENDAR,
    RD_PENDING,
    RD_RECURRING,
    RD_LEASE,
    RD_WORKERS,
    RD_BREAKERS,
    RD_STATS,
    RD_HITS,
    RD_RECORDS,
    RD_RECORDS_DUE,
    RD_ABORT_REQUESTED,
    RD_SEALED,
    RD_SEALED_PAGE,
    RD_AUDIT,
    RD_AUDIT_SCANNED,
    RD_HISTORY,
    RD_HISTORY_AT,
    RD_HISTORY_ENDS,
    RD_UNSTARTED,
    RD_LIST_RUNS,
    RD_DEFINITION,
    RD_DEFINITIONS,
    RD_WORKFLOW,
    RD_WORKFLOWS,
    RD_RUN,
    RD_STEPS,
    RD_OUTPUTS,
    RD_SIGNALS,
    RD_COUNT
};

static inline struct reader_sqlite *reader_sqlite_of(struct reader *r)
{
    return container_of(r, struct reader_sqlite, base);
}

void reader_sqlite_make_room(struct reader_sqlite *r, size_t tasks); /* what was in r->tasks is forgotten */

/* Reads the only row of a bound statement, if there is one. */
enum err reader_sqlite_read_one(struct reader_sqlite *r, sqlite3_stmt *st, const struct table *t, struct arena *a,
                                void *row, bool *ret_found, struct error *e) must_use;

enum err reader_sqlite_open(const char *path, struct reader **ret, struct error *e) must_use;
enum err reader_sqlite_keys(struct reader *base, int32_t tenant, struct arena *a, struct key_list *ret,
                            struct error *e);
enum err reader_sqlite_dedupe(struct reader *base, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                              struct error *e);
enum err reader_sqlite_names(struct reader *base, int32_t tenant, struct str prefix, size_t max, struct arena *a,
                             struct task_names *ret, struct error *e);
enum err reader_sqlite_causes(struct reader *base, int32_t tenant, size_t max, struct arena *a,
                              struct cause_groups *ret, struct error *e);
enum err reader_sqlite_catalog_get(struct reader *base, int32_t tenant, enum catalog_kind kind, struct str name,
                                   struct arena *a, struct catalog_entry *ret, struct error *e);
enum err reader_sqlite_links(struct reader *base, int32_t tenant, struct uuid task, struct arena *a,
                             struct task_links *ret, struct error *e);
enum err reader_sqlite_unstarted(struct reader *base, struct task *v, size_t n, int64_t now_ms, struct error *e);
enum err reader_sqlite_lease(struct reader *base, int32_t tenant, struct uuid task, struct arena *a,
                             struct lease_row *ret, struct error *e);
enum err reader_sqlite_workers(struct reader *base, struct uuid before, size_t max, struct arena *a,
                               struct worker_rows *ret, struct error *e);
enum err reader_sqlite_breakers(struct reader *base, const struct breaker_filter *f, struct arena *a,
                                struct breaker_rows *ret, struct error *e);
enum err reader_sqlite_stats(struct reader *base, const struct stats_filter *f, struct arena *a,
                             struct stats_points *ret, struct error *e);
enum err reader_sqlite_catalog_list(struct reader *base, const struct catalog_filter *f, struct arena *a,
                                    struct catalog_page *ret, struct error *e);

/* ---- reading runs (reader_runs.c) ---- */

enum err reader_sqlite_definitions(struct reader *base, const struct definition *after, size_t max, struct arena *a,
                                   struct definition_page *ret, struct error *e);
enum err reader_sqlite_definition(struct reader *base, int32_t tenant, const uint8_t hash[DEFINITION_HASH],
                                  struct arena *a, struct str *ret, struct error *e);
enum err reader_sqlite_workflow(struct reader *base, int32_t tenant, struct str name, int64_t version, struct arena *a,
                                struct workflow_row *ret, struct error *e);
enum err reader_sqlite_workflows(struct reader *base, int32_t tenant, struct str after, size_t max, struct arena *a,
                                 struct workflow_rows *ret, struct error *e);
enum err reader_sqlite_run(struct reader *base, int32_t tenant, struct uuid run, struct arena *a, struct run_row *ret,
                           struct error *e);
enum err reader_sqlite_steps(struct reader *base, const struct step_filter *f, struct arena *a, struct tasks *ret,
                             struct error *e);
enum err reader_sqlite_outputs(struct reader *base, struct uuid run, int64_t from, int64_t to, size_t max,
                               struct arena *a, struct run_outputs *ret, struct error *e);
enum err reader_sqlite_signals(struct reader *base, struct uuid run, struct str name, struct arena *a,
                               struct signal_rows *ret, struct error *e);

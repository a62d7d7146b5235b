#pragma once
/* adapter/store_sqlite_impl.h - what the parts of the SQLite store share: connections, rows, the writer's state. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "adapter/store_sqlite.h"
#include "base/buf.h"
#include "base/map.h"

/* ---- a connection, its statements and its lanes (store_sqlite_conn.c) ---- */

enum {
    POOL_DISPATCHED,
    POOL_PULLED,  /* WORKER, WORKFLOW: never claimed by the scheduler */
    POOL_SUSPECT, /* dispatched, but a few at a time */
};

struct lane_row {
    int64_t number;
    struct lane lane;
    int pool;
    struct str key; /* in the map; what follows holds it, and the queue's name at its end */
    char bytes[];
};

/* The lanes table in memory: by key for those who write, by number for those who read rows. */
struct lanes {
    struct map by_key;
    struct lane_row **by_number; /* [number - 1] */
    size_t count, cap;
};

struct conn {
    sqlite3 *db;
    char *path;
    sqlite3_stmt **stmts; /* as in the table of SQL texts it was opened with */
    size_t stmt_count;
    enum err failed; /* set by conn_fail: whatever runs on this connection must be rolled back */
    struct error failure;
    struct lanes lanes;
    struct buf texts[3]; /* JSON of the row being bound */
};

enum conn_mode { CONN_WRITER, CONN_READER, CONN_CHECKPOINT, CONN_COPY /* reads, and may write elsewhere */ };

enum err conn_open(struct conn *c, const char *path, enum conn_mode mode, struct error *e) must_use;
enum err conn_prepare(struct conn *c, const char *const *sql, size_t count, struct error *e) must_use;
void conn_release(struct conn *c); /* a zeroed one is fine */

/* What SQLite's latest error on this connection means for us. Remembers it in `failed`. */
enum err conn_fail(struct conn *c, struct error *e);
enum err conn_corrupt(struct conn *c, const char *what, struct error *e); /* the same for what we found ourselves */
enum err conn_exec(struct conn *c, const char *sql, struct error *e) must_use;
enum err conn_number(struct conn *c, const char *sql, int64_t *ret, struct error *e) must_use; /* one row, one column */

/* Runs a bound statement that gives no row, and resets it. */
enum err conn_run(struct conn *c, sqlite3_stmt *st, struct error *e) must_use;
/* *ret_row says whether a row stands there; false resets the statement, and so does an error. */
enum err conn_step(struct conn *c, sqlite3_stmt *st, bool *ret_row, struct error *e) must_use;

int task_pool(const struct task *t);
void lanes_forget(struct lanes *l); /* read anew at the next use */
enum err lanes_load(struct conn *c, struct error *e) must_use;
const struct lane_row *lanes_find(struct conn *c, struct lane lane, int pool); /* NULL: none */
enum err lanes_at(struct conn *c, int64_t number, const struct lane_row **ret, struct error *e) must_use;

/* ---- rows and structs (store_sqlite_row.c) ---- */

enum column_kind {
    COL_UUID, /* nil is NULL */
    COL_BYTES32,
    COL_I64,
    COL_INT, /* int and enums: 0 to max */
    COL_BOOL,
    COL_TEXT,      /* empty is NULL */
    COL_LANE,      /* a number; read back as the queue's name */
    COL_RETRY,     /* JSON, NULL for RETRY_DEFAULT */
    COL_SCHEDULE,  /* JSON, NULL for an empty one */
    COL_DEAD_TEXT, /* empty and NULL unless the task is FAILED */
    COL_DEAD_I64,  /* 0 unless it is */
    COL_FAILED,    /* since when it is; else NULL. Written only */
    COL_GATES,     /* JSON of concurrency, overlap and dedupe, NULL where nothing can hold the task back */
};

/* X(column, kind, member, max), in the order of the statements. */
#define TASK_COLUMNS_DUE(X)                                                                                            \
    X(id, COL_UUID, id, 0)                                                                                             \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(state, COL_INT, state, TASK_EXPIRED)                                                                             \
    X(fence, COL_I64, fence, 0)                                                                                        \
    X(deleted, COL_BOOL, deleted, 0)                                                                                   \
    X(claim_id, COL_UUID, claim, 0)                                                                                    \
    X(kind, COL_INT, kind, TASK_OCCURRENCE)                                                                            \
    X(lane, COL_LANE, queue, 0)                                                                                        \
    X(due_ms, COL_I64, due_ms, 0)                                                                                      \
    X(delivery, COL_INT, delivery, DELIVER_AT_MOST_ONCE)                                                               \
    X(version, COL_I64, version, 0)                                                                                    \
    X(attempts, COL_INT, attempts, INT32_MAX)                                                                          \
    X(losses, COL_INT, losses, INT32_MAX)                                                                              \
    X(completed_ms, COL_I64, completed_ms, 0)                                                                          \
    X(scheduled_ms, COL_I64, scheduled_ms, 0)                                                                          \
    X(started_ms, COL_I64, started_ms, 0)                                                                              \
    X(updated_ms, COL_I64, updated_ms, 0)                                                                              \
    X(created_ms, COL_I64, created_ms, 0)                                                                              \
    X(parent_id, COL_UUID, parent, 0)                                                                                  \
    X(cursor_ms, COL_I64, cursor_ms, 0)                                                                                \
    X(last_run_ms, COL_I64, last_run_ms, 0)                                                                            \
    X(runs_count, COL_I64, runs_count, 0)                                                                              \
    X(skipped_count, COL_I64, skipped_count, 0)                                                                        \
    X(priority, COL_INT, priority, PRIORITY_MAX)                                                                       \
    X(target, COL_INT, target, TARGET_NOOP)                                                                            \
    X(timeout_ms, COL_I64, timeout_ms, 0)                                                                              \
    X(expires_after_ms, COL_I64, expires_after_ms, 0)                                                                  \
    X(name, COL_TEXT, name, 0)                                                                                         \
    X(task_type, COL_TEXT, task_type, 0)                                                                               \
    X(retry, COL_RETRY, retry, 0)                                                                                      \
    X(schedule, COL_SCHEDULE, schedule, 0)                                                                             \
    X(last_error, COL_TEXT, last_error, 0)                                                                             \
    X(target_config, COL_TEXT, target_config, 0)                                                                       \
    X(extra, COL_TEXT, extra, 0)                                                                                       \
    X(payload, COL_TEXT, payload, 0)

/* What a task that is SCHEDULED and not RECURRING has none of, but for the first. */
#define TASK_COLUMNS_REST(X)                                                                                           \
    X(gates, COL_GATES, concurrency_key, 0)                                                                            \
    X(waits_for, COL_TEXT, waits_for, 0)                                                                               \
    X(cause, COL_DEAD_TEXT, cause, 0)                                                                                  \
    X(resolved_ms, COL_DEAD_I64, resolved_ms, 0)                                                                       \
    X(resolution, COL_DEAD_TEXT, resolution, 0)                                                                        \
    X(failed_ms, COL_FAILED, completed_ms, 0)                                                                          \
    X(calendar, COL_TEXT, schedule.calendar, 0)

#define TASK_COLUMNS(X) TASK_COLUMNS_DUE(X) TASK_COLUMNS_REST(X)

#define EXECUTION_COLUMNS(X)                                                                                           \
    X(id, COL_UUID, id, 0)                                                                                             \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(task_id, COL_UUID, task, 0)                                                                                      \
    X(occurrence_id, COL_UUID, occurrence, 0)                                                                          \
    X(status, COL_INT, status, EXECUTION_LOST)                                                                         \
    X(attempt, COL_INT, attempt, INT32_MAX)                                                                            \
    X(fence, COL_I64, fence, 0)                                                                                        \
    X(scheduled_ms, COL_I64, scheduled_ms, 0)                                                                          \
    X(due_ms, COL_I64, due_ms, 0)                                                                                      \
    X(started_us, COL_I64, started_us, 0)                                                                              \
    X(completed_us, COL_I64, completed_us, 0)                                                                          \
    X(http_status, COL_INT, http_status, INT32_MAX)                                                                    \
    X(worker, COL_TEXT, worker, 0)                                                                                     \
    X(error, COL_TEXT, error, 0)                                                                                       \
    X(output, COL_TEXT, output, 0)                                                                                     \
    X(trace_id, COL_TEXT, trace_id, 0)

#define IDEMPOTENCY_COLUMNS(X)                                                                                         \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(key, COL_BYTES32, key, 0)                                                                                        \
    X(payload, COL_BYTES32, payload, 0)                                                                                \
    X(status, COL_INT, status, INT32_MAX)                                                                              \
    X(answer, COL_TEXT, answer, 0)                                                                                     \
    X(created_ms, COL_I64, created_ms, 0)

#define API_KEY_COLUMNS(X)                                                                                             \
    X(id, COL_TEXT, id, 0)                                                                                             \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(hash, COL_BYTES32, hash, 0)                                                                                      \
    X(name, COL_TEXT, name, 0)                                                                                         \
    X(scopes, COL_TEXT, scopes, 0)                                                                                     \
    X(created_ms, COL_I64, created_ms, 0)                                                                              \
    X(expires_ms, COL_I64, expires_ms, 0)

#define CATALOG_COLUMNS(X)                                                                                             \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(kind, COL_INT, kind, CATALOG_JOB)                                                                                \
    X(name, COL_TEXT, name, 0)                                                                                         \
    X(version, COL_I64, version, 0)                                                                                    \
    X(created_ms, COL_I64, created_ms, 0)                                                                              \
    X(updated_ms, COL_I64, updated_ms, 0)                                                                              \
    X(doc, COL_TEXT, doc, 0)

/* In a statement's text: the columns, as many question marks. A leading column keeps the commas right: `rid`, `rowid`. */
#define SQL_NAME(column, kind, member, max) ", " #column
#define SQL_MARK(column, kind, member, max) ", ?"

/* Where a column of tasks stands in "SELECT rid" TASK_COLUMNS(SQL_NAME), and as a parameter behind the first one, rid. */
enum task_column {
    AT_rid,
#define X(column, kind, member, max) AT_##column,
    TASK_COLUMNS(X)
#undef X
};

struct column {
    const char *name;
    enum column_kind kind;
    size_t offset;
    int64_t max;
};

struct table {
    const char *what; /* "task": in sentences */
    const struct column *columns;
    int count;
};
extern const struct table table_due; /* TASK_COLUMNS_DUE */
extern const struct table table_tasks, table_executions, table_idempotency, table_api_keys, table_catalog;

/* Binds the struct's members from parameter `first` on; a lane is bound by the caller. Texts are borrowed until the next bind. */
void row_bind(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, const void *row);

/* Reads the columns from `first` on into a zeroed struct. ERR_LIMIT: the arena is full; ERR_CORRUPT: not a row we wrote. */
enum err row_read(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, struct arena *a, void *row,
                  struct error *e) must_use;
/* Only what is in the column `gates`, into a task whose kind is known; NULL is fine. */
enum err row_read_gates(sqlite3_stmt *st, int at, struct arena *a, struct task *ret, struct error *e) must_use;
struct uuid row_uuid(sqlite3_stmt *st, int column); /* nil when NULL */
bool bind_uuid(sqlite3_stmt *st, int at, const struct uuid *u);
bool bind_str(sqlite3_stmt *st, int at, struct str s); /* empty is "", not NULL */

/* ---- migrations (store_sqlite_migrate.c) ---- */

enum { MIGRATE_NEWEST = -1 };
enum err migrate(struct conn *c, int to_version, int64_t now_ms, struct error *e) must_use;
/* Of a file that is to be one of ours, with a schema that this binary knows. */
enum err schema_version(struct conn *c, int *ret, struct error *e) must_use;

/* The directory, its lock and the file's path (store_sqlite_open.c). */
struct directory {
    int lock_fd;
    char *path; /* of the file */
};
enum err directory_lock(const char *directory, struct directory *ret, struct error *e) must_use;
void directory_unlock(struct directory *d);
char *directory_file(const char *directory) must_use;
char *directory_path(const char *directory, const char *name) must_use;
/* A restore that was decided and then broken off is finished by whoever has the lock next (store_sqlite_restore.c). */
enum err directory_finish(const char *directory, struct error *e) must_use;

/* ---- the checkpointer (store_sqlite_checkpoint.c) ---- */

struct checkpointer {
    struct conn conn;
    pthread_t thread;
    bool started;
    int wake_fd;
    atomic_bool stop;
    atomic_int wal_pages;     /* in the log after the latest commit */
    pthread_mutex_t *writing; /* the store's */
};
enum err checkpointer_start(struct checkpointer *k, const char *path, struct conn *writer, pthread_mutex_t *writing,
                            struct error *e) must_use;
void checkpointer_stop(struct checkpointer *k); /* leaves the log empty, if no reader holds it */

/* ---- the writer (store_sqlite.c; its operations in store_sqlite_{tasks,claims,missed}.c) ---- */

/* Changes to the counts table, gathered: one row a tenant. */
struct tally {
    int32_t tenant;
    int64_t n[TASK_EXPIRED + 1];
};

struct tallies {
    struct tally *v;
    size_t n, cap;
};

/* Tasks that became final in a transaction: see the table `ended`. */
struct ended {
    struct ended_task {
        int64_t completed_ms, rid;
    } * v;
    size_t n, cap;
    size_t kept; /* of operations that were done: what is behind goes with the one that noted it, if that fails */
};

struct store_sqlite {
    struct store base;
    struct directory directory;
    pthread_mutex_t writing; /* held through an apply, and while the log is restarted */
    struct conn conn;
    struct checkpointer checkpointer;
    struct tallies of_op, of_transaction;
    bool made_lanes;      /* in this transaction: what is cached of them goes if it does not commit */
    struct task *scratch; /* results being gathered */
    int64_t *rids;        /* theirs */
    size_t scratch_cap;
    struct ended ended;
    bool gives_back;        /* the file can be made shorter */
    struct map slot_counts; /* slot key → how many hold it, in this transaction (store_sqlite_slots.c) */
    struct arena arena;     /* for what is looked at and not given away */
};

/* The writer's statements, whose texts stand in store_sqlite.c; prepared when it opens. */
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
    ST_TASK_CREATED,
    ST_TASK_GUARDS,
    ST_SETTLE_GUARDS,
    ST_TASK_BY_RID,
    ST_TASK_REPLACE,
    ST_TASK_DELETE,
    ST_DUE,
    ST_DUE_BEHIND,
    ST_NEXT_DUE,
    ST_CLAIM_EXISTS,
    ST_CLAIM_TASK,
    ST_CLAIM_INSERT,
    ST_CLAIM_JOIN,
    ST_CLAIM_LEAVE,
    ST_CLAIM_DELETE,
    ST_CLAIM_BY_ID,
    ST_CLAIMS_OF_OTHERS,
    ST_SETTLE,
    ST_SETTLE_DONE,
    ST_MOVE_LANE,
    ST_UNCOUNT,
    ST_COUNT_SKIPPED,
    ST_SLOT_COUNT,
    ST_SLOT_TAKE,
    ST_SLOT_DROP,
    ST_SLOTS_OF,
    ST_SLOT_FIRST,
    ST_SLOT_OTHERS,
    ST_SLOT_HOLDERS,
    ST_SLOT_SINCE,
    ST_SLOT_WAITED_FOR,
    ST_SLOT_WAKE,
    ST_SLOT_BLOCK,
    ST_SLOT_GIVE_UP,
    ST_EXECUTION_INSERT,
    ST_LAST_RUN,
    ST_RECURRING,
    ST_SPAWN_MOVE,
    ST_SPAWN_END,
    ST_SPAWNED,
    ST_WAITING_PARENT,
    ST_CATCH_UP,
    ST_AHEAD,
    ST_TAKE_BACK,
    ST_IDEMPOTENCY_INSERT,
    ST_IDEMPOTENCY_DELETE,
    ST_KEY_PUT,
    ST_KEY_REMOVE,
    ST_LEASE,
    ST_DEDUPE_TAKE,
    ST_PENDING,
    ST_RECURRING_COUNT,
    ST_CALENDAR_EXISTS,
    ST_CALENDAR_USED,
    ST_CATALOG_FIND,
    ST_CATALOG_PUT,
    ST_CATALOG_REMOVE,
    ST_ENDED_INSERT,
    ST_ENDED_OLDEST,
    ST_ENDED_CUT,
    ST_ENDED_REMOVE,
    ST_ENDED_TASK,
    ST_DEAD_OLD,
    ST_JOBS_OLD,
    ST_FORGET_IDEMPOTENCY,
    ST_FORGET_EXECUTIONS,
    ST_FORGET_DEDUPE,
    ST_GIVE_BACK,
    ST_WRITER_COUNT
};

static inline sqlite3_stmt *writer_stmt(struct store_sqlite *s, enum writer_statement which)
{
    return s->conn.stmts[which];
}

void tally_add(struct tallies *t, int32_t tenant, enum task_state state, int64_t n);
void tally_move(struct store_sqlite *s, int32_t tenant, bool deleted, enum task_state from, enum task_state to);
void scratch_grow(struct store_sqlite *s, size_t n); /* room for one more behind n */
/* Reads the row where the statement stands as the scratch's nth; a due one has gates and no more behind TASK_COLUMNS_DUE. */
enum err scratch_read_due(struct store_sqlite *s, sqlite3_stmt *st, size_t n, struct arena *a,
                          struct error *e) must_use;
enum err scratch_read(struct store_sqlite *s, sqlite3_stmt *st, size_t n, struct arena *a, struct error *e) must_use;
/* Hands the first n of the scratch over as a result. */
enum err scratch_take(struct store_sqlite *s, size_t n, struct arena *a, struct tasks *ret, struct error *e) must_use;

/* What decides whether an operation may touch a row. */
struct guards {
    bool found;
    int64_t rid, version, fence;
    int32_t tenant;
    enum task_state state;
    bool deleted;
    enum task_kind kind;
    int64_t cursor_ms, last_run_ms, lane;
    int losses;
    bool gated; /* it may hold slots */
    bool waits; /* for one */
    struct uuid claim;
};
enum err read_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret, struct error *e) must_use;
/* Only what a settle looks at: the rest is 0. */
enum err read_settle_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret,
                            struct error *e) must_use;
enum err replace_task(struct store_sqlite *s, const struct guards *old, const struct task *t, struct error *e) must_use;
enum err delete_task(struct store_sqlite *s, int64_t rid, struct error *e) must_use; /* its count is the caller's */
/* The number of a lane, made when it is the first use. */
enum err lane_number(struct store_sqlite *s, struct lane lane, int pool, int64_t *ret, struct error *e) must_use;
enum err claim_leave(struct store_sqlite *s, struct uuid claim, int64_t n, struct error *e) must_use;
enum err claim_join(struct store_sqlite *s, struct uuid claim, int64_t rid, struct error *e) must_use;

/* Puts one task in; *ret_new is false if its id is there already. */
enum err insert_task(struct store_sqlite *s, const struct task *t, bool *ret_new, struct error *e) must_use;

/* The record of an idempotency key, if there is to be one. *ret_rowid is where it stands: an operation without a savepoint takes it
 * back by that. */
enum err idempotency_put(struct store_sqlite *s, const struct idempotency *i, int64_t *ret_rowid,
                         struct error *e) must_use;
enum err idempotency_take_back(struct store_sqlite *s, int64_t rowid, struct error *e) must_use;

/* A row is final now, or is so still: OP_FORGET finds it by this. Of rows that are not, nothing is noted. */
void note_ended(struct store_sqlite *s, int64_t rid, enum task_state state, int64_t completed_ms);
enum err write_ended(struct store_sqlite *s, struct error *e) must_use; /* what was noted and kept so far */

/* ---- slots (store_sqlite_slots.c) ---- */

struct held_slots {
    size_t n;
    struct str key[SLOTS_MAX];
    char text[SLOTS_MAX][SLOT_KEY_MAX];
};

void slot_counts_forget(struct store_sqlite *s);
enum err slot_take(struct store_sqlite *s, int32_t tenant, const struct uuid *task, struct str key,
                   struct error *e) must_use;
enum err slot_drop(struct store_sqlite *s, const struct uuid *task, struct str key, struct error *e) must_use;
enum err slots_of(struct store_sqlite *s, const struct uuid *task, struct held_slots *ret, struct error *e) must_use;
bool slots_have(const struct held_slots *h, struct str key);
/* Whether the slot is free for this task, which does not hold it; whether anybody waits for it. */
enum err slot_is_free(struct store_sqlite *s, const struct task *t, const struct slot_need *need, bool *ret,
                      struct error *e) must_use;
enum err slot_is_awaited(struct store_sqlite *s, struct str key, bool *ret, struct error *e) must_use;

/* The key that the task waits for, in `text`; empty: none. */
enum err slot_waited_for(struct store_sqlite *s, int64_t rid, char text[SLOT_KEY_MAX], struct str *ret,
                         struct error *e) must_use;

/* Lets go of what the task, as it is now, keeps no more; NULL: of all. Keys whose lines are to be looked at go to `keys`. */
enum err slots_let_go(struct store_sqlite *s, const struct uuid *task, const struct task *next, struct slot_keys *keys,
                      struct error *e) must_use;
enum err slots_settle(struct store_sqlite *s, const struct uuid *task, enum task_state next, uint64_t *woke,
                      struct error *e) must_use;
enum err slots_hand_over(struct store_sqlite *s, const struct slot_keys *keys, uint64_t *woke,
                         struct error *e) must_use;
/* replace_task, and what it means for slots. */
enum err change_task(struct store_sqlite *s, const struct guards *old, const struct task *t, struct slot_keys *keys,
                     struct error *e) must_use;
/* An OCCURRENCE that will not run: it is taken off its task's runs. */
enum err count_as_skipped(struct store_sqlite *s, int64_t rid, const struct uuid *parent, struct error *e) must_use;

bool sqlite_insert_alone(const struct op *op); /* needs no savepoint */

/* One function an operation; what it returns is the operation's result. */
enum err sqlite_insert(struct store_sqlite *s, struct op *base);
enum err sqlite_claim(struct store_sqlite *s, struct op *base);
enum err sqlite_claimed(struct store_sqlite *s, struct op *base);
enum err sqlite_held(struct store_sqlite *s, struct op *base);
enum err sqlite_settle(struct store_sqlite *s, struct op *base);
enum err sqlite_recurring(struct store_sqlite *s, struct op *base);
enum err sqlite_spawn(struct store_sqlite *s, struct op *base);
enum err sqlite_missed(struct store_sqlite *s, struct op *base);
enum err sqlite_put(struct store_sqlite *s, struct op *base);
/* ---- limits and calendars (store_sqlite_limits.c) ---- */

#define SQL_PENDING     "SELECT sum(n) FROM counts WHERE tenant_id = ?1 AND state <= 3"
#define SQL_BY_CALENDAR "INDEXED BY tasks_calendar WHERE kind = 1 AND state < 3 AND deleted = 0 AND tenant_id = ?1"
#define SQL_RECURRING   "SELECT count(*) FROM (SELECT 1 FROM tasks " SQL_BY_CALENDAR

enum err limits_check(struct store_sqlite *s, const struct op_insert *op, bool has_new_recurring,
                      struct error *e) must_use;
enum err calendar_check(struct store_sqlite *s, const struct task *t, struct error *e) must_use;
enum err calendar_unused(struct store_sqlite *s, const struct catalog_entry *x, struct error *e) must_use;
enum err reader_sqlite_usage(struct reader *base, int32_t tenant, struct tenant_usage *ret, struct error *e);

enum err sqlite_key_put(struct store_sqlite *s, struct op *base);
enum err sqlite_catalog(struct store_sqlite *s, struct op *base);
enum err sqlite_lease(struct store_sqlite *s, struct op *base);
enum err sqlite_forget(struct store_sqlite *s, struct op *base);

/* ---- reading (store_sqlite_read.c; what stands besides tasks in store_sqlite_read_records.c) ---- */

struct reader_sqlite {
    struct reader base;
    struct conn conn;
    struct task *tasks; /* of the page being gathered */
    struct execution *executions;
};

/* A reader's statements, whose texts stand in store_sqlite_read.c. */
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
    RD_COUNTS,
    RD_DUE,
    RD_KEYS,
    RD_DEDUPE,
    RD_NEXT_CAUSE,
    RD_CAUSE,
    RD_LAST_ERROR,
    RD_CATALOG,
    RD_CATALOG_LIST,
    RD_CATALOG_LIST_ALL,
    RD_LIST_CALENDAR,
    RD_PENDING,
    RD_RECURRING,
    RD_COUNT
};

static inline struct reader_sqlite *reader_self(struct reader *r)
{
    return container_of(r, struct reader_sqlite, base);
}

enum err reader_not_found(const char *what, struct error *e);
enum err reader_no_room(struct error *e);
/* Reads the one row of a bound statement, or none. */
enum err reader_read_one(struct reader_sqlite *r, sqlite3_stmt *st, const struct table *t, struct arena *a, void *row,
                         bool *ret_found, struct error *e) must_use;

enum err reader_sqlite_open(const char *path, struct reader **ret, struct error *e) must_use;
enum err reader_sqlite_keys(struct reader *base, int32_t tenant, struct arena *a, struct key_list *ret,
                            struct error *e);
enum err reader_sqlite_dedupe(struct reader *base, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                              struct error *e);
enum err reader_sqlite_causes(struct reader *base, int32_t tenant, size_t max, struct arena *a,
                              struct cause_groups *ret, struct error *e);
enum err reader_sqlite_catalog_get(struct reader *base, int32_t tenant, enum catalog_kind kind, struct str name,
                                   struct arena *a, struct catalog_entry *ret, struct error *e);
enum err reader_sqlite_catalog_list(struct reader *base, const struct catalog_filter *f, struct arena *a,
                                    struct catalog_page *ret, struct error *e);

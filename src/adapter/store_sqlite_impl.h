#pragma once
/* adapter/store_sqlite_impl.h - what the parts of the SQLite store share: connections, rows, the writer's state. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "adapter/store_sqlite.h"
#include "base/buf.h"
#include "base/map.h"

/* ---- a connection, its statements and its lanes (store_sqlite_conn.c) ---- */

enum { POOL_DISPATCHED, POOL_PULLED /* WORKER, WORKFLOW: never claimed by the scheduler */ };

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
    struct buf texts[2]; /* JSON of the row being bound */
};

enum conn_mode { CONN_WRITER, CONN_READER, CONN_CHECKPOINT };

enum err conn_open(struct conn *c, const char *path, enum conn_mode mode, struct error *e) must_use;
enum err conn_prepare(struct conn *c, const char *const *sql, size_t count, struct error *e) must_use;
void conn_release(struct conn *c); /* a zeroed one is fine */

/* What SQLite's latest error on this connection means for us. Remembers it in `failed`. */
enum err conn_fail(struct conn *c, struct error *e);
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
    COL_TEXT,     /* empty is NULL */
    COL_LANE,     /* a number; read back as the queue's name */
    COL_RETRY,    /* JSON, NULL for RETRY_DEFAULT */
    COL_SCHEDULE, /* JSON, NULL for an empty one */
};

/* X(column, kind, member, max), in the order of the statements. */
#define TASK_COLUMNS(X)                                                                                                \
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
extern const struct table table_tasks, table_executions, table_idempotency, table_api_keys;

/* Binds the struct's members from parameter `first` on; a lane is bound by the caller. Texts are borrowed until the next bind. */
void row_bind(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, const void *row);

/* Reads the columns from `first` on into a zeroed struct. ERR_LIMIT: the arena is full; ERR_CORRUPT: not a row we wrote. */
enum err row_read(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, struct arena *a, void *row,
                  struct error *e) must_use;
struct uuid row_uuid(sqlite3_stmt *st, int column); /* nil when NULL */
bool bind_uuid(sqlite3_stmt *st, int at, const struct uuid *u);
bool bind_str(sqlite3_stmt *st, int at, struct str s); /* empty is "", not NULL */

/* ---- migrations (store_sqlite_migrate.c) ---- */

enum { MIGRATE_NEWEST = -1 };
enum err migrate(struct conn *c, int to_version, int64_t now_ms, struct error *e) must_use;

/* The directory, its lock and the file's path (store_sqlite_open.c). */
struct directory {
    int lock_fd;
    char *path; /* of the file */
};
enum err directory_lock(const char *directory, struct directory *ret, struct error *e) must_use;
void directory_unlock(struct directory *d);
char *directory_file(const char *directory) must_use;

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

/* ---- the writer (store_sqlite.c; its operations in store_sqlite_{tasks,claims,rest}.c) ---- */

/* Changes to the counts table, gathered: one row a tenant. */
struct tally {
    int32_t tenant;
    int64_t n[TASK_EXPIRED + 1];
};

struct tallies {
    struct tally *v;
    size_t n, cap;
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
    int64_t forget_from; /* rid where the next look for old tasks begins */
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
    ST_TASK_BY_RID,
    ST_TASK_REPLACE,
    ST_TASK_DELETE,
    ST_DUE,
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
    ST_EXECUTION_INSERT,
    ST_LAST_RUN,
    ST_RECURRING,
    ST_SPAWN_MOVE,
    ST_SPAWN_END,
    ST_SPAWNED,
    ST_IDEMPOTENCY_INSERT,
    ST_IDEMPOTENCY_DELETE,
    ST_IDEMPOTENCY_OLD,
    ST_OLD_TASKS,
    ST_KEY_PUT,
    ST_LEASE,
    ST_WRITER_COUNT
};

static inline sqlite3_stmt *writer_stmt(struct store_sqlite *s, enum writer_statement which)
{
    return s->conn.stmts[which];
}

void tally_add(struct tallies *t, int32_t tenant, enum task_state state, int64_t n);
void scratch_grow(struct store_sqlite *s, size_t n); /* room for one more behind n */
/* Reads the row where the statement stands as the scratch's nth. */
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
    int64_t cursor_ms, last_run_ms;
    struct uuid claim;
};
enum err read_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret, struct error *e) must_use;
enum err replace_task(struct store_sqlite *s, const struct guards *old, const struct task *t, struct error *e) must_use;
enum err claim_leave(struct store_sqlite *s, struct uuid claim, int64_t n, struct error *e) must_use;
enum err claim_join(struct store_sqlite *s, struct uuid claim, int64_t rid, struct error *e) must_use;

/* Puts one task in; *ret_new is false if its id is there already. */
enum err insert_task(struct store_sqlite *s, const struct task *t, bool *ret_new, struct error *e) must_use;

bool sqlite_insert_alone(const struct op *op); /* needs no savepoint */

/* One function an operation; what it returns is the operation's result. */
enum err sqlite_insert(struct store_sqlite *s, struct op *base);
enum err sqlite_claim(struct store_sqlite *s, struct op *base);
enum err sqlite_claimed(struct store_sqlite *s, struct op *base);
enum err sqlite_held(struct store_sqlite *s, struct op *base);
enum err sqlite_settle(struct store_sqlite *s, struct op *base);
enum err sqlite_recurring(struct store_sqlite *s, struct op *base);
enum err sqlite_spawn(struct store_sqlite *s, struct op *base);
enum err sqlite_put(struct store_sqlite *s, struct op *base);
enum err sqlite_key_put(struct store_sqlite *s, struct op *base);
enum err sqlite_lease(struct store_sqlite *s, struct op *base);
enum err sqlite_forget(struct store_sqlite *s, struct op *base);

/* ---- reading (store_sqlite_read.c) ---- */
enum err reader_sqlite_open(const char *path, struct reader **ret, struct error *e) must_use;

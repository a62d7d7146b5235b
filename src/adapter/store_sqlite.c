/* One transaction an apply. What an operation may not do it finds out before it changes anything, where that is cheap; an
 * operation that can fail midway stands in a savepoint. An error of SQLite's own ends the whole transaction: then nothing of it
 * has happened, and nothing that is kept in memory (lanes, counts) may say otherwise. */
#include "adapter/store_sqlite.h"

#include <assert.h>
#include <stdlib.h>

#include "adapter/store_sqlite_impl.h"

#define DUE "FROM tasks INDEXED BY tasks_due WHERE state = 0 AND kind <> 1 AND lane = ?1 "

static const char *const writer_sql[] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_SAVEPOINT] = "SAVEPOINT op",
    [ST_RELEASE] = "RELEASE op",
    [ST_ROLLBACK_TO] = "ROLLBACK TO op",
    [ST_COUNT_ADD] = "INSERT INTO counts (tenant_id, state, n) VALUES (?1, ?2, ?3) "
                     "ON CONFLICT (tenant_id, state) DO UPDATE SET n = n + ?3",
    [ST_LANE_INSERT] = "INSERT INTO lanes (lane, tenant_id, queue, class, pool) VALUES (?, ?, ?, ?, ?)",
    /* tasks */
    [ST_TASK_INSERT] = "INSERT INTO tasks (rid" TASK_COLUMNS(SQL_NAME) ") VALUES (?" TASK_COLUMNS(
        SQL_MARK) ") "
                  "ON CONFLICT (id) DO NOTHING",
    [ST_TASK_CREATED] = "SELECT created_ms FROM tasks WHERE id = ?",
    [ST_TASK_GUARDS] = "SELECT rid, tenant_id, state, fence, deleted, claim_id, version, kind, cursor_ms, last_run_ms "
                       "FROM tasks WHERE id = ?",
    [ST_TASK_BY_RID] = "SELECT rid" TASK_COLUMNS(SQL_NAME) " FROM tasks WHERE rid = ?",
    [ST_TASK_REPLACE] = "REPLACE INTO tasks (rid" TASK_COLUMNS(SQL_NAME) ") VALUES (?" TASK_COLUMNS(SQL_MARK) ")",
    [ST_TASK_DELETE] = "DELETE FROM tasks WHERE rid = ?",
    /* claims */
    [ST_DUE] = "SELECT rid" TASK_COLUMNS(SQL_NAME) " " DUE "AND due_ms <= ?2 ORDER BY due_ms, id",
    [ST_NEXT_DUE] = "SELECT due_ms " DUE "ORDER BY due_ms, id LIMIT 1",
    [ST_CLAIM_TASK] = "UPDATE tasks SET state = 3, fence = fence + 1, claim_id = ?2 WHERE rid = ?1",
    [ST_CLAIM_EXISTS] = "SELECT 1 FROM claims WHERE id = ?",
    [ST_CLAIM_INSERT] = "INSERT INTO claims (id, node, held, tasks) VALUES (?, ?, ?, ?)",
    [ST_CLAIM_JOIN] = "UPDATE claims SET held = held + 1, tasks = CAST(tasks || ?2 AS BLOB) WHERE id = ?1",
    [ST_CLAIM_LEAVE] = "UPDATE claims SET held = held - ?2 WHERE id = ?1",
    [ST_CLAIM_DELETE] = "DELETE FROM claims WHERE id = ? AND held <= 0",
    [ST_CLAIM_BY_ID] = "SELECT id, tasks FROM claims WHERE id = ?",
    [ST_CLAIMS_OF_OTHERS] = "SELECT id, tasks FROM claims WHERE node <> ?",
    [ST_SETTLE] = "UPDATE tasks SET state = ?2, due_ms = coalesce(?3, due_ms), attempts = ?4, losses = ?5, "
                  "claim_id = NULL, updated_ms = ?6, started_ms = coalesce(?7, started_ms), completed_ms = ?8, "
                  "last_error = ?9 WHERE rid = ?1",
    [ST_EXECUTION_INSERT] = "INSERT INTO executions (rowid" EXECUTION_COLUMNS(
        SQL_NAME) ") "
                  "VALUES (?" EXECUTION_COLUMNS(SQL_MARK) ") ON CONFLICT (task_id, id) DO NOTHING",
    [ST_LAST_RUN] = "UPDATE tasks SET last_run_ms = ?2 WHERE id = ?1 AND last_run_ms < ?2",
    /* recurring tasks */
    [ST_RECURRING] = "SELECT rid" TASK_COLUMNS(SQL_NAME) " FROM tasks INDEXED BY tasks_cursor "
                                                         "WHERE state = 0 AND kind = 1 ORDER BY cursor_ms, id",
    [ST_SPAWN_MOVE] = "UPDATE tasks SET cursor_ms = ?2, runs_count = runs_count + ?3, "
                      "skipped_count = skipped_count + ?4 WHERE rid = ?1",
    [ST_SPAWN_END] = "UPDATE tasks SET state = 4, updated_ms = ?2, completed_ms = ?2 WHERE rid = ?1",
    [ST_SPAWNED] =
        "SELECT rid, tenant_id, state, deleted, scheduled_ms, runs_count FROM tasks INDEXED BY tasks_spawned "
        "WHERE parent_id = ? AND state < 3 AND kind = 2 AND attempts = 0 AND losses = 0",
    /* the rest */
    [ST_IDEMPOTENCY_INSERT] = "INSERT INTO idempotency (rowid" IDEMPOTENCY_COLUMNS(
        SQL_NAME) ") "
                  "VALUES (?" IDEMPOTENCY_COLUMNS(SQL_MARK) ") ON CONFLICT (key, tenant_id) DO NOTHING",
    [ST_IDEMPOTENCY_DELETE] = "DELETE FROM idempotency WHERE rowid = ?",
    [ST_IDEMPOTENCY_OLD] = "SELECT rowid, created_ms FROM idempotency ORDER BY rowid LIMIT ?",
    [ST_OLD_TASKS] = "SELECT rid, tenant_id, state, deleted, completed_ms FROM tasks "
                     "WHERE rid >= ? ORDER BY rid LIMIT ?",
    [ST_KEY_PUT] = "REPLACE INTO api_keys (rowid" API_KEY_COLUMNS(SQL_NAME) ") VALUES (?" API_KEY_COLUMNS(SQL_MARK) ")",
    [ST_LEASE] = "INSERT INTO leases (name, holder, until_ms) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE "
                 "SET holder = ?2, until_ms = ?3 WHERE until_ms <= ?4 OR holder = ?2",
};
static_assert(array_count(writer_sql) == ST_WRITER_COUNT, "a statement without a text");

static struct store_sqlite *self(struct store *s)
{
    return container_of(s, struct store_sqlite, base);
}

/* ---- counts ---- */

void tally_add(struct tallies *t, int32_t tenant, enum task_state state, int64_t n)
{
    size_t i = 0;
    while (i < t->n && t->v[i].tenant != tenant)
        i++;
    if (i == t->n) {
        if (t->n == t->cap) {
            t->cap = t->cap * 2 + 16;
            t->v = xrealloc(t->v, t->cap * sizeof *t->v);
        }
        t->v[t->n++] = (struct tally){ .tenant = tenant };
    }
    t->v[i].n[state] += n;
}

static void keep_tallies(struct store_sqlite *s)
{
    for (size_t i = 0; i < s->of_op.n; i++)
        for (int state = 0; state <= TASK_EXPIRED; state++)
            if (s->of_op.v[i].n[state])
                tally_add(&s->of_transaction, s->of_op.v[i].tenant, (enum task_state)state, s->of_op.v[i].n[state]);
    s->of_op.n = 0;
}

static enum err write_tallies(struct store_sqlite *s, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_COUNT_ADD);
    for (size_t i = 0; i < s->of_transaction.n; i++) {
        const struct tally *t = &s->of_transaction.v[i];
        for (int state = 0; state <= TASK_EXPIRED; state++) {
            if (t->n[state] == 0)
                continue;
            sqlite3_bind_int(st, 1, t->tenant);
            sqlite3_bind_int(st, 2, state);
            sqlite3_bind_int64(st, 3, t->n[state]);
            if (conn_run(&s->conn, st, e))
                return e->code;
        }
    }
    return ERR_OK;
}

/* ---- results ---- */

void scratch_grow(struct store_sqlite *s, size_t n)
{
    if (n < s->scratch_cap)
        return;
    s->scratch_cap = s->scratch_cap * 2 + 64;
    s->scratch = xrealloc(s->scratch, s->scratch_cap * sizeof *s->scratch);
    s->rids = xrealloc(s->rids, s->scratch_cap * sizeof *s->rids);
}

enum err scratch_read(struct store_sqlite *s, sqlite3_stmt *st, size_t n, struct arena *a, struct error *e)
{
    scratch_grow(s, n);
    s->scratch[n] = (struct task){ 0 };
    s->rids[n] = sqlite3_column_int64(st, AT_rid);
    return row_read(&s->conn, st, AT_rid + 1, &table_tasks, a, &s->scratch[n], e);
}

enum err scratch_take(struct store_sqlite *s, size_t n, struct arena *a, struct tasks *ret, struct error *e)
{
    struct task *v = arena_alloc(a, n * sizeof *v);
    if (!v)
        return error_set(e, ERR_LIMIT, "the answer is larger than the memory set aside for it");
    if (n)
        memcpy(v, s->scratch, n * sizeof *v);
    *ret = (struct tasks){ v, n };
    return ERR_OK;
}

/* ---- apply ---- */

/* An operation that writes before it knows that it can: what it wrote goes with it. */
static enum err in_savepoint(struct store_sqlite *s, struct op *op, enum err (*run)(struct store_sqlite *, struct op *))
{
    if (conn_run(&s->conn, writer_stmt(s, ST_SAVEPOINT), &op->error))
        return op->error.code;
    enum err rc = run(s, op);
    if (s->conn.failed)
        return rc;
    struct error ignored;
    if (rc) {
        if (s->made_lanes)
            lanes_forget(&s->conn.lanes);
        if (conn_run(&s->conn, writer_stmt(s, ST_ROLLBACK_TO), &ignored))
            return ignored.code;
    }
    if (conn_run(&s->conn, writer_stmt(s, ST_RELEASE), &ignored))
        return ignored.code;
    return rc && s->conn.lanes.count == 0 && lanes_load(&s->conn, &ignored) ? ignored.code : rc;
}

static enum err run_op(struct store_sqlite *s, struct op *op)
{
    switch (op->kind) {
    case OP_INSERT: return sqlite_insert_alone(op) ? sqlite_insert(s, op) : in_savepoint(s, op, sqlite_insert);
    case OP_CLAIM: return sqlite_claim(s, op);
    case OP_CLAIMED: return sqlite_claimed(s, op);
    case OP_HELD: return sqlite_held(s, op);
    case OP_SETTLE: return sqlite_settle(s, op);
    case OP_RECURRING: return sqlite_recurring(s, op);
    case OP_SPAWN: return sqlite_spawn(s, op);
    case OP_PUT: return in_savepoint(s, op, sqlite_put);
    case OP_KEY_PUT: return sqlite_key_put(s, op);
    case OP_LEASE: return sqlite_lease(s, op);
    case OP_FORGET: return sqlite_forget(s, op);
    }
    abort();
}

/* A rollback that fails too is made up for by the next apply. */
static void roll_back(struct store_sqlite *s)
{
    struct error ignored;
    if (!sqlite3_get_autocommit(s->conn.db))
        (void)!conn_run(&s->conn, writer_stmt(s, ST_ROLLBACK), &ignored);
    if (s->made_lanes)
        lanes_forget(&s->conn.lanes);
}

static enum err run_all(struct store_sqlite *s, struct op *const *ops, size_t n, struct error *e)
{
    if (conn_run(&s->conn, writer_stmt(s, ST_BEGIN), e))
        return e->code;
    if (s->conn.lanes.count == 0 && lanes_load(&s->conn, e))
        return e->code;
    for (size_t i = 0; i < n; i++) {
        s->of_op.n = 0;
        ops[i]->error = (struct error){ 0 };
        ops[i]->rc = run_op(s, ops[i]);
        if (s->conn.failed) {
            *e = s->conn.failure;
            return e->code;
        }
        if (ops[i]->rc == ERR_OK)
            keep_tallies(s);
    }
    if (write_tallies(s, e))
        return e->code;
    return conn_run(&s->conn, writer_stmt(s, ST_COMMIT), e);
}

static enum err apply(struct store *base, struct op *const *ops, size_t n, struct error *e)
{
    struct store_sqlite *s = self(base);
    struct error failure = { 0 };
    pthread_mutex_lock(&s->writing);
    if (!sqlite3_get_autocommit(s->conn.db))
        roll_back(s);
    s->conn.failed = ERR_OK;
    s->of_transaction.n = 0;
    s->made_lanes = false;
    enum err rc = run_all(s, ops, n, &failure);
    if (rc)
        roll_back(s);
    pthread_mutex_unlock(&s->writing);
    for (size_t i = 0; rc && i < n; i++)
        ops[i]->rc = rc;
    if (rc && e)
        *e = failure;
    return rc;
}

static enum err reader(struct store *base, struct reader **ret, struct error *e)
{
    return reader_sqlite_open(self(base)->directory.path, ret, e);
}

/* ---- open and close ---- */

static void free_store(struct store *base)
{
    struct store_sqlite *s = self(base);
    checkpointer_stop(&s->checkpointer);
    conn_release(&s->conn);
    directory_unlock(&s->directory);
    pthread_mutex_destroy(&s->writing);
    free(s->of_op.v);
    free(s->of_transaction.v);
    free(s->scratch);
    free(s->rids);
    free(s);
}

static void free_storep(struct store_sqlite **s)
{
    if (*s)
        free_store(&(*s)->base);
}

enum err store_sqlite_open_at(const char *directory, int64_t now_ms, struct store **ret, struct error *e)
{
    static const struct store_ops ops = { apply, reader, free_store };
    struct error local;
    e = e ? e : &local;
    cleanup_with(free_storep) struct store_sqlite *s = xnew(*s);
    s->base.ops = &ops;
    s->directory.lock_fd = s->checkpointer.wake_fd = -1;
    pthread_mutex_init(&s->writing, NULL);
    if (directory_lock(directory, &s->directory, e))
        return e->code;
    if (conn_open(&s->conn, s->directory.path, CONN_WRITER, e) || migrate(&s->conn, MIGRATE_NEWEST, now_ms, e) ||
        conn_prepare(&s->conn, writer_sql, array_count(writer_sql), e) || lanes_load(&s->conn, e))
        return e->code;
    if (checkpointer_start(&s->checkpointer, s->directory.path, &s->conn, &s->writing, e))
        return e->code;
    sqlite3_busy_timeout(s->conn.db, 0);
    *ret = &take(s)->base;
    return ERR_OK;
}

enum err store_sqlite_open(const char *directory, struct store **ret, struct error *e)
{
    return store_sqlite_open_at(directory, 0, ret, e);
}

/* store_apply is one transaction. Where it is cheap, an operation checks everything before its first change; an
 * operation that can fail midway runs in a savepoint. An error of SQLite itself fails the whole transaction: then
 * nothing has happened, and the state cached in memory (lanes, counts) must not say otherwise. */
#include "store/sqlite/store_sqlite.h"

#include <stdlib.h>

#include "port/crypto.h"
#include "store/common/commit_stall.h"
#include "store/sqlite/internal.h"

enum { AUTO_VACUUM_INCREMENTAL = 2 };

static struct store_sqlite *sqlite_store_of(struct store *s)
{
    return container_of(s, struct store_sqlite, base);
}

/* ---- apply ---- */

/* For an operation that writes before it knows that it can succeed: if it fails, its writes are rolled back. */
static enum err sqlite_in_savepoint(struct store_sqlite *s, struct op *op,
                                    enum err (*run)(struct store_sqlite *, struct op *))
{
    if (conn_run(&s->conn, writer_stmt(s, ST_SAVEPOINT), &op->error))
        return op->error.code;
    enum err rc = run(s, op);
    if (s->conn.failed)
        return rc;
    struct error ignored;
    if (rc) {
        sqlite_slot_counts_clear(s);
        if (s->made_lanes)
            store_lanes_clear(&s->conn.lanes);
        if (conn_run(&s->conn, writer_stmt(s, ST_ROLLBACK_TO), &ignored))
            return ignored.code;
    }
    if (conn_run(&s->conn, writer_stmt(s, ST_RELEASE), &ignored))
        return ignored.code;
    return rc && s->conn.lanes.top == 0 && lanes_load(&s->conn, &ignored) ? ignored.code : rc;
}

static enum err (*const sqlite_handlers[OP_KINDS])(struct store_sqlite *, struct op *) = {
#define X(name, verb) [OP_##name] = sqlite_##verb,
    OP_MAP(X)
#undef X
};

/* Operations that may fail after their first write. The others check everything first, or write one statement. */
static bool sqlite_needs_savepoint(const struct op *op)
{
    static const bool needs[OP_KINDS] = {
        [OP_INSERT] = true,    [OP_CLAIM] = true,    [OP_PUT] = true,   [OP_KEY_PUT] = true, [OP_CATALOG] = true,
        [OP_HEARTBEAT] = true, [OP_BREAKERS] = true, [OP_OPEN] = true,  [OP_SIGNAL] = true,  [OP_STOP] = true,
        [OP_DEFINE] = true,    [OP_RESEAL] = true,   [OP_STATS] = true, [OP_FOLD] = true,
    };
    return needs[op->kind] && !(op->kind == OP_INSERT && sqlite_insert_alone(op));
}

static enum err sqlite_run_op(struct store_sqlite *s, struct op *op)
{
    return sqlite_needs_savepoint(op) ? sqlite_in_savepoint(s, op, sqlite_handlers[op->kind])
                                      : sqlite_handlers[op->kind](s, op);
}

/* If the rollback fails too, the next store_apply rolls back. */
static void sqlite_roll_back(struct store_sqlite *s)
{
    struct error ignored;
    if (!sqlite3_get_autocommit(s->conn.db))
        (void)!conn_run(&s->conn, writer_stmt(s, ST_ROLLBACK), &ignored);
    if (s->made_lanes)
        store_lanes_clear(&s->conn.lanes);
}

static enum err sqlite_run_all(struct store_sqlite *s, struct op *const *ops, size_t n, struct error *e)
{
    if (conn_run(&s->conn, writer_stmt(s, ST_BEGIN), e))
        return e->code;
    if (s->conn.lanes.top == 0 && lanes_load(&s->conn, e))
        return e->code;
    for (size_t i = 0; i < n; i++) {
        s->of_op.n = 0;
        s->ended.n = s->ended.kept;
        ops[i]->error = (struct error){ 0 };
        changes_begin_op(&s->base, ops[i]);
        ops[i]->rc = sqlite_run_op(s, ops[i]);
        if (s->conn.failed) {
            *e = s->conn.failure;
            return e->code;
        }
        if (ops[i]->rc == ERR_OK) {
            tallies_merge(&s->of_transaction, &s->of_op);
            s->ended.kept = s->ended.n;
        } else {
            changes_drop_op(&s->base);
        }
    }
    if (sqlite_write_tallies(s, e) || sqlite_ended_write(s, e) || sqlite_audit_write(s, ops, n, e) ||
        sqlite_hits_write(s, ops, n, e) || sqlite_checks_write(s, ops, n, e) || sqlite_read_changes(s, e))
        return e->code;
    commit_stall_wait();
    return conn_run(&s->conn, writer_stmt(s, ST_COMMIT), e);
}

static enum err sqlite_apply(struct store *base, struct op *const *ops, size_t n, struct error *e)
{
    struct store_sqlite *s = sqlite_store_of(base);
    struct error failure = { 0 };
    pthread_mutex_lock(&s->writing);
    if (!sqlite3_get_autocommit(s->conn.db))
        sqlite_roll_back(s);
    s->conn.failed = ERR_OK;
    s->of_transaction.n = s->ended.kept = 0;
    s->made_lanes = false;
    sqlite_slot_counts_clear(s);
    enum err rc = sqlite_run_all(s, ops, n, &failure);
    if (rc)
        sqlite_roll_back(s);
    pthread_mutex_unlock(&s->writing);
    for (size_t i = 0; rc && i < n; i++)
        ops[i]->rc = rc;
    if (rc && e)
        *e = failure;
    return rc;
}

static enum err sqlite_open_reader(struct store *base, struct reader **ret, struct error *e)
{
    return reader_sqlite_open(sqlite_store_of(base)->directory.path, ret, e);
}

/* ---- open and close ---- */

static void sqlite_free(struct store *base)
{
    struct store_sqlite *s = sqlite_store_of(base);
    checkpointer_stop(&s->checkpointer);
    conn_release(&s->conn);
    directory_unlock(&s->directory);
    pthread_mutex_destroy(&s->writing);
    tallies_release(&s->of_op);
    tallies_release(&s->of_transaction);
    free(s->ended.v);
    free(s->scratch);
    free(s->rids);
    sqlite_slot_counts_clear(s);
    arena_release(&s->arena);
    free(s);
}

static void sqlite_freep(struct store_sqlite **s)
{
    if (*s)
        sqlite_free(&(*s)->base);
}

enum err store_sqlite_open(const char *directory, int64_t now_ms, struct store **ret, struct error *e)
{
    static const struct store_ops ops = { .apply = sqlite_apply, .reader = sqlite_open_reader, .free = sqlite_free };
    struct error local;
    e = e ? e : &local;
    cleanup_with(sqlite_freep) struct store_sqlite *s = xnew(*s);
    int64_t auto_vacuum;
    s->base.ops = &ops;
    s->directory.lock_fd = s->checkpointer.wake_fd = -1;
    pthread_mutex_init(&s->writing, NULL);
    sqlite_slots_init(s);
    sqlite_joins_init(s);
    arena_init(&s->arena, 1 << 20);
    crypto_random(&s->strand, sizeof s->strand);
    if (directory_lock(directory, &s->directory, e))
        return e->code;
    if (conn_open(&s->conn, s->directory.path, CONN_WRITER, e) ||
        sqlite_migrate_to(&s->conn, MIGRATE_NEWEST, now_ms, e) ||
        conn_prepare(&s->conn, sqlite_writer_statements, ST_WRITER_COUNT, e) || lanes_load(&s->conn, e) ||
        conn_number(&s->conn, "PRAGMA auto_vacuum", &auto_vacuum, e) ||
        sqlite_fences_open(&s->conn, s->conn.path, now_ms, &s->fence_floor, e))
        return e->code;
    s->can_shrink = auto_vacuum == AUTO_VACUUM_INCREMENTAL;
    if (checkpointer_start(&s->checkpointer, s->directory.path, &s->conn, &s->writing, e))
        return e->code;
    sqlite3_busy_timeout(s->conn.db, 0);
    *ret = &take(s)->base;
    return ERR_OK;
}

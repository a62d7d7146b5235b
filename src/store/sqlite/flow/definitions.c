/* Definitions of workflows and their names (OP_DEFINE). */
#include "store/sqlite/internal.h"

enum err sqlite_definition_put(struct store_sqlite *s, const struct definition *d, int64_t now_ms, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_DEFINITION_PUT);
    sqlite3_bind_int(st, 1, d->tenant);
    sqlite3_bind_blob(st, 2, d->hash, sizeof d->hash, SQLITE_STATIC);
    (void)bind_str(st, 3, d->text);
    sqlite3_bind_int64(st, 4, now_ms);
    return conn_run(&s->conn, st, e);
}

/* The latest version of a name, also of one that was removed; version 0: it never had one. */
static enum err sqlite_define_latest(struct store_sqlite *s, const struct op_define *op, struct workflow_row *ret,
                                     bool *ret_removed, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_WORKFLOW);
    bool row;
    sqlite3_bind_int(st, 1, op->tenant);
    (void)bind_str(st, 2, op->name);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = (struct workflow_row){ 0 };
    *ret_removed = false;
    if (!row)
        return ERR_OK;
    ret->version = sqlite3_column_int64(st, 0);
    ret->created_ms = sqlite3_column_int64(st, 2);
    *ret_removed = sqlite3_column_int(st, 3) != 0;
    bool valid = sqlite3_column_bytes(st, 1) == DEFINITION_HASH;
    if (valid)
        memcpy(ret->hash, sqlite3_column_blob(st, 1), DEFINITION_HASH);
    sqlite3_reset(st);
    return valid ? ERR_OK : conn_corrupt(&s->conn, "an invalid hash of a workflow", e);
}

static enum err sqlite_define_remove(struct store_sqlite *s, struct op_define *op, const struct workflow_row *latest,
                                     bool removed, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_WORKFLOW_REMOVE);
    if (!latest->version || removed)
        return error_set(e, ERR_NOT_FOUND, "there is no such workflow");
    sqlite3_bind_int(st, 1, op->tenant);
    (void)bind_str(st, 2, op->name);
    op->ret_version = op->ret_created_ms = 0;
    op->ret_changed = true;
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_define_put(struct store_sqlite *s, struct op_define *op, const struct workflow_row *latest,
                                  bool removed, struct error *e)
{
    const struct definition *d = op->definition;
    op->ret_changed = !latest->version || removed || memcmp(latest->hash, d->hash, DEFINITION_HASH) != 0;
    op->ret_version = latest->version + op->ret_changed;
    op->ret_created_ms = op->ret_changed ? op->now_ms : latest->created_ms;
    if (!op->ret_changed)
        return ERR_OK;
    if (sqlite_definition_put(s, d, op->now_ms, e))
        return e->code;
    sqlite3_stmt *st = writer_stmt(s, ST_WORKFLOW_PUT);
    sqlite3_bind_int(st, 1, op->tenant);
    (void)bind_str(st, 2, op->name);
    sqlite3_bind_int64(st, 3, op->ret_version);
    sqlite3_bind_blob(st, 4, d->hash, sizeof d->hash, SQLITE_STATIC);
    sqlite3_bind_int64(st, 5, op->now_ms);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_define(struct store_sqlite *s, struct op *base)
{
    struct op_define *op = (struct op_define *)base;
    struct error *e = &base->error;
    struct workflow_row latest;
    int64_t record = 0;
    bool removed;
    if (sqlite_idempotency_put(s, op->idempotency, &record, e))
        return e->code;
    if (!op->name.n)
        return sqlite_definition_put(s, op->definition, op->now_ms, e);
    if (sqlite_define_latest(s, op, &latest, &removed, e))
        return e->code;
    return op->remove ? sqlite_define_remove(s, op, &latest, removed, e)
                      : sqlite_define_put(s, op, &latest, removed, e);
}

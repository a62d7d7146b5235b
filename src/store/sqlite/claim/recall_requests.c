/* OP_RECALL and OP_RECALL_LIST, table `wishes`. A settle does not delete recall requests: whether one is over is
 * checked when it is read. */
#include "store/sqlite/internal.h"

static enum err sqlite_recall_find_owner(struct store_sqlite *s, const struct op_recall *op, struct uuid *ret,
                                         bool *ret_leased, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_RECALL_OWNER);
    bool row;
    (void)bind_uuid(st, 1, &op->id);
    sqlite3_bind_int64(st, 2, op->fence);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    if (!row)
        return recall_too_late(e);
    *ret = row_uuid(st, 0);
    *ret_leased = sqlite3_column_int(st, 1);
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_recall(struct store_sqlite *s, struct op *base)
{
    struct op_recall *op = (struct op_recall *)base;
    /* The node of a leased task's request: its worker learns of it by OP_LEASE_RENEW. */
    static const struct uuid nobody;
    struct uuid owner;
    bool leased;
    if (sqlite_recall_find_owner(s, op, &owner, &leased, &base->error))
        return base->error.code;
    sqlite3_stmt *st = writer_stmt(s, ST_RECALL);
    (void)bind_uuid(st, 1, &op->id);
    sqlite3_bind_blob(st, 2, leased ? nobody.b : owner.b, sizeof owner.b, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, op->fence);
    sqlite3_bind_int(st, 4, op->abort);
    sqlite3_bind_int64(st, 5, op->now_ms);
    sqlite3_bind_int64(st, 6, op->by_scheduled_ms);
    if (conn_run(&s->conn, st, &base->error))
        return base->error.code;
    op->ret_owner = owner;
    return ERR_OK;
}

static enum err sqlite_recall_count(struct store_sqlite *s, const struct op_recall_list *op, size_t *ret,
                                    struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_RECALLS_COUNT);
    bool row;
    (void)bind_uuid(st, 1, &op->node);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = min_of((size_t)sqlite3_column_int64(st, 0), op->max);
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_recall_read(struct store_sqlite *s, const struct op_recall_list *op, struct recall_request *v,
                                   size_t n, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_RECALLS);
    (void)bind_uuid(st, 1, &op->node);
    for (size_t i = 0; i < n; i++) {
        bool row;
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return conn_corrupt(&s->conn, "recall requests that were counted are missing", e);
        v[i] = (struct recall_request){ row_uuid(st, 0), sqlite3_column_int64(st, 1), sqlite3_column_int(st, 2) != 0,
                                        sqlite3_column_int64(st, 3) };
    }
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_recall_list(struct store_sqlite *s, struct op *base)
{
    struct op_recall_list *op = (struct op_recall_list *)base;
    struct error *e = &base->error;
    size_t n;
    sqlite3_stmt *st = writer_stmt(s, ST_RECALLS_DELETE_OVER);
    (void)bind_uuid(st, 1, &op->node);
    if (conn_run(&s->conn, st, e) || sqlite_recall_count(s, op, &n, e))
        return e->code;
    struct recall_request *v = arena_array(&base->arena, struct recall_request, n);
    if (!v)
        return reader_no_room(e);
    if (sqlite_recall_read(s, op, v, n, e))
        return e->code;
    op->ret = v;
    op->ret_count = n;
    return ERR_OK;
}

/* OP_RECALL and OP_RECALL_LIST, table `wishes`. A settle does not delete recall requests: whether one is over is
 * checked when it is read. */
#include "store/sqlite/internal.h"

static enum err sqlite_recall_find_owner(struct store_sqlite *s, const struct op_recall *op, struct uuid *ret,
                                         enum claim_hold *ret_hold, struct error *e)
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
    *ret_hold = (enum claim_hold)sqlite3_column_int(st, 1);
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_recall_is_refused(struct store_sqlite *s, struct uuid task, bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_RECALL_REFUSED);
    bool row;
    (void)bind_uuid(st, 1, &task);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = row && sqlite3_column_int(st, 0);
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_recall(struct store_sqlite *s, struct op *base)
{
    struct op_recall *op = (struct op_recall *)base;
    /* The node of a leased task's request: its worker learns of it by OP_LEASE_RENEW. */
    static const struct uuid nobody;
    struct uuid owner;
    enum claim_hold hold;
    bool refused;
    if (sqlite_recall_find_owner(s, op, &owner, &hold, &base->error))
        return base->error.code;
    sqlite3_stmt *st = writer_stmt(s, ST_RECALL);
    (void)bind_uuid(st, 1, &op->id);
    sqlite3_bind_blob(st, 2, hold == CLAIM_LEASED ? nobody.b : owner.b, sizeof owner.b, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, op->fence);
    sqlite3_bind_int(st, 4, op->abort);
    sqlite3_bind_int64(st, 5, op->now_ms);
    sqlite3_bind_int64(st, 6, op->by_scheduled_ms);
    if (conn_run(&s->conn, st, &base->error) || sqlite_recall_is_refused(s, op->id, &refused, &base->error))
        return base->error.code;
    op->ret_owner = owner;
    op->ret_refused = refused;
    op->ret_handed_off = hold == CLAIM_HANDED;
    return ERR_OK;
}

static enum err sqlite_recall_refuse(struct store_sqlite *s, const struct op_recall_list *op, struct error *e)
{
    for (size_t i = 0; i < op->refused_count; i++) {
        sqlite3_stmt *st = writer_stmt(s, ST_RECALL_REFUSE);
        (void)bind_uuid(st, 1, &op->refused[i].id);
        sqlite3_bind_int64(st, 2, op->refused[i].fence);
        if (conn_run(&s->conn, st, e))
            return e->code;
    }
    return ERR_OK;
}

/* Those that are over are deleted once for all pages. */
static enum err sqlite_recall_delete_over(struct store_sqlite *s, const struct op_recall_list *op, struct error *e)
{
    if (!uuid_is_nil(op->after))
        return ERR_OK;
    sqlite3_stmt *st = writer_stmt(s, ST_RECALLS_DELETE_OVER);
    (void)bind_uuid(st, 1, &op->node);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_recall_list(struct store_sqlite *s, struct op *base)
{
    struct op_recall_list *op = (struct op_recall_list *)base;
    struct error *e = &base->error;
    if (sqlite_recall_refuse(s, op, e) || sqlite_recall_delete_over(s, op, e))
        return e->code;
    struct recall_request *v = arena_array(&base->arena, struct recall_request, op->max);
    if (!v)
        return reader_no_room(e);
    sqlite3_stmt *st = writer_stmt(s, ST_RECALLS);
    (void)bind_uuid(st, 1, &op->node);
    sqlite3_bind_blob(st, 2, op->after.b, sizeof op->after.b, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, (int64_t)op->max);
    size_t n = 0;
    for (bool row; n < op->max; n++) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            break;
        v[n] = (struct recall_request){ row_uuid(st, 0), sqlite3_column_int64(st, 1), sqlite3_column_int(st, 2) != 0,
                                        sqlite3_column_int64(st, 3) };
    }
    sqlite3_reset(st);
    op->ret = v;
    op->ret_count = n;
    return ERR_OK;
}

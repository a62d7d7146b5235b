/* OP_WISH and OP_WISHES. That a wish is over is seen when it is read: who settles a task knows nothing of wishes. */
#include "store/sqlite/internal.h"

static enum err find_owner(struct store_sqlite *s, const struct op_wish *op, struct uuid *ret, bool *ret_leased,
                           struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_WISH_OWNER);
    bool row;
    (void)bind_uuid(st, 1, &op->id);
    sqlite3_bind_int64(st, 2, op->fence);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    if (!row)
        return wish_too_late(e);
    *ret = row_uuid(st, 0);
    *ret_leased = sqlite3_column_int(st, 1);
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_wish(struct store_sqlite *s, struct op *base)
{
    struct op_wish *op = (struct op_wish *)base;
    static const struct uuid nobody; /* has to give a leased task back: its worker is told (OP_KEEP) */
    struct uuid owner;
    bool leased;
    if (find_owner(s, op, &owner, &leased, &base->error))
        return base->error.code;
    sqlite3_stmt *st = writer_stmt(s, ST_WISH);
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

static enum err count_wishes(struct store_sqlite *s, const struct op_wishes *op, size_t *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_WISHES_COUNT);
    bool row;
    (void)bind_uuid(st, 1, &op->node);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = min_of((size_t)sqlite3_column_int64(st, 0), op->max);
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err read_wishes(struct store_sqlite *s, const struct op_wishes *op, struct wish *v, size_t n,
                            struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_WISHES);
    (void)bind_uuid(st, 1, &op->node);
    for (size_t i = 0; i < n; i++) {
        bool row;
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return conn_corrupt(&s->conn, "wishes that were counted are not there", e);
        v[i] = (struct wish){ row_uuid(st, 0), sqlite3_column_int64(st, 1), sqlite3_column_int(st, 2) != 0,
                              sqlite3_column_int64(st, 3) };
    }
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_wishes(struct store_sqlite *s, struct op *base)
{
    struct op_wishes *op = (struct op_wishes *)base;
    struct error *e = &base->error;
    size_t n;
    sqlite3_stmt *st = writer_stmt(s, ST_WISHES_DROP);
    (void)bind_uuid(st, 1, &op->node);
    if (conn_run(&s->conn, st, e) || count_wishes(s, op, &n, e))
        return e->code;
    struct wish *v = arena_array(&base->arena, struct wish, n);
    if (!v)
        return error_set(e, ERR_LIMIT, "the answer is larger than the memory set aside for it");
    if (read_wishes(s, op, v, n, e))
        return e->code;
    op->ret = v;
    op->ret_count = n;
    return ERR_OK;
}

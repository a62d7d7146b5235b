/* OP_BREAKERS, and reading breakers. Only those that are not closed have a row: there are few. */
#include "store/sqlite/reader/reader.h"

static enum err sqlite_breaker_change(struct store_sqlite *s, const struct breaker_change *c, struct error *e)
{
    const struct breaker_row *row = &c->row;
    bool by_id = c->close && !uuid_is_nil(row->id);
    sqlite3_stmt *st = writer_stmt(s, !c->close ? ST_BREAKER_PUT : by_id ? ST_BREAKER_CLOSE : ST_BREAKER_CLOSE_HOST);
    if (!c->close) {
        row_bind(&s->conn, st, 1, &table_breakers, row);
        return conn_run(&s->conn, st, e);
    }
    sqlite3_bind_int(st, 1, row->tenant);
    if (by_id)
        (void)bind_uuid(st, 2, &row->id);
    else
        (void)bind_str(st, 2, row->host);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_breakers(struct store_sqlite *s, struct op *base)
{
    struct op_breakers *op = (struct op_breakers *)base;
    int64_t record = 0;
    op->ret_changed = false;
    if (sqlite_idempotency_put(s, op->idempotency, &record, &base->error))
        return base->error.code;
    for (size_t i = 0; i < op->n; i++) {
        if (sqlite_breaker_change(s, &op->v[i], &base->error))
            return base->error.code;
        bool changed = sqlite3_changes(s->conn.db) > 0;
        if (op->must_exist && op->v[i].close && !changed)
            return error_set(&base->error, ERR_NOT_FOUND, "there is no such breaker");
        op->ret_changed = op->ret_changed || changed;
    }
    return ERR_OK;
}

static void reader_sqlite_bind_breakers(sqlite3_stmt *st, const struct breaker_filter *f)
{
    struct uuid before = f->before;
    if (uuid_is_nil(before))
        memset(before.b, 0xff, sizeof before.b);
    sqlite3_bind_blob(st, 1, before.b, sizeof before.b, SQLITE_TRANSIENT);
    sqlite3_bind_int(st, 2, f->all_tenants ? -1 : f->tenant);
    (void)bind_str(st, 3, f->host);
    sqlite3_bind_int(st, 4, (int)f->scope);
    sqlite3_bind_int64(st, 5, (int64_t)f->limit);
}

enum err reader_sqlite_breakers(struct reader *base, const struct breaker_filter *f, struct arena *a,
                                struct breaker_rows *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_BREAKERS);
    struct breaker_rows all = { .v = arena_array(a, struct breaker_row, f->limit) };
    if (!all.v)
        return reader_no_room(e);
    reader_sqlite_bind_breakers(st, f);
    enum err rc = ERR_OK;
    for (bool row; !rc && all.n < f->limit; all.n++) {
        rc = conn_step(&r->conn, st, &row, e);
        if (rc || !row)
            break;
        rc = row_read(&r->conn, st, 1, &table_breakers, a, &all.v[all.n], e);
    }
    sqlite3_reset(st);
    if (!rc)
        *ret = all;
    return rc;
}

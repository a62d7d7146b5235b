/* OP_WORKER_REPORT, and queries over workers. There are few workers: no statement here needs an index. */
#include "store/sqlite/internal.h"

enum err sqlite_worker_report(struct store_sqlite *s, struct op *base)
{
    struct op_worker_report *op = (struct op_worker_report *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_WORKER_PUT);
    for (size_t i = 0; i < op->n; i++) {
        struct worker_row row = op->v[i];
        row.joined_ms = row.seen_ms = op->now_ms;
        row.left_ms = row.left_ms ? op->now_ms : 0;
        row_bind(&s->conn, st, 1, &table_workers, &row);
        if (conn_run(&s->conn, st, &base->error))
            return base->error.code;
    }
    return ERR_OK;
}

enum err sqlite_worker_slots(struct store_sqlite *s, int64_t now_ms, int64_t *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_WORKER_SLOTS);
    bool row;
    sqlite3_bind_int64(st, 1, now_ms - WORKER_SILENT_MS);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err reader_sqlite_read_workers(struct reader_sqlite *r, sqlite3_stmt *st, size_t max, struct arena *a,
                                           struct worker_rows *all, struct error *e)
{
    for (bool row; all->n < max; all->n++) {
        if (conn_step(&r->conn, st, &row, e))
            return e->code;
        if (!row)
            break;
        if (row_read(&r->conn, st, 1, &table_workers, a, &all->v[all->n], e))
            return e->code;
    }
    return ERR_OK;
}

enum err reader_sqlite_workers(struct reader *base, struct uuid before, size_t max, struct arena *a,
                               struct worker_rows *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = r->conn.stmts[RD_WORKERS];
    struct worker_rows all = { .v = arena_array(a, struct worker_row, max) };
    if (!all.v)
        return reader_no_room(e);
    if (uuid_is_nil(before))
        memset(before.b, 0xff, sizeof before.b);
    (void)bind_uuid(st, 1, &before);
    sqlite3_bind_int64(st, 2, (int64_t)max);
    enum err rc = reader_sqlite_read_workers(r, st, max, a, &all, e);
    sqlite3_reset(st);
    if (!rc)
        *ret = all;
    return rc;
}

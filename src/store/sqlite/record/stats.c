/* OP_STATS: a node's minute is one row for each tenant. OP_PURGE merges rows into coarser ones, the oldest first: it
 * adds them to a row of the next grain, and deletes them. */
#include "store/sqlite/reader/reader.h"
#include "store/sqlite/retention/purge.h"

enum err sqlite_stats(struct store_sqlite *s, struct op *base)
{
    struct op_stats *op = (struct op_stats *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_STATS_ADD);
    for (size_t i = 0; i < op->n; i++) {
        row_bind(&s->conn, st, 1, &table_stats, &op->v[i]);
        if (conn_run(&s->conn, st, &base->error))
            return base->error.code;
    }
    return ERR_OK;
}

static enum err sqlite_stats_run(struct store_sqlite *s, enum writer_statement which, enum stats_grain grain,
                                 int64_t before_ms, size_t max, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, which);
    sqlite3_bind_int(st, 1, (int)grain);
    sqlite3_bind_int64(st, 2, before_ms);
    sqlite3_bind_int64(st, 3, (int64_t)max);
    if (which == ST_STATS_MERGE)
        sqlite3_bind_int64(st, 4, grain == STATS_OF_NODE ? STATS_MINUTE_MS : STATS_HOUR_MS);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_purge_stats(struct store_sqlite *s, int64_t now_ms, size_t max, bool *ret_more, struct error *e)
{
    *ret_more = false;
    for (int i = STATS_OF_HOUR; i >= STATS_OF_NODE; i--) {
        enum stats_grain grain = (enum stats_grain)i;
        int64_t before_ms = stats_old_before(grain, now_ms);
        if ((grain != STATS_OF_HOUR && sqlite_stats_run(s, ST_STATS_MERGE, grain, before_ms, max, e)) ||
            sqlite_stats_run(s, ST_STATS_PURGE, grain, before_ms, max, e))
            return e->code;
        *ret_more = *ret_more || (size_t)sqlite3_changes(s->conn.db) == max;
    }
    return ERR_OK;
}

enum err reader_sqlite_stats(struct reader *base, const struct stats_filter *f, struct arena *a,
                             struct stats_points *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_STATS);
    size_t max = stats_points_max(f);
    struct stats_points all = { .v = arena_array(a, struct stats_point, max) };
    if (!all.v)
        return reader_no_room(e);
    sqlite3_bind_int(st, 1, f->tenant);
    sqlite3_bind_int64(st, 2, f->from_ms);
    sqlite3_bind_int64(st, 3, f->to_ms);
    sqlite3_bind_int64(st, 4, f->step_ms);
    enum err rc = ERR_OK;
    for (bool row; !rc && all.n < max; all.n++) {
        rc = conn_step(&r->conn, st, &row, e);
        if (rc || !row)
            break;
        all.v[all.n] = (struct stats_point){ 0 };
        rc = row_read(&r->conn, st, 1, &table_stats_points, a, &all.v[all.n], e);
    }
    sqlite3_reset(st);
    if (!rc)
        *ret = all;
    return rc;
}

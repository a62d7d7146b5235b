/* The table `lanes`, of which every connection holds a copy in memory. */
#include "store/sqlite/internal.h"

static const char lanes_sql[] = "SELECT lane, tenant_id, queue, priority, requires, cpu_milli, memory_mb, host, pool "
                                "FROM lanes WHERE lane > ? ORDER BY lane";

/* Reads the lanes that are new since the last call. Numbers have no gaps: a gap means a damaged table. */
static enum err conn_load_lanes(struct conn *c, sqlite3_stmt *st, struct error *e)
{
    for (bool row;;) {
        if (conn_step(c, st, &row, e))
            return c->failed;
        if (!row)
            return ERR_OK;
        int64_t number = sqlite3_column_int64(st, 0);
        struct lane lane = { .tenant = sqlite3_column_int(st, 1),
                             .queue = row_text(st, 2),
                             .priority = sqlite3_column_int(st, 3),
                             .requires = row_text(st, 4),
                             .cpu_milli = sqlite3_column_int64(st, 5),
                             .memory_mb = sqlite3_column_int64(st, 6),
                             .host = row_text(st, 7) };
        if (number != (int64_t)c->lanes.top + 1 || !lane_fits(&lane))
            return error_set(e, ERR_CORRUPT, "'%s': lane %lld is not valid", c->path, (long long)number);
        store_lanes_add(&c->lanes, number, lane, sqlite3_column_int(st, 8));
    }
}

enum err lanes_load(struct conn *c, struct error *e)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(c->db, lanes_sql, -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    sqlite3_bind_int64(st, 1, (int64_t)c->lanes.top);
    enum err rc = conn_load_lanes(c, st, e);
    sqlite3_finalize(st);
    return rc;
}

const struct lane_row *lanes_find(struct conn *c, struct lane lane, int pool)
{
    return store_lanes_find(&c->lanes, lane, pool);
}

enum err lanes_at(struct conn *c, int64_t number, const struct lane_row **ret, struct error *e)
{
    if (number > (int64_t)c->lanes.top && lanes_load(c, e))
        return e->code;
    *ret = store_lanes_at(&c->lanes, number);
    if (!*ret)
        return error_set(e, ERR_CORRUPT, "'%s': lane %lld does not exist", c->path, (long long)number);
    return ERR_OK;
}

enum err sqlite_lane_number(struct store_sqlite *s, struct lane lane, int pool, int64_t *ret, struct error *e)
{
    const struct lane_row *row = lanes_find(&s->conn, lane, pool);
    if (row) {
        *ret = row->number;
        return ERR_OK;
    }
    sqlite3_stmt *st = writer_stmt(s, ST_LANE_INSERT);
    sqlite3_bind_int64(st, 1, (int64_t)s->conn.lanes.top + 1);
    sqlite3_bind_int(st, 2, lane.tenant);
    (void)bind_str(st, 3, lane.queue);
    sqlite3_bind_int(st, 4, lane.priority);
    (void)bind_str(st, 5, lane.requires);
    sqlite3_bind_int64(st, 6, lane.cpu_milli);
    sqlite3_bind_int64(st, 7, lane.memory_mb);
    (void)bind_str(st, 8, lane.host);
    sqlite3_bind_int(st, 9, pool);
    s->made_lanes = true;
    if (conn_run(&s->conn, st, e) || lanes_load(&s->conn, e))
        return e->code;
    *ret = (int64_t)s->conn.lanes.top;
    return ERR_OK;
}

/* OP_STATS: a node's minute is one row for each tenant. OP_PURGE merges rows into coarser ones, the oldest first. Most
 * figures of most rows are 0: these are stored as NULL, which takes no space. */
#include "store/postgres/reader/reader.h"
#include "store/postgres/retention/purge.h"

#pragma GCC diagnostic ignored "-Woverlength-strings" /* each statement names all figures several times */

#define STATS_NOT_0(id, column, how) ", nullif(" #column ", 0)"
#define STATS_TOTAL(id, column, how) ", " #how "(" #column ")"
#define STATS_READ(id, column, how)  ", coalesce(" #how "(" #column "), 0)::bigint"
#define STATS_ADD_SUM(column)                                                                                          \
#column " = coalesce(s." #column " + excluded." #column ", s." #column ", excluded." #column ")"
#define STATS_ADD_MAX(column)      #column " = greatest(s." #column ", excluded." #column ")"
#define STATS_ADD(id, column, how) ", " STATS_ADD_##how(column)
#define STATS_INSERT               "INSERT INTO stats AS s (" STATS_NAMES ") "
#define STATS_CONFLICT             " ON CONFLICT (" STATS_KEY ") DO UPDATE SET grain = s.grain" STATS_MAP(STATS_ADD)
/* $1: the grain, $2: before which minute, $3: how many. */
#define STATS_OLDEST                                                                                                   \
    "DELETE FROM stats WHERE ctid = ANY (ARRAY(SELECT ctid FROM stats WHERE grain = $1 AND minute_ms < $2 "            \
    "ORDER BY minute_ms, tenant_id, node_id LIMIT $3 FOR UPDATE SKIP LOCKED))"

static const struct pg_statement add_stats = {
    "stats_add",
    STATS_INSERT "SELECT minute_ms, node_id, tenant_id, grain, written" STATS_MAP(
        STATS_NOT_0) " FROM unnest($*) AS x (" STATS_NAMES ")" STATS_CONFLICT
                     ", written = excluded.written WHERE s.written < excluded.written",
};
static const struct pg_statement merge_stats = {
    "stats_merge",
    "WITH old AS (" STATS_OLDEST " RETURNING *), merged AS (" STATS_INSERT
    "SELECT minute_ms - minute_ms % $4, 'ffffffff-ffff-ffff-ffff-ffffffffffff', tenant_id, $1 + 1, 0" STATS_MAP(
        STATS_TOTAL) " FROM old GROUP BY minute_ms - minute_ms % $4, tenant_id" STATS_CONFLICT
                     ") SELECT count(*) FROM old",
};
static const struct pg_statement purge_stats = { "stats_purge", "WITH old AS (" STATS_OLDEST
                                                                " RETURNING 1) SELECT count(*) FROM old" };
static const struct pg_statement read_stats = {
    "read_stats",
    "SELECT 0, $2 + (minute_ms - $2) / $4 * $4" STATS_MAP(
        STATS_READ) " FROM stats WHERE tenant_id = $1 AND minute_ms >= $2 AND minute_ms < $3 "
                    "GROUP BY (minute_ms - $2) / $4 ORDER BY 2",
};

enum err postgres_stats(struct store_postgres *s, struct op *base)
{
    struct op_stats *op = (struct op_stats *)base;
    const void *rows[STATS_ROWS_MAX];
    for (size_t i = 0; i < op->n; i++)
        rows[i] = &op->v[i];
    pg_params_reset(&s->params);
    pg_add_rows(&s->params, &table_stats, rows, NULL, op->n);
    return pg_queue(&s->conn, &add_stats, &s->params, &base->error);
}

static enum err pg_stats_merge(struct store_postgres *s, enum stats_grain grain, int64_t now_ms, size_t max,
                               bool *ret_more, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    bool last = grain == STATS_OF_HOUR;
    pg_params_reset(&s->params);
    pg_add_i32(&s->params, (int32_t)grain);
    pg_add_i64(&s->params, stats_old_before(grain, now_ms));
    pg_add_i64(&s->params, (int64_t)max);
    if (!last)
        pg_add_i64(&s->params, grain == STATS_OF_NODE ? STATS_MINUTE_MS : STATS_HOUR_MS);
    if (pg_run(&s->conn, last ? &purge_stats : &merge_stats, &s->params, &r, e))
        return e->code;
    *ret_more = *ret_more || (size_t)pg_i64(&r, 0, 0) == max;
    return ERR_OK;
}

enum err pg_purge_stats(struct store_postgres *s, int64_t now_ms, size_t max, bool *ret_more, struct error *e)
{
    *ret_more = false;
    return pg_stats_merge(s, STATS_OF_HOUR, now_ms, max, ret_more, e) ||
                   pg_stats_merge(s, STATS_OF_MINUTE, now_ms, max, ret_more, e) ||
                   pg_stats_merge(s, STATS_OF_NODE, now_ms, max, ret_more, e)
               ? e->code
               : ERR_OK;
}

enum err reader_postgres_stats(struct reader *base, const struct stats_filter *f, struct arena *a,
                               struct stats_points *ret, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    e = pg_reader_error(base, e);
    pg_add_i32(pg_reader_params(r), f->tenant);
    pg_add_i64(&r->params, f->from_ms);
    pg_add_i64(&r->params, f->to_ms);
    pg_add_i64(&r->params, f->step_ms);
    if (pg_reader_run(r, true, &read_stats, &got, e))
        return e->code;
    struct stats_points all = { arena_array(a, struct stats_point, (size_t)got.rows), (size_t)got.rows };
    if (!all.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++) {
        all.v[i] = (struct stats_point){ 0 };
        if (pg_row_read(r->last_conn, &r->lanes, &got, i, 1, &table_stats_points, a, &all.v[i], e))
            return e->code;
    }
    *ret = all;
    return ERR_OK;
}

/* OP_WORKER_REPORT, and reading workers. */
#include <stdlib.h>

#include "store/postgres/reader/reader.h"

#define COLUMNS "id, name, version, slots, running, joined_ms, seen_ms, left_ms, doc, " WORKER_KIND_NAMES
#define KIND_OF(w)                                                                                                     \
    "(" w ".queues, " w ".tenants, " w ".labels, " w ".priority_min, " w ".priority_max, " w ".cpu_milli, " w          \
    ".memory_mb)"

/* Inserts in the order of the ids, because several nodes report the same workers. Returns how many reports change
 * something (worker_report_changes). $1: WORKER_SILENT_MS. */
static const struct pg_statement put_workers = {
    "worker_put",
    "WITH x AS (SELECT * FROM unnest($*) AS x(" COLUMNS
    ")), same AS (SELECT w.id FROM workers AS w JOIN x ON x.id = w.id "
    "WHERE (x.left_ms = 0 OR w.left_ms <> 0) AND x.slots = w.slots AND x.seen_ms - w.seen_ms < $1 "
    "AND " KIND_OF("x") " IS NOT DISTINCT FROM " KIND_OF(
        "w") "), "
             "put AS (INSERT INTO workers (" COLUMNS ") SELECT " COLUMNS " FROM x ORDER BY id "
             "ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version, slots = excluded.slots, "
             "running = excluded.running, seen_ms = greatest(workers.seen_ms, excluded.seen_ms), "
             "left_ms = CASE WHEN workers.left_ms = 0 THEN excluded.left_ms ELSE workers.left_ms END, doc = excluded.doc, "
             "queues = excluded.queues, tenants = excluded.tenants, labels = excluded.labels, "
             "priority_min = excluded.priority_min, priority_max = excluded.priority_max, "
             "cpu_milli = excluded.cpu_milli, memory_mb = excluded.memory_mb) "
             "SELECT count(*) FROM x WHERE id NOT IN (SELECT id FROM same)",
};

enum err postgres_worker_report(struct store_postgres *s, struct op *base)
{
    struct op_worker_report *op = (struct op_worker_report *)base;
    struct worker_row *v = xcalloc(op->n + 1, sizeof *v);
    const void **rows = xcalloc(op->n + 1, sizeof *rows);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    size_t n = worker_reports_merge(op, v);
    for (size_t i = 0; i < n; i++)
        rows[i] = &v[i];
    pg_params_reset(&s->params);
    pg_add_i64(&s->params, WORKER_SILENT_MS);
    pg_add_rows(&s->params, &table_workers, rows, NULL, n);
    enum err rc = n ? pg_run(&s->conn, &put_workers, &s->params, &r, &base->error) : ERR_OK;
    op->ret_changed = n && !rc && pg_i64(&r, 0, 0) > 0;
    s->notice.nodes = s->notice.nodes || op->ret_changed;
    free(rows);
    free(v);
    return rc;
}

enum err reader_postgres_workers(struct reader *base, struct uuid before, size_t max, struct arena *a,
                                 struct worker_rows *ret, struct error *e)
{
    static const struct pg_statement page = {
        "read_workers", "SELECT 0" WORKER_COLUMNS(SQL_NAME) " FROM workers WHERE id < $1 ORDER BY id DESC LIMIT $2"
    };
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    e = pg_reader_error(base, e);
    if (uuid_is_nil(before))
        memset(before.b, 0xff, sizeof before.b);
    pg_add_uuid(pg_reader_params(r), before);
    pg_add_i64(&r->params, (int64_t)max);
    if (pg_reader_run(r, true, &page, &got, e))
        return e->code;
    struct worker_rows rows = { arena_array(a, struct worker_row, (size_t)got.rows), (size_t)got.rows };
    if (!rows.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++)
        if (pg_row_read(r->last_conn, &r->lanes, &got, i, 1, &table_workers, a, &rows.v[i], e))
            return e->code;
    *ret = rows;
    return ERR_OK;
}

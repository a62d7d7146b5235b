/* OP_WORKER_REPORT, and reading workers. */
#include <stdlib.h>

#include "store/postgres/reader.h"

/* Inserts in the order of the ids, because several nodes report the same workers. */
static const struct pg_statement put_workers = {
    "worker_put",
    "INSERT INTO workers (id, name, version, slots, running, joined_ms, seen_ms, left_ms, doc) "
    "SELECT * FROM unnest($*) AS x(id, name, version, slots, running, joined_ms, seen_ms, left_ms, doc) ORDER BY x.id "
    "ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version, slots = excluded.slots, "
    "running = excluded.running, seen_ms = greatest(workers.seen_ms, excluded.seen_ms), "
    "left_ms = CASE WHEN workers.left_ms = 0 THEN excluded.left_ms ELSE workers.left_ms END, doc = excluded.doc",
};

/* Merges the reports so that each worker occurs once, with its latest report. It has left if any report says so. */
static size_t pg_worker_last_reports(const struct op_worker_report *op, struct worker_row *v)
{
    size_t n = 0;
    for (size_t i = 0; i < op->n; i++) {
        size_t at = 0;
        while (at < n && !uuid_eq(v[at].id, op->v[i].id))
            at++;
        int64_t left_ms = at < n ? v[at].left_ms : 0;
        n += at == n;
        v[at] = op->v[i];
        v[at].joined_ms = v[at].seen_ms = op->now_ms;
        v[at].left_ms = left_ms || op->v[i].left_ms ? op->now_ms : 0;
    }
    return n;
}

enum err postgres_worker_report(struct store_postgres *s, struct op *base)
{
    struct op_worker_report *op = (struct op_worker_report *)base;
    struct worker_row *v = xcalloc(op->n + 1, sizeof *v);
    const void **rows = xcalloc(op->n + 1, sizeof *rows);
    size_t n = pg_worker_last_reports(op, v);
    for (size_t i = 0; i < n; i++)
        rows[i] = &v[i];
    pg_params_reset(&s->params);
    pg_add_rows(&s->params, &table_workers, rows, NULL, n);
    enum err rc = n ? pg_queue(&s->conn, &put_workers, &s->params, &base->error) : ERR_OK;
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

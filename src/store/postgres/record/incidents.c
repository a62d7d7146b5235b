/* Hits, and OP_FOLD: the records of incidents, messages, checks and pauses.
 *
 * A fold locks hits and records in the order of their ids. So two nodes that fold at the same time do not deadlock: the
 * second one finds that hits are gone, or that a record has changed. */
#include <stdlib.h>

#include "store/postgres/reader/reader.h"

/* ---- hits ---- */

static const struct pg_statement insert_hits = {
    "hits_insert",
    "INSERT INTO hits (id" HIT_COLUMNS_REST(SQL_NAME) ") SELECT * FROM unnest($*) ON CONFLICT (id) DO NOTHING",
};
static const struct pg_statement delete_hits = {
    "hits_delete",
    "DELETE FROM hits WHERE id = ANY (ARRAY(SELECT id FROM hits WHERE id = ANY ($1) ORDER BY id FOR UPDATE))",
};

enum err pg_send_hits(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e)
{
    struct hits hits;
    for (size_t i = 0; i < n; i++) {
        const void *rows[HITS_MAX + 1];
        if (!op_may_hit(ops[i], s->base.wants))
            continue;
        hits_of_op(ops[i], s->base.wants, &hits);
        for (size_t k = 0; k < hits.n; k++)
            rows[k] = &hits.v[k];
        pg_params_reset(&s->params);
        pg_add_rows(&s->params, &table_hits, rows, NULL, hits.n);
        if (hits.n && pg_queue(&s->conn, &insert_hits, &s->params, e))
            return e->code;
    }
    return ERR_OK;
}

enum err reader_postgres_hits(struct reader *base, size_t max, struct arena *a, struct hit_list *ret, struct error *e)
{
    static const struct pg_statement page = { "read_hits",
                                              "SELECT 0" HIT_COLUMNS(SQL_NAME) " FROM hits ORDER BY id LIMIT $1" };
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    e = pg_reader_error(base, e);
    pg_add_i64(pg_reader_params(r), (int64_t)max);
    if (pg_reader_run(r, false, &page, &got, e))
        return e->code;
    struct hit_list all = { arena_array(a, struct hit, (size_t)got.rows + 1), (size_t)got.rows };
    if (!all.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++)
        if (pg_row_read(r->last_conn, &r->lanes, &got, i, 1, &table_hits, a, &all.v[i], e))
            return e->code;
    *ret = all;
    return ERR_OK;
}

/* ---- checks and pauses ---- */

static const struct pg_statement put_checks = {
    "checks_put",
    "INSERT INTO incident_records AS r (id" RECORD_COLUMNS_REST(
        SQL_NAME) ") SELECT * FROM unnest($*) ON CONFLICT (id) DO UPDATE SET version = r.version + excluded.version, "
                  "next_ms = excluded.next_ms",
};

struct pg_check {
    struct record row; /* version: how many operations of the transaction make it due */
    size_t place;      /* of its operation in the transaction */
};

static int pg_compare_checks(const void *a, const void *b)
{
    const struct pg_check *x = a, *y = b;
    int order = uuid_cmp(x->row.id, y->row.id);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}

/* A statement changes a row once, and rows are locked in the order of their ids. */
static enum err pg_send_check_rows(struct store_postgres *s, struct pg_check *v, size_t n, struct error *e)
{
    const void **rows = xcalloc(n, sizeof *rows);
    size_t kept = 0;
    qsort(v, n, sizeof *v, pg_compare_checks);
    for (size_t i = 0; i < n; i++) {
        bool again = i && uuid_eq(v[i].row.id, v[i - 1].row.id);
        v[i].row.version += again ? v[i - 1].row.version : 0;
        kept -= again;
        rows[kept++] = &v[i].row;
    }
    pg_params_reset(&s->params);
    pg_add_rows(&s->params, &table_records, rows, NULL, kept);
    enum err rc = pg_queue(&s->conn, &put_checks, &s->params, e);
    free(rows);
    return rc;
}

enum err pg_send_checks(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e)
{
    struct pg_check *v = NULL, one;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; op_next_record(ops[i], &at, &one.row);) {
            one.place = i;
            v = xrealloc(v, (count + 1) * sizeof *v);
            v[count++] = one;
        }
    enum err rc = count ? pg_send_check_rows(s, v, count, e) : ERR_OK;
    free(v);
    return rc;
}

/* ---- OP_FOLD ---- */

static const struct pg_statement insert_record = {
    "record_insert",
    "INSERT INTO incident_records (id" RECORD_COLUMNS_REST(
        SQL_NAME) ") SELECT * FROM unnest($*) ON CONFLICT DO NOTHING",
};
static const struct pg_statement update_record = {
    "record_update",
    "UPDATE incident_records AS r SET version = version + 1, key = $4, next_ms = $5, doc = $6 WHERE id = $1 AND "
    "tenant_id = $2 AND version = $3 AND NOT EXISTS (SELECT 1 FROM incident_records AS x WHERE x.key = $4 AND x.id <> "
    "r.id)",
};
static const struct pg_statement delete_record = {
    "record_delete",
    "DELETE FROM incident_records WHERE id = $1 AND tenant_id = $2 AND version = $3",
};

static enum err pg_fold_delete_hits(struct store_postgres *s, const struct op_fold *op, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (!op->hit_count)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_array(&s->params, PG_UUID);
    for (size_t i = 0; i < op->hit_count; i++)
        pg_element_uuid(&s->params, op->hits[i]);
    pg_array_end(&s->params);
    if (pg_run(&s->conn, &delete_hits, &s->params, &r, e))
        return e->code;
    return (size_t)r.affected == op->hit_count ? ERR_OK : fold_hit_gone(e);
}

static const struct pg_statement *pg_fold_add(struct store_postgres *s, const struct record_change *c)
{
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    if (c->version == 0) {
        struct record row = c->record;
        row.version = 1;
        pg_add_rows(p, &table_records, (const void *const[]){ &row }, NULL, 1);
        return &insert_record;
    }
    pg_add_uuid(p, c->record.id);
    pg_add_i32(p, c->record.tenant);
    pg_add_i64(p, c->version);
    if (c->remove)
        return &delete_record;
    if (c->record.key.n)
        pg_add_text(p, c->record.key);
    else
        pg_add_null(p, PG_TEXT);
    pg_add_i64(p, c->record.next_ms);
    pg_add_text(p, c->record.doc);
    return &update_record;
}

enum err postgres_fold(struct store_postgres *s, struct op *base)
{
    struct op_fold *op = (struct op_fold *)base;
    struct error *e = &base->error;
    if (pg_idempotency_put(s, op->idempotency, e) || fold_docs_fit(op, e) || pg_fold_delete_hits(s, op, e))
        return e->code;
    for (size_t i = 0; i < op->n; i++) {
        cleanup_with(pg_result_release) struct pg_result r = { 0 };
        if (pg_run(&s->conn, pg_fold_add(s, &op->v[i]), &s->params, &r, e))
            return e->code;
        if (r.affected != 1)
            return fold_record_changed(e);
    }
    return ERR_OK;
}

/* ---- reading records ---- */

#define SQL_RECORD_FILTER                                                                                              \
    "kind = $1 AND ($2 = 0 OR tenant_id = $2) AND ($3::uuid IS NULL OR setting_id = $3) AND ($4::uuid IS NULL OR "     \
    "incident_id = $4) AND ($5 = '' OR key = $5) AND id < $6 AND id >= $7 AND ($8 = 0 OR key IS NOT NULL) "

static void reader_postgres_add_records(struct pg_reader *r, const struct record_filter *f)
{
    struct uuid lowest, below;
    record_range_of(f, &lowest, &below);
    pg_add_i32(pg_reader_params(r), (int32_t)f->kind);
    pg_add_i32(&r->params, f->tenant);
    pg_add_uuid(&r->params, f->setting);
    pg_add_uuid(&r->params, f->incident);
    pg_add_text(&r->params, f->key);
    pg_add_uuid(&r->params, below);
    if (uuid_is_nil(lowest))
        lowest.b[15] = 1; /* nil would become NULL */
    pg_add_uuid(&r->params, lowest);
    pg_add_i32(&r->params, f->open);
    pg_add_i64(&r->params, (int64_t)f->limit + 1);
    if (f->due_ms)
        pg_add_i64(&r->params, f->due_ms);
}

enum err reader_postgres_records(struct reader *base, const struct record_filter *f, struct arena *a,
                                 struct record_page *ret, struct error *e)
{
    static const struct pg_statement newest = {
        "read_records",
        "SELECT 0" RECORD_COLUMNS(SQL_NAME) " FROM incident_records WHERE " SQL_RECORD_FILTER
                                            "ORDER BY id DESC LIMIT $9",
    };
    static const struct pg_statement due = {
        "read_records_due",
        "SELECT 0" RECORD_COLUMNS(SQL_NAME) " FROM incident_records WHERE next_ms > 0 AND next_ms <= $10 "
                                            "AND " SQL_RECORD_FILTER "ORDER BY next_ms, id LIMIT $9",
    };
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    e = pg_reader_error(base, e);
    reader_postgres_add_records(r, f);
    if (pg_reader_run(r, false, f->due_ms ? &due : &newest, &got, e))
        return e->code;
    bool over = (size_t)got.rows > f->limit;
    struct record_page page = { .n = over ? f->limit : (size_t)got.rows, .more = over };
    page.v = arena_array(a, struct record, page.n + 1);
    if (!page.v)
        return reader_no_room(e);
    for (size_t i = 0; i < page.n; i++)
        if (pg_row_read(r->last_conn, &r->lanes, &got, (int)i, 1, &table_records, a, &page.v[i], e))
            return e->code;
    *ret = page;
    return ERR_OK;
}

/* OP_BREAKERS, and reading breakers. Only those that are not closed have a row: there are few. */
#include <stdlib.h>

#include "store/postgres/reader/reader.h"

static const struct pg_statement put_breaker = {
    "breaker_put",
    "INSERT INTO breakers AS b (id, tenant_id, host, opened_ms, until_ms, calls, failures, reopened, reason) "
    "SELECT * FROM unnest($*) ON CONFLICT (tenant_id, host) DO UPDATE SET until_ms = excluded.until_ms, "
    "reason = excluded.reason, reopened = b.reopened + 1 WHERE b.until_ms < excluded.until_ms",
};
static const struct pg_statement close_breaker = { "breaker_close",
                                                   "DELETE FROM breakers WHERE tenant_id = $1 AND id = $2" };
static const struct pg_statement close_breaker_of_host = { "breaker_close_host",
                                                           "DELETE FROM breakers WHERE tenant_id = $1 AND host = $2" };

static int pg_breaker_compare(const void *x, const void *y)
{
    const struct breaker_row *a = &(*(const struct breaker_change *const *)x)->row,
                             *b = &(*(const struct breaker_change *const *)y)->row;
    return a->tenant != b->tenant ? (a->tenant > b->tenant) - (a->tenant < b->tenant) : str_cmp(a->host, b->host);
}

static enum err pg_breaker_change(struct store_postgres *s, const struct breaker_change *c, bool *ret_changed,
                                  struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    bool by_id = c->close && !uuid_is_nil(c->row.id);
    pg_params_reset(&s->params);
    if (!c->close)
        pg_add_rows(&s->params, &table_breakers, (const void *const[]){ &c->row }, NULL, 1);
    else
        pg_add_i32(&s->params, c->row.tenant);
    if (by_id)
        pg_add_uuid(&s->params, c->row.id);
    else if (c->close)
        pg_add_text(&s->params, c->row.host);
    const struct pg_statement *st = !c->close ? &put_breaker : by_id ? &close_breaker : &close_breaker_of_host;
    enum err rc = pg_run(&s->conn, st, &s->params, &r, e);
    *ret_changed = !rc && r.affected > 0;
    return rc;
}

/* In the order of tenants and hosts: several nodes may change the same breakers, and must not deadlock. */
enum err postgres_breakers(struct store_postgres *s, struct op *base)
{
    struct op_breakers *op = (struct op_breakers *)base;
    struct error *e = &base->error;
    op->ret_changed = false;
    if (pg_idempotency_put(s, op->idempotency, e))
        return e->code;
    const struct breaker_change **v = xcalloc(op->n, sizeof *v);
    for (size_t i = 0; i < op->n; i++)
        v[i] = &op->v[i];
    qsort(v, op->n, sizeof *v, pg_breaker_compare);
    enum err rc = ERR_OK;
    for (size_t i = 0; !rc && i < op->n; i++) {
        bool changed;
        rc = pg_breaker_change(s, v[i], &changed, e);
        if (!rc && op->must_exist && v[i]->close && !changed)
            rc = error_set(e, ERR_NOT_FOUND, "there is no such breaker");
        op->ret_changed = op->ret_changed || changed;
    }
    free(v);
    s->notice.lanes = s->notice.lanes || (!rc && op->ret_changed);
    return rc;
}

enum err reader_postgres_breakers(struct reader *base, const struct breaker_filter *f, struct arena *a,
                                  struct breaker_rows *ret, struct error *e)
{
    static const struct pg_statement page = {
        "read_breakers",
        "SELECT 0" BREAKER_COLUMNS(SQL_NAME) " FROM breakers WHERE id < $1 AND ($2 < 0 OR tenant_id = $2) "
                                             "AND ($3 = '' OR host = $3) AND ($4 = 0 OR (host = '*') = ($4 = 2)) "
                                             "ORDER BY id DESC LIMIT $5"
    };
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    struct uuid before = f->before;
    e = pg_reader_error(base, e);
    if (uuid_is_nil(before))
        memset(before.b, 0xff, sizeof before.b);
    pg_add_uuid(pg_reader_params(r), before);
    pg_add_i32(&r->params, f->all_tenants ? -1 : f->tenant);
    pg_add_text(&r->params, f->host);
    pg_add_i32(&r->params, (int32_t)f->scope);
    pg_add_i64(&r->params, (int64_t)f->limit);
    if (pg_reader_run(r, false, &page, &got, e))
        return e->code;
    struct breaker_rows rows = { arena_array(a, struct breaker_row, (size_t)got.rows), (size_t)got.rows };
    if (!rows.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++)
        if (pg_row_read(r->last_conn, &r->lanes, &got, i, 1, &table_breakers, a, &rows.v[i], e))
            return e->code;
    *ret = rows;
    return ERR_OK;
}

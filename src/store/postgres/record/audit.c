/* Audit rows. They are in the order of their ids, which begin with the time: that is also the order in which they are
 * read and purged. A trigger refuses to delete them unless belfry.audit_purge is on. */
#include "port/store/operation_table.h"
#include "store/postgres/reader/reader.h"
#include "store/postgres/retention/purge.h"

static const struct pg_statement insert_audit = {
    "audit_insert",
    "INSERT INTO audit (id" AUDIT_COLUMNS_REST(SQL_NAME) ") SELECT * FROM unnest($*) ON CONFLICT (id) DO NOTHING",
};

enum err pg_send_audit(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        count += op_audit(ops[i]) != NULL;
    if (!count)
        return ERR_OK;
    arena_reset(&s->arena);
    struct audit *rows = arena_array(&s->arena, struct audit, count);
    const void **pointers = arena_array(&s->arena, const void *, count);
    if (!rows || !pointers)
        return error_no_room(e);
    for (size_t i = 0; i < n; i++) {
        const struct audit *given = op_audit(ops[i]);
        if (!given)
            continue;
        rows[at] = *given;
        rows[at].strand = s->strand;
        rows[at].seq = ++s->audit_seq;
        pointers[at] = &rows[at];
        at++;
    }
    pg_params_reset(&s->params);
    pg_add_rows(&s->params, &table_audit, pointers, NULL, count);
    return pg_queue(&s->conn, &insert_audit, &s->params, e);
}

/* ---- OP_PURGE ---- */

static const struct pg_statement audit_purge_begin = { "audit_purge_begin",
                                                       "SELECT set_config('belfry.audit_purge', 'on', true)" };
static const struct pg_statement audit_purge_end = { "audit_purge_end",
                                                     "SELECT set_config('belfry.audit_purge', 'off', true)" };
static const struct pg_statement oldest_audit = { "audit_oldest", "SELECT 1 FROM audit WHERE id < $1 LIMIT 1" };
static const struct pg_statement purge_audit = {
    "audit_purge",
    "DELETE FROM audit WHERE id = ANY (ARRAY(SELECT id FROM audit WHERE id < $1 ORDER BY id LIMIT $2))",
};

enum err pg_purge_audit(struct pg_purge *f, int64_t before_ms, struct error *e)
{
    struct store_postgres *s = f->s;
    cleanup_with(pg_result_release) struct pg_result found = { 0 }, r = { 0 };
    if (before_ms <= 0 || f->left == 0)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, uuid_floor(before_ms));
    if (pg_run(&s->conn, &oldest_audit, &s->params, &found, e))
        return e->code;
    if (!found.rows)
        return ERR_OK;
    pg_add_i64(&s->params, (int64_t)f->left);
    if (pg_queue(&s->conn, &audit_purge_begin, NULL, e) || pg_run(&s->conn, &purge_audit, &s->params, &r, e))
        return e->code;
    pg_purge_add_count(f, (size_t)r.affected);
    return pg_queue(&s->conn, &audit_purge_end, NULL, e);
}

/* ---- reading ---- */

/* Where the reading of a page ends at the latest; found is false if there are not so many rows. */
static enum err reader_postgres_audit_scanned(struct pg_reader *r, struct audit_range *range, bool *ret_found,
                                              struct error *e)
{
    static const struct pg_statement scanned = {
        "read_audit_scanned", "SELECT id FROM audit WHERE id < $1 AND id >= $2 ORDER BY id DESC LIMIT 1 OFFSET $3"
    };
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_uuid(pg_reader_params(r), range->below);
    pg_add_uuid(&r->params, range->lowest);
    pg_add_i64(&r->params, AUDIT_SCAN_MAX - 1);
    if (pg_reader_run(r, false, &scanned, &got, e))
        return e->code;
    *ret_found = got.rows > 0;
    if (*ret_found)
        range->lowest = pg_uuid(&got, 0, 0);
    return ERR_OK;
}

static void reader_postgres_add_audit(struct pg_reader *r, const struct audit_filter *f,
                                      const struct audit_range *range)
{
    pg_add_uuid(pg_reader_params(r), range->below);
    pg_add_uuid(&r->params, range->lowest);
    pg_add_i32(&r->params, f->tenant);
    pg_add_text(&r->params, f->actor);
    pg_add_text(&r->params, f->object);
    pg_add_text(&r->params, range->action);
    pg_add_i32(&r->params, range->is_prefix);
    pg_add_i64(&r->params, (int64_t)f->limit + 1);
}

enum err reader_postgres_audit(struct reader *base, const struct audit_filter *f, struct arena *a,
                               struct audit_page *ret, struct error *e)
{
    static const struct pg_statement rows = {
        "read_audit",
        "SELECT 0" AUDIT_COLUMNS(SQL_NAME) " FROM audit WHERE id < $1 AND id >= $2 AND ($3 = 0 OR tenant_id = $3) "
                                           "AND ($4 = '' OR actor = $4) AND ($5 = '' OR object = $5) AND ($6 = '' OR "
                                           "action = $6 OR ($7 = 1 AND left(action, length($6)) = $6)) "
                                           "ORDER BY id DESC LIMIT $8"
    };
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    struct audit_range range = audit_range_of(f);
    struct audit_page page = { 0 };
    e = pg_reader_error(base, e);
    if (reader_postgres_audit_scanned(r, &range, &page.more, e))
        return e->code;
    reader_postgres_add_audit(r, f, &range);
    if (pg_reader_run(r, false, &rows, &got, e))
        return e->code;
    bool over = (size_t)got.rows > f->limit;
    page.n = over ? f->limit : (size_t)got.rows;
    page.v = arena_array(a, struct audit, page.n);
    if (!page.v)
        return reader_no_room(e);
    for (size_t i = 0; i < page.n; i++)
        if (pg_row_read(r->last_conn, &r->lanes, &got, (int)i, 1, &table_audit, a, &page.v[i], e))
            return e->code;
    page.more = page.more || over;
    page.next_before = over ? page.v[page.n - 1].id : range.lowest;
    *ret = page;
    return ERR_OK;
}

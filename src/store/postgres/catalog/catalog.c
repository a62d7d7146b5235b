/* OP_CATALOG.
 *
 * A catalog entry is locked before its version is checked. An entry that does not exist cannot be locked: if two
 * transactions insert it at once, the first succeeds; the second inserts nothing, then finds and locks the existing
 * entry. The operation runs in a savepoint. */
#include "store/common/edits.h"
#include "store/postgres/reader/reader.h"

struct pg_catalog_current {
    int64_t version, created_ms; /* version 0: the entry does not exist */
};

static void pg_catalog_add_name(struct pg_params *p, const struct catalog_entry *x)
{
    pg_params_reset(p);
    pg_add_i32(p, (int32_t)x->kind);
    pg_add_i32(p, x->tenant);
    pg_add_text(p, x->name);
}

static enum err pg_catalog_lock_entry(struct store_postgres *s, const struct catalog_entry *x,
                                      struct pg_catalog_current *ret, struct error *e)
{
    static const struct pg_statement locked = { "catalog_find",
                                                "SELECT version, created_ms FROM catalog WHERE kind = $1 "
                                                "AND tenant_id = $2 AND name = $3 FOR UPDATE" };
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_catalog_add_name(&s->params, x);
    if (pg_run(&s->conn, &locked, &s->params, &r, e))
        return e->code;
    *ret = (struct pg_catalog_current){ 0 };
    if (r.rows)
        *ret = (struct pg_catalog_current){ pg_i64(&r, 0, 0), pg_i64(&r, 0, 1) };
    return ERR_OK;
}

static enum err pg_catalog_remove_entry(struct store_postgres *s, const struct catalog_entry *x, struct error *e)
{
    static const struct pg_statement removal = {
        "catalog_remove", "DELETE FROM catalog WHERE kind = $1 AND tenant_id = $2 AND name = $3"
    };
    if (x->kind == CATALOG_CALENDAR && pg_calendar_unused(s, x, e))
        return e->code;
    pg_catalog_add_name(&s->params, x);
    return pg_run(&s->conn, &removal, &s->params, NULL, e);
}

static void pg_catalog_add_entry(struct pg_params *p, const struct catalog_entry *x)
{
    pg_catalog_add_name(p, x);
    pg_add_i64(p, x->version);
    pg_add_i64(p, x->created_ms);
    pg_add_i64(p, x->updated_ms);
    if (x->doc.n)
        pg_add_text(p, x->doc);
    else
        pg_add_null(p, PG_TEXT);
}

/* *ret_done is false if another transaction has inserted the entry since it was looked for. */
static enum err pg_catalog_write_entry(struct store_postgres *s, const struct catalog_entry *x, bool is_new,
                                       bool *ret_done, struct error *e)
{
    static const struct pg_statement insert = { "catalog_insert",
                                                "INSERT INTO catalog (kind, tenant_id, name, version, created_ms, "
                                                "updated_ms, doc) VALUES ($1, $2, $3, $4, $5, $6, $7) "
                                                "ON CONFLICT DO NOTHING" },
                                     update = { "catalog_update",
                                                "UPDATE catalog SET version = $4, created_ms = $5, updated_ms = $6, "
                                                "doc = $7 WHERE kind = $1 AND tenant_id = $2 AND name = $3" };
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_catalog_add_entry(&s->params, x);
    if (pg_run(&s->conn, is_new ? &insert : &update, &s->params, &r, e))
        return e->code;
    *ret_done = r.affected == 1;
    return ERR_OK;
}

static enum err pg_catalog_try_change(struct store_postgres *s, struct catalog_change *c, int64_t now_ms,
                                      bool *ret_done, struct error *e)
{
    struct pg_catalog_current now = { 0 };
    if (pg_catalog_lock_entry(s, &c->entry, &now, e) || catalog_check(c, now.version, e))
        return e->code;
    *ret_done = true;
    if (c->remove) {
        c->ret_version = c->ret_created_ms = 0;
        return pg_catalog_remove_entry(s, &c->entry, e);
    }
    c->ret_version = now.version + 1;
    c->ret_created_ms = now.version ? now.created_ms : now_ms;
    struct catalog_entry next = c->entry;
    next.version = c->ret_version;
    next.created_ms = c->ret_created_ms;
    next.updated_ms = now_ms;
    return pg_catalog_write_entry(s, &next, now.version == 0, ret_done, e);
}

static enum err pg_catalog_change(struct store_postgres *s, struct catalog_change *c, int64_t now_ms, struct error *e)
{
    for (bool done = false; !done;) /* another round if another node has made or removed the entry */
        if (pg_catalog_try_change(s, c, now_ms, &done, e))
            return e->code;
    return ERR_OK;
}

enum err postgres_catalog(struct store_postgres *s, struct op *base)
{
    struct op_catalog *op = (struct op_catalog *)base;
    struct error *e = &base->error;
    if (pg_idempotency_put(s, op->idempotency, e) || catalog_docs_fit(op, e))
        return e->code;
    for (size_t i = 0; i < op->n; i++)
        if (pg_catalog_change(s, &op->v[i], op->now_ms, e))
            return e->code;
    for (size_t i = 0; i < op->n; i++) /* the progress of jobs is written often, and no other node needs it */
        s->notice.catalog = s->notice.catalog || op->v[i].entry.kind != CATALOG_JOB;
    return ERR_OK;
}

/* ---- reading ---- */

enum err reader_postgres_catalog_get(struct reader *base, int32_t tenant, enum catalog_kind kind, struct str name,
                                     struct arena *a, struct catalog_entry *ret, struct error *e)
{
    static const struct pg_statement entry = {
        "read_catalog", PG_ROWS(CATALOG_COLUMNS, "catalog WHERE kind = $1 AND tenant_id = $2 AND name = $3")
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    struct catalog_entry x = { 0 };
    if (!text_is_clean(name))
        return reader_not_found("catalog entry", e);
    pg_add_i32(p, (int32_t)kind);
    pg_add_i32(p, tenant);
    pg_add_text(p, name);
    if (pg_reader_run_one(r, &entry, &table_catalog, a, &x, e))
        return e->code;
    *ret = x;
    return ERR_OK;
}

enum err reader_postgres_catalog_list(struct reader *base, const struct catalog_filter *f, struct arena *a,
                                      struct catalog_page *ret, struct error *e)
{
    static const struct pg_statement
        of_tenant = { "read_catalog_list",
                      PG_ROWS(CATALOG_COLUMNS,
                              "catalog WHERE kind = $1 AND tenant_id = $2 AND name > $3 ORDER BY name LIMIT $4") },
        of_all = { "read_catalog_list_all",
                   PG_ROWS(
                       CATALOG_COLUMNS,
                       "catalog WHERE kind = $1 AND (tenant_id, name) > ($2, $3) ORDER BY tenant_id, name LIMIT $4") },
        unfinished = { "read_catalog_unfinished", /* matches the index catalog_unfinished */
                       PG_ROWS(CATALOG_COLUMNS,
                               "catalog WHERE kind = $1 AND kind = 4 AND doc ~ '\"state\"\\s*:\\s*\"RUNNING\"' "
                               "AND (tenant_id, name) > ($2, $3) ORDER BY tenant_id, name LIMIT $4") };
    const struct pg_statement *list = f->unfinished ? &unfinished : f->all_tenants ? &of_all : &of_tenant;
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, (int32_t)f->kind);
    pg_add_i32(p, !f->all_tenants ? f->tenant : f->after.n ? f->after_tenant : -1);
    pg_add_text(p, f->after);
    pg_add_i64(p, (int64_t)f->limit + 1);
    if (text_is_clean(f->after) && pg_reader_run(r, false, list, &got, e))
        return e->code;
    struct catalog_page page = { .more = (size_t)got.rows > f->limit };
    page.entries.n = min_of((size_t)got.rows, f->limit);
    page.entries.v = arena_array(a, struct catalog_entry, page.entries.n);
    if (!page.entries.v)
        return reader_no_room(e);
    for (size_t i = 0; i < page.entries.n; i++)
        if (pg_row_read(r->last_conn, &r->lanes, &got, (int)i, 1, &table_catalog, a, &page.entries.v[i], e))
            return e->code;
    *ret = page;
    return ERR_OK;
}

/* OP_CATALOG. Changes are made one after the other, and each sees those before it. The operation runs in a
 * savepoint. */
#include <assert.h>

#include "store/common/edits.h"
#include "store/sqlite/reader/reader.h"

static_assert(CATALOG_JOB == 4, "the index catalog_jobs and ST_JOBS_OLD name it by this number");

struct catalog_row {
    int64_t rowid, version, created_ms; /* version 0: the entry does not exist */
};

static enum err sqlite_catalog_find(struct store_sqlite *s, const struct catalog_entry *x, struct catalog_row *ret,
                                    struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CATALOG_FIND);
    bool row;
    sqlite3_bind_int(st, 1, (int)x->kind);
    sqlite3_bind_int(st, 2, x->tenant);
    (void)bind_str(st, 3, x->name);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = (struct catalog_row){ 0 };
    if (row)
        *ret = (struct catalog_row){ sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1),
                                     sqlite3_column_int64(st, 2) };
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_catalog_remove(struct store_sqlite *s, int64_t rowid, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CATALOG_REMOVE);
    sqlite3_bind_int64(st, 1, rowid);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_catalog_put(struct store_sqlite *s, int64_t rowid, const struct catalog_entry *x,
                                   struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CATALOG_PUT);
    if (rowid)
        sqlite3_bind_int64(st, 1, rowid);
    else
        sqlite3_bind_null(st, 1);
    row_bind(&s->conn, st, 2, &table_catalog, x);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_catalog_change(struct store_sqlite *s, struct catalog_change *c, int64_t now_ms, struct error *e)
{
    struct catalog_row now = { 0 };
    if (sqlite_catalog_find(s, &c->entry, &now, e) || catalog_check(c, now.version, e))
        return e->code;
    if (c->remove) {
        if (c->entry.kind == CATALOG_CALENDAR && sqlite_calendar_check_unused(s, &c->entry, e))
            return e->code;
        c->ret_version = c->ret_created_ms = 0;
        return sqlite_catalog_remove(s, now.rowid, e);
    }
    c->ret_version = now.version + 1;
    c->ret_created_ms = now.version ? now.created_ms : now_ms;
    struct catalog_entry next = c->entry;
    next.version = c->ret_version;
    next.created_ms = c->ret_created_ms;
    next.updated_ms = now_ms;
    return sqlite_catalog_put(s, now.rowid, &next, e);
}

enum err sqlite_catalog(struct store_sqlite *s, struct op *base)
{
    struct op_catalog *op = (struct op_catalog *)base;
    struct error *e = &base->error;
    int64_t record;
    if (sqlite_idempotency_put(s, op->idempotency, &record, e) || catalog_docs_fit(op, e))
        return e->code;
    for (size_t i = 0; i < op->n; i++)
        if (sqlite_catalog_change(s, &op->v[i], op->now_ms, e))
            return e->code;
    return ERR_OK;
}

/* ---- reading ---- */

enum err reader_sqlite_catalog_get(struct reader *base, int32_t tenant, enum catalog_kind kind, struct str name,
                                   struct arena *a, struct catalog_entry *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_CATALOG);
    struct catalog_entry x = { 0 };
    bool found;
    sqlite3_bind_int(st, 1, (int)kind);
    sqlite3_bind_int(st, 2, tenant);
    (void)bind_str(st, 3, name);
    if (reader_sqlite_read_one(r, st, &table_catalog, a, &x, &found, e))
        return e->code;
    if (!found)
        return reader_not_found("entry", e);
    *ret = x;
    return ERR_OK;
}

static enum err reader_sqlite_read_catalog_page(struct reader_sqlite *r, sqlite3_stmt *st, size_t limit,
                                                struct arena *a, struct catalog_page *page, struct error *e)
{
    for (bool row;;) {
        if (conn_step(&r->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        if (page->entries.n == limit) {
            page->more = true;
            return ERR_OK;
        }
        if (row_read(&r->conn, st, 1, &table_catalog, a, &page->entries.v[page->entries.n++], e))
            return e->code;
    }
}

enum err reader_sqlite_catalog_list(struct reader *base, const struct catalog_filter *f, struct arena *a,
                                    struct catalog_page *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, f->all_tenants ? RD_CATALOG_LIST_ALL : RD_CATALOG_LIST);
    struct catalog_page page = { .entries.v = arena_array(a, struct catalog_entry, f->limit) };
    if (!page.entries.v)
        return reader_no_room(e);
    sqlite3_bind_int(st, 1, (int)f->kind);
    sqlite3_bind_int(st, 2, !f->all_tenants ? f->tenant : f->after.n ? f->after_tenant : -1);
    (void)bind_str(st, 3, f->after);
    sqlite3_bind_int64(st, 4, (int64_t)f->limit + 1);
    enum err rc = reader_sqlite_read_catalog_page(r, st, f->limit, a, &page, e);
    sqlite3_reset(st);
    if (!rc)
        *ret = page;
    return rc;
}

/* Hits, and OP_FOLD: the records of incidents, messages, checks and pauses. */
#include "store/sqlite/reader/reader.h"

/* ---- hits ---- */

enum err sqlite_hits_write(struct store_sqlite *s, struct op *const *ops, size_t n, struct error *e)
{
    struct hits hits;
    for (size_t i = 0; i < n; i++) {
        if (!op_may_hit(ops[i], s->base.wants))
            continue;
        hits_of_op(ops[i], s->base.wants, &hits);
        for (size_t k = 0; k < hits.n; k++) {
            sqlite3_stmt *st = writer_stmt(s, ST_HIT_INSERT);
            row_bind(&s->conn, st, 1, &table_hits, &hits.v[k]);
            if (conn_run(&s->conn, st, e))
                return e->code;
        }
    }
    return ERR_OK;
}

enum err reader_sqlite_hits(struct reader *base, size_t max, struct arena *a, struct hit_list *ret, struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    sqlite3_stmt *st = conn_stmt(c, RD_HITS);
    struct hit_list all = { .v = arena_array(a, struct hit, max) };
    enum err rc = ERR_OK;
    if (!all.v)
        return reader_no_room(e);
    sqlite3_bind_int64(st, 1, (int64_t)max);
    for (bool row; !rc && all.n < max; all.n++) {
        rc = conn_step(c, st, &row, e);
        if (rc || !row)
            break;
        rc = row_read(c, st, 1, &table_hits, a, &all.v[all.n], e);
    }
    sqlite3_reset(st);
    if (!rc)
        *ret = all;
    return rc;
}

/* ---- checks and pauses ---- */

enum err sqlite_checks_write(struct store_sqlite *s, struct op *const *ops, size_t n, struct error *e)
{
    struct record row;
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; op_next_record(ops[i], &at, &row);) {
            sqlite3_stmt *st = writer_stmt(s, ST_CHECK_PUT);
            row_bind(&s->conn, st, 1, &table_records, &row);
            if (conn_run(&s->conn, st, e))
                return e->code;
        }
    return ERR_OK;
}

/* ---- OP_FOLD ---- */

static enum err sqlite_fold_delete_hits(struct store_sqlite *s, const struct op_fold *op, struct error *e)
{
    for (size_t i = 0; i < op->hit_count; i++) {
        sqlite3_stmt *st = writer_stmt(s, ST_HIT_DELETE);
        (void)bind_uuid(st, 1, &op->hits[i]);
        if (conn_run(&s->conn, st, e))
            return e->code;
        if (sqlite3_changes(s->conn.db) == 0)
            return fold_hit_gone(e);
    }
    return ERR_OK;
}

static enum err sqlite_fold_insert(struct store_sqlite *s, const struct record *given, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_RECORD_INSERT);
    struct record row = *given;
    row.version = 1;
    row_bind(&s->conn, st, 1, &table_records, &row);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_fold_change(struct store_sqlite *s, const struct record_change *c, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, c->remove ? ST_RECORD_DELETE : ST_RECORD_UPDATE);
    if (c->version == 0)
        return sqlite_fold_insert(s, &c->record, e);
    (void)bind_uuid(st, 1, &c->record.id);
    sqlite3_bind_int(st, 2, c->record.tenant);
    sqlite3_bind_int64(st, 3, c->version);
    if (c->remove)
        return conn_run(&s->conn, st, e);
    if (c->record.key.n)
        (void)bind_str(st, 4, c->record.key);
    else
        sqlite3_bind_null(st, 4);
    sqlite3_bind_int64(st, 5, c->record.next_ms);
    (void)bind_str(st, 6, c->record.doc);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_fold(struct store_sqlite *s, struct op *base)
{
    struct op_fold *op = (struct op_fold *)base;
    struct error *e = &base->error;
    int64_t record = 0;
    if (sqlite_idempotency_put(s, op->idempotency, &record, e) || fold_docs_fit(op, e) ||
        sqlite_fold_delete_hits(s, op, e))
        return e->code;
    for (size_t i = 0; i < op->n; i++) {
        if (sqlite_fold_change(s, &op->v[i], e))
            return e->code;
        if (sqlite3_changes(s->conn.db) == 0)
            return fold_record_changed(e);
    }
    return ERR_OK;
}

/* ---- reading records ---- */

static void reader_sqlite_bind_records(sqlite3_stmt *st, const struct record_filter *f)
{
    struct uuid lowest, below;
    record_range_of(f, &lowest, &below);
    sqlite3_bind_int(st, 1, (int)f->kind);
    sqlite3_bind_int(st, 2, f->tenant);
    sqlite3_bind_null(st, 3);
    sqlite3_bind_null(st, 4);
    if (!uuid_is_nil(f->setting))
        sqlite3_bind_blob(st, 3, f->setting.b, sizeof f->setting.b, SQLITE_STATIC);
    if (!uuid_is_nil(f->incident))
        sqlite3_bind_blob(st, 4, f->incident.b, sizeof f->incident.b, SQLITE_STATIC);
    (void)bind_str(st, 5, f->key);
    sqlite3_bind_blob(st, 6, below.b, sizeof below.b, SQLITE_TRANSIENT);
    sqlite3_bind_blob(st, 7, lowest.b, sizeof lowest.b, SQLITE_TRANSIENT);
    sqlite3_bind_int(st, 8, f->open);
    if (f->due_ms)
        sqlite3_bind_int64(st, 9, f->due_ms);
    sqlite3_bind_int64(st, 10, (int64_t)f->limit + 1);
}

enum err reader_sqlite_records(struct reader *base, const struct record_filter *f, struct arena *a,
                               struct record_page *ret, struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    sqlite3_stmt *st = conn_stmt(c, f->due_ms ? RD_RECORDS_DUE : RD_RECORDS);
    struct record_page page = { .v = arena_array(a, struct record, f->limit) };
    enum err rc = ERR_OK;
    if (!page.v)
        return reader_no_room(e);
    reader_sqlite_bind_records(st, f);
    for (bool row; !rc;) {
        rc = conn_step(c, st, &row, e);
        if (rc || !row)
            break;
        page.more = page.n == f->limit;
        if (page.more)
            break;
        rc = row_read(c, st, 1, &table_records, a, &page.v[page.n++], e);
    }
    sqlite3_reset(st);
    if (!rc)
        *ret = page;
    return rc;
}

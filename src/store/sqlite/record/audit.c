/* Audit rows. They are in the order of their ids, which begin with the time: that is also the order in which they are
 * read and purged. Triggers refuse to change them and to delete them, except while audit_purge has a row. */
#include "port/store/operation_table.h"
#include "store/sqlite/reader/reader.h"

enum err sqlite_audit_write(struct store_sqlite *s, struct op *const *ops, size_t n, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_AUDIT_INSERT);
    for (size_t i = 0; i < n; i++) {
        const struct audit *given = op_audit(ops[i]);
        if (!given)
            continue;
        struct audit row = *given;
        row.strand = s->strand;
        row.seq = ++s->audit_seq;
        row_bind(&s->conn, st, 1, &table_audit, &row);
        if (conn_run(&s->conn, st, e))
            return e->code;
    }
    return ERR_OK;
}

enum err sqlite_audit_purge(struct store_sqlite *s, int64_t before_ms, size_t max, size_t *count, struct error *e)
{
    struct uuid end = uuid_floor(before_ms);
    sqlite3_stmt *st = writer_stmt(s, ST_AUDIT_OLDEST);
    bool found;
    if (before_ms <= 0 || max == 0)
        return ERR_OK;
    (void)bind_uuid(st, 1, &end);
    if (conn_step(&s->conn, st, &found, e))
        return e->code;
    sqlite3_reset(st);
    if (!found)
        return ERR_OK;
    st = writer_stmt(s, ST_AUDIT_PURGE);
    (void)bind_uuid(st, 1, &end);
    sqlite3_bind_int64(st, 2, (int64_t)max);
    if (conn_run(&s->conn, writer_stmt(s, ST_AUDIT_PURGE_BEGIN), e) || conn_run(&s->conn, st, e))
        return e->code;
    *count += (size_t)sqlite3_changes(s->conn.db);
    return conn_run(&s->conn, writer_stmt(s, ST_AUDIT_PURGE_END), e);
}

static void reader_sqlite_bind_audit(sqlite3_stmt *st, const struct audit_filter *f, const struct audit_range *range)
{
    (void)bind_uuid(st, 1, &range->below);
    sqlite3_bind_blob(st, 2, range->lowest.b, sizeof range->lowest.b, SQLITE_STATIC);
    sqlite3_bind_int(st, 3, f->tenant);
    (void)bind_str(st, 4, f->actor);
    (void)bind_str(st, 5, f->object);
    (void)bind_str(st, 6, range->action);
    sqlite3_bind_int(st, 7, range->is_prefix);
    sqlite3_bind_int64(st, 8, (int64_t)f->limit + 1);
}

/* Where the reading of a page ends at the latest; found is false if there are not so many rows. */
static enum err reader_sqlite_audit_scanned(struct conn *c, struct audit_range *range, bool *ret_found, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(c, RD_AUDIT_SCANNED);
    (void)bind_uuid(st, 1, &range->below);
    sqlite3_bind_blob(st, 2, range->lowest.b, sizeof range->lowest.b, SQLITE_STATIC);
    sqlite3_bind_int(st, 3, AUDIT_SCAN_MAX - 1);
    if (conn_step(c, st, ret_found, e))
        return e->code;
    if (*ret_found)
        range->lowest = row_uuid(st, 0);
    sqlite3_reset(st);
    return ERR_OK;
}

enum err reader_sqlite_audit(struct reader *base, const struct audit_filter *f, struct arena *a, struct audit_page *ret,
                             struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    sqlite3_stmt *st = conn_stmt(c, RD_AUDIT);
    struct audit_range range = audit_range_of(f);
    struct audit_page page = { .v = arena_array(a, struct audit, f->limit) };
    enum err rc = ERR_OK;
    if (!page.v)
        return reader_no_room(e);
    if (reader_sqlite_audit_scanned(c, &range, &page.more, e))
        return e->code;
    page.next_before = range.lowest;
    reader_sqlite_bind_audit(st, f, &range);
    for (bool row; !rc;) {
        rc = conn_step(c, st, &row, e);
        if (rc || !row)
            break;
        if (page.n == f->limit) {
            page.more = true;
            page.next_before = page.v[page.n - 1].id;
            break;
        }
        rc = row_read(c, st, 1, &table_audit, a, &page.v[page.n++], e);
    }
    sqlite3_reset(st);
    if (!rc)
        *ret = page;
    return rc;
}

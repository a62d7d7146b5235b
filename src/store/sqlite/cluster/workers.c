/* OP_WORKER_REPORT, and queries over workers. There are few workers: no statement here needs an index. */
#include <stdlib.h>

#include "store/sqlite/reader/reader.h"

/* Whether the report changes which workers live, and what they can run. */
static enum err sqlite_worker_changes(struct store_sqlite *s, const struct worker_row *now, struct arena *a, bool *ret,
                                      struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_WORKER);
    struct worker_row before = { 0 };
    bool found;
    (void)bind_uuid(st, 1, &now->id);
    enum err rc = conn_step(&s->conn, st, &found, e);
    if (!rc && found)
        rc = row_read(&s->conn, st, 1, &table_workers, a, &before, e);
    sqlite3_reset(st);
    *ret = !rc && worker_report_changes(found ? &before : NULL, now);
    return rc;
}

static enum err sqlite_worker_put(struct store_sqlite *s, struct op_worker_report *op, const struct worker_row *row)
{
    struct error *e = &op->op.error;
    sqlite3_stmt *st = writer_stmt(s, ST_WORKER_PUT);
    struct arena_mark mark = arena_mark(&op->op.arena);
    bool changes;
    enum err rc = sqlite_worker_changes(s, row, &op->op.arena, &changes, e);
    arena_rewind(&op->op.arena, mark);
    if (rc)
        return rc;
    op->ret_changed = op->ret_changed || changes;
    row_bind(&s->conn, st, 1, &table_workers, row);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_worker_report(struct store_sqlite *s, struct op *base)
{
    struct op_worker_report *op = (struct op_worker_report *)base;
    struct worker_row *v = xcalloc(op->n + 1, sizeof *v);
    size_t n = worker_reports_merge(op, v);
    enum err rc = ERR_OK;
    op->ret_changed = false;
    for (size_t i = 0; !rc && i < n; i++)
        rc = sqlite_worker_put(s, op, &v[i]);
    free(v);
    return rc;
}

static enum err sqlite_read_groups(struct store_sqlite *s, int64_t now_ms, struct arena *a, struct worker_group **v,
                                   size_t *n, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_WORKER_GROUPS);
    enum err rc = ERR_OK;
    sqlite3_bind_int64(st, 1, WORKER_SILENT_MS);
    sqlite3_bind_int64(st, 2, now_ms - WORKER_GONE_MS);
    for (size_t cap = 0; !rc; (*n)++) {
        bool row;
        rc = conn_step(&s->conn, st, &row, e);
        if (rc || !row)
            break;
        if (*n == cap) {
            cap = cap * 2 + 16;
            *v = xrealloc(*v, cap * sizeof **v);
        }
        (*v)[*n] = (struct worker_group){ 0 };
        rc = row_read(&s->conn, st, 1, &table_worker_groups, a, &(*v)[*n], e);
    }
    sqlite3_reset(st);
    return rc;
}

enum err sqlite_worker_groups(struct store_sqlite *s, int64_t now_ms, struct arena *a, struct worker_groups *ret,
                              struct error *e)
{
    struct worker_group *v = NULL;
    size_t n = 0;
    enum err rc = sqlite_read_groups(s, now_ms, a, &v, &n, e);
    struct worker_group *copy = rc ? NULL : arena_array(a, struct worker_group, n);
    if (copy && n)
        memcpy(copy, v, n * sizeof *v);
    free(v);
    if (rc)
        return rc;
    if (!copy)
        return reader_no_room(e);
    *ret = (struct worker_groups){ copy, n };
    return ERR_OK;
}

static enum err reader_sqlite_read_workers(struct reader_sqlite *r, sqlite3_stmt *st, size_t max, struct arena *a,
                                           struct worker_rows *all, struct error *e)
{
    for (bool row; all->n < max; all->n++) {
        if (conn_step(&r->conn, st, &row, e))
            return e->code;
        if (!row)
            break;
        if (row_read(&r->conn, st, 1, &table_workers, a, &all->v[all->n], e))
            return e->code;
    }
    return ERR_OK;
}

enum err reader_sqlite_workers(struct reader *base, struct uuid before, size_t max, struct arena *a,
                               struct worker_rows *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_WORKERS);
    struct worker_rows all = { .v = arena_array(a, struct worker_row, max) };
    if (!all.v)
        return reader_no_room(e);
    if (uuid_is_nil(before))
        memset(before.b, 0xff, sizeof before.b);
    (void)bind_uuid(st, 1, &before);
    sqlite3_bind_int64(st, 2, (int64_t)max);
    enum err rc = reader_sqlite_read_workers(r, st, max, a, &all, e);
    sqlite3_reset(st);
    if (!rc)
        *ret = all;
    return rc;
}

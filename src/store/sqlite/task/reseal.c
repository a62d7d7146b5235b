/* OP_RESEAL, and the reads of what is encrypted with a key. */
#include "store/sqlite/reader/reader.h"

static enum err sqlite_reseal_definitions(struct store_sqlite *s, struct op_reseal *op, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_RESEAL_DEFINITION);
    for (size_t i = 0; i < op->definition_count; i++) {
        const struct definition *d = op->definitions[i].definition;
        sqlite3_bind_int(st, 1, d->tenant);
        sqlite3_bind_blob(st, 2, d->hash, sizeof d->hash, SQLITE_STATIC);
        (void)bind_str(st, 3, d->text);
        (void)bind_str(st, 4, op->definitions[i].becomes);
        if (conn_run(&s->conn, st, e))
            return e->code;
        op->ret_changed += (size_t)sqlite3_changes(s->conn.db);
    }
    return ERR_OK;
}

enum err sqlite_reseal(struct store_sqlite *s, struct op *base)
{
    struct op_reseal *op = (struct op_reseal *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_RESEAL);
    op->ret_changed = 0;
    for (size_t i = 0; i < op->n; i++) {
        (void)bind_uuid(st, 1, &op->v[i].id);
        (void)bind_str(st, 2, op->v[i].was);
        (void)bind_str(st, 3, op->v[i].becomes);
        if (conn_run(&s->conn, st, &base->error))
            return base->error.code;
        op->ret_changed += (size_t)sqlite3_changes(s->conn.db);
    }
    return sqlite_reseal_definitions(s, op, &base->error);
}

/* ---- what a key encrypts ---- */

enum err reader_sqlite_sealed(struct reader *base, struct str key_id, bool *ret, struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    sqlite3_stmt *st = conn_stmt(c, RD_SEALED);
    (void)bind_str(st, 1, key_id);
    enum err rc = conn_step(c, st, ret, e);
    sqlite3_reset(st);
    return rc;
}

static struct task reader_sqlite_sealed_task(sqlite3_stmt *st)
{
    enum { ID, TENANT, KIND, PARENT, STATE, CONFIG };
    return (struct task){
        .id = row_uuid(st, ID),
        .tenant = sqlite3_column_int(st, TENANT),
        .kind = (enum task_kind)sqlite3_column_int(st, KIND),
        .parent = row_uuid(st, PARENT),
        .state = (enum task_state)sqlite3_column_int(st, STATE),
        .target_config = row_text(st, CONFIG),
    };
}

enum err reader_sqlite_sealed_page(struct reader *base, struct str key_id, struct uuid after, size_t max,
                                   struct arena *a, struct sealed_page *ret, struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    sqlite3_stmt *st = conn_stmt(c, RD_SEALED_PAGE);
    struct sealed_page page = { .tasks.v = arena_array(a, struct task, max) };
    if (!page.tasks.v)
        return reader_no_room(e);
    (void)bind_str(st, 1, key_id);
    sqlite3_bind_blob(st, 2, after.b, sizeof after.b, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, (int64_t)max);
    enum err rc = ERR_OK;
    bool row = true;
    for (size_t i = 0; !rc && row && i < max; i++) {
        rc = conn_step(c, st, &row, e);
        if (rc || !row)
            break;
        struct task t = reader_sqlite_sealed_task(st);
        rc = sealed_page_add(&page, &t, i, max, a, &row, e);
    }
    sqlite3_reset(st);
    if (!rc)
        *ret = page;
    return rc;
}

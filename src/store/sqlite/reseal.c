/* OP_RESEAL, and the search for the tasks that need it. */
#include "store/common/reading.h"
#include "store/sqlite/internal.h"

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
    return ERR_OK;
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
    sqlite3_stmt *st = c->stmts[RD_SEALED_PAGE];
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

enum err reader_sqlite_key_prints(struct reader *base, struct key_prints *ret, struct error *e)
{
    return sqlite_key_prints(&reader_sqlite_of(base)->conn, ret, e);
}

/* OP_INSERT. */
#include <assert.h>

#include "store/sqlite/internal.h"

/* A repeated insert of the same task is fine; another task with this id is not. */
static enum err sqlite_insert_check_same(struct store_sqlite *s, const struct task *t, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_CREATED);
    bool row;
    (void)bind_uuid(st, 1, &t->id);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    assert(row); /* its id was in conflict a moment ago */
    int64_t created_ms = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    if (created_ms == t->created_ms)
        return ERR_OK;
    char text[UUID_TEXT + 1];
    uuid_format(t->id, text);
    (void)error_set(e, ERR_CONFLICT, "there is another task %s already", text);
    return error_in(e, "id");
}

/* Takes the dedupe key of a task that was just inserted, unless another task holds it. */
static enum err sqlite_insert_take_dedupe_key(struct store_sqlite *s, const struct task *t, struct uuid takes_over,
                                              struct error *e)
{
    if (t->dedupe_key.n == 0 || t->kind == TASK_OCCURRENCE)
        return ERR_OK;
    assert(t->dedupe_key.n <= DEDUPE_KEY_MAX && t->dedupe_window_ms >= 0);
    sqlite3_stmt *st = writer_stmt(s, ST_DEDUPE_TAKE);
    sqlite3_bind_int(st, 1, t->tenant);
    (void)bind_str(st, 2, t->dedupe_key);
    (void)bind_uuid(st, 3, &t->id);
    sqlite3_bind_int64(st, 4, t->created_ms + t->dedupe_window_ms);
    sqlite3_bind_int64(st, 5, t->created_ms);
    (void)bind_uuid(st, 6, &takes_over);
    if (conn_run(&s->conn, st, e))
        return e->code;
    if (sqlite3_changes(s->conn.db) > 0)
        return ERR_OK;
    (void)error_set(e, ERR_CONFLICT, "another task holds this key");
    return error_in(e, "dedupe_key");
}

enum err sqlite_insert_or_same(struct store_sqlite *s, const struct task *t, struct uuid takes_over, bool *ret_new,
                               struct error *e)
{
    if (sqlite_insert_task(s, t, ret_new, e))
        return e->code;
    if (!*ret_new)
        return sqlite_insert_check_same(s, t, e);
    return sqlite_calendar_check(s, t, e) ? e->code : sqlite_insert_take_dedupe_key(s, t, takes_over, e);
}

static enum err sqlite_insert_exists(struct store_sqlite *s, const struct uuid *id, bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_CREATED);
    (void)bind_uuid(st, 1, id);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

/* A task that depends on others. If it exists already, its parents are not looked at. */
static enum err sqlite_insert_child(struct store_sqlite *s, const struct task *t, const struct depends_on *d,
                                    struct uuid takes_over, bool *ret_new, struct error *e)
{
    cleanup_with(join_plan_release) struct join_plan p = { 0 };
    bool exists;
    if (sqlite_insert_exists(s, &t->id, &exists, e))
        return e->code;
    if (exists)
        return sqlite_insert_check_same(s, t, e);
    if (join_plan_make(&s->joins, t, d, &p, e) || sqlite_insert_or_same(s, &p.task, takes_over, ret_new, e))
        return e->code;
    change_add(&s->base, t->id, CHANGE_NEW, p.task.state);
    return join_plan_write(&s->joins, &p, e);
}

static enum err sqlite_insert_one(struct store_sqlite *s, const struct op_insert *op, size_t i, bool *ret_new,
                                  struct error *e)
{
    const struct depends_on *d = op->depends ? &op->depends[i] : NULL;
    struct uuid takes_over = op->takes_over ? op->takes_over[i] : (struct uuid){ 0 };
    return d && d->n ? sqlite_insert_child(s, &op->tasks[i], d, takes_over, ret_new, e)
                     : sqlite_insert_or_same(s, &op->tasks[i], takes_over, ret_new, e);
}

/* An insert that can fail only before it has written anything. */
bool sqlite_insert_alone(const struct op *base)
{
    const struct op_insert *op = (const struct op_insert *)base;
    bool is_limited = op->max_pending || op->max_recurring || op->depends;
    return op->count == 0 ||
           (op->count == 1 && op->tasks[0].dedupe_key.n == 0 && !is_limited && !task_needs_calendar(&op->tasks[0]));
}

static bool sqlite_insert_recurs(const struct task *t)
{
    return t->kind == TASK_RECURRING && !t->deleted && !task_is_final(t->state);
}

enum err sqlite_insert(struct store_sqlite *s, struct op *base)
{
    struct op_insert *op = (struct op_insert *)base;
    int64_t record = 0;
    bool has_new_recurring = false;
    enum err rc = sqlite_idempotency_put(s, op->idempotency, &record, &base->error);
    for (size_t i = 0; !rc && i < op->count; i++) {
        bool is_new = false;
        rc = sqlite_insert_one(s, op, i, &is_new, &base->error);
        has_new_recurring = has_new_recurring || (is_new && sqlite_insert_recurs(&op->tasks[i]));
    }
    if (!rc)
        rc = sqlite_limits_check(s, op, has_new_recurring, &base->error);
    if (!rc && op->definition)
        rc = sqlite_definition_put(s, op->definition, op->count ? op->tasks[0].created_ms : 0, &base->error);
    struct error ignored;
    if (rc && !s->conn.failed && record && sqlite_idempotency_delete(s, record, &ignored))
        return ignored.code;
    return rc;
}

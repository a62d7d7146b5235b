/* OP_PUT. */
#include "store/common/edits.h"
#include "store/sqlite/internal.h"

/* Releases the slots of the current row of st, and adds the key that it waits for. */
static enum err sqlite_put_release_slots(struct store_sqlite *s, sqlite3_stmt *st, struct slot_keys *keys,
                                         struct error *e)
{
    struct uuid id = row_uuid(st, 6);
    if (sqlite3_column_bytes(st, 8) > 0)
        slot_keys_add(keys, (struct str){ sqlite3_column_blob(st, 8), (size_t)sqlite3_column_bytes(st, 8) });
    return sqlite3_column_int(st, 7) ? slots_release(&s->slots, &id, NULL, keys, e) : ERR_OK;
}

/* Updates counts, slots and the cursor for the current row of st. Its rid goes to s->rids, below 0 if the occurrence is
 * to be cancelled and not deleted. */
static enum err sqlite_put_withdraw_one(struct store_sqlite *s, struct op_put *op, sqlite3_stmt *st, int64_t *ret_runs,
                                        struct slot_keys *keys, struct error *e)
{
    struct task t = { .id = row_uuid(st, 6),
                      .tenant = sqlite3_column_int(st, 1),
                      .state = (enum task_state)sqlite3_column_int(st, 2),
                      .deleted = sqlite3_column_int(st, 3) != 0,
                      .scheduled_ms = sqlite3_column_int64(st, 4),
                      .runs_count = sqlite3_column_int64(st, 5),
                      .due_ms = sqlite3_column_int64(st, 9),
                      .attempts = sqlite3_column_int(st, 10),
                      .losses = sqlite3_column_int(st, 11),
                      .started_ms = sqlite3_column_int64(st, 12) };
    int64_t rid = sqlite3_column_int64(st, 0);
    size_t n = op->ret_withdrawn;
    scratch_grow(s, n);
    bool cancels = put_withdraw(op, &t, ret_runs);
    s->rids[n] = cancels ? -rid : rid;
    if (cancels)
        change_add(&s->base, t.id, (int)t.state, TASK_CANCELLED);
    if (!t.deleted)
        tally_add(&s->of_op, t.tenant, t.state, -1);
    if (!t.deleted && cancels)
        tally_add(&s->of_op, t.tenant, TASK_CANCELLED, 1);
    return sqlite_put_release_slots(s, st, keys, e);
}

static enum err sqlite_put_find_withdrawn(struct store_sqlite *s, struct op_put *op, int64_t *ret_runs,
                                          struct slot_keys *keys, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SPAWNED);
    (void)bind_uuid(st, 1, &op->task->id);
    sqlite3_bind_int(st, 2, put_keeps_requested(op));
    sqlite3_bind_int(st, 3, put_ends_fired(op));
    for (bool row;;) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        if (sqlite_put_withdraw_one(s, op, st, ret_runs, keys, e)) {
            sqlite3_reset(st);
            return e->code;
        }
    }
}

static enum err sqlite_put_cancel(struct store_sqlite *s, const struct task *recurring, int64_t rid, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SPAWNED_CANCEL);
    sqlite3_bind_int64(st, 1, rid);
    sqlite3_bind_int64(st, 2, recurring->updated_ms);
    (void)bind_str(st, 3, put_cancel_reason(recurring));
    sqlite_ended_note(s, rid, TASK_CANCELLED, recurring->updated_ms);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_put_withdraw(struct store_sqlite *s, struct op_put *op, int64_t *ret_runs,
                                    struct slot_keys *keys, struct error *e)
{
    if (!put_withdraws(op))
        return ERR_OK;
    if (sqlite_put_find_withdrawn(s, op, ret_runs, keys, e))
        return e->code;
    for (size_t i = 0; i < op->ret_withdrawn; i++) {
        int64_t rid = s->rids[i];
        if (rid < 0 ? sqlite_put_cancel(s, op->task, -rid, e) : sqlite_delete_task(s, rid, e))
            return e->code;
    }
    return ERR_OK;
}

static enum err sqlite_put_cut_one(struct store_sqlite *s, struct op_put *op, const struct spawn_cut *c,
                                   struct error *e)
{
    bool row;
    if (!put_cut_applies(op, c))
        return ERR_OK;
    sqlite3_stmt *st = writer_stmt(s, ST_CUT_FIND);
    (void)bind_uuid(st, 1, &c->id);
    (void)bind_uuid(st, 2, &op->task->id);
    sqlite3_bind_int64(st, 3, c->count_was);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    if (!row)
        return ERR_OK;
    int64_t rid = sqlite3_column_int64(st, 0);
    bool deleted = sqlite3_column_int(st, 1) != 0;
    sqlite3_reset(st);
    if (put_cut_deletes(op, c)) {
        if (!deleted)
            tally_add(&s->of_op, op->task->tenant, TASK_SKIPPED, -1);
        return sqlite_delete_task(s, rid, e);
    }
    st = writer_stmt(s, ST_CUT);
    sqlite3_bind_int64(st, 1, rid);
    sqlite3_bind_int64(st, 2, c->last_ms);
    sqlite3_bind_int64(st, 3, c->count);
    (void)bind_str(st, 4, c->error);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_put_cut(struct store_sqlite *s, struct op_put *op, struct error *e)
{
    for (size_t i = 0; i < op->cut_count; i++)
        if (sqlite_put_cut_one(s, op, &op->cuts[i], e))
            return e->code;
    return ERR_OK;
}

static struct put_guard sqlite_put_guard(const struct guards *g)
{
    return (struct put_guard){ .found = g->found,
                               .deleted = g->deleted,
                               .tenant = g->tenant,
                               .kind = g->kind,
                               .state = g->state,
                               .version = g->version,
                               .fence = g->fence,
                               .cursor_ms = g->cursor_ms,
                               .last_run_ms = g->last_run_ms,
                               .runs_count = g->runs_count,
                               .skipped_count = g->skipped_count,
                               .links = g->links };
}

static enum err sqlite_put_insert_also(struct store_sqlite *s, const struct op_put *op, struct error *e)
{
    struct op_insert also = { .tasks = op->also, .count = 1, .max_pending = op->max_pending };
    bool is_new;
    if (!op->also)
        return ERR_OK;
    enum err rc = sqlite_insert_or_same(s, op->also, (struct uuid){ 0 }, &is_new, e);
    return rc ? rc : sqlite_limits_check(s, &also, false, e);
}

/* The task is as it will be: its children are told if it is final. */
static enum err sqlite_put_arrive(struct store_sqlite *s, struct op_put *op, const struct task *next, struct error *e)
{
    struct join_fold f;
    join_fold_init(&f, &s->joins, next->updated_ms, 0);
    join_fold_add(&f, &next->id, next->state, next->links);
    enum err rc = join_fold_run(&f, e);
    op->ret_unblocked_lanes |= f.unblocked;
    op->ret_arrivals_left = f.left;
    join_fold_release(&f);
    return rc;
}

enum err sqlite_put(struct store_sqlite *s, struct op *base)
{
    struct op_put *op = (struct op_put *)base;
    struct error *e = &base->error;
    struct guards old;
    int64_t record = 0, runs = 0;
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    put_begin(op);
    if (sqlite_idempotency_put(s, op->idempotency, &record, e) || sqlite_read_guards(s, &op->task->id, &old, e))
        return e->code;
    struct put_guard g = sqlite_put_guard(&old);
    if (put_check(op, &g, e) || joins_check_put(&s->joins, op->task, g.state, g.links, e) ||
        sqlite_calendar_check(s, op->task, e) || sqlite_put_withdraw(s, op, &runs, &keys, e) ||
        sqlite_put_cut(s, op, e))
        return e->code;
    struct task next = put_next(op, &g, runs);
    char why[DEPENDENCY_REASON_MAX];
    if (op->depends && joins_change(&s->joins, op->depends, &next, why, e))
        return e->code;
    if (sqlite_change_task(s, &old, &next, &keys, &op->ret_state, e) || sqlite_put_insert_also(s, op, e))
        return e->code;
    if ((put_resumes_run(g.state, &next) && sqlite_run_resume(s, &next.id, e)) || sqlite_run_forget(s, op->task, e))
        return e->code;
    if (slots_hand_over(&s->slots, &keys, &op->ret_unblocked_lanes, e))
        return e->code;
    return sqlite_put_arrive(s, op, &next, e);
}

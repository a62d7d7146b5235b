/* Operations that insert and change tasks: insert, spawn, put, reseal; and the small ones for API keys and leases of
 * names. */
#include <assert.h>

#include "store/common/edits.h"
#include "store/sqlite/internal.h"

/* ---- one task row ---- */

enum err sqlite_lane_number(struct store_sqlite *s, struct lane lane, int pool, int64_t *ret, struct error *e)
{
    const struct lane_row *row = lanes_find(&s->conn, lane, pool);
    if (row) {
        *ret = row->number;
        return ERR_OK;
    }
    sqlite3_stmt *st = writer_stmt(s, ST_LANE_INSERT);
    sqlite3_bind_int64(st, 1, (int64_t)s->conn.lanes.top + 1);
    sqlite3_bind_int(st, 2, lane.tenant);
    (void)bind_str(st, 3, lane.queue);
    sqlite3_bind_int(st, 4, lane.priority);
    (void)bind_str(st, 5, lane.requires);
    sqlite3_bind_int64(st, 6, lane.cpu_milli);
    sqlite3_bind_int64(st, 7, lane.memory_mb);
    (void)bind_str(st, 8, lane.host);
    sqlite3_bind_int(st, 9, pool);
    s->made_lanes = true;
    if (conn_run(&s->conn, st, e) || lanes_load(&s->conn, e))
        return e->code;
    *ret = (int64_t)s->conn.lanes.top;
    return ERR_OK;
}

/* Binds the whole row; rid 0: a new row. */
static enum err sqlite_bind_task(struct store_sqlite *s, sqlite3_stmt *st, int64_t rid, const struct task *t,
                                 struct error *e)
{
    int64_t lane;
    if (sqlite_lane_number(s, task_lane(t), task_pool(t), &lane, e))
        return e->code;
    if (rid)
        sqlite3_bind_int64(st, 1, rid);
    else
        sqlite3_bind_null(st, 1);
    row_bind(&s->conn, st, 2, &table_tasks, t);
    sqlite3_bind_int64(st, 1 + AT_lane, lane);
    return ERR_OK;
}

static enum err sqlite_bind_new_task(struct store_sqlite *s, const struct task *t, sqlite3_stmt **ret, struct error *e)
{
    int64_t lane;
    bool is_fresh = row_is_fresh(&s->conn, t);
    *ret = writer_stmt(s, is_fresh ? ST_TASK_INSERT_FRESH : ST_TASK_INSERT);
    if (!is_fresh)
        return sqlite_bind_task(s, *ret, 0, t, e);
    if (sqlite_lane_number(s, task_lane(t), task_pool(t), &lane, e))
        return e->code;
    row_bind_fresh(&s->conn, *ret, t, lane);
    return ERR_OK;
}

enum err sqlite_insert_task(struct store_sqlite *s, const struct task *t, bool *ret_new, struct error *e)
{
    sqlite3_stmt *st;
    if (sqlite_bind_new_task(s, t, &st, e) || conn_run(&s->conn, st, e))
        return e->code;
    *ret_new = sqlite3_changes(s->conn.db) > 0;
    if (!*ret_new)
        return ERR_OK;
    if (!t->deleted)
        tally_add(&s->of_op, t->tenant, t->state, 1);
    int64_t rid = sqlite3_last_insert_rowid(s->conn.db);
    sqlite_ended_note(s, rid, t->state, t->completed_ms);
    return t->state == TASK_RUNNING ? sqlite_claim_join(s, t->claim, rid, e) : ERR_OK;
}

enum err sqlite_read_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_GUARDS);
    (void)bind_uuid(st, 1, id);
    struct guards g = { 0 };
    if (conn_step(&s->conn, st, &g.found, e))
        return e->code;
    if (g.found) {
        g.rid = sqlite3_column_int64(st, 0);
        g.tenant = sqlite3_column_int(st, 1);
        g.state = (enum task_state)sqlite3_column_int(st, 2);
        g.fence = sqlite3_column_int64(st, 3);
        g.deleted = sqlite3_column_int(st, 4) != 0;
        g.claim = row_uuid(st, 5);
        g.version = sqlite3_column_int64(st, 6);
        g.kind = (enum task_kind)sqlite3_column_int(st, 7);
        g.cursor_ms = sqlite3_column_int64(st, 8);
        g.last_run_ms = sqlite3_column_int64(st, 9);
        g.losses = sqlite3_column_int(st, 10);
        g.lane = sqlite3_column_int64(st, 11);
        g.gated = sqlite3_column_int(st, 12) != 0;
        g.waits = sqlite3_column_int(st, 13) != 0;
        g.links = sqlite3_column_int(st, 14);
        g.created_ms = sqlite3_column_int64(st, 15);
        g.runs_count = sqlite3_column_int64(st, 16);
        g.skipped_count = sqlite3_column_int64(st, 17);
        sqlite3_reset(st);
    }
    *ret = g;
    return ERR_OK;
}

enum err sqlite_read_settle_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SETTLE_GUARDS);
    (void)bind_uuid(st, 1, id);
    *ret = (struct guards){ 0 };
    if (conn_step(&s->conn, st, &ret->found, e))
        return e->code;
    if (!ret->found)
        return ERR_OK;
    ret->rid = sqlite3_column_int64(st, 0);
    ret->tenant = sqlite3_column_int(st, 1);
    ret->state = (enum task_state)sqlite3_column_int(st, 2);
    ret->fence = sqlite3_column_int64(st, 3);
    ret->deleted = sqlite3_column_int(st, 4) != 0;
    ret->claim = row_uuid(st, 5);
    ret->losses = sqlite3_column_int(st, 6);
    ret->lane = sqlite3_column_int64(st, 7);
    ret->gated = sqlite3_column_int(st, 8) != 0;
    ret->links = sqlite3_column_int(st, 9);
    ret->run = row_uuid(st, 10);
    ret->place = sqlite3_column_int64(st, 11);
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_replace_task(struct store_sqlite *s, const struct guards *old, const struct task *t, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_REPLACE);
    if (sqlite_bind_task(s, st, old->rid, t, e) || conn_run(&s->conn, st, e))
        return e->code;
    if (!old->deleted)
        tally_add(&s->of_op, old->tenant, old->state, -1);
    if (!t->deleted)
        tally_add(&s->of_op, t->tenant, t->state, 1);
    sqlite_ended_note(s, old->rid, t->state, t->completed_ms);
    bool held = old->state == TASK_RUNNING, holds = t->state == TASK_RUNNING;
    if (held && holds && uuid_eq(old->claim, t->claim))
        return ERR_OK;
    if (holds && sqlite_claim_join(s, t->claim, old->rid, e))
        return e->code;
    if (!held || uuid_is_nil(old->claim)) /* no claim, or a settlement notes it by itself */
        return ERR_OK;
    return sqlite_claim_leave(s, old->claim, 1, e) ? e->code : sqlite_task_lease_leave(s, old, &t->id, e);
}

enum err sqlite_delete_task(struct store_sqlite *s, int64_t rid, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_DELETE);
    sqlite3_bind_int64(st, 1, rid);
    return conn_run(&s->conn, st, e);
}

/* ---- idempotency ---- */

enum err sqlite_idempotency_put(struct store_sqlite *s, const struct idempotency *i, int64_t *ret_rowid,
                                struct error *e)
{
    if (!i)
        return ERR_OK;
    sqlite3_stmt *st = writer_stmt(s, ST_IDEMPOTENCY_INSERT);
    row_bind(&s->conn, st, 2, &table_idempotency, i);
    if (conn_run(&s->conn, st, e))
        return e->code;
    if (sqlite3_changes(s->conn.db) > 0) {
        *ret_rowid = sqlite3_last_insert_rowid(s->conn.db);
        return ERR_OK;
    }
    (void)error_set(e, ERR_CONFLICT, "this key has been used before");
    return error_in(e, "idempotency-key");
}

enum err sqlite_idempotency_delete(struct store_sqlite *s, int64_t rowid, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_IDEMPOTENCY_DELETE);
    sqlite3_bind_int64(st, 1, rowid);
    return conn_run(&s->conn, st, e);
}

/* ---- insert ---- */

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

static enum err sqlite_insert_or_same(struct store_sqlite *s, const struct task *t, struct uuid takes_over,
                                      bool *ret_new, struct error *e)
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

/* ---- spawn ---- */

static enum err sqlite_spawn_move_cursor(struct store_sqlite *s, int64_t rid, const struct spawn_plan *plan,
                                         int64_t skipped, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SPAWN_MOVE);
    sqlite3_bind_int64(st, 1, rid);
    sqlite3_bind_int64(st, 2, plan->cursor_ms);
    sqlite3_bind_int64(st, 3, plan->runs);
    sqlite3_bind_int64(st, 4, skipped);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_spawn_complete(struct store_sqlite *s, const struct uuid *id, const struct guards *g,
                                      int64_t now_ms, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SPAWN_END);
    sqlite3_bind_int64(st, 1, g->rid);
    sqlite3_bind_int64(st, 2, now_ms);
    sqlite_ended_note(s, g->rid, TASK_COMPLETED, now_ms);
    change_add(&s->base, *id, TASK_SCHEDULED, TASK_COMPLETED);
    if (!g->deleted) {
        tally_add(&s->of_op, g->tenant, TASK_SCHEDULED, -1);
        tally_add(&s->of_op, g->tenant, TASK_COMPLETED, 1);
    }
    return conn_run(&s->conn, st, e);
}

enum err sqlite_spawn(struct store_sqlite *s, struct op *base)
{
    struct op_spawn *op = (struct op_spawn *)base;
    struct error *e = &base->error;
    struct guards g;
    if (sqlite_read_guards(s, &op->id, &g, e))
        return e->code;
    if (!g.found || g.kind != TASK_RECURRING || g.state != TASK_SCHEDULED || g.version != op->version ||
        g.cursor_ms != op->cursor_ms)
        return error_set(e, ERR_CONFLICT, "the recurring task has changed since");
    int64_t skipped = op->plan->skipped;
    for (size_t i = 0; i < op->plan->occurrences.n; i++) {
        const struct task *o = &op->plan->occurrences.v[i];
        bool is_new;
        if (sqlite_insert_task(s, o, &is_new, e))
            return e->code;
        skipped -= is_new ? 0 : o->skipped_count;
    }
    if (sqlite_spawn_move_cursor(s, g.rid, op->plan, skipped, e))
        return e->code;
    return op->plan->ended ? sqlite_spawn_complete(s, &op->id, &g, op->now_ms, e) : ERR_OK;
}

/* ---- put ---- */

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

/* ---- API keys and leases of names ---- */

static enum err sqlite_key_purge(struct store_sqlite *s, const struct api_key *key, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_KEY_PURGE);
    if (!key->parent.n)
        return ERR_OK;
    sqlite3_bind_int64(st, 1, key->created_ms - KEY_ENDED_KEPT_MS);
    sqlite3_bind_int(st, 2, KEY_ENDED_MAX);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_key_put(struct store_sqlite *s, struct op *base)
{
    const struct op_key_put *op = (const struct op_key_put *)base;
    sqlite3_stmt *st = writer_stmt(s, op->remove ? ST_KEY_REMOVE : ST_KEY_PUT);
    int64_t record = 0;
    if (sqlite_idempotency_put(s, op->idempotency, &record, &base->error))
        return base->error.code;
    if (!op->remove) {
        row_bind(&s->conn, st, 2, &table_api_keys, op->key);
        enum err rc = conn_run(&s->conn, st, &base->error);
        return rc ? rc : sqlite_key_purge(s, op->key, &base->error);
    }
    (void)bind_str(st, 1, op->key->id);
    sqlite3_bind_int(st, 2, op->key->tenant);
    sqlite3_bind_int64(st, 3, op->now_ms);
    if (conn_run(&s->conn, st, &base->error))
        return base->error.code;
    return sqlite3_changes(s->conn.db) > 0 ? ERR_OK : error_set(&base->error, ERR_NOT_FOUND, "there is no such key");
}

enum err sqlite_lease(struct store_sqlite *s, struct op *base)
{
    struct op_lease *op = (struct op_lease *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_LEASE);
    (void)bind_str(st, 1, op->name);
    sqlite3_bind_blob(st, 2, op->holder.b, sizeof op->holder.b, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, op->now_ms + op->ttl_ms);
    sqlite3_bind_int64(st, 4, op->now_ms);
    if (conn_run(&s->conn, st, &base->error))
        return base->error.code;
    op->ret_held = sqlite3_changes(s->conn.db) > 0;
    return ERR_OK;
}

/* ---- reseal ---- */

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

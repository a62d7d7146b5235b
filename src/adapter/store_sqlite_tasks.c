/* Operations that put tasks in and change them: insert, spawn, put. */
#include <assert.h>

#include "adapter/store_sqlite_impl.h"

/* ---- one row ---- */

/* The lane of a task, made when it is the first there. */
static enum err lane_number(struct store_sqlite *s, const struct task *t, int64_t *ret, struct error *e)
{
    struct lane lane = task_lane(t);
    int pool = task_pool(t);
    const struct lane_row *row = lanes_find(&s->conn, lane, pool);
    if (row) {
        *ret = row->number;
        return ERR_OK;
    }
    sqlite3_stmt *st = writer_stmt(s, ST_LANE_INSERT);
    sqlite3_bind_int64(st, 1, (int64_t)s->conn.lanes.count + 1);
    sqlite3_bind_int(st, 2, lane.tenant);
    (void)bind_str(st, 3, lane.queue);
    sqlite3_bind_int(st, 4, (int)lane.class_);
    sqlite3_bind_int(st, 5, pool);
    s->made_lanes = true;
    if (conn_run(&s->conn, st, e) || lanes_load(&s->conn, e))
        return e->code;
    *ret = (int64_t)s->conn.lanes.count;
    return ERR_OK;
}

/* Binds the whole row; rid 0: a new one. */
static enum err bind_task(struct store_sqlite *s, sqlite3_stmt *st, int64_t rid, const struct task *t, struct error *e)
{
    int64_t lane;
    if (lane_number(s, t, &lane, e))
        return e->code;
    if (rid)
        sqlite3_bind_int64(st, 1, rid);
    else
        sqlite3_bind_null(st, 1);
    row_bind(&s->conn, st, 2, &table_tasks, t);
    sqlite3_bind_int64(st, 1 + AT_lane, lane);
    return ERR_OK;
}

enum err insert_task(struct store_sqlite *s, const struct task *t, bool *ret_new, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_INSERT);
    if (bind_task(s, st, 0, t, e) || conn_run(&s->conn, st, e))
        return e->code;
    *ret_new = sqlite3_changes(s->conn.db) > 0;
    if (!*ret_new)
        return ERR_OK;
    if (!t->deleted)
        tally_add(&s->of_op, t->tenant, t->state, 1);
    if (t->state == TASK_RUNNING)
        return claim_join(s, t->claim, sqlite3_last_insert_rowid(s->conn.db), e);
    return ERR_OK;
}

enum err read_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret, struct error *e)
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
        sqlite3_reset(st);
    }
    *ret = g;
    return ERR_OK;
}

enum err replace_task(struct store_sqlite *s, const struct guards *old, const struct task *t, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_REPLACE);
    if (bind_task(s, st, old->rid, t, e) || conn_run(&s->conn, st, e))
        return e->code;
    if (!old->deleted)
        tally_add(&s->of_op, old->tenant, old->state, -1);
    if (!t->deleted)
        tally_add(&s->of_op, t->tenant, t->state, 1);
    bool held = old->state == TASK_RUNNING, holds = t->state == TASK_RUNNING;
    if (held && holds && uuid_eq(old->claim, t->claim))
        return ERR_OK;
    if (holds && claim_join(s, t->claim, old->rid, e))
        return e->code;
    return held ? claim_leave(s, old->claim, 1, e) : ERR_OK;
}

static enum err delete_task(struct store_sqlite *s, int64_t rid, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_DELETE);
    sqlite3_bind_int64(st, 1, rid);
    return conn_run(&s->conn, st, e);
}

/* ---- idempotency ---- */

/* *ret_rowid is where the record stands: an operation without a savepoint takes it back by that. */
static enum err idempotency_put(struct store_sqlite *s, const struct idempotency *i, int64_t *ret_rowid,
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

static enum err idempotency_take_back(struct store_sqlite *s, int64_t rowid, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_IDEMPOTENCY_DELETE);
    sqlite3_bind_int64(st, 1, rowid);
    return conn_run(&s->conn, st, e);
}

/* ---- insert ---- */

/* The same task once more is fine, another of its id is not. */
static enum err check_same(struct store_sqlite *s, const struct task *t, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_CREATED);
    bool row;
    (void)bind_uuid(st, 1, &t->id);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    assert(row); /* it was in the way a moment ago */
    int64_t created_ms = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    if (created_ms == t->created_ms)
        return ERR_OK;
    char text[UUID_TEXT + 1];
    uuid_format(t->id, text);
    (void)error_set(e, ERR_CONFLICT, "there is another task %s already", text);
    return error_in(e, "id");
}

static enum err insert_or_same(struct store_sqlite *s, const struct task *t, struct error *e)
{
    bool is_new;
    if (insert_task(s, t, &is_new, e))
        return e->code;
    return is_new ? ERR_OK : check_same(s, t, e);
}

bool sqlite_insert_alone(const struct op *op)
{
    return ((const struct op_insert *)op)->count <= 1;
}

enum err sqlite_insert(struct store_sqlite *s, struct op *base)
{
    struct op_insert *op = (struct op_insert *)base;
    int64_t record = 0;
    enum err rc = idempotency_put(s, op->idempotency, &record, &base->error);
    for (size_t i = 0; !rc && i < op->count; i++)
        rc = insert_or_same(s, &op->tasks[i], &base->error);
    struct error ignored;
    if (rc && !s->conn.failed && record && idempotency_take_back(s, record, &ignored))
        return ignored.code;
    return rc;
}

/* ---- spawn ---- */

static enum err move_cursor(struct store_sqlite *s, int64_t rid, const struct spawn_plan *plan, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SPAWN_MOVE);
    sqlite3_bind_int64(st, 1, rid);
    sqlite3_bind_int64(st, 2, plan->cursor_ms);
    sqlite3_bind_int64(st, 3, plan->runs);
    sqlite3_bind_int64(st, 4, plan->skipped);
    return conn_run(&s->conn, st, e);
}

static enum err end_recurring(struct store_sqlite *s, const struct guards *g, int64_t now_ms, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SPAWN_END);
    sqlite3_bind_int64(st, 1, g->rid);
    sqlite3_bind_int64(st, 2, now_ms);
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
    if (read_guards(s, &op->id, &g, e))
        return e->code;
    if (!g.found || g.kind != TASK_RECURRING || g.state != TASK_SCHEDULED || g.version != op->version ||
        g.cursor_ms != op->cursor_ms)
        return error_set(e, ERR_CONFLICT, "the recurring task has changed since");
    if (move_cursor(s, g.rid, op->plan, e) || (op->plan->ended && end_recurring(s, &g, op->now_ms, e)))
        return e->code;
    for (size_t i = 0; i < op->plan->occurrences.n; i++) {
        bool is_new;
        if (insert_task(s, &op->plan->occurrences.v[i], &is_new, e))
            return e->code;
    }
    return ERR_OK;
}

/* ---- put ---- */

static enum err check_put(const struct op_put *op, const struct guards *g, struct error *e)
{
    if (!g->found || g->deleted || g->tenant != op->task->tenant)
        return error_set(e, ERR_NOT_FOUND, "there is no such task");
    bool moved = g->kind == TASK_RECURRING && g->cursor_ms != op->cursor_ms;
    if (g->version == op->version && g->fence == op->fence && g->state == op->state && !moved)
        return ERR_OK;
    (void)error_set(e, ERR_CONFLICT, "the task has changed since");
    return error_in(e, g->version != op->version ? "version" : "state");
}

/* The rids of what is withdrawn go to s->rids; counts and the cursor follow at once. */
static enum err find_withdrawn(struct store_sqlite *s, struct op_put *op, size_t *ret, int64_t *ret_runs,
                               struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SPAWNED);
    (void)bind_uuid(st, 1, &op->task->id);
    for (bool row;;) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        scratch_grow(s, *ret);
        s->rids[(*ret)++] = sqlite3_column_int64(st, 0);
        if (!sqlite3_column_int(st, 3))
            tally_add(&s->of_op, sqlite3_column_int(st, 1), (enum task_state)sqlite3_column_int(st, 2), -1);
        int64_t scheduled_ms = sqlite3_column_int64(st, 4), runs = sqlite3_column_int64(st, 5);
        *ret_runs += runs;
        if (scheduled_ms >= op->withdraw_from_ms && runs)
            op->ret_cursor_ms = min_of(op->ret_cursor_ms, scheduled_ms);
    }
}

static enum err withdraw(struct store_sqlite *s, struct op_put *op, int64_t *ret_runs, struct error *e)
{
    size_t n = 0;
    op->ret_cursor_ms = op->task->cursor_ms;
    op->ret_withdrawn = 0;
    if (!op->withdraw || op->task->kind != TASK_RECURRING)
        return ERR_OK;
    if (find_withdrawn(s, op, &n, ret_runs, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        if (delete_task(s, s->rids[i], e))
            return e->code;
    op->ret_withdrawn = n;
    return ERR_OK;
}

enum err sqlite_put(struct store_sqlite *s, struct op *base)
{
    struct op_put *op = (struct op_put *)base;
    struct error *e = &base->error;
    struct guards g;
    int64_t record = 0, runs = 0;
    if (idempotency_put(s, op->idempotency, &record, e) || read_guards(s, &op->task->id, &g, e) ||
        check_put(op, &g, e) || withdraw(s, op, &runs, e))
        return e->code;
    struct task next = *op->task;
    next.cursor_ms = op->ret_cursor_ms;
    next.last_run_ms = max_of(next.last_run_ms, g.last_run_ms);
    next.runs_count = max_of(next.runs_count - runs, 0);
    if (replace_task(s, &g, &next, e))
        return e->code;
    return op->also ? insert_or_same(s, op->also, e) : ERR_OK;
}

/* ---- upkeep ---- */

enum { FORGET_LOOK = 10000 /* rows looked at a time, so that nobody waits long behind it */ };

static enum err forget_idempotency(struct store_sqlite *s, int64_t before_ms, size_t max, size_t *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_IDEMPOTENCY_OLD);
    size_t n = 0;
    bool row;
    sqlite3_bind_int(st, 1, FORGET_LOOK); /* oldest first: rows come in the order of their time, nearly */
    do {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (row && n < max && sqlite3_column_int64(st, 1) < before_ms) {
            scratch_grow(s, n);
            s->rids[n++] = sqlite3_column_int64(st, 0);
        }
    } while (row);
    for (size_t i = 0; i < n; i++)
        if (idempotency_take_back(s, s->rids[i], e))
            return e->code;
    *ret = n;
    return ERR_OK;
}

/* Looks at one stretch of the table from where the last look ended. */
static enum err find_old_tasks(struct store_sqlite *s, int64_t before_ms, size_t max, size_t *found, int *looked,
                               struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_OLD_TASKS);
    sqlite3_bind_int64(st, 1, s->forget_from);
    sqlite3_bind_int(st, 2, FORGET_LOOK - *looked);
    for (bool row;; ++*looked) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row || *found == max)
            break;
        enum task_state state = (enum task_state)sqlite3_column_int(st, 2);
        int64_t rid = sqlite3_column_int64(st, 0), completed_ms = sqlite3_column_int64(st, 4);
        s->forget_from = rid + 1;
        if (!task_is_final(state) || completed_ms <= 0 || completed_ms >= before_ms)
            continue;
        scratch_grow(s, *found);
        s->rids[(*found)++] = rid;
        if (!sqlite3_column_int(st, 3))
            tally_add(&s->of_op, sqlite3_column_int(st, 1), state, -1);
    }
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err forget_stretch(struct store_sqlite *s, int64_t before_ms, size_t max, size_t *forgotten, int *looked,
                               struct error *e)
{
    size_t n = 0;
    if (find_old_tasks(s, before_ms, max - *forgotten, &n, looked, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        if (delete_task(s, s->rids[i], e))
            return e->code;
    *forgotten += n;
    return ERR_OK;
}

/* Goes round: an index over finished tasks would cost every settle, and there is no hurry here. */
static enum err forget_tasks(struct store_sqlite *s, int64_t before_ms, size_t max, size_t *ret, struct error *e)
{
    int looked = 0;
    bool midway = s->forget_from > 0;
    if (forget_stretch(s, before_ms, max, ret, &looked, e))
        return e->code;
    if (*ret == max || looked == FORGET_LOOK)
        return ERR_OK;
    s->forget_from = 0; /* that was the end of the table */
    return midway ? forget_stretch(s, before_ms, max, ret, &looked, e) : ERR_OK;
}

enum err sqlite_forget(struct store_sqlite *s, struct op *base)
{
    struct op_forget *op = (struct op_forget *)base;
    size_t records = 0, tasks = 0;
    if (forget_idempotency(s, op->idempotency_before_ms, op->max, &records, &base->error) ||
        forget_tasks(s, op->tasks_before_ms, op->max - records, &tasks, &base->error))
        return base->error.code;
    op->ret_forgotten = records + tasks;
    return ERR_OK;
}

/* ---- keys and leases ---- */

enum err sqlite_key_put(struct store_sqlite *s, struct op *base)
{
    sqlite3_stmt *st = writer_stmt(s, ST_KEY_PUT);
    row_bind(&s->conn, st, 2, &table_api_keys, ((struct op_key_put *)base)->key);
    return conn_run(&s->conn, st, &base->error);
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

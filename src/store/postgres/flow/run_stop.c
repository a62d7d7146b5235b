/* OP_STOP (port/store/runs.h).
 *
 * The locks of slots come before all rows, as far as they are known. Then the run's row in `runs` is locked, so that no
 * page of the run is being written meanwhile (runs.c). The steps are locked as far as they are free: one that another
 * transaction has locked is left to the next call. So this operation waits for no row of `tasks`. */
#include <assert.h>

#include "store/postgres/flow/runs.h"
#include "store/postgres/sharing/slots.h"

static const struct pg_statement lock_run = {
    "stop_run",
    "SELECT stop, paused, deadline_ms FROM runs WHERE run_id = $1 AND tenant_id = $2 FOR NO KEY UPDATE",
};
/* Behind the lock: it sees what a settle has committed that was waited for. */
static const struct pg_statement read_task = { "stop_task", "SELECT state, links FROM tasks WHERE id = $1" };
static const struct pg_statement write_run = {
    "stop_write_run",
    "UPDATE runs SET stop = $2, paused = $3, stopped_by = coalesce(nullif($4, ''), stopped_by) WHERE run_id = $1"
};
/* $1 run, $2 and $3 places, $4 states as bits, $5 those of steps that were opened, $6 at most */
#define IN_RANGE "t.run_id = $1 AND t.place BETWEEN $2 AND $3"
#define CHANGED                                                                                                        \
    IN_RANGE " AND (CASE WHEN t.links & 1056 = 32 AND t.place >> 48 = 0 THEN $5 ELSE $4 END >> t.state) & 1 = 1"
static const struct pg_statement read_slots = {
    "stop_slots",
    "SELECT key FROM (SELECT id, waits_for FROM tasks AS t WHERE " CHANGED
    " AND t.gates IS NOT NULL ORDER BY t.place LIMIT $6) AS x, LATERAL (SELECT s.key FROM slots AS s WHERE s.task_id = x.id "
    "UNION SELECT x.waits_for WHERE x.waits_for IS NOT NULL) AS k",
};
static const struct pg_statement lock_steps = {
    "stop_steps",
    "SELECT " STEP_COLUMNS " FROM tasks AS t WHERE " CHANGED " ORDER BY t.place LIMIT $6 FOR NO KEY UPDATE SKIP LOCKED",
};
static const struct pg_statement count_steps = { "stop_count",
                                                 "SELECT count(*) FROM (SELECT FROM tasks AS t WHERE " CHANGED
                                                 " LIMIT $6 + 1) AS x" };
static const struct pg_statement read_running = {
    "stop_running",
    "SELECT t.id, t.fence FROM tasks AS t WHERE " IN_RANGE " AND t.state = " SQL_RUNNING
    " AND t.claim_id IS NOT NULL AND t.links & 32 = 0 ORDER BY t.place LIMIT $4",
};
static const struct pg_statement read_runs = {
    "stop_runs",
    "SELECT t.id FROM tasks AS t WHERE " IN_RANGE " AND t.state = " SQL_RUNNING
    " AND t.links & 16 <> 0 AND t.target = 4 ORDER BY t.place",
};
static const struct pg_statement read_opening = {
    "stop_opening", /* also those that are being opened: stop_reaches_run */
    "SELECT t.id FROM tasks AS t WHERE " IN_RANGE " AND t.state = " SQL_RUNNING
    " AND t.links & 2096 <> 0 AND t.target = 4 ORDER BY t.place",
};
static_assert(TASK_OPEN == 16 && TASK_OPENED == 32 && TASK_AGAIN == 1024 && TASK_BEGUN == 2048 && TARGET_WORKFLOW == 4,
              "statements name them by number");
static const struct pg_statement lock_open_run = {
    "stop_open_run",
    "SELECT " STEP_COLUMNS " FROM tasks AS t WHERE t.id = $1 AND t.links & 1040 <> 0 FOR NO KEY UPDATE SKIP LOCKED",
};
static const struct pg_statement is_open_run = { "stop_is_open",
                                                 "SELECT FROM tasks AS t WHERE t.id = $1 AND t.links & 1040 <> 0" };

struct pg_stopping {
    struct op_stop *op;
    struct run_row run; /* as it was: its stop, pause and deadline */
    struct pg_step *v;
    size_t n;
    struct slot_keys *keys;
};

/* ---- the run ---- */

static void pg_stop_add_range(struct pg_params *p, const struct pg_stopping *x)
{
    const struct op_stop *op = x->op;
    int64_t from, to;
    stop_places(op, &x->run, &from, &to);
    pg_params_reset(p);
    pg_add_uuid(p, op->run);
    pg_add_i64(p, from);
    pg_add_i64(p, to);
}

static void pg_stop_add_steps(struct pg_params *p, const struct pg_stopping *x)
{
    pg_stop_add_range(p, x);
    pg_add_i32(p, (int32_t)stop_states(x->op->change, false, x->run.stop));
    pg_add_i32(p, (int32_t)stop_states(x->op->change, true, x->run.stop));
    pg_add_i64(p, (int64_t)x->op->max);
}

/* The run was not read yet: of one that is late, more slots are locked than needed. */
static enum err pg_stop_lock_slots(struct store_postgres *s, const struct pg_stopping *x, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_stop_add_steps(&s->params, x);
    if (pg_run(&s->conn, &read_slots, &s->params, &r, e))
        return e->code;
    struct str *keys = arena_array(&s->arena, struct str, (size_t)r.rows + 1);
    if (!keys)
        return error_no_room(e);
    for (int i = 0; i < r.rows; i++)
        keys[i] = pg_text(&r, i, 0);
    return pg_slots_lock(s, keys, (size_t)r.rows, e);
}

static enum err pg_stop_change_run(struct store_postgres *s, struct pg_stopping *x, struct error *e)
{
    const struct op_stop *op = x->op;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    cleanup_with(pg_result_release) struct pg_result task = { 0 };
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    pg_add_uuid(p, op->run);
    pg_add_i32(p, op->tenant);
    if (pg_run(&s->conn, &lock_run, p, &r, e))
        return e->code;
    if (r.rows == 0)
        return run_not_found(e);
    pg_params_reset(p);
    pg_add_uuid(p, op->run);
    if (pg_run(&s->conn, &read_task, p, &task, e) ||
        (task.rows && stop_check(op, pg_bool(&r, 0, 1), (enum task_state)pg_i64(&task, 0, 0), e)))
        return e->code;
    x->run = (struct run_row){ .stop = (enum run_stop)pg_i64(&r, 0, 0),
                               .paused = pg_bool(&r, 0, 1),
                               .deadline_ms = pg_i64(&r, 0, 2) };
    struct run_row run = x->run;
    stop_run(&run, op, task.rows ? (int)pg_i64(&task, 0, 1) : 0);
    pg_params_reset(p);
    pg_add_uuid(p, op->run);
    pg_add_i32(p, (int32_t)run.stop);
    pg_add_bool(p, run.paused);
    pg_add_text(p, run.stopped_by); /* empty: it stays */
    return pg_queue(&s->conn, &write_run, p, e);
}

/* ---- steps ---- */

static enum err pg_stop_lock_steps(struct store_postgres *s, struct pg_stopping *x, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result rows = { 0 };
    cleanup_with(pg_result_release) struct pg_result count = { 0 };
    pg_stop_add_steps(&s->params, x);
    if (pg_send(&s->conn, &lock_steps, &s->params, e) || pg_send(&s->conn, &count_steps, &s->params, e) ||
        pg_get(&s->conn, &rows, e) || pg_get(&s->conn, &count, e))
        return e->code;
    x->op->ret_more = pg_i64(&count, 0, 0) > rows.rows;
    x->v = arena_array(&s->arena, struct pg_step, (size_t)rows.rows + 1);
    if (!x->v)
        return error_no_room(e);
    for (int i = 0; i < rows.rows; i++) {
        if (pg_step_read(s, &rows, i, &x->v[x->n], e))
            return e->code;
        stop_step(&x->v[x->n].next, x->op);
        change_add_links(&s->base, &x->v[x->n].was, &x->v[x->n].next);
        x->n++;
    }
    return ERR_OK;
}

/* A step that leaves a slot's line, or gives its slot up, lets others in. */
static enum err pg_stop_free_slots(struct store_postgres *s, struct pg_stopping *x, struct error *e)
{
    struct uuid *gated = arena_array(&s->arena, struct uuid, x->n + 1);
    size_t n = 0;
    if (!gated)
        return error_no_room(e);
    for (size_t i = 0; i < x->n; i++) {
        const struct pg_step *t = &x->v[i];
        if (t->was.waits_for.n) {
            slot_keys_add(x->keys, t->was.waits_for);
            pg_slot_state(s, t->was.waits_for)->is_loaded = false;
        }
        if (t->gated)
            gated[n++] = t->was.id;
    }
    if (pg_slots_prefetch(s, gated, n, e))
        return e->code;
    for (size_t i = 0; i < x->n; i++)
        if (x->v[i].gated && pg_slots_release(s, &x->v[i].was.id, &x->v[i].next, x->keys, e))
            return e->code;
    return ERR_OK;
}

static enum err pg_stop_leave_arrivals(struct store_postgres *s, const struct pg_stopping *x, struct error *e)
{
    struct arrival *v = arena_array(&s->arena, struct arrival, x->n + 1);
    size_t n = 0;
    if (!v)
        return error_no_room(e);
    for (size_t i = 0; i < x->n; i++) {
        const struct task *t = &x->v[i].next;
        if (task_is_final(t->state) && t->links & TASK_HAS_CHILDREN)
            v[n++] = (struct arrival){ t->id, dependency_outcome(t->state, t->links) };
    }
    x->op->ret_unblocked_lanes = op_unblocked(x->op->ret_unblocked_lanes, n > 0);
    return n ? s->joins.ops->leave(&s->joins, v, n, x->op->now_ms, e) : ERR_OK;
}

/* Nothing is left to cancel: who claims the run decides how it ends. */
static enum err pg_stop_wake_run(struct store_postgres *s, struct op_stop *op, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result locked = { 0 };
    cleanup_with(pg_result_release) struct pg_result open = { 0 };
    struct pg_step run;
    if (op->change != RUN_CANCEL || op->has_range || op->ret_more)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, op->run);
    if (pg_send(&s->conn, &lock_open_run, &s->params, e) || pg_send(&s->conn, &is_open_run, &s->params, e) ||
        pg_get(&s->conn, &locked, e) || pg_get(&s->conn, &open, e))
        return e->code;
    op->ret_more = open.rows > locked.rows;
    if (locked.rows == 0)
        return ERR_OK;
    if (pg_step_read(s, &locked, 0, &run, e))
        return e->code;
    if (!stop_wake(&run.next, op->now_ms))
        return ERR_OK;
    change_add_links(&s->base, &run.was, &run.next);
    return pg_steps_write(s, &run, 1, &op->ret_unblocked_lanes, e);
}

/* ---- what the caller has to do ---- */

static enum err pg_stop_report(struct store_postgres *s, const struct pg_stopping *x, struct error *e)
{
    struct op_stop *op = x->op;
    cleanup_with(pg_result_release) struct pg_result running = { 0 };
    cleanup_with(pg_result_release) struct pg_result runs = { 0 };
    struct arena *a = &op->op.arena;
    pg_stop_add_range(&s->params, x);
    bool opening = stop_reaches_run(op->change, TASK_OPENED);
    if (pg_send(&s->conn, opening ? &read_opening : &read_runs, &s->params, e))
        return e->code;
    pg_add_i64(&s->params, STOP_RUNNING_MAX);
    if (pg_send(&s->conn, &read_running, &s->params, e) || pg_get(&s->conn, &runs, e) || pg_get(&s->conn, &running, e))
        return e->code;
    op->ret_running = arena_array(a, struct fenced_id, (size_t)running.rows + 1);
    op->ret_runs = arena_array(a, struct uuid, (size_t)runs.rows + 1);
    if (!op->ret_running || !op->ret_runs)
        return error_no_room(e);
    for (int i = 0; i < running.rows; i++)
        op->ret_running[i] = (struct fenced_id){ pg_uuid(&running, i, 0), pg_i64(&running, i, 1) };
    for (int i = 0; i < runs.rows; i++)
        op->ret_runs[i] = pg_uuid(&runs, i, 0);
    op->ret_running_count = (size_t)running.rows;
    op->ret_run_count = (size_t)runs.rows;
    return ERR_OK;
}

enum err postgres_stop(struct store_postgres *s, struct op *base)
{
    struct op_stop *op = (struct op_stop *)base;
    struct error *e = &base->error;
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    struct pg_stopping x = { .op = op, .keys = &keys };
    op->ret_unblocked_lanes = 0;
    op->ret_more = false;
    if (pg_idempotency_put(s, op->idempotency, e) || pg_stop_lock_slots(s, &x, e) || pg_stop_change_run(s, &x, e) ||
        pg_stop_lock_steps(s, &x, e) || pg_steps_write(s, x.v, x.n, &op->ret_unblocked_lanes, e) ||
        pg_stop_free_slots(s, &x, e) || pg_slots_hand_over(s, &keys, &op->ret_unblocked_lanes, e) ||
        pg_stop_leave_arrivals(s, &x, e) || pg_stop_wake_run(s, op, e))
        return e->code;
    op->ret_changed = x.n;
    return pg_stop_report(s, &x, e);
}

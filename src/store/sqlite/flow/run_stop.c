/* OP_STOP (port/store/runs.h). */
#include <stdlib.h>

#include "store/sqlite/flow/runs.h"

struct stopping {
    struct store_sqlite *s;
    struct op_stop *op;
    struct run_row run; /* as it was */
    struct step_row *v; /* steps that are changed */
    size_t n;
    bool left; /* arrivals were recorded */
};

static void sqlite_stop_release(struct stopping *x)
{
    free(x->v);
}

static void sqlite_stop_bind_range(sqlite3_stmt *st, int at, const struct stopping *x)
{
    int64_t from, to;
    stop_places(x->op, &x->run, &from, &to);
    sqlite3_bind_int64(st, at, from);
    sqlite3_bind_int64(st, at + 1, to);
}

/* Reads all before it changes one: a change may move rows within the index. */
static enum err sqlite_stop_read_steps(struct stopping *x, struct error *e)
{
    struct op_stop *op = x->op;
    sqlite3_stmt *st = writer_stmt(x->s, ST_STEPS);
    size_t cap = 0;
    (void)bind_uuid(st, 1, &op->run);
    sqlite3_bind_int64(st, 2, stop_states(op->change, false, x->run.stop));
    sqlite3_bind_int64(st, 6, stop_states(op->change, true, x->run.stop));
    sqlite3_bind_int64(st, 3, (int64_t)op->max + 1);
    sqlite_stop_bind_range(st, 4, x);
    for (bool row;; x->n++) {
        if (conn_step(&x->s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        if (x->n == op->max)
            break;
        if (x->n == cap) {
            cap = cap * 2 + 16;
            x->v = xrealloc(x->v, cap * sizeof *x->v);
        }
        sqlite_step_read_row(st, &x->v[x->n]);
    }
    op->ret_more = true;
    sqlite3_reset(st);
    return ERR_OK;
}

/* A step that does not go on gives up its slots and its place in a line. */
static enum err sqlite_stop_release_slots(struct stopping *x, const struct step_row *r, struct slot_keys *keys,
                                          struct error *e)
{
    struct slots *slots = &x->s->slots;
    char text[SLOT_KEY_MAX];
    struct str key = { 0 };
    if (!r->gated || x->op->change == RUN_RESUME)
        return ERR_OK;
    if (slots->ops->waits_for(slots, &(struct slot_row){ .rid = r->rid }, text, &key, e))
        return e->code;
    if (key.n)
        slot_keys_add(keys, key);
    return slots_release(slots, &r->task.id, NULL, keys, e);
}

static enum err sqlite_stop_record_arrival(struct stopping *x, const struct task *t, struct error *e)
{
    struct joins *j = &x->s->joins;
    struct arrival a = { t->id, FLOW_CANCELLED };
    if (t->state != TASK_CANCELLED || !(t->links & TASK_HAS_CHILDREN))
        return ERR_OK;
    if (j->ops->leave(j, &a, 1, x->op->now_ms, e))
        return e->code;
    x->left = x->left || sqlite3_changes(x->s->conn.db) > 0;
    return ERR_OK;
}

static enum err sqlite_stop_steps(struct stopping *x, struct error *e)
{
    struct op_stop *op = x->op;
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    for (size_t i = 0; i < x->n; i++) {
        struct step_row *r = &x->v[i];
        struct task was = r->task;
        if (sqlite_stop_release_slots(x, r, &keys, e))
            return e->code;
        stop_step(&r->task, op);
        change_add_links(&x->s->base, &was, &r->task);
        if (sqlite_step_write(x->s, r, was.state, &op->ret_unblocked_lanes, e) ||
            sqlite_stop_record_arrival(x, &r->task, e))
            return e->code;
    }
    op->ret_changed = x->n;
    return slots_hand_over(&x->s->slots, &keys, &op->ret_unblocked_lanes, e);
}

/* Nothing of the run waits any more: the run goes on, to its end. */
static enum err sqlite_stop_wake_run(struct stopping *x, struct error *e)
{
    struct op_stop *op = x->op;
    struct step_row run;
    if (op->change != RUN_CANCEL || op->has_range || op->ret_more)
        return ERR_OK;
    if (sqlite_step_read(x->s, &op->run, &run, e))
        return e->code;
    struct task was = run.task;
    if (!run.found || !stop_wake(&run.task, op->now_ms))
        return ERR_OK;
    change_add_links(&x->s->base, &was, &run.task);
    return sqlite_step_write(x->s, &run, was.state, &op->ret_unblocked_lanes, e);
}

/* What runs: by claims, and as open steps. */
static enum err sqlite_stop_read_running(struct stopping *x, struct error *e)
{
    struct op_stop *op = x->op;
    sqlite3_stmt *st = writer_stmt(x->s, ST_STEPS_RUNNING);
    struct fenced_id *running = arena_array(&op->op.arena, struct fenced_id, STOP_RUNNING_MAX);
    struct uuid *runs = NULL;
    size_t n = 0, run_count = 0, cap = 0;
    enum err rc = running ? ERR_OK : reader_no_room(e);
    (void)bind_uuid(st, 1, &op->run);
    sqlite_stop_bind_range(st, 2, x);
    for (bool row; !rc && !(rc = conn_step(&x->s->conn, st, &row, e)) && row;) {
        struct uuid id = row_uuid(st, 0);
        int links = sqlite3_column_int(st, 2);
        if (!(links & (TASK_OPEN | TASK_OPENED)) && n < STOP_RUNNING_MAX)
            running[n++] = (struct fenced_id){ id, sqlite3_column_int64(st, 1) };
        if (!stop_reaches_run(op->change, links) || sqlite3_column_int(st, 3) != TARGET_WORKFLOW)
            continue;
        if (run_count == cap) {
            cap = cap * 2 + 16;
            runs = xrealloc(runs, cap * sizeof *runs);
        }
        runs[run_count++] = id;
    }
    sqlite3_reset(st);
    struct uuid *copy = rc ? NULL : arena_array(&op->op.arena, struct uuid, run_count + 1);
    rc = rc || copy ? rc : reader_no_room(e);
    if (!rc && run_count)
        memcpy(copy, runs, run_count * sizeof *copy);
    free(runs);
    op->ret_running = running;
    op->ret_running_count = n;
    op->ret_runs = copy;
    op->ret_run_count = run_count;
    return rc;
}

enum err sqlite_stop(struct store_sqlite *s, struct op *base)
{
    struct op_stop *op = (struct op_stop *)base;
    struct error *e = &base->error;
    cleanup_with(sqlite_stop_release) struct stopping x = { .s = s, .op = op };
    struct run_row run;
    struct step_row task;
    int64_t record = 0;
    bool found;
    op->ret_more = false;
    op->ret_unblocked_lanes = 0;
    if (sqlite_idempotency_put(s, op->idempotency, &record, e) ||
        sqlite_run_read(s, &op->run, &base->arena, &run, &found, e) || sqlite_step_read(s, &op->run, &task, e))
        return e->code;
    if (!found || run.tenant != op->tenant)
        return run_not_found(e);
    if (task.found && stop_check(op, run.paused, task.task.state, e))
        return e->code;
    x.run = run;
    stop_run(&run, op, task.found ? task.task.links : 0);
    if (sqlite_run_write(s, &run, e) || sqlite_stop_read_steps(&x, e) || sqlite_stop_steps(&x, e) ||
        sqlite_stop_wake_run(&x, e) || sqlite_stop_read_running(&x, e))
        return e->code;
    op->ret_unblocked_lanes = op_unblocked(op->ret_unblocked_lanes, x.left);
    return ERR_OK;
}

/* OP_AWAIT and OP_SIGNAL (port/store/runs.h). */
#include "store/sqlite/flow/runs.h"

/* How many signals of that name there are, and the bytes of their payloads. */
static enum err sqlite_signals_count(struct store_sqlite *s, const struct uuid *run, struct str name, size_t *ret,
                                     int64_t *ret_bytes, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SIGNALS_COUNT);
    bool row;
    (void)bind_uuid(st, 1, run);
    (void)bind_str(st, 2, name);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = (size_t)sqlite3_column_int64(st, 0);
    *ret_bytes = sqlite3_column_int64(st, 1);
    sqlite3_reset(st);
    return ERR_OK;
}

/* ---- OP_AWAIT ---- */

enum err sqlite_await(struct store_sqlite *s, struct op *base)
{
    struct op_await *op = (struct op_await *)base;
    struct error *e = &base->error;
    struct step_row step;
    struct run_row run;
    size_t signals;
    int64_t bytes;
    bool has_run;
    op->ret_unblocked_lanes = 0;
    if (sqlite_step_read(s, &op->id, &step, e))
        return e->code;
    struct task *t = &step.task;
    if (!step.found || !task_is_claimed(t->state, t->fence, t->links, op->fence))
        return recall_too_late(e);
    if (sqlite_run_read(s, &t->run, &base->arena, &run, &has_run, e) ||
        sqlite_signals_count(s, &t->run, op->signal, &signals, &bytes, e))
        return e->code;
    struct uuid claim = t->claim;
    int links = t->links;
    await_apply(t, op, signals, has_run && run.paused, has_run && run.stop != RUN_GOES_ON);
    if (sqlite_step_write(s, &step, TASK_RUNNING, &op->ret_unblocked_lanes, e))
        return e->code;
    change_add_awaiting(&s->base, links, t);
    return sqlite_claim_leave(s, claim, 1, e);
}

/* ---- OP_SIGNAL ---- */

/* Whether this sender has sent it before. */
static enum err sqlite_signal_find(struct store_sqlite *s, const struct signal_row *x, bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SIGNAL);
    (void)bind_uuid(st, 1, &x->run);
    (void)bind_str(st, 2, x->name);
    (void)bind_str(st, 3, x->sender);
    if (conn_step(&s->conn, st, ret, e) || !*ret)
        return s->conn.failed;
    struct signal_row old = { .payload = row_text(st, 0), .rejects = sqlite3_column_int(st, 1) != 0 };
    enum err rc = signal_check_same(&old, x, e);
    sqlite3_reset(st);
    return rc;
}

static enum err sqlite_signal_put(struct store_sqlite *s, const struct signal_row *x, struct error *e)
{
    size_t count;
    int64_t bytes;
    if (sqlite_signals_count(s, &x->run, x->name, &count, &bytes, e) ||
        signal_check_room(count + 1, bytes + (int64_t)x->payload.n, e))
        return e->code;
    sqlite3_stmt *st = writer_stmt(s, ST_SIGNAL_PUT);
    row_bind(&s->conn, st, 1, &table_signals, x);
    return conn_run(&s->conn, st, e);
}

/* With `wakes` false: only looks whether none takes it any more. */
static enum err sqlite_signal_steps(struct store_sqlite *s, struct op_signal *op, bool wakes, bool *ret_over,
                                    struct error *e)
{
    *ret_over = op->n > 0;
    for (size_t i = 0; i < op->n; i++) {
        struct step_row step;
        if (sqlite_step_read(s, &op->steps[i], &step, e))
            return e->code;
        struct task was = step.task;
        bool takes = step.found && signal_takes(op, &step.task);
        *ret_over = *ret_over && step.found && !takes;
        if (!wakes || !takes || !signal_wakes(&step.task, op->signal->time_ms))
            continue;
        change_add_links(&s->base, &was, &step.task);
        if (sqlite_step_write(s, &step, was.state, &op->ret_unblocked_lanes, e))
            return e->code;
    }
    return ERR_OK;
}

enum err sqlite_signal(struct store_sqlite *s, struct op *base)
{
    struct op_signal *op = (struct op_signal *)base;
    struct error *e = &base->error;
    struct step_row run;
    int64_t record = 0;
    bool over;
    op->ret_repeated = false;
    op->ret_unblocked_lanes = 0;
    if (sqlite_idempotency_put(s, op->idempotency, &record, e) || sqlite_step_read(s, &op->signal->run, &run, e) ||
        signal_check_run(&run.task, run.found, op->tenant, e) ||
        sqlite_signal_find(s, op->signal, &op->ret_repeated, e))
        return e->code;
    if (op->ret_repeated)
        return ERR_OK;
    if (sqlite_signal_steps(s, op, false, &over, e))
        return e->code;
    if (over)
        return signal_too_late(e);
    return sqlite_signal_put(s, op->signal, e) ? e->code : sqlite_signal_steps(s, op, true, &over, e);
}

/* OP_AWAIT and OP_SIGNAL (port/store/runs.h).
 *
 * Both lock the step's row before they look: OP_AWAIT at the signals, OP_SIGNAL at the step. So one of the two sees
 * what the other has written. OP_SIGNAL locks the steps before it writes anything, in the order of their ids. */
#include "store/postgres/flow/runs.h"

static const struct pg_statement share_run = { "await_run",
                                               "SELECT paused, stop FROM runs WHERE run_id = $1 FOR SHARE" };
static const struct pg_statement count_signals = {
    "signals_count",
    "SELECT count(*), coalesce(sum(octet_length(payload)), 0)::bigint FROM signals WHERE run_id = $1 AND name = $2",
};
static const struct pg_statement read_run = { "signal_run",
                                              "SELECT tenant_id, state, deleted, target FROM tasks WHERE id = $1" };
static const struct pg_statement lock_steps = {
    "signal_steps",
    "SELECT " STEP_COLUMNS " FROM tasks AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE",
};
static const struct pg_statement insert_signal = {
    "signal_insert",
    "INSERT INTO signals (run_id, name, sender, payload, rejects, time_ms) VALUES ($1, $2, $3, nullif($4, ''), $5, $6) "
    "ON CONFLICT (run_id, name, sender) DO NOTHING",
};
static const struct pg_statement read_signal = {
    "signal_read", "SELECT payload, rejects FROM signals WHERE run_id = $1 AND name = $2 AND sender = $3"
};

static void pg_signal_add_name(struct pg_params *p, struct uuid run, struct str name)
{
    pg_params_reset(p);
    pg_add_uuid(p, run);
    pg_add_text(p, name);
}

/* ---- OP_AWAIT ---- */

/* The run's row is locked, so that a pause or a stop comes before or after. */
static enum err pg_await_look(struct store_postgres *s, const struct op_await *op, struct uuid run, size_t *ret_signals,
                              struct run_row *ret_run, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result row = { 0 };
    cleanup_with(pg_result_release) struct pg_result count = { 0 };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, run);
    if (pg_send(&s->conn, &share_run, &s->params, e))
        return e->code;
    pg_signal_add_name(&s->params, run, op->signal);
    if (pg_send(&s->conn, &count_signals, &s->params, e) || pg_get(&s->conn, &row, e) || pg_get(&s->conn, &count, e))
        return e->code;
    if (row.rows)
        *ret_run = (struct run_row){ .paused = pg_bool(&row, 0, 0), .stop = (enum run_stop)pg_i64(&row, 0, 1) };
    *ret_signals = (size_t)pg_i64(&count, 0, 0);
    return ERR_OK;
}

enum err postgres_await(struct store_postgres *s, struct op *base)
{
    struct op_await *op = (struct op_await *)base;
    struct error *e = &base->error;
    struct pg_step step;
    size_t signals = 0;
    bool found;
    struct run_row run = { 0 };
    op->ret_unblocked_lanes = 0;
    if (pg_step_lock(s, op->id, &step, &found, e) || pg_step_check_fence(&step, found, op->fence, e) ||
        pg_await_look(s, op, step.was.run, &signals, &run, e))
        return e->code;
    await_apply(&step.next, op, signals, run.paused, run.stop != RUN_GOES_ON);
    change_add_awaiting(&s->base, step.was.links, &step.next);
    return pg_steps_write(s, &step, 1, &op->ret_unblocked_lanes, e);
}

/* ---- OP_SIGNAL ---- */

struct pg_signalled {
    struct pg_step *v; /* the steps that have rows */
    size_t n;
};

static enum err pg_signal_lock_steps(struct store_postgres *s, const struct op_signal *op, struct pg_signalled *ret,
                                     struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (op->n == 0)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_ids(&s->params, op->steps, op->n);
    if (pg_run(&s->conn, &lock_steps, &s->params, &r, e))
        return e->code;
    ret->v = arena_array(&s->arena, struct pg_step, (size_t)r.rows + 1);
    if (!ret->v)
        return error_no_room(e);
    for (int i = 0; i < r.rows; i++)
        if (pg_step_read(s, &r, i, &ret->v[ret->n++], e))
            return e->code;
    return ERR_OK;
}

static enum err pg_signal_check_run(struct store_postgres *s, const struct op_signal *op, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct task run = { 0 };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, op->signal->run);
    if (pg_run(&s->conn, &read_run, &s->params, &r, e))
        return e->code;
    if (r.rows)
        run = (struct task){ .tenant = (int32_t)pg_i64(&r, 0, 0),
                             .state = (enum task_state)pg_i64(&r, 0, 1),
                             .deleted = pg_bool(&r, 0, 2),
                             .target = (enum target_kind)pg_i64(&r, 0, 3) };
    return signal_check_run(&run, r.rows > 0, op->tenant, e);
}

static enum err pg_signal_insert(struct store_postgres *s, const struct signal_row *x, bool *ret_new, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct pg_params *p = &s->params;
    pg_signal_add_name(p, x->run, x->name);
    pg_add_text(p, x->sender);
    pg_add_text(p, x->payload);
    pg_add_bool(p, x->rejects);
    pg_add_i64(p, x->time_ms);
    if (pg_run(&s->conn, &insert_signal, p, &r, e))
        return e->code;
    *ret_new = r.affected > 0;
    return ERR_OK;
}

static enum err pg_signal_check_same(struct store_postgres *s, const struct signal_row *x, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_signal_add_name(&s->params, x->run, x->name);
    pg_add_text(&s->params, x->sender);
    if (pg_run(&s->conn, &read_signal, &s->params, &r, e))
        return e->code;
    if (r.rows == 0)
        return run_not_found(e); /* the run was purged in between */
    return signal_check_same(&(struct signal_row){ .payload = pg_text(&r, 0, 0), .rejects = pg_bool(&r, 0, 1) }, x, e);
}

/* Checks what only a new signal has to meet. */
static enum err pg_signal_check_new(struct store_postgres *s, const struct op_signal *op, const struct pg_signalled *x,
                                    struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    size_t over = 0;
    for (size_t i = 0; i < x->n; i++)
        over += !signal_takes(op, &x->v[i].was);
    if (op->n && over == op->n)
        return signal_too_late(e);
    pg_signal_add_name(&s->params, op->signal->run, op->signal->name);
    if (pg_run(&s->conn, &count_signals, &s->params, &r, e))
        return e->code;
    return signal_check_room((size_t)pg_i64(&r, 0, 0), pg_i64(&r, 0, 1), e);
}

static enum err pg_signal_wake(struct store_postgres *s, struct op_signal *op, struct pg_signalled *x, struct error *e)
{
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++)
        if (signal_takes(op, &x->v[i].was) && signal_wakes(&x->v[i].next, op->signal->time_ms)) {
            change_add_links(&s->base, &x->v[i].was, &x->v[i].next);
            x->v[n++] = x->v[i];
        }
    return pg_steps_write(s, x->v, n, &op->ret_unblocked_lanes, e);
}

enum err postgres_signal(struct store_postgres *s, struct op *base)
{
    struct op_signal *op = (struct op_signal *)base;
    struct error *e = &base->error;
    struct pg_signalled steps = { 0 };
    bool is_new = false;
    op->ret_repeated = false;
    op->ret_unblocked_lanes = 0;
    if (pg_idempotency_put(s, op->idempotency, e) || pg_signal_lock_steps(s, op, &steps, e) ||
        pg_signal_check_run(s, op, e) || pg_signal_insert(s, op->signal, &is_new, e))
        return e->code;
    if (!is_new) {
        op->ret_repeated = true;
        return pg_signal_check_same(s, op->signal, e);
    }
    return pg_signal_check_new(s, op, &steps, e) ? e->code : pg_signal_wake(s, op, &steps, e);
}

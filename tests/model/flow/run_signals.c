/* OP_AWAIT and OP_SIGNAL, and the signals of a run. */
#include "model/internal.h"

static bool memory_signal_is(const struct signal_row *x, struct uuid run, struct str name)
{
    return uuid_eq(x->run, run) && (!name.n || str_eq(x->name, name));
}

size_t memory_signals_count(const struct store_memory *s, struct uuid run, struct str name, size_t *ret_bytes)
{
    size_t n = 0, bytes = 0;
    for (size_t i = 0; i < s->runs.signal_count; i++) {
        const struct signal_row *x = &s->runs.signals[i];
        n += memory_signal_is(x, run, name);
        bytes += memory_signal_is(x, run, name) ? x->payload.n : 0;
    }
    if (ret_bytes)
        *ret_bytes = bytes;
    return n;
}

void memory_signal_free(struct signal_row *x)
{
    memory_text_free(x->name);
    memory_text_free(x->sender);
    memory_text_free(x->payload);
}

void memory_signals_drop(struct store_memory *s, struct uuid run, struct str name)
{
    size_t n = 0;
    for (size_t i = 0; i < s->runs.signal_count; i++) {
        struct signal_row *x = &s->runs.signals[i];
        if (memory_signal_is(x, run, name))
            memory_signal_free(x);
        else
            s->runs.signals[n++] = *x;
    }
    s->runs.signal_count = n;
}

static const struct signal_row *memory_signal_find(const struct store_memory *s, const struct signal_row *wanted)
{
    for (size_t i = 0; i < s->runs.signal_count; i++) {
        const struct signal_row *x = &s->runs.signals[i];
        if (memory_signal_is(x, wanted->run, wanted->name) && str_eq(x->sender, wanted->sender))
            return x;
    }
    return NULL;
}

/* ---- OP_AWAIT ---- */

enum err memory_await(struct store_memory *s, struct op *base)
{
    struct op_await *op = container_of(base, struct op_await, op);
    if (memory_fence_check(s, op->id, op->fence, &base->error))
        return base->error.code;
    struct task next = *table_get(&s->table, op->id);
    const struct run_row *r = memory_run_find(s, next.run);
    await_apply(&next, op, memory_signals_count(s, next.run, op->signal, NULL), r && r->paused,
                r && r->stop != RUN_GOES_ON);
    op->ret_unblocked_lanes = 0;
    memory_add_lane(&next, &op->ret_unblocked_lanes);
    table_put(&s->table, &next);
    return ERR_OK;
}

/* ---- OP_SIGNAL ---- */

static bool memory_steps_are_over(const struct store_memory *s, const struct op_signal *op)
{
    size_t n = 0;
    for (size_t i = 0; i < op->n; i++) {
        const struct task *t = table_get(&s->table, op->steps[i]);
        n += t && !signal_takes(op, t);
    }
    return op->n && n == op->n;
}

/* OP_SIGNAL 2 to 5. */
static enum err memory_signal_check(const struct store_memory *s, struct op_signal *op, struct error *e)
{
    const struct task *run = table_get(&s->table, op->signal->run);
    const struct signal_row *there = memory_signal_find(s, op->signal);
    size_t bytes, n = memory_signals_count(s, op->signal->run, op->signal->name, &bytes);
    if (signal_check_run(run, run != NULL, op->tenant, e) || (there && signal_check_same(there, op->signal, e)))
        return e->code;
    op->ret_repeated = there != NULL;
    if (there)
        return ERR_OK;
    if (memory_steps_are_over(s, op))
        return signal_too_late(e);
    return signal_check_room(n + 1, (int64_t)(bytes + op->signal->payload.n), e);
}

static void memory_signal_wake(struct store_memory *s, const struct op_signal *op, struct uuid step,
                               uint64_t *unblocked)
{
    const struct task *t = table_get(&s->table, step);
    struct task next = t ? *t : (struct task){ 0 };
    if (!t || !signal_takes(op, t) || !signal_wakes(&next, op->signal->time_ms))
        return;
    if (next.state == TASK_SCHEDULED)
        *unblocked |= lane_bit(task_lane(&next));
    table_put(&s->table, &next);
}

enum err memory_signal(struct store_memory *s, struct op *base)
{
    struct op_signal *op = container_of(base, struct op_signal, op);
    struct memory_runs *v = &s->runs;
    if (memory_idempotency_check(s, op->idempotency, &base->error) || memory_signal_check(s, op, &base->error))
        return base->error.code;
    op->ret_unblocked_lanes = 0;
    memory_idempotency_put(s, op->idempotency);
    if (op->ret_repeated)
        return ERR_OK;
    struct signal_row x = *op->signal;
    x.name = memory_text(x.name);
    x.sender = memory_text(x.sender);
    x.payload = memory_text(x.payload);
    MEMORY_GROW(v->signals, v->signal_count, v->signal_cap);
    v->signals[v->signal_count++] = x;
    for (size_t i = 0; i < op->n; i++)
        memory_signal_wake(s, op, op->steps[i], &op->ret_unblocked_lanes);
    return ERR_OK;
}

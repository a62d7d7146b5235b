/* OP_STOP. */
#include "model/internal.h"

static struct picks memory_stop_range(const struct store_memory *s, const struct op_stop *op)
{
    struct picks p = memory_steps_of(s, op->run);
    size_t n = 0;
    int64_t from, to;
    stop_places(op, memory_run_find(s, op->run), &from, &to);
    for (size_t i = 0; i < p.n; i++)
        if (p.v[i]->place >= from && p.v[i]->place <= to)
            p.v[n++] = p.v[i];
    p.n = n;
    return p;
}

static bool memory_stop_room(const struct picks *steps, struct op_stop *op)
{
    op->ret_running = arena_array(&op->op.arena, struct fenced_id, STOP_RUNNING_MAX);
    op->ret_runs = arena_array(&op->op.arena, struct uuid, steps->n + 1);
    op->ret_running_count = op->ret_run_count = op->ret_changed = 0;
    return op->ret_running && op->ret_runs;
}

/* What the caller has to stop itself, when all is changed. */
static void memory_stop_answer(struct store_memory *s, struct op_stop *op)
{
    cleanup_with(picks_release) struct picks steps = memory_stop_range(s, op);
    for (size_t i = 0; i < steps.n; i++) {
        const struct task *t = steps.v[i];
        if (t->state == TASK_RUNNING && t->target == TARGET_WORKFLOW && stop_reaches_run(op->change, t->links))
            op->ret_runs[op->ret_run_count++] = t->id;
        else if (t->state == TASK_RUNNING && !(t->links & (TASK_OPEN | TASK_OPENED)) &&
                 op->ret_running_count < STOP_RUNNING_MAX)
            op->ret_running[op->ret_running_count++] = (struct fenced_id){ t->id, t->fence };
    }
}

/* was: the stop of the run before. */
static void memory_stop_steps(struct store_memory *s, const struct picks *steps, struct op_stop *op, enum run_stop was)
{
    struct slot_keys keys;
    bool left = false;
    slot_keys_init(&keys);
    op->ret_more = false;
    for (size_t i = 0; i < steps->n; i++) {
        struct task next = *steps->v[i];
        if (!(stop_states(op->change, stop_finds_planned(next.links, next.place), was) >> next.state & 1))
            continue;
        op->ret_more = op->ret_changed == op->max;
        if (op->ret_more)
            break;
        stop_step(&next, op);
        left |= memory_leave(s, &next);
        memory_add_lane(&next, &op->ret_unblocked_lanes);
        memory_change_row(&s->table, &next, true, &keys);
        op->ret_changed++;
    }
    memory_hand_over(&s->table, &keys, &op->ret_unblocked_lanes);
    slot_keys_release(&keys);
    op->ret_unblocked_lanes = op_unblocked(op->ret_unblocked_lanes, left);
}

/* Nothing of the run waits any more: who claims it decides how it ends. */
static void memory_stop_run(struct store_memory *s, struct op_stop *op)
{
    const struct task *t = table_get(&s->table, op->run);
    if (!t)
        return;
    struct task next = *t;
    if (!stop_wake(&next, op->now_ms))
        return;
    memory_add_lane(&next, &op->ret_unblocked_lanes);
    table_put(&s->table, &next);
}

enum err memory_stop(struct store_memory *s, struct op *base)
{
    struct op_stop *op = container_of(base, struct op_stop, op);
    struct run_row *r = memory_run_find(s, op->run);
    if (memory_idempotency_check(s, op->idempotency, &base->error))
        return base->error.code;
    if (!r || r->tenant != op->tenant)
        return run_not_found(&base->error);
    const struct task *run = table_get(&s->table, op->run);
    if (run && stop_check(op, r->paused, run->state, &base->error))
        return base->error.code;
    cleanup_with(picks_release) struct picks steps = memory_stop_range(s, op);
    if (!memory_stop_room(&steps, op))
        return memory_no_room(&base->error);
    op->ret_unblocked_lanes = 0;
    enum run_stop was = r->stop;
    memory_run_stop(r, op, run ? run->links : 0);
    memory_stop_steps(s, &steps, op, was);
    if (op->change == RUN_CANCEL && !op->has_range && !op->ret_more)
        memory_stop_run(s, op);
    memory_stop_answer(s, op);
    memory_idempotency_put(s, op->idempotency);
    return ERR_OK;
}

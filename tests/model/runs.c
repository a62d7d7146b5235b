/* Runs of workflows, as port/store/runs.h says: OP_OPEN, OP_AWAIT and OP_STOP. Whether a join is decided is found by
 * looking at all its edges (joins.c). */
#include <stdlib.h>

#include "model/internal.h"

static int memory_by_place(const void *a, const void *b)
{
    int64_t x = (*(const struct task *const *)a)->place, y = (*(const struct task *const *)b)->place;
    return (x > y) - (x < y);
}

struct picks memory_steps_of(const struct store_memory *s, struct uuid run)
{
    struct picks p = { 0 };
    for (size_t i = 0; i < order_count(&s->table.by_id); i++)
        if (uuid_eq(task_at(&s->table.by_id, i)->run, run))
            picks_add(&p, task_at(&s->table.by_id, i));
    if (p.n)
        qsort(p.v, p.n, sizeof *p.v, memory_by_place);
    return p;
}

static enum err memory_fence_check(const struct store_memory *s, struct uuid id, int64_t fence, struct error *e)
{
    return memory_task_runs(s, id, fence) ? ERR_OK : recall_too_late(e);
}

static void memory_add_lane(const struct task *t, uint64_t *unblocked)
{
    if (t->state == TASK_SCHEDULED)
        *unblocked |= lane_bit(task_lane(t));
}

/* ---- OP_OPEN ---- */

static size_t memory_open_count_new(const struct store_memory *s, const struct op_open *op)
{
    size_t n = 0;
    for (size_t i = 0; i < op->n; i++)
        n += !table_get(&s->table, op->rows[i].task.id);
    return n;
}

static enum err memory_open_check(const struct store_memory *s, const struct op_open *op, struct error *e)
{
    const struct run_row *root = memory_run_find(s, op->root);
    if (!root && op->begin && uuid_eq(op->begin->run, op->root))
        root = op->begin;
    if (root && root->tasks + (int64_t)memory_open_count_new(s, op) > RUN_TASKS_MAX)
        return open_too_many(e);
    for (size_t i = 0; i < op->also_count; i++) {
        const struct task *p = table_get(&s->table, op->also[i]);
        if (dependency_check(p, p != NULL, &(struct dependency){ op->also[i], op->end_type }, i, op->tenant, e))
            return e->code;
    }
    return ERR_OK;
}

static void memory_open_row(struct store_memory *s, struct op_open *op, const struct open_row *row, bool paused)
{
    const struct task *there = table_get(&s->table, row->task.id);
    struct task next = open_row_task(row, paused, there ? there->fence : 0);
    if (there && !open_replaces(op, row, there->state, there->created_ms))
        return;
    if (there) {
        memory_output_drop(s, there);
        memory_left_drop(s, there->id);
        if (row->drops_signals)
            memory_signals_drop(s, next.run, row->signal);
    }
    memory_add_lane(&next, &op->ret_unblocked_lanes);
    memory_open_row_edges(s, row);
    table_put(&s->table, &next);
    if (row->has_output)
        memory_output_keep(s, &next, row->output);
}

static void memory_open_rows(struct store_memory *s, struct op_open *op)
{
    const struct run_row *r = memory_run_find(s, op->run);
    struct run_row *root = memory_run_find(s, op->root);
    if (root)
        root->tasks += (int64_t)memory_open_count_new(s, op);
    for (size_t i = 0; i < op->n; i++) {
        memory_open_row(s, op, &op->rows[i], r && r->paused);
        if (op->rows[i].ends)
            (void)memory_end_edge(s, op->rows[i].task.id, op->id, op->end_type);
    }
    for (size_t i = 0; i < op->also_count; i++) {
        if (memory_end_edge(s, op->also[i], op->id, op->end_type))
            memory_join_expect_more(s, op->id);
        memory_mark_parent(s, op->also[i]);
    }
}

/* The task as it is after the page. */
static void memory_open_task(struct store_memory *s, struct op_open *op)
{
    struct task next = *table_get(&s->table, op->id);
    struct open_join join = memory_open_join(s, op->id);
    open_apply(&next, op, &join);
    memory_add_lane(&next, &op->ret_unblocked_lanes);
    table_put(&s->table, &next);
}

enum err memory_open(struct store_memory *s, struct op *base)
{
    struct op_open *op = container_of(base, struct op_open, op);
    if (memory_fence_check(s, op->id, op->fence, &base->error))
        return base->error.code;
    op->ret_unblocked_lanes = 0;
    const struct run_row *outer = memory_run_find(s, op->outer);
    op->ret_stopped = open_is_stopped(op, memory_run_find(s, op->run), outer, table_get(&s->table, op->id)->links);
    op->ret_arrivals_left = !op->ret_stopped && open_asks_arrivals(op) && memory_run_is_left(s, op->run);
    if (op->ret_stopped || op->ret_arrivals_left)
        return ERR_OK;
    if (memory_open_check(s, op, &base->error))
        return base->error.code;
    if (op->begin)
        memory_run_begin(s, op, outer, table_get(&s->table, op->id)->links);
    if (open_begins(op, table_get(&s->table, op->id)->links))
        memory_join_restart(s, op->id, op->expected, op->max_broken);
    memory_open_rows(s, op);
    memory_open_task(s, op);
    return ERR_OK;
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

/* ---- OP_STOP ---- */

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

static void memory_stop_steps(struct store_memory *s, const struct picks *steps, struct op_stop *op)
{
    struct slot_keys keys;
    bool left = false;
    slot_keys_init(&keys);
    op->ret_more = false;
    for (size_t i = 0; i < steps->n; i++) {
        struct task next = *steps->v[i];
        if (!(stop_states(op->change, stop_finds_planned(next.links, next.place)) >> next.state & 1))
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
    memory_run_stop(r, op, run ? run->links : 0);
    memory_stop_steps(s, &steps, op);
    if (op->change == RUN_CANCEL && !op->has_range && !op->ret_more)
        memory_stop_run(s, op);
    memory_stop_answer(s, op);
    memory_idempotency_put(s, op->idempotency);
    return ERR_OK;
}

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
    if (memory_task_runs(s, id, fence))
        return ERR_OK;
    error_set(e, ERR_CONFLICT, "the task does not run under this claim any more");
    return error_in(e, "fence");
}

static void memory_add_lane(const struct task *t, uint64_t *unblocked)
{
    if (t->state == TASK_SCHEDULED)
        *unblocked |= lane_bit(task_lane(t));
}

/* ---- OP_OPEN ---- */

static bool memory_open_is_stopped(const struct store_memory *s, const struct op_open *op)
{
    const struct run_row *r = memory_run_find(s, op->run);
    return r && r->stop != RUN_GOES_ON && !op->despite_stop && !(op->begin && op->again);
}

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
    if (root && root->tasks + (int64_t)memory_open_count_new(s, op) > RUN_TASKS_MAX) {
        error_set(e, ERR_LIMIT, "the run would have more than %d tasks", RUN_TASKS_MAX);
        return error_in(e, "tasks");
    }
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
    struct task next = row->task;
    if (there && !(op->again && task_is_final(there->state)))
        return;
    if (there) {
        next.fence = max_of(next.fence, there->fence);
        memory_output_drop(s, there);
        memory_left_drop(s, there->id);
        if (row->drops_signals)
            memory_signals_drop(s, next.run, row->signal);
    }
    if (paused && (next.state == TASK_SCHEDULED || next.state == TASK_BLOCKED))
        next.state = TASK_PAUSED;
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
    for (size_t i = 0; i < op->also_count; i++)
        if (memory_end_edge(s, op->also[i], op->id, op->end_type))
            memory_join_expect_more(s, op->id);
}

/* The task as it is after the page. */
static void memory_open_task(struct store_memory *s, struct op_open *op)
{
    struct task next = *table_get(&s->table, op->id);
    if (op->first)
        next.links |= TASK_OPENED;
    if (op->last) {
        next.links &= op->again ? ~TASK_AGAIN : ~0;
        next.links |= TASK_OPEN | TASK_WAITS;
        next.claim = (struct uuid){ 0 };
        next.started_ms = next.started_ms ? next.started_ms : op->now_ms;
        next.updated_ms = op->now_ms;
        if (memory_join_decide(&s->joins, &next) != FLOW_WAIT)
            dependency_apply(&next, FLOW_START, (struct str){ 0 }, op->now_ms);
    }
    memory_add_lane(&next, &op->ret_unblocked_lanes);
    table_put(&s->table, &next);
}

enum err memory_open(struct store_memory *s, struct op *base)
{
    struct op_open *op = container_of(base, struct op_open, op);
    if (memory_fence_check(s, op->id, op->fence, &base->error))
        return base->error.code;
    op->ret_unblocked_lanes = 0;
    op->ret_stopped = memory_open_is_stopped(s, op);
    if (op->ret_stopped)
        return ERR_OK;
    if (memory_open_check(s, op, &base->error))
        return base->error.code;
    if (op->begin)
        memory_run_begin(s, op->begin, op->again);
    if (op->first && (op->again || !(table_get(&s->table, op->id)->links & TASK_OPENED)))
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
    next.links |= TASK_AWAITS;
    next.claim = (struct uuid){ 0 };
    next.started_ms = next.started_ms ? next.started_ms : op->now_ms;
    next.updated_ms = op->now_ms;
    if (memory_signals_count(s, next.run, op->signal, NULL) > op->seen) {
        next.state = TASK_SCHEDULED;
        task_set_due(&next, op->now_ms);
    } else {
        next.state = r && r->paused ? TASK_PAUSED : op->timeout_ms ? TASK_SCHEDULED : TASK_BLOCKED;
        task_set_due(&next, op->timeout_ms ? next.started_ms + op->timeout_ms : 0);
    }
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
    for (size_t i = 0; i < p.n; i++)
        if (!op->has_range || (p.v[i]->place >= op->from && p.v[i]->place <= op->to))
            p.v[n++] = p.v[i];
    p.n = n;
    return p;
}

static void memory_stop_row(struct run_row *r, const struct op_stop *op)
{
    if (op->change == RUN_CANCEL)
        memory_run_stop(r, op->stop, op->why);
    if (op->change == RUN_PAUSE || op->change == RUN_RESUME)
        r->paused = op->change == RUN_PAUSE;
}

static bool memory_stop_changes(const struct op_stop *op, const struct task *t)
{
    bool waits = t->state == TASK_SCHEDULED || t->state == TASK_BLOCKED;
    switch (op->change) {
    case RUN_CANCEL:
    case RUN_CLOSE: return waits || t->state == TASK_PAUSED;
    case RUN_PAUSE: return waits;
    case RUN_RESUME: return t->state == TASK_PAUSED;
    }
    __builtin_unreachable();
}

static void memory_stop_task(struct task *t, const struct op_stop *op)
{
    bool blocks = t->links & TASK_WAITS || (t->links & TASK_AWAITS && t->due_ms == 0);
    t->updated_ms = op->now_ms;
    switch (op->change) {
    case RUN_CANCEL:
    case RUN_CLOSE:
        t->state = TASK_CANCELLED;
        t->links &= ~TASK_WAITS;
        t->completed_ms = op->now_ms;
        t->last_error = op->why;
        break;
    case RUN_PAUSE: t->state = TASK_PAUSED; break;
    case RUN_RESUME: t->state = blocks ? TASK_BLOCKED : TASK_SCHEDULED; break;
    }
}

/* What the caller has to stop itself. False: no room. */
static bool memory_stop_answer(const struct picks *steps, struct op_stop *op)
{
    op->ret_running = arena_array(&op->op.arena, struct fenced_id, OPEN_ROWS_MAX);
    op->ret_runs = arena_array(&op->op.arena, struct uuid, steps->n + 1);
    op->ret_running_count = op->ret_run_count = op->ret_changed = 0;
    if (!op->ret_running || !op->ret_runs)
        return false;
    for (size_t i = 0; i < steps->n; i++) {
        const struct task *t = steps->v[i];
        if (t->links & TASK_OPEN && t->target == TARGET_WORKFLOW)
            op->ret_runs[op->ret_run_count++] = t->id;
        else if (t->state == TASK_RUNNING && op->ret_running_count < OPEN_ROWS_MAX)
            op->ret_running[op->ret_running_count++] = (struct fenced_id){ t->id, t->fence };
    }
    return true;
}

static void memory_stop_steps(struct store_memory *s, const struct picks *steps, struct op_stop *op)
{
    struct slot_keys keys;
    slot_keys_init(&keys);
    op->ret_more = false;
    for (size_t i = 0; i < steps->n; i++) {
        struct task next = *steps->v[i];
        if (!memory_stop_changes(op, &next))
            continue;
        op->ret_more = op->ret_changed == op->max;
        if (op->ret_more)
            break;
        memory_stop_task(&next, op);
        if (task_is_final(next.state) && next.links & TASK_HAS_CHILDREN)
            memory_left_add(&s->joins, (struct memory_arrival){ next.id, dependency_outcome(next.state, next.links) });
        memory_add_lane(&next, &op->ret_unblocked_lanes);
        memory_change_row(&s->table, &next, true, &keys);
        op->ret_changed++;
    }
    memory_hand_over(&s->table, &keys, &op->ret_unblocked_lanes);
    slot_keys_release(&keys);
}

/* Nothing of the run waits any more: who claims it decides how it ends. */
static void memory_stop_run(struct store_memory *s, struct op_stop *op)
{
    const struct task *t = table_get(&s->table, op->run);
    if (!t || !(t->links & TASK_OPEN))
        return;
    struct task next = *t;
    dependency_apply(&next, FLOW_START, (struct str){ 0 }, op->now_ms);
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
        return memory_not_found("run", &base->error);
    cleanup_with(picks_release) struct picks steps = memory_stop_range(s, op);
    if (!memory_stop_answer(&steps, op))
        return memory_no_room(&base->error);
    op->ret_unblocked_lanes = 0;
    if (!op->has_range)
        memory_stop_row(r, op);
    memory_stop_steps(s, &steps, op);
    if (op->change == RUN_CANCEL && !op->has_range && !op->ret_more)
        memory_stop_run(s, op);
    memory_idempotency_put(s, op->idempotency);
    return ERR_OK;
}

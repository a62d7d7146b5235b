/* Runs of workflows, as port/store/runs.h says: OP_OPEN. Whether a join is decided is found by looking at all its edges
 * (joins.c). */
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

enum err memory_fence_check(const struct store_memory *s, struct uuid id, int64_t fence, struct error *e)
{
    return memory_task_runs(s, id, fence) ? ERR_OK : recall_too_late(e);
}

void memory_add_lane(const struct task *t, uint64_t *unblocked)
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

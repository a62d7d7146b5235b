/* OP_RECURRING and OP_SPAWN. */
#include "model/internal.h"

/* Which times from their cursors on have rows. */
static enum err memory_recurring_taken(struct store_memory *s, struct op_recurring *op, struct error *e)
{
    struct spawn_taken *taken = arena_array(&op->op.arena, struct spawn_taken, op->ret.n);
    if (!taken)
        return error_set(e, ERR_LIMIT, "the answer is larger than the memory set aside for it");
    for (size_t i = 0; i < op->ret.n; i++) {
        struct taken_rows rows;
        bool reads = taken_rows_begin(&rows, op, &op->ret.v[i], &op->op.arena);
        const struct order *ids = &s->table.by_id;
        for (size_t j = 0; reads && j < order_count(ids) && rows.rows < TAKEN_MAX; j++) {
            const struct task *t = task_at(ids, j);
            bool wanted = t->kind == TASK_OCCURRENCE && uuid_eq(t->parent, op->ret.v[i].id);
            if (wanted && uuid_cmp(t->id, rows.from) >= 0 && taken_rows_add(&rows, t, e))
                return e->code;
        }
        taken[i] = taken_rows_end(&rows);
    }
    op->ret_taken = taken;
    return ERR_OK;
}

enum err memory_recurring(struct store_memory *s, struct op *base)
{
    struct op_recurring *op = op_as(struct op_recurring, base);
    const struct order *o = &s->table.recurring;
    cleanup_with(picks_release) struct picks p = { 0 };
    size_t i = order_find(o, op->after_cursor_ms, op->after_id);
    if (order_get(o, op->after_cursor_ms, op->after_id))
        i++;
    int64_t next_ms = INT64_MAX;
    for (; i < order_count(o) && order_at(o, i)->key < next_ms; i++) {
        const struct task *t = task_at(o, i);
        if (p.n < op->max && recurring_gives(op, t->id, t->cursor_ms))
            picks_add(&p, t);
        else
            next_ms = min_of(next_ms, recurring_counts_as(op, t->id, t->cursor_ms));
    }
    if (picks_copy(&p, &base->arena, &op->ret, &base->error))
        return base->error.code;
    op->ret_next_ms = next_ms;
    return memory_recurring_taken(s, op, &base->error);
}

enum err memory_spawn(struct store_memory *s, struct op *base)
{
    struct op_spawn *op = op_as(struct op_spawn, base);
    const struct spawn_plan *plan = op->plan;
    const struct task *t = table_get(&s->table, op->id);
    if (!t || t->kind != TASK_RECURRING || t->state != TASK_SCHEDULED || t->version != op->version ||
        t->cursor_ms != op->cursor_ms)
        return error_set(&base->error, ERR_CONFLICT, "the recurring task has changed since");
    struct task next = *t;
    next.cursor_ms = plan->cursor_ms;
    next.runs_count += plan->runs;
    next.skipped_count += plan->skipped;
    for (size_t i = 0; i < plan->occurrences.n; i++)
        if (table_get(&s->table, plan->occurrences.v[i].id))
            next.skipped_count -= plan->occurrences.v[i].skipped_count;
    if (plan->ended) {
        next.state = TASK_COMPLETED;
        next.updated_ms = next.completed_ms = op->now_ms;
    }
    table_put(&s->table, &next);
    for (size_t i = 0; i < plan->occurrences.n; i++)
        memory_insert_absent(s, &plan->occurrences.v[i]);
    return ERR_OK;
}

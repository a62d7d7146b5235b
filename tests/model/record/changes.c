/* Changes that are told (port/store/changes.h), found by comparing the rows that an operation has touched with what they
 * were before. */
#include <stdlib.h>

#include "model/internal.h"

void memory_changes_begin_op(struct store_memory *s, const struct op *op)
{
    changes_begin_op(&s->base, op);
    s->table.touched = s->base.changes ? &s->touched : NULL;
    s->touched.n = 0;
}

/* Whether a row that the operation has inserted is told (rule 3). */
static bool memory_tells_new(const struct op *base, struct uuid id)
{
    const struct op_insert *op = (const struct op_insert *)base;
    if (base->kind == OP_OPEN)
        return true;
    for (size_t i = 0; base->kind == OP_INSERT && op->depends && i < op->count; i++)
        if (uuid_eq(op->tasks[i].id, id))
            return op->depends[i].n > 0;
    return false;
}

/* A settlement changes a task that is RUNNING under a claim, and nothing else does. */
static bool memory_is_settled(const struct op *op, const struct touched_row *was)
{
    return op->kind == OP_SETTLE && was->state == TASK_RUNNING && !(was->links & TASK_OPEN);
}

/* Rules 2 and 4. */
static int memory_state_before(const struct op *base, const struct touched_row *was)
{
    const struct op_open *open = (const struct op_open *)base;
    const struct op_put *put = (const struct op_put *)base;
    if (was->state == CHANGE_NEW)
        return CHANGE_NEW;
    if (base->kind == OP_OPEN && uuid_eq(open->id, was->id))
        return open_starts(open, was->links) ? TASK_SCHEDULED : TASK_RUNNING;
    if (base->kind == OP_AWAIT)
        return was->links & TASK_AWAITS ? TASK_BLOCKED : TASK_SCHEDULED;
    if (base->kind == OP_PUT && uuid_eq(put->task->id, was->id))
        return (int)put->ret_state;
    return (int)change_state((enum task_state)was->state, was->links);
}

static enum task_state memory_state_after(const struct op *base, const struct task *t)
{
    const struct op_put *put = (const struct op_put *)base;
    bool is_named = base->kind == OP_PUT && uuid_eq(put->task->id, t->id);
    enum task_state state = is_named ? t->state : change_state(t->state, t->links);
    bool is_opened = t->links & TASK_OPENED && !(t->links & TASK_AGAIN);
    return base->kind == OP_CLAIM && state == TASK_RUNNING && !is_opened ? TASK_SCHEDULED : state;
}

void memory_changes_end_op(struct store_memory *s, const struct op *op)
{
    s->table.touched = NULL;
    for (size_t i = 0; s->base.changes && op->rc == ERR_OK && i < s->touched.n; i++) {
        const struct touched_row *was = &s->touched.v[i];
        const struct task *t = table_get(&s->table, was->id);
        bool is_new = was->state == CHANGE_NEW;
        if (t && !memory_is_settled(op, was) && (!is_new || memory_tells_new(op, was->id)))
            change_add(&s->base, was->id, memory_state_before(op, was), memory_state_after(op, t));
    }
}

void memory_changes_read(struct store_memory *s)
{
    struct change_list *l = s->base.changes;
    for (size_t i = 0; l && i < l->n; i++) {
        struct task_change *c = &l->v[i];
        const struct task *t = table_get(&s->table, c->task.id);
        if (!t)
            continue;
        c->task = (struct task){ .id = t->id,
                                 .tenant = t->tenant,
                                 .kind = t->kind,
                                 .parent = t->parent,
                                 .run = t->run,
                                 .queue = change_text(l, t->queue),
                                 .attempts = t->attempts,
                                 .fence = t->fence,
                                 .trace = change_text(l, t->trace) };
        if (change_has_reason(c))
            c->task.last_error = change_text(l, t->last_error);
    }
}

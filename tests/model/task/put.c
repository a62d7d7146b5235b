/* OP_PUT. */
#include "model/internal.h"

static bool memory_put_withdraws(const struct op_put *op, const struct task *t)
{
    bool waits = t->state == TASK_SCHEDULED || t->state == TASK_BLOCKED || t->state == TASK_PAUSED;
    bool ends = !task_has_fired(t) || (put_ends_fired(op) && !(t->links & TASK_OPENED));
    return op->withdraw && op->task->kind == TASK_RECURRING && t->kind == TASK_OCCURRENCE &&
           uuid_eq(t->parent, op->task->id) && waits && ends && (t->runs_count || !put_keeps_requested(op));
}

static enum err memory_put_check(const struct store_memory *s, const struct op_put *op, struct dedupe_taking *keys,
                                 struct error *e)
{
    const struct task *t = table_get(&s->table, op->task->id);
    if (!t || t->deleted || t->tenant != op->task->tenant)
        return error_set(e, ERR_NOT_FOUND, "there is no such task");
    bool moved = t->kind == TASK_RECURRING && t->cursor_ms != op->cursor_ms;
    if (t->version != op->version || t->fence != op->fence || t->state != op->state || moved) {
        error_set(e, ERR_CONFLICT, "the task has changed since");
        return error_in(e, t->version != op->version ? "version" : "state");
    }
    if (dependency_ends_anew(t->state, t->links, op->task->state) && memory_is_left(s, t->id))
        return dependency_is_left(e);
    if (memory_calendar_check(s, op->task, e))
        return e->code;
    const struct task *there = op->also ? table_get(&s->table, op->also->id) : NULL;
    if (there && memory_put_withdraws(op, there) && !put_cancels(op, there))
        there = NULL;
    if (there && there->created_ms != op->also->created_ms)
        return memory_id_conflict(op->also, e);
    if (!op->also || there)
        return ERR_OK;
    if (dedupe_take(keys, op->also, (struct uuid){ 0 }, e))
        return e->code;
    struct op_insert also = { .tasks = op->also, .count = 1, .max_pending = op->max_pending };
    return memory_limits_check(s, &also, e);
}

/* It was due or requested by a user, and stays as cancelled. */
static void memory_put_cancel(struct store_memory *s, const struct op_put *op, const struct task *t,
                              struct slot_keys *keys)
{
    struct task next = *t;
    next.state = TASK_CANCELLED;
    next.waits_for = (struct str){ 0 };
    next.updated_ms = next.completed_ms = op->task->updated_ms;
    next.last_error = put_cancel_reason(op->task);
    next.runs_count = task_has_fired(t) ? t->runs_count : 0;
    memory_change_row(&s->table, &next, false, keys);
}

/* Deletes or cancels the withdrawn occurrences; returns the new cursor. */
static int64_t memory_put_withdraw(struct store_memory *s, struct op_put *op, int64_t *ret_runs, struct slot_keys *keys)
{
    cleanup_with(picks_release) struct picks p = { 0 };
    for (size_t i = 0; op->withdraw && i < order_count(&s->table.by_id); i++)
        if (memory_put_withdraws(op, task_at(&s->table.by_id, i)))
            picks_add(&p, task_at(&s->table.by_id, i));
    int64_t cursor_ms = op->task->cursor_ms, spread_ms = schedule_spread(&op->task->schedule, op->task->id);
    for (size_t i = 0; i < p.n; i++) {
        int64_t at_ms = p.v[i]->scheduled_ms + spread_ms;
        *ret_runs += task_has_fired(p.v[i]) ? 0 : p.v[i]->runs_count;
        if (put_cancels(op, p.v[i])) {
            memory_put_cancel(s, op, p.v[i], keys);
            continue;
        }
        if (at_ms >= op->withdraw_from_ms)
            cursor_ms = min_of(cursor_ms, at_ms);
        memory_drop_row(&s->table, p.v[i]->id, keys);
    }
    op->ret_withdrawn = p.n;
    return cursor_ms;
}

static void memory_put_cut(struct store_memory *s, struct op_put *op, struct slot_keys *keys)
{
    op->ret_cut = 0;
    for (size_t i = 0; i < op->cut_count; i++) {
        const struct spawn_cut *c = &op->cuts[i];
        const struct task *t = table_get(&s->table, c->id);
        if (!t || !uuid_eq(t->parent, op->task->id) || t->kind != TASK_OCCURRENCE || t->state != TASK_SKIPPED ||
            t->skipped_count != c->count_was || !put_cut_applies(op, c))
            continue;
        if (put_cut_deletes(op, c)) {
            memory_drop_row(&s->table, c->id, keys);
            continue;
        }
        struct task left = *t;
        left.cursor_ms = c->last_ms;
        left.skipped_count = c->count;
        left.last_error = c->error;
        table_put(&s->table, &left);
    }
}

enum err memory_put(struct store_memory *s, struct op *base)
{
    struct op_put *op = op_as(struct op_put, base);
    cleanup_with(dedupe_release) struct dedupe_taking dedupe = dedupe_begin(s, op->task);
    if (memory_idempotency_check(s, op->idempotency, &base->error) || memory_put_check(s, op, &dedupe, &base->error))
        return base->error.code;
    struct task next = *op->task;
    const struct task *was = table_get(&s->table, next.id);
    char why[DEPENDENCY_REASON_MAX];
    next.last_run_ms = max_of(next.last_run_ms, was->last_run_ms);
    if (next.kind == TASK_RECURRING) {
        next.runs_count = was->runs_count;
        next.skipped_count = was->skipped_count;
    }
    dependency_tidy(&next, was->links);
    if (op->depends && memory_depends_change(s, op->depends, &next, why, &base->error))
        return base->error.code;
    int64_t runs = 0;
    struct slot_keys keys;
    slot_keys_init(&keys);
    next.cursor_ms = op->ret_cursor_ms = memory_put_withdraw(s, op, &runs, &keys);
    next.runs_count = max_of(next.runs_count - runs, 0);
    memory_put_cut(s, op, &keys);
    next.skipped_count = max_of(next.skipped_count - op->ret_cut, 0);
    if (next.state == TASK_CANCELLED || next.state == TASK_EXPIRED)
        memory_uncount_run(&s->table, &next, next.parent, next.state == TASK_EXPIRED);
    if (!uuid_eq(was->claim, next.claim))
        memory_lease_leave(s, next.id);
    if (put_resumes_run(was->state, &next))
        memory_run_resume(s, next.id);
    if (op->task->links & TASK_NEW_INPUT)
        memory_signals_drop(s, next.id, S(""));
    memory_change_row(&s->table, &next, true, &keys);
    op->ret_state = table_get(&s->table, next.id)->state;
    struct memory_arrivals arrivals = { .budget = ARRIVALS_MAX };
    memory_arrivals_add(&arrivals, &next);
    if (op->also)
        memory_insert_absent(s, op->also);
    dedupe_keep(&dedupe);
    op->ret_unblocked_lanes = 0;
    memory_hand_over(&s->table, &keys, &op->ret_unblocked_lanes);
    slot_keys_release(&keys);
    memory_arrivals_run(s, &arrivals, next.updated_ms, &op->ret_unblocked_lanes);
    op->ret_arrivals_left = arrivals.left;
    memory_idempotency_put(s, op->idempotency);
    return ERR_OK;
}

#include "store/common/edits.h"

/* ---- OP_PUT ---- */

void put_begin(struct op_put *op)
{
    op->ret_cursor_ms = op->task->cursor_ms;
    op->ret_withdrawn = 0;
    op->ret_cut = 0;
    op->ret_unblocked_lanes = 0;
    op->ret_arrivals_left = false;
}

enum err put_check(const struct op_put *op, const struct put_guard *g, struct error *e)
{
    if (!g->found || g->deleted || g->tenant != op->task->tenant)
        return error_set(e, ERR_NOT_FOUND, "there is no such task");
    bool moved = g->kind == TASK_RECURRING && g->cursor_ms != op->cursor_ms;
    if (g->version == op->version && g->fence == op->fence && g->state == op->state && !moved)
        return ERR_OK;
    (void)error_set(e, ERR_CONFLICT, "the task has changed since");
    return error_in(e, g->version != op->version ? "version" : "state");
}

bool put_withdraws(const struct op_put *op)
{
    return op->withdraw && op->task->kind == TASK_RECURRING;
}

bool put_withdraw(struct op_put *op, const struct task *occurrence, int64_t *runs)
{
    int64_t at_ms = occurrence->scheduled_ms + schedule_spread(&op->task->schedule, op->task->id);
    bool cancels = put_cancels(op, occurrence);
    *runs += task_has_fired(occurrence) ? 0 : occurrence->runs_count;
    if (!cancels && at_ms >= op->withdraw_from_ms)
        op->ret_cursor_ms = min_of(op->ret_cursor_ms, at_ms);
    op->ret_withdrawn++;
    return cancels;
}

struct task put_next(const struct op_put *op, const struct put_guard *g, int64_t runs)
{
    struct task next = *op->task;
    next.cursor_ms = op->ret_cursor_ms;
    next.last_run_ms = max_of(next.last_run_ms, g->last_run_ms);
    if (next.kind == TASK_RECURRING) {
        next.runs_count = max_of(g->runs_count - runs, (int64_t)0);
        next.skipped_count = max_of(g->skipped_count - op->ret_cut, (int64_t)0);
    }
    dependency_tidy(&next, g->links);
    return next;
}

/* ---- OP_CATALOG ---- */

enum err catalog_check(const struct catalog_change *c, int64_t version, struct error *e)
{
    if (!version && (c->remove || c->version > 0))
        return error_set(e, ERR_NOT_FOUND, "there is no such entry");
    if (c->version == -1 || c->version == version)
        return ERR_OK;
    (void)error_set(e, ERR_CONFLICT, "the entry has changed since");
    return error_in(e, "version");
}

/* ---- OP_CATCH_UP ---- */

enum catch_up_fate catch_up_visit(struct catch_up_scan *m, const struct task *occurrence, bool holds_slot)
{
    enum spawned how = spawned_how(occurrence, holds_slot);
    if (how != SPAWNED_AHEAD)
        return how == SPAWNED_FOR_GOOD ? CATCH_UP_END : CATCH_UP_PASSED;
    m->ahead++;
    if (spawned_was_missed(occurrence, &m->schedule, m->before_ms)) {
        m->n = m->ahead;
        m->first_ms = occurrence->scheduled_ms;
    }
    if (m->schedule.catch_up != CATCH_UP_ALL || m->ahead <= CATCH_UP_ALL_MAX)
        return CATCH_UP_AHEAD;
    m->n = 0;
    return CATCH_UP_END;
}

int64_t catch_up_cursor(const struct catch_up_scan *m)
{
    return m->first_ms + schedule_spread(&m->schedule, m->id);
}

/* OP_PUT.
 *
 * A change locks the task's row. If it withdraws occurrences that were spawned ahead, it locks the recurring task's row
 * first, then the occurrences' rows in the order of their ids. So does the cancellation of one
 * occurrence. The locks of slots come before all rows, as far as they are known: a settle that hands a slot over has
 * the slot's lock and then locks the row of the waiting task. A tenant's lock comes before all rows, too: later, two
 * transactions that add runs of the same recurring tasks could each have a row that the other one needs. */
#include <assert.h>
#include <stdlib.h>

#include "store/common/edits.h"
#include "store/postgres/sharing/slots.h"

static_assert(TASK_OPENED == 32, "the next statement names it by number");
/* Occurrences that were claimed while this statement waited for their locks are not among them. */
static const struct pg_statement withdraw_rows = {
    "put_withdraw",
    "SELECT id, tenant_id, state, deleted, scheduled_ms, runs_count, gates IS NOT NULL, waits_for, "
    "due_ms, attempts, losses, started_ms FROM tasks "
    "WHERE parent_id = $1 AND state < " SQL_RUNNING " AND kind = 2 AND (" SQL_NEVER_FIRED
    " OR ($3 AND links & 32 = 0)) "
    "AND (runs_count > 0 OR NOT $2) ORDER BY id FOR UPDATE",
};
enum {
    W_ID,
    W_TENANT,
    W_STATE,
    W_DELETED,
    W_SCHEDULED_MS,
    W_RUNS,
    W_GATED,
    W_WAITS_FOR,
    W_DUE_MS,
    W_ATTEMPTS,
    W_LOSSES,
    W_STARTED_MS
};

static const struct pg_statement withdraw_cancel = {
    "put_withdraw_cancel",
    "UPDATE tasks SET state = " SQL_CANCELLED
    ", waits_for = NULL, updated_ms = $2, completed_ms = $2, last_error = $3, "
    "runs_count = CASE WHEN " SQL_NEVER_FIRED " THEN 0 ELSE runs_count END WHERE id = ANY ($1)",
};
static const struct pg_statement cut_find = {
    "put_cut_find",
    "SELECT deleted FROM tasks WHERE id = $1 AND parent_id = $2 AND kind = 2 AND state = " SQL_SKIPPED
    " AND skipped_count = $3 FOR UPDATE",
};
static const struct pg_statement cut_row = {
    "put_cut",
    "UPDATE tasks SET cursor_ms = $2, skipped_count = $3, last_error = $4 WHERE id = $1",
};
static const struct pg_statement slots_around = {
    "put_slots",
    "SELECT key FROM slots WHERE task_id = $1 "
    "UNION SELECT waits_for FROM tasks WHERE id = $1 AND waits_for IS NOT NULL",
};

/* ---- locks ---- */

static enum err pg_put_lock_tenant(struct store_postgres *s, const struct op_put *op, struct error *e)
{
    return op->max_pending ? pg_limits_lock_tenant(s, op->also->tenant, e) : ERR_OK;
}

/* The overlap slot of the task's occurrences: a claim that skips an occurrence has this slot's lock and then locks the
 * recurring task's row. */
static enum err pg_put_lock_occurrence_slot(struct store_postgres *s, const struct task *t, struct error *e)
{
    struct slot_need needs[SLOTS_MAX];
    struct task any = { .kind = TASK_OCCURRENCE, .parent = t->id, .overlap = OVERLAP_SKIP };
    size_t n = slot_needs(&any, needs);
    assert(n == 1);
    return pg_slots_lock(s, &needs[0].key, n, e);
}

/* The slots that the task holds or waits for. They may still change before its row is locked: then the others are
 * locked later. */
static enum err pg_put_lock_task_slots(struct store_postgres *s, const struct task *t, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct str keys[SLOTS_MAX + 1];
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, t->id);
    if (pg_run(&s->conn, &slots_around, &s->params, &r, e))
        return e->code;
    size_t n = min_of((size_t)r.rows, array_count(keys));
    for (size_t i = 0; i < n; i++)
        keys[i] = pg_text(&r, (int)i, 0);
    return pg_slots_lock(s, keys, n, e);
}

static enum err pg_put_lock_slots(struct store_postgres *s, const struct op_put *op, struct error *e)
{
    struct slot_need needs[SLOTS_MAX];
    if (put_withdraws(op))
        return pg_put_lock_occurrence_slot(s, op->task, e);
    if (op->state == TASK_BLOCKED || slot_needs(op->task, needs) > 0)
        return pg_put_lock_task_slots(s, op->task, e);
    return ERR_OK;
}

/* The parent's row before the occurrence's, as a change of the parent locks them. */
static enum err pg_put_lock_parent(struct store_postgres *s, const struct op_put *op, struct error *e)
{
    return task_is_called_off(op->task) ? pg_lock_parents(s, &op->task->parent, 1, e) : ERR_OK;
}

/* ---- withdrawing occurrences ---- */

/* Releases the slots that the withdrawn tasks hold, and removes them from the lines that they wait in. */
static enum err pg_put_free_withdrawn(struct store_postgres *s, const struct pg_result *r, const struct uuid *ids,
                                      struct slot_keys *keys, struct error *e)
{
    for (int i = 0; i < r->rows; i++) {
        struct str line = pg_text(r, i, W_WAITS_FOR);
        if (line.n) {
            slot_keys_add(keys, line);
            pg_slot_state(s, line)->is_loaded = false;
        }
        if (pg_bool(r, i, W_GATED) && pg_slots_release(s, &ids[i], NULL, keys, e))
            return e->code;
    }
    return ERR_OK;
}

static enum err pg_put_prefetch_slots(struct store_postgres *s, const struct pg_result *r, struct error *e)
{
    struct uuid *gated = xcalloc((size_t)r->rows + 1, sizeof *gated);
    size_t n = 0;
    for (int i = 0; i < r->rows; i++)
        if (pg_bool(r, i, W_GATED))
            gated[n++] = pg_uuid(r, i, W_ID);
    enum err rc = pg_slots_prefetch(s, gated, n, e);
    free(gated);
    return rc;
}

static enum err pg_put_cancel_withdrawn(struct store_postgres *s, const struct task *recurring, const struct uuid *ids,
                                        size_t n, struct error *e)
{
    if (n == 0)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_ids(&s->params, ids, n);
    pg_add_i64(&s->params, recurring->updated_ms);
    pg_add_text(&s->params, put_cancel_reason(recurring));
    for (size_t i = 0; i < n; i++)
        pg_note_ended(s, ids[i], TASK_CANCELLED, recurring->updated_ms);
    return pg_queue(&s->conn, &withdraw_cancel, &s->params, e);
}

static struct task pg_put_withdrawn(const struct pg_result *r, int i)
{
    return (struct task){ .id = pg_uuid(r, i, W_ID),
                          .tenant = (int32_t)pg_i64(r, i, W_TENANT),
                          .state = (enum task_state)pg_i64(r, i, W_STATE),
                          .deleted = pg_bool(r, i, W_DELETED),
                          .scheduled_ms = pg_i64(r, i, W_SCHEDULED_MS),
                          .due_ms = pg_i64(r, i, W_DUE_MS),
                          .attempts = (int)pg_i64(r, i, W_ATTEMPTS),
                          .losses = (int)pg_i64(r, i, W_LOSSES),
                          .started_ms = pg_i64(r, i, W_STARTED_MS),
                          .runs_count = pg_i64(r, i, W_RUNS) };
}

static enum err pg_put_remove_withdrawn(struct store_postgres *s, struct op_put *op, const struct pg_result *r,
                                        int64_t *runs, struct slot_keys *keys, struct error *e)
{
    size_t all = (size_t)r->rows, cancelled = 0, deleted = 0;
    struct uuid *ids = xcalloc(3 * all + 1, sizeof *ids), *cancels = ids + all, *deletes = cancels + all;
    for (int i = 0; i < r->rows; i++) {
        struct task t = pg_put_withdrawn(r, i);
        ids[i] = t.id;
        if (put_withdraw(op, &t, runs)) {
            cancels[cancelled++] = t.id;
            change_add(&s->base, t.id, (int)t.state, TASK_CANCELLED);
            pg_tally_move(s, t.tenant, t.deleted, t.state, TASK_CANCELLED);
        } else {
            deletes[deleted++] = t.id;
            pg_tally_new(s, t.tenant, t.deleted, t.state, -1);
        }
    }
    enum err rc = pg_put_prefetch_slots(s, r, e);
    rc = rc ? rc : pg_put_cancel_withdrawn(s, op->task, cancels, cancelled, e);
    rc = rc ? rc : pg_delete_rows(s, deletes, deleted, e);
    rc = rc ? rc : pg_put_free_withdrawn(s, r, ids, keys, e);
    free(ids);
    return rc;
}

static enum err pg_put_withdraw(struct store_postgres *s, struct op_put *op, int64_t *runs, struct slot_keys *keys,
                                struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (!put_withdraws(op))
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, op->task->id);
    pg_add_bool(&s->params, put_keeps_requested(op));
    pg_add_bool(&s->params, put_ends_fired(op));
    if (pg_run(&s->conn, &withdraw_rows, &s->params, &r, e))
        return e->code;
    return pg_put_remove_withdrawn(s, op, &r, runs, keys, e);
}

/* ---- rows of times that the rule left out ---- */

static enum err pg_put_cut_one(struct store_postgres *s, struct op_put *op, const struct spawn_cut *c, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (!put_cut_applies(op, c))
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, c->id);
    pg_add_uuid(&s->params, op->task->id);
    pg_add_i64(&s->params, c->count_was);
    if (pg_run(&s->conn, &cut_find, &s->params, &r, e))
        return e->code;
    if (!r.rows)
        return ERR_OK;
    if (put_cut_deletes(op, c)) {
        pg_tally_new(s, op->task->tenant, pg_bool(&r, 0, 0), TASK_SKIPPED, -1);
        return pg_delete_rows(s, &c->id, 1, e);
    }
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, c->id);
    pg_add_i64(&s->params, c->last_ms);
    pg_add_i64(&s->params, c->count);
    pg_add_text(&s->params, c->error);
    return pg_queue(&s->conn, &cut_row, &s->params, e);
}

static enum err pg_put_cut(struct store_postgres *s, struct op_put *op, struct error *e)
{
    for (size_t i = 0; i < op->cut_count; i++)
        if (pg_put_cut_one(s, op, &op->cuts[i], e))
            return e->code;
    return ERR_OK;
}

/* ---- the operation ---- */

static struct put_guard pg_put_guard(const struct pg_guards *g)
{
    return (struct put_guard){ .found = g->found,
                               .deleted = g->deleted,
                               .tenant = g->tenant,
                               .kind = g->kind,
                               .state = g->state,
                               .version = g->version,
                               .fence = g->fence,
                               .cursor_ms = g->cursor_ms,
                               .last_run_ms = g->last_run_ms,
                               .runs_count = g->runs_count,
                               .skipped_count = g->skipped_count,
                               .links = g->links };
}

static enum err pg_put_insert_also(struct store_postgres *s, const struct op_put *op, struct error *e)
{
    struct op_insert also = {
        .op = { .kind = OP_INSERT }, .tasks = op->also, .count = 1, .max_pending = op->max_pending
    };
    if (!op->also || postgres_insert(s, &also.op) == ERR_OK)
        return ERR_OK;
    *e = also.op.error;
    return e->code;
}

/* The task is as it will be: its children are told if it is final. */
static enum err pg_put_arrive(struct store_postgres *s, struct op_put *op, const struct task *next, struct error *e)
{
    struct join_fold f;
    join_fold_init(&f, &s->joins, next->updated_ms, 0);
    join_fold_add(&f, &next->id, next->state, next->links);
    enum err rc = join_fold_run(&f, e);
    op->ret_unblocked_lanes |= f.unblocked;
    op->ret_arrivals_left = f.left;
    join_fold_release(&f);
    return rc;
}

enum err postgres_put(struct store_postgres *s, struct op *base)
{
    struct op_put *op = (struct op_put *)base;
    struct error *e = &base->error;
    struct pg_guards old;
    int64_t runs = 0;
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    put_begin(op);
    if (pg_idempotency_put(s, op->idempotency, e) || pg_put_lock_slots(s, op, e) || pg_put_lock_tenant(s, op, e) ||
        pg_put_lock_parent(s, op, e) || pg_read_guards(s, &op->task->id, 1, &old, e))
        return e->code;
    struct put_guard g = pg_put_guard(&old);
    if (put_check(op, &g, e) || joins_check_put(&s->joins, op->task, g.state, g.links, e) ||
        pg_calendar_check(s, op->task, e) || pg_put_withdraw(s, op, &runs, &keys, e) || pg_put_cut(s, op, e))
        return e->code;
    struct task next = put_next(op, &g, runs);
    char why[DEPENDENCY_REASON_MAX];
    if (op->depends && joins_change(&s->joins, op->depends, &next, why, e))
        return e->code;
    if (pg_change_task(s, &old, &next, &keys, &op->ret_state, e) || pg_put_insert_also(s, op, e))
        return e->code;
    if (pg_run_resume(s, g.state, &next, e) || pg_run_forget(s, op->task, e) ||
        pg_slots_hand_over(s, &keys, &op->ret_unblocked_lanes, e))
        return e->code;
    return pg_put_arrive(s, op, &next, e);
}

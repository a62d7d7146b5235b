/* OP_CATCH_UP: withdraws occurrences that were spawned ahead and missed.
 *
 * Goes from one recurring task with unclaimed occurrences to the next, and through each task's occurrences from the
 * latest back. Most tasks have missed nothing: one statement without locks shows that for all of them. Only where
 * occurrences are to be withdrawn are rows locked, the recurring task before its occurrences, and checked again: they
 * may have been claimed in between. */
#include <assert.h>
#include <stdlib.h>

#include "core/task/fence.h"
#include "store/common/edits.h"
#include "store/postgres/sharing/slots.h"

enum { LATEST_COUNT = 16, STEP_ROWS = 256 };

static const struct pg_statement waiting_parents = {
    "missed_parents",
    "SELECT DISTINCT parent_id FROM tasks WHERE parent_id > coalesce($1, "
    "'00000000-0000-0000-0000-000000000000') AND state < " SQL_RUNNING " ORDER BY parent_id LIMIT $2",
};

#define POLICY_OF_TASK                                                                                                 \
    "id, tenant_id, (schedule::json->>'catch_up')::int, (schedule::json->>'spread_ms')::bigint, "                      \
    "(schedule::json->>'catch_up_window_ms')::bigint FROM tasks WHERE kind = 1 AND state = " SQL_SCHEDULED " AND "

static const struct pg_statement catch_up = {
    "missed_catch_up",
    "SELECT " POLICY_OF_TASK "id = ANY ($1) ORDER BY id",
};
static const struct pg_statement lock_policy = {
    "missed_lock",
    "SELECT " POLICY_OF_TASK "id = $1 FOR UPDATE",
};

static_assert(1 << FENCE_CLAIM_BITS == 2048, "the next text says fence_is_unclaimed with this number");
/* Whether an occurrence holds a slot matters only if it was never claimed: only then is it read. */
#define OCCURRENCE_OF                                                                                                  \
    "id, state, due_ms, scheduled_ms, version, attempts, losses, started_ms, runs_count, fence, skipped_count, "       \
    "(gates::json->>'overlap')::int AS overlap, gates IS NOT NULL AND fence % 2048 = 0 AND "                           \
    "EXISTS (SELECT 1 FROM slots WHERE task_id = tasks.id) AS holds FROM tasks WHERE kind = 2 AND parent_id = "

/* The latest occurrences of each task. */
static const struct pg_statement read_latest = {
    "missed_look",
    "SELECT p.id AS parent, o.* FROM unnest($1) AS p(id) CROSS JOIN LATERAL (SELECT " OCCURRENCE_OF
    "p.id ORDER BY tasks.id DESC LIMIT $2) AS o ORDER BY p.id, o.id DESC",
};
/* The latest occurrences of one task that have a lower id, locked. */
static const struct pg_statement lock_latest = {
    "missed_lock_ahead",
    "SELECT parent_id, " OCCURRENCE_OF "$1 AND id < $2 ORDER BY id DESC LIMIT $3 FOR UPDATE",
};
enum {
    A_PARENT,
    A_ID,
    A_STATE,
    A_DUE_MS,
    A_SCHEDULED_MS,
    A_VERSION,
    A_ATTEMPTS,
    A_LOSSES,
    A_STARTED_MS,
    A_RUNS,
    A_FENCE,
    A_SKIPPED,
    A_OVERLAP,
    A_HOLDS
};

static const struct pg_statement move_cursor_back = {
    "missed_take_back",
    "UPDATE tasks SET cursor_ms = least(cursor_ms, $2), runs_count = greatest(runs_count - $3, 0) WHERE id = $1",
};

static struct task pg_catch_up_read_occurrence(const struct pg_result *r, int row)
{
    bool has_overlap = !pg_is_null(r, row, A_OVERLAP);
    return (struct task){
        .kind = TASK_OCCURRENCE,
        .parent = pg_uuid(r, row, A_PARENT),
        .id = pg_uuid(r, row, A_ID),
        .state = (enum task_state)pg_i64(r, row, A_STATE),
        .due_ms = pg_i64(r, row, A_DUE_MS),
        .scheduled_ms = pg_i64(r, row, A_SCHEDULED_MS),
        .version = pg_i64(r, row, A_VERSION),
        .attempts = (int)pg_i64(r, row, A_ATTEMPTS),
        .losses = (int)pg_i64(r, row, A_LOSSES),
        .started_ms = pg_i64(r, row, A_STARTED_MS),
        .runs_count = pg_i64(r, row, A_RUNS),
        .fence = pg_i64(r, row, A_FENCE),
        .skipped_count = pg_i64(r, row, A_SKIPPED),
        .overlap = has_overlap ? (enum overlap)pg_i64(r, row, A_OVERLAP) : OVERLAP_ALLOW,
    };
}

static struct catch_up_scan pg_catch_up_read_task(const struct pg_result *r, int row, int64_t before_ms)
{
    return (struct catch_up_scan){ .id = pg_uuid(r, row, 0),
                                   .tenant = (int32_t)pg_i64(r, row, 1),
                                   .schedule = { .catch_up = (enum catch_up)pg_i64(r, row, 2),
                                                 .spread_ms = pg_i64(r, row, 3),
                                                 .catch_up_window_ms = pg_i64(r, row, 4) },
                                   .before_ms = before_ms };
}

/* ---- one recurring task ---- */

/* Occurrences that may be withdrawn, the latest first. */
struct pg_spawned_ahead {
    struct uuid *ids;
    bool *gated; /* whether it may hold slots */
    size_t n, cap;
};

static void pg_spawned_ahead_release(struct pg_spawned_ahead *a)
{
    free(a->ids);
    free(a->gated);
}

static void pg_spawned_ahead_add(struct pg_spawned_ahead *a, const struct task *t)
{
    if (a->n == a->cap) {
        a->cap = a->cap * 2 + STEP_ROWS;
        a->ids = xrealloc(a->ids, a->cap * sizeof *a->ids);
        a->gated = xrealloc(a->gated, a->cap * sizeof *a->gated);
    }
    a->ids[a->n] = t->id;
    /* An occurrence that was never claimed and holds a slot is not withdrawn. */
    a->gated[a->n++] = !fence_is_unclaimed(t->fence);
}

/* Locks and checks the next STEP_ROWS occurrences below *after; sets *after to the last one checked. */
static enum err pg_catch_up_lock_step(struct store_postgres *s, struct catch_up_scan *m, struct uuid *after,
                                      struct pg_spawned_ahead *a, bool *ret_more, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    enum catch_up_fate fate = CATCH_UP_PASSED;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, m->id);
    pg_add_uuid(&s->params, *after);
    pg_add_i64(&s->params, STEP_ROWS);
    if (pg_run(&s->conn, &lock_latest, &s->params, &r, e))
        return e->code;
    for (int i = 0; i < r.rows && fate != CATCH_UP_END; i++) {
        struct task t = pg_catch_up_read_occurrence(&r, i);
        *after = t.id;
        fate = catch_up_visit(m, &t, pg_bool(&r, i, A_HOLDS));
        if (fate == CATCH_UP_AHEAD)
            pg_spawned_ahead_add(a, &t);
    }
    *ret_more = r.rows == STEP_ROWS && fate != CATCH_UP_END;
    return ERR_OK;
}

static enum err pg_catch_up_free_slots(struct store_postgres *s, const struct pg_spawned_ahead *a, size_t n,
                                       struct slot_keys *keys, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if (a->gated[i] && pg_slots_release(s, &a->ids[i], NULL, keys, e))
            return e->code;
    return ERR_OK;
}

static enum err pg_catch_up_write(struct store_postgres *s, const struct catch_up_scan *m,
                                  const struct pg_spawned_ahead *a, struct slot_keys *keys, struct error *e)
{
    if (pg_delete_rows(s, a->ids, m->n, e) || pg_catch_up_free_slots(s, a, m->n, keys, e))
        return e->code;
    pg_tally_new(s, m->tenant, false, TASK_SCHEDULED, -(int64_t)m->n);
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, m->id);
    pg_add_i64(&s->params, catch_up_cursor(m));
    pg_add_i64(&s->params, (int64_t)m->n);
    pg_note_due(s, catch_up_cursor(m));
    return pg_queue(&s->conn, &move_cursor_back, &s->params, e);
}

/* Checks the task again under locks and withdraws what it has missed. */
static enum err pg_catch_up_withdraw(struct store_postgres *s, struct uuid id, struct op_catch_up *op,
                                     struct slot_keys *keys, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    cleanup_with(pg_spawned_ahead_release) struct pg_spawned_ahead a = { 0 };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, id);
    if (pg_run(&s->conn, &lock_policy, &s->params, &r, e))
        return e->code;
    if (r.rows == 0)
        return ERR_OK;
    struct catch_up_scan m = pg_catch_up_read_task(&r, 0, op->before_ms);
    struct uuid after;
    memset(after.b, 255, sizeof after.b);
    for (bool more = true; more;)
        if (pg_catch_up_lock_step(s, &m, &after, &a, &more, e))
            return e->code;
    if (m.n == 0)
        return ERR_OK;
    assert(m.n <= a.n);
    op->ret_withdrawn += m.n;
    return pg_catch_up_write(s, &m, &a, keys, e);
}

/* ---- many recurring tasks ---- */

static void pg_catch_up_add_parents(struct pg_params *p, const struct pg_result *parents, int n)
{
    pg_params_reset(p);
    pg_array(p, PG_UUID);
    for (int i = 0; i < n; i++)
        pg_element_uuid(p, pg_uuid(parents, i, 0));
    pg_array_end(p);
}

/* Whether the task has missed occurrences, or may have more than were read. Its latest occurrences begin at *row. */
static bool pg_catch_up_may_apply(struct catch_up_scan *m, const struct pg_result *r, int *row)
{
    enum catch_up_fate fate = CATCH_UP_PASSED;
    int looked_at = 0;
    while (*row < r->rows && uuid_cmp(pg_uuid(r, *row, A_PARENT), m->id) < 0)
        ++*row;
    for (; *row < r->rows && uuid_eq(pg_uuid(r, *row, A_PARENT), m->id); ++*row, looked_at++) {
        struct task t = pg_catch_up_read_occurrence(r, *row);
        if (fate != CATCH_UP_END)
            fate = catch_up_visit(m, &t, pg_bool(r, *row, A_HOLDS));
    }
    return m->n || (looked_at == LATEST_COUNT && fate != CATCH_UP_END);
}

static enum err pg_catch_up_page(struct store_postgres *s, struct op_catch_up *op, const struct pg_result *parents,
                                 int n, struct slot_keys *keys, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result tasks = { 0 };
    cleanup_with(pg_result_release) struct pg_result ahead = { 0 };
    pg_catch_up_add_parents(&s->params, parents, n);
    if (pg_send(&s->conn, &catch_up, &s->params, e))
        return e->code;
    pg_add_i64(&s->params, LATEST_COUNT);
    if (pg_send(&s->conn, &read_latest, &s->params, e) || pg_get(&s->conn, &tasks, e) || pg_get(&s->conn, &ahead, e))
        return e->code;
    for (int i = 0, row = 0; i < tasks.rows; i++) {
        struct catch_up_scan m = pg_catch_up_read_task(&tasks, i, op->before_ms);
        if (pg_catch_up_may_apply(&m, &ahead, &row) && pg_catch_up_withdraw(s, m.id, op, keys, e))
            return e->code;
    }
    return ERR_OK;
}

enum err postgres_catch_up(struct store_postgres *s, struct op *base)
{
    struct op_catch_up *op = (struct op_catch_up *)base;
    struct error *e = &base->error;
    cleanup_with(pg_result_release) struct pg_result parents = { 0 };
    uint64_t unblocked = 0; /* not used: after this operation the caller claims from all lanes */
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    op->ret_withdrawn = 0;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, op->after);
    pg_add_i64(&s->params, (int64_t)op->max + 1);
    if (pg_run(&s->conn, &waiting_parents, &s->params, &parents, e))
        return e->code;
    int n = min_of(parents.rows, (int)op->max);
    if (n && (pg_catch_up_page(s, op, &parents, n, &keys, e) || pg_slots_hand_over(s, &keys, &unblocked, e)))
        return e->code;
    op->ret_after = n < parents.rows ? pg_uuid(&parents, n - 1, 0) : (struct uuid){ 0 };
    return ERR_OK;
}

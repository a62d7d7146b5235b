/* OP_SETTLE.
 *
 * One round trip reads and locks all tasks, in the order of their ids. The statements after that are sent without
 * waiting: one for all verdicts, one for their executions, one for the parents. Only tasks that hold slots, or are
 * replaced by a new row, are written one by one.
 *
 * Two nodes may settle the same task, for example by a late result and a release. The second one to lock the row sees
 * what the first has made of it, and the fence shows which of them is stale. */
#include <stdlib.h>

#include "store/postgres/claim/settle.h"

static const struct pg_statement delete_key = {
    "settle_forget_key",
    "DELETE FROM idempotency WHERE key = $1 AND tenant_id = $2",
};

/* Shared: a stop or a pause that is under way is waited for, and one that comes later finds the steps settled. */
static const struct pg_statement share_runs = {
    "settle_runs",
    "SELECT run_id, stop, paused, stopped_by FROM runs WHERE run_id = ANY ($1) ORDER BY run_id FOR SHARE",
};

/* Locked before the occurrences, as a change of the recurring task locks them: one that is under way is waited for, and
 * one that comes later finds the occurrences settled. */
static const struct pg_statement lock_schedules = {
    "settle_schedules",
    "SELECT id, state, deleted, (schedule::json->>'spread_ms')::bigint FROM tasks WHERE id = ANY ($1) AND kind = 1 "
    "ORDER BY id FOR UPDATE",
};

/* ---- runs that were stopped or paused ---- */

static enum err pg_settle_share_runs(struct store_postgres *s, const struct pg_settling *t, struct pg_result *ret,
                                     struct error *e)
{
    struct uuid *runs = arena_array(&s->arena, struct uuid, 2 * t->n + 1);
    size_t n = 0;
    if (!runs)
        return error_no_room(e);
    for (size_t i = 0; i < t->n; i++) {
        const struct pg_settled *x = &t->v[i];
        bool ends = settle_asks_own(x->settlement, x->was->links);
        if (ends)
            runs[n++] = x->settlement->id;
        if (settle_asks_run(x->settlement, x->was->run) || (ends && !uuid_is_nil(x->was->run)))
            runs[n++] = x->was->run;
    }
    pg_params_reset(&s->params);
    pg_array(&s->params, PG_UUID);
    for (size_t i = 0; i < n; i++)
        pg_element_uuid(&s->params, runs[i]);
    pg_array_end(&s->params);
    return n ? pg_run(&s->conn, &share_runs, &s->params, ret, e) : ERR_OK;
}

/* run: the one that the task is a step of, or the task itself. */
static enum err pg_settle_change(struct store_postgres *s, struct op_settle *op, struct pg_settled *x,
                                 const struct run_row *run, struct error *e)
{
    struct settlement *copy = arena_new(&s->arena, struct settlement);
    struct task *row = arena_new(&s->arena, struct task);
    if (!copy || !row)
        return error_no_room(e);
    *copy = *x->settlement;
    if (!uuid_eq(run->run, copy->id)) {
        settle_in_run(run, x->was->links, x->was->place, op->now_ms, copy, row);
    } else if (settle_of_run(run, op->now_ms, copy)) {
        x->given->stale = true;
        op->ret_unblocked_lanes = op_unblocked(op->ret_unblocked_lanes, true);
    }
    x->settlement = copy;
    x->given->ret_state = copy->replace ? copy->replace->state : copy->verdict.next;
    return ERR_OK;
}

static bool pg_settle_asks(const struct pg_settled *x, struct uuid run)
{
    bool is_own = uuid_eq(run, x->settlement->id);
    return is_own ? settle_asks_own(x->settlement, x->was->links)
                  : uuid_eq(run, x->was->run) && settle_asks_run(x->settlement, run);
}

/* A run that ends first looks at itself: then it may be one that waits again. */
static enum err pg_settle_ask_one(struct store_postgres *s, struct pg_settling *t, const struct pg_result *r, bool own,
                                  struct error *e)
{
    for (int k = 0; k < r->rows; k++) {
        struct run_row run = { .run = pg_uuid(r, k, 0),
                               .stop = (enum run_stop)pg_i64(r, k, 1),
                               .paused = pg_bool(r, k, 2) };
        if (!arena_str(&s->arena, pg_text(r, k, 3), &run.stopped_by))
            return error_no_room(e);
        for (size_t i = 0; i < t->n; i++)
            if (uuid_eq(run.run, t->v[i].settlement->id) == own && pg_settle_asks(&t->v[i], run.run) &&
                pg_settle_change(s, t->op, &t->v[i], &run, e))
                return e->code;
    }
    return ERR_OK;
}

/* Steps that would wait again look at their runs, and runs that end at themselves (runs.h, rules 7 and 8). */
static enum err pg_settle_ask_runs(struct store_postgres *s, struct pg_settling *t, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_settle_share_runs(s, t, &r, e))
        return e->code;
    return pg_settle_ask_one(s, t, &r, true, e) ? e->code : pg_settle_ask_one(s, t, &r, false, e);
}

/* Steps to which a signal came after they were planned (rule 10). */
static enum err pg_settle_ask_awaits(struct store_postgres *s, struct pg_settling *t, struct error *e)
{
    for (size_t i = 0; i < t->n; i++) {
        struct pg_settled *x = &t->v[i];
        struct settlement copy = *x->settlement;
        if (!settle_of_await(x->was->links, t->op->now_ms, &copy))
            continue;
        x->settlement = arena_new(&s->arena, struct settlement);
        if (!x->settlement)
            return error_no_room(e);
        *x->settlement = copy;
        x->given->stale = true;
        x->given->ret_state = copy.verdict.next;
        t->op->ret_unblocked_lanes = op_unblocked(t->op->ret_unblocked_lanes, true);
    }
    return ERR_OK;
}

/* ---- recurring tasks that were cancelled, deleted or paused ---- */

/* Locks the parents of all occurrences that may wait. */
static enum err pg_settle_lock_schedules(struct store_postgres *s, struct settlement *const *v, size_t n,
                                         struct pg_result *ret, struct error *e)
{
    bool any = false;
    pg_params_reset(&s->params);
    pg_array(&s->params, PG_UUID);
    for (size_t i = 0; i < n; i++) {
        if (!settle_asks_parent(v[i]))
            continue;
        pg_element_uuid(&s->params, v[i]->parent);
        any = true;
    }
    pg_array_end(&s->params);
    return any ? pg_run(&s->conn, &lock_schedules, &s->params, ret, e) : ERR_OK;
}

static enum err pg_settle_ask_parent(struct store_postgres *s, struct pg_settled *x, const struct pg_result *r, int row,
                                     int64_t now_ms, struct error *e)
{
    struct settlement *copy = arena_new(&s->arena, struct settlement);
    struct task *next = arena_new(&s->arena, struct task);
    if (!copy || !next)
        return error_no_room(e);
    *copy = *x->settlement;
    struct settle_schedule of = { .parent = { .state = (enum task_state)pg_i64(r, row, 1),
                                              .deleted = pg_bool(r, row, 2) },
                                  .runs_count = x->was->runs_count,
                                  .started_ms = x->was->started_ms,
                                  .version = x->was->version,
                                  .links = x->was->links };
    struct schedule schedule = { .spread_ms = pg_i64(r, row, 3) };
    x->withdrawn = settle_in_schedule(&of, now_ms, copy, next);
    x->cursor_ms = x->was->scheduled_ms + schedule_spread(&schedule, copy->parent);
    x->settlement = copy;
    x->given->ret_state = copy->replace ? copy->replace->state : copy->verdict.next;
    return ERR_OK;
}

/* Occurrences that would wait look at their recurring tasks (OP_SETTLE 10 to 13). */
static enum err pg_settle_ask_parents(struct store_postgres *s, struct pg_settling *t, const struct pg_result *r,
                                      struct error *e)
{
    for (size_t i = 0; r->rows && i < t->n; i++) {
        struct pg_settled *x = &t->v[i];
        int row = 0;
        if (x->was->kind != TASK_OCCURRENCE || !settle_asks_parent(x->settlement))
            continue;
        while (row < r->rows && !uuid_eq(pg_uuid(r, row, 0), x->settlement->parent))
            row++;
        if (row < r->rows && pg_settle_ask_parent(s, x, r, row, t->op->now_ms, e))
            return e->code;
    }
    return ERR_OK;
}

/* ---- the operation ---- */

/* Applies settlements that all name different tasks. */
static enum err pg_settle_distinct(struct store_postgres *s, struct op_settle *op, struct join_fold *fold,
                                   struct settlement **v, size_t n, struct error *e)
{
    struct uuid *ids = xcalloc(n, sizeof *ids);
    struct pg_guards *guards = xcalloc(n, sizeof *guards);
    struct pg_settling t = { .op = op, .fold = fold, .v = xcalloc(n, sizeof *t.v) };
    cleanup_with(pg_result_release) struct pg_result schedules = { 0 };
    for (size_t i = 0; i < n; i++)
        ids[i] = v[i]->id;
    enum err rc = pg_settle_lock_schedules(s, v, n, &schedules, e);
    rc = rc ? rc : pg_read_guards(s, ids, n, guards, e);
    for (size_t i = 0; !rc && i < n; i++) {
        const struct pg_guards *g = &guards[i];
        v[i]->stale = !g->found || !task_is_claimed(g->state, g->fence, g->links, v[i]->fence);
        v[i]->ret_state = v[i]->replace ? v[i]->replace->state : v[i]->verdict.next;
        if (!v[i]->stale)
            t.v[t.n++] = (struct pg_settled){ .given = v[i], .settlement = v[i], .was = g };
    }
    rc = rc ? rc : pg_settle_ask_awaits(s, &t, e);
    rc = rc ? rc : pg_settle_ask_runs(s, &t, e);
    rc = rc ? rc : pg_settle_ask_parents(s, &t, &schedules, e);
    rc = rc ? rc : pg_settle_apply(s, &t, e);
    free(ids);
    free(guards);
    free(t.v);
    return rc;
}

static int pg_settle_by_task(const void *a, const void *b)
{
    const struct settlement *x = *(struct settlement *const *)a, *y = *(struct settlement *const *)b;
    int order = uuid_cmp(x->id, y->id);
    return order ? order : (x > y) - (x < y);
}

static int pg_settle_by_place(const void *a, const void *b)
{
    const struct settlement *x = *(struct settlement *const *)a, *y = *(struct settlement *const *)b;
    return (x > y) - (x < y);
}

/* Moves the first settlement of each task to the front, in the given order. Returns how many there are. */
static size_t pg_settle_first_of_each(struct settlement **v, size_t n)
{
    struct settlement **later = xcalloc(n, sizeof *later);
    size_t first = 0, rest = 0;
    qsort(v, n, sizeof(struct settlement *), pg_settle_by_task);
    for (size_t i = 0; i < n; i++) {
        if (first && uuid_eq(v[first - 1]->id, v[i]->id))
            later[rest++] = v[i];
        else
            v[first++] = v[i];
    }
    qsort(v, first, sizeof(struct settlement *), pg_settle_by_place);
    if (rest)
        memcpy(v + first, later, rest * sizeof(struct settlement *));
    free(later);
    return first;
}

/* A task may be named twice: the second settlement is checked against the result of the first. */
static enum err pg_settle_in_rounds(struct store_postgres *s, struct op_settle *op, struct join_fold *fold,
                                    struct error *e)
{
    struct settlement **v = xcalloc(op->n + 1, sizeof(struct settlement *));
    enum err rc = ERR_OK;
    for (size_t i = 0; i < op->n; i++)
        v[i] = &op->v[i];
    for (size_t done = 0; !rc && done < op->n;) {
        size_t n = pg_settle_first_of_each(v + done, op->n - done);
        rc = pg_settle_distinct(s, op, fold, v + done, n, e);
        done += n;
    }
    free(v);
    return rc;
}

static enum err pg_settle_undo_key(struct store_postgres *s, const struct idempotency *i, struct error *e)
{
    pg_params_reset(&s->params);
    pg_add_bytes(&s->params, (struct str){ (const char *)i->key, sizeof i->key });
    pg_add_i32(&s->params, i->tenant);
    return pg_queue(&s->conn, &delete_key, &s->params, e);
}

enum err postgres_settle(struct store_postgres *s, struct op *base)
{
    struct op_settle *op = (struct op_settle *)base;
    struct error *e = &base->error;
    cleanup_with(join_fold_release) struct join_fold fold;
    join_fold_init(&fold, &s->joins, op->now_ms, op->n);
    op->ret_unblocked_lanes = 0;
    if (pg_idempotency_put(s, op->idempotency, e) || pg_settle_in_rounds(s, op, &fold, e) || join_fold_run(&fold, e))
        return e->code;
    op->ret_unblocked_lanes |= fold.unblocked;
    op->ret_arrivals_left = fold.left;
    return op->idempotency && op->v[0].stale ? pg_settle_undo_key(s, op->idempotency, e) : ERR_OK;
}

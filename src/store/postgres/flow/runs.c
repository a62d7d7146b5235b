/* OP_OPEN (port/store/runs.h).
 *
 * The order of the locks:
 *   1. the row of the task that is opened: two nodes that open it wait for each other, and arrivals are left for later;
 *   2. rows of the page that exist, and the tasks that it waits for as well: none becomes final meanwhile;
 *   3. the run's row in `runs`, then that of the run around it, then its root's: pages of a run come one after the
 *      other, and each sees a stop. Always from the inside to the outside.
 * A settle has its tasks locked when it waits for a row of `runs`: so a page locks no task behind that. OP_STOP locks a
 * row of `runs` first and waits for no step. */
#include "store/postgres/flow/runs.h"

#include <assert.h>

static const struct pg_statement lock_run = {
    "run_lock", "SELECT 0" RUN_COLUMNS(SQL_NAME) " FROM runs WHERE run_id = $1 FOR NO KEY UPDATE"
};
#define SQL_EXCLUDED(column, kind, member, max) ", " #column " = excluded." #column
static const struct pg_statement put_run = {
    "run_put",
    "INSERT INTO runs (run_id" RUN_COLUMNS_REST(SQL_NAME) ") SELECT * FROM unnest($*) ON CONFLICT (run_id) "
                                                          "DO UPDATE SET run_id = excluded.run_id" RUN_COLUMNS_REST(
                                                              SQL_EXCLUDED),
};
static const struct pg_statement count_tasks = {
    "run_count_tasks", "UPDATE runs SET tasks = tasks + $2 WHERE run_id = $1 AND $2 > 0 RETURNING tasks"
};
static const struct pg_statement close_edges = {
    "run_close_edges", "UPDATE edges SET old = true, state = CASE state WHEN 0 THEN 3 ELSE state END "
                       "WHERE child_id = $1"
};
static_assert(EDGE_UNMET == 3 && EDGE_OPEN == 0 && RUN_GOES_ON == 0, "statements name them by number");
static const struct pg_statement put_edges = {
    "run_edges",
    "INSERT INTO edges (tenant_id, parent_id, child_id, type, state) SELECT $1, x.* FROM unnest($*) AS x "
    "ON CONFLICT (parent_id, child_id) DO UPDATE SET type = excluded.type, state = excluded.state, old = false",
};
static const struct pg_statement insert_joins = {
    "run_joins",
    "INSERT INTO joins (tenant_id, child_id, kind, expected, arrived, met, broken) SELECT $1, x.* FROM unnest($*) AS x "
    "ON CONFLICT (child_id) DO UPDATE SET kind = excluded.kind, expected = excluded.expected, "
    "arrived = excluded.arrived, met = excluded.met, broken = excluded.broken",
};
static const struct pg_statement read_ends = {
    "run_ends",
    "SELECT parent_id, state FROM edges WHERE child_id = $1 AND parent_id = ANY ($2) AND NOT old ORDER BY parent_id",
};
/* What is left of rows that run again. */
static const struct pg_statement drop_outputs = {
    "run_drop_outputs",
    "DELETE FROM outputs AS o USING unnest($1, $2, $3) AS x(task, run, place) "
    "WHERE (o.run_id = x.run AND o.place = x.place) OR (o.run_id = x.task AND o.place = -1)",
};
static const struct pg_statement drop_arrivals = { "run_drop_arrivals",
                                                   "DELETE FROM arrivals WHERE parent_id = ANY ($1)" };
static const struct pg_statement drop_signals = { "run_drop_signals",
                                                  "DELETE FROM signals WHERE run_id = $1 AND name = $2" };

struct pg_edge {
    struct uuid parent, child;
    int64_t type, state;
};

struct pg_opening {
    struct op_open *op;
    struct pg_step task;
    struct join_row join; /* of the task */
    bool begins;          /* open_begins */
    bool paused;
    struct join_task *old; /* the rows that exist, then the tasks of `also` */
    struct task *rows;     /* as they are written */
    bool *written;         /* rows[i] was inserted, or has replaced another */
    bool all_new;          /* all rows were inserted */
    struct end_of *ends;   /* edges to the task */
    size_t end_count;
};

/* ---- the task and its run ---- */

static enum err pg_open_put_run(struct store_postgres *s, const struct run_row *row, struct error *e)
{
    pg_params_reset(&s->params);
    pg_add_rows(&s->params, &table_runs, (const void *const[]){ row }, NULL, 1);
    return pg_queue(&s->conn, &put_run, &s->params, e);
}

/* Locks and reads what exists of the page. */
static enum err pg_open_lock_rows(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    const struct op_open *op = o->op;
    size_t n = op->n + op->also_count;
    struct uuid *ids = arena_array(&s->arena, struct uuid, n + 1);
    o->old = arena_array(&s->arena, struct join_task, n + 1);
    if (!ids || !o->old)
        return error_no_room(e);
    for (size_t i = 0; i < n; i++)
        ids[i] = i < op->n ? op->rows[i].task.id : op->also[i - op->n];
    return n ? s->joins.ops->parents(&s->joins, ids, n, o->old, e) : ERR_OK;
}

/* *found: row, or NULL if there is none. */
static enum err pg_open_lock_run(struct store_postgres *s, struct uuid id, struct run_row *row,
                                 const struct run_row **found, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    *found = NULL;
    if (uuid_is_nil(id))
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, id);
    if (pg_run(&s->conn, &lock_run, &s->params, &r, e) ||
        (r.rows && pg_row_read(&s->conn, &s->lanes, &r, 0, 1, &table_runs, &s->arena, row, e)))
        return e->code;
    *found = r.rows ? row : NULL;
    return ERR_OK;
}

/* Looks for a stop, and begins the run. */
static enum err pg_open_run(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    struct op_open *op = o->op;
    struct run_row run = { 0 }, around = { 0 };
    const struct run_row *old, *outer;
    if (pg_open_lock_run(s, op->run, &run, &old, e) || pg_open_lock_run(s, op->outer, &around, &outer, e))
        return e->code;
    op->ret_stopped = open_is_stopped(op, old, outer, o->task.was.links);
    if (op->ret_stopped)
        return ERR_OK;
    if (open_asks_arrivals(op) && s->joins.ops->run_is_left(&s->joins, &op->run, &op->ret_arrivals_left, e))
        return e->code;
    if (op->ret_arrivals_left)
        return ERR_OK;
    if (op->begin)
        run = run_begin(op, old, outer, o->task.was.links);
    o->paused = run.paused;
    return op->begin ? pg_open_put_run(s, &run, e) : ERR_OK;
}

/* From now on the task's join is that of its children. */
static enum err pg_open_begin_join(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    bool found;
    o->join.max_broken = -1;
    if (!o->begins)
        return s->joins.ops->join_get(&s->joins, &o->op->id, &o->join, &found, e);
    o->join = (struct join_row){ .join = DAG_ALL, .expected = o->op->expected, .max_broken = o->op->max_broken };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, o->op->id);
    return pg_queue(&s->conn, &close_edges, &s->params, e);
}

static enum err pg_open_put_edges(struct store_postgres *s, const struct pg_opening *o, const struct pg_edge *v,
                                  size_t n, struct error *e)
{
    struct pg_params *p = &s->params;
    if (n == 0)
        return ERR_OK;
    pg_params_reset(p);
    pg_add_i32(p, o->op->tenant);
    pg_add_members(p, v, n, parent);
    pg_add_members(p, v, n, child);
    pg_add_members(p, v, n, type);
    pg_add_members(p, v, n, state);
    return pg_queue(&s->conn, &put_edges, p, e);
}

/* ---- rows ---- */

/* *n: of `which`; those that stay are taken out. */
static enum err pg_open_replace(struct store_postgres *s, struct pg_opening *o, size_t *which, size_t *n,
                                struct error *e)
{
    size_t candidates = *n;
    struct pg_guards *old = arena_array(&s->arena, struct pg_guards, candidates + 1);
    struct uuid *ids = arena_array(&s->arena, struct uuid, candidates + 1);
    if (!old || !ids)
        return error_no_room(e);
    for (size_t i = 0; i < candidates; i++)
        ids[i] = o->rows[which[i]].id;
    if (candidates && pg_read_guards(s, ids, candidates, old, e))
        return e->code;
    *n = 0;
    for (size_t i = 0; i < candidates; i++) {
        struct task *t = &o->rows[which[i]];
        if (!open_replaces(o->op, &o->op->rows[which[i]], old[i].state, old[i].created_ms))
            continue;
        *t = open_row_task(&o->op->rows[which[i]], o->paused, old[i].fence);
        o->written[which[i]] = true;
        change_add(&s->base, t->id, (int)old[i].state, change_state(t->state, t->links));
        if (pg_replace_row(s, &old[i], t, e))
            return e->code;
        which[(*n)++] = which[i];
    }
    return ERR_OK;
}

static enum err pg_open_drop_signals(struct store_postgres *s, const struct open_row *r, struct error *e)
{
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, r->task.run);
    pg_add_text(&s->params, r->signal);
    return pg_queue(&s->conn, &drop_signals, &s->params, e);
}

/* Deletes edges, outputs, arrivals that are left, and signals of the rows that were replaced. */
static enum err pg_open_forget(struct store_postgres *s, const struct pg_opening *o, const size_t *which, size_t n,
                               struct error *e)
{
    struct pg_params *p = &s->params;
    struct task *v = arena_array(&s->arena, struct task, n + 1);
    struct uuid *ids = arena_array(&s->arena, struct uuid, n + 1);
    size_t count = 0;
    if (!v || !ids)
        return error_no_room(e);
    for (size_t i = 0; i < n; i++) {
        const struct open_row *r = &o->op->rows[which[i]];
        ids[count] = r->task.id;
        v[count++] = r->task;
        if (r->drops_signals && pg_open_drop_signals(s, r, e))
            return e->code;
    }
    if (pg_joins_purge(s, ids, count, e))
        return e->code;
    pg_params_reset(p);
    pg_add_members(p, v, count, id);
    if (count && pg_queue(&s->conn, &drop_arrivals, p, e))
        return e->code;
    pg_add_members(p, v, count, run);
    pg_add_members(p, v, count, place);
    return count ? pg_queue(&s->conn, &drop_outputs, p, e) : ERR_OK;
}

/* A row that exists stays, unless it is final, of an earlier opening, and opened again. */
static enum err pg_open_existing(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    size_t *which = arena_array(&s->arena, size_t, o->op->n + 1), n = 0;
    if (!which)
        return error_no_room(e);
    for (size_t i = 0; i < o->op->n; i++) {
        const struct task *old = &o->old[i].task;
        if (o->written[i])
            continue;
        o->rows[i].state = old->state;
        o->rows[i].links = old->links;
        if (o->op->again && task_is_final(old->state))
            which[n++] = i;
    }
    return pg_open_replace(s, o, which, &n, e) ? e->code : pg_open_forget(s, o, which, n, e);
}

static enum err pg_open_count_tasks(struct store_postgres *s, const struct pg_opening *o, size_t inserted,
                                    struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (!inserted)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, o->op->root);
    pg_add_i64(&s->params, (int64_t)inserted);
    if (pg_run(&s->conn, &count_tasks, &s->params, &r, e))
        return e->code;
    return r.rows && pg_i64(&r, 0, 0) > RUN_TASKS_MAX ? open_too_many(e) : ERR_OK;
}

static enum err pg_open_write_rows(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    size_t n = o->op->n, inserted = 0;
    const struct task **tasks = arena_array(&s->arena, const struct task *, n + 1);
    o->rows = arena_array(&s->arena, struct task, n + 1);
    o->written = arena_zarray(&s->arena, n + 1, sizeof *o->written);
    o->ends = arena_array(&s->arena, struct end_of, n + o->op->also_count + 1);
    if (!tasks || !o->rows || !o->written || !o->ends)
        return error_no_room(e);
    for (size_t i = 0; i < n; i++) {
        o->rows[i] = open_row_task(&o->op->rows[i], o->paused, 0);
        tasks[i] = &o->rows[i];
    }
    if (pg_insert_rows(s, tasks, n, o->written, e))
        return e->code;
    for (size_t i = 0; i < n; i++) {
        inserted += o->written[i];
        if (o->written[i])
            change_add(&s->base, o->rows[i].id, CHANGE_NEW, change_state(o->rows[i].state, o->rows[i].links));
    }
    o->all_new = inserted == n;
    if (pg_open_count_tasks(s, o, inserted, e) || pg_open_existing(s, o, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        if (o->written[i] && o->rows[i].state == TASK_SCHEDULED)
            o->op->ret_unblocked_lanes |= lane_bit(task_lane(&o->rows[i]));
    return ERR_OK;
}

/* ---- edges and joins ---- */

static enum err pg_open_write_edges(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    size_t max = 0, n = 0;
    for (size_t i = 0; i < o->op->n; i++)
        max += o->op->rows[i].n;
    struct pg_edge *v = arena_array(&s->arena, struct pg_edge, max + 1);
    if (!v)
        return error_no_room(e);
    for (size_t i = 0; i < o->op->n; i++) {
        const struct open_row *r = &o->op->rows[i];
        for (size_t k = 0; o->written[i] && k < r->n; k++)
            v[n++] = (struct pg_edge){ r->edges[k].parent, r->task.id, r->edges[k].type, r->edges[k].state };
        if (r->ends)
            o->ends[o->end_count++] = (struct end_of){ .parent = o->rows[i], .type = o->op->end_type };
    }
    return pg_open_put_edges(s, o, v, n, e);
}

struct pg_join_of_row {
    struct uuid child;
    int64_t kind, expected, arrived, met, broken;
};

static enum err pg_open_write_joins(struct store_postgres *s, const struct pg_opening *o, struct error *e)
{
    struct pg_params *p = &s->params;
    struct pg_join_of_row *v = arena_array(&s->arena, struct pg_join_of_row, o->op->n + 1);
    size_t n = 0;
    if (!v)
        return error_no_room(e);
    for (size_t i = 0; i < o->op->n; i++) {
        const struct open_row *r = &o->op->rows[i];
        struct flow_counts c = open_row_counts(r);
        if (o->written[i] && r->n)
            v[n++] = (struct pg_join_of_row){ r->task.id, r->join, (int64_t)r->n, c.arrived, c.met, c.broken };
    }
    pg_params_reset(p);
    pg_add_i32(p, o->op->tenant);
    pg_add_members(p, v, n, child);
    pg_add_members(p, v, n, kind);
    pg_add_members(p, v, n, expected);
    pg_add_members(p, v, n, arrived);
    pg_add_members(p, v, n, met);
    pg_add_members(p, v, n, broken);
    return n ? pg_queue(&s->conn, &insert_joins, p, e) : ERR_OK;
}

/* ---- edges to the task ---- */

/* The row of a parent; -1: none. The rows are sorted by parent. */
static int pg_open_find_end(const struct pg_result *r, struct uuid parent)
{
    for (int low = 0, high = r->rows; low < high;) {
        int middle = low + (high - low) / 2, order = uuid_cmp(pg_uuid(r, middle, 0), parent);
        if (order == 0)
            return middle;
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return -1;
}

static enum err pg_open_read_ends(struct store_postgres *s, const struct pg_opening *o, struct pg_result *ret,
                                  struct error *e)
{
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    pg_add_uuid(p, o->op->id);
    pg_array(p, PG_UUID);
    for (size_t i = 0; i < o->end_count; i++)
        pg_element_uuid(p, o->ends[i].parent.id);
    pg_array_end(p);
    return pg_run(&s->conn, &read_ends, p, ret, e);
}

/* Writes o->ends, and counts them in the join. */
static enum err pg_open_write_ends(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct pg_edge *v = arena_array(&s->arena, struct pg_edge, o->end_count + 1);
    struct open_join join = { o->join.expected, o->join.max_broken, o->join.counts };
    size_t n = 0;
    if (!v)
        return error_no_room(e);
    bool may_exist = !o->all_new || o->op->also_count; /* a row that was inserted just now has no edge yet */
    if (o->end_count && may_exist && pg_open_read_ends(s, o, &r, e))
        return e->code;
    for (size_t i = 0; i < o->end_count; i++) {
        const struct end_of *x = &o->ends[i];
        int row = pg_open_find_end(&r, x->parent.id);
        struct end_edge edge = { .counts = row >= 0 };
        if (row >= 0)
            edge.state = (enum edge_state)pg_i64(&r, row, 1);
        if (end_edge_apply(&edge, &x->parent, x->type, &join, x->is_more))
            v[n++] = (struct pg_edge){ x->parent.id, o->op->id, x->type, edge.state };
    }
    o->join.expected = join.expected;
    o->join.counts = join.counts;
    return pg_open_put_edges(s, o, v, n, e);
}

/* The tasks that it waits for as well. */
static enum err pg_open_also(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    const struct op_open *op = o->op;
    size_t n = op->also_count;
    const struct join_task *parents = o->old + op->n;
    if (n == 0)
        return ERR_OK;
    for (size_t i = 0; i < n; i++) {
        struct dependency d = { op->also[i], op->end_type };
        if (dependency_check(&parents[i].task, parents[i].found, &d, i, op->tenant, e))
            return e->code;
        o->ends[o->end_count++] = (struct end_of){ .parent = parents[i].task, .type = op->end_type, .is_more = true };
    }
    return s->joins.ops->mark_parents(&s->joins, op->also, n, e);
}

/* ---- outputs ---- */

/* Those of steps that a rerun copies. */
static enum err pg_open_write_outputs(struct store_postgres *s, const struct pg_opening *o, struct error *e)
{
    struct pg_output *v = arena_array(&s->arena, struct pg_output, o->op->n + 1);
    size_t n = 0;
    if (!v)
        return error_no_room(e);
    for (size_t i = 0; i < o->op->n; i++) {
        const struct open_row *r = &o->op->rows[i];
        if (o->written[i] && r->has_output)
            v[n++] = (struct pg_output){ r->task.id, r->task.run, r->task.place, r->output };
    }
    return pg_outputs_keep(s, v, n, e);
}

/* ---- the operation ---- */

static enum err pg_open_write_task(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    struct op_open *op = o->op;
    struct task *next = &o->task.next;
    if (s->joins.ops->join_put(&s->joins, next, &o->join, e))
        return e->code;
    open_apply(next, op, &(struct open_join){ o->join.expected, o->join.max_broken, o->join.counts });
    change_add_opened(&s->base, open_starts(op, o->task.was.links), next);
    return pg_steps_write(s, &o->task, 1, &op->ret_unblocked_lanes, e);
}

enum err postgres_open(struct store_postgres *s, struct op *base)
{
    struct op_open *op = (struct op_open *)base;
    struct error *e = &base->error;
    struct pg_opening o = { .op = op };
    bool found = false;
    op->ret_stopped = op->ret_arrivals_left = false;
    op->ret_unblocked_lanes = 0;
    if (pg_step_lock(s, op->id, &o.task, &found, e) || pg_step_check_fence(&o.task, found, op->fence, e) ||
        pg_open_lock_rows(s, &o, e) || pg_open_run(s, &o, e))
        return e->code;
    if (op->ret_stopped || op->ret_arrivals_left)
        return ERR_OK;
    o.begins = open_begins(op, o.task.was.links);
    if (pg_open_begin_join(s, &o, e) || pg_open_write_rows(s, &o, e) || pg_open_write_edges(s, &o, e) ||
        pg_open_write_joins(s, &o, e) || pg_open_also(s, &o, e) || pg_open_write_ends(s, &o, e) ||
        pg_open_write_outputs(s, &o, e))
        return e->code;
    return pg_open_write_task(s, &o, e);
}

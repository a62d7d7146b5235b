/* OP_OPEN (port/store/runs.h).
 *
 * The order of the locks:
 *   1. the row of the task that is opened: two nodes that open it wait for each other, and arrivals are left for later;
 *   2. the run's row in `runs`, then its root's: pages of a run come one after the other, and each sees a stop.
 * A settle never locks `runs`. OP_STOP locks a row of `runs` first and never waits for a row of `tasks`. So neither can
 * be part of a deadlock with a page. */
#include "store/postgres/runs.h"

#include <assert.h>

static const struct pg_statement begin_run = {
    "run_begin",
    "INSERT INTO runs (run_id, tenant_id, hash, workflow, version, root_id, depth, opened_ms, deadline_ms, tasks, "
    "generation, stop, stopped_by, paused) VALUES ($1, $2, $3, nullif($4, ''), $5, $6, $7, $8, $9, $10, $11, $12, "
    "nullif($13, ''), $14) ON CONFLICT (run_id) DO UPDATE SET hash = $3, workflow = nullif($4, ''), version = $5, "
    "root_id = $6, depth = $7, deadline_ms = $9, generation = runs.generation + $15::int, "
    "stop = CASE WHEN $15::int = 1 THEN 0 ELSE runs.stop END, "
    "stopped_by = CASE WHEN $15::int = 1 THEN NULL ELSE runs.stopped_by END "
    "WHERE runs.stop = 0 OR $15::int = 1",
};
static const struct pg_statement lock_run = { "run_lock",
                                              "SELECT stop, paused FROM runs WHERE run_id = $1 FOR NO KEY UPDATE" };
static const struct pg_statement count_tasks = {
    "run_count_tasks", "UPDATE runs SET tasks = tasks + $2 WHERE run_id = $1 AND $2 > 0 RETURNING tasks"
};
static const struct pg_statement close_edges = { "run_close_edges",
                                                 "UPDATE edges SET state = 3 WHERE child_id = $1 AND state = 0" };
static_assert(EDGE_UNMET == 3 && EDGE_OPEN == 0 && RUN_GOES_ON == 0, "statements name them by number");
static const struct pg_statement insert_edges = {
    "run_edges",
    "INSERT INTO edges (tenant_id, parent_id, child_id, type, state) SELECT $1, x.* FROM unnest($*) AS x "
    "ON CONFLICT (parent_id, child_id) DO UPDATE SET type = excluded.type, state = excluded.state",
};
static const struct pg_statement insert_joins = {
    "run_joins",
    "INSERT INTO joins (tenant_id, child_id, kind, expected, arrived, met, broken) SELECT $1, x.* FROM unnest($*) AS x "
    "ON CONFLICT (child_id) DO UPDATE SET kind = excluded.kind, expected = excluded.expected, "
    "arrived = excluded.arrived, met = excluded.met, broken = excluded.broken",
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

struct pg_opening {
    struct op_open *op;
    struct pg_step task;
    struct join_row join; /* of the task */
    bool join_changed;
    bool begins; /* open_begins */
    bool paused;
    struct task *rows; /* as they are written */
    bool *written;     /* rows[i] was inserted, or has replaced another */
};

/* ---- the task and its run ---- */

static enum err pg_open_begin_run(struct store_postgres *s, const struct op_open *op, struct error *e)
{
    const struct run_row *b = op->begin;
    struct pg_params *p = &s->params;
    if (!b)
        return ERR_OK;
    pg_params_reset(p);
    pg_add_uuid(p, b->run);
    pg_add_i32(p, b->tenant);
    pg_add_bytes(p, (struct str){ (const char *)b->hash, sizeof b->hash });
    pg_add_text(p, b->workflow);
    pg_add_i64(p, b->version);
    pg_add_uuid(p, b->root);
    pg_add_i32(p, b->depth);
    pg_add_i64(p, b->opened_ms);
    pg_add_i64(p, b->deadline_ms);
    pg_add_i64(p, b->tasks);
    pg_add_i32(p, b->generation);
    pg_add_i32(p, (int32_t)b->stop);
    pg_add_text(p, b->stopped_by);
    pg_add_bool(p, b->paused);
    pg_add_i32(p, op->again);
    return pg_queue(&s->conn, &begin_run, p, e);
}

static enum err pg_open_lock_run(struct store_postgres *s, struct pg_opening *o, bool *ret_stopped, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, o->op->run);
    if (pg_run(&s->conn, &lock_run, &s->params, &r, e))
        return e->code;
    struct run_row run = { .stop = r.rows ? (enum run_stop)pg_i64(&r, 0, 0) : RUN_GOES_ON };
    *ret_stopped = open_is_stopped(o->op, &run);
    o->paused = r.rows && pg_bool(&r, 0, 1);
    return ERR_OK;
}

/* From now on the task's join is that of its children. */
static enum err pg_open_begin_join(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    bool found;
    if (!o->begins)
        return s->joins.ops->join_get(&s->joins, &o->op->id, &o->join, &found, e);
    o->join = (struct join_row){ .join = DAG_ALL, .expected = o->op->expected, .max_broken = o->op->max_broken };
    o->join_changed = true;
    o->task.next.links |= TASK_OPENED;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, o->op->id);
    return pg_queue(&s->conn, &close_edges, &s->params, e);
}

/* ---- rows ---- */

/* Replaces the rows that exist and are final. ids: of all that exist. */
static enum err pg_open_replace(struct store_postgres *s, struct pg_opening *o, const size_t *which,
                                const struct uuid *ids, size_t n, struct error *e)
{
    struct pg_guards *old = arena_array(&s->arena, struct pg_guards, n + 1);
    if (!old)
        return error_no_room(e);
    if (n && pg_read_guards(s, ids, n, old, e))
        return e->code;
    for (size_t i = 0; i < n; i++) {
        size_t at = which[i];
        if (!old[i].found || !task_is_final(old[i].state))
            continue;
        o->rows[at] = open_row_task(&o->op->rows[at], o->paused, old[i].fence);
        o->written[at] = true;
        if (pg_replace_row(s, &old[i], &o->rows[at], e))
            return e->code;
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

/* Deletes outputs, arrivals that are left, and signals of the rows that were replaced. */
static enum err pg_open_forget(struct store_postgres *s, const struct pg_opening *o, const size_t *which, size_t n,
                               struct error *e)
{
    struct pg_params *p = &s->params;
    struct task *v = arena_array(&s->arena, struct task, n + 1);
    size_t count = 0;
    if (!v)
        return error_no_room(e);
    for (size_t i = 0; i < n; i++) {
        const struct open_row *r = &o->op->rows[which[i]];
        if (!o->written[which[i]])
            continue;
        v[count++] = r->task;
        if (r->drops_signals && pg_open_drop_signals(s, r, e))
            return e->code;
    }
    pg_params_reset(p);
    pg_add_members(p, v, count, id);
    if (count && pg_queue(&s->conn, &drop_arrivals, p, e))
        return e->code;
    pg_add_members(p, v, count, run);
    pg_add_members(p, v, count, place);
    return count ? pg_queue(&s->conn, &drop_outputs, p, e) : ERR_OK;
}

static enum err pg_open_again(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    size_t *which = arena_array(&s->arena, size_t, o->op->n + 1), n = 0;
    struct uuid *ids = arena_array(&s->arena, struct uuid, o->op->n + 1);
    if (!which || !ids)
        return error_no_room(e);
    for (size_t i = 0; i < o->op->n; i++) {
        if (o->written[i])
            continue;
        ids[n] = o->rows[i].id;
        which[n++] = i;
    }
    return pg_open_replace(s, o, which, ids, n, e) ? e->code : pg_open_forget(s, o, which, n, e);
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
    if (!tasks || !o->rows || !o->written)
        return error_no_room(e);
    for (size_t i = 0; i < n; i++) {
        o->rows[i] = open_row_task(&o->op->rows[i], o->paused, 0);
        tasks[i] = &o->rows[i];
    }
    if (pg_insert_rows(s, tasks, n, o->written, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        inserted += o->written[i];
    if (pg_open_count_tasks(s, o, inserted, e) || (o->op->again && pg_open_again(s, o, e)))
        return e->code;
    for (size_t i = 0; i < n; i++)
        if (o->written[i] && o->rows[i].state == TASK_SCHEDULED)
            o->op->ret_unblocked_lanes |= lane_bit(task_lane(&o->rows[i]));
    return ERR_OK;
}

/* ---- edges and joins ---- */

struct pg_edge {
    struct uuid parent, child;
    int64_t type, state;
};

static enum edge_state pg_open_end_state(const struct task *t, enum dag_type type)
{
    enum flow_outcome o = dependency_outcome(t->state, t->links);
    return o == FLOW_OPEN ? EDGE_OPEN : edge_arrives(type, o);
}

/* The edges of the rows that were written, and those to the task. Returns how many. */
static size_t pg_open_list_edges(struct pg_opening *o, struct pg_edge *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < o->op->n; i++) {
        const struct open_row *r = &o->op->rows[i];
        if (!o->written[i])
            continue;
        for (size_t k = 0; k < r->n; k++)
            ret[n++] = (struct pg_edge){ r->edges[k].parent, r->task.id, r->edges[k].type, r->edges[k].state };
        if (!r->ends)
            continue;
        enum edge_state state = pg_open_end_state(&o->rows[i], o->op->end_type);
        ret[n++] = (struct pg_edge){ r->task.id, o->op->id, o->op->end_type, state };
        join_add(&o->join.counts, state);
        o->join_changed = o->join_changed || state != EDGE_OPEN;
    }
    return n;
}

static void pg_add_smalls(struct pg_params *p, const struct pg_edge *v, size_t n, bool states)
{
    pg_array(p, PG_I16);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(p, states ? v[i].state : v[i].type);
    pg_array_end(p);
}

static enum err pg_open_write_edges(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    struct pg_params *p = &s->params;
    size_t max = 0;
    for (size_t i = 0; i < o->op->n; i++)
        max += o->op->rows[i].n + 1;
    struct pg_edge *v = arena_array(&s->arena, struct pg_edge, max + 1);
    if (!v)
        return error_no_room(e);
    size_t n = pg_open_list_edges(o, v);
    pg_params_reset(p);
    pg_add_i32(p, o->op->tenant);
    pg_add_members(p, v, n, parent);
    pg_add_members(p, v, n, child);
    pg_add_smalls(p, v, n, false);
    pg_add_smalls(p, v, n, true);
    return n ? pg_queue(&s->conn, &insert_edges, p, e) : ERR_OK;
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

/* ---- tasks that it waits for as well ---- */

static enum err pg_open_also(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    const struct op_open *op = o->op;
    o->join_changed = o->join_changed || op->also_count;
    return op->also_count
               ? joins_wait_for(&s->joins, &o->task.was, op->also, op->also_count, op->end_type, &o->join, e)
               : ERR_OK;
}

/* ---- the operation ---- */

static enum err pg_open_write_task(struct store_postgres *s, struct pg_opening *o, struct error *e)
{
    struct op_open *op = o->op;
    struct task *next = &o->task.next;
    if (o->join_changed && s->joins.ops->join_put(&s->joins, next, &o->join, e))
        return e->code;
    if (op->last)
        open_apply(next, o->join.expected, o->join.max_broken, o->join.counts, op->now_ms);
    if (!op->last && !o->begins)
        return ERR_OK;
    return pg_steps_write(s, &o->task, 1, op->now_ms, &op->ret_unblocked_lanes, e);
}

enum err postgres_open(struct store_postgres *s, struct op *base)
{
    struct op_open *op = (struct op_open *)base;
    struct error *e = &base->error;
    struct pg_opening o = { .op = op };
    bool found = false;
    op->ret_stopped = false;
    op->ret_unblocked_lanes = 0;
    if (pg_step_lock(s, op->id, &o.task, &found, e) || pg_step_check_fence(&o.task, found, op->fence, e) ||
        pg_open_begin_run(s, op, e) || pg_open_lock_run(s, &o, &op->ret_stopped, e))
        return e->code;
    if (op->ret_stopped)
        return ERR_OK;
    o.begins = open_begins(op, o.task.was.links);
    if (pg_open_begin_join(s, &o, e) || pg_open_write_rows(s, &o, e) || pg_open_write_edges(s, &o, e) ||
        pg_open_write_joins(s, &o, e) || pg_open_also(s, &o, e))
        return e->code;
    return pg_open_write_task(s, &o, e);
}

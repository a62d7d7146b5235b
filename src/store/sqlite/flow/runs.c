/* OP_OPEN (port/store/runs.h). */
#include <stdlib.h>

#include "store/sqlite/flow/runs.h"

struct opening {
    struct store_sqlite *s;
    struct op_open *op;
    struct step_row task; /* that is opened */
    struct run_row run, outer;
    bool has_run, has_outer, paused;
    struct join_row join; /* of the task */
    struct end_of *ends;  /* rows of this page that end it */
    size_t end_count;
    int64_t inserted;
};

/* The first page: from now on the join of the task is that of its children. */
static enum err sqlite_open_begin(struct opening *o, struct error *e)
{
    struct store_sqlite *s = o->s;
    const struct op_open *op = o->op;
    struct run_row next = { 0 };
    if (op->begin) {
        next = run_begin(op, o->has_run ? &o->run : NULL, o->has_outer ? &o->outer : NULL, o->task.task.links);
        o->paused = next.paused;
        if (sqlite_run_write(s, &next, e))
            return e->code;
    }
    if (!open_begins(op, o->task.task.links))
        return ERR_OK;
    o->join = (struct join_row){ .expected = op->expected, .max_broken = op->max_broken };
    return sqlite_runs_delete(s, ST_EDGES_CLOSE, &op->id, 0, e);
}

static enum err sqlite_open_drop_signals(struct store_sqlite *s, const struct open_row *r, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SIGNALS_DELETE);
    if (!r->drops_signals)
        return ERR_OK;
    (void)bind_uuid(st, 1, &r->task.run);
    (void)bind_str(st, 2, r->signal);
    return conn_run(&s->conn, st, e);
}

/* `again`: what the row had before is deleted. Arrivals of it that are left would tell its children how it ended. */
static enum err sqlite_open_replace(struct opening *o, const struct open_row *r, const struct guards *g,
                                    const struct task *t, struct error *e)
{
    struct store_sqlite *s = o->s;
    if (sqlite_runs_delete(s, ST_EDGES_DELETE, &t->id, 0, e) || sqlite_runs_delete(s, ST_JOIN_DELETE, &t->id, 0, e) ||
        sqlite_runs_delete(s, ST_ARRIVAL_DROP, &t->id, 0, e) || sqlite_output_delete(s, &t->run, t->place, e) ||
        sqlite_output_delete(s, &t->id, PLACE_RUN, e) || sqlite_open_drop_signals(s, r, e))
        return e->code;
    return sqlite_replace_task(s, g, t, e);
}

static enum err sqlite_open_edges(struct opening *o, const struct open_row *r, struct error *e)
{
    struct joins *j = &o->s->joins;
    struct join_row row = {
        .join = r->join, .expected = (uint32_t)r->n, .counts = open_row_counts(r), .max_broken = -1
    };
    for (size_t i = 0; i < r->n; i++) {
        const struct open_edge_row *edge = &r->edges[i];
        struct edge_id id = { edge->parent, r->task.id };
        if (j->ops->end_put(j, &id, o->op->tenant, edge->type, edge->state, e))
            return e->code;
    }
    return r->n ? j->ops->join_put(j, &r->task, &row, e) : ERR_OK;
}

/* The row was inserted, or has replaced another, which was in that state. */
static enum err sqlite_open_written(struct opening *o, const struct open_row *r, const struct task *t, int was,
                                    struct error *e)
{
    o->op->ret_unblocked_lanes |= t->state == TASK_SCHEDULED ? lane_bit(task_lane(t)) : 0;
    change_add(&o->s->base, t->id, was, change_state(t->state, t->links));
    if (sqlite_open_edges(o, r, e))
        return e->code;
    return r->has_output ? sqlite_output_keep(o->s, t, r->output, e) : ERR_OK;
}

/* A row that exists stays, unless it is final, of an earlier opening, and opened again. *t is the row on return. */
static enum err sqlite_open_existing(struct opening *o, const struct open_row *r, struct task *t, struct error *e)
{
    struct guards g;
    if (sqlite_read_guards(o->s, &r->task.id, &g, e))
        return e->code;
    if (open_replaces(o->op, r, g.state, g.created_ms)) {
        *t = open_row_task(r, o->paused, g.fence);
        return sqlite_open_replace(o, r, &g, t, e) ? e->code : sqlite_open_written(o, r, t, (int)g.state, e);
    }
    t->state = g.state;
    t->links = g.links;
    return ERR_OK;
}

static enum err sqlite_open_row(struct opening *o, const struct open_row *r, struct error *e)
{
    struct task t = open_row_task(r, o->paused, 0);
    bool is_new;
    if (sqlite_insert_task(o->s, &t, &is_new, e))
        return e->code;
    o->inserted += is_new;
    if (is_new ? sqlite_open_written(o, r, &t, CHANGE_NEW, e) : sqlite_open_existing(o, r, &t, e))
        return e->code;
    if (r->ends)
        o->ends[o->end_count++] = (struct end_of){ .parent = t, .type = o->op->end_type, .is_new = is_new };
    return ERR_OK;
}

static enum err sqlite_open_rows(struct opening *o, struct error *e)
{
    enum err rc = ERR_OK;
    o->ends = xcalloc(o->op->n + 1, sizeof *o->ends);
    for (size_t i = 0; !rc && i < o->op->n; i++)
        rc = sqlite_open_row(o, &o->op->rows[i], e);
    if (!rc)
        rc = joins_end(&o->s->joins, o->ends, o->end_count, &o->task.task, &o->join, e);
    free(o->ends);
    return rc;
}

static enum err sqlite_open_count(struct opening *o, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(o->s, ST_RUN_COUNT);
    bool row;
    if (!o->inserted)
        return ERR_OK;
    (void)bind_uuid(st, 1, &o->op->root);
    sqlite3_bind_int64(st, 2, o->inserted);
    if (conn_step(&o->s->conn, st, &row, e))
        return e->code;
    bool fits = !row || sqlite3_column_int64(st, 0) <= RUN_TASKS_MAX;
    sqlite3_reset(st);
    return fits ? ERR_OK : open_too_many(e);
}

/* The task's row, last: its join, and whether it leaves its claim. */
static enum err sqlite_open_task(struct opening *o, struct error *e)
{
    struct joins *j = &o->s->joins;
    const struct op_open *op = o->op;
    struct task *t = &o->task.task;
    struct uuid claim = t->claim;
    bool starts = open_starts(op, t->links);
    if (op->also_count && joins_wait_for(j, t, op->also, op->also_count, op->end_type, &o->join, e))
        return e->code;
    open_apply(t, op, &(struct open_join){ o->join.expected, o->join.max_broken, o->join.counts });
    if (j->ops->join_put(j, t, &o->join, e) ||
        sqlite_step_write(o->s, &o->task, TASK_RUNNING, &o->op->ret_unblocked_lanes, e))
        return e->code;
    change_add_opened(&o->s->base, starts, t);
    return op->last ? sqlite_claim_leave(o->s, claim, 1, e) : ERR_OK;
}

static enum err sqlite_open_read(struct opening *o, struct error *e)
{
    struct store_sqlite *s = o->s;
    struct joins *j = &s->joins;
    bool ignored;
    o->join.max_broken = -1;
    if (sqlite_step_read(s, &o->op->id, &o->task, e) ||
        sqlite_run_read(s, &o->op->run, &o->op->op.arena, &o->run, &o->has_run, e) ||
        j->ops->join_get(j, &o->op->id, &o->join, &ignored, e))
        return e->code;
    if (!uuid_is_nil(o->op->outer) && sqlite_run_read(s, &o->op->outer, &o->op->op.arena, &o->outer, &o->has_outer, e))
        return e->code;
    const struct task *t = &o->task.task;
    bool is_claimed = o->task.found && task_is_claimed(t->state, t->fence, t->links, o->op->fence);
    return is_claimed ? ERR_OK : recall_too_late(e);
}

enum err sqlite_open(struct store_sqlite *s, struct op *base)
{
    struct op_open *op = (struct op_open *)base;
    struct error *e = &base->error;
    struct opening o = { .s = s, .op = op };
    op->ret_stopped = op->ret_arrivals_left = false;
    op->ret_unblocked_lanes = 0;
    if (sqlite_open_read(&o, e))
        return e->code;
    op->ret_stopped = open_is_stopped(op, o.has_run ? &o.run : NULL, o.has_outer ? &o.outer : NULL, o.task.task.links);
    if (op->ret_stopped)
        return ERR_OK;
    if (open_asks_arrivals(op) && s->joins.ops->run_is_left(&s->joins, &op->run, &op->ret_arrivals_left, e))
        return e->code;
    if (op->ret_arrivals_left)
        return ERR_OK;
    o.paused = o.has_run && o.run.paused;
    if (op->first && sqlite_open_begin(&o, e))
        return e->code;
    if (sqlite_open_rows(&o, e) || sqlite_open_count(&o, e))
        return e->code;
    return sqlite_open_task(&o, e);
}

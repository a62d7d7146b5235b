/* OP_OPEN, OP_AWAIT, OP_SIGNAL (port/store/runs.h). OP_STOP is in run_stop.c, OP_DEFINE in definitions.c.
 *
 * Only the columns that these operations need are read and written (struct step_row): inputs of runs may be large. */
#include "store/sqlite/flow/runs.h"

#include <stdlib.h>

/* ---- rows of steps and runs ---- */

void sqlite_step_read_row(sqlite3_stmt *st, struct step_row *ret)
{
    struct str queue = row_text(st, 20);
    *ret = (struct step_row){
        .found = true,
        .rid = sqlite3_column_int64(st, 0),
        .lane = sqlite3_column_int64(st, 11),
        .gated = sqlite3_column_int(st, 21) != 0,
        .task = { .id = row_uuid(st, 1),
                  .tenant = sqlite3_column_int(st, 2),
                  .kind = (enum task_kind)sqlite3_column_int(st, 3),
                  .state = (enum task_state)sqlite3_column_int(st, 4),
                  .deleted = sqlite3_column_int(st, 5) != 0,
                  .links = sqlite3_column_int(st, 6),
                  .due_ms = sqlite3_column_int64(st, 7),
                  .scheduled_ms = sqlite3_column_int64(st, 8),
                  .awaited_ms = sqlite3_column_int64(st, 9),
                  .late_by = (enum late_cause)sqlite3_column_int(st, 10),
                  .completed_ms = sqlite3_column_int64(st, 12),
                  .fence = sqlite3_column_int64(st, 13),
                  .claim = row_uuid(st, 14),
                  .started_ms = sqlite3_column_int64(st, 15),
                  .priority = sqlite3_column_int(st, 16),
                  .target = (enum target_kind)sqlite3_column_int(st, 17),
                  .run = row_uuid(st, 18),
                  .place = sqlite3_column_int64(st, 19),
                  .losses = sqlite3_column_int(st, 22) },
    };
    ret->queue_size = min_of(queue.n, sizeof ret->queue);
    if (queue.n)
        memcpy(ret->queue, queue.p, ret->queue_size);
}

enum err sqlite_step_read(struct store_sqlite *s, const struct uuid *id, struct step_row *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_STEP);
    bool row;
    (void)bind_uuid(st, 1, id);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = (struct step_row){ 0 };
    if (row)
        sqlite_step_read_row(st, ret);
    sqlite3_reset(st);
    return ERR_OK;
}

/* Control work moves to the lane of its tenant. */
static enum err sqlite_step_move(struct store_sqlite *s, struct step_row *r, struct error *e)
{
    const struct lane_row *lane;
    if (!task_is_control(&r->task))
        return ERR_OK;
    if (!r->queue_size) {
        if (lanes_at(&s->conn, r->lane, &lane, e))
            return e->code;
        r->queue_size = lane->lane.queue.n;
        memcpy(r->queue, lane->lane.queue.p, r->queue_size);
    }
    return sqlite_lane_number(s, task_lane(&r->task), task_pool(&r->task), &r->lane, e);
}

static void sqlite_step_bind(sqlite3_stmt *st, const struct step_row *r)
{
    const struct task *t = &r->task;
    sqlite3_bind_int64(st, 1, r->rid);
    sqlite3_bind_int(st, 2, (int)t->state);
    sqlite3_bind_int(st, 3, t->links);
    sqlite3_bind_int64(st, 4, t->due_ms);
    sqlite3_bind_int64(st, 5, t->scheduled_ms);
    sqlite3_bind_int64(st, 6, t->awaited_ms);
    sqlite3_bind_int(st, 7, (int)t->late_by);
    sqlite3_bind_int64(st, 8, t->updated_ms);
    sqlite3_bind_int64(st, 9, t->completed_ms);
    sqlite3_bind_null(st, 10);
    if (t->last_error.n)
        (void)bind_str(st, 10, t->last_error);
    (void)bind_uuid(st, 11, &t->claim);
    sqlite3_bind_int64(st, 12, t->started_ms);
    sqlite3_bind_int64(st, 13, r->lane);
    sqlite3_bind_null(st, 14);
    if (task_is_control(t))
        (void)bind_str(st, 14, (struct str){ r->queue, r->queue_size });
}

enum err sqlite_step_write(struct store_sqlite *s, struct step_row *r, enum task_state was, uint64_t *lanes,
                           struct error *e)
{
    const struct task *t = &r->task;
    const struct lane_row *lane;
    sqlite3_stmt *st = writer_stmt(s, ST_STEP_PUT);
    if (sqlite_step_move(s, r, e))
        return e->code;
    sqlite_step_bind(st, r);
    if (conn_run(&s->conn, st, e) || lanes_at(&s->conn, r->lane, &lane, e))
        return e->code;
    tally_move(&s->of_op, t->tenant, t->deleted, was, t->state);
    if (uuid_is_nil(t->run))
        sqlite_ended_note(s, r->rid, t->state, t->completed_ms);
    *lanes |= t->state == TASK_SCHEDULED ? lane_bit(lane->lane) : 0;
    return ERR_OK;
}

/* ---- rows of runs ---- */

enum err sqlite_run_read(struct store_sqlite *s, const struct uuid *id, struct arena *a, struct run_row *ret,
                         bool *ret_found, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_RUN);
    (void)bind_uuid(st, 1, id);
    if (conn_step(&s->conn, st, ret_found, e) || !*ret_found)
        return s->conn.failed;
    *ret = (struct run_row){ 0 };
    enum err rc = row_read(&s->conn, st, 1, &table_runs, a, ret, e);
    sqlite3_reset(st);
    return rc;
}

enum err sqlite_run_write(struct store_sqlite *s, const struct run_row *row, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_RUN_PUT);
    row_bind(&s->conn, st, 1, &table_runs, row);
    return conn_run(&s->conn, st, e);
}

/* ---- OP_OPEN ---- */

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

/* Runs a statement with an id as its parameter; ST_OUTPUT_DELETE has a place, too. */
static enum err sqlite_runs_delete(struct store_sqlite *s, enum writer_statement which, const struct uuid *id,
                                   int64_t place, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, which);
    (void)bind_uuid(st, 1, id);
    if (which == ST_OUTPUT_DELETE)
        sqlite3_bind_int64(st, 2, place);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_run_resume(struct store_sqlite *s, const struct uuid *run, struct error *e)
{
    return sqlite_runs_delete(s, ST_RUN_RESUME, run, 0, e);
}

enum err sqlite_run_forget(struct store_sqlite *s, const struct task *t, struct error *e)
{
    return t->links & TASK_NEW_INPUT ? sqlite_runs_delete(s, ST_PURGE_SIGNALS, &t->id, 0, e) : ERR_OK;
}

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

static enum err sqlite_output_put(struct store_sqlite *s, enum writer_statement which, const struct uuid *run,
                                  int64_t place, const struct run_output *o, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, which);
    (void)bind_uuid(st, 1, run);
    sqlite3_bind_int64(st, 2, place);
    sqlite3_bind_int(st, 3, o->whole);
    (void)bind_str(st, 4, o->text);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_output_keep(struct store_sqlite *s, const struct task *t, struct str output, struct error *e)
{
    struct run_output o = output_kept(output);
    bool is_step = !uuid_is_nil(t->run);
    if (is_step && sqlite_output_put(s, ST_OUTPUT_PUT, &t->run, t->place, &o, e))
        return e->code;
    return sqlite_output_put(s, is_step ? ST_OUTPUT_PUT_SUB_RUN : ST_OUTPUT_PUT, &t->id, PLACE_RUN, &o, e);
}

enum err sqlite_output_delete(struct store_sqlite *s, const struct uuid *run, int64_t place, struct error *e)
{
    return sqlite_runs_delete(s, ST_OUTPUT_DELETE, run, place, e);
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

/* ---- OP_AWAIT ---- */

/* How many signals of that name there are, and the bytes of their payloads. */
static enum err sqlite_signals_count(struct store_sqlite *s, const struct uuid *run, struct str name, size_t *ret,
                                     int64_t *ret_bytes, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SIGNALS_COUNT);
    bool row;
    (void)bind_uuid(st, 1, run);
    (void)bind_str(st, 2, name);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = (size_t)sqlite3_column_int64(st, 0);
    *ret_bytes = sqlite3_column_int64(st, 1);
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_await(struct store_sqlite *s, struct op *base)
{
    struct op_await *op = (struct op_await *)base;
    struct error *e = &base->error;
    struct step_row step;
    struct run_row run;
    size_t signals;
    int64_t bytes;
    bool has_run;
    op->ret_unblocked_lanes = 0;
    if (sqlite_step_read(s, &op->id, &step, e))
        return e->code;
    struct task *t = &step.task;
    if (!step.found || !task_is_claimed(t->state, t->fence, t->links, op->fence))
        return recall_too_late(e);
    if (sqlite_run_read(s, &t->run, &base->arena, &run, &has_run, e) ||
        sqlite_signals_count(s, &t->run, op->signal, &signals, &bytes, e))
        return e->code;
    struct uuid claim = t->claim;
    int links = t->links;
    await_apply(t, op, signals, has_run && run.paused, has_run && run.stop != RUN_GOES_ON);
    if (sqlite_step_write(s, &step, TASK_RUNNING, &op->ret_unblocked_lanes, e))
        return e->code;
    change_add_awaiting(&s->base, links, t);
    return sqlite_claim_leave(s, claim, 1, e);
}

/* ---- OP_SIGNAL ---- */

/* Whether this sender has sent it before. */
static enum err sqlite_signal_find(struct store_sqlite *s, const struct signal_row *x, bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SIGNAL);
    (void)bind_uuid(st, 1, &x->run);
    (void)bind_str(st, 2, x->name);
    (void)bind_str(st, 3, x->sender);
    if (conn_step(&s->conn, st, ret, e) || !*ret)
        return s->conn.failed;
    struct signal_row old = { .payload = row_text(st, 0), .rejects = sqlite3_column_int(st, 1) != 0 };
    enum err rc = signal_check_same(&old, x, e);
    sqlite3_reset(st);
    return rc;
}

static enum err sqlite_signal_put(struct store_sqlite *s, const struct signal_row *x, struct error *e)
{
    size_t count;
    int64_t bytes;
    if (sqlite_signals_count(s, &x->run, x->name, &count, &bytes, e) ||
        signal_check_room(count + 1, bytes + (int64_t)x->payload.n, e))
        return e->code;
    sqlite3_stmt *st = writer_stmt(s, ST_SIGNAL_PUT);
    row_bind(&s->conn, st, 1, &table_signals, x);
    return conn_run(&s->conn, st, e);
}

/* With `wakes` false: only looks whether none takes it any more. */
static enum err sqlite_signal_steps(struct store_sqlite *s, struct op_signal *op, bool wakes, bool *ret_over,
                                    struct error *e)
{
    *ret_over = op->n > 0;
    for (size_t i = 0; i < op->n; i++) {
        struct step_row step;
        if (sqlite_step_read(s, &op->steps[i], &step, e))
            return e->code;
        struct task was = step.task;
        bool takes = step.found && signal_takes(op, &step.task);
        *ret_over = *ret_over && step.found && !takes;
        if (!wakes || !takes || !signal_wakes(&step.task, op->signal->time_ms))
            continue;
        change_add_links(&s->base, &was, &step.task);
        if (sqlite_step_write(s, &step, was.state, &op->ret_unblocked_lanes, e))
            return e->code;
    }
    return ERR_OK;
}

enum err sqlite_signal(struct store_sqlite *s, struct op *base)
{
    struct op_signal *op = (struct op_signal *)base;
    struct error *e = &base->error;
    struct step_row run;
    int64_t record = 0;
    bool over;
    op->ret_repeated = false;
    op->ret_unblocked_lanes = 0;
    if (sqlite_idempotency_put(s, op->idempotency, &record, e) || sqlite_step_read(s, &op->signal->run, &run, e) ||
        signal_check_run(&run.task, run.found, op->tenant, e) ||
        sqlite_signal_find(s, op->signal, &op->ret_repeated, e))
        return e->code;
    if (op->ret_repeated)
        return ERR_OK;
    if (sqlite_signal_steps(s, op, false, &over, e))
        return e->code;
    if (over)
        return signal_too_late(e);
    return sqlite_signal_put(s, op->signal, e) ? e->code : sqlite_signal_steps(s, op, true, &over, e);
}

/* Rows of runs and steps, and the outputs that are kept (store/sqlite/flow/runs.h).
 *
 * Only the columns that the operations on runs need are read and written (struct step_row): inputs of runs may be
 * large. */
#include "store/sqlite/flow/runs.h"

/* ---- steps ---- */

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

/* ---- runs ---- */

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

/* Runs a statement with an id as its parameter; ST_OUTPUT_DELETE has a place, too. */
enum err sqlite_runs_delete(struct store_sqlite *s, enum writer_statement which, const struct uuid *id, int64_t place,
                            struct error *e)
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

/* ---- outputs ---- */

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

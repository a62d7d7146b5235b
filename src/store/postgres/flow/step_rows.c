/* Rows of runs and steps (store/postgres/flow/runs.h). */
#include <assert.h>
#include <stdlib.h>

#include "store/postgres/flow/runs.h"

static const struct pg_statement lock_step = {
    "step_lock",
    "SELECT " STEP_COLUMNS ", (SELECT EXISTS (SELECT FROM wishes)) FROM tasks AS t WHERE t.id = $1 FOR NO KEY UPDATE"
};
static const struct pg_statement write_steps = {
    "steps_write",
    "UPDATE tasks SET state = v.state, claim_id = v.claim, links = v.links, lane = v.lane, queue = v.queue, "
    "due_ms = v.due_ms, scheduled_ms = v.scheduled_ms, awaited_ms = v.awaited_ms, late_by = v.late_by, "
    "started_ms = v.started_ms, completed_ms = v.completed_ms, "
    "waits_for = CASE v.state WHEN " SQL_BLOCKED " THEN tasks.waits_for END, updated_ms = v.updated_ms, "
    "last_error = coalesce(v.last_error, tasks.last_error) "
    "FROM unnest($*) AS v(task, state, claim, links, lane, queue, due_ms, scheduled_ms, awaited_ms, late_by, "
    "started_ms, completed_ms, updated_ms, last_error) WHERE id = v.task",
};

/* Of a step at its place in its run, of a run at itself. A sub-run is both. */
static const struct pg_statement keep_outputs = {
    "outputs_keep",
    "INSERT INTO outputs (run_id, place, whole, text) SELECT k.run, k.place, x.whole, x.text "
    "FROM unnest($*) AS x(task, run, place, whole, text), LATERAL (SELECT x.run, x.place WHERE x.run IS NOT NULL "
    "UNION ALL SELECT x.task, -1 WHERE x.run IS NULL OR EXISTS (SELECT FROM runs WHERE run_id = x.task)) "
    "AS k(run, place) ON CONFLICT (run_id, place) DO UPDATE SET whole = excluded.whole, text = excluded.text",
};
static_assert(PLACE_RUN == -1, "keep_outputs names it by number");

enum {
    S_ID,
    S_TENANT,
    S_STATE,
    S_FENCE,
    S_CLAIM,
    S_LINKS,
    S_LANE,
    S_QUEUE,
    S_DUE,
    S_SCHEDULED,
    S_AWAITED,
    S_LATE_BY,
    S_STARTED,
    S_COMPLETED,
    S_RUN,
    S_PLACE,
    S_PRIORITY,
    S_TARGET,
    S_LOSSES,
    S_DELETED,
    S_GATES,
    S_WAITS_FOR,
    S_KIND,
    S_UPDATED,
    S_ATTEMPTS,
    S_RECALLS
};

enum err pg_step_read(struct store_postgres *s, const struct pg_result *r, int row, struct pg_step *ret,
                      struct error *e)
{
    const struct lane_row *lane;
    struct task t = { .id = pg_uuid(r, row, S_ID),
                      .tenant = (int32_t)pg_i64(r, row, S_TENANT),
                      .state = (enum task_state)pg_i64(r, row, S_STATE),
                      .fence = pg_i64(r, row, S_FENCE),
                      .claim = pg_uuid(r, row, S_CLAIM),
                      .links = (int)pg_i64(r, row, S_LINKS),
                      .due_ms = pg_i64(r, row, S_DUE),
                      .scheduled_ms = pg_i64(r, row, S_SCHEDULED),
                      .awaited_ms = pg_i64(r, row, S_AWAITED),
                      .late_by = (enum late_cause)pg_i64(r, row, S_LATE_BY),
                      .started_ms = pg_i64(r, row, S_STARTED),
                      .completed_ms = pg_i64(r, row, S_COMPLETED),
                      .updated_ms = pg_i64(r, row, S_UPDATED),
                      .run = pg_uuid(r, row, S_RUN),
                      .place = pg_i64(r, row, S_PLACE),
                      .priority = (int)pg_i64(r, row, S_PRIORITY),
                      .target = (enum target_kind)pg_i64(r, row, S_TARGET),
                      .losses = (int)pg_i64(r, row, S_LOSSES),
                      .attempts = (int)pg_i64(r, row, S_ATTEMPTS),
                      .deleted = pg_bool(r, row, S_DELETED),
                      .kind = (enum task_kind)pg_i64(r, row, S_KIND) };
    *ret = (struct pg_step){ .lane = pg_i64(r, row, S_LANE), .gated = !pg_is_null(r, row, S_GATES) };
    if (pg_lanes_at(&s->conn, &s->lanes, ret->lane, &lane, e))
        return e->code;
    struct str queue = pg_is_null(r, row, S_QUEUE) ? lane->lane.queue : pg_text(r, row, S_QUEUE);
    if (!arena_str(&s->arena, queue, &t.queue) || !arena_str(&s->arena, pg_text(r, row, S_WAITS_FOR), &t.waits_for))
        return error_no_room(e);
    if (column_read_text(&table_tasks, &table_tasks.columns[AT_gates - 1], pg_text(r, row, S_GATES), &s->arena, &t, e))
        return e->code;
    ret->was = ret->next = t;
    return ERR_OK;
}

enum err pg_step_lock(struct store_postgres *s, struct uuid id, struct pg_step *ret, bool *ret_found, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, id);
    if (pg_run(&s->conn, &lock_step, &s->params, &r, e))
        return e->code;
    *ret_found = r.rows > 0;
    if (r.rows == 0)
        return ERR_OK;
    /* if it leaves its claim, and was requested back, its requester gets a notice */
    s->notice.given_back = s->notice.given_back || pg_bool(&r, 0, S_RECALLS);
    return pg_step_read(s, &r, 0, ret, e);
}

enum err pg_step_check_fence(const struct pg_step *t, bool found, int64_t fence, struct error *e)
{
    if (found && t->was.state == TASK_RUNNING && !uuid_is_nil(t->was.claim) && t->was.fence == fence)
        return ERR_OK;
    (void)error_set(e, ERR_CONFLICT, "the task is not running under this claim any more");
    return error_in(e, "fence");
}

/* ---- writing ---- */

enum step_column {
    W_TASK,
    W_STATE,
    W_CLAIM,
    W_LINKS,
    W_LANE,
    W_QUEUE,
    W_DUE,
    W_SCHEDULED,
    W_AWAITED,
    W_LATE_BY,
    W_STARTED,
    W_COMPLETED,
    W_UPDATED,
    W_LAST_ERROR,
    W_COUNT
};

static void pg_step_add_value(struct pg_params *p, enum step_column which, const struct task *t, int64_t lane)
{
    switch (which) {
    case W_TASK: pg_element_uuid(p, t->id); break;
    case W_STATE: pg_element_i64(p, t->state); break;
    case W_CLAIM: pg_element_uuid(p, t->claim); break;
    case W_LINKS: pg_element_i64(p, t->links); break;
    case W_LANE: pg_element_i64(p, lane); break;
    case W_QUEUE: pg_element_text_or_null(p, task_is_control(t) ? t->queue : S("")); break;
    case W_DUE: pg_element_i64(p, t->due_ms); break;
    case W_SCHEDULED: pg_element_i64(p, t->scheduled_ms); break;
    case W_AWAITED: pg_element_i64(p, t->awaited_ms); break;
    case W_LATE_BY: pg_element_i64(p, t->late_by); break;
    case W_STARTED: pg_element_i64(p, t->started_ms); break;
    case W_COMPLETED: pg_element_i64(p, t->completed_ms); break;
    case W_UPDATED: pg_element_i64(p, t->updated_ms); break;
    case W_LAST_ERROR: pg_element_text_or_null(p, t->last_error); break;
    case W_COUNT: abort();
    }
}

static enum err pg_steps_send(struct store_postgres *s, const struct pg_step *v, const int64_t *lanes, size_t n,
                              struct error *e)
{
    static const enum pg_type types[] = {
        [W_TASK] = PG_UUID,   [W_STATE] = PG_I32,       [W_CLAIM] = PG_UUID,  [W_LINKS] = PG_I32,
        [W_LANE] = PG_I32,    [W_QUEUE] = PG_TEXT,      [W_DUE] = PG_I64,     [W_SCHEDULED] = PG_I64,
        [W_AWAITED] = PG_I64, [W_LATE_BY] = PG_I32,     [W_STARTED] = PG_I64, [W_COMPLETED] = PG_I64,
        [W_UPDATED] = PG_I64, [W_LAST_ERROR] = PG_TEXT,
    };
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    for (enum step_column which = 0; which < W_COUNT; which++) {
        pg_array(p, types[which]);
        for (size_t i = 0; i < n; i++)
            pg_step_add_value(p, which, &v[i].next, lanes[i]);
        pg_array_end(p);
    }
    return pg_queue(&s->conn, &write_steps, p, e);
}

/* A task that becomes control work moves to another lane. The others stay in theirs. */
static enum err pg_step_find_lane(struct store_postgres *s, const struct pg_step *t, int64_t *ret, uint64_t *ret_bit,
                                  struct error *e)
{
    const struct lane_row *row;
    *ret = t->lane;
    if (task_is_control(&t->next) && !task_is_control(&t->was)) {
        struct pg_lane_want want = { .lane = task_lane(&t->next), .pool = task_pool(&t->next) };
        *ret_bit = lane_bit(want.lane);
        if (pg_lane_numbers(s, &want, 1, e))
            return e->code;
        *ret = want.number;
        return ERR_OK;
    }
    if (pg_lanes_at(&s->conn, &s->lanes, t->lane, &row, e))
        return e->code;
    *ret_bit = lane_bit(row->lane);
    return ERR_OK;
}

static void pg_step_note(struct store_postgres *s, const struct pg_step *x)
{
    const struct task *was = &x->was, *t = &x->next;
    pg_tally_move(s, t->tenant, t->deleted, was->state, t->state);
    pg_note_ended(s, t->id, t->state, t->completed_ms);
    if (t->state == TASK_SCHEDULED)
        pg_note_due(s, t->due_ms);
    if (!uuid_is_nil(was->claim) && uuid_is_nil(t->claim))
        pg_note_left(s, was->claim);
}

enum err pg_steps_write(struct store_postgres *s, const struct pg_step *v, size_t n, uint64_t *unblocked,
                        struct error *e)
{
    if (n == 0)
        return ERR_OK;
    int64_t *lanes = arena_array(&s->arena, int64_t, n);
    if (!lanes)
        return error_no_room(e);
    for (size_t i = 0; i < n; i++) {
        uint64_t bit = 0;
        if (pg_step_find_lane(s, &v[i], &lanes[i], &bit, e))
            return e->code;
        *unblocked |= v[i].next.state == TASK_SCHEDULED ? bit : 0;
        pg_step_note(s, &v[i]);
    }
    return pg_steps_send(s, v, lanes, n, e);
}

/* ---- outputs ---- */

enum err pg_outputs_keep(struct store_postgres *s, const struct pg_output *v, size_t n, struct error *e)
{
    struct pg_params *p = &s->params;
    if (n == 0)
        return ERR_OK;
    pg_params_reset(p);
    pg_add_members(p, v, n, task);
    pg_add_members(p, v, n, run);
    pg_add_members(p, v, n, place);
    pg_array(p, PG_BOOL);
    for (size_t i = 0; i < n; i++)
        pg_element_bool(p, output_kept(v[i].text).whole);
    pg_array_end(p);
    pg_array(p, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        pg_element_text_or_null(p, output_kept(v[i].text).text);
    pg_array_end(p);
    return pg_queue(&s->conn, &keep_outputs, p, e);
}

/* ---- runs ---- */

static const struct pg_statement resume_run = { "put_resume_run",
                                                "UPDATE runs SET paused = false WHERE run_id = $1 AND paused" };
static const struct pg_statement forget_signals = { "put_forget_signals", "DELETE FROM signals WHERE run_id = $1" };

enum err pg_run_resume(struct store_postgres *s, enum task_state was, const struct task *next, struct error *e)
{
    if (!put_resumes_run(was, next))
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, next->id);
    return pg_queue(&s->conn, &resume_run, &s->params, e);
}

enum err pg_run_forget(struct store_postgres *s, const struct task *t, struct error *e)
{
    if (!(t->links & TASK_NEW_INPUT))
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, t->id);
    return pg_queue(&s->conn, &forget_signals, &s->params, e);
}

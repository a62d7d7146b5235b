/* OP_SETTLE. */
#include <assert.h>

#include "store/sqlite/claim/claim.h"
#include "store/sqlite/flow/runs.h"

/* Binds the parameters that only ST_SETTLE has. ST_SETTLE_DONE omits these columns, so that most settles do not touch
 * their indexes. */
static void sqlite_settle_bind_rest(sqlite3_stmt *st, const struct verdict *v, bool is_step, int64_t now_ms)
{
    bool failed = v->next == TASK_FAILED;
    sqlite3_bind_null(st, 3);
    sqlite3_bind_null(st, 10);
    sqlite3_bind_null(st, 11);
    sqlite3_bind_null(st, 12);
    sqlite3_bind_null(st, 13);
    if (!failed) {
        sqlite3_bind_int64(st, 3, v->due_ms);
        sqlite3_bind_int64(st, 12, v->awaited_ms);
        sqlite3_bind_int(st, 13, (int)v->late_by);
    }
    if (failed && v->cause.text[0])
        (void)bind_str(st, 10, str_from(v->cause.text));
    if (failed && !is_step) /* a step is no dead letter */
        sqlite3_bind_int64(st, 11, settle_completed_ms(v, now_ms));
}

static enum err sqlite_settle_write_verdict(struct store_sqlite *s, const struct guards *g, const struct verdict *v,
                                            int64_t now_ms, struct error *e)
{
    bool again = !task_is_final(v->next), failed = v->next == TASK_FAILED, is_step = !uuid_is_nil(g->run);
    sqlite3_stmt *st = writer_stmt(s, again || failed ? ST_SETTLE : ST_SETTLE_DONE);
    sqlite3_bind_int64(st, 1, g->rid);
    sqlite3_bind_int(st, 2, (int)v->next);
    sqlite3_bind_int(st, 4, v->attempts);
    sqlite3_bind_int(st, 5, v->losses);
    sqlite3_bind_int64(st, 6, now_ms);
    if (v->has_execution)
        sqlite3_bind_int64(st, 7, v->execution.started_us / 1000);
    else
        sqlite3_bind_null(st, 7);
    sqlite3_bind_int64(st, 8, settle_completed_ms(v, now_ms));
    if (v->last_error.n)
        (void)bind_str(st, 9, v->last_error);
    else
        sqlite3_bind_null(st, 9);
    if (again || failed) {
        sqlite_settle_bind_rest(st, v, is_step, now_ms);
        sqlite3_bind_int(st, 14, settled_links(g->links, v->next, v->has_execution));
    }
    tally_move(&s->of_op, g->tenant, g->deleted, TASK_RUNNING, v->next);
    if (!is_step)
        sqlite_ended_note(s, g->rid, v->next, settle_completed_ms(v, now_ms));
    return conn_run(&s->conn, st, e);
}

/* A task becomes or stops being a suspect by its losses, is put aside, or is recalled: its lane changes with that. */
static enum err sqlite_settle_move_lane(struct store_sqlite *s, const struct guards *g, const struct verdict *v,
                                        struct error *e)
{
    bool was = task_is_suspect(&(struct task){ .losses = g->losses });
    bool is = task_is_suspect(&(struct task){ .losses = v->losses });
    const struct lane_row *row;
    if (was == is && !v->aside.n && !v->recalled)
        return ERR_OK;
    if (lanes_at(&s->conn, g->lane, &row, e))
        return e->code;
    bool is_control = row->lane.queue.n == 0; /* its lane has no host, and is never late */
    struct lane next = is_control ? row->lane : lane_put_aside(row, v->aside);
    int pool = pool_of_suspects(row->pool, is);
    int64_t lane;
    if (sqlite_lane_number(s, next, v->recalled && !is_control ? pool_of_late(pool) : pool, &lane, e))
        return e->code;
    sqlite3_stmt *st = writer_stmt(s, ST_MOVE_LANE);
    sqlite3_bind_int64(st, 1, g->rid);
    sqlite3_bind_int64(st, 2, lane);
    if (v->aside.n)
        (void)bind_str(st, 3, v->aside);
    else
        sqlite3_bind_null(st, 3);
    sqlite3_bind_int(st, 4, v->recalled);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_settle_write_execution(struct store_sqlite *s, const struct settlement *v, struct error *e)
{
    struct execution copy = v->verdict.execution, *x = &copy;
    sqlite3_stmt *st = writer_stmt(s, ST_EXECUTION_INSERT);
    x->output = output_head(x->output);
    row_bind(&s->conn, st, 2, &table_executions, x);
    if (conn_run(&s->conn, st, e) || uuid_is_nil(v->parent))
        return s->conn.failed;
    st = writer_stmt(s, ST_LAST_RUN);
    (void)bind_uuid(st, 1, &v->parent);
    sqlite3_bind_int64(st, 2, x->started_us / 1000);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_settle_keep_output(struct store_sqlite *s, const struct guards *g, const struct settlement *v,
                                          struct error *e)
{
    enum task_state next = v->replace ? v->replace->state : v->verdict.next;
    struct task t = { .id = v->id, .run = g->run, .place = g->place };
    bool keeps = next == TASK_COMPLETED && g->links & TASK_KEEPS_OUTPUT;
    return keeps ? sqlite_output_keep(s, &t, v->verdict.execution.output, e) : ERR_OK;
}

/* A replaced task leaves its claim here, like one with a verdict, so that it is counted once. */
static enum err sqlite_settle_write_replacement(struct store_sqlite *s, const struct guards *g, const struct task *t,
                                                uint64_t *unblocked, struct error *e)
{
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    struct task next = *t;
    struct guards left = *g;
    enum task_state ignored;
    assert(uuid_eq(t->claim, g->claim) || t->state != TASK_RUNNING);
    dependency_tidy(&next, g->links);
    next.claim = (struct uuid){ 0 };
    left.claim = (struct uuid){ 0 };
    if (sqlite_run_forget(s, t, e))
        return e->code;
    if (sqlite_change_task(s, &left, &next, &keys, &ignored, e))
        return e->code;
    return slots_hand_over(&s->slots, &keys, unblocked, e);
}

static enum err sqlite_settle_apply_verdict(struct store_sqlite *s, const struct guards *g, const struct settlement *v,
                                            struct op_settle *op, struct error *e)
{
    enum task_state next = v->verdict.next;
    /* The lane first: while the task is RUNNING, it is in no index over lanes. */
    if (sqlite_settle_move_lane(s, g, &v->verdict, e) || sqlite_settle_write_verdict(s, g, &v->verdict, op->now_ms, e))
        return e->code;
    bool skipped = next == TASK_EXPIRED || next == TASK_SKIPPED;
    bool uncounted = !uuid_is_nil(v->parent) && (skipped || next == TASK_CANCELLED);
    if (uncounted && sqlite_uncount_run(s, g->rid, &v->parent, skipped, e))
        return e->code;
    return g->gated ? slots_settle(&s->slots, &v->id, next, &op->ret_unblocked_lanes, e) : ERR_OK;
}

/* A step that would wait again looks at its run (runs.h, rule 7). */
static enum err sqlite_settle_ask_run(struct store_sqlite *s, const struct guards *g, int64_t now_ms,
                                      struct settlement *v, struct task *row, struct error *e)
{
    struct run_row run;
    bool found;
    if (!settle_asks_run(v, g->run))
        return ERR_OK;
    if (sqlite_run_read(s, &g->run, &s->arena, &run, &found, e))
        return e->code;
    if (found)
        settle_in_run(&run, g->links, g->place, now_ms, v, row);
    return ERR_OK;
}

/* The same for a step to which a signal came (rule 10), and else for a run that ends (rule 8). */
static enum err sqlite_settle_ask_own(struct store_sqlite *s, const struct guards *g, struct op_settle *op,
                                      struct settlement *v, bool *ret_stale, struct error *e)
{
    struct run_row run;
    bool found = false, stale = settle_of_await(g->links, op->now_ms, v);
    bool asks = !stale && settle_asks_own(v, g->links);
    if (asks && sqlite_run_read(s, &v->id, &s->arena, &run, &found, e))
        return e->code;
    *ret_stale = stale || (found && settle_of_run(&run, op->now_ms, v));
    op->ret_unblocked_lanes = op_unblocked(op->ret_unblocked_lanes, *ret_stale);
    return ERR_OK;
}

/* Deletes an occurrence of a paused task, and sets the cursor of the task back to it. */
static enum err sqlite_settle_withdraw(struct store_sqlite *s, const struct guards *g, const struct settlement *v,
                                       int64_t parent_rid, int64_t at_ms, uint64_t *unblocked, struct error *e)
{
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    if (g->gated && slots_release(&s->slots, &v->id, NULL, &keys, e))
        return e->code;
    if (!g->deleted)
        tally_add(&s->of_op, g->tenant, TASK_RUNNING, -1);
    sqlite3_stmt *st = writer_stmt(s, ST_CATCH_UP_REWIND);
    sqlite3_bind_int64(st, 1, parent_rid);
    sqlite3_bind_int64(st, 2, at_ms);
    sqlite3_bind_int64(st, 3, 1);
    if (conn_run(&s->conn, st, e) || sqlite_delete_task(s, g->rid, e))
        return e->code;
    return slots_hand_over(&s->slots, &keys, unblocked, e);
}

/* An occurrence that would wait looks at its recurring task (OP_SETTLE 10 to 13). */
static enum err sqlite_settle_ask_parent(struct store_sqlite *s, const struct guards *g, struct op_settle *op,
                                         struct settlement *v, struct task *row, bool *ret_withdrawn, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SETTLE_PARENT);
    bool found;
    *ret_withdrawn = false;
    if (!settle_asks_parent(v))
        return ERR_OK;
    sqlite3_bind_int64(st, 1, g->rid);
    (void)bind_uuid(st, 2, &v->parent);
    if (conn_step(&s->conn, st, &found, e) || !found)
        return s->conn.failed;
    struct settle_schedule of = { .parent = { .state = (enum task_state)sqlite3_column_int(st, 1),
                                              .deleted = sqlite3_column_int(st, 2) != 0 },
                                  .runs_count = sqlite3_column_int64(st, 4),
                                  .started_ms = sqlite3_column_int64(st, 5),
                                  .version = sqlite3_column_int64(st, 7),
                                  .links = g->links };
    struct schedule schedule = { .spread_ms = sqlite3_column_int64(st, 3) };
    int64_t rid = sqlite3_column_int64(st, 0);
    int64_t at_ms = sqlite3_column_int64(st, 6) + schedule_spread(&schedule, v->parent);
    sqlite3_reset(st);
    *ret_withdrawn = settle_in_schedule(&of, op->now_ms, v, row);
    return *ret_withdrawn ? sqlite_settle_withdraw(s, g, v, rid, at_ms, &op->ret_unblocked_lanes, e) : ERR_OK;
}

/* Writes the task's row by its replacement or by its verdict, unless it is withdrawn. */
static enum err sqlite_settle_write(struct store_sqlite *s, const struct guards *g, struct op_settle *op,
                                    struct settlement *v, struct task *row, enum task_state *ret_state, struct error *e)
{
    bool withdrawn;
    if (sqlite_settle_ask_parent(s, g, op, v, row, &withdrawn, e))
        return e->code;
    *ret_state = v->replace ? v->replace->state : v->verdict.next;
    if (withdrawn)
        return ERR_OK;
    return v->replace ? sqlite_settle_write_replacement(s, g, v->replace, &op->ret_unblocked_lanes, e)
                      : sqlite_settle_apply_verdict(s, g, v, op, e);
}

static enum err sqlite_settle_one(struct store_sqlite *s, struct op_settle *op, struct settlement *given,
                                  struct claims_left *l, struct join_fold *f, struct error *e)
{
    struct guards g;
    struct settlement changed = *given, *v = &changed;
    struct task row;
    if (sqlite_read_settle_guards(s, &v->id, &g, e))
        return e->code;
    given->stale = !g.found || !task_is_claimed(g.state, g.fence, g.links, v->fence);
    if (given->stale)
        return ERR_OK;
    arena_reset(&s->arena); /* once for both: the verdict may have a text of the first run */
    if (sqlite_settle_ask_own(s, &g, op, v, &given->stale, e) || sqlite_settle_ask_run(s, &g, op->now_ms, v, &row, e))
        return e->code;
    if (sqlite_settle_write(s, &g, op, v, &row, &given->ret_state, e))
        return e->code;
    join_fold_add(f, &v->id, given->ret_state, g.links);
    if (sqlite_claims_left_add(s, l, g.claim, e) || sqlite_task_lease_leave(s, &g, &v->id, e))
        return e->code;
    if (!v->verdict.has_execution)
        return ERR_OK;
    return sqlite_settle_keep_output(s, &g, v, e) ? e->code : sqlite_settle_write_execution(s, v, e);
}

enum err sqlite_settle(struct store_sqlite *s, struct op *base)
{
    struct op_settle *op = (struct op_settle *)base;
    struct error *e = &base->error;
    struct claims_left l = { .n = 0 };
    int64_t record = 0;
    cleanup_with(join_fold_release) struct join_fold f;
    join_fold_init(&f, &s->joins, op->now_ms, op->n);
    op->ret_unblocked_lanes = 0;
    if (sqlite_idempotency_put(s, op->idempotency, &record, e))
        return e->code;
    for (size_t i = 0; i < op->n; i++)
        if (sqlite_settle_one(s, op, &op->v[i], &l, &f, e))
            return e->code;
    if (join_fold_run(&f, e))
        return e->code;
    op->ret_unblocked_lanes |= f.unblocked;
    op->ret_arrivals_left = f.left;
    if (record && op->v[0].stale && sqlite_idempotency_delete(s, record, e))
        return e->code;
    return sqlite_claims_left_write(s, &l, e);
}

/* The hot path: settle, claims and their tasks, retake, recurring tasks. OP_CLAIM itself is in claim.c.
 *
 * The row of a claim counts its tasks and lists their rids, so that no index over RUNNING tasks is needed: a claim and
 * a settle each touch the task's row and little else. The list may contain tasks that have left the claim; the task's
 * own row decides. */
#include <assert.h>
#include <endian.h>
#include <stdlib.h>

#include "core/task/fence.h"
#include "store/sqlite/flow/runs.h"

/* ---- rows of claims ---- */

enum err sqlite_claim_join(struct store_sqlite *s, struct uuid claim, int64_t rid, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_JOIN);
    uint64_t bytes = htole64((uint64_t)rid);
    (void)bind_uuid(st, 1, &claim);
    sqlite3_bind_blob(st, 2, &bytes, sizeof bytes, SQLITE_STATIC);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_claim_leave(struct store_sqlite *s, struct uuid claim, int64_t n, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_LEAVE);
    (void)bind_uuid(st, 1, &claim);
    sqlite3_bind_int64(st, 2, n);
    if (conn_run(&s->conn, st, e))
        return e->code;
    st = writer_stmt(s, ST_CLAIM_DELETE);
    (void)bind_uuid(st, 1, &claim);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_claim_exists(struct store_sqlite *s, const struct uuid *claim, bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_EXISTS);
    (void)bind_uuid(st, 1, claim);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_claim_check_new(struct store_sqlite *s, const struct uuid *claim, const struct uuid *node,
                                struct error *e)
{
    bool exists, known, dead;
    if (sqlite_node_find(s, node, &known, &dead, e) || sqlite_claim_exists(s, claim, &exists, e))
        return e->code;
    if (dead)
        return node_is_dead(e);
    return exists ? error_set(e, ERR_CONFLICT, "this claim was made before") : ERR_OK;
}

enum err sqlite_claim_insert(struct store_sqlite *s, const struct uuid *claim, const struct uuid *node,
                             enum claim_hold hold, size_t n, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_INSERT);
    for (size_t i = 0; i < n; i++)
        s->rids[i] = (int64_t)htole64((uint64_t)s->rids[i]);
    (void)bind_uuid(st, 1, claim);
    (void)bind_uuid(st, 2, node);
    sqlite3_bind_int64(st, 3, (int64_t)n);
    sqlite3_bind_blob64(st, 4, s->rids, n * sizeof *s->rids, SQLITE_STATIC);
    sqlite3_bind_int(st, 5, hold);
    return conn_run(&s->conn, st, e);
}

/* ---- tasks of claims ---- */

/* Reads the task at rid into the scratch, if it is RUNNING under this claim. */
static enum err sqlite_claimed_read(struct store_sqlite *s, struct uuid claim, int64_t rid, size_t *n, struct arena *a,
                                    struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_BY_RID);
    sqlite3_bind_int64(st, 1, rid);
    bool row;
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    enum err rc = ERR_OK;
    if (row && sqlite3_column_int(st, AT_state) == TASK_RUNNING && uuid_eq(row_uuid(st, AT_claim_id), claim)) {
        rc = scratch_read(s, st, *n, a, e);
        ++*n;
    }
    sqlite3_reset(st);
    return rc;
}

/* until_ms: for each task, the third column of its claim's row. NULL: it is not wanted. */
static enum err sqlite_claimed_read_all(struct store_sqlite *s, sqlite3_stmt *st, size_t max, size_t *n,
                                        int64_t *until_ms, struct arena *a, struct error *e)
{
    for (bool row; *n < max;) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        struct uuid claim = row_uuid(st, 0);
        const char *list = sqlite3_column_blob(st, 1);
        size_t count = (size_t)sqlite3_column_bytes(st, 1) / sizeof(uint64_t);
        for (size_t i = 0; i < count && *n < max; i++) {
            uint64_t rid;
            memcpy(&rid, list + i * sizeof rid, sizeof rid);
            if (until_ms)
                until_ms[*n] = orphan_fires_until_ms(sqlite3_column_int64(st, 2));
            if (sqlite_claimed_read(s, claim, (int64_t)le64toh(rid), n, a, e))
                return e->code;
        }
    }
    return ERR_OK;
}

static enum err sqlite_claimed_tasks(struct store_sqlite *s, sqlite3_stmt *st, size_t max, int64_t *until_ms,
                                     struct arena *a, struct tasks *ret, struct error *e)
{
    size_t n = 0;
    enum err rc = sqlite_claimed_read_all(s, st, max, &n, until_ms, a, e);
    sqlite3_reset(st);
    return rc ? rc : scratch_take(s, n, a, ret, e);
}

enum err sqlite_claimed(struct store_sqlite *s, struct op *base)
{
    struct op_claimed *op = (struct op_claimed *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_BY_ID);
    (void)bind_uuid(st, 1, &op->claim);
    return sqlite_claimed_tasks(s, st, SIZE_MAX, NULL, &base->arena, &op->ret, &base->error);
}

enum err sqlite_orphans(struct store_sqlite *s, struct op *base)
{
    struct op_orphans *op = (struct op_orphans *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIMS_ORPHANED);
    int64_t *until_ms = arena_array(&base->arena, int64_t, op->max);
    if (!until_ms)
        return reader_no_room(&base->error);
    sqlite3_bind_blob(st, 1, op->not_node.b, sizeof op->not_node.b, SQLITE_STATIC);
    if (sqlite_claimed_tasks(s, st, op->max, until_ms, &base->arena, &op->ret, &base->error))
        return base->error.code;
    op->ret_fires_until_ms = until_ms;
    return ERR_OK;
}

/* ---- settle ---- */

enum { CLAIMS_LEFT_MAX = 16 };

/* Tasks that left their claims, counted by claim: most tasks of an operation come from a few claims. */
struct claims_left {
    struct uuid claim[CLAIMS_LEFT_MAX];
    int64_t count[CLAIMS_LEFT_MAX];
    size_t n, last;
};

static enum err sqlite_settle_leave_claims(struct store_sqlite *s, struct claims_left *l, struct error *e)
{
    for (size_t i = 0; i < l->n; i++)
        if (sqlite_claim_leave(s, l->claim[i], l->count[i], e))
            return e->code;
    l->n = l->last = 0;
    return ERR_OK;
}

static enum err sqlite_settle_leave_claim(struct store_sqlite *s, struct claims_left *l, struct uuid claim,
                                          struct error *e)
{
    if (l->n && uuid_eq(l->claim[l->last], claim)) {
        l->count[l->last]++;
        return ERR_OK;
    }
    size_t i = 0;
    while (i < l->n && !uuid_eq(l->claim[i], claim))
        i++;
    if (i == CLAIMS_LEFT_MAX) {
        if (sqlite_settle_leave_claims(s, l, e))
            return e->code;
        i = 0;
    }
    if (i == l->n) {
        l->claim[i] = claim;
        l->count[i] = 0;
        l->n++;
    }
    l->count[i]++;
    l->last = i;
    return ERR_OK;
}

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

/* An occurrence that would wait again looks at its recurring task (OP_SETTLE 10 and 11). */
static enum err sqlite_settle_ask_parent(struct store_sqlite *s, const struct guards *g, struct op_settle *op,
                                         struct settlement *v, bool *ret_withdrawn, struct error *e)
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
    *ret_withdrawn = settle_in_schedule(&of, v);
    return *ret_withdrawn ? sqlite_settle_withdraw(s, g, v, rid, at_ms, &op->ret_unblocked_lanes, e) : ERR_OK;
}

/* Writes the task's row by its replacement or by its verdict, unless it is withdrawn. */
static enum err sqlite_settle_write(struct store_sqlite *s, const struct guards *g, struct op_settle *op,
                                    struct settlement *v, enum task_state *ret_state, struct error *e)
{
    bool withdrawn;
    if (sqlite_settle_ask_parent(s, g, op, v, &withdrawn, e))
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
    if (sqlite_settle_write(s, &g, op, v, &given->ret_state, e))
        return e->code;
    join_fold_add(f, &v->id, given->ret_state, g.links);
    if (sqlite_settle_leave_claim(s, l, g.claim, e) || sqlite_task_lease_leave(s, &g, &v->id, e))
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
    return sqlite_settle_leave_claims(s, &l, e);
}

/* ---- retake: a new claim on RUNNING tasks ---- */

/* Reads the task into entry *n of the scratch if it may be retaken, and increments *n. */
static enum err sqlite_retake_read(struct store_sqlite *s, const struct op_retake *op, const struct fenced_id *name,
                                   size_t *n, struct arena *a, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_RETAKEN);
    bool row;
    (void)bind_uuid(st, 1, &name->id);
    sqlite3_bind_int64(st, 2, name->fence);
    sqlite3_bind_int64(st, 3, (int64_t)min_of(op->max_bytes, (size_t)INT64_MAX));
    enum err rc = conn_step(&s->conn, st, &row, e);
    if (!rc && row)
        rc = scratch_read(s, st, *n, a, e);
    *n += !rc && row;
    sqlite3_reset(st);
    return rc;
}

static enum err sqlite_retake_mark(struct store_sqlite *s, const struct op_retake *op, struct tasks *taken,
                                   struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_RETAKE);
    struct claims_left l = { .n = 0 };
    for (size_t i = 0; i < taken->n; i++) {
        struct task *t = &taken->v[i];
        t->fence = fence_after(t->fence, s->fence_floor);
        sqlite3_bind_int64(st, 1, s->rids[i]);
        (void)bind_uuid(st, 2, &op->claim);
        sqlite3_bind_int64(st, 3, t->fence);
        if (conn_run(&s->conn, st, e) || sqlite_settle_leave_claim(s, &l, t->claim, e))
            return e->code;
        t->claim = op->claim;
    }
    if (sqlite_settle_leave_claims(s, &l, e) || !taken->n)
        return s->conn.failed;
    return sqlite_claim_insert(s, &op->claim, &op->node, CLAIM_OWN, taken->n, e);
}

/* Writes only after every check that can fail by itself. */
enum err sqlite_retake(struct store_sqlite *s, struct op *base)
{
    struct op_retake *op = (struct op_retake *)base;
    struct error *e = &base->error;
    struct tasks taken;
    size_t n = 0;
    if (sqlite_claim_check_new(s, &op->claim, &op->node, e))
        return e->code;
    for (size_t i = 0; i < op->n; i++)
        if (sqlite_retake_read(s, op, &op->v[i], &n, &base->arena, e))
            return e->code;
    if (scratch_take(s, n, &base->arena, &taken, e) || sqlite_retake_mark(s, op, &taken, e))
        return e->code;
    op->ret = taken;
    return ERR_OK;
}

/* ---- recurring tasks ---- */

/* The rows of one task from its cursor on. */
static enum err sqlite_read_taken(struct store_sqlite *s, const struct task *t, struct taken_rows *rows,
                                  struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TAKEN);
    enum err rc = ERR_OK;
    (void)bind_uuid(st, 1, &t->id);
    sqlite3_bind_blob(st, 2, rows->from.b, sizeof rows->from.b, SQLITE_STATIC);
    sqlite3_bind_int(st, 3, TAKEN_MAX);
    for (bool row; !rc && !(rc = conn_step(&s->conn, st, &row, e)) && row;) {
        struct task o = { .id = row_uuid(st, 0),
                          .parent = t->id,
                          .kind = TASK_OCCURRENCE,
                          .state = (enum task_state)sqlite3_column_int(st, 1),
                          .scheduled_ms = sqlite3_column_int64(st, 2),
                          .due_ms = sqlite3_column_int64(st, 3),
                          .cursor_ms = sqlite3_column_int64(st, 4),
                          .skipped_count = sqlite3_column_int64(st, 5) };
        rc = taken_rows_add(rows, &o, e);
    }
    sqlite3_reset(st);
    return rc;
}

static enum err sqlite_recurring_taken(struct store_sqlite *s, const struct tasks *found, struct op_recurring *op,
                                       struct error *e)
{
    struct spawn_taken *taken = arena_array(&op->op.arena, struct spawn_taken, found->n);
    if (!taken)
        return error_set(e, ERR_LIMIT, "the answer is larger than the memory set aside for it");
    for (size_t i = 0; i < found->n; i++) {
        struct taken_rows rows;
        if (taken_rows_begin(&rows, op, &found->v[i], &op->op.arena) && sqlite_read_taken(s, &found->v[i], &rows, e))
            return e->code;
        taken[i] = taken_rows_end(&rows);
    }
    op->ret_taken = taken;
    return ERR_OK;
}

enum err sqlite_recurring(struct store_sqlite *s, struct op *base)
{
    struct op_recurring *op = (struct op_recurring *)base;
    struct error *e = &base->error;
    sqlite3_stmt *st = writer_stmt(s, ST_RECURRING);
    int64_t next_ms = INT64_MAX;
    size_t n = 0;
    enum err rc = ERR_OK;
    sqlite3_bind_int64(st, 1, op->after_cursor_ms);
    sqlite3_bind_blob(st, 2, op->after_id.b, sizeof op->after_id.b, SQLITE_STATIC);
    for (bool row; !rc && !(rc = conn_step(&s->conn, st, &row, e)) && row;) {
        int64_t cursor_ms = sqlite3_column_int64(st, AT_cursor_ms);
        struct uuid id = row_uuid(st, AT_id);
        if (cursor_ms >= next_ms)
            break;
        if (n < op->max && recurring_gives(op, id, cursor_ms))
            rc = scratch_read(s, st, n++, &base->arena, e);
        else
            next_ms = min_of(next_ms, recurring_counts_as(op, id, cursor_ms));
    }
    sqlite3_reset(st);
    struct tasks found;
    if (rc || scratch_take(s, n, &base->arena, &found, e) || sqlite_recurring_taken(s, &found, op, e))
        return e->code;
    op->ret = found;
    op->ret_next_ms = next_ms;
    return ERR_OK;
}

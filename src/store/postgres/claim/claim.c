/* OP_CLAIM.
 *
 * Most claims meet no task that needs a slot. They take two round trips: one reads and locks candidates; one marks them
 * all RUNNING and reads when the next tasks are due.
 *
 * A claim locks its node's row FOR KEY SHARE until the commit. OP_NODE_DEAD locks that row FOR UPDATE. So once a node
 * is marked dead, OP_ORPHANS finds all that the node has claimed. A claim that finds no task locks no row and writes
 * nothing. */
#include <stdlib.h>

#include "store/common/reading.h"
#include "store/postgres/claim/claim.h"

enum { CONFLICTS_MAX = 1000 }; /* counted for each lane */

static const struct pg_statement check = {
    "claim_check",
    "SELECT EXISTS (SELECT FROM claims WHERE id = $1), coalesce((SELECT dead FROM nodes WHERE id = $2), false), "
    "(SELECT max(lane) FROM lanes)",
};
enum { CHECK_EXISTS, CHECK_DEAD, CHECK_LANES };

static const struct pg_statement lock_node = { "claim_node", "SELECT dead FROM nodes WHERE id = $1 FOR KEY SHARE" };

static const struct pg_statement take_tasks = {
    "claim_take",
    "UPDATE tasks SET state = " SQL_RUNNING ", fence = " SQL_NEXT_FENCE
    ", claim_id = $1 FROM unnest($2) WITH ORDINALITY AS p(task, nth) "
    "WHERE id = p.task RETURNING part" TASK_COLUMNS(SQL_NAME) ", p.nth",
};
enum { TAKEN_PLACE = AT_calendar + 1 }; /* behind the task's columns; "part" is the first column */

/* For each lane, three columns:
 *   - the due time of our first task behind the walked part, or before it if it is AT_MOST_ONCE and not due yet;
 *   - the due time of the first task of other partitions that is left to other nodes;
 *   - how many takeable tasks are still there: other transactions have locked them. */
static const struct pg_statement read_left = {
    "claim_left",
    "SELECT CASE WHEN $5 THEN (SELECT due_ms FROM tasks WHERE " IN_LANE
    " AND (due_ms, id) > (q.ours_ms, q.ours_id) AND " IS_OURS
    " AND ((due_ms, id) > (q.seen_ms, q.seen_id) OR (delivery = 1 AND due_ms > $2)) ORDER BY due_ms, id LIMIT 1) END, "
    "CASE WHEN $6 THEN (SELECT due_ms FROM tasks WHERE " IN_LANE
    " AND (due_ms, id) > (q.theirs_ms, q.theirs_id) AND get_bit($3, part) = 0 ORDER BY due_ms, id LIMIT 1) END, "
    "(SELECT count(*) FROM (SELECT FROM tasks WHERE " IN_LANE
    " AND due_ms >= q.from_ms AND (due_ms, id) <= (q.seen_ms, q.seen_id) AND " MAY_TAKE
    " AND (gates IS NULL OR due_ms <= $2) ORDER BY due_ms, id LIMIT $7) AS x) "
    "FROM unnest($8, $9, $10, $11, $12, $13, $14, $15) WITH ORDINALITY "
    "AS q(lane, from_ms, seen_ms, seen_id, ours_ms, ours_id, theirs_ms, theirs_id, place) ORDER BY q.place",
};
enum { LEFT_OURS, LEFT_THEIRS, LEFT_CONFLICTS };

static const struct pg_statement read_gated = {
    "claim_gated",
    "SELECT part" TASK_COLUMNS(SQL_NAME) " FROM tasks WHERE id = ANY ($1) AND state <> " SQL_SCHEDULED,
};

/* ---- when the next tasks are due ---- */

/* Up to where the lane was walked. A task that this claim has unblocked may be anywhere in the lane: then the start. */
static struct pg_claim_position pg_claim_seen_up_to(const struct pg_claim *c, const struct pg_lane_walk *w)
{
    if (c->gate.unblocked)
        return POSITION_START;
    return w->is_seen ? (struct pg_claim_position){ c->op->until_ms, LAST_ID } : w->position;
}

static struct pg_claim_position pg_claim_earlier(struct pg_claim_position position, int64_t ms)
{
    return position.due_ms <= ms ? position : (struct pg_claim_position){ ms, LAST_ID };
}

static enum err pg_claim_send_left(struct store_postgres *s, const struct pg_claim *c, struct error *e)
{
    struct pg_params *p = &s->params;
    const struct op_claim *op = c->op;
    size_t n = c->lane_count + c->suspect_count, own = op->own ? partitions_count(op->own) : PARTITIONS;
    struct pg_claim_position *seen = xcalloc(3 * n, sizeof *seen), *ours = seen + n, *theirs = ours + n;
    for (size_t i = 0; i < n; i++) {
        seen[i] = pg_claim_seen_up_to(c, &c->lanes[i]);
        ours[i] = pg_claim_earlier(seen[i], op->now_ms);
        theirs[i] = pg_claim_earlier(seen[i], op->now_ms - op->help_after_ms);
    }
    pg_params_reset(p);
    pg_claim_add_rules(p, op);
    pg_add_bool(p, own > 0);
    pg_add_bool(p, own < PARTITIONS);
    pg_add_i64(p, CONFLICTS_MAX);
    pg_claim_add_lanes(p, c->lanes, n);
    pg_array(p, PG_I64);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(p, c->lanes[i].scan.from_ms);
    pg_array_end(p);
    pg_claim_add_positions(p, seen, n);
    pg_claim_add_positions(p, ours, n);
    pg_claim_add_positions(p, theirs, n);
    free(seen);
    return pg_send(&s->conn, &read_left, p, e);
}

static int64_t pg_claim_left_at(const struct pg_result *r, int row, int column)
{
    return pg_is_null(r, row, column) ? INT64_MAX : pg_i64(r, row, column);
}

/* *ret_own: the same for our own partitions. Which ones the tasks are of that others have locked is not known. */
static int64_t pg_claim_next_due(const struct pg_claim *c, const struct pg_result *r, int row, int64_t *ret_own)
{
    const struct pg_lane_walk *w = &c->lanes[row];
    int64_t retry_ms = pg_i64(r, row, LEFT_CONFLICTS) ? c->op->now_ms + CONFLICT_RETRY_MS : INT64_MAX;
    int64_t ours_ms = min_of(pg_claim_left_at(r, row, LEFT_OURS), retry_ms);
    int64_t theirs_ms = pg_claim_left_at(r, row, LEFT_THEIRS);
    if (theirs_ms !=
        INT64_MAX) /* tasks that are left to other nodes count from the time when this node may take them */
        theirs_ms += c->op->help_after_ms;
    *ret_own = min_of(w->passed_own_ms, ours_ms);
    return min_of(min_of(w->passed_ms, ours_ms), theirs_ms);
}

static void pg_claim_report_left(const struct pg_claim *c, const struct pg_result *r)
{
    struct op_claim *op = c->op;
    op->ret_next_due_ms = INT64_MAX;
    op->ret_next_suspect_ms = c->suspects.passed_ms;
    op->ret_conflicts = c->busy;
    for (int i = 0; i < r->rows; i++) {
        struct lane_quota *q = c->lanes[i].quota;
        int64_t *all = q ? &op->ret_next_due_ms : &op->ret_next_suspect_ms, own_ms;
        int64_t next_ms = pg_claim_next_due(c, r, i, &own_ms);
        *all = min_of(*all, next_ms);
        if (q) {
            q->ret_next_due_ms = next_ms;
            q->ret_next_own_ms = own_ms;
        }
        op->ret_conflicts += (size_t)pg_i64(r, i, LEFT_CONFLICTS);
    }
}

/* The watermarks stay as they are if the lane may get tasks before them: tasks that other transactions have locked may
 * come back, and tasks that this claim has unblocked may be anywhere. */
static void pg_claim_note_watermarks(struct store_postgres *s, struct pg_claim *c, const struct pg_result *r)
{
    if (c->gate.unblocked || c->busy)
        return;
    for (size_t i = 0; i < c->lane_count; i++) {
        struct pg_lane_walk *w = &c->lanes[i];
        int row = (int)i;
        w->scan.ended_ns = clock_steady_ns(s->setup.clock);
        if (pg_i64(r, row, LEFT_CONFLICTS) == 0)
            pg_watermark_note(&s->watermarks, w->number, &w->scan,
                              min_of(pg_claim_left_at(r, row, LEFT_OURS), pg_claim_left_at(r, row, LEFT_THEIRS)),
                              c->op->now_ms);
    }
}

/* ---- statements and results ---- */

static enum err pg_claim_send_check(struct store_postgres *s, const struct op_claim *op, struct error *e)
{
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, op->claim);
    pg_add_uuid(&s->params, op->node);
    return pg_send(&s->conn, &check, &s->params, e);
}

static enum err pg_claim_send_taken(struct store_postgres *s, const struct pg_claim *c, struct error *e)
{
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    pg_add_uuid(p, c->op->node);
    if (pg_send(&s->conn, &lock_node, p, e))
        return e->code;
    pg_params_reset(p);
    pg_add_uuid(p, c->op->claim);
    pg_add_ids(p, c->picked, c->n);
    if (pg_send(&s->conn, &take_tasks, p, e))
        return e->code;
    pg_add_claim(p, c->op->claim, c->op->node, c->picked, c->n, c->op->lease ? CLAIM_LEASED : CLAIM_OWN);
    if (pg_send(&s->conn, &pg_insert_claim, p, e))
        return e->code;
    return c->op->lease ? pg_lease_put_terms(s, c->picked, c->n, c->op->lease, e) : ERR_OK;
}

static enum err pg_claim_send_gated(struct store_postgres *s, const struct pg_claim *c, struct error *e)
{
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    pg_add_members(p, c->gate.gated, c->gate.gated_count, id);
    return pg_send(&s->conn, &read_gated, p, e);
}

struct pg_claim_results {
    struct pg_result check, node, taken, claim, gated, left;
};

static void pg_claim_results_release(struct pg_claim_results *a)
{
    pg_result_release(&a->check);
    pg_result_release(&a->node);
    pg_result_release(&a->taken);
    pg_result_release(&a->claim);
    pg_result_release(&a->gated);
    pg_result_release(&a->left);
}

/* Runs all statements in one round trip. Nothing is in flight afterwards. */
static enum err pg_claim_run_statements(struct store_postgres *s, const struct pg_claim *c,
                                        struct pg_claim_results *ret, struct error *e)
{
    struct pg_conn *conn = &s->conn;
    bool gated = c->gate.gated_count > 0;
    if (pg_claim_send_check(s, c->op, e) || (c->n && pg_claim_send_taken(s, c, e)) ||
        (gated && pg_claim_send_gated(s, c, e)) || pg_claim_send_left(s, c, e))
        return e->code;
    if (pg_get(conn, &ret->check, e))
        return e->code;
    if (c->n && (pg_get(conn, &ret->node, e) || pg_get(conn, &ret->taken, e) || pg_get(conn, &ret->claim, e)))
        return e->code;
    if (gated && pg_get(conn, &ret->gated, e))
        return e->code;
    return pg_get(conn, &ret->left, e);
}

static enum err pg_claim_exists_error(struct error *e)
{
    return error_set(e, ERR_CONFLICT, "this claim was made before");
}

/* UPDATE … RETURNING gives the rows in any order: TAKEN_PLACE restores it. */
static enum err pg_claim_read_taken(struct store_postgres *s, const struct pg_claim *c, const struct pg_result *r,
                                    struct tasks *ret, struct error *e)
{
    if ((size_t)r->rows != c->n)
        return pg_corrupt(&s->conn, "locked tasks have disappeared", e);
    int *row_of = xcalloc(c->n + 1, sizeof *row_of);
    for (int i = 0; i < r->rows; i++)
        row_of[pg_i64(r, i, TAKEN_PLACE) - 1] = i;
    enum err rc = ERR_OK;
    for (size_t i = 0; !rc && i < c->n; i++)
        rc = pg_scratch_read(s, r, row_of[i], i, c->arena, e);
    free(row_of);
    if (rc || pg_scratch_take(s, c->n, c->arena, ret, e))
        return e->code;
    for (size_t i = 0; i < ret->n; i++)
        pg_tally_move(s, ret->v[i].tenant, ret->v[i].deleted, TASK_SCHEDULED, TASK_RUNNING);
    return ERR_OK;
}

/* If another node has made lanes, loads them. One of them may hold suspects: the next claim is to look at once. */
static enum err pg_claim_load_new_lanes(struct store_postgres *s, struct op_claim *op, int64_t highest, struct error *e)
{
    if (highest <= (int64_t)s->lanes.top)
        return ERR_OK;
    op->ret_next_suspect_ms = min_of(op->ret_next_suspect_ms, op->now_ms);
    return pg_lanes_load(&s->conn, &s->lanes, e);
}

static enum err pg_claim_finish(struct store_postgres *s, struct pg_claim *c, struct error *e)
{
    cleanup_with(pg_claim_results_release) struct pg_claim_results a = { 0 };
    struct op_claim *op = c->op;
    struct tasks taken, gated;
    if (pg_claim_run_statements(s, c, &a, e))
        return e->code;
    if (pg_bool(&a.check, 0, CHECK_EXISTS) || (c->n && a.claim.affected == 0))
        return pg_claim_exists_error(e);
    if (pg_bool(&a.check, 0, CHECK_DEAD) || (a.node.rows && pg_bool(&a.node, 0, 0)))
        return node_is_dead(e);
    if (pg_claim_read_taken(s, c, &a.taken, &taken, e) || pg_claim_read_tasks(s, &a.gated, c->arena, &gated, e))
        return e->code;
    struct replaced *replaced = gate_copy_replaced(&c->gate, &taken, c->arena);
    if (!replaced)
        return reader_no_room(e);
    op->ret = taken;
    op->ret_gated = gated;
    op->ret_replaced = replaced;
    op->ret_replaced_count = c->gate.replaced_count;
    op->ret_unblocked_lanes = c->gate.unblocked;
    pg_claim_report_left(c, &a.left);
    pg_claim_note_watermarks(s, c, &a.left);
    return pg_claim_load_new_lanes(s, op, pg_i64(&a.check, 0, CHECK_LANES), e);
}

/* A lane that is unknown here may have been made by another node. */
static enum err pg_claim_load_missing_lanes(struct store_postgres *s, const struct op_claim *op, struct error *e)
{
    bool missing = s->lanes_reset;
    for (size_t i = 0; i < op->lane_count; i++)
        missing = missing || !pg_claim_lane(s, op, i, false);
    if (missing && pg_lanes_load(&s->conn, &s->lanes, e))
        return e->code;
    s->lanes_reset = false;
    return ERR_OK;
}

enum err postgres_claim(struct store_postgres *s, struct op *base)
{
    struct op_claim *op = (struct op_claim *)base;
    struct error *e = &base->error;
    struct pg_claim c;
    if (pg_claim_load_missing_lanes(s, op, e))
        return e->code;
    pg_claim_init(&c, s, op);
    enum err rc = pg_claim_walk(s, &c, e);
    rc = rc ? rc : pg_claim_finish(s, &c, e);
    pg_claim_release(&c);
    return rc;
}

/* OP_CLAIM. A walk over a lane only collects tasks without gates; all of them are marked RUNNING together at the end.
 * Slots are taken during the walk, in a table of their own. A task that finds no slot is handled at once; then the walk
 * restarts behind it, because rows of the index that it follows have changed. */
#include "store/sqlite/claim/claim.h"
#include "core/task/fence.h"

int sqlite_claim_pool(const struct op_claim *op, const struct lane *lane, bool suspects)
{
    return lane_pool(lane, op->lease != NULL, suspects);
}

/* ---- taking a task ---- */

static void sqlite_claim_add_bytes(struct claiming *c, size_t bytes)
{
    c->bytes += bytes;
    c->full = c->full || c->bytes >= c->op->max_bytes;
}

static enum err sqlite_claim_take(struct store_sqlite *s, struct claiming *c, sqlite3_stmt *st, struct error *e)
{
    if (scratch_read_due(s, st, c->n, c->arena, e))
        return e->code;
    const struct task *t = &s->scratch[c->n++];
    c->full = c->n == c->op->max;
    sqlite_claim_add_bytes(c, t->payload.n + t->target_config.n);
    return ERR_OK;
}

/* ---- checking one task ---- */

/* Whether the candidate, which could have its slots, leaves the overlap slot to an earlier occurrence (OP_CLAIM 11). */
static enum err sqlite_claim_gives_way(struct store_sqlite *s, const struct claiming *c, const struct candidate *k,
                                       bool *ret, struct error *e)
{
    const struct slot_need *first = &k->needs[0];
    bool takes_ahead = k->missing == k->n && k->n && k->task.due_ms > c->op->now_ms && first->kind == SLOT_OVERLAP &&
                       !slots_have(&k->held, first->key);
    *ret = false;
    return takes_ahead ? sqlite_slot_has_earlier(s, &k->task, ret, e) : ERR_OK;
}

enum err sqlite_claim_check_task(struct store_sqlite *s, struct claiming *c, sqlite3_stmt *st, enum claim_fate *ret,
                                 struct error *e)
{
    struct candidate k;
    *ret = FATE_TAKEN;
    if (sqlite3_column_type(st, AT_gates) == SQLITE_NULL)
        return sqlite_claim_take(s, c, st, e);
    bool gives_way;
    if (sqlite_claim_read_candidate(s, st, &k, e) || gate_check(&c->gate, &k, e) ||
        sqlite_claim_gives_way(s, c, &k, &gives_way, e))
        return e->code;
    if (k.missing == k.n && !gives_way)
        return gate_take(&c->gate, &k, k.n, e) ? e->code : sqlite_claim_take(s, c, st, e);
    *ret = FATE_PASSED_OVER;
    if (k.task.due_ms > c->op->now_ms)
        return ERR_OK;
    *ret = FATE_HANDLED;
    sqlite3_reset(st);
    if (gate_handle(&c->gate, &k, e))
        return e->code;
    c->full = c->gate.handled == CLAIM_GATED_MAX;
    sqlite_claim_add_bytes(c, k.bytes);
    return ERR_OK;
}

/* ---- lanes ---- */

bool sqlite_claim_may_take(const struct op_claim *op, sqlite3_stmt *st)
{
    int64_t due_ms = sqlite3_column_int64(st, AT_due_ms);
    bool too_early = due_ms > op->now_ms && sqlite3_column_int(st, AT_delivery) == DELIVER_AT_MOST_ONCE;
    return !too_early && (!op->own || claim_is_for(op, row_uuid(st, AT_id), due_ms));
}

static sqlite3_stmt *sqlite_claim_due_behind(struct store_sqlite *s, const struct op_claim *op, int64_t lane,
                                             const struct lane_position *place)
{
    bool from_start = place->due_ms == INT64_MIN;
    sqlite3_stmt *st = writer_stmt(s, from_start ? ST_DUE : ST_DUE_BEHIND);
    sqlite3_bind_int64(st, 1, lane);
    sqlite3_bind_int64(st, 2, op->until_ms);
    if (!from_start) {
        sqlite3_bind_int64(st, 3, place->due_ms);
        sqlite3_bind_blob(st, 4, place->id.b, sizeof place->id.b, SQLITE_TRANSIENT);
    }
    return st;
}

static struct lane_position sqlite_claim_position(sqlite3_stmt *st)
{
    return (struct lane_position){ sqlite3_column_int64(st, AT_due_ms), row_uuid(st, AT_id) };
}

/* The walk over a line of one lane. */
struct lane_walk {
    int64_t lane;
    struct lane_quota *quota;
    size_t max, passed;
    struct lane_position place;
};

/* Walks from the position on, until rows have changed (*ret_again) or enough tasks are taken. */
static enum err sqlite_claim_walk(struct store_sqlite *s, struct claiming *c, struct lane_walk *w, bool *ret_again,
                                  struct error *e)
{
    sqlite3_stmt *st = sqlite_claim_due_behind(s, c->op, w->lane, &w->place);
    enum err rc = ERR_OK;
    *ret_again = false;
    while (!rc && !*ret_again && w->quota->ret_taken < w->max && !c->full && w->passed < CLAIM_GATED_MAX) {
        bool row;
        enum claim_fate fate;
        rc = conn_step(&s->conn, st, &row, e);
        if (rc || !row)
            break;
        if (!sqlite_claim_may_take(c->op, st))
            continue;
        w->place = sqlite_claim_position(st);
        rc = sqlite_claim_check_task(s, c, st, &fate, e);
        w->quota->ret_taken += fate == FATE_TAKEN;
        w->passed += fate == FATE_PASSED_OVER;
        *ret_again = fate == FATE_HANDLED;
    }
    sqlite3_reset(st);
    return rc;
}

static enum err sqlite_claim_lane(struct store_sqlite *s, struct claiming *c, struct lane_quota *q, size_t max,
                                  struct error *e)
{
    const struct lane_row *lane = lanes_find(&s->conn, q->lane, sqlite_claim_pool(c->op, &q->lane, false));
    struct lane_walk w = { .quota = q, .max = min_of(q->max, max), .place = lane_start };
    if (lane)
        w.lane = lane->number;
    for (bool again = lane != NULL; again;)
        if (sqlite_claim_walk(s, c, &w, &again, e))
            return e->code;
    return ERR_OK;
}

static enum err sqlite_claim_lines(struct store_sqlite *s, struct claiming *c, struct error *e)
{
    struct op_claim *op = c->op;
    for (size_t i = 0; i < op->lane_count; i++)
        op->lanes[i].ret_taken = 0;
    for (size_t i = 0, first = 0; first < op->lane_count && !c->full; i++) {
        struct claim_line line = claim_line_at(op, i, first);
        struct lane_quota *lanes = op->lanes + first;
        if (line.lanes == 1 ? sqlite_claim_lane(s, c, lanes, line.max, e)
                            : sqlite_claim_merge(s, c, lanes, line.lanes, line.max, e))
            return e->code;
        first += line.lanes;
    }
    return ERR_OK;
}

/* ---- suspects ---- */

/* The first task behind that position that may be claimed at this time. */
static enum err sqlite_claim_first_behind(struct store_sqlite *s, const struct op_claim *op, int64_t lane,
                                          const struct lane_position *place, struct lane_position *ret, bool *ret_found,
                                          struct error *e)
{
    sqlite3_stmt *st = sqlite_claim_due_behind(s, op, lane, place);
    for (*ret_found = false;;) {
        bool row;
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        if (sqlite_claim_may_take(op, st))
            break;
    }
    *ret = sqlite_claim_position(st);
    *ret_found = true;
    sqlite3_reset(st);
    return ERR_OK;
}

static bool sqlite_claim_is_before(const struct lane_position *a, const struct lane_position *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : uuid_cmp(a->id, b->id) < 0;
}

/* The lane of the earliest suspect of all these lanes; *ret_lane 0: none. */
static enum err sqlite_claim_next_suspect(struct store_sqlite *s, const struct op_claim *op,
                                          const struct lane_position *place, int64_t *ret_lane, struct error *e)
{
    struct lane_position first = { 0 }, there;
    *ret_lane = 0;
    for (size_t i = 0; i < op->lane_count; i++) {
        const struct lane *asked = &op->lanes[i].lane;
        const struct lane_row *lane = lanes_find(&s->conn, *asked, sqlite_claim_pool(op, asked, true));
        bool found = false;
        if (lane && sqlite_claim_first_behind(s, op, lane->number, place, &there, &found, e))
            return e->code;
        if (found && (*ret_lane == 0 || sqlite_claim_is_before(&there, &first))) {
            first = there;
            *ret_lane = lane->number;
        }
    }
    return ERR_OK;
}

static enum err sqlite_claim_check_suspect(struct store_sqlite *s, struct claiming *c, int64_t lane,
                                           struct lane_position *place, enum claim_fate *ret, struct error *e)
{
    sqlite3_stmt *st = sqlite_claim_due_behind(s, c->op, lane, place);
    bool row = true;
    enum err rc;
    do
        rc = conn_step(&s->conn, st, &row, e);
    while (!rc && row && !sqlite_claim_may_take(c->op, st));
    if (!rc && row) {
        *place = sqlite_claim_position(st);
        rc = sqlite_claim_check_task(s, c, st, ret, e);
    }
    sqlite3_reset(st);
    return rc;
}

static enum err sqlite_claim_suspects(struct store_sqlite *s, struct claiming *c, struct error *e)
{
    struct lane_position place = lane_start;
    for (size_t taken = 0, passed = 0; taken < c->op->max_suspects && !c->full && passed < CLAIM_GATED_MAX;) {
        int64_t lane;
        enum claim_fate fate = FATE_PASSED_OVER;
        if (sqlite_claim_next_suspect(s, c->op, &place, &lane, e))
            return e->code;
        if (lane == 0)
            return ERR_OK;
        if (sqlite_claim_check_suspect(s, c, lane, &place, &fate, e))
            return e->code;
        taken += fate == FATE_TAKEN;
        passed += fate == FATE_PASSED_OVER;
    }
    return ERR_OK;
}

/* ---- the due times that are left ---- */

/* Stops at the first row that is due no earlier than *ret_own: no later row counts as earlier than its due_ms. */
static enum err sqlite_claim_first_due(struct store_sqlite *s, const struct op_claim *op, const struct lane *lane,
                                       bool suspects, int64_t *ret, int64_t *ret_own, struct error *e)
{
    const struct lane_row *row = lanes_find(&s->conn, *lane, sqlite_claim_pool(op, lane, suspects));
    *ret = *ret_own = INT64_MAX;
    if (!row)
        return ERR_OK;
    sqlite3_stmt *st = writer_stmt(s, ST_NEXT_DUE);
    sqlite3_bind_int64(st, 1, row->number);
    for (bool found;;) {
        if (conn_step(&s->conn, st, &found, e))
            return e->code;
        int64_t due_ms = found ? sqlite3_column_int64(st, 0) : INT64_MAX;
        if (due_ms >= *ret_own)
            break;
        struct uuid id = row_uuid(st, 1);
        *ret = min_of(*ret, claim_counts_as(op, id, due_ms));
        if (claim_is_own(op, id))
            *ret_own = due_ms;
    }
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_claim_set_next_due(struct store_sqlite *s, struct op_claim *op, struct error *e)
{
    bool far;
    if (sqlite_far_exists(s, &far, e))
        return e->code;
    int64_t sight_ms = far ? op->now_ms + CLAIM_SIGHT_MS : INT64_MAX;
    op->ret_next_due_ms = op->ret_next_suspect_ms = sight_ms;
    for (size_t i = 0; i < op->lane_count; i++) {
        struct lane_quota *q = &op->lanes[i];
        int64_t suspect_ms, own_ms;
        if (sqlite_claim_first_due(s, op, &q->lane, false, &q->ret_next_due_ms, &q->ret_next_own_ms, e) ||
            sqlite_claim_first_due(s, op, &q->lane, true, &suspect_ms, &own_ms, e))
            return e->code;
        q->ret_next_due_ms = min_of(q->ret_next_due_ms, sight_ms);
        q->ret_next_own_ms = min_of(q->ret_next_own_ms, sight_ms);
        op->ret_next_due_ms = min_of(op->ret_next_due_ms, q->ret_next_due_ms);
        op->ret_next_suspect_ms = min_of(op->ret_next_suspect_ms, suspect_ms);
    }
    return ERR_OK;
}

/* ---- results ---- */

static enum err sqlite_claim_mark_running(struct store_sqlite *s, const struct op_claim *op, struct tasks *taken,
                                          struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_TASK);
    (void)bind_uuid(st, 2, &op->claim);
    for (size_t i = 0; i < taken->n; i++) {
        struct task *t = &taken->v[i];
        sqlite3_bind_int64(st, 1, s->rids[i]);
        sqlite3_bind_int64(st, 3, t->fence);
        if (conn_run(&s->conn, st, e))
            return e->code;
        t->state = TASK_RUNNING;
        t->claim = op->claim;
        tally_move(&s->of_op, t->tenant, t->deleted, TASK_SCHEDULED, TASK_RUNNING);
        if (op->lease && sqlite_task_lease_put(s, t, op->lease, e))
            return e->code;
    }
    enum claim_hold hold = op->lease ? CLAIM_LEASED : CLAIM_OWN;
    return taken->n ? sqlite_claim_insert(s, &op->claim, &op->node, hold, taken->n, e) : ERR_OK;
}

/* Reads the gated tasks that are not SCHEDULED: some got their slot meanwhile. */
static enum err sqlite_claim_read_gated(struct store_sqlite *s, const struct claiming *c, struct tasks *ret,
                                        struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_BY_RID);
    size_t n = 0;
    enum err rc = ERR_OK;
    for (size_t i = 0; !rc && i < c->gate.gated_count; i++) {
        bool row;
        sqlite3_bind_int64(st, 1, c->gate.gated[i].rid);
        rc = conn_step(&s->conn, st, &row, e);
        if (!rc && row && sqlite3_column_int(st, AT_state) != TASK_SCHEDULED)
            rc = scratch_read(s, st, n++, c->arena, e);
        sqlite3_reset(st);
    }
    return rc ? rc : scratch_take(s, n, c->arena, ret, e);
}

static enum err sqlite_claim_finish(struct store_sqlite *s, struct claiming *c, struct error *e)
{
    struct op_claim *op = c->op;
    struct tasks taken, gated;
    if (scratch_take(s, c->n, c->arena, &taken, e))
        return e->code;
    for (size_t i = 0; i < taken.n; i++)
        taken.v[i].fence = fence_after(taken.v[i].fence, s->fence_floor);
    struct replaced *replaced = gate_copy_replaced(&c->gate, &taken, c->arena);
    if (!replaced)
        return reader_no_room(e);
    if (sqlite_claim_mark_running(s, op, &taken, e) || sqlite_claim_read_gated(s, c, &gated, e) ||
        sqlite_claim_set_next_due(s, op, e))
        return e->code;
    op->ret = taken;
    op->ret_gated = gated;
    op->ret_replaced = replaced;
    op->ret_replaced_count = c->gate.replaced_count;
    op->ret_unblocked_lanes = c->gate.unblocked;
    return ERR_OK;
}

static enum err sqlite_claim_all(struct store_sqlite *s, struct claiming *c, struct error *e)
{
    if (sqlite_claim_lines(s, c, e) || sqlite_claim_suspects(s, c, e))
        return e->code;
    return sqlite_claim_finish(s, c, e);
}

enum err sqlite_claim(struct store_sqlite *s, struct op *base)
{
    struct op_claim *op = (struct op_claim *)base;
    struct error *e = &base->error;
    if (sqlite_claim_check_new(s, &op->claim, &op->node, e))
        return e->code;
    if (sqlite_far_before_claim(s, op->now_ms, op->until_ms, e))
        return e->code;
    struct claiming c = { .op = op,
                          .arena = &base->arena,
                          .gate = { .slots = &s->slots, .now_ms = op->now_ms, .is_picked = sqlite_claim_is_taken } };
    enum err rc = sqlite_claim_all(s, &c, e);
    gate_release(&c.gate);
    return rc;
}

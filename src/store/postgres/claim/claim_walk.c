/* The part of OP_CLAIM that walks the lanes and picks tasks.
 *
 * One statement reads the candidates of many lanes and locks them. It skips rows that another transaction has locked
 * (SKIP LOCKED): most likely that transaction takes them. Tasks without gates are only picked here and marked RUNNING
 * later, all together. Slots are taken during the walk. A due task that finds no slot is dealt with at once; after that
 * the lanes are walked again from behind it, in smaller steps. */
#include <stdlib.h>

#include "store/postgres/claim/claim.h"

enum {
    STEP = 64,   /* candidates for each statement once a task with gates was met */
    NEAR_MIN = 4 /* tasks that are read of each lane of a line at first, at least */
};

/* Occurrences that need an overlap slot. Looks for earlier ones backwards: the last one is the one most likely there,
 * and dead rows of those that have run lie before it. The ORDER BY makes tasks_spawned the index for it. */
#define OVERLAPS(t) t "kind = 2 AND coalesce((" t "gates::json->>'overlap')::integer, 1) <> 1" /* ALLOW */
#define GIVES_WAY                                                                                                      \
    "CASE WHEN gates IS NOT NULL AND due_ms > $2 AND " OVERLAPS(                                                       \
        "") " THEN NOT EXISTS (SELECT FROM slots "                                                                     \
            "WHERE key = 'o:' || parent_id AND task_id = tasks.id) AND (SELECT true FROM tasks AS e WHERE "            \
            "e.parent_id = tasks.parent_id AND e.state < " SQL_RUNNING " AND e.state <> " SQL_PAUSED                   \
            " AND e.due_ms <= tasks.due_ms AND (e.due_ms, e.scheduled_ms, e.id) < (tasks.due_ms, tasks.scheduled_ms, " \
            "tasks.id) AND " OVERLAPS("e.") " ORDER BY e.due_ms DESC LIMIT 1) IS NOT NULL END AS gives_way"
_Static_assert(OVERLAP_ALLOW == 1, "the number of ALLOW in these statements");

#define CANDIDATE                                                                                                      \
    "coalesce(octet_length(payload), 0) + coalesce(octet_length(target_config), 0) AS bytes, tenant_id, kind, "        \
    "parent_id, scheduled_ms, deleted, fence, gates, target, links, " GIVES_WAY " FROM tasks "

#define WALK                                                                                                           \
    "SELECT q.place, t.* FROM unnest($6, $7, $8, $9) WITH ORDINALITY AS q(lane, quota, after_ms, after_id, place) "    \
    "CROSS JOIN LATERAL (SELECT id, due_ms, " CANDIDATE "WHERE " IN_LANE                                               \
    " AND (due_ms, id) > (q.after_ms, q.after_id) AND " MAY_TAKE                                                       \
    " ORDER BY due_ms, id LIMIT q.quota FOR UPDATE SKIP LOCKED) AS t "

/* Serves one lane after the other, until the limit is reached. */
static const struct pg_statement walk_lanes = { "claim_walk", WALK "LIMIT $5" };
static const struct pg_statement walk_suspects = { "claim_suspects", WALK "ORDER BY t.due_ms, t.id LIMIT $5" };

/* The same for lines of several lanes: merges the first tasks of a line's lanes, and locks one after the other until
 * the line has enough. A line may have a thousand lanes, so few tasks are read of each at first (`near`). If the line's
 * last task is behind the last one that was read of a lane, that lane's tasks up to there are read too (`far`).
 *
 * Rows that another transaction has locked are in the result, without their last columns: they show how far each lane
 * was walked. */
#define HEADS(more)                                                                                                    \
    "id, due_ms, ctid FROM tasks WHERE " IN_LANE " AND (due_ms, id) > (q.after_ms, q.after_id) AND " MAY_TAKE more     \
    " ORDER BY due_ms, id LIMIT "
#define ORDER_MS "greatest(h.due_ms, q.ahead_ms - 9223372036854775807) - q.ahead_ms AS order_ms"
static const struct pg_statement walk_lines = {
    "claim_lines",
    "SELECT x.* FROM unnest($11, $12, $13, $14) AS l(first, last, quota, near) CROSS JOIN LATERAL ("
    "WITH near AS (SELECT l.first - 1 + q.place AS place, q.lane, q.quota, q.ahead_ms, h.*, " ORDER_MS
    " FROM unnest(($6)[l.first:l.last], ($7)[l.first:l.last], ($8)[l.first:l.last], ($9)[l.first:l.last], "
    "($10)[l.first:l.last]) WITH ORDINALITY AS q(lane, quota, after_ms, after_id, ahead_ms, place) "
    "CROSS JOIN LATERAL (SELECT row_number() OVER (ORDER BY due_ms, id) AS n, " HEADS(
        "") "least(q.quota, l.near)) AS h), "
            "far AS (SELECT q.place, q.lane, h.*, " ORDER_MS
            " FROM (SELECT place, lane, quota - n AS quota, ahead_ms, due_ms AS after_ms, id AS after_id, "
            "least(last.order_ms, 9223372036854775807 - ahead_ms) + ahead_ms AS until_ms FROM near, "
            "(SELECT coalesce((SELECT order_ms FROM near ORDER BY order_ms OFFSET l.quota - 1 LIMIT 1), "
            "9223372036854775807)) AS last(order_ms) WHERE n = l.near AND n < quota AND near.order_ms <= last.order_ms) AS q "
            "CROSS JOIN LATERAL (SELECT " HEADS(
                " AND due_ms <= q.until_ms") "q.quota) AS h) "
                                             "SELECT h.place, h.id, h.due_ms, t.* FROM (SELECT place, lane, id, due_ms, ctid, order_ms FROM near "
                                             "UNION ALL SELECT * FROM far ORDER BY order_ms, id) AS h "
                                             "LEFT JOIN LATERAL (SELECT " CANDIDATE
                                             "WHERE ctid = h.ctid AND id = h.id AND lane = h.lane AND due_ms = h.due_ms AND state = " SQL_SCHEDULED
                                             " AND " MAY_TAKE
                                             " FOR UPDATE SKIP LOCKED) AS t ON true LIMIT l.quota) AS x LIMIT $5",
};
#undef HEADS
#undef ORDER_MS

/* ---- lanes of the claim ---- */

/* Behind it are the tasks from that time on. */
static struct pg_claim_position pg_claim_position_from(int64_t due_ms)
{
    return due_ms == INT64_MIN ? POSITION_START : (struct pg_claim_position){ due_ms - 1, LAST_ID };
}

/* When the first task is due that this transaction has scheduled: the watermarks do not know of it yet. */
static int64_t pg_claim_scheduled_ms(const struct store_postgres *s)
{
    return s->notice.due ? s->notice.due_ms : INT64_MAX;
}

/* Begins at the lane's due watermark. */
static struct pg_lane_walk pg_lane_walk_start(struct store_postgres *s, struct lane_quota *q, int64_t number,
                                              int64_t begun_ns)
{
    struct pg_scan scan = { .notices = atomic_load(&s->watermarks.notices), .begun_ns = begun_ns };
    scan.from_ms = min_of(pg_watermark_of(&s->watermarks, number, begun_ns), pg_claim_scheduled_ms(s));
    return (struct pg_lane_walk){ .quota = q,
                                  .number = number,
                                  .scan = scan,
                                  .position = pg_claim_position_from(scan.from_ms),
                                  .passed_ms = INT64_MAX,
                                  .passed_own_ms = INT64_MAX };
}

/* Suspects are few: their lanes are walked from the start. */
static struct pg_lane_walk pg_lane_walk_start_suspects(int64_t number)
{
    return (struct pg_lane_walk){
        .number = number, .scan.from_ms = INT64_MIN, .position = POSITION_START, .passed_ms = INT64_MAX
    };
}

/* Without its lanes that do not exist. */
static void pg_claim_find_lines(struct pg_claim *c)
{
    const struct op_claim *op = c->op;
    size_t given = op->lines ? op->line_count : op->lane_count;
    struct lane_quota *end = op->lanes;
    struct pg_lane_walk *lane = c->lanes;
    c->lines = xcalloc(given + 1, sizeof *c->lines);
    for (size_t i = 0; i < given; i++) {
        end += op->lines ? op->lines[i].lanes : 1;
        struct pg_line_walk line = { .lanes = lane, .max = op->lines ? op->lines[i].max : op->lanes[i].max };
        for (; lane < c->lanes + c->lane_count && lane->quota < end; lane++)
            line.lane_count++;
        if (line.lane_count)
            c->lines[c->line_count++] = line;
    }
}

static void pg_claim_find_lanes(struct store_postgres *s, struct pg_claim *c)
{
    struct op_claim *op = c->op;
    int64_t begun_ns = clock_steady_ns(s->setup.clock);
    pg_watermarks_begin(&s->watermarks, op->now_ms);
    c->lanes = xcalloc(2 * op->lane_count + 1, sizeof *c->lanes);
    c->suspects = pg_lane_walk_start_suspects(0);
    for (size_t i = 0; i < op->lane_count; i++) {
        const struct lane_row *row = pg_claim_lane(s, op, i, false);
        op->lanes[i].ret_taken = 0;
        op->lanes[i].ret_next_due_ms = op->lanes[i].ret_next_own_ms = INT64_MAX;
        if (row)
            c->lanes[c->lane_count++] = pg_lane_walk_start(s, &op->lanes[i], row->number, begun_ns);
    }
    pg_claim_find_lines(c);
    for (size_t i = 0; i < op->lane_count; i++) {
        const struct lane_row *row = pg_claim_lane(s, op, i, true);
        if (row)
            c->lanes[c->lane_count + c->suspect_count++] = pg_lane_walk_start_suspects(row->number);
    }
}

/* ---- reading candidates ---- */

void pg_claim_add_lanes(struct pg_params *p, const struct pg_lane_walk *v, size_t n)
{
    pg_array(p, PG_I32);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(p, v[i].number);
    pg_array_end(p);
}

void pg_claim_add_positions(struct pg_params *p, const struct pg_claim_position *v, size_t n)
{
    pg_add_members(p, v, n, due_ms);
    pg_add_members(p, v, n, id);
}

void pg_claim_add_rules(struct pg_params *p, const struct op_claim *op)
{
    pg_add_i64(p, op->until_ms);
    pg_add_i64(p, op->now_ms);
    pg_add_partitions(p, op->own);
    pg_add_i64(p, op->now_ms - op->help_after_ms);
}

/* Parameters of a walk over n lanes: up to v[i].asked candidates of each, at most `limit` in all. */
static void pg_claim_add_walk(struct pg_params *p, const struct pg_claim *c, const struct pg_lane_walk *v, size_t n,
                              size_t limit)
{
    struct pg_claim_position *positions = xcalloc(n, sizeof *positions);
    for (size_t i = 0; i < n; i++)
        positions[i] = v[i].position;
    pg_params_reset(p);
    pg_claim_add_rules(p, c->op);
    pg_add_i64(p, (int64_t)limit);
    pg_claim_add_lanes(p, v, n);
    pg_array(p, PG_I64);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(p, (int64_t)v[i].asked);
    pg_array_end(p);
    pg_claim_add_positions(p, positions, n);
    free(positions);
}

static void pg_claim_add_near(struct pg_params *p, const struct pg_line_walk *v, size_t n)
{
    pg_array(p, PG_I64);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(p, (int64_t)max_of(2 * v[i].asked / v[i].lane_count, (size_t)NEAR_MIN));
    pg_array_end(p);
}

/* What walk_lines takes besides: how far each lane's tasks are ahead by its priority; the lines. */
static void pg_claim_add_lines(struct pg_params *p, const struct pg_line_walk *v, size_t n)
{
    const struct pg_lane_walk *lanes = v[0].lanes;
    size_t lane_count = (size_t)(v[n - 1].lanes + v[n - 1].lane_count - lanes);
    pg_array(p, PG_I64);
    for (size_t i = 0; i < lane_count; i++)
        pg_element_i64(p, -lane_order_ms(&lanes[i].quota->lane, 0));
    pg_array_end(p);
    pg_array(p, PG_I32);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(p, v[i].lanes - lanes + 1);
    pg_array_end(p);
    pg_array(p, PG_I32);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(p, v[i].lanes - lanes + (int64_t)v[i].lane_count);
    pg_array_end(p);
    pg_array(p, PG_I64);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(p, (int64_t)v[i].asked);
    pg_array_end(p);
    pg_claim_add_near(p, v, n);
}

static enum err pg_claim_read_candidates(struct store_postgres *s, const struct pg_statement *how,
                                         struct pg_result *ret, struct error *e)
{
    return pg_run(&s->conn, how, &s->params, ret, e) ? e->code : pg_gate_prefetch(s, ret, e);
}

/* ---- one candidate ---- */

enum fate {
    TAKEN,
    PASSED_OVER,
    DEALT_WITH,
    CHANGED_OTHERS, /* other rows have changed; later rows of the same result may be stale */
};

static void pg_claim_add_bytes(struct pg_claim *c, size_t bytes)
{
    c->bytes += bytes;
    c->full = c->full || c->bytes >= c->op->max_bytes;
}

static void pg_claim_pick(struct pg_claim *c, struct uuid id, size_t bytes)
{
    if (c->n == c->picked_cap) {
        c->picked_cap = c->picked_cap * 2 + STEP;
        c->picked = xrealloc(c->picked, c->picked_cap * sizeof *c->picked);
    }
    c->picked[c->n++] = id;
    c->full = c->n == c->op->max;
    pg_claim_add_bytes(c, bytes);
}

static bool pg_claim_is_picked(struct gate *g, const struct slot_row *r)
{
    const struct pg_claim *c = container_of(g, struct pg_claim, gate);
    for (size_t i = 0; i < c->n; i++)
        if (uuid_eq(c->picked[i], r->id))
            return true;
    return false;
}

static enum err pg_claim_deal_with(struct pg_claim *c, const struct candidate *k, enum fate *ret, struct error *e)
{
    uint64_t woke_before = c->gate.unblocked;
    size_t gated_before = c->gate.gated_count;
    c->gate.unblocked = 0;
    if (gate_handle(&c->gate, k, e))
        return e->code;
    *ret = c->gate.unblocked || c->gate.gated_count > gated_before + 1 ? CHANGED_OTHERS : DEALT_WITH;
    c->gate.unblocked |= woke_before;
    c->full = c->gate.handled == CLAIM_GATED_MAX;
    pg_claim_add_bytes(c, k->bytes);
    return ERR_OK;
}

/* Its candidate at w->position is left. */
static void pg_lane_walk_pass_over(const struct op_claim *op, struct pg_lane_walk *w, int64_t next_ms)
{
    w->passed++;
    w->passed_ms = min_of(w->passed_ms, next_ms);
    if (claim_is_own(op, w->position.id))
        w->passed_own_ms = min_of(w->passed_own_ms, next_ms);
}

static enum err pg_claim_consider_gated(struct store_postgres *s, struct pg_claim *c, struct pg_lane_walk *w,
                                        const struct pg_result *r, int row, enum fate *ret, struct error *e)
{
    struct candidate k;
    *ret = PASSED_OVER;
    if (pg_bool(r, row, DUE_GIVES_WAY)) {
        pg_lane_walk_pass_over(c->op, w, w->position.due_ms);
        return ERR_OK;
    }
    if (pg_candidate_read(s, r, row, &k, e))
        return e->code;
    k.row.lane = w->quota ? w->number : c->lanes[c->lane_count + (size_t)pg_i64(r, row, DUE_LANE) - 1].number;
    if (pg_gate_is_busy(s, &k)) {
        c->busy++;
        pg_lane_walk_pass_over(c->op, w, c->op->now_ms + CONFLICT_RETRY_MS);
        return ERR_OK;
    }
    if (gate_check(&c->gate, &k, e))
        return e->code;
    if (k.missing == k.n) {
        *ret = TAKEN;
        pg_claim_pick(c, k.task.id, k.bytes);
        return gate_take(&c->gate, &k, k.n, e);
    }
    if (k.task.due_ms <= c->op->now_ms)
        return pg_claim_deal_with(c, &k, ret, e);
    pg_lane_walk_pass_over(c->op, w, k.task.due_ms);
    return ERR_OK;
}

/* Decides about the candidate in that row, the next one of w. */
static enum err pg_claim_consider(struct store_postgres *s, struct pg_claim *c, struct pg_lane_walk *w,
                                  const struct pg_result *r, int row, enum fate *ret, struct error *e)
{
    w->position = (struct pg_claim_position){ pg_i64(r, row, DUE_MS), pg_uuid(r, row, DUE_ID) };
    *ret = PASSED_OVER;
    if (pg_is_null(r, row, DUE_BYTES))
        return ERR_OK;
    if (!pg_is_null(r, row, DUE_GATES)) {
        c->met_gates = true;
        return pg_claim_consider_gated(s, c, w, r, row, ret, e);
    }
    *ret = TAKEN;
    pg_claim_pick(c, w->position.id, (size_t)pg_i64(r, row, DUE_BYTES));
    return ERR_OK;
}

/* ---- walking lines ---- */

static bool pg_lane_walk_wants_more(const struct pg_claim *c, const struct pg_lane_walk *w)
{
    return !c->full && w->quota->ret_taken < w->quota->max && w->passed < CLAIM_GATED_MAX;
}

static bool pg_line_walk_wants_more(const struct pg_claim *c, const struct pg_line_walk *l)
{
    bool wants_more = false;
    for (size_t i = 0; l->taken < l->max && i < l->lane_count; i++)
        wants_more = wants_more || pg_lane_walk_wants_more(c, &l->lanes[i]);
    return wants_more;
}

/* Sets how many candidates the next statement reads, of the line and of each of its lanes. */
static void pg_line_walk_ask(const struct pg_claim *c, struct pg_line_walk *l, size_t limit)
{
    l->asked = min_of(l->max - l->taken, limit);
    for (size_t i = 0; i < l->lane_count; i++) {
        struct pg_lane_walk *w = &l->lanes[i];
        w->asked = pg_lane_walk_wants_more(c, w) ? min_of(w->quota->max - w->quota->ret_taken, l->asked) : 0;
        w->got = 0;
    }
    if (l->lane_count == 1)
        l->asked = l->lanes->asked;
}

/* A task that was unblocked may be anywhere, before a due watermark too. If its turn is over, it is left: the lanes of
 * this line go on behind the task that was last dealt with. */
static void pg_claim_look_for_unblocked(struct store_postgres *s, struct pg_claim *c, struct pg_line_walk *l,
                                        const struct pg_lane_walk *last)
{
    struct uuid id = last->position.id;
    int64_t order_ms = lane_order_ms(&last->quota->lane, last->position.due_ms);
    struct pg_lane_walk *later = l->lanes + l->lane_count;
    for (struct pg_lane_walk *w = l->lanes; w < later; w++)
        w->position = (struct pg_claim_position){ lane_due_ms(&w->quota->lane, order_ms), id };
    for (struct pg_lane_walk *w = later; w < c->lanes + c->lane_count; w++)
        w->position = pg_claim_position_from(min_of(w->scan.from_ms, pg_claim_scheduled_ms(s)));
}

/* Uses the rows of one line, from *row on; `first` is the place of its first lane. *ret_stopped: the rest was not used,
 * because other rows have changed, or because the next task may be one of a lane of which no more rows were asked
 * for. */
static enum err pg_line_walk_use_rows(struct store_postgres *s, struct pg_claim *c, struct pg_line_walk *l,
                                      int64_t first, const struct pg_result *r, int *row, bool *ret_stopped,
                                      struct error *e)
{
    for (*ret_stopped = false; *row < r->rows; ++*row) {
        int64_t at = pg_i64(r, *row, DUE_LANE) - first;
        enum fate fate = PASSED_OVER;
        if (at >= (int64_t)l->lane_count)
            break;
        struct pg_lane_walk *w = &l->lanes[at];
        w->got++;
        if (*ret_stopped || l->taken == l->max || !pg_lane_walk_wants_more(c, w))
            continue;
        if (pg_claim_consider(s, c, w, r, *row, &fate, e))
            return e->code;
        w->quota->ret_taken += fate == TAKEN;
        l->taken += fate == TAKEN;
        *ret_stopped = fate == CHANGED_OTHERS || (w->got == w->asked && pg_lane_walk_wants_more(c, w));
        if (fate == CHANGED_OTHERS && c->gate.unblocked)
            pg_claim_look_for_unblocked(s, c, l, w);
    }
    return ERR_OK;
}

/* Whether the line is to be walked further, from behind the rows that were used. is_whole: the result has all that the
 * statement has found in these lanes. A lane of which it has found less than was asked for is at its end. */
static bool pg_line_walk_goes_on(const struct pg_claim *c, struct pg_line_walk *l, bool is_whole)
{
    bool goes_on = false;
    for (size_t i = 0; i < l->lane_count; i++) {
        struct pg_lane_walk *w = &l->lanes[i];
        bool wants_more = l->taken < l->max && pg_lane_walk_wants_more(c, w);
        w->is_seen = wants_more && is_whole && w->got < w->asked;
        goes_on = goes_on || (wants_more && !w->is_seen);
    }
    return goes_on;
}

static size_t pg_line_walk_got(const struct pg_line_walk *l)
{
    size_t got = 0;
    for (size_t i = 0; i < l->lane_count; i++)
        got += l->lanes[i].got;
    return got;
}

/* Reads the candidates of n lines with one statement. */
static enum err pg_claim_read_lines(struct store_postgres *s, const struct pg_claim *c, struct pg_line_walk *v,
                                    size_t n, size_t limit, struct pg_result *ret, struct error *e)
{
    size_t lane_count = 0;
    for (size_t i = 0; i < n; i++) {
        pg_line_walk_ask(c, &v[i], limit);
        lane_count += v[i].lane_count;
    }
    pg_claim_add_walk(&s->params, c, v->lanes, lane_count, limit);
    if (lane_count == n)
        return pg_claim_read_candidates(s, &walk_lanes, ret, e);
    pg_claim_add_lines(&s->params, v, n);
    return pg_claim_read_candidates(s, &walk_lines, ret, e);
}

/* Walks the lines from v[0] on. *ret is how many of them are finished. */
static enum err pg_claim_walk_lines_once(struct store_postgres *s, struct pg_claim *c, struct pg_line_walk *v, size_t n,
                                         size_t *ret, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    size_t limit = min_of(c->op->max - c->n, c->met_gates ? (size_t)STEP : SIZE_MAX);
    if (pg_claim_read_lines(s, c, v, n, limit, &r, e))
        return e->code;
    bool is_cut = (size_t)r.rows == limit; /* the limit has cut off what may follow the last row */
    int row = 0;
    int64_t first = 1;
    for (*ret = 0; *ret < n && !c->full; ++*ret) {
        struct pg_line_walk *l = &v[*ret];
        bool has_stopped;
        if (pg_line_walk_use_rows(s, c, l, first, &r, &row, &has_stopped, e))
            return e->code;
        bool is_whole = !has_stopped && pg_line_walk_got(l) < l->asked && !(is_cut && row == r.rows);
        if (pg_line_walk_goes_on(c, l, is_whole))
            return ERR_OK;
        first += (int64_t)l->lane_count;
    }
    return ERR_OK;
}

static enum err pg_claim_lines(struct store_postgres *s, struct pg_claim *c, struct error *e)
{
    for (size_t first = 0, done; first < c->line_count && !c->full; first += done) {
        done = 1;
        if (pg_line_walk_wants_more(c, &c->lines[first]) &&
            pg_claim_walk_lines_once(s, c, c->lines + first, c->line_count - first, &done, e))
            return e->code;
    }
    return ERR_OK;
}

/* ---- walking suspects ---- */

/* Uses the candidates of one statement over all lanes of suspects, until rows have changed. Adds those taken to
 * *taken. */
static enum err pg_claim_walk_suspects_once(struct store_postgres *s, struct pg_claim *c, size_t *taken,
                                            bool *ret_again, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct pg_lane_walk *w = &c->suspects, *v = c->lanes + c->lane_count;
    size_t limit = min_of(c->op->max_suspects - *taken, (size_t)STEP);
    bool has_changed = false;
    for (size_t i = 0; i < c->suspect_count; i++) {
        v[i].asked = limit;
        v[i].position = w->position;
    }
    pg_claim_add_walk(&s->params, c, v, c->suspect_count, limit);
    if (pg_claim_read_candidates(s, &walk_suspects, &r, e))
        return e->code;
    for (int i = 0; i < r.rows && !c->full && w->passed < CLAIM_GATED_MAX && !has_changed; i++) {
        enum fate fate;
        if (pg_claim_consider(s, c, w, &r, i, &fate, e))
            return e->code;
        *taken += fate == TAKEN;
        has_changed = fate == CHANGED_OTHERS;
    }
    bool wants = *taken < c->op->max_suspects && !c->full && w->passed < CLAIM_GATED_MAX;
    w->is_seen = wants && !has_changed && (size_t)r.rows < limit;
    *ret_again = wants && !w->is_seen;
    return ERR_OK;
}

static enum err pg_claim_suspects(struct store_postgres *s, struct pg_claim *c, struct error *e)
{
    size_t taken = 0;
    for (bool again = c->suspect_count > 0 && c->op->max_suspects > 0 && !c->full; again;)
        if (pg_claim_walk_suspects_once(s, c, &taken, &again, e))
            return e->code;
    for (size_t i = 0; i < c->suspect_count; i++) {
        c->lanes[c->lane_count + i].position = c->suspects.position;
        c->lanes[c->lane_count + i].is_seen = c->suspects.is_seen;
    }
    return ERR_OK;
}

/* ---- the whole walk ---- */

void pg_claim_init(struct pg_claim *c, struct store_postgres *s, struct op_claim *op)
{
    *c = (struct pg_claim){ .op = op,
                            .arena = &op->op.arena,
                            .gate = { .slots = &s->slots, .now_ms = op->now_ms, .is_picked = pg_claim_is_picked } };
    pg_claim_find_lanes(s, c);
}

void pg_claim_release(struct pg_claim *c)
{
    gate_release(&c->gate);
    free(c->picked);
    free(c->lanes);
    free(c->lines);
}

enum err pg_claim_walk(struct store_postgres *s, struct pg_claim *c, struct error *e)
{
    return pg_claim_lines(s, c, e) ? e->code : pg_claim_suspects(s, c, e);
}

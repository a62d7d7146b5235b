/* OP_CLAIM over a line of several lanes. Each lane is in the order of due_ms, and so in the order of lane_order_ms: the
 * lanes are merged. Of each lane only keys are read, some at a time; the index over due tasks has all of their columns.
 * Rows are read of the tasks whose turn it is. So a claim costs as much as it takes, and some keys for each lane,
 * however many tasks are due.
 *
 * A key may have been read before a task with gates was handled. If that cancelled the key's task, its row says so. If
 * it unblocked tasks, all keys are read again, because theirs may be missing. */
#include <stdlib.h>

#include "store/sqlite/claim/claim.h"

enum { KEYS_MIN = 4, KEYS_MAX = 32 };

struct due_key {
    int64_t order_ms, rid;
    struct uuid id;
};

struct lane_cursor {
    struct lane_quota *quota;
    int64_t lane;
    size_t passed;               /* tasks that were passed over */
    struct lane_position behind; /* the last key that was read */
    bool at_end;                 /* there is no key behind it */
    size_t at, n;                /* the keys that are left: keys[at] to keys[n - 1] */
    struct due_key keys[KEYS_MAX];
};

struct merge {
    struct store_sqlite *s;
    struct claiming *c;
    size_t max, taken;
    struct lane_cursor *lanes;
    size_t lane_count;
    struct lane_cursor **heap; /* lanes that have a key left; the lane of the first key is on top */
    size_t heap_count;
};

/* ---- keys ---- */

/* How many keys to read: as many as this lane can still give, unless most are not for this node. */
static size_t merge_wants(const struct merge *m, const struct lane_cursor *l)
{
    if (m->c->op->own)
        return KEYS_MAX;
    size_t of_line = min_of(m->max - m->taken, m->c->op->max - m->c->n);
    size_t left = min_of(of_line, l->quota->max - l->quota->ret_taken);
    return max_of(min_of(left, (size_t)KEYS_MAX), (size_t)KEYS_MIN);
}

static sqlite3_stmt *merge_keys_behind(const struct merge *m, const struct lane_cursor *l, size_t max)
{
    bool from_start = l->behind.due_ms == INT64_MIN;
    sqlite3_stmt *st = writer_stmt(m->s, from_start ? ST_DUE_KEYS : ST_DUE_KEYS_BEHIND);
    sqlite3_bind_int64(st, 1, l->lane);
    sqlite3_bind_int64(st, 2, m->c->op->until_ms);
    sqlite3_bind_int64(st, 3, (int64_t)max);
    if (!from_start) {
        sqlite3_bind_int64(st, 4, l->behind.due_ms);
        sqlite3_bind_blob(st, 5, l->behind.id.b, sizeof l->behind.id.b, SQLITE_STATIC);
    }
    return st;
}

/* Reads the next keys of a lane. Those of other nodes' partitions are dropped, so there may be none. */
static enum err merge_read_keys(struct merge *m, struct lane_cursor *l, struct error *e)
{
    const struct op_claim *op = m->c->op;
    size_t max = merge_wants(m, l), read = 0;
    sqlite3_stmt *st = merge_keys_behind(m, l, max);
    struct lane_position last = l->behind;
    enum err rc;
    bool row;
    l->at = l->n = 0;
    for (; !(rc = conn_step(&m->s->conn, st, &row, e)) && row; read++) {
        last = (struct lane_position){ sqlite3_column_int64(st, 0), row_uuid(st, 1) };
        if (op->own && !claim_is_for(op, last.id, last.due_ms))
            continue;
        int64_t order_ms = lane_order_ms(&l->quota->lane, last.due_ms);
        l->keys[l->n++] = (struct due_key){ order_ms, sqlite3_column_int64(st, 2), last.id };
    }
    l->behind = last;
    l->at_end = read < max;
    return rc;
}

static bool merge_goes_on(const struct merge *m)
{
    return m->taken < m->max && !m->c->full;
}

static bool merge_is_open(const struct lane_cursor *l)
{
    return l->quota->ret_taken < l->quota->max && l->passed < CLAIM_GATED_MAX;
}

/* *ret: the lane stands on a key. */
static enum err merge_fill(struct merge *m, struct lane_cursor *l, bool *ret, struct error *e)
{
    *ret = false;
    if (!merge_goes_on(m) || !merge_is_open(l))
        return ERR_OK;
    while (l->at == l->n && !l->at_end)
        if (merge_read_keys(m, l, e))
            return e->code;
    *ret = l->at < l->n;
    return ERR_OK;
}

/* ---- the lanes in the order of their keys ---- */

static bool merge_is_before(const struct lane_cursor *a, const struct lane_cursor *b)
{
    const struct due_key *x = &a->keys[a->at], *y = &b->keys[b->at];
    return x->order_ms != y->order_ms ? x->order_ms < y->order_ms : uuid_cmp(x->id, y->id) < 0;
}

static void merge_sift_down(struct merge *m, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < m->heap_count; at = child) {
        if (child + 1 < m->heap_count && merge_is_before(m->heap[child + 1], m->heap[child]))
            child++;
        if (!merge_is_before(m->heap[child], m->heap[at]))
            return;
        struct lane_cursor *up = m->heap[child];
        m->heap[child] = m->heap[at];
        m->heap[at] = up;
    }
}

static enum err merge_order(struct merge *m, struct error *e)
{
    m->heap_count = 0;
    for (size_t i = 0; i < m->lane_count; i++) {
        bool has_key;
        if (merge_fill(m, &m->lanes[i], &has_key, e))
            return e->code;
        if (has_key)
            m->heap[m->heap_count++] = &m->lanes[i];
    }
    for (size_t at = m->heap_count / 2; at-- > 0;)
        merge_sift_down(m, at);
    return ERR_OK;
}

/* The first lane goes on to its next key. */
static enum err merge_advance(struct merge *m, struct error *e)
{
    bool has_key;
    m->heap[0]->at++;
    if (merge_fill(m, m->heap[0], &has_key, e))
        return e->code;
    if (!has_key)
        m->heap[0] = m->heap[--m->heap_count];
    merge_sift_down(m, 0);
    return ERR_OK;
}

/* Reads all keys again, behind this one. */
static enum err merge_restart(struct merge *m, struct due_key behind, struct error *e)
{
    for (size_t i = 0; i < m->lane_count; i++) {
        struct lane_cursor *l = &m->lanes[i];
        l->at = l->n = 0;
        l->at_end = false;
        l->behind = (struct lane_position){ lane_due_ms(&l->quota->lane, behind.order_ms), behind.id };
    }
    return merge_order(m, e);
}

/* ---- tasks ---- */

/* Checks the task of the first lane's key. */
static enum err merge_check_row(struct merge *m, sqlite3_stmt *st, struct error *e)
{
    struct lane_cursor *l = m->heap[0];
    enum claim_fate fate;
    if (!sqlite_claim_may_take(m->c->op, st))
        return ERR_OK;
    if (sqlite_claim_check_task(m->s, m->c, st, &fate, e))
        return e->code;
    l->quota->ret_taken += fate == FATE_TAKEN;
    m->taken += fate == FATE_TAKEN;
    l->passed += fate == FATE_PASSED_OVER;
    return ERR_OK;
}

static enum err merge_step(struct merge *m, struct error *e)
{
    struct due_key key = m->heap[0]->keys[m->heap[0]->at];
    sqlite3_stmt *st = writer_stmt(m->s, ST_DUE_BY_RID);
    uint64_t unblocked = m->c->gate.unblocked;
    bool row;
    sqlite3_bind_int64(st, 1, key.rid);
    m->c->gate.unblocked = 0;
    enum err rc = conn_step(&m->s->conn, st, &row, e);
    if (!rc && row)
        rc = merge_check_row(m, st, e);
    sqlite3_reset(st);
    bool restart = m->c->gate.unblocked != 0;
    m->c->gate.unblocked |= unblocked;
    return rc ? rc : restart ? merge_restart(m, key, e) : merge_advance(m, e);
}

static enum err merge_all(struct merge *m, struct error *e)
{
    if (merge_order(m, e))
        return e->code;
    while (m->heap_count && merge_goes_on(m))
        if (merge_step(m, e))
            return e->code;
    return ERR_OK;
}

enum err sqlite_claim_merge(struct store_sqlite *s, struct claiming *c, struct lane_quota *lanes, size_t n, size_t max,
                            struct error *e)
{
    struct merge m = { .s = s, .c = c, .max = max };
    m.lanes = xmalloc(n * sizeof *m.lanes);
    m.heap = xmalloc(n * sizeof(struct lane_cursor *));
    for (size_t i = 0; i < n; i++) {
        const struct lane_row *row =
            lanes_find(&s->conn, lanes[i].lane, sqlite_claim_pool(c->op, &lanes[i].lane, false));
        struct lane_cursor *l = &m.lanes[m.lane_count];
        if (!row)
            continue;
        l->quota = &lanes[i];
        l->lane = row->number;
        l->passed = l->at = l->n = 0;
        l->at_end = false;
        l->behind = lane_start;
        m.lane_count++;
    }
    enum err rc = merge_all(&m, e);
    free(m.lanes);
    free(m.heap);
    return rc;
}

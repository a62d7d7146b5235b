/* The hot path: claim and settle, and who holds what.
 *
 * A claim's row counts the tasks that hold it and lists their rids, so that no index over RUNNING tasks is kept: a claim and a
 * settle each touch the task's row and little else. The list may name tasks that have left; what a task's own row says is true. */
#include <assert.h>
#include <endian.h>
#include <stdlib.h>

#include "adapter/store_sqlite_impl.h"

/* ---- claims ---- */

enum err claim_join(struct store_sqlite *s, struct uuid claim, int64_t rid, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_JOIN);
    uint64_t bytes = htole64((uint64_t)rid);
    (void)bind_uuid(st, 1, &claim);
    sqlite3_bind_blob(st, 2, &bytes, sizeof bytes, SQLITE_STATIC);
    return conn_run(&s->conn, st, e);
}

enum err claim_leave(struct store_sqlite *s, struct uuid claim, int64_t n, struct error *e)
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

static enum err claim_exists(struct store_sqlite *s, struct uuid claim, bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_EXISTS);
    (void)bind_uuid(st, 1, &claim);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err claim_insert(struct store_sqlite *s, const struct op_claim *op, size_t n, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_INSERT);
    for (size_t i = 0; i < n; i++)
        s->rids[i] = (int64_t)htole64((uint64_t)s->rids[i]);
    (void)bind_uuid(st, 1, &op->claim);
    (void)bind_uuid(st, 2, &op->node);
    sqlite3_bind_int64(st, 3, (int64_t)n);
    sqlite3_bind_blob64(st, 4, s->rids, n * sizeof *s->rids, SQLITE_STATIC);
    return conn_run(&s->conn, st, e);
}

/* ---- claim ---- */

struct picking {
    const struct op_claim *op;
    size_t n, bytes;
    bool full; /* nothing more may be taken, from this lane or the next */
};

static bool may_claim(const struct op_claim *op, sqlite3_stmt *st)
{
    return sqlite3_column_int(st, AT_delivery) != DELIVER_AT_MOST_ONCE ||
           sqlite3_column_int64(st, AT_due_ms) <= op->now_ms;
}

static enum err pick(struct store_sqlite *s, struct picking *p, sqlite3_stmt *st, struct arena *a, struct error *e)
{
    if (scratch_read(s, st, p->n, a, e))
        return e->code;
    const struct task *t = &s->scratch[p->n++];
    p->bytes += t->payload.n + t->target_config.n;
    p->full = p->n == p->op->max || p->bytes >= p->op->max_bytes;
    return ERR_OK;
}

static enum err pick_from(struct store_sqlite *s, struct picking *p, int64_t lane, size_t quota, struct arena *a,
                          struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_DUE);
    sqlite3_bind_int64(st, 1, lane);
    sqlite3_bind_int64(st, 2, p->op->until_ms);
    enum err rc = ERR_OK;
    for (size_t taken = 0; taken < quota && !p->full;) {
        bool row;
        rc = conn_step(&s->conn, st, &row, e);
        if (rc || !row)
            break;
        if (!may_claim(p->op, st))
            continue;
        rc = pick(s, p, st, a, e);
        if (rc)
            break;
        taken++;
    }
    sqlite3_reset(st);
    return rc;
}

static enum err next_due(struct store_sqlite *s, const struct op_claim *op, int64_t *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_NEXT_DUE);
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < op->lane_count; i++) {
        const struct lane_row *lane = lanes_find(&s->conn, op->lanes[i].lane, POOL_DISPATCHED);
        if (!lane)
            continue;
        bool row;
        sqlite3_bind_int64(st, 1, lane->number);
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (row)
            next = min_of(next, sqlite3_column_int64(st, 0));
        sqlite3_reset(st);
    }
    *ret = next;
    return ERR_OK;
}

static enum err mark_claimed(struct store_sqlite *s, const struct op_claim *op, struct tasks *taken, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_TASK);
    (void)bind_uuid(st, 2, &op->claim);
    for (size_t i = 0; i < taken->n; i++) {
        struct task *t = &taken->v[i];
        sqlite3_bind_int64(st, 1, s->rids[i]);
        if (conn_run(&s->conn, st, e))
            return e->code;
        t->state = TASK_RUNNING;
        t->fence++;
        t->claim = op->claim;
        if (!t->deleted) {
            tally_add(&s->of_op, t->tenant, TASK_SCHEDULED, -1);
            tally_add(&s->of_op, t->tenant, TASK_RUNNING, 1);
        }
    }
    return taken->n ? claim_insert(s, op, taken->n, e) : ERR_OK;
}

enum err sqlite_claim(struct store_sqlite *s, struct op *base)
{
    struct op_claim *op = (struct op_claim *)base;
    struct error *e = &base->error;
    bool exists;
    if (claim_exists(s, op->claim, &exists, e))
        return e->code;
    if (exists)
        return error_set(e, ERR_CONFLICT, "this claim was made before");
    struct picking p = { .op = op };
    for (size_t i = 0; i < op->lane_count && !p.full; i++) {
        const struct lane_row *lane = lanes_find(&s->conn, op->lanes[i].lane, POOL_DISPATCHED);
        if (lane && pick_from(s, &p, lane->number, op->lanes[i].max, &base->arena, e))
            return e->code;
    }
    struct tasks taken;
    if (scratch_take(s, p.n, &base->arena, &taken, e) || mark_claimed(s, op, &taken, e) ||
        next_due(s, op, &op->ret_next_due_ms, e))
        return e->code;
    op->ret = taken;
    return ERR_OK;
}

/* ---- what is held ---- */

/* The task at rid, if it is RUNNING under this claim. */
static enum err read_held(struct store_sqlite *s, struct uuid claim, int64_t rid, size_t *n, struct arena *a,
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

/* All that the claims hold which the statement names. */
static enum err read_all_held(struct store_sqlite *s, sqlite3_stmt *st, size_t max, size_t *n, struct arena *a,
                              struct error *e)
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
            if (read_held(s, claim, (int64_t)le64toh(rid), n, a, e))
                return e->code;
        }
    }
    return ERR_OK;
}

static enum err held(struct store_sqlite *s, sqlite3_stmt *st, size_t max, struct arena *a, struct tasks *ret,
                     struct error *e)
{
    size_t n = 0;
    enum err rc = read_all_held(s, st, max, &n, a, e);
    sqlite3_reset(st);
    return rc ? rc : scratch_take(s, n, a, ret, e);
}

enum err sqlite_claimed(struct store_sqlite *s, struct op *base)
{
    struct op_claimed *op = (struct op_claimed *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_BY_ID);
    (void)bind_uuid(st, 1, &op->claim);
    return held(s, st, SIZE_MAX, &base->arena, &op->ret, &base->error);
}

enum err sqlite_held(struct store_sqlite *s, struct op *base)
{
    struct op_held *op = (struct op_held *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIMS_OF_OTHERS);
    sqlite3_bind_blob(st, 1, op->not_node.b, sizeof op->not_node.b, SQLITE_STATIC);
    return held(s, st, op->max, &base->arena, &op->ret, &base->error);
}

/* ---- settle ---- */

enum { LEAVING_MAX = 16 };

/* Tasks that left a claim, gathered: most of an operation's come from a few claims. */
struct leaving {
    struct uuid claim[LEAVING_MAX];
    int64_t count[LEAVING_MAX];
    size_t n, last;
};

static enum err leave_all(struct store_sqlite *s, struct leaving *l, struct error *e)
{
    for (size_t i = 0; i < l->n; i++)
        if (claim_leave(s, l->claim[i], l->count[i], e))
            return e->code;
    l->n = l->last = 0;
    return ERR_OK;
}

static enum err leave(struct store_sqlite *s, struct leaving *l, struct uuid claim, struct error *e)
{
    if (l->n && uuid_eq(l->claim[l->last], claim)) {
        l->count[l->last]++;
        return ERR_OK;
    }
    size_t i = 0;
    while (i < l->n && !uuid_eq(l->claim[i], claim))
        i++;
    if (i == LEAVING_MAX) {
        if (leave_all(s, l, e))
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

static enum err write_verdict(struct store_sqlite *s, const struct guards *g, const struct verdict *v, int64_t now_ms,
                              struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SETTLE);
    sqlite3_bind_int64(st, 1, g->rid);
    sqlite3_bind_int(st, 2, (int)v->next);
    if (v->next == TASK_SCHEDULED)
        sqlite3_bind_int64(st, 3, v->due_ms);
    else
        sqlite3_bind_null(st, 3);
    sqlite3_bind_int(st, 4, v->attempts);
    sqlite3_bind_int(st, 5, v->losses);
    sqlite3_bind_int64(st, 6, now_ms);
    if (v->has_execution)
        sqlite3_bind_int64(st, 7, v->execution.started_us / 1000);
    else
        sqlite3_bind_null(st, 7);
    sqlite3_bind_int64(st, 8, task_is_final(v->next) ? now_ms : 0);
    if (v->last_error.n)
        (void)bind_str(st, 9, v->last_error);
    else
        sqlite3_bind_null(st, 9);
    if (!g->deleted) {
        tally_add(&s->of_op, g->tenant, TASK_RUNNING, -1);
        tally_add(&s->of_op, g->tenant, v->next, 1);
    }
    return conn_run(&s->conn, st, e);
}

static enum err write_execution(struct store_sqlite *s, const struct settlement *v, struct error *e)
{
    const struct execution *x = &v->verdict.execution;
    sqlite3_stmt *st = writer_stmt(s, ST_EXECUTION_INSERT);
    row_bind(&s->conn, st, 2, &table_executions, x);
    if (conn_run(&s->conn, st, e) || uuid_is_nil(v->parent))
        return s->conn.failed;
    st = writer_stmt(s, ST_LAST_RUN);
    (void)bind_uuid(st, 1, &v->parent);
    sqlite3_bind_int64(st, 2, x->started_us / 1000);
    return conn_run(&s->conn, st, e);
}

/* `replace` leaves its claim here, like any verdict, so that it is counted once. */
static enum err write_replacement(struct store_sqlite *s, const struct guards *g, const struct task *t, struct error *e)
{
    struct task next = *t;
    struct guards left = *g;
    assert(uuid_eq(t->claim, g->claim) || t->state != TASK_RUNNING);
    next.claim = (struct uuid){ 0 };
    left.claim = (struct uuid){ 0 };
    return replace_task(s, &left, &next, e);
}

static enum err settle_one(struct store_sqlite *s, struct settlement *v, int64_t now_ms, struct leaving *l,
                           struct error *e)
{
    struct guards g;
    if (read_guards(s, &v->id, &g, e))
        return e->code;
    v->stale = !g.found || g.state != TASK_RUNNING || g.fence != v->fence;
    if (v->stale)
        return ERR_OK;
    if (v->replace ? write_replacement(s, &g, v->replace, e) : write_verdict(s, &g, &v->verdict, now_ms, e))
        return e->code;
    if (leave(s, l, g.claim, e))
        return e->code;
    return v->verdict.has_execution ? write_execution(s, v, e) : ERR_OK;
}

enum err sqlite_settle(struct store_sqlite *s, struct op *base)
{
    struct op_settle *op = (struct op_settle *)base;
    struct leaving l = { .n = 0 };
    for (size_t i = 0; i < op->n; i++)
        if (settle_one(s, &op->v[i], op->now_ms, &l, &base->error))
            return base->error.code;
    return leave_all(s, &l, &base->error);
}

/* ---- recurring tasks ---- */

enum err sqlite_recurring(struct store_sqlite *s, struct op *base)
{
    struct op_recurring *op = (struct op_recurring *)base;
    struct error *e = &base->error;
    sqlite3_stmt *st = writer_stmt(s, ST_RECURRING);
    int64_t next_ms = INT64_MAX;
    size_t n = 0;
    enum err rc;
    for (bool row; !(rc = conn_step(&s->conn, st, &row, e)) && row; n++) {
        int64_t cursor_ms = sqlite3_column_int64(st, AT_cursor_ms);
        if (n == op->max || cursor_ms >= op->until_ms) {
            next_ms = cursor_ms;
            break;
        }
        rc = scratch_read(s, st, n, &base->arena, e);
        if (rc)
            break;
    }
    sqlite3_reset(st);
    if (rc || scratch_take(s, n, &base->arena, &op->ret, e))
        return e->code;
    op->ret_next_ms = next_ms;
    return ERR_OK;
}

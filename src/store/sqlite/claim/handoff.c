/* OP_HANDOFF, OP_HANDED_OFF, OP_RUNNING and OP_RETAKE. The row of a claim lists rids only: the rows of the tasks say
 * which of them still run, and their ids. */
#include <endian.h>
#include <stdlib.h>

#include "core/task/fence.h"
#include "store/sqlite/claim/claim.h"

enum err sqlite_handoff(struct store_sqlite *s, struct op *base)
{
    struct op_handoff *op = (struct op_handoff *)base;
    struct error *e = &base->error;
    bool known, dead;
    if (sqlite_node_find(s, &op->node, &known, &dead, e))
        return e->code;
    if (dead)
        return node_is_dead(e);
    sqlite3_stmt *st = writer_stmt(s, op->orphaned ? ST_ORPHAN_HAND : ST_CLAIM_HAND);
    (void)bind_uuid(st, 2, &op->node);
    for (size_t i = 0; i < op->n; i++) {
        (void)bind_uuid(st, 1, &op->claims[i]);
        sqlite3_bind_int64(st, 3, (int64_t)hand_epoch(op, i));
        if (conn_run(&s->conn, st, e))
            return e->code;
    }
    return ERR_OK;
}

/* ---- RUNNING tasks of the claims that a statement returns ---- */

struct handed_task {
    struct uuid claim, id;
    int64_t rid, lane;
    uint64_t epoch;
};

/* Called with each task; returns false to stop. */
typedef bool handed_fn(void *context, const struct handed_task *h);

/* Reads the task of h.claim and h.rid; calls `found` if it still runs. */
static enum err sqlite_handed_visit(struct store_sqlite *s, struct handed_task h, handed_fn *found, void *context,
                                    bool *ret_more, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_OF_CLAIM);
    bool row;
    sqlite3_bind_int64(st, 1, h.rid);
    (void)bind_uuid(st, 2, &h.claim);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    if (row) {
        h.id = row_uuid(st, 0);
        h.lane = sqlite3_column_int64(st, 1);
        *ret_more = found(context, &h);
        sqlite3_reset(st);
    }
    return ERR_OK;
}

static enum err sqlite_handed_walk(struct store_sqlite *s, sqlite3_stmt *st, handed_fn *found, void *context,
                                   struct error *e)
{
    for (bool row, more = true; more;) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        struct handed_task h = { .claim = row_uuid(st, 0), .epoch = (uint64_t)sqlite3_column_int64(st, 2) };
        const char *list = sqlite3_column_blob(st, 1);
        size_t count = (size_t)sqlite3_column_bytes(st, 1) / sizeof(uint64_t);
        for (size_t i = 0; i < count && more; i++) {
            uint64_t rid;
            memcpy(&rid, list + i * sizeof rid, sizeof rid);
            h.rid = (int64_t)le64toh(rid);
            if (sqlite_handed_visit(s, h, found, context, &more, e))
                return e->code;
        }
    }
    return ERR_OK;
}

static enum err sqlite_handed_each(struct store_sqlite *s, sqlite3_stmt *st, handed_fn *found, void *context,
                                   struct error *e)
{
    enum err rc = sqlite_handed_walk(s, st, found, context, e);
    sqlite3_reset(st);
    return rc;
}

/* ---- OP_HANDED_OFF ---- */

struct handed_list {
    const struct op_handed_off *op;
    struct handed_task *v;
    size_t n, cap;
};

/* Reads whole claims, because the tasks of one claim come in any order. */
static bool sqlite_handed_add(void *context, const struct handed_task *h)
{
    struct handed_list *l = context;
    const struct handed_place *after = &l->op->after;
    if (l->n > l->op->max && !uuid_eq(h->claim, l->v[l->n - 1].claim))
        return false;
    if (uuid_eq(h->claim, after->claim) && uuid_cmp(h->id, after->task) <= 0)
        return true;
    if (l->n == l->cap) {
        l->cap = l->cap * 2 + 64;
        l->v = xrealloc(l->v, l->cap * sizeof *l->v);
    }
    l->v[l->n++] = *h;
    return true;
}

static int sqlite_handed_compare(const void *a, const void *b)
{
    const struct handed_task *x = a, *y = b;
    int order = uuid_cmp(x->claim, y->claim);
    return order ? order : uuid_cmp(x->id, y->id);
}

static enum err sqlite_handed_read_task(struct store_sqlite *s, const struct handed_task *h, size_t at, struct arena *a,
                                        struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_HANDED_BY_RID);
    bool row;
    sqlite3_bind_int64(st, 1, h->rid);
    enum err rc = conn_step(&s->conn, st, &row, e);
    if (!rc)
        rc = row ? scratch_read(s, st, at, a, e) : conn_corrupt(&s->conn, "a running task is missing", e);
    sqlite3_reset(st);
    return rc;
}

/* Reads as many tasks as the result may hold. */
static enum err sqlite_handed_read_tasks(struct store_sqlite *s, const struct handed_list *all,
                                         struct op_handed_off *op)
{
    struct error *e = &op->op.error;
    size_t n = 0;
    for (size_t bytes = 0; n < min_of(all->n, op->max) && handed_goes_on(op, bytes); n++) {
        if (sqlite_handed_read_task(s, &all->v[n], n, &op->op.arena, e))
            return e->code;
        bytes += s->scratch[n].target_config.n;
    }
    uint64_t *epochs = arena_alloc(&op->op.arena, n * sizeof *epochs);
    if (!epochs)
        return reader_no_room(e);
    if (scratch_take(s, n, &op->op.arena, &op->ret, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        epochs[i] = all->v[i].epoch;
    op->ret_epochs = epochs;
    op->ret_more = n < all->n;
    return ERR_OK;
}

enum err sqlite_handed_off(struct store_sqlite *s, struct op *base)
{
    struct op_handed_off *op = (struct op_handed_off *)base;
    struct handed_list all = { .op = op };
    struct uuid before = uuid_floor(op->before_ms);
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIMS_HANDED);
    sqlite3_bind_blob(st, 1, before.b, sizeof before.b, SQLITE_STATIC);
    sqlite3_bind_blob(st, 2, op->after.claim.b, sizeof op->after.claim.b, SQLITE_STATIC);
    enum err rc = sqlite_handed_each(s, st, sqlite_handed_add, &all, &base->error);
    if (all.n)
        qsort(all.v, all.n, sizeof *all.v, sqlite_handed_compare);
    if (!rc)
        rc = sqlite_handed_read_tasks(s, &all, op);
    free(all.v);
    return rc;
}

/* ---- OP_RUNNING ---- */

enum err sqlite_running(struct store_sqlite *s, struct op *base)
{
    struct op_running *op = (struct op_running *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_RUNNING);
    for (size_t i = 0; i < op->n; i++) {
        (void)bind_uuid(st, 1, &op->v[i].id);
        sqlite3_bind_int64(st, 2, op->v[i].fence);
        if (conn_step(&s->conn, st, &op->ret[i], &base->error))
            return base->error.code;
        sqlite3_reset(st);
    }
    return ERR_OK;
}

/* ---- OP_RETAKE: a new claim on RUNNING tasks ---- */

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
        if (conn_run(&s->conn, st, e) || sqlite_claims_left_add(s, &l, t->claim, e))
            return e->code;
        t->claim = op->claim;
    }
    if (sqlite_claims_left_write(s, &l, e) || !taken->n)
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

/* ---- for OP_LIMIT_TAKE ---- */

struct handed_count {
    struct conn *conn;
    const struct share_subject *about;
    int64_t n, max;
};

static bool sqlite_claimed_count_task(void *context, const struct handed_task *h)
{
    struct handed_count *c = context;
    const struct lane_row *lane = store_lanes_at(&c->conn->lanes, h->lane);
    c->n += lane && share_is_about(c->about, lane->lane);
    return c->n < c->max;
}

enum err sqlite_count_claimed(struct store_sqlite *s, const struct uuid *node, const struct share_subject *about,
                              int64_t max, int64_t *ret, struct error *e)
{
    struct handed_count c = { &s->conn, about, 0, max };
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIMS_OF_NODE);
    (void)bind_uuid(st, 1, node);
    if (about->tenant && sqlite_handed_each(s, st, sqlite_claimed_count_task, &c, e))
        return e->code;
    *ret = c.n;
    return ERR_OK;
}

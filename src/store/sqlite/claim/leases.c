/* Leases of tasks, under which external workers run them: writing and deleting them, OP_LEASE_RENEW,
 * OP_LEASES_EXPIRED. */
#include "store/sqlite/reader/reader.h"

enum err sqlite_task_lease_put(struct store_sqlite *s, const struct task *t, const struct lease_terms *terms,
                               struct error *e)
{
    struct task_lease lease = { .tenant = t->tenant,
                                .task = t->id,
                                .queue = t->queue,
                                .row = { t->fence, terms->until_ms, terms->worker, { 0 } } };
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_LEASE_PUT);
    row_bind(&s->conn, st, 1, &table_task_leases, &lease);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_task_lease_leave(struct store_sqlite *s, const struct guards *g, const struct uuid *task,
                                 struct error *e)
{
    const struct lane_row *row;
    if (lanes_at(&s->conn, g->lane, &row, e))
        return e->code;
    if (!pool_is_leased(row->pool))
        return ERR_OK;
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_LEASE_DELETE);
    (void)bind_uuid(st, 1, task);
    return conn_run(&s->conn, st, e);
}

/* ---- OP_LEASE_RENEW ---- */

/* st: ST_ABORT_REQUESTED, or the same of a reader. */
static enum err sqlite_lease_abort_requested(struct conn *c, sqlite3_stmt *st, const struct uuid *task, int64_t fence,
                                             bool *ret, struct error *e)
{
    (void)bind_uuid(st, 1, task);
    sqlite3_bind_int64(st, 2, fence);
    if (conn_step(c, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_lease_renew_one(struct store_sqlite *s, int32_t tenant, struct lease_renewal *k, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_LEASE_RENEW);
    (void)bind_uuid(st, 1, &k->id);
    sqlite3_bind_int64(st, 2, k->fence);
    sqlite3_bind_int(st, 3, tenant);
    sqlite3_bind_int64(st, 4, k->until_ms);
    if (k->progress.n)
        (void)bind_str(st, 5, k->progress);
    else
        sqlite3_bind_null(st, 5);
    if (conn_run(&s->conn, st, e))
        return e->code;
    k->ret_kept = sqlite3_changes(s->conn.db) > 0;
    k->ret_ended = false;
    st = writer_stmt(s, ST_ABORT_REQUESTED);
    return k->ret_kept ? sqlite_lease_abort_requested(&s->conn, st, &k->id, k->fence, &k->ret_ended, e) : ERR_OK;
}

enum err sqlite_lease_renew(struct store_sqlite *s, struct op *base)
{
    struct op_lease_renew *op = (struct op_lease_renew *)base;
    for (size_t i = 0; i < op->n; i++)
        if (sqlite_lease_renew_one(s, op->tenant, &op->v[i], &base->error))
            return base->error.code;
    return ERR_OK;
}

/* ---- OP_LEASES_EXPIRED ---- */

/* Reads rows of a rid and a time, in the order of the time. Puts the rids of the first `max` up to now_ms into s->rids;
 * *ret_next_ms is the time of the next row. */
static enum err sqlite_lease_find_expired(struct store_sqlite *s, sqlite3_stmt *st, int64_t now_ms, size_t max,
                                          size_t *ret_n, int64_t *ret_next_ms, struct error *e)
{
    size_t n = 0;
    *ret_next_ms = INT64_MAX;
    for (bool row; *ret_next_ms == INT64_MAX;) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            break;
        int64_t until_ms = sqlite3_column_int64(st, 1);
        if (n == max || until_ms > now_ms) {
            *ret_next_ms = until_ms;
            break;
        }
        scratch_grow(s, n);
        s->rids[n++] = sqlite3_column_int64(st, 0);
    }
    sqlite3_reset(st);
    *ret_n = n;
    return ERR_OK;
}

static enum err sqlite_lease_read_expired(struct store_sqlite *s, size_t n, struct arena *a, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_BY_RID);
    enum err rc = ERR_OK;
    for (size_t i = 0; !rc && i < n; i++) {
        bool row;
        sqlite3_bind_int64(st, 1, s->rids[i]);
        rc = conn_step(&s->conn, st, &row, e);
        if (!rc)
            rc = row ? scratch_read(s, st, i, a, e) : conn_corrupt(&s->conn, "a leased task is missing", e);
        sqlite3_reset(st);
    }
    return rc;
}

static enum err sqlite_read_expired(struct store_sqlite *s, sqlite3_stmt *st, int64_t now_ms, size_t max,
                                    struct arena *a, struct tasks *ret, int64_t *ret_next_ms, struct error *e)
{
    size_t n;
    int64_t next_ms;
    if (sqlite_lease_find_expired(s, st, now_ms, max, &n, &next_ms, e) || sqlite_lease_read_expired(s, n, a, e) ||
        scratch_take(s, n, a, ret, e))
        return e->code;
    *ret_next_ms = next_ms;
    return ERR_OK;
}

static enum err sqlite_read_waiting(struct store_sqlite *s, struct op_leases_expired *op, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_ANY_EXPIRES);
    if (conn_step(&s->conn, st, &op->ret_expires, e))
        return e->code;
    sqlite3_reset(st);
    return !op->ret_expires ? ERR_OK
                            : sqlite_read_expired(s, writer_stmt(s, ST_WAITING_BY_EXPIRY), op->now_ms, op->max_waiting,
                                                  &op->op.arena, &op->ret_waiting, &op->ret_next_waiting_ms, e);
}

enum err sqlite_leases_expired(struct store_sqlite *s, struct op *base)
{
    struct op_leases_expired *op = (struct op_leases_expired *)base;
    struct error *e = &base->error;
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_LEASES_DELETE_STALE);
    sqlite3_bind_int64(st, 1, op->now_ms);
    op->ret_waiting = (struct tasks){ 0 };
    op->ret_next_waiting_ms = INT64_MAX;
    op->ret_expires = false;
    if (conn_run(&s->conn, st, e) || sqlite_read_expired(s, writer_stmt(s, ST_TASK_LEASES_BY_EXPIRY), op->now_ms,
                                                         op->max, &base->arena, &op->ret, &op->ret_next_ms, e))
        return e->code;
    return op->max_waiting ? sqlite_read_waiting(s, op, e) : ERR_OK;
}

/* ---- for OP_LIMIT_TAKE ---- */

enum err sqlite_count_leased(struct store_sqlite *s, const struct share_subject *about, int64_t max, int64_t *ret,
                             struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, about->queue.n ? ST_TASK_LEASES_OF_QUEUE : ST_TASK_LEASES_OF_TENANT);
    bool row;
    sqlite3_bind_int(st, 1, about->tenant);
    if (about->queue.n)
        (void)bind_str(st, 2, about->queue);
    sqlite3_bind_int64(st, 3, max);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return ERR_OK;
}

/* ---- reading ---- */

enum err reader_sqlite_lease(struct reader *base, int32_t tenant, struct uuid task, struct arena *a,
                             struct lease_row *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_LEASE);
    struct task_lease lease = { 0 };
    bool found;
    (void)bind_uuid(st, 1, &task);
    sqlite3_bind_int(st, 2, tenant);
    if (reader_sqlite_read_one(r, st, &table_task_leases, a, &lease, &found, e))
        return e->code;
    if (!found)
        return reader_not_found("lease", e);
    st = conn_stmt(&r->conn, RD_ABORT_REQUESTED);
    if (sqlite_lease_abort_requested(&r->conn, st, &task, lease.row.fence, &lease.row.is_ended, e))
        return e->code;
    *ret = lease.row;
    return ERR_OK;
}

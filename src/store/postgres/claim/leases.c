/* Leases: tasks that a worker outside of Belfry has claimed. Their terms, OP_LEASE_RENEW and OP_LEASES_EXPIRED.
 *
 * The transaction that makes a task RUNNING also inserts the row of its lease. The transaction that settles the task,
 * and has locked its row, deletes it. So a renewal locks only the row of the lease, and finds none if the task was
 * settled before. A row may be left behind if a user's change took the task away. It has no effect: its task is never
 * RUNNING under that fence again. */
#include "store/postgres/reader/reader.h"

#define RUNS "t.id = l.task_id AND t.state = " SQL_RUNNING " AND t.fence = l.fence"

static const struct pg_statement put_terms = {
    "terms_put",
    "INSERT INTO task_leases (tenant_id, task_id, queue, fence, until_ms, worker) "
    "SELECT t.tenant_id, t.id, n.queue, t.fence, $2, nullif($3, '') FROM tasks AS t JOIN lanes AS n ON n.lane = t.lane "
    "WHERE t.id = ANY ($1) ORDER BY t.id ON CONFLICT (task_id) DO UPDATE SET queue = excluded.queue, "
    "fence = excluded.fence, until_ms = excluded.until_ms, worker = excluded.worker, progress = NULL",
};
static const struct pg_statement drop_terms = { "terms_drop", "DELETE FROM task_leases WHERE task_id = ANY ($1)" };
static const struct pg_statement renew_terms = {
    "terms_keep",
    "WITH k AS (SELECT x.* FROM unnest($2, $3, $4, $5) WITH ORDINALITY "
    "AS x(task, fence, until_ms, progress, place) JOIN task_leases AS l ON l.task_id = x.task AND l.fence = x.fence "
    "AND l.tenant_id = $1 ORDER BY l.task_id FOR UPDATE OF l) "
    "UPDATE task_leases AS l SET until_ms = k.until_ms, progress = coalesce(k.progress, l.progress) FROM k "
    "WHERE l.task_id = k.task AND l.fence = k.fence AND EXISTS (SELECT 1 FROM tasks AS t WHERE " RUNS ") "
    "RETURNING k.place, EXISTS (SELECT 1 FROM wishes AS w WHERE w.task_id = l.task_id AND w.fence = l.fence AND w.abort)",
};
/* Compares the fence again when it deletes: a new lease of the same task has a higher fence and stays. */
static const struct pg_statement delete_stale_terms = {
    "terms_tidy",
    "DELETE FROM task_leases AS l USING (SELECT l.task_id, l.fence FROM task_leases AS l WHERE l.until_ms <= $1 "
    "AND NOT EXISTS (SELECT 1 FROM tasks AS t WHERE " RUNS ") LIMIT 1000) AS over "
    "WHERE l.task_id = over.task_id AND l.fence = over.fence",
};
/* OFFSET 0 makes the planner go from lease to task. It plans once, perhaps while `tasks` is empty; the other way round,
 * each call would read all tasks. */
#define OF_LEASES "FROM task_leases AS l CROSS JOIN LATERAL (SELECT * FROM tasks AS t WHERE " RUNS " OFFSET 0) AS t "
static const struct pg_statement expired_terms = {
    "terms_over",
    "SELECT " TASK_OF_T ", l.until_ms " OF_LEASES "WHERE l.until_ms <= $1 "
    "ORDER BY l.until_ms, l.task_id LIMIT $2",
};
enum { EXPIRED_UNTIL = AT_calendar + 1 };
_Static_assert((TASK_OPENED | TASK_AWAITS) == 288, "the next statements name them by number");
/* task_may_expire. The index tasks_expiring has the same words. */
#define MAY_EXPIRE                                                                                                     \
    "FROM tasks AS t WHERE t.expires_after_ms > 0 AND (t.state = 0 OR t.waits_for IS NOT NULL) AND t.kind <> 1 "       \
    "AND NOT t.deleted AND t.links & 288 = 0 AND t.scheduled_ms + t.expires_after_ms "
#define BY_EXPIRY "ORDER BY t.scheduled_ms + t.expires_after_ms, t.id LIMIT "
static const struct pg_statement waiting_over = { "waiting_over", "SELECT " TASK_OF_T
                                                                  ", t.scheduled_ms + t.expires_after_ms " MAY_EXPIRE
                                                                  "<= $1 " BY_EXPIRY "$2" };
static const struct pg_statement next_waiting = { "waiting_next",
                                                  "SELECT t.scheduled_ms + t.expires_after_ms " MAY_EXPIRE
                                                  "> $1 " BY_EXPIRY "1" };
static const struct pg_statement any_expires = {
    "any_expires", "SELECT 1 FROM tasks WHERE expires_after_ms > 0 AND state < 4 LIMIT 1"
};
static const struct pg_statement next_expiry = {
    "terms_next",
    "SELECT l.until_ms " OF_LEASES "WHERE l.until_ms > $1 "
    "ORDER BY l.until_ms LIMIT 1",
};

/* ---- terms, written by claims and settles ---- */

enum err pg_lease_put_terms(struct store_postgres *s, const struct uuid *tasks, size_t n,
                            const struct lease_terms *terms, struct error *e)
{
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    pg_add_ids(p, tasks, n);
    pg_add_i64(p, terms->until_ms);
    pg_add_text(p, terms->worker);
    return pg_queue(&s->conn, &put_terms, p, e);
}

enum err pg_lease_drop_terms(struct store_postgres *s, const struct uuid *tasks, size_t n, struct error *e)
{
    if (n == 0)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_ids(&s->params, tasks, n);
    return pg_queue(&s->conn, &drop_terms, &s->params, e);
}

/* ---- OP_LEASE_RENEW ---- */

static void pg_lease_add_renewals(struct pg_params *p, const struct op_lease_renew *op)
{
    pg_params_reset(p);
    pg_add_i32(p, op->tenant);
    pg_add_members(p, op->v, op->n, id);
    pg_add_members(p, op->v, op->n, fence);
    pg_add_members(p, op->v, op->n, until_ms);
    pg_array(p, PG_TEXT);
    for (size_t i = 0; i < op->n; i++)
        pg_element_text_or_null(p, op->v[i].progress);
    pg_array_end(p);
}

enum err postgres_lease_renew(struct store_postgres *s, struct op *base)
{
    struct op_lease_renew *op = (struct op_lease_renew *)base;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_lease_add_renewals(&s->params, op);
    if (pg_run(&s->conn, &renew_terms, &s->params, &r, &base->error))
        return base->error.code;
    for (size_t i = 0; i < op->n; i++)
        op->v[i].ret_kept = op->v[i].ret_ended = false;
    for (int i = 0; i < r.rows; i++) {
        struct lease_renewal *k = &op->v[pg_i64(&r, i, 0) - 1];
        k->ret_kept = true;
        k->ret_ended = pg_bool(&r, i, 1);
    }
    return ERR_OK;
}

/* ---- OP_LEASES_EXPIRED ---- */

struct pg_expired {
    const struct pg_statement *find, *next; /* rows up to $1, at most $2, with their time; the time of the next row */
    size_t max;
    struct tasks *ret;
    int64_t *ret_next_ms;
};

static enum err pg_read_expired(struct store_postgres *s, int64_t now_ms, const struct pg_expired *x, struct arena *a,
                                struct error *e)
{
    struct pg_params *p = &s->params;
    cleanup_with(pg_result_release) struct pg_result over = { 0 };
    cleanup_with(pg_result_release) struct pg_result next = { 0 };
    pg_params_reset(p);
    pg_add_i64(p, now_ms);
    if (pg_send(&s->conn, x->next, p, e))
        return e->code;
    pg_add_i64(p, (int64_t)x->max + 1);
    if (pg_send(&s->conn, x->find, p, e) || pg_get(&s->conn, &next, e) || pg_get(&s->conn, &over, e))
        return e->code;
    size_t n = min_of((size_t)over.rows, x->max);
    if (pg_read_tasks(s, &over, n, a, x->ret, e))
        return e->code;
    bool more = (size_t)over.rows > n;
    *x->ret_next_ms = more ? pg_i64(&over, (int)n, EXPIRED_UNTIL) : next.rows ? pg_i64(&next, 0, 0) : INT64_MAX;
    return ERR_OK;
}

static enum err pg_read_waiting(struct store_postgres *s, struct op_leases_expired *op, struct error *e)
{
    struct pg_expired waiting = { &waiting_over, &next_waiting, op->max_waiting, &op->ret_waiting,
                                  &op->ret_next_waiting_ms };
    cleanup_with(pg_result_release) struct pg_result any = { 0 };
    pg_params_reset(&s->params);
    if (pg_run(&s->conn, &any_expires, &s->params, &any, e))
        return e->code;
    op->ret_expires = any.rows > 0;
    return op->ret_expires ? pg_read_expired(s, op->now_ms, &waiting, &op->op.arena, e) : ERR_OK;
}

enum err postgres_leases_expired(struct store_postgres *s, struct op *base)
{
    struct op_leases_expired *op = (struct op_leases_expired *)base;
    struct error *e = &base->error;
    struct pg_expired leases = { &expired_terms, &next_expiry, op->max, &op->ret, &op->ret_next_ms };
    op->ret_waiting = (struct tasks){ 0 };
    op->ret_next_waiting_ms = INT64_MAX;
    op->ret_expires = false;
    pg_params_reset(&s->params);
    pg_add_i64(&s->params, op->now_ms);
    if (pg_queue(&s->conn, &delete_stale_terms, &s->params, e) ||
        pg_read_expired(s, op->now_ms, &leases, &base->arena, e))
        return e->code;
    return op->max_waiting ? pg_read_waiting(s, op, e) : ERR_OK;
}

/* ---- reading a lease ---- */

static enum err pg_lease_abort_requested(struct pg_reader *r, struct uuid task, int64_t fence, bool *ret,
                                         struct error *e)
{
    static const struct pg_statement requested = { "read_lease_ended",
                                                   "SELECT 1 FROM wishes WHERE task_id = $1 AND fence = $2 AND abort" };
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_uuid(pg_reader_params(r), task);
    pg_add_i64(&r->params, fence);
    if (pg_reader_run(r, false, &requested, &got, e))
        return e->code;
    *ret = got.rows > 0;
    return ERR_OK;
}

enum err reader_postgres_lease(struct reader *base, int32_t tenant, struct uuid task, struct arena *a,
                               struct lease_row *ret, struct error *e)
{
    static const struct pg_statement of_task = {
        "read_lease", "SELECT 0, l.tenant_id, l.task_id, l.queue, l.fence, l.until_ms, l.worker, l.progress "
                      "FROM task_leases AS l JOIN tasks AS t ON " RUNS " WHERE l.task_id = $1 AND l.tenant_id = $2"
    };
    struct pg_reader *r = pg_reader_self(base);
    struct task_lease lease = { 0 };
    e = pg_reader_error(base, e);
    pg_add_uuid(pg_reader_params(r), task);
    pg_add_i32(&r->params, tenant);
    if (pg_reader_run_one(r, &of_task, &table_task_leases, a, &lease, e) ||
        pg_lease_abort_requested(r, task, lease.row.fence, &lease.row.is_ended, e))
        return e->code;
    *ret = lease.row;
    return ERR_OK;
}

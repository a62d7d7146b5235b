/* A reader: its connections, opening and closing it, and reading one task. The other reads are in list.c and its
 * neighbours, and in the folders of their subjects. */
#include <stdlib.h>

#include "store/postgres/reader/reader.h"

/* ---- connections ---- */

struct pg_params *pg_reader_params(struct pg_reader *r)
{
    pg_params_reset(&r->params);
    return &r->params;
}

/* Session settings. The server cancels a statement after 8 s, before the client closes the connection after 10 s. A
 * list must walk its index, whatever the planner expects of the given values: a plan that collects and sorts rows would
 * visit all of them. Behind a pooler, other clients use the same sessions: they stay as they are. */
static enum err pg_reader_set_up_session(struct pg_reader_conn *c, struct error *e)
{
    if (c->set_up == c->conn.generation)
        return ERR_OK;
    if (c->conn.prepare && pg_exec(&c->conn,
                                   "SELECT set_config('statement_timeout', '8s', false), "
                                   "set_config('default_transaction_read_only', 'on', false), "
                                   "set_config('plan_cache_mode', 'force_generic_plan', false), "
                                   "set_config('enable_bitmapscan', 'off', false), set_config('jit', 'off', false)",
                                   e))
        return e->code;
    c->set_up = c->conn.generation;
    return ERR_OK;
}

static bool pg_reader_is_lost(const struct pg_conn *c)
{
    return !c->pg || PQstatus(c->pg) != CONNECTION_OK;
}

/* If the connection is lost, as all are after a failover, runs the statement once more: reading has no effect. */
static enum err pg_reader_run_on(struct pg_reader *r, struct pg_reader_conn *c, const struct pg_statement *s,
                                 struct pg_result *ret, struct error *e)
{
    r->last_conn = &c->conn;
    for (bool again = false;; again = true) {
        if (pg_conn_ready(&c->conn, e))
            return e->code;
        if (pg_reader_set_up_session(c, e) == ERR_OK && pg_run(&c->conn, s, &r->params, ret, e) == ERR_OK)
            return ERR_OK;
        if (again || !pg_reader_is_lost(&c->conn))
            return e->code;
    }
}

enum err pg_reader_run(struct pg_reader *r, bool may_lag, const struct pg_statement *s, struct pg_result *ret,
                       struct error *e)
{
    if (may_lag && r->has_replica && pg_reader_run_on(r, &r->replica, s, ret, e) == ERR_OK)
        return ERR_OK;
    return pg_reader_run_on(r, &r->current, s, ret, e);
}

enum err pg_reader_run_one(struct pg_reader *r, const struct pg_statement *s, const struct table *t, struct arena *a,
                           void *row, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    if (pg_reader_run(r, false, s, &got, e))
        return e->code;
    if (got.rows == 0)
        return reader_not_found(t->what, e);
    return pg_row_read(r->last_conn, &r->lanes, &got, 0, 1, t, a, row, e);
}

static enum err reader_postgres_get(struct reader *base, int32_t tenant, struct uuid id, struct arena *a,
                                    struct task *ret, struct error *e)
{
    static const struct pg_statement by_id = {
        "read_task", "SELECT part" TASK_COLUMNS(SQL_NAME) " FROM tasks "
                                                          "WHERE id = $1 AND tenant_id = $2 AND NOT deleted"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    struct task t = { 0 };
    pg_add_uuid(p, id);
    pg_add_i32(p, tenant);
    if (pg_reader_run_one(r, &by_id, &table_tasks, a, &t, e))
        return e->code;
    *ret = t;
    return ERR_OK;
}

/* $1 ids of recurring tasks, $2 for each: unstarted_from, $3 now_ms. */
static const struct pg_statement read_unstarted = {
    "read_unstarted",
    "SELECT (SELECT count(*) FROM tasks WHERE parent_id = k.id AND state < " SQL_RUNNING " AND " UNSTARTED
    ") + (SELECT count(*) FROM tasks AS t WHERE t.parent_id = k.id AND t.id >= k.least AND state = " SQL_RUNNING
    " AND due_ms > $3 AND " UNSTARTED ") FROM unnest($1, $2) WITH ORDINALITY AS k(id, least, place) ORDER BY k.place",
};

static size_t pg_unstarted_add(struct pg_params *p, const struct task *v, size_t n, int64_t now_ms)
{
    size_t recurring = 0;
    for (int column = 0; column < 2; column++) {
        recurring = 0;
        pg_array(p, PG_UUID);
        for (size_t i = 0; i < n; i++) {
            if (v[i].kind != TASK_RECURRING)
                continue;
            pg_element_uuid(p, column ? unstarted_from(&v[i], now_ms) : v[i].id);
            recurring++;
        }
        pg_array_end(p);
    }
    pg_add_i64(p, now_ms);
    return recurring;
}

enum err reader_postgres_unstarted(struct reader *base, struct task *v, size_t n, int64_t now_ms, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    if (!pg_unstarted_add(pg_reader_params(r), v, n, now_ms))
        return ERR_OK;
    if (pg_reader_run(r, false, &read_unstarted, &got, e))
        return e->code;
    for (size_t i = 0, row = 0; i < n; i++)
        if (v[i].kind == TASK_RECURRING)
            v[i].unstarted_count = pg_i64(&got, (int)row++, 0);
    return ERR_OK;
}

enum err reader_postgres_clock(struct reader *base, int64_t *ret_us, struct error *e)
{
    static const struct pg_statement now = { "read_clock", "SELECT " CLOCK_US };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    (void)pg_reader_params(r);
    if (pg_reader_run(r, false, &now, &got, e))
        return e->code;
    *ret_us = pg_i64(&got, 0, 0);
    return ERR_OK;
}

/* ---- opening and closing ---- */

static void reader_postgres_free(struct reader *base)
{
    struct pg_reader *r = pg_reader_self(base);
    pg_conn_release(&r->current.conn);
    pg_conn_release(&r->replica.conn);
    pg_params_release(&r->params);
    store_lanes_release(&r->lanes);
    free(r);
}

static const struct reader_ops reader_postgres_ops = { .get = reader_postgres_get,
                                                       .list = reader_postgres_list,
                                                       .count = reader_postgres_count,
                                                       .executions = reader_postgres_executions,
                                                       .history = reader_postgres_history,
                                                       .idempotency = reader_postgres_idempotency,
                                                       .key = reader_postgres_key,
                                                       .keys = reader_postgres_keys,
                                                       .dedupe = reader_postgres_dedupe,
                                                       .slots = reader_postgres_slots,
                                                       .links = reader_postgres_links,
                                                       .causes = reader_postgres_causes,
                                                       .names = reader_postgres_names,
                                                       .catalog_get = reader_postgres_catalog_get,
                                                       .catalog_list = reader_postgres_catalog_list,
                                                       .lanes = reader_postgres_lanes,
                                                       .queues = reader_postgres_queues,
                                                       .counts = reader_postgres_counts,
                                                       .queue_due = reader_postgres_queue_due,
                                                       .backlog = reader_postgres_backlog,
                                                       .usage = reader_postgres_usage,
                                                       .audit = reader_postgres_audit,
                                                       .sealed = reader_postgres_sealed,
                                                       .sealed_page = reader_postgres_sealed_page,
                                                       .key_prints = reader_postgres_key_prints,
                                                       .lease = reader_postgres_lease,
                                                       .unstarted = reader_postgres_unstarted,
                                                       .workers = reader_postgres_workers,
                                                       .breakers = reader_postgres_breakers,
                                                       .stats = reader_postgres_stats,
                                                       .hits = reader_postgres_hits,
                                                       .records = reader_postgres_records,
                                                       .definitions = reader_postgres_definitions,
                                                       .definition = reader_postgres_definition,
                                                       .workflow = reader_postgres_workflow,
                                                       .workflows = reader_postgres_workflows,
                                                       .run = reader_postgres_run,
                                                       .steps = reader_postgres_steps,
                                                       .outputs = reader_postgres_outputs,
                                                       .signals = reader_postgres_signals,
                                                       .clock = reader_postgres_clock,
                                                       .free = reader_postgres_free };

/* Opens without connecting: the first statement connects. So an unavailable server is no error here. */
enum err reader_postgres_open(struct store_postgres *s, struct reader **ret, struct error *e)
{
    struct pg_reader *r = xnew(*r);
    r->base.ops = &reader_postgres_ops;
    r->has_replica = s->setup.read_url != NULL;
    pg_params_init(&r->params);
    if (pg_conn_init(&r->current.conn, s->setup.url, false, s->setup.clock, e) ||
        (r->has_replica && pg_conn_init(&r->replica.conn, s->setup.read_url, true, s->setup.clock, e))) {
        reader_postgres_free(&r->base);
        return e->code;
    }
    *ret = &r->base;
    return ERR_OK;
}

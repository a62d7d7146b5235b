/* OP_CLAIMED and OP_ORPHANS, and the rows of claims.
 *
 * The list in a claim's row may contain tasks that have left, and one task twice. The task's own row is
 * authoritative. */
#include "store/postgres/claim/claim.h"

/* ---- rows of claims ---- */

const struct pg_statement pg_insert_claim = {
    "claim_insert",
    "INSERT INTO claims (id, node, held, tasks, hold) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING",
};

static const struct pg_statement claim_join = {
    "claim_join",
    "UPDATE claims SET held = held + 1, tasks = array_append(tasks, $2) WHERE id = $1",
};

void pg_add_claim(struct pg_params *p, struct uuid claim, struct uuid node, const struct uuid *tasks, size_t n,
                  enum claim_hold hold)
{
    pg_params_reset(p);
    pg_add_uuid(p, claim);
    pg_add_uuid(p, node);
    pg_add_i64(p, (int64_t)n);
    pg_add_ids(p, tasks, n);
    pg_add_i32(p, hold);
}

enum err pg_claim_join(struct store_postgres *s, struct uuid claim, struct uuid task, struct error *e)
{
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, claim);
    pg_add_uuid(&s->params, task);
    return pg_queue(&s->conn, &claim_join, &s->params, e);
}

/* ---- tasks of claims ---- */

/* The answer to a claim was lost, and its COMMIT may not be done yet. Its row was written before that: inserting a row
 * of the same id waits for the end of that transaction. The inserted row is deleted at once. */
static const struct pg_statement await_claim = {
    "claim_await",
    "INSERT INTO claims (id, node, held, tasks, hold) VALUES ($1, $1, 0, '{}', 0) ON CONFLICT (id) DO NOTHING",
};
static const struct pg_statement awaited_claim = { "claim_awaited", "DELETE FROM claims WHERE id = $1 AND node = $1" };

static const struct pg_statement read_claimed = {
    "claimed",
    "SELECT part" TASK_COLUMNS(SQL_NAME) " FROM (SELECT DISTINCT unnest(tasks) AS task FROM claims WHERE id = $1) AS c "
                                         "JOIN tasks ON id = c.task WHERE state = " SQL_RUNNING " AND claim_id = $1",
};
static const struct pg_statement read_orphans = {
    "held",
    "SELECT part" TASK_COLUMNS(
        SQL_NAME) ", coalesce(c.fires_until_ms, 0) FROM (SELECT DISTINCT claims.id AS claim, "
                  "unnest(tasks) AS task, nodes.fires_until_ms FROM claims LEFT JOIN nodes ON nodes.id = claims.node "
                  "WHERE hold = 0 AND node IS DISTINCT FROM $1 AND nodes.dead IS DISTINCT FROM false) AS c "
                  "JOIN tasks ON tasks.id = c.task WHERE state = " SQL_RUNNING " AND claim_id = c.claim LIMIT $2",
};

enum err pg_claim_read_tasks(struct store_postgres *s, const struct pg_result *r, struct arena *a, struct tasks *ret,
                             struct error *e)
{
    return pg_read_tasks(s, r, (size_t)r->rows, a, ret, e);
}

enum err postgres_claimed(struct store_postgres *s, struct op *base)
{
    struct op_claimed *op = (struct op_claimed *)base;
    if (uuid_is_nil(op->claim)) /* no claim has it */
        return ERR_OK;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, op->claim);
    if (pg_queue(&s->conn, &await_claim, &s->params, &base->error) ||
        pg_queue(&s->conn, &awaited_claim, &s->params, &base->error) ||
        pg_run(&s->conn, &read_claimed, &s->params, &r, &base->error))
        return base->error.code;
    return pg_claim_read_tasks(s, &r, &base->arena, &op->ret, &base->error);
}

enum err postgres_orphans(struct store_postgres *s, struct op *base)
{
    struct op_orphans *op = (struct op_orphans *)base;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, op->not_node);
    pg_add_i64(&s->params, (int64_t)op->max);
    if (pg_run(&s->conn, &read_orphans, &s->params, &r, &base->error))
        return base->error.code;
    int64_t *until_ms = arena_array(&base->arena, int64_t, (size_t)r.rows);
    for (int i = 0; until_ms && i < r.rows; i++)
        until_ms[i] = orphan_fires_until_ms(pg_i64(&r, i, 1 + table_tasks.count));
    if (!until_ms)
        return error_no_room(&base->error);
    op->ret_fires_until_ms = until_ms;
    return pg_claim_read_tasks(s, &r, &base->arena, &op->ret, &base->error);
}

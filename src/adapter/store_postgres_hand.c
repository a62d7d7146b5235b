/* OP_HAND, OP_HANDED and OP_RUNNING.
 *
 * Whoever hands holds its node's row as a claim does: a node that is being buried hands nothing any more, and what it has handed until then
 * is seen by who buries it. */
#include "adapter/store_postgres_impl.h"
#include "adapter/store_reading.h"

static const struct pg_statement hold_node = { "hand_node", "SELECT dead FROM nodes WHERE id = $1 FOR KEY SHARE" };
static const struct pg_statement own_claims = { "hand_own",
                                                "SELECT x.place FROM unnest($2) WITH ORDINALITY AS x(id, place) "
                                                "JOIN claims AS c ON c.id = x.id AND c.node = $1" };
/* One claim after the other and in it one task after the other, until there are enough: no order is asked for at the end, for which all
 * would have to be looked at. A claim may name a task twice. `bytes` are those of the target_configs before it; where they are too many
 * its own is left where it is, to be told of by the next page. */
static const struct pg_statement list_handed = {
    "handed",
    "SELECT t.part" TASK_COLUMNS_SHORT(SQL_OF_T) ", CASE WHEN t.bytes < $5 THEN t.handed_config END, NULL, NULL, t.needs" TASK_COLUMNS_REST(
        SQL_OF_T) ", t.bytes < $5, t.handed_epoch FROM (SELECT h.*, coalesce(sum(octet_length(h.handed_config)) "
                  "OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes FROM (SELECT t.*, " HANDED_CONFIG(
                      "t.") " AS handed_config, c.epoch AS handed_epoch "
                            "FROM (SELECT id, tasks, epoch FROM claims WHERE hold = 1 AND id < $1 AND ($2 IS NULL OR id >= $2) ORDER BY id) AS c "
                            "CROSS JOIN LATERAL (SELECT DISTINCT u.task FROM unnest(c.tasks) AS u(task) WHERE $2 IS NULL OR c.id > $2 OR u.task > $3 "
                            "ORDER BY u.task) AS x "
                            "CROSS JOIN LATERAL (SELECT * FROM tasks WHERE id = x.task AND state = 3 AND claim_id = c.id OFFSET 0) AS t "
                            "LIMIT $4) AS h) AS t",
};
enum { HANDED_FITS = AT_calendar + 1, HANDED_EPOCH };
static const struct pg_statement which_run = {
    "running",
    "SELECT x.place FROM unnest($1, $2) WITH ORDINALITY AS x(task, fence, place) "
    "JOIN tasks AS t ON t.id = x.task AND t.state = 3 AND t.fence = x.fence",
};

enum err postgres_hand(struct store_postgres *s, struct op *base)
{
    struct op_hand *op = (struct op_hand *)base;
    struct error *e = &base->error;
    struct pg_params *p = &s->params;
    cleanup_with(pg_result_release) struct pg_result node = { 0 }, own = { 0 };
    pg_params_reset(p);
    pg_add_uuid(p, op->node);
    if (pg_send(&s->conn, &hold_node, p, e))
        return e->code;
    pg_add_ids(p, op->claims, op->n);
    if (pg_send(&s->conn, &own_claims, p, e) || pg_get(&s->conn, &node, e) || pg_get(&s->conn, &own, e))
        return e->code;
    if (node.rows && pg_bool(&node, 0, 0))
        return node_is_dead(e);
    for (int i = 0; i < own.rows; i++) {
        size_t at = (size_t)pg_i64(&own, i, 0) - 1;
        pg_note_handed(s, op->claims[at], hand_epoch(op, at));
    }
    return ERR_OK;
}

enum err postgres_handed(struct store_postgres *s, struct op *base)
{
    struct op_handed *op = (struct op_handed *)base;
    struct error *e = &base->error;
    struct pg_params *p = &s->params;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(p);
    pg_add_uuid(p, uuid_floor(op->before_ms));
    pg_add_uuid(p, op->after.claim);
    pg_add_uuid(p, op->after.task);
    pg_add_i64(p, (int64_t)op->max + 1);
    pg_add_i64(p, op->max_bytes ? (int64_t)op->max_bytes : INT64_MAX);
    if (pg_run(&s->conn, &list_handed, p, &r, e))
        return e->code;
    size_t n = 0;
    while (n < min_of((size_t)r.rows, op->max) && pg_bool(&r, (int)n, HANDED_FITS))
        n++;
    uint64_t *epochs = arena_alloc(&base->arena, n * sizeof *epochs);
    if (!epochs)
        return reader_no_room(e);
    if (pg_read_tasks(s, &r, n, &base->arena, &op->ret, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        epochs[i] = (uint64_t)pg_i64(&r, (int)i, HANDED_EPOCH);
    op->ret_epochs = epochs;
    op->ret_more = (size_t)r.rows > n;
    return ERR_OK;
}

enum err postgres_running(struct store_postgres *s, struct op *base)
{
    struct op_running *op = (struct op_running *)base;
    struct pg_params *p = &s->params;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(p);
    pg_add_members(p, op->v, op->n, id);
    pg_add_members(p, op->v, op->n, fence);
    if (pg_run(&s->conn, &which_run, p, &r, &base->error))
        return base->error.code;
    for (size_t i = 0; i < op->n; i++)
        op->ret[i] = false;
    for (int i = 0; i < r.rows; i++)
        op->ret[pg_i64(&r, i, 0) - 1] = true;
    return ERR_OK;
}

/* OP_HANDOFF, OP_HANDED_OFF, OP_RUNNING and OP_RETAKE.
 *
 * Hand-off and retake lock their node's row FOR KEY SHARE, as a claim does. So a node that is being marked dead hands
 * off nothing more, and the transaction that marks it dead sees all that it has handed off before. */
#include <stdlib.h>

#include "store/common/reading.h"
#include "store/postgres/internal.h"

static const struct pg_statement lock_node = { "hand_node", "SELECT dead FROM nodes WHERE id = $1 FOR KEY SHARE" };
static const struct pg_statement own_claims = { "hand_own",
                                                "SELECT x.place FROM unnest($2) WITH ORDINALITY AS x(id, place) "
                                                "JOIN claims AS c ON c.id = x.id AND c.node = $1" };
static const struct pg_statement orphaned_claims = {
    "hand_orphaned",
    "SELECT x.place FROM unnest($2) WITH ORDINALITY AS x(id, place) JOIN claims AS c ON c.id = x.id AND c.hold = 0 "
    "LEFT JOIN nodes ON nodes.id = c.node WHERE c.node IS DISTINCT FROM $1 AND nodes.dead IS DISTINCT FROM false"
};
/* Reads one claim after the other, and in it one task after the other, until there are enough. There is no ORDER BY at
 * the end: it would read all claims first. A claim may list a task twice. `bytes` is the size of the target_configs of
 * the rows before; if it reaches $5, the row comes without its target_config and belongs to the next page. */
static const struct pg_statement list_handed = {
    "handed",
    "SELECT t.part" TASK_COLUMNS_SHORT(SQL_OF_T) ", CASE WHEN t.bytes < $5 THEN t.handed_config END, NULL, NULL, t.needs, t.aside, t.recalled, t.awaited_ms, t.late_by, t.links, t.run_id, t.place, t.queue, t.trace" TASK_COLUMNS_REST(
        SQL_OF_T) ", t.bytes < $5, t.handed_epoch FROM (SELECT h.*, coalesce(sum(octet_length(h.handed_config)) "
                  "OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes FROM (SELECT t.*, " HANDED_CONFIG(
                      "t.") " AS handed_config, c.epoch AS handed_epoch "
                            "FROM (SELECT id, tasks, epoch FROM claims WHERE hold = 1 AND id < $1 AND ($2 IS NULL OR id >= $2) ORDER BY id) AS c "
                            "CROSS JOIN LATERAL (SELECT DISTINCT u.task FROM unnest(c.tasks) AS u(task) WHERE $2 IS NULL OR c.id > $2 OR u.task > $3 "
                            "ORDER BY u.task) AS x "
                            "CROSS JOIN LATERAL (SELECT * FROM tasks WHERE id = x.task AND state = " SQL_RUNNING
                            " AND claim_id = c.id OFFSET 0) AS t "
                            "LIMIT $4) AS h) AS t",
};
enum { HANDED_FITS = AT_calendar + 1, HANDED_EPOCH };
static const struct pg_statement which_run = {
    "running",
    "SELECT x.place FROM unnest($1, $2) WITH ORDINALITY AS x(task, fence, place) "
    "JOIN tasks AS t ON t.id = x.task AND t.state = " SQL_RUNNING " AND t.fence = x.fence "
    "AND t.claim_id IS NOT NULL",
};

static const struct pg_statement find_claim = { "retake_check", "SELECT FROM claims WHERE id = $1" };
/* The ids are sorted, as in every statement that changes several tasks. No indexed column changes. left_claim is the
 * claim that the task leaves: it is read from the row version that the statement began with, and the fence shows that
 * this version is still current. */
static const struct pg_statement retake = {
    "retake",
    "UPDATE tasks SET fence = " SQL_NEXT_FENCE ", claim_id = $1 FROM unnest($2, $3) AS x(task, was) "
    "CROSS JOIN LATERAL (SELECT claim_id AS left_claim FROM tasks AS w WHERE w.id = x.task AND w.fence = x.was) AS w "
    "WHERE id = x.task AND fence = x.was AND claim_id IS NOT NULL AND state = " SQL_RUNNING " AND " RETAKE_MAY(
        "") " AND "
            "coalesce(octet_length(payload), 0) + coalesce(octet_length(target_config), 0) <= $4 AND (NOT EXISTS (SELECT FROM wishes) "
            "OR NOT EXISTS (SELECT FROM wishes AS v WHERE v.task_id = x.task AND v.fence = x.was)) "
            "RETURNING part" TASK_COLUMNS(SQL_NAME) ", w.left_claim",
};
enum { RETAKEN_FROM = AT_calendar + 1 };

enum err postgres_handoff(struct store_postgres *s, struct op *base)
{
    struct op_handoff *op = (struct op_handoff *)base;
    struct error *e = &base->error;
    struct pg_params *p = &s->params;
    cleanup_with(pg_result_release) struct pg_result node = { 0 }, own = { 0 };
    pg_params_reset(p);
    pg_add_uuid(p, op->node);
    if (pg_send(&s->conn, &lock_node, p, e))
        return e->code;
    pg_add_ids(p, op->claims, op->n);
    if (pg_send(&s->conn, op->orphaned ? &orphaned_claims : &own_claims, p, e) || pg_get(&s->conn, &node, e) ||
        pg_get(&s->conn, &own, e))
        return e->code;
    if (node.rows && pg_bool(&node, 0, 0))
        return node_is_dead(e);
    for (int i = 0; i < own.rows; i++) {
        size_t at = (size_t)pg_i64(&own, i, 0) - 1;
        pg_note_handed(s, op->claims[at], hand_epoch(op, at));
    }
    return ERR_OK;
}

enum err postgres_handed_off(struct store_postgres *s, struct op *base)
{
    struct op_handed_off *op = (struct op_handed_off *)base;
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

/* ---- OP_RETAKE ---- */

static int pg_retake_by_id(const void *a, const void *b)
{
    return uuid_cmp(((const struct fenced_id *)a)->id, ((const struct fenced_id *)b)->id);
}

static enum err pg_retake_send(struct store_postgres *s, const struct op_retake *op, struct error *e)
{
    struct pg_params *p = &s->params;
    struct fenced_id *v = xcalloc(op->n + 1, sizeof *v);
    if (op->n)
        memcpy(v, op->v, op->n * sizeof *v);
    qsort(v, op->n, sizeof *v, pg_retake_by_id);
    pg_params_reset(p);
    pg_add_uuid(p, op->claim);
    pg_add_members(p, v, op->n, id);
    pg_add_members(p, v, op->n, fence);
    pg_add_i64(p, (int64_t)min_of(op->max_bytes, (size_t)INT64_MAX));
    free(v);
    return pg_send(&s->conn, &retake, p, e);
}

struct pg_retake_results {
    struct pg_result claim, node, tasks;
};

static void pg_retake_results_release(struct pg_retake_results *r)
{
    pg_result_release(&r->claim);
    pg_result_release(&r->node);
    pg_result_release(&r->tasks);
}

/* Runs all statements in one round trip. */
static enum err pg_retake_run_statements(struct store_postgres *s, const struct op_retake *op,
                                         struct pg_retake_results *ret, struct error *e)
{
    struct pg_conn *c = &s->conn;
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    pg_add_uuid(p, op->claim);
    if (pg_send(c, &find_claim, p, e))
        return e->code;
    pg_params_reset(p);
    pg_add_uuid(p, op->node);
    if (pg_send(c, &lock_node, p, e) || pg_retake_send(s, op, e))
        return e->code;
    return pg_get(c, &ret->claim, e) || pg_get(c, &ret->node, e) || pg_get(c, &ret->tasks, e) ? e->code : ERR_OK;
}

static enum err pg_retake_insert_claim(struct store_postgres *s, const struct op_retake *op, const struct tasks *taken,
                                       struct error *e)
{
    struct uuid *ids = xcalloc(taken->n + 1, sizeof *ids);
    for (size_t i = 0; i < taken->n; i++)
        ids[i] = taken->v[i].id;
    pg_add_claim(&s->params, op->claim, op->node, ids, taken->n, CLAIM_OWN);
    free(ids);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    /* answered before COMMIT is sent: OP_CLAIMED waits for this row */
    return taken->n ? pg_run(&s->conn, &pg_insert_claim, &s->params, &r, e) : ERR_OK;
}

enum err postgres_retake(struct store_postgres *s, struct op *base)
{
    struct op_retake *op = (struct op_retake *)base;
    struct error *e = &base->error;
    cleanup_with(pg_retake_results_release) struct pg_retake_results r = { 0 };
    struct tasks taken;
    if (pg_retake_run_statements(s, op, &r, e))
        return e->code;
    if (r.claim.rows)
        return error_set(e, ERR_CONFLICT, "this claim was made before");
    if (r.node.rows && pg_bool(&r.node, 0, 0))
        return node_is_dead(e);
    if (pg_read_tasks(s, &r.tasks, (size_t)r.tasks.rows, &base->arena, &taken, e) ||
        pg_retake_insert_claim(s, op, &taken, e))
        return e->code;
    for (int i = 0; i < r.tasks.rows; i++)
        pg_note_left(s, pg_uuid(&r.tasks, i, RETAKEN_FROM));
    op->ret = taken;
    return ERR_OK;
}

/* OP_RECALL and OP_RECALL_LIST.
 *
 * A recall request (table `wishes`) holds the fence that it is for. Readers see by the fence that it is over, so that a
 * settle need not delete it. Deleting compares the fence again: the request may have been renewed in between. */
#include "store/postgres/internal.h"

/* The node of a recall request for a leased task: no node has the task. Its worker learns of the request by
 * OP_LEASE_RENEW. */
#define NOBODY "'00000000-0000-0000-0000-000000000000'"

static const struct pg_statement make_recall_request = {
    "wish", "INSERT INTO wishes (task_id, node, fence, abort, by_scheduled_ms, created_ms) "
            "SELECT t.id, CASE WHEN c.hold = 2 THEN " NOBODY " ELSE c.node END, t.fence, $3, $5, $4 "
            "FROM tasks AS t JOIN claims AS c ON c.id = t.claim_id "
            "WHERE t.id = $1 AND t.state = " SQL_RUNNING " AND t.fence = $2 ON CONFLICT (task_id) DO UPDATE "
            "SET node = excluded.node, fence = excluded.fence, created_ms = excluded.created_ms, "
            "by_scheduled_ms = CASE WHEN excluded.by_scheduled_ms = 0 AND wishes.fence = excluded.fence "
            "THEN wishes.by_scheduled_ms ELSE excluded.by_scheduled_ms END, "
            "abort = excluded.abort OR (wishes.fence = excluded.fence AND wishes.abort) "
            "RETURNING (SELECT c.node FROM tasks AS t JOIN claims AS c ON c.id = t.claim_id WHERE t.id = $1), "
            "(SELECT c.hold = 1 FROM tasks AS t JOIN claims AS c ON c.id = t.claim_id WHERE t.id = $1), "
            "wishes.refused_fence = wishes.fence"
};
/* Another node may renew several of them in one transaction, in any order. So a locked row is left for the next time:
 * waiting for it could be a deadlock. `v` is locked, and read as it is then; `over` is as it was when it was judged. */
static const struct pg_statement drop_recall_requests = {
    "wishes_drop",
    "DELETE FROM wishes AS w USING (SELECT v.task_id, v.fence FROM wishes AS over JOIN wishes AS v "
    "ON v.task_id = over.task_id AND v.fence = over.fence WHERE over.node = $1 AND NOT " SQL_RECALL_RUNS(
        "over") " FOR UPDATE OF v SKIP LOCKED) AS free WHERE w.task_id = free.task_id AND w.fence = free.fence"
};
static const struct pg_statement refuse_recall_requests = {
    "wishes_refuse",
    "UPDATE wishes AS w SET refused_fence = w.fence FROM (SELECT v.task_id FROM unnest($1, $2) AS x(task, was) "
    "JOIN wishes AS v ON v.task_id = x.task AND v.fence = x.was FOR UPDATE OF v SKIP LOCKED) AS free "
    "WHERE w.task_id = free.task_id"
};
static const struct pg_statement list_recall_requests = {
    "wishes", "SELECT task_id, fence, abort, by_scheduled_ms FROM wishes AS w "
              "WHERE node = $1 AND task_id > coalesce($2, " NOBODY
              ") AND " SQL_RECALL_UNREFUSED("w") " AND " SQL_RECALL_RUNS("w") " ORDER BY task_id LIMIT $3"
};

/* The task's node gets a notice after the commit. If the transaction recalls tasks of several nodes, all nodes do. */
static void pg_recall_note(struct store_postgres *s, struct uuid owner)
{
    struct store_notice *n = &s->notice;
    n->recall_node = !n->recall_requested || uuid_eq(n->recall_node, owner) ? owner : (struct uuid){ 0 };
    n->recall_requested = true;
}

enum err postgres_recall(struct store_postgres *s, struct op *base)
{
    struct op_recall *op = (struct op_recall *)base;
    struct pg_params *p = pg_node_params(s, op->id);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_add_i64(p, op->fence);
    pg_add_bool(p, op->abort);
    pg_add_i64(p, op->now_ms);
    pg_add_i64(p, op->by_scheduled_ms);
    if (pg_run(&s->conn, &make_recall_request, p, &r, &base->error))
        return base->error.code;
    if (r.rows == 0)
        return recall_too_late(&base->error);
    op->ret_owner = pg_uuid(&r, 0, 0);
    op->ret_handed_off = pg_bool(&r, 0, 1);
    op->ret_refused = pg_bool(&r, 0, 2);
    pg_recall_note(s, op->ret_owner);
    return ERR_OK;
}

static enum err pg_recall_refuse(struct store_postgres *s, const struct op_recall_list *op, struct error *e)
{
    struct pg_params *p = &s->params;
    if (!op->refused_count)
        return ERR_OK;
    pg_params_reset(p);
    pg_add_members(p, op->refused, op->refused_count, id);
    pg_add_members(p, op->refused, op->refused_count, fence);
    return pg_queue(&s->conn, &refuse_recall_requests, p, e);
}

/* If the result does not fit into the arena, what it deletes and notes is true all the same: no savepoint is needed.
 * Those that are over are deleted once for all pages. */
enum err postgres_recall_list(struct store_postgres *s, struct op *base)
{
    struct op_recall_list *op = (struct op_recall_list *)base;
    struct error *e = &base->error;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_recall_refuse(s, op, e))
        return e->code;
    struct pg_params *p = pg_node_params(s, op->node);
    if (uuid_is_nil(op->after) && pg_queue(&s->conn, &drop_recall_requests, p, e))
        return e->code;
    pg_add_uuid(p, op->after);
    pg_add_i64(p, (int64_t)op->max);
    if (pg_run(&s->conn, &list_recall_requests, p, &r, e))
        return e->code;
    struct recall_request *v = arena_array(&base->arena, struct recall_request, (size_t)r.rows);
    if (!v)
        return error_no_room(e);
    for (int i = 0; i < r.rows; i++)
        v[i] = (struct recall_request){ pg_uuid(&r, i, 0), pg_i64(&r, i, 1), pg_bool(&r, i, 2), pg_i64(&r, i, 3) };
    op->ret = v;
    op->ret_count = (size_t)r.rows;
    return ERR_OK;
}

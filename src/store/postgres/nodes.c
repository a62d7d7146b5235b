/* OP_HEARTBEAT, OP_NODE_DEAD, OP_RECALL and OP_RECALL_LIST.
 *
 * Locks on a node's row order these transactions:
 *   - A claim, or a node that takes shares of a limit, locks it FOR KEY SHARE until the commit.
 *   - A heartbeat changes no key column and does not conflict with that.
 *   - OP_NODE_DEAD locks it FOR UPDATE, which conflicts. So once a node is marked dead, all its claims are visible,
 *     and its next claim sees that the node is dead.
 * OP_NODE_DEAD never waits for the lock (SKIP LOCKED): a locked row belongs to a node that was active a moment ago, or
 * to one that stopped in the middle of a transaction, which the server ends after 3 s.
 *
 * A recall request (table `wishes`) holds the fence that it is for. Readers see by the fence that it is over, so that a
 * settle need not delete it. Deleting compares the fence again: the request may have been renewed in between. */
#include "store/postgres/internal.h"

#define LIVES(id) "EXISTS (SELECT 1 FROM nodes AS n WHERE n.id = " id " AND NOT n.dead)"
/* OFFSET 0 keeps the planner from scanning `tasks`, which its statistics may show as nearly empty. */
#define RUNS(recall_request)                                                                                           \
    "EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = " recall_request ".task_id AND t.state = " SQL_RUNNING              \
    " AND t.claim_id IS NOT NULL AND t.fence = " recall_request ".fence OFFSET 0)"

/* Its node has to look at it. */
#define UNREFUSED(recall_request)                                                                                      \
    "(" recall_request ".abort OR " recall_request ".refused_fence <> " recall_request ".fence)"

/* The node of a recall request for a leased task: no node has the task. Its worker learns of the request by
 * OP_LEASE_RENEW. */
#define NOBODY "'00000000-0000-0000-0000-000000000000'"

/* $1 id, $2 name, $3 version, $4 doc, $5 now_ms, $6 fires_until_ms. Returns no row if the node is marked dead. */
static const struct pg_statement heartbeat = {
    "node_beat",
    "INSERT INTO nodes (id, name, version, beats, joined_ms, dead, dead_ms, doc, fires_until_ms) "
    "VALUES ($1, nullif($2, ''), nullif($3, ''), 1, $5, false, 0, nullif($4, ''), $6) ON CONFLICT (id) DO UPDATE "
    "SET name = excluded.name, version = excluded.version, doc = excluded.doc, beats = nodes.beats + 1, "
    "fires_until_ms = greatest(nodes.fires_until_ms, excluded.fires_until_ms) "
    "WHERE NOT nodes.dead RETURNING beats"
};
static const struct pg_statement leave = { "node_leave", "DELETE FROM nodes WHERE id = $1 AND NOT dead" };
static const struct pg_statement mark_others_dead = {
    "node_bury_others",
    "WITH gone AS (SELECT id FROM nodes WHERE id <> $1 AND NOT dead "
    "AND NOT EXISTS (SELECT 1 FROM nodes AS me WHERE me.id = $1 AND me.dead) ORDER BY id FOR UPDATE) "
    "UPDATE nodes SET dead = true, dead_ms = $2 WHERE id IN (SELECT id FROM gone)"
};
static const struct pg_statement mark_dead = {
    "node_bury", "WITH gone AS (SELECT id FROM nodes WHERE id = $1 AND beats = $2 AND NOT dead FOR UPDATE SKIP LOCKED) "
                 "UPDATE nodes SET dead = true, dead_ms = $3 WHERE id IN (SELECT id FROM gone)"
};
/* Deletes the places of nodes that do not live, except those of nodes with handed-off claims (limit_take.c). It runs
 * behind the statement that marks nodes dead, so that it sees all that they have handed off. */
static const struct pg_statement drop_places = {
    "node_places", "DELETE FROM places AS p WHERE NOT " LIVES("p.node") " AND NOT EXISTS (SELECT 1 FROM claims AS c "
                                                                        "WHERE c.hold = 1 AND c.node = p.node)"
};
static const struct pg_statement list_nodes = {
    "node_list",
    "SELECT 0" NODE_COLUMNS(SQL_NAME) " FROM nodes WHERE NOT dead "
                                      "OR id IN (SELECT id FROM nodes WHERE dead ORDER BY joined_ms DESC, id LIMIT $1) "
                                      "ORDER BY dead, CASE WHEN dead THEN -joined_ms END, id"
};
static const struct pg_statement read_status = {
    "node_look_around", "SELECT EXISTS (SELECT 1 FROM nodes WHERE id = $1 AND dead), "
                        "EXISTS (SELECT 1 FROM wishes AS w WHERE w.node = $1 AND " UNREFUSED("w") " AND " RUNS(
                            "w") "), "
                                 "EXISTS (SELECT 1 FROM claims AS c WHERE c.hold = 0 AND c.node <> $1 AND NOT " LIVES(
                                     "c.node") "), " CLOCK_US
};
static const struct pg_statement list_workers = { "worker_groups",
                                                  "SELECT 0, " WORKER_KIND_NAMES ", sum(slots)::bigint, count(*) "
                                                  "FROM " LIVE_WORKERS("$1", "$2") " GROUP BY " WORKER_KIND_NAMES };
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
static const struct pg_statement drop_recall_requests = {
    "wishes_drop",
    "DELETE FROM wishes AS w USING wishes AS over WHERE w.task_id = over.task_id AND w.fence = over.fence "
    "AND over.node = $1 AND NOT " RUNS("over")
};
/* Another node may renew several of them in one transaction, in any order. So a locked row is left for the next time:
 * waiting for it could be a deadlock. */
static const struct pg_statement refuse_recall_requests = {
    "wishes_refuse",
    "UPDATE wishes AS w SET refused_fence = w.fence FROM (SELECT v.task_id FROM unnest($1, $2) AS x(task, was) "
    "JOIN wishes AS v ON v.task_id = x.task AND v.fence = x.was FOR UPDATE OF v SKIP LOCKED) AS free "
    "WHERE w.task_id = free.task_id"
};
static const struct pg_statement list_recall_requests = {
    "wishes", "SELECT task_id, fence, abort, by_scheduled_ms FROM wishes AS w "
              "WHERE node = $1 AND task_id > coalesce($2, " NOBODY
              ") AND " UNREFUSED("w") " AND " RUNS("w") " ORDER BY task_id LIMIT $3"
};
/* In the purge statements: $1 at most, $2 older than, $3 now_ms. */
static const struct pg_statement purge_recall_requests = {
    "forget_wishes", "DELETE FROM wishes AS w USING (SELECT task_id, fence FROM wishes WHERE NOT " RUNS(
                         "wishes") " LIMIT $1) AS over WHERE w.task_id = over.task_id AND w.fence = over.fence"
};
static const struct pg_statement purge_shares = {
    "forget_shares", "DELETE FROM shares WHERE key IN (SELECT key FROM shares WHERE seen_ms < $2 "
                     "AND (rate = 0 OR level + ($3 - since_ms) * rate / 1000 - taken >= burst) "
                     "AND NOT EXISTS (SELECT 1 FROM places WHERE places.key = shares.key) "
                     "LIMIT $1 FOR UPDATE SKIP LOCKED)"
};
static const struct pg_statement purge_nodes = {
    "forget_nodes", "DELETE FROM nodes WHERE id IN (SELECT id FROM nodes WHERE dead AND dead_ms < $2 "
                    "AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.node = nodes.id) LIMIT $1)"
};

static const struct pg_statement purge_workers = {
    "forget_workers", "DELETE FROM workers WHERE id IN (SELECT id FROM workers WHERE seen_ms < $2 LIMIT $1)"
};
static const struct pg_statement purge_leases = {
    "forget_leases",
    "DELETE FROM leases WHERE name IN (SELECT name FROM leases WHERE name LIKE 'job:%' AND until_ms < $2 "
    "LIMIT $1 FOR UPDATE SKIP LOCKED)"
};

/* Parameters that begin with an id. */
static struct pg_params *pg_node_params(struct store_postgres *s, struct uuid id)
{
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, id);
    return &s->params;
}

/* ---- OP_HEARTBEAT ---- */

static enum err pg_heartbeat_send_own(struct store_postgres *s, const struct op_heartbeat *op, struct error *e)
{
    struct pg_params *p = pg_node_params(s, op->node.id);
    if (op->leave)
        return pg_send(&s->conn, &leave, p, e);
    pg_add_text(p, op->node.name);
    pg_add_text(p, op->node.version);
    pg_add_text(p, op->node.doc);
    pg_add_i64(p, op->now_ms);
    pg_add_i64(p, op->node.fires_until_ms);
    return pg_send(&s->conn, &heartbeat, p, e);
}

static enum err pg_heartbeat_send_others_dead(struct store_postgres *s, const struct op_heartbeat *op, struct error *e)
{
    struct pg_params *p = pg_node_params(s, op->node.id);
    pg_add_i64(p, op->now_ms);
    return pg_send(&s->conn, &mark_others_dead, p, e);
}

/* One round trip: each statement sees the changes of those before it. */
static enum err pg_heartbeat_send(struct store_postgres *s, const struct op_heartbeat *op, struct error *e)
{
    if ((op->alone && pg_heartbeat_send_others_dead(s, op, e)) || pg_heartbeat_send_own(s, op, e) ||
        ((op->alone || op->leave) && pg_queue(&s->conn, &drop_places, NULL, e)))
        return e->code;
    pg_params_reset(&s->params);
    pg_add_i64(&s->params, NODES_DEAD_SHOWN);
    if (pg_send(&s->conn, &list_nodes, &s->params, e))
        return e->code;
    if (pg_send(&s->conn, &read_status, pg_node_params(s, op->node.id), e))
        return e->code;
    pg_params_reset(&s->params);
    pg_add_i64(&s->params, WORKER_SILENT_MS);
    pg_add_i64(&s->params, op->now_ms - WORKER_GONE_MS);
    return pg_send(&s->conn, &list_workers, &s->params, e);
}

/* Whether this heartbeat made a node join, leave or be marked dead. */
static enum err pg_heartbeat_get_changes(struct store_postgres *s, const struct op_heartbeat *op, bool *ret,
                                         struct error *e)
{
    *ret = op->leave;
    for (int i = op->alone ? 0 : 1; i < 2; i++) {
        cleanup_with(pg_result_release) struct pg_result r = { 0 };
        if (pg_get(&s->conn, &r, e))
            return e->code;
        *ret = *ret || (i == 0 ? r.affected > 0 : r.rows > 0 && pg_i64(&r, 0, 0) == 1);
    }
    return ERR_OK;
}

static enum err pg_heartbeat_read_nodes(struct store_postgres *s, const struct pg_result *r, struct arena *a,
                                        struct node_rows *ret, struct error *e)
{
    struct node_rows all = { arena_array(a, struct node_row, (size_t)r->rows), (size_t)r->rows };
    if (!all.v)
        return error_no_room(e);
    for (int i = 0; i < r->rows; i++)
        if (pg_row_read(&s->conn, &s->lanes, r, i, 1, &table_nodes, a, &all.v[i], e))
            return e->code;
    *ret = all;
    return ERR_OK;
}

static enum err pg_heartbeat_get_status(struct store_postgres *s, struct op_heartbeat *op, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_get(&s->conn, &r, e))
        return e->code;
    op->ret_dead = pg_bool(&r, 0, 0);
    op->ret_recall_requested = pg_bool(&r, 0, 1);
    op->ret_has_orphans = pg_bool(&r, 0, 2);
    op->ret_store_us = pg_i64(&r, 0, 3);
    return ERR_OK;
}

static enum err pg_heartbeat_get_workers(struct store_postgres *s, struct arena *a, struct worker_groups *ret,
                                         struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_get(&s->conn, &r, e))
        return e->code;
    struct worker_groups all = { arena_array(a, struct worker_group, (size_t)r.rows), (size_t)r.rows };
    if (!all.v)
        return error_no_room(e);
    for (int i = 0; i < r.rows; i++)
        if (pg_row_read(&s->conn, &s->lanes, &r, i, 1, &table_worker_groups, a, &all.v[i], e))
            return e->code;
    *ret = all;
    return ERR_OK;
}

/* The store has forgotten heartbeats of this node, and so, it may be, claims. */
static bool pg_heartbeat_finds_older_store(const struct op_heartbeat *op)
{
    for (size_t i = 0; op->node.beats && !op->ret_dead && i < op->ret.n; i++)
        if (uuid_eq(op->ret.v[i].id, op->node.id))
            return op->ret.v[i].beats <= op->node.beats;
    return false;
}

/* Runs in a savepoint, because its result may not fit into the arena. */
enum err postgres_heartbeat(struct store_postgres *s, struct op *base)
{
    struct op_heartbeat *op = (struct op_heartbeat *)base;
    struct error *e = &base->error;
    cleanup_with(pg_result_release) struct pg_result nodes = { 0 };
    bool changed;
    if (pg_heartbeat_send(s, op, e) || pg_heartbeat_get_changes(s, op, &changed, e) || pg_get(&s->conn, &nodes, e) ||
        pg_heartbeat_get_status(s, op, e) || pg_heartbeat_get_workers(s, &base->arena, &op->ret_workers, e) ||
        pg_heartbeat_read_nodes(s, &nodes, &base->arena, &op->ret, e))
        return e->code;
    s->notice.nodes = s->notice.nodes || changed;
    if (pg_heartbeat_finds_older_store(op) && pg_fences_raise(&s->conn, &s->params, op->now_ms, e))
        return e->code;
    if (!op->leave)
        pg_notifier_set_nodes(s->notifier, op->node.id, &op->ret);
    return ERR_OK;
}

/* ---- OP_NODE_DEAD ---- */

enum err postgres_node_dead(struct store_postgres *s, struct op *base)
{
    struct op_node_dead *op = (struct op_node_dead *)base;
    struct pg_params *p = pg_node_params(s, op->node);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_add_i64(p, op->beats);
    pg_add_i64(p, op->now_ms);
    if (pg_run(&s->conn, &mark_dead, p, &r, &base->error))
        return base->error.code;
    op->ret_marked_dead = r.affected > 0;
    s->notice.nodes = s->notice.nodes || op->ret_marked_dead;
    return op->ret_marked_dead ? pg_queue(&s->conn, &drop_places, NULL, &base->error) : ERR_OK;
}

/* ---- OP_RECALL and OP_RECALL_LIST ---- */

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

/* ---- OP_PURGE: nodes, shares, recall requests, workers, job leases ---- */

static enum err pg_purge_cluster_table(struct store_postgres *s, const struct pg_statement *which,
                                       const struct op_purge *op, size_t *count, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_i64(&s->params, (int64_t)(op->max - *count));
    if (which != &purge_recall_requests)
        pg_add_i64(&s->params, which == &purge_workers ? op->workers_before_ms : op->now_ms - NODE_KEPT_MS);
    if (which == &purge_shares)
        pg_add_i64(&s->params, op->now_ms);
    if (pg_run(&s->conn, which, &s->params, &r, e))
        return e->code;
    *count += (size_t)r.affected;
    return ERR_OK;
}

enum err pg_purge_cluster(struct store_postgres *s, const struct op_purge *op, size_t *count, struct error *e)
{
    if (pg_queue(&s->conn, &drop_places, NULL, e) || pg_purge_cluster_table(s, &purge_recall_requests, op, count, e) ||
        pg_purge_cluster_table(s, &purge_shares, op, count, e) ||
        pg_purge_cluster_table(s, &purge_nodes, op, count, e) ||
        pg_purge_cluster_table(s, &purge_workers, op, count, e))
        return e->code;
    size_t uncounted = *count; /* an expired lease has no effect: its deletion does not count */
    return pg_purge_cluster_table(s, &purge_leases, op, &uncounted, e);
}

/* OP_HEARTBEAT and OP_NODE_DEAD.
 *
 * Locks on a node's row order these transactions:
 *   - A claim, or a node that takes shares of a limit, locks it FOR KEY SHARE until the commit.
 *   - A heartbeat changes no key column and does not conflict with that.
 *   - OP_NODE_DEAD locks it FOR UPDATE, which conflicts. So once a node is marked dead, all its claims are visible,
 *     and its next claim sees that the node is dead.
 * OP_NODE_DEAD never waits for the lock (SKIP LOCKED): a locked row belongs to a node that was active a moment ago, or
 * to one that stopped in the middle of a transaction, which the server ends after 3 s. */
#include "store/postgres/internal.h"

#define LIVES(id) "EXISTS (SELECT 1 FROM nodes AS n WHERE n.id = " id " AND NOT n.dead)"

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
/* Deletes the places of nodes that do not live, except those of nodes with claims that are no leases (limit_take.c). It
 * runs behind the statement that marks nodes dead, so that it sees all that they have claimed. */
const struct pg_statement pg_drop_places = { "node_places", "DELETE FROM places AS p WHERE NOT " LIVES(
                                                                "p.node") " AND NOT EXISTS (SELECT 1 FROM claims AS c "
                                                                          "WHERE c.hold < 2 AND c.node = p.node)" };
static const struct pg_statement list_nodes = {
    "node_list",
    "SELECT 0" NODE_COLUMNS(SQL_NAME) " FROM nodes WHERE NOT dead "
                                      "OR id IN (SELECT id FROM nodes WHERE dead ORDER BY joined_ms DESC, id LIMIT $1) "
                                      "ORDER BY dead, CASE WHEN dead THEN -joined_ms END, id"
};
static const struct pg_statement read_status = {
    "node_look_around",
    "SELECT EXISTS (SELECT 1 FROM nodes WHERE id = $1 AND dead), "
    "EXISTS (SELECT 1 FROM wishes AS w WHERE w.node = $1 AND " SQL_RECALL_UNREFUSED("w") " AND " SQL_RECALL_RUNS(
        "w") "), "
             "EXISTS (SELECT 1 FROM claims AS c WHERE c.hold = 0 AND c.node <> $1 AND NOT " LIVES(
                 "c.node") "), " CLOCK_US
};
static const struct pg_statement list_workers = { "worker_groups",
                                                  "SELECT 0, " WORKER_KIND_NAMES ", sum(slots)::bigint, count(*) "
                                                  "FROM " LIVE_WORKERS("$1", "$2") " GROUP BY " WORKER_KIND_NAMES };

/* Parameters that begin with an id. */
struct pg_params *pg_node_params(struct store_postgres *s, struct uuid id)
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
        ((op->alone || op->leave) && pg_queue(&s->conn, &pg_drop_places, NULL, e)))
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
    return op->ret_marked_dead ? pg_queue(&s->conn, &pg_drop_places, NULL, &base->error) : ERR_OK;
}

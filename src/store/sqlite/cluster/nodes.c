/* OP_HEARTBEAT and OP_NODE_DEAD. There are few nodes: no statement here needs an index. */
#include <stdlib.h>

#include "store/sqlite/internal.h"

enum err sqlite_node_find(struct store_sqlite *s, const struct uuid *id, bool *ret_known, bool *ret_dead,
                          struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_NODE_IS_DEAD);
    (void)bind_uuid(st, 1, id);
    if (conn_step(&s->conn, st, ret_known, e))
        return e->code;
    *ret_dead = *ret_known && sqlite3_column_int(st, 0);
    sqlite3_reset(st);
    return ERR_OK;
}

/* ---- changing nodes ---- */

static enum err sqlite_write_heartbeat(struct store_sqlite *s, const struct op_heartbeat *op, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, op->leave ? ST_NODE_LEAVE : ST_NODE_HEARTBEAT);
    struct node_row row = op->node;
    row.beats = 1;
    row.joined_ms = op->now_ms;
    row.dead = false;
    row.dead_ms = 0;
    if (op->leave)
        (void)bind_uuid(st, 1, &row.id);
    else
        row_bind(&s->conn, st, 1, &table_nodes, &row);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_mark_others_dead(struct store_sqlite *s, const struct op_heartbeat *op, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_NODE_MARK_OTHERS_DEAD);
    (void)bind_uuid(st, 1, &op->node.id);
    sqlite3_bind_int64(st, 2, op->now_ms);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_drop_places_of_dead(struct store_sqlite *s, struct error *e)
{
    return conn_run(&s->conn, writer_stmt(s, ST_PLACES_OF_DEAD), e);
}

static enum err sqlite_change_nodes(struct store_sqlite *s, const struct op_heartbeat *op, struct error *e)
{
    if (sqlite_write_heartbeat(s, op, e) || (op->alone && sqlite_mark_others_dead(s, op, e)))
        return e->code;
    return op->leave || op->alone ? sqlite_drop_places_of_dead(s, e) : ERR_OK;
}

/* ---- the results of a heartbeat ---- */

static enum err sqlite_read_nodes(struct store_sqlite *s, struct arena *a, struct node_rows *all, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_NODES);
    enum err rc = ERR_OK;
    for (size_t cap = 0, dead = 0; !rc && dead < NODES_DEAD_SHOWN;) {
        bool row;
        rc = conn_step(&s->conn, st, &row, e);
        if (rc || !row)
            break;
        if (all->n == cap) {
            cap = cap * 2 + 16;
            all->v = xrealloc(all->v, cap * sizeof *all->v);
        }
        struct node_row *n = &all->v[all->n++];
        *n = (struct node_row){ 0 };
        rc = row_read(&s->conn, st, 1, &table_nodes, a, n, e);
        dead += n->dead;
    }
    sqlite3_reset(st);
    return rc;
}

static enum err sqlite_list_nodes(struct store_sqlite *s, struct arena *a, struct node_rows *ret, struct error *e)
{
    struct node_rows all = { 0 };
    enum err rc = sqlite_read_nodes(s, a, &all, e);
    struct node_row *v = rc ? NULL : arena_array(a, struct node_row, all.n);
    if (v && all.n)
        memcpy(v, all.v, all.n * sizeof *v);
    free(all.v);
    if (rc)
        return rc;
    if (!v)
        return reader_no_room(e);
    *ret = (struct node_rows){ v, all.n };
    return ERR_OK;
}

static enum err sqlite_node_has_any(struct store_sqlite *s, enum writer_statement which, const struct uuid *node,
                                    bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, which);
    (void)bind_uuid(st, 1, node);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

/* The store has forgotten heartbeats of this node, and so, it may be, claims. */
static enum err sqlite_notice_older_store(struct store_sqlite *s, const struct op_heartbeat *op,
                                          const struct node_rows *nodes, struct error *e)
{
    for (size_t i = 0; op->node.beats && i < nodes->n; i++)
        if (uuid_eq(nodes->v[i].id, op->node.id) && nodes->v[i].beats <= op->node.beats)
            return sqlite_fences_raise(&s->conn, op->now_ms, &s->fence_floor, e);
    return ERR_OK;
}

enum err sqlite_heartbeat(struct store_sqlite *s, struct op *base)
{
    struct op_heartbeat *op = (struct op_heartbeat *)base;
    struct error *e = &base->error;
    bool known, dead, recall_requested, held;
    struct worker_groups workers;
    struct node_rows nodes;
    if (sqlite_node_find(s, &op->node.id, &known, &dead, e) || (!dead && sqlite_change_nodes(s, op, e)) ||
        sqlite_list_nodes(s, &base->arena, &nodes, e) ||
        sqlite_node_has_any(s, ST_RECALL_EXISTS, &op->node.id, &recall_requested, e) ||
        sqlite_node_has_any(s, ST_ORPHAN_EXISTS, &op->node.id, &held, e) ||
        sqlite_worker_groups(s, op->now_ms, &base->arena, &workers, e) ||
        (!dead && sqlite_notice_older_store(s, op, &nodes, e)))
        return e->code;
    op->ret = nodes;
    op->ret_dead = dead;
    op->ret_recall_requested = recall_requested;
    op->ret_has_orphans = held;
    op->ret_workers = workers;
    op->ret_store_us = 0;
    return ERR_OK;
}

enum err sqlite_node_dead(struct store_sqlite *s, struct op *base)
{
    struct op_node_dead *op = (struct op_node_dead *)base;
    struct error *e = &base->error;
    sqlite3_stmt *st = writer_stmt(s, ST_NODE_MARK_DEAD);
    (void)bind_uuid(st, 1, &op->node);
    sqlite3_bind_int64(st, 2, op->beats);
    sqlite3_bind_int64(st, 3, op->now_ms);
    if (conn_run(&s->conn, st, e))
        return e->code;
    op->ret_marked_dead = sqlite3_changes(s->conn.db) > 0;
    return op->ret_marked_dead ? sqlite_drop_places_of_dead(s, e) : ERR_OK;
}

/* OP_HEARTBEAT and OP_NODE_DEAD. A heartbeat computes the new state of all nodes, copies the result from
 * it, and then stores it. */
#include <stdlib.h>

#include "model/internal.h"

struct node_entry {
    struct node_row row;
    char text[];
};

/* ---- finding and storing nodes ---- */

const struct node_row *memory_node_find(const struct store_memory *s, struct uuid id)
{
    const struct node_entry *n = map_get(&s->nodes, uuid_bytes(&id));
    return n ? &n->row : NULL;
}

bool memory_node_is_dead(const struct store_memory *s, struct uuid id)
{
    const struct node_row *n = memory_node_find(s, id);
    return n && n->dead;
}

bool memory_node_is_alive(const struct store_memory *s, struct uuid id)
{
    const struct node_row *n = memory_node_find(s, id);
    return n && !n->dead;
}

static void memory_node_put(struct store_memory *s, const struct node_row *row)
{
    struct node_entry *n =
        xmalloc(sizeof *n + str_pack_size(row->name) + str_pack_size(row->version) + str_pack_size(row->doc));
    char *at = n->text;
    n->row = *row;
    n->row.name = str_pack(row->name, &at);
    n->row.version = str_pack(row->version, &at);
    n->row.doc = str_pack(row->doc, &at);
    free(map_put(&s->nodes, uuid_bytes(&n->row.id), n)); /* row's texts may be borrowed from the freed entry */
}

static void memory_node_remove(struct store_memory *s, struct uuid id)
{
    free(map_remove(&s->nodes, uuid_bytes(&id)));
    memory_places_drop(s, id);
}

/* ---- OP_HEARTBEAT ---- */

/* All nodes after the heartbeat; their texts are borrowed. */
static struct node_rows memory_nodes_after_heartbeat(const struct store_memory *s, const struct op_heartbeat *op)
{
    struct node_rows all = { xcalloc(s->nodes.n + 1, sizeof *all.v), 0 };
    struct node_row me = op->node;
    me.beats = 1;
    me.joined_ms = op->now_ms;
    me.dead = false;
    me.dead_ms = 0;
    map_each (&s->nodes, slot) {
        struct node_row row = ((const struct node_entry *)slot->value)->row;
        if (uuid_eq(row.id, me.id)) {
            me.beats = row.beats + 1;
            me.joined_ms = row.joined_ms;
            me.fires_until_ms = max_of(row.fires_until_ms, me.fires_until_ms);
            continue;
        }
        if (op->alone && !row.dead) {
            row.dead = true;
            row.dead_ms = op->now_ms;
        }
        all.v[all.n++] = row;
    }
    if (!op->leave)
        all.v[all.n++] = me;
    return all;
}

static struct node_rows memory_nodes_now(const struct store_memory *s)
{
    struct node_rows all = { xcalloc(s->nodes.n, sizeof *all.v), 0 };
    map_each (&s->nodes, slot)
        all.v[all.n++] = ((const struct node_entry *)slot->value)->row;
    return all;
}

static void memory_nodes_store(struct store_memory *s, const struct op_heartbeat *op, const struct node_rows *all)
{
    if (op->leave)
        memory_node_remove(s, op->node.id);
    for (size_t i = 0; i < all->n; i++) {
        memory_node_put(s, &all->v[i]);
        if (all->v[i].dead)
            memory_places_drop(s, all->v[i].id);
    }
}

/* Live nodes by id, then dead ones, the latest joined_ms first. */
static int memory_nodes_compare(const void *x, const void *y)
{
    const struct node_row *a = x, *b = y;
    if (a->dead != b->dead)
        return a->dead ? 1 : -1;
    if (a->dead && a->joined_ms != b->joined_ms)
        return a->joined_ms > b->joined_ms ? -1 : 1;
    return uuid_cmp(a->id, b->id);
}

static enum err memory_nodes_copy(struct node_rows *all, struct arena *a, struct node_rows *ret, struct error *e)
{
    size_t n = 0;
    if (all->n)
        qsort(all->v, all->n, sizeof *all->v, memory_nodes_compare);
    while (n < all->n && !all->v[n].dead)
        n++;
    n = min_of(n + NODES_DEAD_SHOWN, all->n);
    struct node_row *v = arena_array(a, struct node_row, n);
    for (size_t i = 0; v && i < n; i++) {
        const struct node_row *row = &all->v[i];
        v[i] = *row;
        if (!arena_str(a, row->name, &v[i].name) || !arena_str(a, row->version, &v[i].version) ||
            !arena_str(a, row->doc, &v[i].doc))
            return memory_no_room(e);
    }
    if (!v)
        return memory_no_room(e);
    *ret = (struct node_rows){ v, n };
    return ERR_OK;
}

/* The store has forgotten heartbeats of this node, and so, it may be, claims. */
static void memory_notice_older_store(struct store_memory *s, const struct op_heartbeat *op)
{
    const struct node_row *n = memory_node_find(s, op->node.id);
    if (op->node.beats && n && n->beats <= op->node.beats)
        s->table.fence_floor = fence_raise_floor(s->table.fence_floor, op->now_ms);
}

enum err memory_heartbeat(struct store_memory *s, struct op *base)
{
    struct op_heartbeat *op = container_of(base, struct op_heartbeat, op);
    bool dead = memory_node_is_dead(s, op->node.id);
    struct node_rows all = dead ? memory_nodes_now(s) : memory_nodes_after_heartbeat(s, op);
    enum err rc = memory_nodes_copy(&all, &base->arena, &op->ret, &base->error);
    if (!rc && !memory_worker_groups(s, op->now_ms, &base->arena, &op->ret_workers))
        rc = memory_no_room(&base->error);
    if (!rc && !dead) {
        memory_nodes_store(s, op, &all);
        memory_notice_older_store(s, op);
    }
    free(all.v);
    if (rc)
        return rc;
    op->ret_dead = dead;
    op->ret_recall_requested = memory_node_has_recalls(s, op->node.id);
    op->ret_has_orphans = memory_has_orphans(s, op->node.id);
    op->ret_store_us = 0;
    return ERR_OK;
}

/* ---- OP_NODE_DEAD, and purging dead nodes ---- */

enum err memory_node_dead(struct store_memory *s, struct op *base)
{
    struct op_node_dead *op = container_of(base, struct op_node_dead, op);
    const struct node_row *n = memory_node_find(s, op->node);
    op->ret_marked_dead = n && !n->dead && n->beats == op->beats;
    if (!op->ret_marked_dead)
        return ERR_OK;
    struct node_row dead = *n;
    dead.dead = true;
    dead.dead_ms = op->now_ms;
    memory_node_put(s, &dead);
    memory_places_drop(s, op->node);
    return ERR_OK;
}

static bool memory_node_has_claims(const struct store_memory *s, struct uuid node)
{
    map_each (&s->table.claims, slot)
        if (uuid_eq(((const struct claim *)slot->value)->node, node))
            return true;
    return false;
}

bool memory_node_may_go(const void *entry, const struct sweep *w)
{
    const struct node_row *n = &((const struct node_entry *)entry)->row;
    return n->dead && n->dead_ms < w->now_ms - NODE_KEPT_MS && !memory_node_has_claims(w->store, n->id);
}

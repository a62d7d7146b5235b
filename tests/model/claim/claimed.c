/* OP_CLAIMED and OP_ORPHANS. */
#include "model/internal.h"

void picks_held(const struct claim *c, size_t max, struct picks *p)
{
    list_each (&c->rows, link)
        if (p->n < max)
            picks_add(p, &container_of(link, struct row, link)->task);
}

enum err memory_claimed(struct store_memory *s, struct op *base)
{
    struct op_claimed *op = op_as(struct op_claimed, base);
    cleanup_with(picks_release) struct picks p = { 0 };
    const struct claim *c = table_claim(&s->table, op->claim);
    if (c)
        picks_held(c, SIZE_MAX, &p);
    return picks_copy(&p, &base->arena, &op->ret, &base->error);
}

/* ---- OP_ORPHANS ---- */

bool memory_claim_is_orphaned(const struct store_memory *s, const struct claim *c, struct uuid not_node)
{
    return c->hold == CLAIM_OWN && !uuid_eq(c->node, not_node) && !memory_node_is_alive(s, c->node);
}

static int64_t memory_orphan_fires_until_ms(const struct store_memory *s, const struct task *t)
{
    const struct claim *c = map_get(&s->table.claims, uuid_bytes(&t->claim));
    const struct node_row *n = memory_node_find(s, c->node);
    return orphan_fires_until_ms(n ? n->fires_until_ms : 0);
}

enum err memory_orphans(struct store_memory *s, struct op *base)
{
    struct op_orphans *op = container_of(base, struct op_orphans, op);
    cleanup_with(picks_release) struct picks p = { 0 };
    map_each (&s->table.claims, slot)
        if (memory_claim_is_orphaned(s, slot->value, op->not_node))
            picks_held(slot->value, op->max, &p);
    int64_t *until_ms = arena_array(&base->arena, int64_t, p.n);
    if (!until_ms)
        return memory_no_room(&base->error);
    for (size_t i = 0; i < p.n; i++)
        until_ms[i] = memory_orphan_fires_until_ms(s, p.v[i]);
    if (picks_copy(&p, &base->arena, &op->ret, &base->error))
        return base->error.code;
    op->ret_fires_until_ms = until_ms;
    return ERR_OK;
}

bool memory_has_orphans(const struct store_memory *s, struct uuid not_node)
{
    map_each (&s->table.claims, slot)
        if (memory_claim_is_orphaned(s, slot->value, not_node))
            return true;
    return false;
}

/* OP_WISH and OP_WISHES. */
#include <stdlib.h>

#include "model/internal.h"

struct wish_entry {
    struct wish wish;
    struct uuid node; /* nil: it is leased, and its worker is told (OP_KEEP) */
};

static bool is_over(const struct store_memory *s, const struct wish *w)
{
    return !memory_runs(s, w->id, w->fence);
}

bool memory_wish_may_go(const void *entry, const struct sweep *w)
{
    const struct wish_entry *x = entry;
    return (uuid_is_nil(w->node) || uuid_eq(x->node, w->node)) && is_over(w->store, &x->wish);
}

bool memory_is_wished(const struct store_memory *s, struct uuid node)
{
    map_each (&s->wishes, slot) {
        const struct wish_entry *w = slot->value;
        if (uuid_eq(w->node, node) && !is_over(s, &w->wish))
            return true;
    }
    return false;
}

bool memory_is_to_end(const struct store_memory *s, struct uuid task, int64_t fence)
{
    const struct wish_entry *w = map_get(&s->wishes, uuid_bytes(&task));
    return w && w->wish.fence == fence && w->wish.abort;
}

bool memory_is_wished_back(const struct store_memory *s, struct uuid task, int64_t fence)
{
    const struct wish_entry *w = map_get(&s->wishes, uuid_bytes(&task));
    return w && w->wish.fence == fence;
}

enum err memory_wish(struct store_memory *s, struct op *base)
{
    struct op_wish *op = container_of(base, struct op_wish, op);
    struct wish wish = { op->id, op->fence, op->abort, op->by_scheduled_ms };
    const struct claim *c = is_over(s, &wish) ? NULL : table_claim(&s->table, table_get(&s->table, op->id)->claim);
    if (!c)
        return wish_too_late(&base->error);
    struct wish_entry *w = xnew(*w), *old = map_remove(&s->wishes, uuid_bytes(&op->id));
    if (old && old->wish.fence == wish.fence) {
        wish.abort = wish.abort || old->wish.abort;
        wish.by_scheduled_ms = wish.by_scheduled_ms ? wish.by_scheduled_ms : old->wish.by_scheduled_ms;
    }
    *w = (struct wish_entry){ .wish = wish };
    if (c->hold != CLAIM_LEASED)
        w->node = c->node;
    free(old);
    map_put(&s->wishes, uuid_bytes(&w->wish.id), w);
    op->ret_owner = c->node;
    return ERR_OK;
}

enum err memory_wishes(struct store_memory *s, struct op *base)
{
    struct op_wishes *op = container_of(base, struct op_wishes, op);
    struct wish *v = arena_array(&base->arena, struct wish, min_of(op->max, s->wishes.n));
    size_t n = 0;
    if (!v)
        return memory_full(&base->error);
    (void)memory_sweep(&s->wishes, SIZE_MAX, memory_wish_may_go, &(struct sweep){ .store = s, .node = op->node });
    map_each (&s->wishes, slot) {
        const struct wish_entry *w = slot->value;
        if (n < op->max && uuid_eq(w->node, op->node))
            v[n++] = w->wish;
    }
    op->ret = v;
    op->ret_count = n;
    return ERR_OK;
}

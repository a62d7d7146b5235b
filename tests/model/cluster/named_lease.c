/* OP_LEASE: leases of names. Leases of tasks are in leases.c. */
#include "model/internal.h"

struct lease {
    struct uuid holder;
    int64_t until_ms;
    struct str name;
    char text[];
};

static struct lease *memory_lease_open(struct store_memory *s, struct str name)
{
    struct lease *l = map_get(&s->leases, name);
    if (l)
        return l;
    l = xcalloc(1, sizeof *l + str_pack_size(name));
    l->until_ms = INT64_MIN;
    char *at = l->text;
    l->name = str_pack(name, &at);
    map_put(&s->leases, l->name, l);
    return l;
}

enum err memory_lease(struct store_memory *s, struct op *base)
{
    struct op_lease *op = container_of(base, struct op_lease, op);
    struct lease *l = memory_lease_open(s, op->name);
    op->ret_held = l->until_ms <= op->now_ms || uuid_eq(l->holder, op->holder);
    if (op->ret_held) {
        l->holder = op->holder;
        l->until_ms = op->now_ms + op->ttl_ms;
    }
    return ERR_OK;
}

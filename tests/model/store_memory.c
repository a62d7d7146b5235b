/* Every operation first checks whether it can succeed and copies its results into its arena; only then it changes the
 * store. So an operation that fails leaves no trace. */
#include "model/store_memory.h"

#include <stdlib.h>

#include "model/internal.h"

static struct store_memory *memory_store_of(struct store *s)
{
    return container_of(s, struct store_memory, base);
}

/* ---- shared with the readers ---- */

void picks_add(struct picks *p, const struct task *t)
{
    if (p->n == p->cap) {
        p->cap = p->cap * 2 + 16;
        p->v = xrealloc(p->v, p->cap * sizeof *p->v);
    }
    p->v[p->n++] = t;
}

void picks_release(struct picks *p)
{
    free(p->v);
}

enum err picks_copy(const struct picks *p, struct arena *a, struct tasks *ret, struct error *e)
{
    struct tasks copy = { arena_array(a, struct task, p->n), p->n };
    for (size_t i = 0; copy.v && i < p->n; i++)
        if (!task_copy(a, p->v[i], &copy.v[i]))
            copy.v = NULL;
    if (!copy.v)
        return memory_no_room(e);
    *ret = copy;
    return ERR_OK;
}

/* ---- the store ---- */

static enum err (*const memory_operations[OP_KINDS])(struct store_memory *, struct op *) = {
#define X(name, verb) [OP_##name] = memory_##verb,
    OP_MAP(X)
#undef X
};

static enum err memory_apply(struct store *base, struct op *const *ops, size_t n, struct error *e)
{
    (void)e;
    struct store_memory *s = memory_store_of(base);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        ops[i]->error = (struct error){ 0 };
        memory_changes_begin_op(s, ops[i]);
        ops[i]->rc = memory_operations[ops[i]->kind](s, ops[i]);
        memory_changes_end_op(s, ops[i]);
        memory_audit_write(s, ops[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (op_may_hit(ops[i], s->base.wants))
            memory_hits_write(s, ops[i]);
        memory_checks_write(s, ops[i]);
    }
    memory_changes_read(s);
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

static void memory_release_values(struct map *m)
{
    map_each (m, slot)
        free(slot->value);
    map_release(m);
}

static void memory_free(struct store *base)
{
    struct store_memory *s = memory_store_of(base);
    table_release(&s->table);
    for (size_t i = 0; i < order_count(&s->executions); i++)
        free(order_at(&s->executions, i)->value);
    order_release(&s->executions);
    (void)memory_audit_purge(s, INT64_MAX, SIZE_MAX);
    order_release(&s->audit);
    memory_release_values(&s->idempotency);
    memory_release_values(&s->keys);
    memory_release_values(&s->leases);
    memory_release_values(&s->dedupe);
    memory_release_values(&s->catalog);
    memory_release_values(&s->nodes);
    memory_release_values(&s->recall_requests);
    memory_release_values(&s->workers);
    memory_release_values(&s->breakers);
    free(s->stats.v);
    free(s->touched.v);
    memory_leases_release(s);
    memory_incidents_release(s);
    memory_joins_release(s);
    memory_runs_release(s);
    memory_shares_release(&s->shares);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

struct store *store_memory_new(void)
{
    static const struct store_ops ops = { .apply = memory_apply, .reader = memory_reader, .free = memory_free };
    struct store_memory *s = xnew(*s);
    s->base.ops = &ops;
    pthread_mutex_init(&s->lock, NULL);
    table_init(&s->table);
    order_init(&s->executions);
    order_init(&s->audit);
    order_init(&s->hits);
    order_init(&s->records);
    map_init(&s->idempotency, HASH_STABLE);
    map_init(&s->keys, HASH_STABLE);
    map_init(&s->leases, HASH_STABLE);
    map_init(&s->dedupe, HASH_STABLE);
    map_init(&s->catalog, HASH_STABLE);
    map_init(&s->nodes, HASH_STABLE);
    map_init(&s->shares, HASH_STABLE);
    map_init(&s->recall_requests, HASH_STABLE);
    map_init(&s->task_leases, HASH_STABLE);
    order_init(&s->task_leases_by_expiry);
    map_init(&s->workers, HASH_STABLE);
    map_init(&s->breakers, HASH_STABLE);
    return &s->base;
}

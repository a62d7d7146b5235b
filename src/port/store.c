/* One front door for each verb, so that every store is asserted alike. That of reads is store/reader.c. */
#include "port/store.h"

#include <assert.h>

#include "port/store/operation_table.h"

/* A lease takes tasks that are due, of any partition (struct lease_terms, rule 1). */
static void apply_lease_terms(struct op_claim *c)
{
    if (!c->lease)
        return;
    c->until_ms = c->now_ms;
    c->own = NULL;
}

enum err store_apply(struct store *s, struct op *const *ops, size_t n, struct error *e)
{
    assert(n > 0 && n <= STORE_BATCH_MAX);
    for (size_t i = 0; i < n; i++) {
        assert((size_t)ops[i]->kind < OP_KINDS);
        assert(!ops[i]->audit || ops[i]->audit->at_ms == uuid_time_ms(ops[i]->audit->id));
        if (op_table[ops[i]->kind].check)
            op_table[ops[i]->kind].check(ops[i]);
        if (ops[i]->kind == OP_CLAIM)
            apply_lease_terms((struct op_claim *)ops[i]);
    }
    changes_begin(s);
    enum err rc = s->ops->apply(s, ops, n, e);
    if (rc == ERR_OK)
        store_tell(s);
    for (size_t i = 0; rc == ERR_OK && i < n; i++)
        if (ops[i]->rc == ERR_OK && op_table[ops[i]->kind].check_result)
            op_table[ops[i]->kind].check_result(ops[i]);
    return rc;
}

enum err store_reader(struct store *s, struct reader **ret, struct error *e)
{
    *ret = atomic_exchange(&s->kept, NULL);
    return *ret ? ERR_OK : s->ops->reader(s, ret, e);
}

void store_keep_reader(struct store *s, struct reader *r, enum err rc)
{
    struct reader *none = NULL;
    if (!r || rc || !atomic_compare_exchange_strong(&s->kept, &none, r))
        reader_free(r);
}

void store_watch(struct store *s, struct store_watch *w)
{
    if (s->ops->watch)
        s->ops->watch(s, w);
}

void store_barrier_wait(struct store *s, struct store_barrier *barrier)
{
    if (s->ops->barrier_wait)
        s->ops->barrier_wait(s, barrier);
    else
        barrier->done(barrier);
}

bool store_barrier_cancel(struct store *s, struct store_barrier *barrier)
{
    return s->ops->barrier_cancel && s->ops->barrier_cancel(s, barrier);
}

void store_catalog_applied(struct store *s, uint64_t catalog_change)
{
    if (s->ops->catalog_applied)
        s->ops->catalog_applied(s, catalog_change);
}

void store_notify_settled(struct store *s, const struct fenced_id *settled, size_t n)
{
    if (n && s->ops->notify_settled)
        s->ops->notify_settled(s, settled, n);
}

void store_broadcast(struct store *s, struct str line)
{
    assert(line.n > 0 && line.n <= STORE_BROADCAST_MAX);
    if (s->ops->broadcast)
        s->ops->broadcast(s, line);
}

bool store_is_shared(const struct store *s)
{
    return s->ops->watch != NULL;
}

void store_free(struct store *s)
{
    if (!s)
        return;
    reader_free(atomic_exchange(&s->kept, NULL));
    store_free_changes(s);
    s->ops->free(s);
}

/* OP_BREAKERS: breakers that are not closed. */
#include <stdlib.h>

#include "core/target/target_url.h"
#include "model/internal.h"

struct breaker_entry {
    struct breaker_row row;
    size_t key_n;
    char *key; /* tenant and host; the texts follow the entry */
};

enum { BREAKER_KEY_MAX = sizeof(int32_t) + TARGET_HOST_MAX };

static struct str memory_breaker_key(int32_t tenant, struct str host, char out[BREAKER_KEY_MAX])
{
    memcpy(out, &tenant, sizeof tenant);
    memcpy(out + sizeof tenant, host.p, host.n);
    return (struct str){ out, sizeof tenant + host.n };
}

static struct breaker_entry *memory_breaker_find(const struct store_memory *s, const struct breaker_row *row,
                                                 bool by_id)
{
    char key[BREAKER_KEY_MAX];
    if (!by_id)
        return map_get(&s->breakers, memory_breaker_key(row->tenant, row->host, key));
    map_each (&s->breakers, slot) {
        struct breaker_entry *x = slot->value;
        if (x->row.tenant == row->tenant && uuid_eq(x->row.id, row->id))
            return x;
    }
    return NULL;
}

static void memory_breaker_put(struct store_memory *s, const struct breaker_row *row)
{
    char bytes[BREAKER_KEY_MAX];
    struct str key = memory_breaker_key(row->tenant, row->host, bytes);
    struct breaker_entry *x =
        xmalloc(sizeof *x + str_pack_size(key) + str_pack_size(row->host) + str_pack_size(row->reason));
    char *at = (char *)(x + 1);
    x->row = *row;
    key = str_pack(key, &at);
    x->row.host = str_pack(row->host, &at);
    x->row.reason = str_pack(row->reason, &at);
    x->key_n = key.n;
    x->key = (char *)(x + 1);
    free(map_put(&s->breakers, (struct str){ x->key, x->key_n }, x));
}

static bool memory_breaker_change(struct store_memory *s, const struct breaker_change *c)
{
    struct breaker_entry *there = memory_breaker_find(s, &c->row, c->close && !uuid_is_nil(c->row.id));
    if (c->close) {
        if (there)
            free(map_remove(&s->breakers, (struct str){ there->key, there->key_n }));
        return there != NULL;
    }
    if (there && there->row.until_ms >= c->row.until_ms)
        return false;
    struct breaker_row row = c->row;
    if (there) {
        row = there->row;
        row.until_ms = c->row.until_ms;
        row.reason = c->row.reason;
        row.reopened++;
    }
    memory_breaker_put(s, &row);
    return true;
}

enum err memory_breakers(struct store_memory *s, struct op *base)
{
    struct op_breakers *op = container_of(base, struct op_breakers, op);
    op->ret_changed = false;
    if (memory_idempotency_check(s, op->idempotency, &base->error))
        return base->error.code;
    for (size_t i = 0; op->must_exist && i < op->n; i++)
        if (op->v[i].close && !memory_breaker_find(s, &op->v[i].row, !uuid_is_nil(op->v[i].row.id)))
            return error_set(&base->error, ERR_NOT_FOUND, "there is no such breaker");
    memory_idempotency_put(s, op->idempotency);
    for (size_t i = 0; i < op->n; i++)
        op->ret_changed = memory_breaker_change(s, &op->v[i]) || op->ret_changed;
    return ERR_OK;
}

static int memory_breakers_compare(const void *x, const void *y)
{
    const struct breaker_row *const *a = x, *const *b = y;
    return uuid_cmp((*b)->id, (*a)->id);
}

static bool memory_breaker_matches(const struct breaker_row *b, const struct breaker_filter *f)
{
    bool of_tenant = str_eq(b->host, BREAKER_ANY_HOST);
    return (f->all_tenants || b->tenant == f->tenant) && (!f->host.n || str_eq(b->host, f->host)) &&
           (f->scope == BREAKER_SCOPE_ANY || of_tenant == (f->scope == BREAKER_SCOPE_TENANT)) &&
           (uuid_is_nil(f->before) || uuid_cmp(b->id, f->before) < 0);
}

enum err memory_reader_breakers(struct reader *r, const struct breaker_filter *f, struct arena *a,
                                struct breaker_rows *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct breaker_row **all = xcalloc(s->breakers.n + 1, sizeof *all);
    size_t n = 0;
    map_each (&s->breakers, slot) {
        const struct breaker_row *b = &((const struct breaker_entry *)slot->value)->row;
        if (memory_breaker_matches(b, f))
            all[n++] = b;
    }
    qsort(all, n, sizeof *all, memory_breakers_compare);
    n = min_of(n, f->limit);
    struct breaker_rows found = { arena_array(a, struct breaker_row, n), n };
    bool fits = found.v != NULL;
    for (size_t i = 0; fits && i < n; i++) {
        found.v[i] = *all[i];
        fits = arena_str(a, all[i]->host, &found.v[i].host) && arena_str(a, all[i]->reason, &found.v[i].reason);
    }
    free(all);
    if (!fits)
        return memory_no_room(e);
    *ret = found;
    return ERR_OK;
}

#include "node/tenant_set.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

struct tenant_set_item {
    int32_t tenant;
    char bytes[];
};

struct tenant_set_count {
    int32_t tenant;
    size_t n;
};

struct tenant_set {
    size_t max;
    atomic_bool refused; /* asked for at each step of the node */
    pthread_mutex_t lock;
    struct map items;  /* tenant and bytes → struct tenant_set_item */
    struct map counts; /* tenant → struct tenant_set_count */
};

struct tenant_set *tenant_set_new(size_t max)
{
    struct tenant_set *s = xnew(*s);
    s->max = max;
    pthread_mutex_init(&s->lock, NULL);
    map_init(&s->items, HASH_STABLE);
    map_init(&s->counts, HASH_STABLE);
    return s;
}

static void tenant_set_free_items(struct tenant_set *s)
{
    map_each (&s->items, slot)
        free(slot->value);
    map_each (&s->counts, slot)
        free(slot->value);
    map_release(&s->items);
    map_release(&s->counts);
}

void tenant_set_free(struct tenant_set *s)
{
    if (!s)
        return;
    tenant_set_free_items(s);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

bool tenant_set_has_refused(struct tenant_set *s)
{
    return atomic_load_explicit(&s->refused, memory_order_relaxed);
}

void tenant_set_clear(struct tenant_set *s)
{
    pthread_mutex_lock(&s->lock);
    tenant_set_free_items(s);
    map_init(&s->items, HASH_STABLE);
    map_init(&s->counts, HASH_STABLE);
    atomic_store(&s->refused, false);
    pthread_mutex_unlock(&s->lock);
}

static struct tenant_set_count *tenant_set_count_of(struct tenant_set *s, int32_t tenant)
{
    struct tenant_set_count *c = map_get(&s->counts, (struct str){ (const char *)&tenant, sizeof tenant });
    if (c)
        return c;
    c = xnew(*c);
    c->tenant = tenant;
    map_put(&s->counts, (struct str){ (const char *)&c->tenant, sizeof c->tenant }, c);
    return c;
}

/* False: it is new, and the tenant has `max` already. */
static bool tenant_set_add(struct tenant_set *s, int32_t tenant, struct str item, size_t max)
{
    struct tenant_set_item *i = xcalloc(1, sizeof *i + item.n);
    struct str key = { (const char *)i, sizeof *i + item.n };
    i->tenant = tenant;
    if (item.n)
        memcpy(i->bytes, item.p, item.n);
    pthread_mutex_lock(&s->lock);
    struct tenant_set_count *c = tenant_set_count_of(s, tenant);
    bool known = map_get(&s->items, key), fits = known || c->n < max;
    if (!fits)
        atomic_store(&s->refused, true);
    if (!known && fits) {
        map_put(&s->items, key, i);
        c->n++;
    }
    pthread_mutex_unlock(&s->lock);
    if (known || !fits)
        free(i);
    return fits;
}

void tenant_set_know(struct tenant_set *s, int32_t tenant, struct str item)
{
    (void)tenant_set_add(s, tenant, item, SIZE_MAX);
}

bool tenant_set_accept(struct tenant_set *s, int32_t tenant, struct str item)
{
    return tenant_set_add(s, tenant, item, s->max);
}

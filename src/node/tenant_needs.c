#include "node/tenant_needs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

struct tenant_needs_entry {
    struct {
        int64_t cpu_milli, memory_mb;
        int32_t tenant;
        int32_t zero; /* no gap in what is hashed */
    } numbers;
    char requires[];
};

struct tenant_needs_count {
    int32_t tenant;
    size_t n;
};

struct tenant_needs {
    pthread_mutex_t lock;
    struct map entries; /* numbers and labels → struct tenant_needs_entry */
    struct map counts;  /* tenant → struct tenant_needs_count */
};

struct tenant_needs *tenant_needs_new(void)
{
    struct tenant_needs *n = xnew(*n);
    pthread_mutex_init(&n->lock, NULL);
    map_init(&n->entries, HASH_STABLE);
    map_init(&n->counts, HASH_STABLE);
    return n;
}

void tenant_needs_free(struct tenant_needs *n)
{
    if (!n)
        return;
    map_each (&n->entries, slot)
        free(slot->value);
    map_each (&n->counts, slot)
        free(slot->value);
    map_release(&n->entries);
    map_release(&n->counts);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

static struct tenant_needs_count *tenant_needs_count_of(struct tenant_needs *n, int32_t tenant)
{
    struct tenant_needs_count *c = map_get(&n->counts, (struct str){ (const char *)&tenant, sizeof tenant });
    if (c)
        return c;
    c = xnew(*c);
    c->tenant = tenant;
    map_put(&n->counts, (struct str){ (const char *)&c->tenant, sizeof c->tenant }, c);
    return c;
}

/* False: it is new, and the tenant has `max` already. */
static bool tenant_needs_add(struct tenant_needs *n, const struct lane *lane, size_t max)
{
    struct tenant_needs_entry *e = xcalloc(1, sizeof *e + lane->requires.n);
    struct str key = { (const char *)e, sizeof *e + lane->requires.n };
    e->numbers.tenant = lane->tenant;
    e->numbers.cpu_milli = lane->cpu_milli;
    e->numbers.memory_mb = lane->memory_mb;
    if (lane->requires.n)
        memcpy(e->requires, lane->requires.p, lane->requires.n);
    pthread_mutex_lock(&n->lock);
    struct tenant_needs_count *c = tenant_needs_count_of(n, lane->tenant);
    bool known = map_get(&n->entries, key), fits = known || c->n < max;
    if (!known && fits) {
        map_put(&n->entries, key, e);
        c->n++;
    }
    pthread_mutex_unlock(&n->lock);
    if (known || !fits)
        free(e);
    return fits;
}

static bool tenant_needs_has_any(const struct lane *lane)
{
    return lane->requires.n || lane->cpu_milli || lane->memory_mb;
}

void tenant_needs_know(struct tenant_needs *n, const struct lane *lanes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (tenant_needs_has_any(&lanes[i]))
            (void)tenant_needs_add(n, &lanes[i], SIZE_MAX);
}

bool tenant_needs_accept(struct tenant_needs *n, const struct task *t)
{
    struct lane lane = task_lane(t);
    return !tenant_needs_has_any(&lane) || tenant_needs_add(n, &lane, TENANT_NEEDS_MAX);
}

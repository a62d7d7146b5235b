/* Figures by tenant since the last stats_take. One lock guards them: it is held for a few additions at a time, and
 * stats_take only moves the table out. Entry 0 is STATS_OTHER. */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats/stats.h"

enum { CELLS = 2048 }; /* a power of two, at least twice STATS_TENANTS_MAX */

struct stats_table {
    uint16_t cells[CELLS]; /* by the tenant: the number of its entry; 0: free */
    size_t n;              /* entries in use, without the first */
    bool has_other;
    struct tenant_stats v[1 + STATS_TENANTS_MAX];
};

struct stats_counters {
    atomic_flag lock;
    struct stats_table *table; /* NULL: nothing was counted */
};

struct stats_counters *stats_counters_new(void)
{
    return xcalloc(1, sizeof(struct stats_counters));
}

void stats_counters_free(struct stats_counters *c)
{
    if (!c)
        return;
    free(c->table);
    free(c);
}

static void stats_lock(struct stats_counters *c)
{
    while (atomic_flag_test_and_set_explicit(&c->lock, memory_order_acquire))
        ; /* its holder is done within a moment */
}

static struct tenant_stats *stats_entry(struct stats_table *t, int32_t tenant)
{
    size_t at = (uint32_t)tenant * 2654435761u % CELLS;
    while (t->cells[at] && t->v[t->cells[at]].tenant != tenant)
        at = (at + 1) % CELLS;
    if (t->cells[at])
        return &t->v[t->cells[at]];
    if (t->n == STATS_TENANTS_MAX) {
        t->has_other = true;
        return &t->v[0];
    }
    t->cells[at] = (uint16_t)++t->n;
    t->v[t->n].tenant = tenant;
    return &t->v[t->n];
}

int64_t *stats_begin(struct stats_counters *c, int32_t tenant)
{
    assert(tenant > STATS_ALL && tenant < STATS_OTHER);
    stats_lock(c);
    if (!c->table)
        c->table = xnew(*c->table);
    return stats_entry(c->table, tenant)->stats.v;
}

void stats_end(struct stats_counters *c)
{
    atomic_flag_clear_explicit(&c->lock, memory_order_release);
}

void stats_count(struct stats_counters *c, int32_t tenant, enum stats_id id, int64_t n)
{
    if (!n)
        return;
    stats_begin(c, tenant)[id] += n;
    stats_end(c);
}

struct tenant_stats *stats_take(struct stats_counters *c, size_t *ret_n)
{
    stats_lock(c);
    struct stats_table *t = take(c->table);
    stats_end(c);
    *ret_n = 0;
    if (!t)
        return NULL;
    size_t first = t->has_other ? 0 : 1, n = t->n + 1 - first;
    struct tenant_stats *v = xcalloc(n, sizeof *v);
    t->v[0].tenant = STATS_OTHER;
    memcpy(v, t->v + first, n * sizeof *v);
    free(t);
    *ret_n = n;
    return v;
}

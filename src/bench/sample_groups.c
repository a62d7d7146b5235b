#include "bench/sample_groups.h"

#include <stdlib.h>

#include "bench/scenario.h"

struct sample_member {
    struct uuid id;
    int group;
};

void sample_groups_release(struct sample_groups *g)
{
    free(g->v);
    *g = (struct sample_groups){ 0 };
}

void sample_groups_add(struct sample_groups *g, int group, const struct uuid *ids, size_t n)
{
    g->v = xrealloc(g->v, (g->n + n) * sizeof *g->v);
    for (size_t i = 0; i < n; i++)
        g->v[g->n++] = (struct sample_member){ ids[i], group };
    g->sorted = false;
}

static int sample_member_compare(const void *a, const void *b)
{
    return uuid_cmp(((const struct sample_member *)a)->id, ((const struct sample_member *)b)->id);
}

int sample_groups_find(struct sample_groups *g, struct uuid id)
{
    if (g->n == 0)
        return SAMPLE_GROUP_NONE;
    if (!g->sorted)
        qsort(g->v, g->n, sizeof *g->v, sample_member_compare);
    g->sorted = true;
    struct sample_member wanted = { .id = id };
    const struct sample_member *m = bsearch(&wanted, g->v, g->n, sizeof *g->v, sample_member_compare);
    return m ? m->group : SAMPLE_GROUP_NONE;
}

size_t sample_groups_lags(struct sample_groups *g, int group, const struct bench_server *s, int64_t **ret_us)
{
    size_t n = atomic_load_explicit(&s->shared->n, memory_order_acquire), count = 0;
    int64_t *lag_us = xcalloc(n + 1, sizeof *lag_us);
    for (size_t i = 0; i < n; i++)
        if (sample_groups_find(g, s->shared->v[i].id) == group)
            lag_us[count++] = bench_sample_lag_us(&s->shared->v[i]);
    qsort(lag_us, count, sizeof *lag_us, bench_compare_i64);
    *ret_us = lag_us;
    return count;
}

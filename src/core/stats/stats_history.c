#include "core/stats/stats_history.h"

#include <assert.h>
#include <stdlib.h>

void stats_history_init(struct stats_history *h, int64_t from_ms, size_t minutes)
{
    assert(minutes > 0 && from_ms % STATS_MINUTE_MS == 0);
    *h = (struct stats_history){
        .from_ms = from_ms, .n = minutes, .first = minutes, .v = xcalloc(minutes, sizeof *h->v)
    };
}

void stats_history_release(struct stats_history *h)
{
    free(h->v);
    *h = (struct stats_history){ 0 };
}

void stats_history_add(struct stats_history *h, int64_t at_ms, const struct stats *s)
{
    if (at_ms < h->from_ms || (at_ms - h->from_ms) / STATS_MINUTE_MS >= (int64_t)h->n)
        return;
    size_t at = (size_t)((at_ms - h->from_ms) / STATS_MINUTE_MS);
    h->first = min_of(h->first, at);
    stats_add(&h->v[at], s);
}

void stats_history_close(struct stats_history *h)
{
    for (size_t at = h->first + 1; at < h->n; at++)
        for (size_t i = 0; i < STATS; i++)
            if (stats_is_sum((enum stats_id)i))
                h->v[at].v[i] += h->v[at - 1].v[i];
}

int64_t stats_history_sum(const struct stats_history *h, size_t at, size_t minutes, enum stats_id id)
{
    assert(at < h->n && minutes > 0 && stats_is_sum(id));
    return h->v[at].v[id] - (at >= minutes ? h->v[at - minutes].v[id] : 0);
}

double stats_history_quantile(const struct stats_history *h, size_t at, size_t minutes, enum stats_id first,
                              double quantile)
{
    struct stats s = { 0 };
    for (size_t i = first; i < (size_t)first + STATS_BUCKETS_COUNT; i++)
        s.v[i] = stats_history_sum(h, at, minutes, (enum stats_id)i);
    return stats_quantile(&s, first, quantile);
}

double stats_history_slope(const struct stats_history *h, size_t at, size_t minutes, enum stats_id id)
{
    double products = 0, squares = 0, middle = (double)(minutes - 1) / 2;
    assert(at < h->n && minutes > 1 && !stats_is_sum(id));
    for (size_t i = 0; i < minutes; i++) {
        double x = (double)i - middle;
        double y = at + i + 1 >= minutes ? (double)h->v[at + i + 1 - minutes].v[id] : 0;
        products += x * y;
        squares += x * x;
    }
    return products / squares;
}

#include "base/stats/stats.h"

#include <assert.h>

const int64_t stats_bounds_us[STATS_BUCKETS_COUNT] = { 10000,   50000,    100000,   500000,   1000000,
                                                       5000000, 30000000, 60000000, INT64_MAX };

enum stat_how { SUM, MAX };

static const enum stat_how stats_how[STATS] = {
#define X(id, column, how) [STAT_##id] = how,
    STATS_MAP(X)
#undef X
};

void stats_add(struct stats *to, const struct stats *s)
{
    for (size_t i = 0; i < STATS; i++)
        to->v[i] = stats_how[i] == SUM ? to->v[i] + s->v[i] : max_of(to->v[i], s->v[i]);
}

bool stats_is_sum(enum stats_id id)
{
    return stats_how[id] == SUM;
}

static size_t stats_bucket_of(int64_t us)
{
    size_t bucket = 0;
    while (us > stats_bounds_us[bucket])
        bucket++;
    return bucket;
}

void stats_observe_us(int64_t v[STATS], enum stats_id first, int64_t us)
{
    assert(first == STAT_DELAY_0 || first == STAT_RUN_0); /* these have a sum behind their buckets */
    us = max_of(us, (int64_t)0);
    v[first + stats_bucket_of(us)]++;
    v[first + STATS_BUCKETS_COUNT] += us;
}

int64_t stats_observed(const struct stats *s, enum stats_id first)
{
    int64_t n = 0;
    for (size_t i = 0; i < STATS_BUCKETS_COUNT; i++)
        n += s->v[first + i];
    return n;
}

double stats_quantile(const struct stats *s, enum stats_id first, double quantile)
{
    double rank = quantile * (double)stats_observed(s, first), below = 0;
    if (rank <= 0)
        return 0;
    for (size_t i = 0; i < STATS_BUCKETS_COUNT - 1; i++) {
        double n = (double)s->v[first + i], from = i ? (double)stats_bounds_us[i - 1] : 0;
        if (n > 0 && below + n >= rank)
            return (from + ((double)stats_bounds_us[i] - from) * (rank - below) / n) / 1e6;
        below += n;
    }
    return (double)stats_bounds_us[STATS_BUCKETS_COUNT - 2] / 1e6;
}

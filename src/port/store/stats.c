#include "port/store/stats.h"

size_t stats_points_max(const struct stats_filter *f)
{
    return (size_t)((f->to_ms - f->from_ms + f->step_ms - 1) / f->step_ms);
}

int64_t stats_old_before(enum stats_grain grain, int64_t now_ms)
{
    switch (grain) {
    case STATS_OF_NODE: return now_ms / STATS_MINUTE_MS * STATS_MINUTE_MS - STATS_NODES_MS;
    case STATS_OF_MINUTE: return (now_ms - STATS_MINUTES_MS) / STATS_HOUR_MS * STATS_HOUR_MS;
    case STATS_OF_HOUR: break;
    }
    return now_ms - STATS_KEPT_MS;
}

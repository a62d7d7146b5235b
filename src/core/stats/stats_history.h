#pragma once
/* core/stats/stats_history.h - the figures of successive minutes, of which any window can be asked. */
#include "base/stats/stats.h"

struct stats_history {
    int64_t from_ms; /* the begin of the first minute */
    size_t n;        /* minutes */
    size_t first;    /* the first one with figures; n: none has. Those before it are not touched */
    /* Of each minute: of figures that are sums, the total since the first one; of the others the level at its end. */
    struct stats *v;
};

void stats_history_init(struct stats_history *h, int64_t from_ms, size_t minutes); /* all are 0 */
void stats_history_release(struct stats_history *h);
/* Figures of the minute that begins then; before the first stats_history_close. A time outside is ignored. */
void stats_history_add(struct stats_history *h, int64_t at_ms, const struct stats *s);
void stats_history_close(struct stats_history *h); /* all were added: it can be asked */

/* The sum over the last `minutes` up to the end of minute `at`; before the first minute nothing happened. */
int64_t stats_history_sum(const struct stats_history *h, size_t at, size_t minutes, enum stats_id id);
double stats_history_quantile(const struct stats_history *h, size_t at, size_t minutes, enum stats_id first,
                              double quantile);
/* By how much a level grows each minute: the slope of the line through its last `minutes` values. */
double stats_history_slope(const struct stats_history *h, size_t at, size_t minutes, enum stats_id id);

#pragma once
/* base/stats/stats.h - the figures that are kept of each minute: of a tenant, and of all tenants together.
 *
 * A new figure needs one row in STATS_MAP and a column in the stores. */
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

/* X(id, column, how): how the figures of several nodes or minutes become one, their SUM or their MAX. The buckets of a
 * histogram follow each other, and their bounds are stats_bounds_us. */
#define STATS_MAP(X)                                                                                                   \
    X(CREATED, created, SUM)                                                                                           \
    X(EXECUTED, executed, SUM)                                                                                         \
    X(COMPLETED, completed, SUM)                                                                                       \
    X(FAILED, failed, SUM)                                                                                             \
    X(RETRIED, retried, SUM)                                                                                           \
    X(LOST, lost, SUM)                                                                                                 \
    X(SKIPPED, skipped, SUM)                                                                                           \
    X(EXPIRED, expired, SUM)                                                                                           \
    X(FAULTS, faults, SUM)               /* attempts that failed or were lost */                                       \
    X(BELFRY_FAULTS, belfry_faults, SUM) /* those by a fault of Belfry */                                              \
    STATS_BUCKETS(X, DELAY, delay)       /* belfry_start_delay_seconds */                                              \
    X(DELAY_US, delay_us, SUM)                                                                                         \
    STATS_BUCKETS(X, RUN, run) /* how long attempts took */                                                            \
    X(RUN_US, run_us, SUM)                                                                                             \
    STATS_NODE_MAP(X)                                                                                                  \
    X(BACKLOG, backlog, MAX) /* due tasks that wait */                                                                 \
    X(OLDEST_WAIT_MS, oldest_wait_ms, MAX)                                                                             \
    X(LOW_WAIT_MS, low_wait_ms, MAX) /* the same of class low */                                                       \
    X(BUSY_MILLI, busy_milli, MAX)   /* thousandths of the worker slots in use */                                      \
    X(SKEW_MS, skew_ms, MAX)         /* by how much a node's clock is surely wrong */

/* Figures of nodes: no tenant has them. */
#define STATS_NODE_MAP(X)                                                                                              \
    X(CLAIMED, claimed, SUM)                                                                                           \
    X(CLAIM_FAILURES, claim_failures, SUM)                                                                             \
    X(REQUESTS, requests, SUM)                                                                                         \
    X(REQUEST_ERRORS, request_errors, SUM)                                                                             \
    STATS_BUCKETS(X, STORE_WAIT, store_wait) /* belfry_store_wait_seconds */

#define STATS_BUCKETS(X, id, column)                                                                                   \
    X(id##_0, column##_0, SUM)                                                                                         \
    X(id##_1, column##_1, SUM)                                                                                         \
    X(id##_2, column##_2, SUM)                                                                                         \
    X(id##_3, column##_3, SUM)                                                                                         \
    X(id##_4, column##_4, SUM)                                                                                         \
    X(id##_5, column##_5, SUM)                                                                                         \
    X(id##_6, column##_6, SUM)                                                                                         \
    X(id##_7, column##_7, SUM)                                                                                         \
    X(id##_8, column##_8, SUM)

enum stats_id {
#define X(id, column, how) STAT_##id,
    STATS_MAP(X)
#undef X
        STATS
};

struct stats {
    int64_t v[STATS];
};

enum { STATS_BUCKETS_COUNT = 9, STATS_MINUTE_MS = 60000, STATS_HOUR_MS = 3600000 };

/* Inclusive upper bounds of the buckets, each also one of base/metrics.c. The last bucket is unbounded. */
extern const int64_t stats_bounds_us[STATS_BUCKETS_COUNT];

void stats_add(struct stats *to, const struct stats *s);
bool stats_is_sum(enum stats_id id); /* false: of several, the highest counts */

/* Counts one observation in the histogram that begins with `first`. */
void stats_observe_us(int64_t v[STATS], enum stats_id first, int64_t us);

/* The quantile of a histogram, in seconds, as Prometheus estimates it: within its bucket the observations are spread
 * evenly; in the last bucket it is that bucket's lower bound. No observations: 0. */
double stats_quantile(const struct stats *s, enum stats_id first, double quantile);
int64_t stats_observed(const struct stats *s, enum stats_id first); /* how many there are */

/* ---- counting, by tenant (stats_counters.c); any thread ----
 *
 * The first STATS_TENANTS_MAX tenants of a minute with something to count have figures of their own; those of the
 * others are added up as the tenant STATS_OTHER. */
enum { STATS_ALL = 0, STATS_OTHER = INT32_MAX, STATS_TENANTS_MAX = 1000 };

struct tenant_stats {
    int32_t tenant;
    struct stats stats;
};

struct stats_counters;
struct stats_counters *stats_counters_new(void);
void stats_counters_free(struct stats_counters *c); /* NULL is fine */

/* The figures of a tenant, to be raised until stats_end. Others wait for it: do not linger. */
int64_t *stats_begin(struct stats_counters *c, int32_t tenant);
void stats_end(struct stats_counters *c);
void stats_count(struct stats_counters *c, int32_t tenant, enum stats_id id, int64_t n); /* one figure */

/* All that was counted since the last call, STATS_OTHER first if there is any. The caller frees it. *ret_n is 0 and the
 * result NULL if nothing was. */
struct tenant_stats *stats_take(struct stats_counters *c, size_t *ret_n);

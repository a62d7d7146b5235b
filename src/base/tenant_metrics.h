#pragma once
/* base/tenant_metrics.h - figures by tenant, for a bounded number of tenants.
 *
 * The first tenants with something to count get series of their own; the figures of the others are summed up as
 * `_other`. A tenant keeps its series until it was idle for a day. A count of a tenant that has its series takes no
 * lock. Any thread may call these functions; tenants are named when they are printed. */
#include "base/buf.h"

#define TENANT_METRICS_OTHER "_other" /* no tenant has this name */

enum { TENANT_METRICS_PRESET = 50, TENANT_METRICS_MAX = 200 };

#define TENANT_OUTCOME_MAP(X)                                                                                          \
    X(COMPLETED, "completed")                                                                                          \
    X(FAILED, "failed")                                                                                                \
    X(RETRIED, "retried")                                                                                              \
    X(LOST, "lost")                                                                                                    \
    X(EXPIRED, "expired")

enum tenant_outcome {
#define X(id, name) TENANT_##id,
    TENANT_OUTCOME_MAP(X)
#undef X
        TENANT_OUTCOMES
};

enum tenant_gauge { TENANT_RUNNING, TENANT_BACKLOG, TENANT_GAUGES };

struct tenant_metrics;

struct tenant_metrics *tenant_metrics_new(void);
void tenant_metrics_free(struct tenant_metrics *t);                /* NULL is fine */
void tenant_metrics_set_max(struct tenant_metrics *t, size_t max); /* before the first count */

void tenant_metrics_count(struct tenant_metrics *t, int32_t tenant, enum tenant_outcome outcome);
void tenant_metrics_observe_delay_us(struct tenant_metrics *t, int32_t tenant, int64_t us);

/* A number of a tenant as of now. */
struct tenant_figure {
    int32_t tenant;
    int64_t n;
};
/* All that are not 0. v NULL: this process does not know them, and they are not printed. */
void tenant_metrics_set(struct tenant_metrics *t, enum tenant_gauge g, const struct tenant_figure *v, size_t n);

/* name: writes the name of a tenant as the value of a label. */
struct tenant_names {
    void (*name)(void *context, int32_t tenant, struct buf *out);
    void *context;
};
void tenant_metrics_print(struct tenant_metrics *t, int64_t now_ms, const struct tenant_names *names, struct buf *out);

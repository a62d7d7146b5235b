/* Slot 0 has the figures of the tenants without a slot. The number of a slot's tenant is written under the lock, after
 * which its counters are updated without: a slot that is given up while another thread counts may lose that count. */
#include "base/tenant_metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { IDLE_MS = 86400000, FOLDED_MAX = 1 << 16 };

/* Fewer than of other histograms: there are many tenants. */
static const struct tenant_bound {
    int64_t us;
    const char *seconds;
} bounds[] = { { 100000, "0.1" }, { 500000, "0.5" },  { 1000000, "1" },
               { 5000000, "5" },  { 30000000, "30" }, { INT64_MAX, "+Inf" } };

static const char *const outcome_names[] = {
#define X(id, name) [TENANT_##id] = name,
    TENANT_OUTCOME_MAP(X)
#undef X
};

static const struct tenant_gauge_row {
    const char *name, *help;
} gauge_rows[TENANT_GAUGES] = {
    [TENANT_RUNNING] = { "belfry_tenant_running", "Tasks of a tenant that this node has started and not settled" },
    [TENANT_BACKLOG] = { "belfry_tenant_backlog", "Due tasks of a tenant in the store that wait; only on the leader" },
};

struct tenant_slot {
    atomic_int_least32_t tenant; /* 0: free */
    atomic_int_least64_t outcomes[TENANT_OUTCOMES], buckets[array_count(bounds)], delay_us;
    int64_t gauges[TENANT_GAUGES]; /* these and the next two: under the lock */
    int64_t seen, active_ms;       /* the sum of its counts at the last look, and when it had changed */
};

struct tenant_metrics {
    size_t max;
    atomic_size_t used; /* slots 1 to this may be in use */
    struct tenant_slot slots[1 + TENANT_METRICS_MAX];
    atomic_flag lock; /* guards the next two, and who gets a slot; rarely taken, and never for long */
    bool has_gauge[TENANT_GAUGES];
    atomic_bool full;                              /* no slot is free */
    atomic_uint_least64_t folded[FOLDED_MAX / 64]; /* a bit for each tenant that has no slot */
};

struct tenant_metrics *tenant_metrics_new(void)
{
    struct tenant_metrics *t = xnew(*t);
    t->max = TENANT_METRICS_PRESET;
    return t;
}

void tenant_metrics_free(struct tenant_metrics *t)
{
    free(t);
}

void tenant_metrics_set_max(struct tenant_metrics *t, size_t max)
{
    assert(max <= TENANT_METRICS_MAX && !t->used);
    t->max = max;
}

static void tenant_metrics_lock(struct tenant_metrics *t)
{
    while (atomic_flag_test_and_set_explicit(&t->lock, memory_order_acquire))
        ; /* its holder is done within a moment */
}

static void tenant_metrics_unlock(struct tenant_metrics *t)
{
    atomic_flag_clear_explicit(&t->lock, memory_order_release);
}

/* ---- slots ---- */

static struct tenant_slot *tenant_metrics_find(struct tenant_metrics *t, int32_t tenant)
{
    size_t used = atomic_load_explicit(&t->used, memory_order_acquire);
    for (size_t i = 1; i <= used; i++)
        if (atomic_load_explicit(&t->slots[i].tenant, memory_order_relaxed) == tenant)
            return &t->slots[i];
    return NULL;
}

static struct tenant_slot *tenant_metrics_fold(struct tenant_metrics *t, int32_t tenant)
{
    uint32_t bit = (uint32_t)tenant % FOLDED_MAX;
    atomic_fetch_or_explicit(&t->folded[bit / 64], (uint64_t)1 << bit % 64, memory_order_relaxed);
    return &t->slots[0];
}

/* The lock is held. */
static struct tenant_slot *tenant_metrics_take_slot(struct tenant_metrics *t, int32_t tenant)
{
    struct tenant_slot *known = tenant_metrics_find(t, tenant);
    if (known)
        return known;
    for (size_t i = 1; i <= t->max; i++) {
        if (t->slots[i].tenant)
            continue;
        atomic_store_explicit(&t->slots[i].tenant, tenant, memory_order_relaxed);
        if (i > t->used)
            atomic_store_explicit(&t->used, i, memory_order_release);
        return &t->slots[i];
    }
    atomic_store_explicit(&t->full, true, memory_order_relaxed);
    return tenant_metrics_fold(t, tenant);
}

static struct tenant_slot *tenant_metrics_slot(struct tenant_metrics *t, int32_t tenant)
{
    assert(tenant > 0);
    struct tenant_slot *s = tenant_metrics_find(t, tenant);
    if (s)
        return s;
    if (atomic_load_explicit(&t->full, memory_order_relaxed))
        return tenant_metrics_fold(t, tenant);
    tenant_metrics_lock(t);
    s = tenant_metrics_take_slot(t, tenant);
    tenant_metrics_unlock(t);
    return s;
}

/* ---- counting ---- */

static void tenant_cell_add(atomic_int_least64_t *to, int64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static int64_t tenant_cell_get(const atomic_int_least64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

void tenant_metrics_count(struct tenant_metrics *t, int32_t tenant, enum tenant_outcome outcome)
{
    tenant_cell_add(&tenant_metrics_slot(t, tenant)->outcomes[outcome], 1);
}

void tenant_metrics_observe_delay_us(struct tenant_metrics *t, int32_t tenant, int64_t us)
{
    struct tenant_slot *s = tenant_metrics_slot(t, tenant);
    us = max_of(us, (int64_t)0);
    size_t bucket = 0;
    while (us > bounds[bucket].us)
        bucket++;
    tenant_cell_add(&s->buckets[bucket], 1);
    tenant_cell_add(&s->delay_us, us);
}

void tenant_metrics_set(struct tenant_metrics *t, enum tenant_gauge g, const struct tenant_figure *v, size_t n)
{
    tenant_metrics_lock(t);
    t->has_gauge[g] = v != NULL;
    for (size_t i = 0; i <= t->used; i++)
        t->slots[i].gauges[g] = 0;
    for (size_t i = 0; v && i < n; i++)
        tenant_metrics_take_slot(t, v[i].tenant)->gauges[g] += v[i].n;
    tenant_metrics_unlock(t);
}

/* ---- printing ---- */

static int64_t tenant_slot_sum(const struct tenant_slot *s)
{
    int64_t sum = 0;
    for (size_t i = 0; i < TENANT_OUTCOMES; i++)
        sum += tenant_cell_get(&s->outcomes[i]);
    for (size_t i = 0; i < array_count(bounds); i++)
        sum += tenant_cell_get(&s->buckets[i]);
    return sum;
}

static void tenant_slot_clear(struct tenant_slot *s)
{
    atomic_store_explicit(&s->tenant, 0, memory_order_relaxed);
    for (size_t i = 0; i < TENANT_OUTCOMES; i++)
        atomic_store_explicit(&s->outcomes[i], 0, memory_order_relaxed);
    for (size_t i = 0; i < array_count(bounds); i++)
        atomic_store_explicit(&s->buckets[i], 0, memory_order_relaxed);
    atomic_store_explicit(&s->delay_us, 0, memory_order_relaxed);
    s->seen = s->active_ms = 0;
}

/* Gives up the slots of tenants that were idle for a day. */
static void tenant_metrics_forget_idle(struct tenant_metrics *t, int64_t now_ms)
{
    for (size_t i = 1; i <= t->used; i++) {
        struct tenant_slot *s = &t->slots[i];
        int64_t sum = tenant_slot_sum(s);
        bool active = sum != s->seen || !s->active_ms || s->gauges[TENANT_RUNNING] || s->gauges[TENANT_BACKLOG];
        s->seen = sum;
        if (active || now_ms < s->active_ms)
            s->active_ms = now_ms;
        if (!s->tenant || now_ms - s->active_ms < IDLE_MS)
            continue;
        tenant_slot_clear(s);
        for (size_t k = 0; k < array_count(t->folded); k++)
            atomic_store_explicit(&t->folded[k], 0, memory_order_relaxed);
        atomic_store_explicit(&t->full, false, memory_order_relaxed);
    }
}

static void tenant_slot_print_name(const struct tenant_slot *s, const struct tenant_names *names, struct buf *out)
{
    if (s->tenant)
        names->name(names->context, s->tenant, out);
    else
        buf_text(out, TENANT_METRICS_OTHER);
}

static void tenant_slot_print_outcomes(const struct tenant_slot *s, const struct tenant_names *names, struct buf *out)
{
    for (size_t i = 0; i < TENANT_OUTCOMES; i++) {
        buf_text(out, "belfry_tenant_tasks_total{tenant=\"");
        tenant_slot_print_name(s, names, out);
        buf_printf(out, "\",outcome=\"%s\"} %" PRId64 "\n", outcome_names[i], tenant_cell_get(&s->outcomes[i]));
    }
}

static void tenant_slot_print_delay(const struct tenant_slot *s, const struct tenant_names *names, struct buf *out)
{
    int64_t count = 0, us = tenant_cell_get(&s->delay_us);
    for (size_t i = 0; i < array_count(bounds); i++) {
        count += tenant_cell_get(&s->buckets[i]);
        buf_text(out, "belfry_tenant_delay_seconds_bucket{tenant=\"");
        tenant_slot_print_name(s, names, out);
        buf_printf(out, "\",le=\"%s\"} %" PRId64 "\n", bounds[i].seconds, count);
    }
    buf_text(out, "belfry_tenant_delay_seconds_sum{tenant=\"");
    tenant_slot_print_name(s, names, out);
    buf_printf(out, "\"} %" PRId64 ".%06" PRId64 "\nbelfry_tenant_delay_seconds_count{tenant=\"", us / 1000000,
               us % 1000000);
    tenant_slot_print_name(s, names, out);
    buf_printf(out, "\"} %" PRId64 "\n", count);
}

static void tenant_metrics_print_gauge(const struct tenant_metrics *t, enum tenant_gauge g,
                                       const struct tenant_names *names, struct buf *out)
{
    const struct tenant_gauge_row *r = &gauge_rows[g];
    if (!t->has_gauge[g])
        return;
    buf_printf(out, "# HELP %s %s\n# TYPE %s gauge\n", r->name, r->help, r->name);
    for (size_t i = 0; i <= t->used; i++) {
        if (i && !t->slots[i].tenant)
            continue;
        buf_printf(out, "%s{tenant=\"", r->name);
        tenant_slot_print_name(&t->slots[i], names, out);
        buf_printf(out, "\"} %" PRId64 "\n", t->slots[i].gauges[g]);
    }
}

static int64_t tenant_metrics_folded(const struct tenant_metrics *t)
{
    int64_t n = 0;
    for (size_t i = 0; i < array_count(t->folded); i++)
        n += __builtin_popcountll(atomic_load_explicit(&t->folded[i], memory_order_relaxed));
    return n;
}

void tenant_metrics_print(struct tenant_metrics *t, int64_t now_ms, const struct tenant_names *names, struct buf *out)
{
    tenant_metrics_lock(t);
    tenant_metrics_forget_idle(t, now_ms);
    buf_text(out, "# HELP belfry_tenant_tasks_total Attempts and tasks of a tenant that ended, by how\n"
                  "# TYPE belfry_tenant_tasks_total counter\n");
    for (size_t i = 0; i <= t->used; i++)
        if (!i || t->slots[i].tenant)
            tenant_slot_print_outcomes(&t->slots[i], names, out);
    buf_text(out, "# HELP belfry_tenant_delay_seconds belfry_start_delay_seconds of a tenant\n"
                  "# TYPE belfry_tenant_delay_seconds histogram\n");
    for (size_t i = 0; i <= t->used; i++)
        if (!i || t->slots[i].tenant)
            tenant_slot_print_delay(&t->slots[i], names, out);
    for (int g = 0; g < TENANT_GAUGES; g++)
        tenant_metrics_print_gauge(t, (enum tenant_gauge)g, names, out);
    buf_printf(out,
               "# HELP belfry_series_folded Tenants and queues without series of their own: _other has their sum\n"
               "# TYPE belfry_series_folded gauge\nbelfry_series_folded{kind=\"tenant\"} %" PRId64 "\n",
               tenant_metrics_folded(t));
    tenant_metrics_unlock(t);
}

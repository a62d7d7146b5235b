/* Each number is one relaxed atomic: an update takes no lock, and no reader needs two numbers to agree. A histogram's
 * count is computed as the sum of its buckets while printing, so that the printed count and buckets agree even during
 * updates. */
#include "base/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/json/jsonw.h"
#include "base/stats/stats.h"
#include "base/tenant_metrics.h"

/* SECONDS: a counter of microseconds. OPTIONAL: a gauge that is printed while it is set. */
enum metric_type { COUNTER, GAUGE, HISTOGRAM, SECONDS, OPTIONAL };

static const char *const type_names[] = { "counter", "gauge", "histogram", "counter", "gauge" };

static const struct metric_row {
    enum metric_type type;
    const char *name, *help;
} rows[METRIC_COUNT] = {
#define X(id, type, name, help) [METRIC_##id] = { type, name, help },
    METRIC_MAP(X)
#undef X
};

enum metric_unit { COUNT, MICROSECONDS };

static const struct metric_labelled_row {
    enum metric_unit unit;
    const char *name, *label, *help;
} labelled_rows[METRIC_LABELLED_COUNT] = {
#define X(id, unit, name, label, help) [METRIC_##id] = { unit, name, label, help },
    METRIC_LABELLED_MAP(X)
#undef X
};

static const struct metric_pair_row {
    const char *name, *row, *column, *help;
} pair_rows[METRIC_PAIR_COUNT] = {
#define X(id, name, row, column, help) [METRIC_##id] = { name, row, column, help },
    METRIC_PAIR_MAP(X)
#undef X
};

/* Inclusive upper bounds of the buckets. The last bucket is unbounded. */
static const struct metric_bound {
    int64_t us;
    const char *seconds;
} bounds[] = {
    { 100, "0.0001" },  { 250, "0.00025" }, { 500, "0.0005" },  { 1000, "0.001" },     { 2500, "0.0025" },
    { 5000, "0.005" },  { 10000, "0.01" },  { 25000, "0.025" }, { 50000, "0.05" },     { 100000, "0.1" },
    { 250000, "0.25" }, { 500000, "0.5" },  { 1000000, "1" },   { 2500000, "2.5" },    { 5000000, "5" },
    { 10000000, "10" }, { 30000000, "30" }, { 60000000, "60" }, { INT64_MAX, "+Inf" },
};

/* A counter uses `sum`, a gauge `level`, a histogram `sum` (microseconds) and `buckets`. */
struct metric_cell {
    atomic_int_least64_t sum;
    _Atomic double level;
    atomic_bool is_set; /* if OPTIONAL */
    atomic_int_least64_t buckets[array_count(bounds)];
};

struct metric_labelled_cell {
    _Atomic(const char *) value; /* NULL: it was never counted */
    atomic_int_least64_t sum;
};

/* A value of a bucket. Who finds it busy leaves it. */
struct metric_exemplar {
    atomic_flag busy;               /* guards the rest */
    char trace[EXEMPLAR_TRACE + 1]; /* empty: there is none */
    int64_t us, at_ms;
};

enum { EXEMPLARS = 3 };

/* The counters of one row of a metric with two labels. */
struct metric_pair_cells {
    _Atomic(const char *) row; /* NULL: it was never counted */
    struct metric_labelled_cell columns[METRIC_COLUMNS_MAX];
};

struct metrics {
    struct metric_cell cells[METRIC_COUNT];
    struct metric_labelled_cell labelled[METRIC_LABELLED_COUNT][METRIC_LABELS_MAX];
    struct metric_pair_cells pairs[METRIC_PAIR_COUNT][METRIC_ROWS_MAX];
    struct metric_exemplar exemplars[EXEMPLARS][array_count(bounds)];
    struct tenant_metrics *tenants;
    struct stats_counters *stats;
};

struct metrics *metrics_new(void)
{
    struct metrics *m = xnew(*m);
    m->tenants = tenant_metrics_new();
    m->stats = stats_counters_new();
    return m;
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    tenant_metrics_free(m->tenants);
    stats_counters_free(m->stats);
    free(m);
}

struct tenant_metrics *metrics_tenants(struct metrics *m)
{
    return m->tenants;
}

struct stats_counters *metrics_stats(struct metrics *m)
{
    return m->stats;
}

static void metric_cell_add(atomic_int_least64_t *to, int64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static int64_t metric_cell_get(const atomic_int_least64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

void metric_add(struct metrics *m, enum metric id, int64_t n)
{
    assert((rows[id].type == COUNTER || rows[id].type == SECONDS) && n >= 0);
    metric_cell_add(&m->cells[id].sum, n);
}

void metric_add_for(struct metrics *m, enum metric id, int32_t tenant, int64_t n)
{
    static const enum stats_id figures[METRIC_COUNT] = {
        [METRIC_TASKS_SCHEDULED] = STAT_CREATED,
        [METRIC_RUNS_SKIPPED] = STAT_SKIPPED,
        [METRIC_TASKS_EXPIRED] = STAT_EXPIRED,
    };
    assert(figures[id] || id == METRIC_TASKS_SCHEDULED);
    if (!tenant) /* Belfry's own work */
        return;
    metric_add(m, id, n);
    stats_count(m->stats, tenant, figures[id], n);
}

void metric_set(struct metrics *m, enum metric id, double value)
{
    assert((rows[id].type == GAUGE || rows[id].type == OPTIONAL) && isfinite(value));
    atomic_store_explicit(&m->cells[id].level, value, memory_order_relaxed);
    atomic_store_explicit(&m->cells[id].is_set, true, memory_order_relaxed);
}

void metric_unset(struct metrics *m, enum metric id)
{
    assert(rows[id].type == OPTIONAL);
    atomic_store_explicit(&m->cells[id].is_set, false, memory_order_relaxed);
}

static size_t metric_bucket_of(int64_t us)
{
    size_t bucket = 0;
    while (us > bounds[bucket].us)
        bucket++;
    return bucket;
}

void metric_observe_us(struct metrics *m, enum metric id, int64_t us)
{
    assert(rows[id].type == HISTOGRAM);
    us = max_of(us, (int64_t)0);
    size_t bucket = metric_bucket_of(us);
    metric_cell_add(&m->cells[id].buckets[bucket], 1);
    metric_cell_add(&m->cells[id].sum, us);
}

/* The exemplars of a histogram, one for each bucket; NULL: it has none. */
static struct metric_exemplar *metric_exemplars_of(struct metrics *m, enum metric id)
{
    static const enum metric with[EXEMPLARS] = { METRIC_EXECUTION_DELAY, METRIC_EXECUTION_TIME, METRIC_START_DELAY };
    for (size_t i = 0; i < EXEMPLARS; i++)
        if (with[i] == id)
            return m->exemplars[i];
    return NULL;
}

void metric_note_exemplar(struct metrics *m, enum metric id, int64_t us, const char trace[EXEMPLAR_TRACE],
                          int64_t now_ms)
{
    struct metric_exemplar *v = metric_exemplars_of(m, id);
    assert(v);
    us = max_of(us, (int64_t)0);
    struct metric_exemplar *x = &v[metric_bucket_of(us)];
    if (atomic_flag_test_and_set_explicit(&x->busy, memory_order_acquire))
        return;
    memcpy(x->trace, trace, EXEMPLAR_TRACE);
    x->us = us;
    x->at_ms = now_ms;
    atomic_flag_clear_explicit(&x->busy, memory_order_release);
}

int64_t metric_count(const struct metrics *m, enum metric id)
{
    assert(rows[id].type != GAUGE && rows[id].type != OPTIONAL);
    if (rows[id].type != HISTOGRAM)
        return metric_cell_get(&m->cells[id].sum);
    int64_t count = 0;
    for (size_t i = 0; i < array_count(bounds); i++)
        count += metric_cell_get(&m->cells[id].buckets[i]);
    return count;
}

int64_t metric_count_up_to(const struct metrics *m, enum metric id, int64_t us)
{
    assert(rows[id].type == HISTOGRAM);
    int64_t count = 0;
    for (size_t i = 0; i < array_count(bounds) && bounds[i].us <= us; i++)
        count += metric_cell_get(&m->cells[id].buckets[i]);
    return count;
}

void metric_add_labelled(struct metrics *m, enum metric_labelled id, const char *const *names, size_t value, int64_t n)
{
    assert(value < METRIC_LABELS_MAX && n >= 0);
    struct metric_labelled_cell *c = &m->labelled[id][value];
    atomic_store_explicit(&c->value, names[value], memory_order_relaxed);
    metric_cell_add(&c->sum, n);
}

int64_t metric_count_labelled(const struct metrics *m, enum metric_labelled id, size_t value)
{
    assert(value < METRIC_LABELS_MAX);
    return metric_cell_get(&m->labelled[id][value].sum);
}

void metric_add_pair(struct metrics *m, enum metric_pair id, size_t row, const char *row_name, size_t column,
                     const char *column_name)
{
    assert(row < METRIC_ROWS_MAX && column < METRIC_COLUMNS_MAX);
    struct metric_pair_cells *r = &m->pairs[id][row];
    atomic_store_explicit(&r->row, row_name, memory_order_relaxed);
    atomic_store_explicit(&r->columns[column].value, column_name, memory_order_relaxed);
    metric_cell_add(&r->columns[column].sum, 1);
}

double metric_level(const struct metrics *m, enum metric id)
{
    assert(rows[id].type == GAUGE || rows[id].type == OPTIONAL);
    return atomic_load_explicit(&m->cells[id].level, memory_order_relaxed);
}

void metric_print_label(struct str s, struct buf *out)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        buf_char(out, c < ' ' || c == '"' || c == '\\' || c > '~' ? '_' : (char)c);
    }
}

static void metric_print_seconds(int64_t us, struct buf *out)
{
    buf_printf(out, "%" PRId64 ".%06" PRId64 "\n", us / 1000000, us % 1000000);
}

/* " # {trace_id="…"} value time", if the bucket has an exemplar. */
static void metric_print_exemplar(struct metric_exemplar *x, struct buf *out)
{
    if (atomic_flag_test_and_set_explicit(&x->busy, memory_order_acquire))
        return;
    if (x->trace[0])
        buf_printf(out, " # {trace_id=\"%s\"} %" PRId64 ".%06" PRId64 " %" PRId64 ".%03" PRId64, x->trace,
                   x->us / 1000000, x->us % 1000000, x->at_ms / 1000, x->at_ms % 1000);
    atomic_flag_clear_explicit(&x->busy, memory_order_release);
}

/* x: the exemplars of the buckets; NULL: they are not printed. */
static void metric_print_histogram(const char *name, const struct metric_cell *c, struct metric_exemplar *x,
                                   struct buf *out)
{
    int64_t count = 0;
    for (size_t i = 0; i < array_count(bounds); i++) {
        count += metric_cell_get(&c->buckets[i]);
        buf_printf(out, "%s_bucket{le=\"%s\"} %" PRId64, name, bounds[i].seconds, count);
        if (x)
            metric_print_exemplar(&x[i], out);
        buf_char(out, '\n');
    }
    buf_printf(out, "%s_sum ", name);
    metric_print_seconds(metric_cell_get(&c->sum), out);
    buf_printf(out, "%s_count %" PRId64 "\n", name, count);
}

static void metric_print_gauge(const char *name, double level, struct buf *out)
{
    struct jw w;
    buf_printf(out, "%s ", name);
    jw_init(&w, out);
    jw_f64(&w, level);
    buf_char(out, '\n');
}

static void metrics_print_labelled(const struct metrics *m, size_t id, struct buf *out)
{
    const struct metric_labelled_row *r = &labelled_rows[id];
    buf_printf(out, "# HELP %s %s\n# TYPE %s counter\n", r->name, r->help, r->name);
    for (size_t i = 0; i < METRIC_LABELS_MAX; i++) {
        const char *value = atomic_load_explicit(&m->labelled[id][i].value, memory_order_relaxed);
        int64_t sum = metric_cell_get(&m->labelled[id][i].sum);
        if (!value)
            continue;
        buf_printf(out, "%s{%s=\"%s\"} ", r->name, r->label, value);
        if (r->unit == MICROSECONDS)
            metric_print_seconds(sum, out);
        else
            buf_printf(out, "%" PRId64 "\n", sum);
    }
}

static void metrics_print_pairs(const struct metrics *m, size_t id, struct buf *out)
{
    const struct metric_pair_row *r = &pair_rows[id];
    buf_printf(out, "# HELP %s %s\n# TYPE %s counter\n", r->name, r->help, r->name);
    for (size_t i = 0; i < METRIC_ROWS_MAX * METRIC_COLUMNS_MAX; i++) {
        const struct metric_pair_cells *row = &m->pairs[id][i / METRIC_COLUMNS_MAX];
        const struct metric_labelled_cell *c = &row->columns[i % METRIC_COLUMNS_MAX];
        const char *value = atomic_load_explicit(&c->value, memory_order_relaxed);
        if (value)
            buf_printf(out, "%s{%s=\"%s\",%s=\"%s\"} %" PRId64 "\n", r->name, r->row,
                       atomic_load_explicit(&row->row, memory_order_relaxed), r->column, value,
                       metric_cell_get(&c->sum));
    }
}

static void metric_print(const struct metrics *m, enum metric id, struct metric_exemplar *x, struct buf *out)
{
    const struct metric_row *r = &rows[id];
    const struct metric_cell *c = &m->cells[id];
    if (r->type == OPTIONAL && !atomic_load_explicit(&c->is_set, memory_order_relaxed))
        return;
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", r->name, r->help, r->name, type_names[r->type]);
    if (r->type == HISTOGRAM)
        metric_print_histogram(r->name, c, x, out);
    else if (r->type == GAUGE || r->type == OPTIONAL)
        metric_print_gauge(r->name, metric_level(m, id), out);
    else if (r->type == SECONDS) {
        buf_printf(out, "%s ", r->name);
        metric_print_seconds(metric_cell_get(&c->sum), out);
    } else
        buf_printf(out, "%s %" PRId64 "\n", r->name, metric_cell_get(&c->sum));
}

static void metrics_print_with_labels(const struct metrics *m, struct buf *out)
{
    for (size_t i = 0; i < METRIC_LABELLED_COUNT; i++)
        metrics_print_labelled(m, i, out);
    for (size_t i = 0; i < METRIC_PAIR_COUNT; i++)
        metrics_print_pairs(m, i, out);
}

void metrics_print(const struct metrics *m, struct buf *out)
{
    for (size_t i = 0; i < METRIC_COUNT; i++)
        metric_print(m, (enum metric)i, NULL, out);
    metrics_print_with_labels(m, out);
}

void metrics_print_exemplars(struct metrics *m, struct buf *out)
{
    for (size_t i = 0; i < METRIC_COUNT; i++)
        metric_print(m, (enum metric)i, metric_exemplars_of(m, (enum metric)i), out);
    metrics_print_with_labels(m, out);
}

void metrics_print_some(const struct metrics *m, const enum metric *ids, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++)
        metric_print(m, ids[i], NULL, out);
    for (size_t i = 0; i < METRIC_LABELLED_COUNT; i++)
        metrics_print_labelled(m, i, out);
}

void metrics_print_some_exemplars(struct metrics *m, const enum metric *ids, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++)
        metric_print(m, ids[i], metric_exemplars_of(m, ids[i]), out);
    for (size_t i = 0; i < METRIC_LABELLED_COUNT; i++)
        metrics_print_labelled(m, i, out);
}

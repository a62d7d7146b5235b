#include "server/backlog.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/tenant_metrics.h"
#include "base/thread_owner.h"
#include "platform/clock_system.h"

enum {
    BACKLOG_ARENA = 32 << 20,
    TENANT_ARENA = 64 << 10,
    EVERY_MS = 5000,
    EVERY_COSTS = 50, /* counting takes at most a fiftieth of the time */
    QUEUES_MAX = 50,  /* that have a line of their own: the longest ones */
    NAME_TEXT = 256,
    STALE_MS = 120000, /* a count that is older is not shown */
};

struct queue_backlog {
    char tenant[NAME_TEXT], queue[NAME_TEXT];
    int64_t due;
};

/* What was counted last. */
struct backlog_counts {
    int64_t at_ns; /* steady; 0: nothing was counted */
    int64_t total, by_class[CLASS_HIGH + 1], other;
    int64_t folded; /* queues in `other` */
    int64_t busy_milli;
    int64_t by_partition[PARTITIONS];
    struct queue_backlog queues[QUEUES_MAX];
    size_t n;
};

struct backlog {
    struct backlog_setup setup;
    struct reader *reader;
    pthread_t thread;
    struct thread_owner owner; /* the thread: it uses the reader and the next */
    struct workers_wanted wanted;
    bool was_mine;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t wakeup;
    bool stopping;
    struct backlog_counts counts;
    int64_t mine_ns;               /* steady: since when this node measures; 0: it does not */
    struct tenant_figure *tenants; /* NULL: this node does not measure */
    size_t tenant_count;
};

/* ---- counting ---- */

static bool backlog_is_open(struct backlog *b, const struct backlog_row *row, struct arena *a,
                            struct tenant_rules *ret_tenant)
{
    if (!catalog_cache_tenant(b->setup.catalog, row->tenant, a, ret_tenant) || ret_tenant->disabled)
        return false;
    struct queue_rules rules = catalog_cache_queue(b->setup.catalog, row->tenant, row->queue, NULL);
    return !queue_is_paused(&rules, clock_wall_ms(b->setup.clock));
}

static void backlog_copy_text(struct str s, char out[NAME_TEXT])
{
    cleanup_with(buf_release) struct buf label;
    buf_init(&label, NAME_TEXT);
    metric_print_label(str_sub(s, 0, min_of(s.n, (size_t)NAME_TEXT - 1)), &label);
    snprintf(out, NAME_TEXT, "%s", buf_cstr(&label));
}

/* Adds a queue to the longest ones; what has no line of its own is in `other`. Queues whose names differ only in what a
 * label cannot hold share a line. */
static void backlog_add_queue(struct backlog_counts *c, struct str tenant, struct str queue, int64_t due)
{
    struct queue_backlog row = { .due = due };
    backlog_copy_text(tenant, row.tenant);
    backlog_copy_text(queue, row.queue);
    size_t at = c->n, least = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->queues[i].queue, row.queue) == 0 && strcmp(c->queues[i].tenant, row.tenant) == 0)
            at = i;
        if (c->queues[i].due < c->queues[least].due)
            least = i;
    }
    if (at < c->n) {
        c->queues[at].due += due;
    } else if (c->n < QUEUES_MAX) {
        c->queues[c->n++] = row;
    } else if (c->queues[least].due < due) {
        c->other += c->queues[least].due;
        c->queues[least] = row;
        c->folded++;
    } else {
        c->other += due;
        c->folded++;
    }
}

static int backlog_compare_rows(const void *x, const void *y)
{
    const struct backlog_row *a = x, *b = y;
    int order = (a->tenant > b->tenant) - (a->tenant < b->tenant);
    return order ? order : str_cmp(a->queue, b->queue);
}

static void backlog_add_tenant(struct tenant_figure *tenants, size_t *n, int32_t tenant, int64_t due)
{
    if (*n && tenants[*n - 1].tenant == tenant)
        tenants[*n - 1].n += due;
    else
        tenants[(*n)++] = (struct tenant_figure){ .tenant = tenant, .n = due };
}

/* Takes the array. NULL: this node does not measure. */
static void backlog_set_tenants(struct backlog *b, struct tenant_figure *tenants, size_t n)
{
    tenant_metrics_set(metrics_tenants(b->setup.metrics), TENANT_BACKLOG, tenants, n);
    pthread_mutex_lock(&b->lock);
    free(b->tenants);
    b->tenants = tenants;
    b->tenant_count = n;
    pthread_mutex_unlock(&b->lock);
}

/* Rows of one queue, of several lanes, become one, so that the choice of the longest queues is right. */
static void backlog_merge(struct backlog *b, struct backlog_rows *rows, struct backlog_counts *ret)
{
    struct tenant_figure *tenants = xcalloc(rows->n + 1, sizeof *tenants);
    size_t tenant_count = 0;
    cleanup_with(arena_release) struct arena a;
    struct tenant_rules tenant;
    arena_init(&a, TENANT_ARENA);
    qsort(rows->v, rows->n, sizeof *rows->v, backlog_compare_rows);
    for (size_t i = 0, next; i < rows->n; i = next) {
        int64_t due = 0;
        arena_reset(&a);
        bool open = backlog_is_open(b, &rows->v[i], &a, &tenant);
        for (next = i; next < rows->n && backlog_compare_rows(&rows->v[i], &rows->v[next]) == 0; next++) {
            due += rows->v[next].due;
            if (open)
                ret->by_class[priority_class_of(rows->v[next].priority)] += rows->v[next].due;
        }
        if (open && due) {
            ret->total += due;
            backlog_add_queue(ret, tenant.name, rows->v[i].queue, due);
            backlog_add_tenant(tenants, &tenant_count, rows->v[i].tenant, due);
        }
    }
    backlog_set_tenants(b, tenants, tenant_count);
}

static enum err backlog_count(struct backlog *b, struct backlog_counts *ret, struct error *e)
{
    cleanup_with(arena_release) struct arena a;
    struct backlog_rows rows = { 0 };
    arena_init(&a, BACKLOG_ARENA);
    assert_owned(&b->owner);
    if ((!b->reader && store_reader(b->setup.store, &b->reader, e)) ||
        reader_backlog(b->reader, clock_wall_ms(b->setup.clock), &a, &rows, e))
        return e->code;
    backlog_merge(b, &rows, ret);
    memcpy(ret->by_partition, rows.by_partition, sizeof ret->by_partition);
    ret->total += b->setup.waiting(b->setup.context);
    ret->busy_milli = b->setup.busy_milli(b->setup.context, b->reader);
    ret->at_ns = clock_steady_ns(b->setup.clock);
    return ERR_OK;
}

static void backlog_want_workers(struct backlog *b, const struct backlog_counts *counts)
{
    struct workload now = b->setup.workload(b->setup.context);
    if (!b->was_mine)
        workers_wanted_init(&b->wanted, b->setup.wanted_before(b->setup.context));
    b->was_mine = true;
    now.at_ns = counts->at_ns;
    now.backlog = counts->total;
    int64_t wanted = workers_wanted_add(&b->wanted, &now);
    if (wanted >= 0)
        metric_set(b->setup.metrics, METRIC_WORKERS_WANTED, (double)wanted);
}

/* This node is not the one that measures. */
static void backlog_stop_showing(struct backlog *b)
{
    b->was_mine = false;
    metric_unset(b->setup.metrics, METRIC_WORKERS_WANTED);
    backlog_set_tenants(b, NULL, 0);
}

/* Returns after how many milliseconds it is to count again. */
static int64_t backlog_measure(struct backlog *b)
{
    struct error e = { 0 };
    struct backlog_counts counts = { 0 };
    int64_t begun_ns = clock_steady_ns(b->setup.clock);
    bool mine = b->setup.is_mine(b->setup.context);
    enum err rc = mine ? backlog_count(b, &counts, &e) : ERR_OK;
    if (rc)
        log_debug("backlog_not_counted", kv_err(&e));
    else if (mine)
        backlog_want_workers(b, &counts);
    else
        backlog_stop_showing(b);
    pthread_mutex_lock(&b->lock);
    if (!rc)
        b->counts = counts;
    b->mine_ns = !mine ? 0 : b->mine_ns ? b->mine_ns : begun_ns;
    pthread_mutex_unlock(&b->lock);
    int64_t cost_ms = (clock_steady_ns(b->setup.clock) - begun_ns) / 1000000; /* without what others do with it */
    if (!rc)
        b->setup.counted(b->setup.context, mine, b->reader);
    return max_of(cost_ms * EVERY_COSTS, (int64_t)EVERY_MS);
}

static void *backlog_thread(void *context)
{
    struct backlog *b = context;
    thread_owner_take(&b->owner);
    while (!clock_condition_pause(&b->wakeup, &b->lock, &b->stopping, backlog_measure(b)))
        ;
    return NULL;
}

/* ---- showing ---- */

static void backlog_print_queues(const struct backlog_counts *c, struct buf *out)
{
    buf_text(out,
             "# HELP belfry_queue_backlog Due tasks in the store that wait, by queue: the 50 longest, and the sum of "
             "the others\n# TYPE belfry_queue_backlog gauge\n");
    for (size_t i = 0; i < c->n; i++)
        buf_printf(out, "belfry_queue_backlog{tenant=\"%s\",queue=\"%s\"} %lld\n", c->queues[i].tenant,
                   c->queues[i].queue, (long long)c->queues[i].due);
    if (c->other)
        buf_printf(out, "belfry_queue_backlog{tenant=\"_other\",queue=\"_other\"} %lld\n", (long long)c->other);
}

/* How long ago the count was made, or since when this node tries to; 0: it does not measure. */
static int64_t backlog_age_ns(const struct backlog *b, const struct backlog_counts *c, int64_t mine_ns)
{
    int64_t from_ns = c->at_ns ? c->at_ns : mine_ns;
    return from_ns && mine_ns ? max_of(clock_steady_ns(b->setup.clock) - from_ns, (int64_t)1) : 0;
}

int64_t backlog_counted_ms(struct backlog *b)
{
    pthread_mutex_lock(&b->lock);
    int64_t age_ns = backlog_age_ns(b, &b->counts, b->mine_ns);
    pthread_mutex_unlock(&b->lock);
    return age_ns ? clock_wall_ms(b->setup.clock) - age_ns / 1000000 : 0;
}

void backlog_print(struct backlog *b, struct buf *out)
{
    struct backlog_counts *c = xnew(*c);
    pthread_mutex_lock(&b->lock);
    *c = b->counts;
    int64_t mine_ns = b->mine_ns;
    pthread_mutex_unlock(&b->lock);
    int64_t age_ns = backlog_age_ns(b, c, mine_ns);
    if (age_ns)
        buf_printf(out,
                   "# HELP belfry_queue_depth_age_seconds How long ago belfry_queue_depth was counted\n"
                   "# TYPE belfry_queue_depth_age_seconds gauge\nbelfry_queue_depth_age_seconds %.3f\n",
                   (double)age_ns / 1e9);
    if (c->at_ns && age_ns < (int64_t)STALE_MS * 1000000) {
        buf_printf(out,
                   "# HELP belfry_queue_depth Due tasks that wait for their start, over all nodes; only on the leader\n"
                   "# TYPE belfry_queue_depth gauge\nbelfry_queue_depth %lld\n"
                   "# HELP belfry_backlog Due tasks in the store that wait, by priority class\n"
                   "# TYPE belfry_backlog gauge\n",
                   (long long)c->total);
        for (size_t i = 0; i < CLASSES; i++)
            buf_printf(out, "belfry_backlog{class=\"%s\"} %lld\n", priority_class_names[i], (long long)c->by_class[i]);
        backlog_print_queues(c, out);
        b->setup.print_due(b->setup.context, c->by_partition, out);
    }
    free(c);
}

int64_t backlog_of_tenant(struct backlog *b, int32_t tenant)
{
    pthread_mutex_lock(&b->lock);
    int64_t due = b->tenants ? 0 : -1;
    for (size_t i = 0; i < b->tenant_count; i++)
        due += b->tenants[i].tenant == tenant ? b->tenants[i].n : 0;
    pthread_mutex_unlock(&b->lock);
    return due;
}

int64_t backlog_folded(struct backlog *b)
{
    pthread_mutex_lock(&b->lock);
    int64_t folded = b->counts.folded;
    pthread_mutex_unlock(&b->lock);
    return folded;
}

/* ---- figures of a minute ---- */

int64_t backlog_busy_workers(struct reader *r, int64_t now_ms)
{
    cleanup_with(arena_release) struct arena a;
    struct worker_rows rows = { 0 };
    struct error e = { 0 };
    int64_t running = 0, slots = 0;
    arena_init(&a, BACKLOG_ARENA);
    if (reader_workers(r, (struct uuid){ 0 }, LIST_MAX, &a, &rows, &e))
        log_debug("workers_not_counted", kv_err(&e));
    for (size_t i = 0; i < rows.n; i++) {
        const struct worker_row *w = &rows.v[i];
        if (w->left_ms || now_ms - w->seen_ms > WORKER_SILENT_MS)
            continue;
        running += w->running;
        slots += w->slots;
    }
    return slots ? running * 1000 / slots : 0;
}

void backlog_measure_stats(struct backlog *b, struct stats *all, struct stats_counters *tenants)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    bool known = b->counts.at_ns && clock_steady_ns(b->setup.clock) - b->counts.at_ns < (int64_t)STALE_MS * 1000000;
    if (known) {
        all->v[STAT_BACKLOG] = b->counts.total;
        all->v[STAT_BUSY_MILLI] = b->counts.busy_milli;
    }
    for (size_t i = 0; known && i < b->tenant_count; i++)
        stats_count(tenants, b->tenants[i].tenant, STAT_BACKLOG, b->tenants[i].n);
    pthread_mutex_unlock(&b->lock);
}

/* ---- construction and destruction ---- */

enum err backlog_new(const struct backlog_setup *setup, struct backlog **ret, struct error *e)
{
    struct backlog *b = xnew(*b);
    b->setup = *setup;
    pthread_mutex_init(&b->lock, NULL);
    clock_condition_init(&b->wakeup);
    int why = pthread_create(&b->thread, NULL, backlog_thread, b);
    if (why) {
        free(b);
        return error_set(e, ERR_UNAVAILABLE, "cannot start a thread: %s", strerror(why));
    }
    *ret = b;
    return ERR_OK;
}

void backlog_free(struct backlog *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->stopping = true;
    pthread_cond_signal(&b->wakeup);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    reader_free(b->reader);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->wakeup);
    free(b->tenants);
    free(b);
}

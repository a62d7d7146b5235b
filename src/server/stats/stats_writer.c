#include "server/stats/stats_writer.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum {
    RETRY_MS = 5000,
    ARENA_MAX = 1 << 16,
    HALF_MINUTE_MS = STATS_MINUTE_MS / 2,
    SKEW_WORTH_MS = 500, /* a clock that is wrong by less is no reason to write a row */
};

/* ---- the figures of the node ---- */

static const struct stats_counter {
    enum stats_id figure;
    enum metric metric;
} node_counters[] = { { STAT_CLAIMED, METRIC_TASKS_CLAIMED },
                      { STAT_CLAIM_FAILURES, METRIC_CLAIM_FAILURES },
                      { STAT_REQUESTS, METRIC_HTTP_REQUESTS },
                      { STAT_REQUEST_ERRORS, METRIC_HTTP_ERRORS } };

/* As they stand since the start of the process. */
static void stats_writer_read_node(const struct stats_writer *w, struct stats *ret)
{
    const struct metrics *m = w->setup.metrics;
    int64_t below = 0;
    for (size_t i = 0; i < array_count(node_counters); i++)
        ret->v[node_counters[i].figure] = metric_count(m, node_counters[i].metric);
    for (size_t i = 0; i < STATS_BUCKETS_COUNT; i++) {
        int64_t up_to = metric_count_up_to(m, METRIC_STORE_WAIT, stats_bounds_us[i]);
        ret->v[STAT_STORE_WAIT_0 + i] = max_of(up_to - below, (int64_t)0);
        below = up_to;
    }
}

/* Whether a minute in which no tenant had anything is worth a row. Requests and waits for the store alone are not: they
 * go on in an idle cluster. */
static bool stats_writer_has_news(const struct stats *s)
{
    return s->v[STAT_CLAIMED] || s->v[STAT_CLAIM_FAILURES] || s->v[STAT_REQUEST_ERRORS] || s->v[STAT_BACKLOG] ||
           s->v[STAT_BUSY_MILLI] || s->v[STAT_SKEW_MS] >= SKEW_WORTH_MS;
}

/* ---- the rows of a minute ---- */

static struct stats_row stats_writer_row(const struct stats_writer *w, int64_t minute_ms, int32_t tenant)
{
    return (struct stats_row){
        .minute_ms = minute_ms, .node = w->setup.node(w->setup.context), .tenant = tenant, .written = w->written
    };
}

static void stats_writer_add_rows(struct stats_writer *w, int64_t minute_ms, const struct tenant_stats *tenants,
                                  size_t n, struct stats_row *all)
{
    w->op.n = n + 1;
    w->rows = xcalloc(w->op.n, sizeof *w->rows);
    for (size_t i = 0; i < n; i++) {
        w->rows[i] = stats_writer_row(w, minute_ms, tenants[i].tenant);
        w->rows[i].stats = tenants[i].stats;
    }
    w->rows[n] = *all;
}

/* Moves what was counted since the last row into rows of this minute, if there is anything. */
static void stats_writer_take(struct stats_writer *w, int64_t minute_ms, int64_t now_ms)
{
    struct stats now = { 0 };
    size_t n;
    w->written = max_of(w->written + 1, now_ms);
    struct stats_row all = stats_writer_row(w, minute_ms, STATS_ALL);
    w->setup.measure(w->setup.context, &all.stats, metrics_stats(w->setup.metrics));
    struct tenant_stats *tenants = stats_take(metrics_stats(w->setup.metrics), &n);
    stats_writer_read_node(w, &now);
    for (size_t i = 0; i < STATS; i++)
        all.stats.v[i] += now.v[i] - w->seen.v[i];
    for (size_t i = 0; i < n; i++)
        stats_add(&all.stats, &tenants[i].stats);
    if (n || stats_writer_has_news(&all.stats)) {
        stats_writer_add_rows(w, minute_ms, tenants, n, &all);
        w->seen = now;
    }
    memcpy(&w->seen.v[STAT_STORE_WAIT_0], &now.v[STAT_STORE_WAIT_0], STATS_BUCKETS_COUNT * sizeof now.v[0]);
    free(tenants);
}

/* ---- writing ---- */

static void stats_writer_on_timer(uv_timer_t *timer);

static void stats_writer_schedule(struct stats_writer *w)
{
    int64_t rest_ms = STATS_MINUTE_MS - clock_wall_ms(w->setup.clock) % STATS_MINUTE_MS;
    uv_update_time(w->setup.loop); /* timers count from there: if the loop was busy, the minute would end too early */
    if (!w->stopped)
        uv_timer_start(&w->timer, stats_writer_on_timer,
                       (uint64_t)(w->failed ? min_of(rest_ms, (int64_t)RETRY_MS) : rest_ms), 0);
}

static void stats_writer_on_written(struct op *op)
{
    struct stats_writer *w = op->context;
    w->busy = false;
    w->failed = op->rc != ERR_OK;
    arena_release(&op->arena);
    if (w->failed)
        log_warn("stats_not_written", kv_err(&op->error));
    else
        free(take(w->rows));
    stats_writer_schedule(w);
}

static void stats_writer_submit(struct stats_writer *w)
{
    w->op.op = (struct op){ .kind = OP_STATS, .done = stats_writer_on_written, .context = w };
    w->op.v = w->rows;
    arena_init(&w->op.op.arena, ARENA_MAX);
    w->busy = true;
    writer_submit(w->setup.writer, &w->op.op);
}

/* Rows that the store has not taken yet go first. What was counted meanwhile belongs to a later minute then. */
static void stats_writer_on_timer(uv_timer_t *timer)
{
    struct stats_writer *w = timer->data;
    int64_t now_ms = clock_wall_ms(w->setup.clock);
    if (w->busy)
        return;
    bool has_joined = !uuid_is_nil(w->setup.node(w->setup.context)); /* else it counts on */
    if (!w->rows && has_joined)
        stats_writer_take(w, (now_ms - HALF_MINUTE_MS) / STATS_MINUTE_MS * STATS_MINUTE_MS, now_ms);
    if (w->rows)
        stats_writer_submit(w);
    else
        stats_writer_schedule(w);
}

void stats_writer_start(struct stats_writer *w, const struct stats_writer_setup *setup)
{
    *w = (struct stats_writer){ .setup = *setup };
    uv_timer_init(setup->loop, &w->timer);
    w->timer.data = w;
    stats_writer_schedule(w);
}

bool stats_writer_finish(struct stats_writer *w)
{
    int64_t now_ms = clock_wall_ms(w->setup.clock);
    w->stopped = true;
    uv_timer_stop(&w->timer);
    if (w->busy || w->finished)
        return !w->busy;
    w->finished = !w->rows || w->tried_last; /* rows that are left get one more try, then the last minute */
    w->tried_last = true;
    if (!w->rows && !uuid_is_nil(w->setup.node(w->setup.context)))
        stats_writer_take(w, now_ms / STATS_MINUTE_MS * STATS_MINUTE_MS, now_ms);
    else if (w->finished)
        return true;
    if (w->rows)
        stats_writer_submit(w);
    return w->finished && !w->busy;
}

void stats_writer_close(struct stats_writer *w)
{
    w->stopped = true;
    if (!w->busy)
        free(take(w->rows));
    uv_close((uv_handle_t *)&w->timer, NULL);
}

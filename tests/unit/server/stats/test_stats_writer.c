/* The rows of a minute: which are written, when, and what happens if the store does not answer. */
#include <stdlib.h>

#include "check.h"
#include "server/stats/stats_writer.h"

#define MINUTE INT64_C(1770710400000) /* 2026-02-10T08:00:00Z */
enum { ROWS_MAX = 8, SOON_MS = 20 };

struct world {
    struct clock clock;
    struct writer writer;
    struct metrics *metrics;
    struct stats_writer stats;
    uv_loop_t loop;
    int64_t now_ms;
    struct stats now; /* what measure adds */
    enum err answer;
    bool hold; /* the operation is not answered yet */
    struct op *held;
    struct stats_row rows[ROWS_MAX]; /* of the last operation */
    size_t n, writes;
};

static int64_t wall_us(struct clock *c)
{
    return container_of(c, struct world, clock)->now_ms * 1000;
}

static void submit(struct writer *writer, struct op *op)
{
    struct world *w = container_of(writer, struct world, writer);
    const struct op_stats *stats = container_of(op, struct op_stats, op);
    assert_int_equal(op->kind, OP_STATS);
    assert_true(stats->n > 0 && stats->n <= ROWS_MAX);
    memcpy(w->rows, stats->v, stats->n * sizeof *w->rows);
    w->n = stats->n;
    w->writes++;
    op->rc = w->answer;
    if (op->rc)
        error_set(&op->error, op->rc, "the store is down");
    if (w->hold)
        w->held = op;
    else
        op->done(op);
}

static struct uuid node_id(void *context)
{
    (void)context;
    return (struct uuid){ { 7 } };
}

static void measure(void *context, struct stats *all, struct stats_counters *tenants)
{
    struct world *w = context;
    *all = w->now;
    stats_count(tenants, 3, STAT_BACKLOG, w->now.v[STAT_BACKLOG]);
}

static int open_world(void **state)
{
    static const struct clock_ops clock = { .wall_us = wall_us };
    static const struct writer_ops writer = { .submit = submit };
    struct world *w = xnew(*w);
    w->clock.ops = &clock;
    w->writer.ops = &writer;
    w->metrics = metrics_new();
    uv_loop_init(&w->loop);
    w->now_ms = MINUTE + STATS_MINUTE_MS - SOON_MS;
    stats_writer_start(&w->stats, &(struct stats_writer_setup){ .loop = &w->loop,
                                                                .writer = &w->writer,
                                                                .clock = &w->clock,
                                                                .metrics = w->metrics,
                                                                .node = node_id,
                                                                .measure = measure,
                                                                .context = w });
    *state = w;
    return 0;
}

static int close_world(void **state)
{
    struct world *w = *state;
    stats_writer_close(&w->stats);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    metrics_free(w->metrics);
    free(w);
    return 0;
}

/* Lets the timer fire, which stands SOON_MS before the end of the minute, at this time. */
static void minute_ends(struct world *w, int64_t now_ms)
{
    w->now_ms = now_ms;
    uv_run(&w->loop, UV_RUN_ONCE);
}

static const struct stats_row *row_of(const struct world *w, int32_t tenant)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->rows[i].tenant == tenant)
            return &w->rows[i];
    return NULL;
}

static void a_minute_has_a_row_for_each_tenant_and_one_of_all(void **state)
{
    struct world *w = *state;
    metric_add_for(w->metrics, METRIC_TASKS_SCHEDULED, 1, 5);
    metric_add_for(w->metrics, METRIC_TASKS_SCHEDULED, 2, 2);
    metric_add_for(w->metrics, METRIC_RUNS_SKIPPED, 2, 1);
    metric_add(w->metrics, METRIC_TASKS_CLAIMED, 4);
    metric_observe_us(w->metrics, METRIC_STORE_WAIT, 2000000);
    w->now.v[STAT_BACKLOG] = 9;
    minute_ends(w, MINUTE + STATS_MINUTE_MS + 3);
    assert_true(w->writes == 1 && w->n == 4);
    const struct stats_row *all = row_of(w, STATS_ALL), *second = row_of(w, 2), *third = row_of(w, 3);
    assert_true(all->minute_ms == MINUTE && all->node.b[0] == 7 && all->written > 0);
    assert_true(all->stats.v[STAT_CREATED] == 7 && all->stats.v[STAT_SKIPPED] == 1 && all->stats.v[STAT_CLAIMED] == 4);
    assert_true(all->stats.v[STAT_STORE_WAIT_5] == 1 && all->stats.v[STAT_STORE_WAIT_8] == 0);
    assert_true(all->stats.v[STAT_BACKLOG] == 9 && third->stats.v[STAT_BACKLOG] == 9);
    assert_true(second->stats.v[STAT_CREATED] == 2 && second->stats.v[STAT_CLAIMED] == 0);
}

static void a_minute_without_news_is_not_written_and_its_requests_count_later(void **state)
{
    struct world *w = *state;
    metric_add(w->metrics, METRIC_HTTP_REQUESTS, 3);
    metric_observe_us(w->metrics, METRIC_STORE_WAIT, 100);
    w->now.v[STAT_SKEW_MS] = 20;
    minute_ends(w, MINUTE + 2 * STATS_MINUTE_MS - SOON_MS);
    assert_int_equal(w->writes, 0);
    metric_add(w->metrics, METRIC_HTTP_REQUESTS, 1);
    metric_add(w->metrics, METRIC_HTTP_ERRORS, 1);
    minute_ends(w, MINUTE + 2 * STATS_MINUTE_MS);
    assert_true(w->writes == 1 && w->n == 1 && w->rows[0].minute_ms == MINUTE + STATS_MINUTE_MS);
    assert_true(w->rows[0].stats.v[STAT_REQUESTS] == 4 && w->rows[0].stats.v[STAT_REQUEST_ERRORS] == 1);
    assert_true(w->rows[0].stats.v[STAT_STORE_WAIT_0] == 0 && w->rows[0].stats.v[STAT_SKEW_MS] == 20);
}

static void rows_that_the_store_did_not_take_are_written_again_as_they_were(void **state)
{
    struct world *w = *state;
    metric_add_for(w->metrics, METRIC_TASKS_SCHEDULED, 1, 5);
    w->answer = ERR_UNAVAILABLE;
    minute_ends(w, MINUTE + 2 * STATS_MINUTE_MS - SOON_MS); /* so it tries again soon */
    int64_t written = w->rows[0].written;
    metric_add_for(w->metrics, METRIC_TASKS_SCHEDULED, 1, 1);
    w->answer = ERR_OK;
    minute_ends(w, MINUTE + 3 * STATS_MINUTE_MS - SOON_MS);
    assert_true(w->writes == 2 && w->rows[0].written == written && row_of(w, 1)->stats.v[STAT_CREATED] == 5);
    minute_ends(w, MINUTE + 3 * STATS_MINUTE_MS);
    assert_true(w->writes == 3 && w->rows[0].written > written && row_of(w, 1)->stats.v[STAT_CREATED] == 1);
}

static void a_clock_that_was_set_back_does_not_make_rows_older(void **state)
{
    struct world *w = *state;
    metric_add_for(w->metrics, METRIC_TASKS_SCHEDULED, 1, 1);
    minute_ends(w, MINUTE + 2 * STATS_MINUTE_MS - SOON_MS);
    int64_t written = w->rows[0].written;
    metric_add_for(w->metrics, METRIC_TASKS_SCHEDULED, 1, 1);
    minute_ends(w, MINUTE);
    assert_true(w->writes == 2 && w->rows[0].written > written && w->rows[0].minute_ms == MINUTE - STATS_MINUTE_MS);
}

static void the_last_minute_is_written_as_far_as_it_has_come(void **state)
{
    struct world *w = *state;
    metric_add_for(w->metrics, METRIC_TASKS_SCHEDULED, 1, 1);
    w->now_ms = MINUTE + 10000;
    w->hold = true;
    assert_false(stats_writer_finish(&w->stats));
    assert_false(stats_writer_finish(&w->stats));
    assert_true(w->writes == 1 && w->rows[0].minute_ms == MINUTE);
    w->held->done(w->held);
    assert_true(stats_writer_finish(&w->stats));
    assert_true(stats_writer_finish(&w->stats));
    assert_int_equal(w->writes, 1);
}

static void a_store_that_is_down_does_not_keep_the_process(void **state)
{
    struct world *w = *state;
    metric_add_for(w->metrics, METRIC_TASKS_SCHEDULED, 1, 1);
    w->answer = ERR_UNAVAILABLE;
    minute_ends(w, MINUTE + STATS_MINUTE_MS);
    assert_int_equal(w->writes, 1);
    assert_false(stats_writer_finish(&w->stats)); /* its last try */
    assert_true(stats_writer_finish(&w->stats));
    assert_int_equal(w->writes, 2);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
    const struct CMUnitTest tests[] = {
        T(a_minute_has_a_row_for_each_tenant_and_one_of_all),
        T(a_minute_without_news_is_not_written_and_its_requests_count_later),
        T(rows_that_the_store_did_not_take_are_written_again_as_they_were),
        T(a_clock_that_was_set_back_does_not_make_rows_older),
        T(the_last_minute_is_written_as_far_as_it_has_come),
        T(a_store_that_is_down_does_not_keep_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

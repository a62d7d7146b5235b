/* The watch tells of an alert when it begins to fire and when it ends, once a minute at most. */
#include <stdlib.h>

#include "check.h"
#include "model/store_memory.h"
#include "server/stats/alert_watch.h"

#define NOW INT64_C(1770710400000) /* 2026-02-10T08:00:00Z */
enum { ARENA = 1 << 20, NEWS_MAX = 8 };

struct world {
    struct store *store;
    struct reader *reader;
    struct alert_watch watch;
    struct alert_news news[NEWS_MAX];
    size_t n;
};

static int open_world(void **state)
{
    struct world *w = xnew(*w);
    struct error e = { 0 };
    w->store = store_memory_new();
    assert_ok(store_reader(w->store, &w->reader, &e), &e);
    *state = w;
    return 0;
}

static int close_world(void **state)
{
    struct world *w = *state;
    reader_free(w->reader);
    store_free(w->store);
    free(w);
    return 0;
}

static void backlog(struct world *w, int64_t minute_ms, int64_t due)
{
    struct stats_row row = { .minute_ms = minute_ms, .node.b = { 1 }, .tenant = STATS_ALL, .written = 1 };
    row.stats.v[STAT_BACKLOG] = due;
    row.stats.v[STAT_CLAIMED] = 1;
    struct op_stats stats = { .op.kind = OP_STATS, .v = &row, .n = 1 };
    struct op *op = &stats.op;
    struct error e = { 0 };
    arena_init(&op->arena, ARENA);
    assert_ok(store_apply(w->store, &op, 1, &e), &e);
    arena_release(&op->arena);
}

static void on_news(void *context, const struct alert_news *news)
{
    struct world *w = context;
    assert_true(w->n < NEWS_MAX);
    w->news[w->n++] = *news;
}

static size_t step(struct world *w, int64_t now_ms)
{
    struct alert_facts facts = { .nodes = 1 };
    struct error e = { 0 };
    w->n = 0;
    assert_ok(alert_watch_step(&w->watch, w->reader, now_ms, &facts, on_news, w, &e), &e);
    return w->n;
}

static void it_tells_of_the_begin_and_of_the_end(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 6; i++)
        backlog(w, NOW + i * STATS_MINUTE_MS, 2000);
    assert_int_equal(step(w, NOW + 5 * STATS_MINUTE_MS + ALERTS_WRITTEN_MS), 0); /* pending */
    assert_int_equal(step(w, NOW + 6 * STATS_MINUTE_MS + ALERTS_WRITTEN_MS - 1), 0);
    assert_int_equal(step(w, NOW + 6 * STATS_MINUTE_MS + ALERTS_WRITTEN_MS), 1);
    assert_true(w->news[0].fires && w->news[0].alert.since_ms == NOW && w->news[0].alert.value == 2000);
    assert_string_equal(w->news[0].alert.name, "BelfryQueueDeep");
    backlog(w, NOW + 6 * STATS_MINUTE_MS, 3000);
    assert_int_equal(step(w, NOW + 7 * STATS_MINUTE_MS + ALERTS_WRITTEN_MS), 0); /* it goes on */
    assert_int_equal(step(w, NOW + 8 * STATS_MINUTE_MS + ALERTS_WRITTEN_MS), 1);
    assert_true(!w->news[0].fires && w->news[0].alert.since_ms == NOW);
    assert_int_equal(step(w, NOW + 9 * STATS_MINUTE_MS + ALERTS_WRITTEN_MS), 0);
}

static void a_node_that_acts_for_all_again_tells_again_with_the_same_begin(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 8; i++)
        backlog(w, NOW + i * STATS_MINUTE_MS, 2000);
    assert_int_equal(step(w, NOW + 7 * STATS_MINUTE_MS + ALERTS_WRITTEN_MS), 1);
    alert_watch_forget(&w->watch);
    assert_int_equal(step(w, NOW + 8 * STATS_MINUTE_MS + ALERTS_WRITTEN_MS), 1);
    assert_true(w->news[0].fires && w->news[0].alert.since_ms == NOW);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
    const struct CMUnitTest tests[] = {
        T(it_tells_of_the_begin_and_of_the_end),
        T(a_node_that_acts_for_all_again_tells_again_with_the_same_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

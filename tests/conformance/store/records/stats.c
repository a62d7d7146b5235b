/* OP_STATS: the figures of minutes, how they are added, merged, purged and read. */
#include "store_world.h"

enum { MINUTE = STATS_MINUTE_MS, HOUR = STATS_HOUR_MS, DAY = 24 * STATS_HOUR_MS };
static const struct uuid node_a = { { 1 } }, node_b = { { 2 } };

static struct stats_row minute(struct uuid node, int32_t tenant, int64_t minute_ms, int64_t created, int64_t backlog)
{
    struct stats_row row = { .minute_ms = minute_ms, .node = node, .tenant = tenant, .written = 1 };
    row.stats.v[STAT_CREATED] = created;
    row.stats.v[STAT_BACKLOG] = backlog;
    return row;
}

static void add(struct world *w, struct stats_row row)
{
    struct op_stats op = { .op.kind = OP_STATS, .v = &row, .n = 1 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
}

static struct stats_points points(struct world *w, int32_t tenant, int64_t from_ms, int64_t to_ms, int64_t step_ms)
{
    struct stats_points got = { 0 };
    struct stats_filter f = { tenant, from_ms, to_ms, step_ms };
    struct error e = { 0 };
    assert_ok(reader_stats(w->reader, &f, &w->arena, &got, &e), &e);
    return got;
}

static bool purge(struct world *w, int64_t now_ms, size_t max)
{
    struct op_purge op = { .op.kind = OP_PURGE, .now_ms = now_ms, .max = max };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_purged, 0);
    return op.ret_more;
}

#define assert_point(p, at, created, backlog)                                                                          \
    do {                                                                                                               \
        assert_int_equal((p).at_ms, at);                                                                               \
        assert_int_equal((p).stats.v[STAT_CREATED], created);                                                          \
        assert_int_equal((p).stats.v[STAT_BACKLOG], backlog);                                                          \
    } while (0)

static void every_figure_comes_back(void **state)
{
    struct world *w = *state;
    struct stats_row row = { .minute_ms = NOW, .node = node_a, .tenant = STATS_OTHER, .written = 1 };
    for (int i = 0; i < STATS; i++)
        row.stats.v[i] = 1000 + i;
    add(w, row);
    struct stats_points got = points(w, STATS_OTHER, NOW, NOW + MINUTE, MINUTE);
    assert_int_equal(got.n, 1);
    assert_memory_equal(&got.v[0].stats, &row.stats, sizeof row.stats);
}

static void a_minute_that_occurs_twice_is_added_up(void **state) /* OP_STATS 1 */
{
    struct world *w = *state;
    struct stats_row row = minute(node_a, 1, NOW, 5, 7);
    add(w, row);
    row.written = 2;
    row.stats.v[STAT_CREATED] = 3;
    row.stats.v[STAT_BACKLOG] = 2;
    row.stats.v[STAT_FAILED] = 1;
    add(w, row);
    struct stats_points got = points(w, 1, NOW, NOW + MINUTE, MINUTE);
    assert_int_equal(got.n, 1);
    assert_point(got.v[0], NOW, 8, 7);
    assert_int_equal(got.v[0].stats.v[STAT_FAILED], 1);
}

static void a_row_that_is_repeated_changes_nothing(void **state) /* OP_STATS 2 */
{
    struct world *w = *state;
    struct stats_row row = minute(node_a, 1, NOW, 5, 7);
    row.written = 9;
    add(w, row);
    add(w, row);
    row.written = 8;
    add(w, row);
    assert_point(points(w, 1, NOW, NOW + MINUTE, MINUTE).v[0], NOW, 5, 7);
    struct stats_row v[] = { row, minute(node_b, 1, NOW, 1, 1) }; /* another node's is its own */
    struct op_stats op = { .op.kind = OP_STATS, .v = v, .n = 2 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_point(points(w, 1, NOW, NOW + MINUTE, MINUTE).v[0], NOW, 6, 7);
}

static void points_add_up_steps_of_one_tenant(void **state)
{
    struct world *w = *state;
    add(w, minute(node_a, 1, NOW, 1, 4));
    add(w, minute(node_b, 1, NOW + 4 * MINUTE, 2, 3));
    add(w, minute(node_a, 1, NOW + 15 * MINUTE, 8, 0));
    add(w, minute(node_a, 1, NOW + 20 * MINUTE, 99, 0));
    add(w, minute(node_a, 2, NOW, 50, 50));
    add(w, minute(node_a, STATS_ALL, NOW, 51, 54));
    struct stats_points got = points(w, 1, NOW, NOW + 20 * MINUTE, 5 * MINUTE);
    assert_int_equal(got.n, 2);
    assert_point(got.v[0], NOW, 3, 4);
    assert_point(got.v[1], NOW + 15 * MINUTE, 8, 0);
    assert_point(points(w, STATS_ALL, NOW, NOW + MINUTE, MINUTE).v[0], NOW, 51, 54);
    assert_int_equal(points(w, 3, NOW, NOW + DAY, MINUTE).n, 0);
    assert_int_equal(points(w, 1, NOW + MINUTE, NOW + 4 * MINUTE, MINUTE).n, 0);
}

static void nodes_are_merged_after_ten_minutes_and_read_the_same(void **state) /* OP_PURGE 13 */
{
    struct world *w = *state;
    add(w, minute(node_a, 1, NOW, 1, 4));
    add(w, minute(node_b, 1, NOW, 2, 3));
    add(w, minute(node_b, 2, NOW, 9, 9));
    assert_false(purge(w, NOW + 10 * MINUTE, 100));
    assert_false(purge(w, NOW + 11 * MINUTE, 100));
    struct stats_row again = minute(node_a, 1, NOW, 1, 1); /* the row that it had is gone: this one is new */
    add(w, again);
    assert_point(points(w, 1, NOW, NOW + MINUTE, MINUTE).v[0], NOW, 4, 4);
    assert_false(purge(w, NOW + 11 * MINUTE, 100));
    assert_point(points(w, 1, NOW, NOW + MINUTE, MINUTE).v[0], NOW, 4, 4);
    assert_point(points(w, 2, NOW, NOW + MINUTE, MINUTE).v[0], NOW, 9, 9);
}

static void minutes_become_hours_after_a_day_and_go_after_a_week(void **state) /* OP_PURGE 13 */
{
    struct world *w = *state;
    for (int i = 0; i < 70; i++)
        add(w, minute(i % 2 ? node_a : node_b, 1, NOW + i * MINUTE, 1, i));
    while (purge(w, NOW + DAY, 100))
        ;
    assert_int_equal(points(w, 1, NOW, NOW + 2 * HOUR, MINUTE).n, 70);
    while (purge(w, NOW + DAY + HOUR, 100))
        ;
    struct stats_points got = points(w, 1, NOW, NOW + 2 * HOUR, MINUTE);
    assert_int_equal(got.n, 11);
    assert_point(got.v[0], NOW, 60, 59);
    assert_point(got.v[1], NOW + HOUR, 1, 60);
    add(w, minute(node_a, 1, NOW + MINUTE, 5, 100)); /* of a clock that was set back */
    while (purge(w, NOW + DAY + HOUR, 100))
        ;
    while (purge(w, NOW + DAY + HOUR, 100))
        ;
    assert_point(points(w, 1, NOW, NOW + HOUR, HOUR).v[0], NOW, 65, 100);
    (void)purge(w, NOW + 7 * DAY, 100);
    assert_int_equal(points(w, 1, NOW, NOW + HOUR, HOUR).n, 1);
    (void)purge(w, NOW + 7 * DAY + 1, 100);
    assert_int_equal(points(w, 1, NOW, NOW + HOUR, HOUR).n, 0);
}

static void a_purge_merges_at_most_max_rows_at_a_time(void **state) /* OP_PURGE 13 */
{
    struct world *w = *state;
    for (int i = 0; i < 5; i++)
        add(w, minute(node_a, 1 + i, NOW, 1, 1));
    assert_true(purge(w, NOW + HOUR, 2));
    assert_true(purge(w, NOW + HOUR, 2));
    assert_false(purge(w, NOW + HOUR, 2));
    assert_false(purge(w, NOW + HOUR, 2));
    for (int i = 0; i < 5; i++)
        assert_point(points(w, 1 + i, NOW, NOW + MINUTE, MINUTE).v[0], NOW, 1, 1);
}

static const struct CMUnitTest tests[] = {
    store_test(every_figure_comes_back),
    store_test(a_minute_that_occurs_twice_is_added_up),
    store_test(a_row_that_is_repeated_changes_nothing),
    store_test(points_add_up_steps_of_one_tenant),
    store_test(nodes_are_merged_after_ten_minutes_and_read_the_same),
    store_test(minutes_become_hours_after_a_day_and_go_after_a_week),
    store_test(a_purge_merges_at_most_max_rows_at_a_time),
};
const struct test_list stats_tests = { tests, array_count(tests) };

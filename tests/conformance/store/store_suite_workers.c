/* OP_WORKER_REPORT: the workers of a fleet, how they are read and forgotten. */
#include "store_nodes.h"

static void report_all(struct world *w, const struct worker_row *v, size_t n, int64_t now_ms)
{
    struct op_worker_report op = { .op.kind = OP_WORKER_REPORT, .v = v, .n = n, .now_ms = now_ms };
    assert_ok(world_apply(w, &op.op), &op.op.error);
}

static void report(struct world *w, struct uuid id, int64_t slots, int64_t now_ms)
{
    report_all(w, &(struct worker_row){ .id = id, .slots = slots }, 1, now_ms);
}

static struct worker_rows workers_below(struct world *w, struct uuid before, size_t max)
{
    struct worker_rows rows = { 0 };
    struct error e = { 0 };
    assert_ok(reader_workers(w->reader, before, max, &w->arena, &rows, &e), &e);
    return rows;
}

static struct worker_row only_worker(struct world *w)
{
    struct worker_rows rows = workers_below(w, (struct uuid){ 0 }, 10);
    assert_int_equal(rows.n, 1);
    return rows.v[0];
}

static void a_worker_is_put_in_as_it_says(void **state)
{
    struct world *w = *state;
    struct worker_row says = { .id = fresh_id(w),
                               .name = S("host:1"),
                               .version = S("1.0"),
                               .doc = S("{\"labels\":[\"gpu\"]}"),
                               .slots = 100,
                               .running = 7 };
    report_all(w, &says, 1, NOW);
    struct worker_row row = only_worker(w);
    assert_true(uuid_eq(row.id, says.id));
    assert_str(row.name, "host:1");
    assert_str(row.version, "1.0");
    assert_str(row.doc, "{\"labels\":[\"gpu\"]}");
    assert_true(row.slots == 100 && row.running == 7);
    assert_true(row.joined_ms == NOW && row.seen_ms == NOW && row.left_ms == 0);
}

static void what_it_says_next_replaces_that(void **state)
{
    struct world *w = *state;
    struct uuid id = fresh_id(w);
    report(w, id, 10, NOW);
    report_all(w, &(struct worker_row){ .id = id, .name = S("b"), .slots = 20, .running = 1 }, 1, NOW + 5);
    struct worker_row row = only_worker(w);
    assert_str(row.name, "b");
    assert_true(row.slots == 20 && row.running == 1 && row.joined_ms == NOW && row.seen_ms == NOW + 5);
    report(w, id, 30, NOW + 3); /* by a node whose clock is behind */
    assert_int_equal(only_worker(w).seen_ms, NOW + 5);
    assert_int_equal(only_worker(w).slots, 30);
}

static void one_that_left_stays_so(void **state)
{
    struct world *w = *state;
    struct uuid id = fresh_id(w);
    report(w, id, 10, NOW);
    report_all(w, &(struct worker_row){ .id = id, .left_ms = 1 }, 1, NOW + 5);
    assert_int_equal(only_worker(w).left_ms, NOW + 5);
    report(w, id, 10, NOW + 6);
    assert_int_equal(only_worker(w).left_ms, NOW + 5);
    report_all(w, &(struct worker_row){ .id = id, .left_ms = 1 }, 1, NOW + 9);
    assert_int_equal(only_worker(w).left_ms, NOW + 5);
}

static void of_several_reports_at_once_the_last_counts(void **state)
{
    struct world *w = *state;
    struct uuid id = fresh_id(w), other = fresh_id(w);
    struct worker_row v[] = { { .id = id, .slots = 1 },
                              { .id = other, .slots = 5 },
                              { .id = id, .slots = 2, .left_ms = NOW },
                              { .id = id, .slots = 3, .name = S("last") } };
    report_all(w, v, array_count(v), NOW);
    struct worker_rows rows = workers_below(w, (struct uuid){ 0 }, 10);
    assert_int_equal(rows.n, 2);
    assert_true(uuid_eq(rows.v[0].id, other) && rows.v[0].slots == 5 && rows.v[0].left_ms == 0);
    assert_true(uuid_eq(rows.v[1].id, id) && rows.v[1].slots == 3 && rows.v[1].left_ms == NOW);
    assert_str(rows.v[1].name, "last");
}

static void workers_come_by_id_falling_in_pages(void **state)
{
    struct world *w = *state;
    struct uuid v[] = { fresh_id(w), fresh_id(w), fresh_id(w) };
    report(w, v[1], 1, NOW);
    report(w, v[0], 1, NOW);
    report(w, v[2], 1, NOW);
    struct worker_rows first = workers_below(w, (struct uuid){ 0 }, 2);
    assert_true(first.n == 2 && uuid_eq(first.v[0].id, v[2]) && uuid_eq(first.v[1].id, v[1]));
    struct worker_rows second = workers_below(w, v[1], 2);
    assert_true(second.n == 1 && uuid_eq(second.v[0].id, v[0]));
    assert_int_equal(workers_below(w, v[0], 2).n, 0);
}

static void a_beat_tells_how_many_slots_the_workers_have_that_are_there(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w), gone = fresh_id(w);
    assert_int_equal(beat(w, node).ret_worker_slots, 0);
    report(w, fresh_id(w), 10, NOW);
    report(w, fresh_id(w), 7, NOW - WORKER_SILENT_MS);
    report(w, fresh_id(w), 5, NOW - WORKER_SILENT_MS - 1);
    report_all(w, &(struct worker_row){ .id = gone, .slots = 3, .left_ms = NOW }, 1, NOW);
    assert_int_equal(beat(w, node).ret_worker_slots, 17);
}

static void workers_not_seen_for_long_are_forgotten(void **state)
{
    struct world *w = *state;
    struct uuid old = fresh_id(w), new = fresh_id(w);
    report(w, old, 1, NOW - 1);
    report(w, new, 1, NOW);
    struct op_purge keep_all = { .op.kind = OP_PURGE, .now_ms = NOW, .max = 10 };
    assert_ok(world_apply(w, &keep_all.op), &keep_all.op.error);
    assert_int_equal(keep_all.ret_purged, 0);
    struct op_purge op = { .op.kind = OP_PURGE, .now_ms = NOW, .workers_before_ms = NOW, .max = 10 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_purged, 1);
    assert_true(uuid_eq(only_worker(w).id, new));
}

static const struct CMUnitTest tests[] = {
    store_test(a_worker_is_put_in_as_it_says),
    store_test(what_it_says_next_replaces_that),
    store_test(one_that_left_stays_so),
    store_test(of_several_reports_at_once_the_last_counts),
    store_test(workers_come_by_id_falling_in_pages),
    store_test(a_beat_tells_how_many_slots_the_workers_have_that_are_there),
    store_test(workers_not_seen_for_long_are_forgotten),
};
const struct test_list worker_tests = { tests, array_count(tests) };

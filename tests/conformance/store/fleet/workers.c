/* OP_WORKER_REPORT: the workers of a fleet, how they are read and forgotten. */
#include "store_nodes.h"

static bool report_all(struct world *w, const struct worker_row *v, size_t n, int64_t now_ms)
{
    struct op_worker_report op = { .op.kind = OP_WORKER_REPORT, .v = v, .n = n, .now_ms = now_ms };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret_changed;
}

static bool report(struct world *w, struct uuid id, int64_t slots, int64_t now_ms)
{
    return report_all(w, &(struct worker_row){ .id = id, .slots = slots }, 1, now_ms);
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
                               .kind = { .queues = S("mail,reports"),
                                         .tenants = S("acme"),
                                         .labels = S("eu,gpu"),
                                         .priority_min = 3,
                                         .priority_max = 7,
                                         .cpu_milli = 2500,
                                         .memory_mb = 16000 },
                               .slots = 100,
                               .running = 7 };
    report_all(w, &says, 1, NOW);
    struct worker_row row = only_worker(w);
    assert_true(uuid_eq(row.id, says.id));
    assert_str(row.name, "host:1");
    assert_str(row.version, "1.0");
    assert_str(row.doc, "{\"labels\":[\"gpu\"]}");
    assert_true(row.slots == 100 && row.running == 7);
    assert_str(row.kind.queues, "mail,reports");
    assert_str(row.kind.tenants, "acme");
    assert_str(row.kind.labels, "eu,gpu");
    assert_int_equal(worker_kind_compare(&row.kind, &says.kind), 0);
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

/* ---- groups (OP_HEARTBEAT 8) ---- */

static struct worker_group group_with_labels(const struct op_heartbeat *b, const char *labels)
{
    for (size_t i = 0; i < b->ret_workers.n; i++)
        if (str_eq(b->ret_workers.v[i].kind.labels, str_from(labels)))
            return b->ret_workers.v[i];
    return (struct worker_group){ 0 };
}

static bool report_kind(struct world *w, struct uuid id, const struct worker_kind *kind, int64_t slots)
{
    return report_all(w, &(struct worker_row){ .id = id, .kind = *kind, .slots = slots }, 1, NOW);
}

static void a_beat_tells_of_the_workers_by_kind(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct worker_kind plain = { .priority_max = PRIORITY_MAX, .cpu_milli = 1000, .memory_mb = -1 }, gpu = plain;
    gpu.labels = S("gpu");
    assert_int_equal(beat(w, node).ret_workers.n, 0);
    report_kind(w, fresh_id(w), &plain, 10);
    report_kind(w, fresh_id(w), &gpu, 4);
    report_kind(w, fresh_id(w), &plain, 7);
    struct op_heartbeat b = beat(w, node);
    assert_int_equal(b.ret_workers.n, 2);
    struct worker_group of_plain = group_with_labels(&b, ""), of_gpu = group_with_labels(&b, "gpu");
    assert_true(of_plain.slots == 17 && of_plain.workers == 2);
    assert_true(of_gpu.slots == 4 && of_gpu.workers == 1);
    assert_int_equal(worker_kind_compare(&of_plain.kind, &plain), 0);
    assert_int_equal(worker_kind_compare(&of_gpu.kind, &gpu), 0);
}

static void a_group_is_one_kind_in_all_that_it_says(void **state)
{
    struct world *w = *state;
    const struct worker_kind kinds[] = {
        { .priority_max = 9 },
        { .priority_max = 9, .queues = S("a") },
        { .priority_max = 9, .tenants = S("a") },
        { .priority_max = 9, .labels = S("a") },
        { .priority_max = 8 },
        { .priority_max = 9, .priority_min = 1 },
        { .priority_max = 9, .cpu_milli = 1 },
        { .priority_max = 9, .memory_mb = 1 },
    };
    for (size_t i = 0; i < array_count(kinds); i++)
        report_kind(w, fresh_id(w), &kinds[i], 1);
    assert_int_equal(beat(w, fresh_id(w)).ret_workers.n, array_count(kinds));
}

static int64_t live_slots(struct world *w, struct uuid node)
{
    struct op_heartbeat b = beat(w, node);
    int64_t slots = 0;
    for (size_t i = 0; i < b.ret_workers.n; i++)
        slots += b.ret_workers.v[i].slots;
    return slots;
}

static void workers_that_left_or_were_silent_while_others_spoke_are_not_there(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w), gone = fresh_id(w);
    report(w, fresh_id(w), 10, NOW);
    report(w, fresh_id(w), 7, NOW - WORKER_SILENT_MS);
    report(w, fresh_id(w), 5, NOW - WORKER_SILENT_MS - 1);
    report_all(w, &(struct worker_row){ .id = gone, .slots = 3, .left_ms = NOW }, 1, NOW);
    assert_int_equal(live_slots(w, node), 17);
}

static void when_no_report_comes_nobody_dies_of_it(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    report(w, fresh_id(w), 10, NOW - 3 * WORKER_SILENT_MS);
    report(w, fresh_id(w), 7, NOW - 3 * WORKER_SILENT_MS - 5);
    assert_int_equal(live_slots(w, node), 17);
}

static void the_last_workers_that_were_not_seen_for_long_are_gone(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    report(w, fresh_id(w), 10, NOW - WORKER_GONE_MS);
    report(w, fresh_id(w), 7, NOW - WORKER_GONE_MS - 1);
    assert_int_equal(live_slots(w, node), 10);
}

static void a_report_says_whether_it_changes_something(void **state)
{
    struct world *w = *state;
    struct uuid id = fresh_id(w);
    struct worker_kind gpu = { .labels = S("gpu"), .priority_max = 9 };
    assert_true(report(w, id, 10, NOW));
    assert_false(report(w, id, 10, NOW));
    assert_true(report(w, id, 11, NOW));
    assert_true(report_kind(w, id, &gpu, 11));
    assert_false(report_kind(w, id, &gpu, 11));
    struct worker_row busy = { .id = id, .kind = gpu, .slots = 11, .running = 9, .name = S("n"), .doc = S("{}") };
    assert_false(report_all(w, &busy, 1, NOW + WORKER_SILENT_MS - 1));
    assert_true(report_all(w, &busy, 1, NOW + 2 * WORKER_SILENT_MS)); /* it had been silent */
    busy.left_ms = 1;
    assert_true(report_all(w, &busy, 1, NOW + 2 * WORKER_SILENT_MS));
    assert_false(report_all(w, &busy, 1, NOW + 2 * WORKER_SILENT_MS));
    assert_false(report_all(w, NULL, 0, NOW));
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
    store_test(a_beat_tells_of_the_workers_by_kind),
    store_test(a_group_is_one_kind_in_all_that_it_says),
    store_test(workers_that_left_or_were_silent_while_others_spoke_are_not_there),
    store_test(when_no_report_comes_nobody_dies_of_it),
    store_test(the_last_workers_that_were_not_seen_for_long_are_gone),
    store_test(a_report_says_whether_it_changes_something),
    store_test(workers_not_seen_for_long_are_forgotten),
};
const struct test_list worker_tests = { tests, array_count(tests) };

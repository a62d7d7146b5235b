/* The table `lanes` in memory. */
#include <stdlib.h>

#include "check.h"
#include "store/common/lane_table.h"

static const struct lane plain = { .tenant = 1, .queue = { "mail", 4 }, .priority = 5 };

static int set_up(void **state)
{
    struct store_lanes *l = xnew(*l);
    map_init(&l->by_key, HASH_STABLE);
    *state = l;
    return 0;
}

static int tear_down(void **state)
{
    store_lanes_release(*state);
    free(*state);
    return 0;
}

static void lanes_that_differ_in_anything_are_two(void **state)
{
    struct store_lanes *l = *state;
    struct lane v[] = { plain, plain, plain, plain, plain, plain, plain, plain, plain, plain, plain };
    v[1].tenant = 2;
    v[2].queue = S("mailgpu");
    v[3].requires = S("gpu"); /* the same bytes in a row as of the one before */
    v[4].host = S("gpu");
    v[5].priority = 6;
    v[6].cpu_milli = 100;
    v[7].memory_mb = 100;
    v[8].queue = S("");
    v[9].requires = S("gpu,mail");
    v[10].requires = S("gpu");
    v[10].host = S("api.example");
    for (size_t i = 0; i < array_count(v); i++)
        store_lanes_add(l, (int64_t)i + 1, v[i], POOL_DISPATCHED);
    store_lanes_add(l, array_count(v) + 1, plain, POOL_LEASED);
    for (size_t i = 0; i < array_count(v); i++) {
        const struct lane_row *row = store_lanes_find(l, v[i], POOL_DISPATCHED);
        assert_non_null(row);
        assert_int_equal(row->number, i + 1);
        assert_true(row == store_lanes_at(l, row->number) && lane_eq(&row->lane, &v[i]));
        assert_true(i == 0 || !store_lanes_find(l, v[i], POOL_LEASED));
    }
    assert_int_equal(store_lanes_find(l, plain, POOL_LEASED)->number, array_count(v) + 1);
}

static void a_lane_keeps_texts_of_its_own(void **state)
{
    struct store_lanes *l = *state;
    char queue[] = "mail", needs[] = "gpu", host[] = "api.example";
    struct lane lane = { .tenant = 1, .queue = { queue, 4 }, .requires = { needs, 3 }, .host = { host, 11 } };
    store_lanes_add(l, 1, lane, POOL_DISPATCHED);
    queue[0] = needs[0] = host[0] = '?';
    const struct lane *kept = &store_lanes_at(l, 1)->lane;
    assert_true(str_eq(kept->queue, S("mail")) && str_eq(kept->requires, S("gpu")));
    assert_true(str_eq(kept->host, S("api.example")));
}

static void what_no_task_has_does_not_fit(void **state)
{
    (void)state;
    static const char text[LANE_TEXT_MAX + 1];
    struct lane lane = plain;
    lane.queue = lane.requires = lane.host = (struct str){ text, LANE_TEXT_MAX };
    assert_true(lane_fits(&plain) && lane_fits(&lane));
    struct lane v[] = { plain, plain, plain, plain, plain };
    v[0].priority = PRIORITY_MAX + 1;
    v[1].priority = -1;
    v[2].queue.n = v[3].requires.n = v[4].host.n = LANE_TEXT_MAX + 1;
    for (size_t i = 0; i < array_count(v); i++)
        assert_false(lane_fits(&v[i]));
}

static void a_leased_task_is_not_put_aside(void **state)
{
    struct store_lanes *l = *state;
    store_lanes_add(l, 1, plain, POOL_DISPATCHED);
    store_lanes_add(l, 2, plain, POOL_LEASED_SUSPECT);
    struct lane aside = lane_put_aside(store_lanes_at(l, 1), S("api.example"));
    assert_true(str_eq(aside.host, S("api.example")));
    store_lanes_add(l, 3, aside, POOL_DISPATCHED);
    aside = lane_put_aside(store_lanes_at(l, 3), (struct str){ 0 }); /* it stays where it is */
    assert_true(str_eq(aside.host, S("api.example")));
    assert_int_equal(lane_put_aside(store_lanes_at(l, 2), S("api.example")).host.n, 0);
}

static void the_due_time_of_a_place_is_what_its_order_was_made_of(void **state)
{
    (void)state;
    static const int64_t times[] = { INT64_MIN, -1, 0, 1790000000, INT64_MAX };
    struct lane lane = plain;
    for (lane.priority = PRIORITY_MIN; lane.priority <= PRIORITY_MAX; lane.priority++)
        for (size_t i = 0; i < array_count(times); i++)
            assert_true(lane_due_ms(&lane, lane_order_ms(&lane, times[i])) == times[i]);
    assert_true(lane_due_ms(&lane, INT64_MAX) == INT64_MAX); /* behind every task */
}

static void a_task_has_the_pool_of_its_lane(void **state)
{
    (void)state;
    static const int pools[TARGET_KINDS][2][2] = {
        /* by target, late, suspect */
        [TARGET_NOOP] = { { POOL_DISPATCHED, POOL_SUSPECT }, { POOL_LATE, POOL_LATE_SUSPECT } },
        [TARGET_WORKER] = { { POOL_LEASED, POOL_LEASED_SUSPECT }, { POOL_LEASED, POOL_LEASED_SUSPECT } },
        [TARGET_WORKFLOW] = { { POOL_DISPATCHED, POOL_SUSPECT }, { POOL_LATE, POOL_LATE_SUSPECT } },
    };
    static const enum target_kind targets[] = { TARGET_NOOP, TARGET_WORKER, TARGET_WORKFLOW };
    for (size_t i = 0; i < array_count(targets); i++)
        for (int late = 0; late < 4; late++)
            for (int suspect = 0; suspect < 2; suspect++) {
                struct task t = { .target = targets[i], .losses = suspect ? SUSPECT_LOSSES : SUSPECT_LOSSES - 1 };
                t.delivery = late == 1 ? DELIVER_AT_MOST_ONCE : DELIVER_AT_LEAST_ONCE;
                t.concurrency_key = late == 2 ? S("db") : S("");
                t.recalled = late == 3;
                assert_int_equal(task_pool(&t), pools[targets[i]][late > 0][suspect]);
            }
}

static void a_pool_has_one_beside_it_for_late_tasks_and_one_for_suspects(void **state)
{
    (void)state;
    static const struct {
        int pool, late, suspect, usual;
    } v[] = {
        { POOL_DISPATCHED, POOL_LATE, POOL_SUSPECT, POOL_DISPATCHED },
        { POOL_SUSPECT, POOL_LATE_SUSPECT, POOL_SUSPECT, POOL_DISPATCHED },
        { POOL_LATE, POOL_LATE, POOL_LATE_SUSPECT, POOL_LATE },
        { POOL_LATE_SUSPECT, POOL_LATE_SUSPECT, POOL_LATE_SUSPECT, POOL_LATE },
        { POOL_LEASED, POOL_LEASED, POOL_LEASED_SUSPECT, POOL_LEASED },
        { POOL_LEASED_SUSPECT, POOL_LEASED_SUSPECT, POOL_LEASED_SUSPECT, POOL_LEASED },
        { POOL_NEVER, POOL_NEVER, POOL_NEVER, POOL_NEVER },
    };
    for (size_t i = 0; i < array_count(v); i++) {
        assert_int_equal(pool_of_late(v[i].pool), v[i].late);
        assert_int_equal(pool_of_suspects(v[i].pool, true), v[i].suspect);
        assert_int_equal(pool_of_suspects(v[i].pool, false), v[i].usual);
        assert_int_equal(pool_is_late(v[i].pool), v[i].pool == POOL_LATE || v[i].pool == POOL_LATE_SUSPECT);
    }
}

/* As when a settle moves a task: the pool says it, whatever the lane was. */
static void a_lane_is_late_by_its_pool(void **state)
{
    struct store_lanes *l = *state;
    struct lane late = plain;
    late.late = true;
    store_lanes_add(l, 1, plain, POOL_DISPATCHED);
    store_lanes_add(l, 2, plain, POOL_LATE);
    store_lanes_add(l, 3, late, POOL_LATE_SUSPECT);
    assert_false(store_lanes_at(l, 1)->lane.late);
    assert_true(store_lanes_at(l, 2)->lane.late && store_lanes_at(l, 3)->lane.late);
    for (int i = 0; i < 2; i++) {
        const struct lane *asked = i ? &late : &plain;
        assert_int_equal(store_lanes_find(l, *asked, POOL_LATE)->number, 2);
        assert_int_equal(store_lanes_find(l, *asked, POOL_LATE_SUSPECT)->number, 3);
    }
    assert_int_equal(lane_pool(&late, false, false), POOL_LATE);
    assert_int_equal(lane_pool(&plain, false, true), POOL_SUSPECT);
}

static void lanes_that_nodes_claim_are_listed_once(void **state)
{
    struct store_lanes *l = *state;
    struct lane needs = plain, host = plain, late = plain, late_needs;
    needs.requires = S("gpu");
    host.host = S("api.example");
    store_lanes_add(l, 1, plain, POOL_DISPATCHED);
    store_lanes_add(l, 2, plain, POOL_SUSPECT);
    store_lanes_add(l, 3, needs, POOL_SUSPECT);
    store_lanes_add(l, 5, host, POOL_DISPATCHED); /* number 4 is not known yet */
    store_lanes_add(l, 6, host, POOL_NEVER);
    store_lanes_add(l, 7, needs, POOL_LEASED);
    store_lanes_add(l, 8, plain, POOL_LATE);
    store_lanes_add(l, 9, plain, POOL_LATE_SUSPECT);
    store_lanes_add(l, 10, needs, POOL_LATE_SUSPECT);
    late_needs = needs;
    late.late = late_needs.late = true;
    cleanup_with(arena_release) struct arena a;
    struct lane *v;
    size_t n;
    arena_init(&a, 1 << 16);
    assert_true(store_lanes_list(l, &a, &v, &n));
    assert_int_equal(n, 5);
    assert_true(lane_eq(&v[0], &plain) && lane_eq(&v[1], &needs) && lane_eq(&v[2], &host));
    assert_true(lane_eq(&v[3], &late) && lane_eq(&v[4], &late_needs));
    assert_ptr_not_equal(v[2].host.p, store_lanes_at(l, 5)->lane.host.p);
    cleanup_with(arena_release) struct arena small;
    arena_init(&small, 64);
    assert_false(store_lanes_list(l, &small, &v, &n));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(lanes_that_differ_in_anything_are_two),
        T(a_lane_keeps_texts_of_its_own),
        T(what_no_task_has_does_not_fit),
        T(a_leased_task_is_not_put_aside),
        T(the_due_time_of_a_place_is_what_its_order_was_made_of),
        T(a_task_has_the_pool_of_its_lane),
        T(a_pool_has_one_beside_it_for_late_tasks_and_one_for_suspects),
        T(a_lane_is_late_by_its_pool),
        T(lanes_that_nodes_claim_are_listed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

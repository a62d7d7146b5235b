/* What `own` means to OP_CLAIM and OP_RECURRING. */
#include "store_slots.h"

static const struct partitions half = { { UINT64_MAX, UINT64_MAX } }; /* 0 to 127 */

/* One of that half, or of the other. */
static struct uuid id_in(struct world *w, bool own)
{
    for (;;) {
        struct uuid id = fresh_id(w);
        if (partitions_have(&half, partition_of(id)) == own)
            return id;
    }
}

static struct task task_at_ms(struct world *w, bool own, int64_t due_ms)
{
    struct task t = some_task(w);
    t.id = id_in(w, own);
    t.due_ms = due_ms;
    return t;
}

static struct op_claim claim_own(struct world *w, int64_t until_ms)
{
    static struct lane_quota lane;
    lane = (struct lane_quota){ some_lane(), 100 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.until_ms = until_ms;
    op.own = &half;
    op.help_after_ms = 200;
    op.max_suspects = 5;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(lane.ret_next_due_ms, op.ret_next_due_ms);
    return op;
}

static void others_tasks_are_left_to_them(void **state)
{
    struct world *w = *state;
    struct task v[] = { task_at_ms(w, false, NOW - 10), task_at_ms(w, true, NOW - 5), task_at_ms(w, false, NOW),
                        task_at_ms(w, true, NOW + 40) };
    insert(w, v, 4);
    struct op_claim op = claim_own(w, NOW + 50);
    assert_tasks(&op.ret, &v[1].id, &v[3].id);
    assert_int_equal(op.ret_next_due_ms, NOW + 190); /* when helping with the first begins */
    struct lane_quota all = { some_lane(), 100 };
    struct op_claim rest = claim_of(w, &all, 1);
    rest.help_after_ms = 200;
    assert_ok(world_apply(w, &rest.op), &rest.op.error);
    assert_tasks(&rest.ret, &v[0].id, &v[2].id);
}

static void a_task_that_nobody_took_is_helped_with(void **state)
{
    struct world *w = *state;
    struct task v[] = { task_at_ms(w, false, NOW - 200), task_at_ms(w, false, NOW - 199), task_at_ms(w, true, NOW) };
    insert(w, v, 3);
    struct op_claim op = claim_own(w, NOW + 500); /* until does not count: now does */
    assert_tasks(&op.ret, &v[0].id, &v[2].id);
    assert_int_equal(op.ret_next_due_ms, NOW + 1);
}

static void what_is_left_counts_from_when_it_is_for_who_asks(void **state)
{
    struct world *w = *state;
    struct task theirs = task_at_ms(w, false, NOW + 10), sooner = task_at_ms(w, true, NOW + 150),
                later = task_at_ms(w, true, NOW + 300);
    insert(w, (struct task[]){ theirs, later }, 2);
    assert_int_equal(claim_own(w, NOW).ret_next_due_ms, NOW + 210);
    insert(w, &sooner, 1);
    assert_int_equal(claim_own(w, NOW).ret_next_due_ms, NOW + 150);
}

/* ---- ret_next_own_ms ---- */

static void the_next_of_a_nodes_own_is_told_apart(void **state)
{
    struct world *w = *state;
    struct task theirs = task_at_ms(w, false, NOW + 10), next = task_at_ms(w, false, NOW + 400),
                own = task_at_ms(w, true, NOW + 500), later = task_at_ms(w, true, NOW + 600);
    insert(w, (struct task[]){ theirs, next }, 2);
    struct op_claim op = claim_own(w, NOW);
    assert_int_equal(op.lanes[0].ret_next_due_ms, NOW + 210);
    assert_true(op.lanes[0].ret_next_own_ms == INT64_MAX);
    insert(w, (struct task[]){ later, own }, 2);
    op = claim_own(w, NOW);
    assert_int_equal(op.lanes[0].ret_next_due_ms, NOW + 210);
    assert_int_equal(op.lanes[0].ret_next_own_ms, NOW + 500);
    struct lane_quota all = { some_lane(), 100 };
    op = claim_of(w, &all, 1); /* all tasks are its own */
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(all.ret_next_due_ms, NOW + 10);
    assert_int_equal(all.ret_next_own_ms, NOW + 10);
}

static void a_task_of_others_is_not_its_own_even_if_help_begins_at_once(void **state)
{
    struct world *w = *state;
    struct task theirs = task_at_ms(w, false, NOW + 10), own = task_at_ms(w, true, NOW + 20);
    insert(w, (struct task[]){ theirs, own }, 2);
    struct lane_quota lane = { some_lane(), 100 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.own = &half;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(lane.ret_next_due_ms, NOW + 10);
    assert_int_equal(lane.ret_next_own_ms, NOW + 20);
}

static void of_its_own_each_task_that_was_left_counts(void **state)
{
    struct world *w = *state;
    struct task help = task_at_ms(w, false, NOW - 300),
                own[] = { task_at_ms(w, true, NOW - 2), task_at_ms(w, true, NOW - 1) },
                suspect = task_at_ms(w, true, NOW - 5), late = task_at_ms(w, true, NOW - 9);
    suspect.losses = SUSPECT_LOSSES;
    late.delivery = DELIVER_AT_MOST_ONCE;
    insert(w, (struct task[]){ help, own[0], own[1], suspect, late }, 5);
    struct lane_quota lanes[] = { { some_lane(), 2 }, { task_lane(&late), 0 } };
    struct op_claim op = claim_of(w, lanes, 2);
    op.own = &half;
    op.help_after_ms = 200;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &help.id, &own[0].id); /* the quota leaves the other; suspects do not count (rule 9) */
    assert_int_equal(lanes[0].ret_next_own_ms, NOW - 1);
    assert_int_equal(lanes[1].ret_next_own_ms, NOW - 9);
}

/* Rules 3 and 11. */
static void of_its_own_a_task_that_waits_for_its_time_counts(void **state)
{
    struct world *w = *state;
    struct task holder = task_at_ms(w, true, NOW), gated = task_at_ms(w, true, NOW + 4),
                once = task_at_ms(w, true, NOW + 3), theirs = task_at_ms(w, false, NOW + 1),
                behind = task_at_ms(w, true, NOW + 5);
    holder.concurrency_key = gated.concurrency_key = S("k");
    behind.concurrency_key = S("free");
    holder.concurrency_limit = gated.concurrency_limit = behind.concurrency_limit = 1;
    once.delivery = theirs.delivery = DELIVER_AT_MOST_ONCE;
    insert(w, (struct task[]){ holder, gated, theirs }, 3);
    for (int i = 0; i < 2; i++) {
        struct lane_quota lane = { task_lane(&gated), 100 };
        struct op_claim op = claim_of(w, &lane, 1);
        op.until_ms = NOW + 50;
        op.own = &half;
        op.help_after_ms = 200;
        assert_ok(world_apply(w, &op.op), &op.op.error);
        assert_int_equal(op.ret.n, 1);
        assert_int_equal(lane.ret_next_own_ms, i ? NOW + 3 : NOW + 4);
        assert_int_equal(lane.ret_next_due_ms, lane.ret_next_own_ms);
        if (i == 0)
            insert(w, (struct task[]){ once, behind }, 2);
    }
}

/* ---- suspects and slots ---- */

static void suspects_of_others_are_left_to_them_too(void **state)
{
    struct world *w = *state;
    struct task v[] = { task_at_ms(w, false, NOW - 10), task_at_ms(w, false, NOW - 300), task_at_ms(w, true, NOW - 1) };
    for (size_t i = 0; i < array_count(v); i++)
        v[i].losses = SUSPECT_LOSSES;
    insert(w, v, 3);
    struct op_claim op = claim_own(w, NOW);
    assert_tasks(&op.ret, &v[1].id, &v[2].id);
    assert_int_equal(op.ret_next_suspect_ms, NOW + 190);
    assert_true(op.ret_next_due_ms == INT64_MAX);
}

static void a_task_of_others_that_finds_no_slot_is_not_dealt_with(void **state)
{
    struct world *w = *state;
    struct task holder = task_at_ms(w, true, NOW - 5), theirs = task_at_ms(w, false, NOW - 4);
    holder.concurrency_key = theirs.concurrency_key = S("k");
    holder.concurrency_limit = theirs.concurrency_limit = 1;
    w->claims_late = true;
    insert(w, (struct task[]){ holder, theirs }, 2);
    struct op_claim op = claim_own(w, NOW);
    assert_tasks(&op.ret, &holder.id);
    assert_int_equal(op.ret_gated.n, 0);
    assert_int_equal(get(w, theirs.id).state, TASK_SCHEDULED);
}

/* ---- recurring tasks ---- */

static struct task recurring_in(struct world *w, bool own, int64_t cursor_ms)
{
    struct task t = some_recurring(w);
    t.id = id_in(w, own);
    t.cursor_ms = cursor_ms;
    return t;
}

static struct op_recurring recurring_own(struct world *w, size_t max)
{
    struct op_recurring op = {
        .op.kind = OP_RECURRING, .until_ms = NOW + 100, .help_until_ms = NOW + 30, .own = &half, .max = max
    };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

static void recurring_tasks_of_others_come_when_they_are_late(void **state)
{
    struct world *w = *state;
    struct task v[] = { recurring_in(w, false, NOW + 29), recurring_in(w, true, NOW + 30),
                        recurring_in(w, false, NOW + 31), recurring_in(w, true, NOW + 99),
                        recurring_in(w, true, NOW + 150) };
    insert(w, v, 5);
    struct op_recurring op = recurring_own(w, 10);
    assert_tasks(&op.ret, &v[0].id, &v[1].id, &v[3].id);
    assert_int_equal(op.ret_next_ms, NOW + 101); /* NOW + 31 and what help comes later by */
}

static void of_recurring_tasks_left_the_first_that_is_for_who_asks_counts(void **state)
{
    struct world *w = *state;
    struct task v[] = { recurring_in(w, false, NOW + 60), recurring_in(w, true, NOW + 70),
                        recurring_in(w, true, NOW + 80), recurring_in(w, false, NOW + 90) };
    insert(w, v, 4);
    struct op_recurring op = recurring_own(w, 1);
    assert_tasks(&op.ret, &v[1].id);
    assert_int_equal(op.ret_next_ms, NOW + 80);
    struct op_recurring all = recurring_own(w, 9);
    assert_tasks(&all.ret, &v[1].id, &v[2].id);
    assert_int_equal(all.ret_next_ms, NOW + 130); /* one that stands before what came counts as well */
}

static const struct CMUnitTest tests[] = {
    store_test(others_tasks_are_left_to_them),
    store_test(a_task_that_nobody_took_is_helped_with),
    store_test(what_is_left_counts_from_when_it_is_for_who_asks),
    store_test(the_next_of_a_nodes_own_is_told_apart),
    store_test(a_task_of_others_is_not_its_own_even_if_help_begins_at_once),
    store_test(of_its_own_each_task_that_was_left_counts),
    store_test(of_its_own_a_task_that_waits_for_its_time_counts),
    store_test(suspects_of_others_are_left_to_them_too),
    store_test(a_task_of_others_that_finds_no_slot_is_not_dealt_with),
    store_test(recurring_tasks_of_others_come_when_they_are_late),
    store_test(of_recurring_tasks_left_the_first_that_is_for_who_asks_counts),
};
const struct test_list partition_tests = { tests, array_count(tests) };

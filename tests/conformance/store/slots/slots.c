/* Slots of concurrency keys: taken with the claim, let go of when it ends, handed to who waits. */
#include <stdlib.h>

#include "store_slots.h"

/* ---- taking ---- */

static void no_more_of_a_key_run_at_once_than_its_limit(void **state)
{
    struct world *w = *state;
    struct task v[] = { keyed_task(w, 2, NOW), keyed_task(w, 2, NOW), keyed_task(w, 2, NOW), some_task(w) };
    insert(w, v, 4);
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret, &v[0].id, &v[1].id, &v[3].id);
    assert_tasks(&op.ret_gated, &v[2].id);
    struct task expected = v[2];
    expected.state = TASK_BLOCKED;
    expected.waits_for = KEY;
    expected.late_by = LATE_KEY;
    expected.updated_ms = NOW;
    struct task read = get(w, v[2].id);
    assert_same_task(&read, &expected);
    assert_same_task(&op.ret_gated.v[0], &expected);
    assert_holders(w, KEY, &v[0].id, &v[1].id);
    assert_true(op.ret_next_due_ms == INT64_MAX);
    assert_false(op.ret_unblocked_lanes);
}

/* What is caught up on waits for its turn because its node was down. */
static void a_task_that_was_put_off_before_it_waits_for_a_slot_keeps_that_cause(void **state)
{
    struct world *w = *state;
    struct task v[] = { keyed_task(w, 1, NOW), keyed_task(w, 1, NOW) };
    v[1].awaited_ms = NOW - 5000;
    v[1].late_by = LATE_DOWN;
    insert(w, v, 2);
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret_gated, &v[1].id);
    assert_int_equal(op.ret_gated.v[0].late_by, LATE_DOWN);
    assert_int_equal(get(w, v[1].id).late_by, LATE_DOWN);
}

static void each_tenant_has_keys_of_its_own(void **state)
{
    struct world *w = *state;
    struct task mine = keyed_task(w, 1, NOW), theirs = keyed_task(w, 1, NOW);
    theirs.tenant = OTHER_TENANT;
    insert(w, (struct task[]){ mine, theirs }, 2);
    struct lane_quota lanes[] = { { task_lane(&mine), 5 }, { task_lane(&theirs), 5 } };
    struct op_claim op = claim_of(w, lanes, 2);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, 2);
    assert_holders(w, S("c:1:db"), &mine.id);
    assert_holders(w, S("c:2:db"), &theirs.id);
}

static void what_finds_no_slot_does_not_count_in_a_quota(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), v[] = { keyed_task(w, 1, NOW - 2), some_task(w), some_task(w) };
    claim_alone(w, &holder);
    insert(w, v, 3);
    struct lane_quota one = { some_lane(), 1 };
    struct op_claim op = claim_of(w, &one, 1);
    op.max = 1;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &v[1].id);
    assert_tasks(&op.ret_gated, &v[0].id);
    assert_int_equal(one.ret_taken, 1);
    assert_int_equal(one.ret_next_due_ms, NOW);
}

static void what_finds_no_slot_counts_in_the_bytes(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), v[] = { keyed_task(w, 1, NOW - 2), some_task(w) };
    v[0].payload = S("123456");
    claim_alone(w, &holder);
    insert(w, v, 2);
    struct lane_quota lane = { some_lane(), 9 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.max_bytes = 6;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, 0);
    assert_tasks(&op.ret_gated, &v[0].id);
}

static void before_its_due_time_nothing_is_blocked(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), early = keyed_task(w, 1, NOW + 10), plain = some_task(w);
    plain.due_ms = NOW + 20;
    claim_alone(w, &holder);
    insert(w, (struct task[]){ early, plain }, 2);
    struct op_claim op = claim_between(w, NOW + 9, NOW + 50);
    assert_tasks(&op.ret, &plain.id);
    assert_int_equal(op.ret_gated.n, 0);
    assert_int_equal(op.ret_next_due_ms, NOW + 10);
    assert_scheduled(w, early.id);
    op = claim_between(w, NOW + 10, NOW + 50);
    assert_tasks(&op.ret_gated, &early.id);
    assert_waits(w, early.id, KEY);
}

static void a_slot_may_be_taken_early(void **state)
{
    struct world *w = *state;
    struct task t = keyed_task(w, 1, NOW + 10);
    insert(w, &t, 1);
    struct op_claim op = claim_between(w, NOW, NOW + 50);
    assert_tasks(&op.ret, &t.id);
    assert_holders(w, KEY, &t.id);
}

static void a_claim_that_fails_takes_no_slot(void **state)
{
    struct world *w = *state;
    struct task v[] = { keyed_task(w, 1, NOW), keyed_task(w, 1, NOW) };
    v[0].payload = v[1].payload =
        S("[\"a long text that does not fit in so small a piece of memory as is given here\"]");
    insert(w, v, 2);
    struct lane_quota lane = { some_lane(), 9 };
    struct op_claim op = claim_of(w, &lane, 1);
    arena_init(&op.op.arena, 64);
    assert_int_equal(world_apply(w, &op.op), ERR_LIMIT);
    assert_free(w, KEY);
    assert_scheduled(w, v[0].id);
    assert_scheduled(w, v[1].id);
    assert_int_equal(claim_now(w).ret.n, 1);
}

/* A claim whose gated ones do not fit has taken slots and blocked rows by then. */
static void a_claim_that_fails_late_takes_it_all_back(void **state)
{
    struct world *w = *state;
    struct task v[] = { keyed_task(w, 1, NOW - 3), keyed_task(w, 1, NOW - 2), keyed_task(w, 1, NOW - 1) };
    v[1].target_config = v[2].target_config =
        S("{\"url\":\"https://example.com/a/path/that/takes/some/room/in/an/answer\"}");
    insert(w, v, 3);
    struct lane_quota lane = { some_lane(), 9 };
    struct op_claim op = claim_of(w, &lane, 1);
    arena_init(&op.op.arena, 2 * sizeof(struct task) + 64);
    assert_int_equal(world_apply(w, &op.op), ERR_LIMIT);
    assert_free(w, KEY);
    for (size_t i = 0; i < 3; i++) {
        struct task read = get(w, v[i].id);
        assert_same_task(&read, &v[i]);
    }
    assert_int_equal(claim_now(w).ret_gated.n, 2);
}

/* ---- handing over ---- */

static void a_slot_goes_to_who_waits_longest(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), second = keyed_task(w, 1, NOW - 5), first = keyed_task(w, 1, NOW - 9),
                twin = keyed_task(w, 1, NOW - 9);
    holder = claim_alone(w, &holder);
    insert(w, (struct task[]){ second, first, twin }, 3);
    assert_int_equal(claim_now(w).ret_gated.n, 3);
    assert_true(end_wakes(w, &holder, TASK_COMPLETED));
    struct task expected = first, woken = get(w, first.id);
    expected.updated_ms = NOW; /* when it was blocked */
    expected.late_by = LATE_KEY;
    assert_same_task(&woken, &expected);
    assert_holders(w, KEY, &first.id);
    assert_waits(w, twin.id, KEY);
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret, &first.id);
    assert_true(end_wakes(w, &op.ret.v[0], TASK_COMPLETED));
    assert_holders(w, KEY, &twin.id);
    assert_waits(w, second.id, KEY);
}

static void every_way_to_end_a_claim_lets_go_of_a_key(void **state)
{
    struct world *w = *state;
    static const enum task_state ends[] = { TASK_COMPLETED, TASK_FAILED,  TASK_CANCELLED, TASK_SCHEDULED,
                                            TASK_EXPIRED,   TASK_SKIPPED, TASK_PAUSED };
    struct task holder = keyed_task(w, 1, NOW);
    holder = claim_alone(w, &holder);
    for (size_t i = 0; i < array_count(ends); i++) {
        struct task next = keyed_task(w, 1, NOW);
        gate_alone(w, &next);
        assert_true(end_wakes(w, &holder, ends[i]));
        assert_holders(w, KEY, &next.id);
        struct op_claim op = claim_now(w);
        assert_tasks(&op.ret, &next.id);
        holder = op.ret.v[0];
    }
    assert_false(end_wakes(w, &holder, TASK_COMPLETED));
    assert_free(w, KEY);
}

static void a_lost_task_lets_go_of_its_key(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW);
    holder = claim_alone(w, &holder);
    struct settlement v = settlement_of(&holder, TASK_SCHEDULED);
    v.verdict.attempts = 0;
    v.verdict.losses = 1;
    v.verdict.due_ms = NOW + 10;
    assert_false(settle_wakes(w, &v));
    assert_free(w, KEY);
}

static void a_recalled_task_lets_go_of_its_key(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), next = keyed_task(w, 1, NOW);
    holder = claim_alone(w, &holder);
    gate_alone(w, &next);
    struct task row = holder;
    row.state = TASK_PAUSED;
    row.version++;
    struct settlement v = settlement_of(&holder, TASK_SCHEDULED);
    v.replace = &row;
    assert_true(settle_wakes(w, &v));
    assert_holders(w, KEY, &next.id);
}

static void a_stale_settle_lets_go_of_nothing(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), next = keyed_task(w, 1, NOW);
    holder = claim_alone(w, &holder);
    gate_alone(w, &next);
    struct settlement v = settlement_of(&holder, TASK_COMPLETED);
    v.fence = holder.fence + 1;
    struct op_settle op = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW, .ret_unblocked_lanes = true };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(v.stale);
    assert_false(op.ret_unblocked_lanes);
    assert_holders(w, KEY, &holder.id);
    assert_waits(w, next.id, KEY);
}

static void a_woken_task_keeps_its_slot_until_it_is_claimed(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), next = keyed_task(w, 1, NOW), early = keyed_task(w, 1, NOW - 50);
    holder = claim_alone(w, &holder);
    gate_alone(w, &next);
    assert_true(end_wakes(w, &holder, TASK_COMPLETED));
    insert(w, &early, 1);
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret, &next.id);
    assert_tasks(&op.ret_gated, &early.id);
}

/* Of one key with several limits: who may not come in is not overtaken by who may. */
static void nobody_overtakes_the_line(void **state)
{
    struct world *w = *state;
    struct task a = keyed_task(w, 2, NOW), b = keyed_task(w, 2, NOW), narrow = keyed_task(w, 1, NOW - 3),
                wide = keyed_task(w, 3, NOW - 2), first = keyed_task(w, 3, NOW - 4);
    a = claim_alone(w, &a);
    b = claim_alone(w, &b);
    gate_alone(w, &narrow);
    gate_alone(w, &wide);
    assert_false(end_wakes(w, &a, TASK_COMPLETED)); /* one holds still */
    assert_waits(w, narrow.id, KEY);
    insert(w, &first, 1);
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret, &first.id); /* it stands in front */
    assert_false(end_wakes(w, &b, TASK_COMPLETED));
    assert_true(end_wakes(w, &op.ret.v[0], TASK_COMPLETED));
    assert_holders(w, KEY, &narrow.id, &wide.id); /* and behind it there was room for the next */
}

/* ---- long lines ---- */

static void a_claim_deals_with_so_many_and_leaves_the_rest_to_the_next(void **state)
{
    struct world *w = *state;
    enum { MORE = CLAIM_GATED_MAX + 20 };
    struct task holder = keyed_task(w, 1, NOW - 1), plain = some_task(w), *v = xcalloc(MORE, sizeof *v);
    claim_alone(w, &holder);
    for (size_t i = 0; i < MORE; i++)
        v[i] = keyed_task(w, 1, NOW - 1);
    insert(w, v, MORE);
    insert(w, &plain, 1);
    struct op_claim op = claim_now(w);
    assert_int_equal(op.ret_gated.n, CLAIM_GATED_MAX);
    assert_int_equal(op.ret.n, 0);
    assert_int_equal(op.ret_next_due_ms, NOW - 1);
    op = claim_now(w);
    assert_int_equal(op.ret_gated.n, MORE - CLAIM_GATED_MAX);
    assert_tasks(&op.ret, &plain.id);
    free(v);
}

static void a_lane_full_of_those_that_wait_for_their_time_stalls_no_other(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), behind = keyed_task(w, 1, NOW + 2), other = keyed_task(w, 1, NOW),
                *v = xcalloc(CLAIM_GATED_MAX, sizeof *v);
    claim_alone(w, &holder);
    for (size_t i = 0; i < CLAIM_GATED_MAX; i++)
        v[i] = keyed_task(w, 1, NOW + 1);
    insert(w, v, CLAIM_GATED_MAX);
    behind.concurrency_key = other.concurrency_key = S("free");
    behind.concurrency_limit = other.concurrency_limit = 2;
    other.queue = S("other");
    insert(w, (struct task[]){ behind, other }, 2);
    struct lane_quota lanes[] = { { task_lane(&behind), 10 }, { task_lane(&other), 10 } };
    struct op_claim op = claim_of(w, lanes, 2);
    op.until_ms = NOW + 50;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &other.id);
    assert_int_equal(lanes[0].ret_next_due_ms, NOW + 1);
    free(v);
}

/* ---- reading ---- */

static void holders_are_told_in_the_order_of_their_times(void **state)
{
    struct world *w = *state;
    struct task v[] = { keyed_task(w, 3, NOW), keyed_task(w, 3, NOW - 7), keyed_task(w, 3, NOW) };
    v[0].scheduled_ms = v[2].scheduled_ms = NOW + 4;
    insert(w, v, 3);
    assert_int_equal(claim_now(w).ret.n, 3);
    struct slot_holders h = holders_of(w, KEY);
    assert_holders(w, KEY, &v[1].id, &v[0].id, &v[2].id);
    assert_int_equal(h.v[0].state, TASK_RUNNING);
    assert_int_equal(h.v[0].scheduled_ms, NOW - 7);
    assert_free(w, S("c:1:d"));
    assert_free(w, S("o:nothing"));
}

static void tasks_of_any_target_that_wait_and_expired_are_found(void **state)
{
    struct world *w = *state;
    enum { PLAIN, KEYED, PARENTS, PAUSED, OPENED, AWAITS, RECURRING, DELETED, STEP, COUNT };
    struct task v[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        v[i] = some_task(w);
        v[i].expires_after_ms = 1000 + (int64_t)i;
    }
    struct task holder = keyed_task(w, 1, NOW - 1);
    v[KEYED] = keyed_task(w, 1, NOW);
    v[KEYED].expires_after_ms = 1000 + KEYED;
    insert(w, (struct task[]){ holder, v[KEYED] }, 2);
    assert_int_equal(claim_now(w).ret_gated.n, 1);
    v[PARENTS].state = TASK_BLOCKED;
    v[PAUSED].state = TASK_PAUSED;
    v[OPENED].links = TASK_OPENED;
    v[AWAITS].links = TASK_AWAITS;
    v[OPENED].target = v[AWAITS].target = TARGET_WORKFLOW;
    v[RECURRING] = some_recurring(w);
    v[RECURRING].expires_after_ms = 1;
    v[DELETED].deleted = true;
    v[STEP].links = TASK_PLANNED;
    insert(w, &v[PLAIN], 1);
    insert(w, &v[PARENTS], COUNT - PARENTS);
    struct op_leases_expired op = {
        .op.kind = OP_LEASES_EXPIRED, .now_ms = NOW + 60000, .max = 1, .max_waiting = COUNT
    };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret_waiting, &v[PLAIN].id, &v[KEYED].id, &v[STEP].id);
    assert_true(op.ret_next_waiting_ms == INT64_MAX);
}

static void who_waits_for_a_slot_is_listed(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), a = keyed_task(w, 1, NOW), b = keyed_task(w, 1, NOW - 9),
                c = some_task(w);
    claim_alone(w, &holder);
    insert(w, (struct task[]){ a, b }, 2);
    assert_int_equal(claim_now(w).ret_gated.n, 2);
    insert(w, &c, 1);
    struct task_filter f = { .tenant = TENANT, .waits_for = KEY, .limit = 10 };
    struct task_page page = list(w, &f);
    assert_tasks(&page.tasks, &b.id, &a.id);
    f.limit = 1;
    page = list(w, &f);
    assert_tasks(&page.tasks, &b.id);
    assert_true(page.more);
    f.tenant = OTHER_TENANT;
    assert_int_equal(list(w, &f).tasks.n, 0);
    f = (struct task_filter){ .tenant = TENANT, .waits_for = S("c:1:d"), .limit = 10 };
    assert_int_equal(list(w, &f).tasks.n, 0);
}

static void what_holds_a_task_back_is_kept_with_it(void **state)
{
    struct world *w = *state;
    struct task t = keyed_task(w, 7, NOW);
    t.concurrency_key = S("a \"b\" \xc3\xa9 %");
    t.dedupe_key = S("order-1");
    t.dedupe_window_ms = 60000;
    t.dedupe = DEDUPE_RESCHEDULE;
    t.expires_after_ms = 5000;
    insert(w, &t, 1);
    struct task read = get(w, t.id), next = t;
    assert_same_task(&read, &t);
    next.state = TASK_FAILED;
    next.cause = S("0123456789abcdef");
    next.resolved_ms = NOW + 3;
    next.resolution = S("{\"by\":\"ops\"}");
    next.completed_ms = NOW;
    assert_false(put_wakes(w, &t, &next));
    read = get(w, t.id);
    assert_same_task(&read, &next);
}

static const struct CMUnitTest tests[] = {
    store_test(no_more_of_a_key_run_at_once_than_its_limit),
    store_test(a_task_that_was_put_off_before_it_waits_for_a_slot_keeps_that_cause),
    store_test(each_tenant_has_keys_of_its_own),
    store_test(what_finds_no_slot_does_not_count_in_a_quota),
    store_test(what_finds_no_slot_counts_in_the_bytes),
    store_test(before_its_due_time_nothing_is_blocked),
    store_test(a_slot_may_be_taken_early),
    store_test(a_claim_that_fails_takes_no_slot),
    store_test(a_claim_that_fails_late_takes_it_all_back),
    store_test(a_slot_goes_to_who_waits_longest),
    store_test(every_way_to_end_a_claim_lets_go_of_a_key),
    store_test(a_lost_task_lets_go_of_its_key),
    store_test(a_recalled_task_lets_go_of_its_key),
    store_test(a_stale_settle_lets_go_of_nothing),
    store_test(a_woken_task_keeps_its_slot_until_it_is_claimed),
    store_test(nobody_overtakes_the_line),
    store_test(a_claim_deals_with_so_many_and_leaves_the_rest_to_the_next),
    store_test(a_lane_full_of_those_that_wait_for_their_time_stalls_no_other),
    store_test(holders_are_told_in_the_order_of_their_times),
    store_test(tasks_of_any_target_that_wait_and_expired_are_found),
    store_test(who_waits_for_a_slot_is_listed),
    store_test(what_holds_a_task_back_is_kept_with_it),
};
const struct test_list slot_tests = { tests, array_count(tests) };

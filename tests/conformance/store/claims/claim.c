/* OP_CLAIM, OP_CLAIMED and OP_ORPHANS. */
#include "store_world.h"

static struct lane_quota plenty = { { .tenant = TENANT, .queue = { "default", 7 }, .priority = PRIORITY_DEFAULT },
                                    1000 };

/* Claims from the one lane until until_ms; now is NOW. */
static struct op_claim claim_until(struct world *w, int64_t until_ms)
{
    struct op_claim op = claim_of(w, &plenty, 1);
    op.until_ms = until_ms;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

static void a_claim_makes_a_due_task_running_under_the_next_fence(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    t.fence = 6;
    t.attempts = 2;
    insert(w, &t, 1);
    struct op_claim op = claim_until(w, NOW);
    struct task expected = t;
    expected.state = TASK_RUNNING;
    expected.fence = 7;
    expected.claim = op.claim;
    assert_int_equal(op.ret.n, 1);
    assert_same_task(&op.ret.v[0], &expected);
    struct task read = get(w, t.id);
    assert_same_task(&read, &expected);
}

static void a_lane_is_claimed_in_the_order_of_due_times_then_ids(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w), d = some_task(w);
    a.due_ms = NOW - 1;
    b.due_ms = NOW - 2;
    c.due_ms = NOW - 2;
    d.due_ms = NOW - 3;
    insert(w, (struct task[]){ c, a, d, b }, 4);
    struct op_claim op = claim_until(w, NOW);
    assert_tasks(&op.ret, &d.id, &b.id, &c.id, &a.id);
}

static void what_is_due_after_until_is_left(void **state)
{
    struct world *w = *state;
    struct task on = some_task(w), behind = some_task(w);
    on.due_ms = NOW + 50;
    behind.due_ms = NOW + 51;
    insert(w, (struct task[]){ behind, on }, 2);
    struct op_claim op = claim_until(w, NOW + 50);
    assert_tasks(&op.ret, &on.id);
    assert_int_equal(op.ret_next_due_ms, NOW + 51);
}

static void at_most_once_is_claimed_at_its_due_time_never_early(void **state)
{
    struct world *w = *state;
    struct task early = some_task(w), later = some_task(w), due = some_task(w);
    w->claims_late = true;
    early.delivery = due.delivery = DELIVER_AT_MOST_ONCE;
    early.due_ms = NOW + 1;
    later.due_ms = NOW + 2;
    later.concurrency_key = S("free"); /* so that it is in the lane of the others */
    later.concurrency_limit = 1;
    insert(w, (struct task[]){ early, later, due }, 3);
    struct op_claim op = claim_until(w, NOW + 50);
    assert_tasks(&op.ret, &due.id, &later.id); /* the one that must wait holds up nobody */
    assert_int_equal(op.ret_next_due_ms, NOW + 1);
}

static void a_lane_gives_no_more_than_its_quota(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    v[2].due_ms = NOW - 7;
    insert(w, v, 3);
    struct lane_quota two = { some_lane(), 2 };
    struct op_claim op = claim_of(w, &two, 1);
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_tasks(&op.ret, &v[2].id, &v[0].id);
    assert_int_equal(op.ret_next_due_ms, NOW);
}

static void lanes_are_served_in_the_order_they_are_given(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w);
    a.priority = 9;
    b.queue = S("other");
    c.due_ms = NOW - 100;
    insert(w, (struct task[]){ a, b, c }, 3);
    struct lane_quota lanes[] = { { task_lane(&b), 5 }, { task_lane(&a), 5 }, { task_lane(&c), 5 } };
    struct op_claim op = claim_of(w, lanes, 3);
    op.max = 2;
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_tasks(&op.ret, &b.id, &a.id);
    assert_int_equal(op.ret_next_due_ms, NOW - 100);
}

static void a_quota_of_nothing_takes_nothing_and_tells_when(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    insert(w, &t, 1);
    struct lane_quota none = { some_lane(), 0 };
    struct op_claim op = claim_of(w, &none, 1);
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_int_equal(op.ret.n, 0);
    assert_int_equal(op.ret_next_due_ms, NOW);
}

static void only_the_lanes_asked_for_are_touched(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    v[0].tenant = OTHER_TENANT;
    v[1].queue = S("defaul");
    v[2].priority = PRIORITY_MIN;
    v[3].priority = PRIORITY_MAX;
    insert(w, v, 4);
    struct op_claim op = claim_until(w, NOW);
    assert_int_equal(op.ret.n, 0);
    assert_true(op.ret_next_due_ms == INT64_MAX);
}

static void a_claim_returns_tasks_as_they_are_in_the_store(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    t.payload = S("{\"n\":1}");
    t.extra = S("{\"metadata\":{}}");
    t.trace = S("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 -");
    insert(w, &t, 1);
    struct op_claim op = claim_until(w, NOW);
    assert_int_equal(op.ret.n, 1);
    struct task read = get(w, t.id);
    assert_same_task(&op.ret.v[0], &read);
    assert_true(str_eq(op.ret.v[0].trace, t.trace));
}

static void a_claim_takes_at_most_max_over_all_lanes(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    v[2].queue = v[3].queue = S("other");
    insert(w, v, 4);
    struct lane_quota lanes[] = { { task_lane(&v[0]), 2 }, { task_lane(&v[2]), 2 } };
    struct op_claim op = claim_of(w, lanes, 2);
    op.max = 3;
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_tasks(&op.ret, &v[0].id, &v[1].id, &v[2].id);
}

static void a_claim_stops_behind_its_bytes(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    for (size_t i = 0; i < 4; i++) {
        v[i].payload = S("123456");
        v[i].target_config = S("{  }");
    }
    insert(w, v, 4);
    struct op_claim exact = claim_of(w, &plenty, 1), one = claim_of(w, &plenty, 1);
    exact.max_bytes = 20;
    assert_int_equal(world_apply(w, &exact.op), ERR_OK);
    assert_tasks(&exact.ret, &v[0].id, &v[1].id);
    one.max_bytes = 1;
    assert_int_equal(world_apply(w, &one.op), ERR_OK);
    assert_tasks(&one.ret, &v[2].id);
    assert_int_equal(one.ret_next_due_ms, NOW);
}

static void bytes_stop_the_claim_not_only_the_lane(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    v[0].payload = v[1].payload = S("1234567890");
    v[1].queue = S("other");
    insert(w, v, 2);
    struct lane_quota lanes[] = { { task_lane(&v[0]), 2 }, { task_lane(&v[1]), 2 } };
    struct op_claim op = claim_of(w, lanes, 2);
    op.max_bytes = 10;
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_tasks(&op.ret, &v[0].id);
}

static void recurring_and_worker_tasks_are_never_claimed(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_recurring(w), some_task(w) };
    v[1].target = TARGET_WORKER;
    insert(w, v, 2);
    struct op_claim op = claim_until(w, NOW + 1000000);
    assert_int_equal(op.ret.n, 0);
    assert_true(op.ret_next_due_ms == INT64_MAX);
}

static void other_targets_and_occurrences_are_claimed(void **state)
{
    struct world *w = *state;
    struct task parent = some_recurring(w), v[5];
    static const enum target_kind targets[] = { TARGET_HTTP, TARGET_MESSAGE, TARGET_COMMAND, TARGET_WORKFLOW };
    for (size_t i = 0; i < array_count(targets); i++) {
        v[i] = some_task(w);
        v[i].target = targets[i];
    }
    v[4] = some_occurrence(w, &parent, NOW - 1);
    insert(w, v, 5);
    struct op_claim op = claim_until(w, NOW);
    assert_tasks(&op.ret, &v[4].id, &v[0].id, &v[1].id, &v[2].id, &v[3].id);
}

static void only_scheduled_tasks_are_claimed(void **state)
{
    struct world *w = *state;
    static const enum task_state others[] = { TASK_BLOCKED, TASK_PAUSED,    TASK_COMPLETED, TASK_FAILED,
                                              TASK_SKIPPED, TASK_CANCELLED, TASK_EXPIRED };
    for (size_t i = 0; i < array_count(others); i++) {
        struct task t = some_task(w);
        t.state = others[i];
        insert(w, &t, 1);
    }
    assert_int_equal(claim_until(w, NOW).ret.n, 0);
}

static void a_task_is_claimed_once(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    insert(w, &t, 1);
    assert_int_equal(claim_until(w, NOW).ret.n, 1);
    struct op_claim second = claim_until(w, NOW);
    assert_int_equal(second.ret.n, 0);
    assert_true(second.ret_next_due_ms == INT64_MAX);
    assert_int_equal(get(w, t.id).fence, 1);
}

static void a_task_given_back_is_claimed_under_a_higher_fence(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), claimed = claim_one(w, &t, fresh_id(w));
    struct settlement v = settlement_of(&claimed, TASK_SCHEDULED);
    v.verdict.due_ms = NOW + 5;
    assert_true(settle_with(w, &v));
    struct op_claim op = claim_until(w, NOW + 5);
    assert_tasks(&op.ret, &t.id);
    assert_int_equal(op.ret.v[0].fence, 2);
}

static void a_claim_id_in_use_conflicts_and_claims_nothing(void **state)
{
    struct world *w = *state;
    struct task first = some_task(w), second = some_task(w), claimed = claim_one(w, &first, fresh_id(w));
    insert(w, &second, 1);
    struct op_claim op = claim_of(w, &plenty, 1);
    op.claim = claimed.claim;
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_int_equal(get(w, second.id).state, TASK_SCHEDULED);
}

static void a_claim_that_took_nothing_leaves_no_row(void **state)
{
    struct world *w = *state;
    struct op_claim op = claim_of(w, &plenty, 1), again;
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_int_equal(op.ret.n, 0);
    struct task t = some_task(w);
    insert(w, &t, 1);
    again = claim_of(w, &plenty, 1);
    again.claim = op.claim;
    assert_int_equal(world_apply(w, &again.op), ERR_OK);
    assert_int_equal(again.ret.n, 1);
}

/* ---- read back ---- */

static struct tasks claimed_by(struct world *w, struct uuid claim)
{
    struct op_claimed op = { .op.kind = OP_CLAIMED, .claim = claim };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret;
}

static void a_claim_is_read_back_by_its_id(void **state)
{
    struct world *w = *state;
    struct task other = some_task(w), v[] = { some_task(w), some_task(w) };
    claim_one(w, &other, fresh_id(w));
    insert(w, v, 2);
    struct op_claim op = claim_until(w, NOW);
    assert_int_equal(op.ret.n, 2);
    struct tasks back = claimed_by(w, op.claim);
    assert_int_equal(back.n, 2);
    for (size_t i = 0; i < 2; i++) {
        size_t same = uuid_eq(back.v[i].id, v[0].id) ? 0 : 1;
        assert_same_task(&back.v[i], &op.ret.v[same]);
    }
    assert_false(uuid_eq(back.v[0].id, back.v[1].id));
}

static void a_claim_read_back_holds_only_what_is_not_settled(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    insert(w, v, 2);
    struct op_claim op = claim_until(w, NOW);
    struct settlement one = settlement_of(&op.ret.v[0], TASK_COMPLETED);
    assert_true(settle_with(w, &one));
    struct tasks back = claimed_by(w, op.claim);
    assert_tasks(&back, &v[1].id);
    struct settlement two = settlement_of(&op.ret.v[1], TASK_SCHEDULED);
    two.verdict.due_ms = NOW;
    assert_true(settle_with(w, &two));
    assert_int_equal(claimed_by(w, op.claim).n, 0);
    assert_true(uuid_is_nil(get(w, v[1].id).claim));
}

static void an_unknown_claim_holds_nothing(void **state)
{
    struct world *w = *state;
    assert_int_equal(claimed_by(w, fresh_id(w)).n, 0);
}

static struct tasks held_by_others(struct world *w, struct uuid node, size_t max)
{
    struct op_orphans op = { .op.kind = OP_ORPHANS, .not_node = node, .max = max };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret;
}

static void what_other_nodes_hold_is_found(void **state)
{
    struct world *w = *state;
    struct uuid me = fresh_id(w), dead = fresh_id(w);
    struct task mine = some_task(w), theirs = some_task(w), waiting = some_task(w);
    mine = claim_one(w, &mine, me);
    theirs = claim_one(w, &theirs, dead);
    insert(w, &waiting, 1);
    struct tasks held = held_by_others(w, me, 10);
    assert_tasks(&held, &theirs.id);
    assert_same_task(&held.v[0], &theirs);
    assert_int_equal(held_by_others(w, fresh_id(w), 10).n, 2);
}

static void what_was_settled_is_held_by_nobody(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), claimed = claim_one(w, &t, fresh_id(w));
    struct settlement v = settlement_of(&claimed, TASK_FAILED);
    assert_true(settle_with(w, &v));
    assert_int_equal(held_by_others(w, fresh_id(w), 10).n, 0);
}

static void at_most_max_of_what_is_held_is_told(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    for (size_t i = 0; i < 3; i++)
        claim_one(w, &v[i], fresh_id(w));
    struct tasks held = held_by_others(w, fresh_id(w), 2);
    assert_int_equal(held.n, 2);
    assert_false(uuid_eq(held.v[0].id, held.v[1].id));
}

static const struct CMUnitTest tests[] = {
    store_test(a_claim_makes_a_due_task_running_under_the_next_fence),
    store_test(a_lane_is_claimed_in_the_order_of_due_times_then_ids),
    store_test(what_is_due_after_until_is_left),
    store_test(at_most_once_is_claimed_at_its_due_time_never_early),
    store_test(a_lane_gives_no_more_than_its_quota),
    store_test(lanes_are_served_in_the_order_they_are_given),
    store_test(a_quota_of_nothing_takes_nothing_and_tells_when),
    store_test(only_the_lanes_asked_for_are_touched),
    store_test(a_claim_returns_tasks_as_they_are_in_the_store),
    store_test(a_claim_takes_at_most_max_over_all_lanes),
    store_test(a_claim_stops_behind_its_bytes),
    store_test(bytes_stop_the_claim_not_only_the_lane),
    store_test(recurring_and_worker_tasks_are_never_claimed),
    store_test(other_targets_and_occurrences_are_claimed),
    store_test(only_scheduled_tasks_are_claimed),
    store_test(a_task_is_claimed_once),
    store_test(a_task_given_back_is_claimed_under_a_higher_fence),
    store_test(a_claim_id_in_use_conflicts_and_claims_nothing),
    store_test(a_claim_that_took_nothing_leaves_no_row),
    store_test(a_claim_is_read_back_by_its_id),
    store_test(a_claim_read_back_holds_only_what_is_not_settled),
    store_test(an_unknown_claim_holds_nothing),
    store_test(what_other_nodes_hold_is_found),
    store_test(what_was_settled_is_held_by_nobody),
    store_test(at_most_max_of_what_is_held_is_told),
};
const struct test_list claim_tests = { tests, array_count(tests) };

/* OP_RETAKE: what a queue has forgotten is claimed anew in place. */
#include "store_fleet.h"
#include "store_slots.h"

enum { BYTES = 1000 };

static struct uuid some_node(struct world *w)
{
    struct uuid node = fresh_id(w);
    beat(w, node);
    return node;
}

/* Claimed by the node, and handed. */
static struct task handed_task(struct world *w, struct uuid node, const struct task *t)
{
    struct task claimed = claim_one(w, t, node);
    hand(w, node, claimed.claim);
    return claimed;
}

static struct task some_handed(struct world *w, struct uuid node)
{
    struct task t = some_task(w);
    return handed_task(w, node, &t);
}

static struct op_retake retake_of(struct world *w, struct uuid node, const struct fenced_id *v, size_t n)
{
    return (struct op_retake){
        .op.kind = OP_RETAKE, .claim = fresh_id(w), .node = node, .v = v, .n = n, .max_bytes = BYTES
    };
}

static struct tasks retake(struct world *w, struct uuid node, const struct fenced_id *v, size_t n)
{
    struct op_retake op = retake_of(w, node, v, n);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret;
}

static bool is_retaken(struct world *w, struct uuid node, const struct task *t)
{
    struct fenced_id name = { t->id, t->fence };
    struct tasks taken = retake(w, node, &name, 1);
    bool runs_anew = runs(w, t->id, t->fence + 1);
    assert_int_equal(taken.n, runs_anew);
    return runs_anew;
}

static void what_is_taken_runs_on_under_the_next_fence_and_another_claim(void **state)
{
    struct world *w = *state;
    struct uuid before = some_node(w), after = some_node(w);
    struct task t = some_task(w);
    t.payload = S("{\"a\":1}");
    struct task was = handed_task(w, before, &t), stays = some_handed(w, before);
    struct fenced_id names[] = { { was.id, was.fence }, { fresh_id(w), 1 } };
    struct op_retake op = retake_of(w, after, names, 2);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &was.id);
    was.fence++;
    was.claim = op.claim;
    assert_same_task(&was, &op.ret.v[0]);
    struct task now = get(w, was.id);
    assert_same_task(&was, &now);
    struct tasks still = handed(w);
    assert_tasks(&still, &stays.id); /* what was taken is not handed yet */
    hand(w, after, op.claim);
    assert_int_equal(handed(w).n, 2);
    struct op_claimed claimed = { .op.kind = OP_CLAIMED, .claim = op.claim };
    assert_ok(world_apply(w, &claimed.op), &claimed.op.error);
    assert_tasks(&claimed.ret, &was.id);
}

static void a_result_from_before_is_refused_and_one_from_after_counts(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task t = some_handed(w, node);
    assert_true(is_retaken(w, node, &t));
    struct settlement late = settlement_of(&t, TASK_COMPLETED);
    assert_false(settle_with(w, &late));
    t.fence++;
    struct settlement v = settlement_of(&t, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    assert_false(is_retaken(w, node, &t));
}

static void who_comes_second_takes_nothing(void **state)
{
    struct world *w = *state;
    struct uuid one = some_node(w), other = some_node(w);
    struct task t = some_handed(w, one);
    struct fenced_id name = { t.id, t.fence };
    assert_int_equal(retake(w, one, &name, 1).n, 1);
    assert_int_equal(retake(w, other, &name, 1).n, 0);
    assert_true(runs(w, t.id, t.fence + 1));
}

static void what_is_taken_is_left_behind_by_who_dies_before_it_is_handed(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w), other = some_node(w);
    struct task t = some_handed(w, other);
    assert_true(is_retaken(w, node, &t));
    assert_true(bury(w, node, 1));
    struct tasks left = left_behind(w, other);
    assert_tasks(&left, &t.id);
}

static void the_claim_before_is_over_when_its_last_task_was_taken(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w), other = some_node(w);
    struct task v[] = { some_task(w), some_task(w) };
    insert(w, v, 2);
    struct lane_quota lane = { some_lane(), 2 };
    struct op_claim claim = claim_of(w, &lane, 1);
    claim.node = other;
    assert_ok(world_apply(w, &claim.op), &claim.op.error);
    assert_true(is_retaken(w, node, &claim.ret.v[0]));
    struct op_claim again = claim_of(w, &lane, 1);
    again.claim = claim.claim;
    assert_int_equal(world_apply(w, &again.op), ERR_CONFLICT); /* it is held still */
    assert_true(is_retaken(w, node, &claim.ret.v[1]));
    assert_ok(world_apply(w, &again.op), &again.op.error);
}

static void what_must_not_simply_run_once_more_is_left_alone(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task t = some_task(w);
    t.delivery = DELIVER_AT_MOST_ONCE;
    struct task once = handed_task(w, node, &t);
    assert_false(is_retaken(w, node, &once));
    t = some_worker_task(w);
    struct task leased = lease_one(w, &t);
    assert_false(is_retaken(w, node, &leased));
    struct task there = some_handed(w, node), gone = there;
    gone.deleted = true;
    struct op_put put = put_of(&there, &gone);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_false(is_retaken(w, node, &there));
    assert_true(runs(w, once.id, once.fence) && runs(w, leased.id, leased.fence));
}

static void what_is_wished_back_is_left_alone(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task t = some_handed(w, node), other = some_handed(w, node);
    struct op_recall recall_request = { .id = t.id, .fence = t.fence };
    assert_ok(recall_with(w, &recall_request), &recall_request.op.error);
    assert_false(is_retaken(w, node, &t));
    assert_true(is_retaken(w, node, &other));
}

static void a_wish_that_is_over_keeps_nobody_from_it(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task t = some_handed(w, node);
    struct op_recall recall_request = { .id = t.id, .fence = t.fence };
    assert_ok(recall_with(w, &recall_request), &recall_request.op.error);
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    struct lane_quota lane = { some_lane(), 1 };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(is_retaken(w, node, &op.ret.v[0]));
}

static void one_that_is_too_large_is_left_alone(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    char text[BYTES + 2];
    struct task fits = some_task(w), large = some_task(w);
    memset(text, '1', sizeof text);
    fits.target_config = large.target_config = (struct str){ 0 };
    fits.payload = (struct str){ text, BYTES };
    large.payload = (struct str){ text, BYTES + 1 };
    fits = handed_task(w, node, &fits);
    large = handed_task(w, node, &large);
    assert_true(is_retaken(w, node, &fits));
    assert_false(is_retaken(w, node, &large));
}

static void its_slots_stay_its_own(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task t = keyed_task(w, 1, NOW - 1), waits = keyed_task(w, 1, NOW);
    struct task held = claim_alone(w, &t);
    gate_alone(w, &waits);
    assert_true(is_retaken(w, node, &held));
    assert_holders(w, KEY, &held.id);
    held.fence++;
    assert_true(end_wakes(w, &held, TASK_COMPLETED));
    assert_scheduled(w, waits.id);
}

static void a_claim_that_was_made_and_a_node_that_is_dead_take_nothing(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w), dead = some_node(w);
    struct task t = some_handed(w, node), other = some_handed(w, node);
    struct fenced_id name = { t.id, t.fence };
    struct op_retake op = retake_of(w, node, &name, 1);
    op.claim = other.claim;
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_true(bury(w, dead, 1));
    op = retake_of(w, dead, &name, 1);
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_string_equal(op.op.error.field, "node");
    assert_true(runs(w, t.id, t.fence));
}

static void an_answer_that_does_not_fit_leaves_no_trace(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task t = some_handed(w, node);
    struct fenced_id name = { t.id, t.fence };
    struct op_retake op = retake_of(w, node, &name, 1);
    arena_init(&op.op.arena, 64);
    assert_int_equal(world_apply(w, &op.op), ERR_LIMIT);
    assert_true(runs(w, t.id, t.fence));
    struct tasks still = handed(w);
    assert_tasks(&still, &t.id);
}

static const struct CMUnitTest tests[] = {
    store_test(what_is_taken_runs_on_under_the_next_fence_and_another_claim),
    store_test(a_result_from_before_is_refused_and_one_from_after_counts),
    store_test(who_comes_second_takes_nothing),
    store_test(what_is_taken_is_left_behind_by_who_dies_before_it_is_handed),
    store_test(the_claim_before_is_over_when_its_last_task_was_taken),
    store_test(what_must_not_simply_run_once_more_is_left_alone),
    store_test(what_is_wished_back_is_left_alone),
    store_test(a_wish_that_is_over_keeps_nobody_from_it),
    store_test(one_that_is_too_large_is_left_alone),
    store_test(its_slots_stay_its_own),
    store_test(a_claim_that_was_made_and_a_node_that_is_dead_take_nothing),
    store_test(an_answer_that_does_not_fit_leaves_no_trace),
};
const struct test_list retake_tests = { tests, array_count(tests) };

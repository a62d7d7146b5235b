/* OP_HANDOFF, OP_HANDED_OFF and OP_RUNNING: what a queue has, whatever becomes of who put it there. */
#include <stdlib.h>

#include "store_fleet.h"

static struct task claimed_by(struct world *w, struct uuid node)
{
    struct task t = some_task(w);
    return claim_one(w, &t, node);
}

static struct uuid some_node(struct world *w)
{
    struct uuid node = fresh_id(w);
    beat(w, node);
    return node;
}

/* ---- OP_HANDOFF ---- */

static void what_was_handed_is_not_left_behind(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w), other = some_node(w);
    struct task stays = claimed_by(w, node), goes = claimed_by(w, node);
    hand(w, node, goes.claim);
    assert_true(bury(w, node, 1));
    assert_true(beat(w, other).ret_has_orphans);
    struct tasks left = left_behind(w, other);
    assert_tasks(&left, &stays.id);
    struct settlement v = settlement_of(&stays, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    assert_false(beat(w, other).ret_has_orphans);
    v = settlement_of(&goes, TASK_COMPLETED);
    assert_true(settle_with(w, &v)); /* by whoever hears of its outcome */
}

static void a_task_that_was_handed_and_is_claimed_again_is_held_again(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w), other = some_node(w);
    struct task t = claimed_by(w, node);
    hand(w, node, t.claim);
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    struct lane_quota lane = { some_lane(), 1 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.node = node;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(bury(w, node, 1));
    struct tasks left = left_behind(w, other);
    assert_tasks(&left, &t.id);
}

static void claims_that_hold_nothing_or_are_others_are_passed_over(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w), other = some_node(w);
    struct task done = claimed_by(w, node), theirs = claimed_by(w, other), mine = claimed_by(w, node);
    struct settlement v = settlement_of(&done, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    struct uuid claims[] = { done.claim, theirs.claim, fresh_id(w), mine.claim, mine.claim };
    assert_int_equal(hand_all(w, node, claims, array_count(claims)), ERR_OK);
    assert_int_equal(hand_all(w, node, NULL, 0), ERR_OK);
    struct tasks t = handed(w);
    assert_tasks(&t, &mine.id);
    assert_true(bury(w, other, 1));
    struct tasks left = left_behind(w, node);
    assert_tasks(&left, &theirs.id);
}

static void a_node_that_is_dead_hands_nothing(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w), other = some_node(w);
    struct task t = claimed_by(w, node);
    assert_true(bury(w, node, 1));
    struct op_handoff op = { .op.kind = OP_HANDOFF, .node = node, .claims = &t.claim, .n = 1 };
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_string_equal(op.op.error.field, "node");
    assert_int_equal(handed(w).n, 0);
    assert_int_equal(left_behind(w, other).n, 1);
}

/* OP_HANDOFF 4. */
static void claims_of_the_dead_are_handed_in_their_place(void **state)
{
    struct world *w = *state;
    struct uuid dead = some_node(w), lives = some_node(w), us = some_node(w), unknown = fresh_id(w);
    struct task v[] = { claimed_by(w, dead), claimed_by(w, dead), claimed_by(w, lives), claimed_by(w, us),
                        claimed_by(w, unknown) };
    struct uuid claims[] = { v[0].claim, v[2].claim, v[3].claim, v[4].claim, fresh_id(w) };
    struct op_handoff op = {
        .op.kind = OP_HANDOFF, .node = us, .claims = claims, .n = array_count(claims), .orphaned = true
    };
    assert_true(bury(w, dead, 1));
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct tasks t = handed(w);
    assert_tasks(&t, &v[0].id, &v[4].id);
    struct tasks left = left_behind(w, us);
    assert_tasks(&left, &v[1].id);
    struct op_handoff again = op;
    again.op = (struct op){ .kind = OP_HANDOFF };
    assert_ok(world_apply(w, &again.op), &again.op.error); /* its answer was lost */
    assert_int_equal(handed(w).n, 2);
    assert_true(bury(w, us, 1));
    struct op_handoff late = op;
    late.op = (struct op){ .kind = OP_HANDOFF };
    assert_int_equal(world_apply(w, &late.op), ERR_CONFLICT); /* rule 3 */
}

static void what_was_handed_is_wished_back_of_who_claimed_it(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task t = claimed_by(w, node);
    hand(w, node, t.claim);
    struct op_recall recall_request = { .id = t.id, .fence = t.fence, .abort = true };
    assert_ok(recall_with(w, &recall_request), &recall_request.op.error);
    assert_true(uuid_eq(recall_request.ret_owner, node));
    assert_true(beat(w, node).ret_recall_requested);
    assert_int_equal(recall_requests_of(w, node, 10).ret_count, 1);
}

/* ---- OP_HANDED_OFF ---- */

static const struct handed_place from_the_first = { 0 };

static void what_was_handed_comes_with_the_epoch_it_was_first_handed_with(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w), other = some_node(w);
    struct task v[] = { claimed_by(w, node), claimed_by(w, node), claimed_by(w, node), claimed_by(w, other) };
    struct uuid claims[] = { v[3].claim, v[1].claim, v[0].claim };
    uint64_t epochs[] = { 9, 1700000000000001, INT64_MAX };
    struct op_handoff op = { .op.kind = OP_HANDOFF, .node = node, .claims = claims, .epochs = epochs, .n = 3 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    hand_in(w, node, v[1].claim, 7); /* the answer was lost, and it is handed once more */
    hand(w, node, v[2].claim);
    struct op_handed_off all = handed_behind(w, INT64_MAX, from_the_first, 100);
    assert_tasks(&all.ret, &v[0].id, &v[1].id, &v[2].id);
    assert_true(all.ret_epochs[0] == INT64_MAX && all.ret_epochs[1] == 1700000000000001 && all.ret_epochs[2] == 0);
    struct op_handed_off page = handed_behind(w, INT64_MAX, (struct handed_place){ v[0].claim, v[0].id }, 1);
    assert_true(page.ret.n == 1 && page.ret_more && page.ret_epochs[0] == 1700000000000001);
    struct settlement s = settlement_of(&v[0], TASK_COMPLETED);
    assert_true(settle_with(w, &s));
    assert_true(handed_behind(w, INT64_MAX, from_the_first, 1).ret_epochs[0] == 1700000000000001);
}

static void what_was_handed_comes_claim_by_claim_in_pages(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w), claims[2];
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    for (int i = 0; i < 4; i++)
        v[i].due_ms -= i; /* the last two come with the first claim, and in it the last first */
    insert(w, v, 4);
    for (int i = 0; i < 2; i++) {
        struct lane_quota lane = { some_lane(), 2 };
        struct op_claim op = claim_of(w, &lane, 1);
        op.node = node;
        assert_ok(world_apply(w, &op.op), &op.op.error);
        hand(w, node, op.claim);
        claims[i] = op.claim;
    }
    struct op_handed_off first = handed_behind(w, INT64_MAX, from_the_first, 3);
    assert_tasks(&first.ret, &v[2].id, &v[3].id, &v[0].id);
    assert_true(first.ret_more);
    struct task now = get(w, v[2].id);
    now.payload = now.extra = now.target_config = S(""); /* what settling it does not need */
    assert_same_task(&now, &first.ret.v[0]);
    struct op_handed_off second = handed_behind(w, INT64_MAX, (struct handed_place){ claims[1], v[0].id }, 3);
    assert_tasks(&second.ret, &v[1].id);
    assert_false(second.ret_more);
    struct op_handed_off exact = handed_behind(w, INT64_MAX, (struct handed_place){ claims[0], v[3].id }, 2);
    assert_true(exact.ret.n == 2 && !exact.ret_more);
    struct op_handed_off within = handed_behind(w, INT64_MAX, (struct handed_place){ claims[0], v[2].id }, 2);
    assert_tasks(&within.ret, &v[3].id, &v[0].id);
    assert_true(within.ret_more);
    assert_int_equal(handed_behind(w, INT64_MAX, (struct handed_place){ claims[1], v[1].id }, 3).ret.n, 0);
}

static void only_claims_from_before_that_time_are_told(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task t = claimed_by(w, node); /* its claim's id is from NOW */
    hand(w, node, t.claim);
    assert_int_equal(handed_behind(w, NOW, from_the_first, 3).ret.n, 0);
    assert_int_equal(handed_behind(w, NOW + 1, from_the_first, 3).ret.n, 1);
    assert_int_equal(handed_behind(w, 0, from_the_first, 3).ret.n, 0);
}

static void what_is_held_leased_or_over_was_not_handed(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task held = claimed_by(w, node), worker = some_worker_task(w), over = claimed_by(w, node);
    lease_one(w, &worker);
    hand(w, node, over.claim);
    struct settlement v = settlement_of(&over, TASK_COMPLETED);
    assert_int_equal(handed(w).n, 1);
    assert_true(settle_with(w, &v));
    assert_int_equal(handed(w).n, 0);
    assert_true(runs(w, held.id, held.fence));
}

static void of_a_claim_only_what_still_runs_is_told(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task v[] = { some_task(w), some_task(w) };
    insert(w, v, 2);
    struct lane_quota lane = { some_lane(), 2 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.node = node;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    hand(w, node, op.claim);
    struct settlement done = settlement_of(&op.ret.v[0], TASK_COMPLETED);
    assert_true(settle_with(w, &done));
    struct tasks t = handed(w);
    assert_tasks(&t, &op.ret.v[1].id);
}

static void an_answer_that_does_not_fit_leaves_no_trace(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task t = claimed_by(w, node);
    hand(w, node, t.claim);
    struct op_handed_off op = { .op.kind = OP_HANDED_OFF, .before_ms = INT64_MAX, .max = 10 };
    arena_init(&op.op.arena, 64);
    assert_int_equal(world_apply(w, &op.op), ERR_LIMIT);
    assert_int_equal(handed(w).n, 1);
}

enum { LARGE = 3 << 20, LARGE_COUNT = 4 };

/* The last may run again, and its target is of no interest then. */
static void hand_large_ones(struct world *w, struct task ret[LARGE_COUNT])
{
    struct uuid node = some_node(w);
    char *text = xcalloc(LARGE, 1);
    memset(text, 'x', LARGE);
    for (int i = 0; i < LARGE_COUNT; i++) {
        struct task t = some_task(w);
        t.payload = t.extra = t.target_config = (struct str){ text, LARGE };
        t.delivery = i < LARGE_COUNT - 1 ? DELIVER_AT_MOST_ONCE : DELIVER_AT_LEAST_ONCE;
        ret[i] = claim_one(w, &t, node);
        hand(w, node, ret[i].claim);
    }
    free(text);
}

/* In pages of so many, each with no more memory than that takes. */
static void large_ones_come_by(struct world *w, const struct task v[LARGE_COUNT], size_t max_bytes, size_t by)
{
    struct handed_place after = { 0 };
    for (size_t from = 0; from < LARGE_COUNT; from += by) {
        struct op_handed_off op = {
            .op.kind = OP_HANDED_OFF, .before_ms = INT64_MAX, .after = after, .max = 100, .max_bytes = max_bytes
        };
        arena_init(&op.op.arena, by * LARGE + (1 << 20));
        assert_ok(world_apply(w, &op.op), &op.op.error);
        assert_int_equal(op.ret.n, by);
        assert_true(op.ret_more == (from + by < LARGE_COUNT));
        for (size_t i = 0; i < by; i++) {
            const struct task *t = &op.ret.v[i], *expected = &v[from + i];
            bool once = expected->delivery == DELIVER_AT_MOST_ONCE;
            assert_true(uuid_eq(t->id, expected->id) && t->fence == expected->fence);
            assert_true(t->payload.n == 0 && t->extra.n == 0);
            assert_true(str_eq(t->target_config, once ? expected->target_config : S("")));
            after = (struct handed_place){ t->claim, t->id };
        }
    }
}

static void large_tasks_come_as_they_fit_in_and_one_at_least(void **state)
{
    struct world *w = *state;
    struct task v[LARGE_COUNT];
    hand_large_ones(w, v);
    large_ones_come_by(w, v, 1, 1);
    large_ones_come_by(w, v, LARGE, 1);
    large_ones_come_by(w, v, LARGE + 1, 2);
    large_ones_come_by(w, v, 0, LARGE_COUNT);
}

/* ---- OP_RUNNING ---- */

static void a_task_runs_under_its_fence_alone(void **state)
{
    struct world *w = *state;
    struct task t = claimed_by(w, some_node(w)), waits = some_task(w);
    insert(w, &waits, 1);
    struct fenced_id v[] = {
        { t.id, t.fence }, { t.id, t.fence + 1 }, { fresh_id(w), 1 }, { waits.id, 1 }, { t.id, t.fence }
    };
    bool ret[array_count(v)] = { false, true, true, true, false };
    struct op_running op = { .op.kind = OP_RUNNING, .v = v, .n = array_count(v), .ret = ret };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(ret[0] && !ret[1] && !ret[2] && !ret[3] && ret[4]);
    struct settlement done = settlement_of(&t, TASK_COMPLETED);
    assert_true(settle_with(w, &done));
    assert_false(runs(w, t.id, t.fence));
}

static void what_is_settled_in_the_same_batch_runs_no_more(void **state)
{
    struct world *w = *state;
    struct task t = claimed_by(w, some_node(w));
    bool before = false, after = true;
    struct fenced_id name = { t.id, t.fence };
    struct settlement v = settlement_of(&t, TASK_COMPLETED);
    struct op_running first = { .op.kind = OP_RUNNING, .v = &name, .n = 1, .ret = &before };
    struct op_settle settle = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW };
    struct op_running second = { .op.kind = OP_RUNNING, .v = &name, .n = 1, .ret = &after };
    world_apply_all(w, (struct op *[]){ &first.op, &settle.op, &second.op }, 3);
    assert_true(before && !after);
}

/* ---- what runs without its node counts (OP_LIMIT_TAKE) ---- */

static int64_t places(struct world *w, struct uuid node, struct str key, int64_t want)
{
    struct share share = { .key = key, .concurrency = 3, .want_places = want };
    struct op_limit_take op = { .op.kind = OP_LIMIT_TAKE, .node = node, .v = &share, .n = 1, .now_ms = NOW };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return share.ret_places;
}

static void gone(struct world *w, struct uuid node, bool left)
{
    struct op_heartbeat op = { .node.id = node, .leave = true };
    if (left)
        assert_ok(beat_with(w, &op), &op.op.error);
    else
        assert_true(bury(w, node, 1));
}

static void a_limit_holds(struct world *w, struct str key, bool left)
{
    struct uuid dies = some_node(w), lives = some_node(w);
    struct task one = claimed_by(w, dies), two = claimed_by(w, dies), elsewhere = some_task(w), held = some_task(w);
    elsewhere.tenant = OTHER_TENANT;
    elsewhere = claim_one(w, &elsewhere, dies);
    held = claim_one(w, &held, dies);
    hand(w, dies, one.claim);
    hand(w, dies, two.claim);
    hand(w, dies, elsewhere.claim);
    assert_int_equal(places(w, dies, key, 3), 3);
    assert_int_equal(places(w, lives, key, 3), 0);
    gone(w, dies, left);
    assert_int_equal(places(w, lives, key, 3), 0); /* the third of `dies` is for what it had not handed off */
    struct settlement v = settlement_of(&one, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    assert_int_equal(places(w, lives, key, 3), 1);
    v = settlement_of(&two, TASK_SCHEDULED);
    assert_true(settle_with(w, &v));
    assert_int_equal(places(w, lives, key, 3), 2);
    v = settlement_of(&held, TASK_SCHEDULED);
    assert_true(settle_with(w, &v));
    assert_int_equal(places(w, lives, key, 3), 3);
}

static void places_of_who_died_stay_taken_for_what_it_had_claimed_and_handed(void **state)
{
    a_limit_holds(*state, S("q:1:default"), false);
}

static void places_of_who_left_stay_taken_for_what_it_had_claimed_and_handed(void **state)
{
    a_limit_holds(*state, S("q:1:default"), true);
}

/* They may run at a worker, and are handed off in its place. */
static void places_of_who_died_stay_taken_for_what_it_had_claimed(void **state)
{
    struct world *w = *state;
    struct uuid dies = some_node(w), lives = some_node(w);
    struct task one = claimed_by(w, dies);
    assert_int_equal(places(w, dies, S("q:1:default"), 1), 1);
    assert_true(bury(w, dies, 1));
    assert_int_equal(places(w, lives, S("q:1:default"), 3), 2);
    struct op_handoff op = { .op.kind = OP_HANDOFF, .node = lives, .claims = &one.claim, .n = 1, .orphaned = true };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(places(w, lives, S("q:1:default"), 3), 2);
    struct settlement v = settlement_of(&one, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    assert_int_equal(places(w, lives, S("q:1:default"), 3), 3);
}

static void places_of_a_tenant_too_stay_taken_for_what_was_claimed(void **state)
{
    a_limit_holds(*state, S("t:1"), false);
}

static void of_who_had_no_places_nothing_counts(void **state)
{
    struct world *w = *state;
    struct uuid dies = some_node(w), lives = some_node(w);
    struct task t = claimed_by(w, dies);
    hand(w, dies, t.claim);
    assert_true(bury(w, dies, 1));
    assert_int_equal(places(w, lives, S("q:1:default"), 3), 3);
}

static void keys_that_say_nothing_of_tasks_are_free_at_once(void **state)
{
    struct world *w = *state;
    static const char *const keys[] = { "q:1:other", "q:2:default", "t:2", "q:x:default", "q:1", "t:1:default", "z" };
    struct uuid dies = some_node(w), lives = some_node(w);
    struct task t = claimed_by(w, dies);
    hand(w, dies, t.claim);
    for (size_t i = 0; i < array_count(keys); i++)
        assert_int_equal(places(w, dies, str_from(keys[i]), 3), 3);
    assert_true(bury(w, dies, 1));
    for (size_t i = 0; i < array_count(keys); i++)
        assert_int_equal(places(w, lives, str_from(keys[i]), 3), 3);
}

static void what_is_leased_takes_a_place(void **state)
{
    struct world *w = *state;
    struct uuid node = some_node(w);
    struct task t = some_worker_task(w), leased = lease_one(w, &t);
    assert_int_equal(places(w, node, S("q:1:default"), 3), 2);
    assert_int_equal(places(w, node, S("t:1"), 3), 2);
    assert_int_equal(places(w, node, S("q:1:other"), 3), 3);
    struct settlement v = settlement_of(&leased, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    assert_int_equal(places(w, node, S("q:1:default"), 3), 3);
    assert_int_equal(places(w, node, S("t:1"), 3), 3);
}

static void a_limit_is_forgotten_once_nothing_handed_is_left_of_who_died(void **state)
{
    struct world *w = *state;
    struct uuid dies = some_node(w);
    struct task t = claimed_by(w, dies);
    assert_int_equal(places(w, dies, S("q:1:default"), 3), 3);
    hand(w, dies, t.claim);
    assert_true(bury(w, dies, 1));
    struct op_purge op = { .op.kind = OP_PURGE, .now_ms = NOW + 2 * NODE_KEPT_MS, .max = 100 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_purged, 0);
    struct settlement v = settlement_of(&t, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    op = (struct op_purge){ .op.kind = OP_PURGE, .now_ms = NOW + 2 * NODE_KEPT_MS, .max = 100 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_purged, 2); /* the limit and the node */
}

static const struct CMUnitTest tests[] = {
    store_test(what_was_handed_is_not_left_behind),
    store_test(a_task_that_was_handed_and_is_claimed_again_is_held_again),
    store_test(claims_that_hold_nothing_or_are_others_are_passed_over),
    store_test(a_node_that_is_dead_hands_nothing),
    store_test(claims_of_the_dead_are_handed_in_their_place),
    store_test(what_was_handed_is_wished_back_of_who_claimed_it),
    store_test(what_was_handed_comes_with_the_epoch_it_was_first_handed_with),
    store_test(what_was_handed_comes_claim_by_claim_in_pages),
    store_test(only_claims_from_before_that_time_are_told),
    store_test(what_is_held_leased_or_over_was_not_handed),
    store_test(of_a_claim_only_what_still_runs_is_told),
    store_test(an_answer_that_does_not_fit_leaves_no_trace),
    store_test(large_tasks_come_as_they_fit_in_and_one_at_least),
    store_test(a_task_runs_under_its_fence_alone),
    store_test(what_is_settled_in_the_same_batch_runs_no_more),
    store_test(places_of_who_died_stay_taken_for_what_it_had_claimed_and_handed),
    store_test(places_of_who_left_stay_taken_for_what_it_had_claimed_and_handed),
    store_test(places_of_who_died_stay_taken_for_what_it_had_claimed),
    store_test(places_of_a_tenant_too_stay_taken_for_what_was_claimed),
    store_test(of_who_had_no_places_nothing_counts),
    store_test(keys_that_say_nothing_of_tasks_are_free_at_once),
    store_test(what_is_leased_takes_a_place),
    store_test(a_limit_is_forgotten_once_nothing_handed_is_left_of_who_died),
};
const struct test_list hand_tests = { tests, array_count(tests) };

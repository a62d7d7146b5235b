/* Tasks that are due in days, which a store may keep otherwise than those that are due soon: nobody can tell by when
 * they are claimed. */
#include "base/date.h"
#include "store_world.h"

static struct task due_at(struct world *w, int64_t due_ms)
{
    struct task t = some_task(w);
    t.created_ms = NOW;
    t.due_ms = t.scheduled_ms = due_ms;
    return t;
}

static struct op_claim claim_at(struct world *w, int64_t now_ms)
{
    struct lane_quota lane = { some_lane(), 100 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.now_ms = op.until_ms = now_ms;
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_int_equal(lane.ret_next_due_ms, op.ret_next_due_ms);
    op.lanes = NULL;
    return op;
}

static void retention_at(struct world *w, int64_t now_ms)
{
    struct op_purge op = { .op.kind = OP_PURGE, .now_ms = now_ms, .max = 2, .ret_more = true };
    for (int i = 0; i < 100 && op.ret_more; i++)
        assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_false(op.ret_more);
}

static void what_is_due_in_days_is_claimed_at_its_time_in_its_order(void **state)
{
    struct world *w = *state;
    struct task in_30 = due_at(w, NOW + 30 * DAY_MS), in_10 = due_at(w, NOW + 10 * DAY_MS),
                first = due_at(w, NOW + 10 * DAY_MS - 1), soon = due_at(w, NOW + 5);
    insert(w, (struct task[]){ in_30, in_10, first, soon }, 4);
    struct op_claim op = claim_at(w, NOW);
    assert_int_equal(op.ret.n, 0);
    assert_int_equal(op.ret_next_due_ms, NOW + 5);
    op = claim_at(w, NOW + 5);
    assert_tasks(&op.ret, &soon.id);
    assert_in_range(op.ret_next_due_ms, NOW + 5 + CLAIM_SIGHT_MS, first.due_ms);
    op = claim_at(w, first.due_ms - CLAIM_SIGHT_MS);
    assert_int_equal(op.ret.n, 0);
    assert_int_equal(op.ret_next_due_ms, first.due_ms);
    op = claim_at(w, NOW + 10 * DAY_MS);
    assert_tasks(&op.ret, &first.id, &in_10.id);
    op = claim_at(w, NOW + 30 * DAY_MS - 1);
    assert_int_equal(op.ret.n, 0);
    assert_int_equal(op.ret_next_due_ms, in_30.due_ms);
    op = claim_at(w, NOW + 30 * DAY_MS);
    assert_tasks(&op.ret, &in_30.id);
    assert_true(op.ret_next_due_ms == INT64_MAX);
}

static void upkeep_changes_nothing_of_what_is_due_in_days(void **state)
{
    struct world *w = *state;
    struct task v[20];
    for (size_t i = 0; i < array_count(v); i++)
        v[i] = due_at(w, NOW + 10 * DAY_MS - (int64_t)i);
    insert(w, v, array_count(v));
    for (int day = 0; day < 10; day++)
        retention_at(w, NOW + day * DAY_MS);
    assert_int_equal(get(w, v[3].id).version, v[3].version);
    struct op_claim op = claim_at(w, NOW + 10 * DAY_MS - 10);
    assert_int_equal(op.ret.n, 10);
    assert_int_equal(op.ret_next_due_ms, NOW + 10 * DAY_MS - 9);
    assert_true(uuid_eq(op.ret.v[0].id, v[19].id));
}

static void after_days_without_a_claim_all_that_is_due_is_claimed(void **state)
{
    struct world *w = *state;
    struct task a = due_at(w, NOW + 4 * DAY_MS), b = due_at(w, NOW + 20 * DAY_MS), c = due_at(w, NOW + 7 * DAY_MS);
    insert(w, (struct task[]){ b, c, a }, 3);
    int64_t due = 0;
    struct error e = { 0 };
    assert_ok(reader_queue_due(w->reader, TENANT, some_lane().queue, NOW + 7 * DAY_MS, &due, &e), &e);
    assert_int_equal(due, 2);
    struct op_claim op = claim_at(w, NOW + 40 * DAY_MS);
    assert_tasks(&op.ret, &a.id, &c.id, &b.id);
}

/* Its time was far from the day it was made; now it is not. */
static void what_was_due_in_days_may_be_put_to_now(void **state)
{
    struct world *w = *state;
    struct task t = due_at(w, NOW + 50 * DAY_MS), old = due_at(w, NOW + 50 * DAY_MS);
    insert(w, (struct task[]){ t, old }, 2);
    t.due_ms = t.scheduled_ms = NOW + 1;
    struct op_put put = { .op.kind = OP_PUT, .task = &t, .version = t.version, .state = TASK_SCHEDULED };
    assert_int_equal(world_apply(w, &put.op), ERR_OK);
    struct op_claim op = claim_at(w, NOW + 1);
    assert_tasks(&op.ret, &t.id);
    old.due_ms = old.scheduled_ms = NOW + 20 * DAY_MS + 7;
    put = (struct op_put){ .op.kind = OP_PUT, .task = &old, .version = old.version, .state = TASK_SCHEDULED };
    assert_int_equal(world_apply(w, &put.op), ERR_OK);
    op = claim_at(w, NOW + 20 * DAY_MS);
    assert_int_equal(op.ret.n, 0);
    assert_int_equal(op.ret_next_due_ms, NOW + 20 * DAY_MS + 7);
    op = claim_at(w, NOW + 20 * DAY_MS + 7);
    assert_tasks(&op.ret, &old.id);
}

static const struct CMUnitTest tests[] = {
    store_test(what_is_due_in_days_is_claimed_at_its_time_in_its_order),
    store_test(upkeep_changes_nothing_of_what_is_due_in_days),
    store_test(after_days_without_a_claim_all_that_is_due_is_claimed),
    store_test(what_was_due_in_days_may_be_put_to_now),
};
const struct test_list far_tests = { tests, array_count(tests) };

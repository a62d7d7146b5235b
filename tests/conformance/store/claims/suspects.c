/* Suspects in lanes of their own, what a claim tells of each lane, and the causes of failures. */
#include <stdio.h>

#include "store_slots.h"

static struct task suspect(struct world *w, int64_t due_ms)
{
    struct task t = some_task(w);
    t.losses = SUSPECT_LOSSES;
    t.due_ms = due_ms;
    return t;
}

static void each_lane_tells_what_it_gave_and_what_is_left(void **state)
{
    struct world *w = *state;
    struct task a[] = { some_task(w), some_task(w) }, b = some_task(w);
    a[1].due_ms = NOW + 70;
    b.queue = S("other");
    insert(w, a, 2);
    insert(w, &b, 1);
    struct lane_quota lanes[] = { { task_lane(&a[0]), 5 },
                                  { task_lane(&b), 0 },
                                  { { .tenant = TENANT, .queue = S("empty") }, 5 } };
    lanes[2].ret_taken = 9;
    struct op_claim op = claim_of(w, lanes, 3);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(lanes[0].ret_taken, 1);
    assert_int_equal(lanes[0].ret_next_due_ms, NOW + 70);
    assert_int_equal(lanes[1].ret_taken, 0);
    assert_int_equal(lanes[1].ret_next_due_ms, NOW);
    assert_int_equal(lanes[2].ret_taken, 0);
    assert_true(lanes[2].ret_next_due_ms == INT64_MAX);
    assert_int_equal(op.ret_next_due_ms, NOW);
    assert_true(op.ret_next_suspect_ms == INT64_MAX);
}

static void suspects_are_taken_last_by_due_time_over_all_lanes(void **state)
{
    struct world *w = *state;
    struct task plain = some_task(w), v[] = { suspect(w, NOW - 3), suspect(w, NOW - 9), suspect(w, NOW - 6) };
    v[1].queue = S("other");
    insert(w, v, 3);
    insert(w, &plain, 1);
    struct lane_quota lanes[] = { { some_lane(), 1 }, { task_lane(&v[1]), 0 } };
    struct op_claim op = claim_of(w, lanes, 2);
    op.max_suspects = 2;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &plain.id, &v[1].id, &v[2].id);
    assert_int_equal(lanes[0].ret_taken, 1);
    assert_int_equal(lanes[1].ret_taken, 0);
    assert_true(op.ret_next_due_ms == INT64_MAX);
    assert_int_equal(op.ret_next_suspect_ms, NOW - 3);
}

static void without_leave_no_suspect_is_taken(void **state)
{
    struct world *w = *state;
    struct task t = suspect(w, NOW);
    insert(w, &t, 1);
    struct lane_quota lane = { some_lane(), 10 };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, 0);
    assert_int_equal(op.ret_next_suspect_ms, NOW);
    assert_true(lane.ret_next_due_ms == INT64_MAX);
}

static void suspects_count_in_max_and_in_the_bytes(void **state)
{
    struct world *w = *state;
    struct task plain = some_task(w), v[] = { suspect(w, NOW), suspect(w, NOW) };
    v[0].payload = S("12345");
    insert(w, &plain, 1);
    insert(w, v, 2);
    struct lane_quota lane = { some_lane(), 10 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.max = 1;
    op.max_suspects = 5;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &plain.id);
    op = claim_of(w, &lane, 1);
    op.max_bytes = 5;
    op.max_suspects = 5;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &v[0].id);
}

static void a_suspect_is_not_early_either(void **state)
{
    struct world *w = *state;
    struct task once = suspect(w, NOW + 1), soon = suspect(w, NOW + 2), later = suspect(w, NOW + 60);
    once.delivery = DELIVER_AT_MOST_ONCE;
    insert(w, (struct task[]){ once, soon, later }, 3);
    struct lane_quota lanes[] = { { task_lane(&soon), 10 }, { task_lane(&once), 10 } };
    struct op_claim op = claim_of(w, lanes, 2);
    op.until_ms = NOW + 50;
    op.max_suspects = 5;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &soon.id);
    assert_int_equal(op.ret_next_suspect_ms, NOW + 1);
}

static void a_suspect_needs_its_slots_like_any_other(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), t = keyed_task(w, 1, NOW - 5), free_one = suspect(w, NOW);
    holder = claim_alone(w, &holder);
    t.losses = 3;
    insert(w, (struct task[]){ t, free_one }, 2);
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret, &free_one.id);
    assert_tasks(&op.ret_gated, &t.id);
    assert_true(end_wakes(w, &holder, TASK_COMPLETED));
    op = claim_now(w);
    assert_tasks(&op.ret, &t.id);
}

static void a_task_is_a_suspect_from_its_second_loss_on(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    insert(w, &t, 1);
    for (int losses = 0; losses <= SUSPECT_LOSSES; losses++) {
        struct lane_quota lane = { some_lane(), 1 };
        struct op_claim op = claim_of(w, &lane, 1);
        op.max_suspects = losses >= SUSPECT_LOSSES;
        assert_ok(world_apply(w, &op.op), &op.op.error);
        assert_tasks(&op.ret, &t.id);
        assert_int_equal(lane.ret_taken, losses < SUSPECT_LOSSES);
        struct settlement v = settlement_of(&op.ret.v[0], TASK_SCHEDULED);
        v.verdict.losses = losses + 1;
        v.verdict.due_ms = NOW;
        settle_wakes(w, &v);
        assert_true(str_eq(get(w, t.id).queue, S("default")));
    }
    struct task before = get(w, t.id), after = before;
    after.losses = 0; /* as a retry by hand does */
    put_wakes(w, &before, &after);
    struct lane_quota lane = { some_lane(), 1 };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(lane.ret_taken, 1);
}

static void a_verdict_may_clear_a_suspect(void **state)
{
    struct world *w = *state;
    struct task t = suspect(w, NOW);
    insert(w, &t, 1);
    struct op_claim op = claim_now(w);
    struct settlement v = settlement_of(&op.ret.v[0], TASK_SCHEDULED);
    v.verdict.losses = 0;
    v.verdict.due_ms = NOW;
    settle_wakes(w, &v);
    assert_int_equal(claim_now(w).lanes[0].ret_taken, 1);
}

static void a_worker_task_is_never_claimed_as_a_suspect(void **state)
{
    struct world *w = *state;
    struct task t = suspect(w, NOW);
    t.target = TARGET_WORKER;
    insert(w, &t, 1);
    struct op_claim op = claim_now(w);
    assert_int_equal(op.ret.n, 0);
    assert_true(op.ret_next_suspect_ms == INT64_MAX);
}

static size_t count_lanes(struct world *w, struct lane lane)
{
    struct lane *v;
    size_t n, found = 0;
    struct error e = { 0 };
    assert_ok(reader_lanes(w->reader, &w->arena, &v, &n, &e), &e);
    for (size_t i = 0; i < n; i++)
        found += lane_eq(&v[i], &lane);
    return found;
}

static void lanes_of_suspects_and_of_waiting_tasks_are_listed_once(void **state)
{
    struct world *w = *state;
    struct task alone = suspect(w, NOW), both[] = { suspect(w, NOW), some_task(w) }, blocked = some_task(w);
    alone.queue = S("alone");
    both[0].queue = both[1].queue = S("both");
    blocked.queue = S("blocked");
    blocked.state = TASK_BLOCKED;
    insert(w, &alone, 1);
    insert(w, both, 2);
    insert(w, &blocked, 1);
    assert_int_equal(count_lanes(w, task_lane(&alone)), 1);
    assert_int_equal(count_lanes(w, task_lane(&both[0])), 1);
    assert_int_equal(count_lanes(w, task_lane(&blocked)), 1);
}

/* ---- causes ---- */

static struct task fail_with(struct world *w, const char *cause)
{
    struct task t = some_task(w);
    t = claim_one(w, &t, fresh_id(w));
    struct settlement v = settlement_of(&t, TASK_FAILED);
    snprintf(v.verdict.cause.text, sizeof v.verdict.cause.text, "%s", cause);
    settle_wakes(w, &v);
    return get(w, t.id);
}

static void a_failed_task_has_its_cause_and_no_other_has_one(void **state)
{
    struct world *w = *state;
    struct task t = fail_with(w, "00000000000000aa"), next = t;
    assert_true(str_eq(t.cause, S("00000000000000aa")));
    next.state = TASK_SCHEDULED;
    next.due_ms = NOW;
    put_wakes(w, &t, &next);
    struct op_claim op = claim_now(w);
    struct settlement v = settlement_of(&op.ret.v[0], TASK_SCHEDULED);
    v.verdict.due_ms = NOW + 5000;
    snprintf(v.verdict.cause.text, sizeof v.verdict.cause.text, "%s", "00000000000000bb");
    settle_wakes(w, &v);
    assert_int_equal(get(w, t.id).cause.n, 0);
    assert_int_equal(fail_with(w, "").cause.n, 0);
}

static void failures_are_listed_by_cause_and_by_whether_they_are_resolved(void **state)
{
    struct world *w = *state;
    struct task a = fail_with(w, "aa"), b = fail_with(w, "bb"), c = fail_with(w, "aa"), resolved = a,
                plain = some_task(w);
    insert(w, &plain, 1);
    resolved.resolved_ms = NOW + 20;
    put_wakes(w, &a, &resolved);
    struct task_filter f = { .tenant = TENANT, .cause = S("aa"), .limit = 10 };
    assert_listed(w, &f, &c.id, &a.id);
    f.by_resolved = true;
    assert_listed(w, &f, &c.id);
    f.resolved = true;
    assert_listed(w, &f, &a.id);
    f.cause = (struct str){ 0 };
    assert_listed(w, &f, &a.id);
    f.resolved = false;
    assert_listed(w, &f, &c.id, &b.id);
    f.by_resolved = false;
    f.states = 1u << TASK_FAILED;
    assert_listed(w, &f, &c.id, &b.id, &a.id);
    size_t n = 0;
    f.by_resolved = true;
    struct error e = { 0 };
    assert_ok(reader_count(w->reader, &f, 100, &n, &e), &e);
    assert_int_equal(n, 2);
}

static const struct CMUnitTest tests[] = {
    store_test(each_lane_tells_what_it_gave_and_what_is_left),
    store_test(suspects_are_taken_last_by_due_time_over_all_lanes),
    store_test(without_leave_no_suspect_is_taken),
    store_test(suspects_count_in_max_and_in_the_bytes),
    store_test(a_suspect_is_not_early_either),
    store_test(a_suspect_needs_its_slots_like_any_other),
    store_test(a_task_is_a_suspect_from_its_second_loss_on),
    store_test(a_verdict_may_clear_a_suspect),
    store_test(a_worker_task_is_never_claimed_as_a_suspect),
    store_test(lanes_of_suspects_and_of_waiting_tasks_are_listed_once),
    store_test(a_failed_task_has_its_cause_and_no_other_has_one),
    store_test(failures_are_listed_by_cause_and_by_whether_they_are_resolved),
};
const struct test_list suspect_tests = { tests, array_count(tests) };

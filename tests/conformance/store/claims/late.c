/* Late lanes (struct lane and task_is_late in core/task/task.h): who is in them, and what moves a task there and
 * back. Every claim here names the lanes it means. */
#include "store_fleet.h"

enum { ONCE, KEYED, RECALLED, LATE_KINDS };

/* Late for this reason. */
static struct task late_task(struct world *w, int why, int64_t due_ms)
{
    struct task t = some_task(w);
    t.due_ms = t.scheduled_ms = due_ms;
    t.delivery = why == ONCE ? DELIVER_AT_MOST_ONCE : DELIVER_AT_LEAST_ONCE;
    t.concurrency_key = why == KEYED ? S("db") : (struct str){ 0 };
    t.concurrency_limit = why == KEYED ? 5 : 0;
    t.recalled = why == RECALLED;
    return t;
}

static struct lane late_twin(struct lane lane)
{
    lane.late = true;
    return lane;
}

static struct op_claim claim_lane(struct world *w, struct lane lane, size_t max_suspects)
{
    struct lane_quota *quota = arena_new(&w->arena, struct lane_quota);
    *quota = (struct lane_quota){ lane, 100 };
    struct op_claim op = claim_of(w, quota, 1);
    op.max_suspects = max_suspects;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

/* It is in that lane, and not in that lane's twin. Claims it. */
static struct task take_from(struct world *w, struct uuid id, struct lane lane, size_t max_suspects)
{
    struct lane twin = lane;
    twin.late = !lane.late;
    struct op_claim op = claim_lane(w, twin, max_suspects);
    assert_int_equal(op.ret.n, 0);
    assert_true(op.ret_next_due_ms == INT64_MAX && op.ret_next_suspect_ms == INT64_MAX);
    op = claim_lane(w, lane, max_suspects);
    assert_tasks(&op.ret, &id);
    return op.ret.v[0];
}

static void give_back(struct world *w, const struct task *running, struct verdict more)
{
    struct settlement v = settlement_of(running, TASK_SCHEDULED);
    v.verdict.due_ms = running->due_ms;
    v.verdict.losses = more.losses;
    v.verdict.aside = more.aside;
    v.verdict.recalled = more.recalled;
    assert_true(settle_with(w, &v));
}

static void change(struct world *w, const struct task *before, const struct task *after)
{
    struct op_put put = put_of(before, after);
    assert_ok(world_apply(w, &put.op), &put.op.error);
}

/* ---- claims ---- */

static void a_late_lane_is_claimed_by_itself(void **state)
{
    struct world *w = *state;
    struct task plain = some_task(w), later = some_task(w), v[LATE_KINDS], left = late_task(w, RECALLED, NOW + 7);
    later.due_ms = NOW + 9;
    for (int i = 0; i < LATE_KINDS; i++)
        v[i] = late_task(w, i, NOW - i);
    insert(w, v, LATE_KINDS);
    insert(w, (struct task[]){ plain, later, left }, 3);
    struct op_claim op = claim_lane(w, some_lane(), 0);
    assert_tasks(&op.ret, &plain.id);
    assert_int_equal(op.lanes[0].ret_taken, 1);
    assert_int_equal(op.ret_next_due_ms, NOW + 9);
    op = claim_lane(w, late_twin(some_lane()), 0);
    assert_tasks(&op.ret, &v[2].id, &v[1].id, &v[0].id);
    assert_int_equal(op.lanes[0].ret_taken, 3);
    assert_int_equal(op.ret_next_due_ms, NOW + 7);
    assert_true(op.ret.v[0].recalled && !op.ret.v[1].recalled && !op.ret.v[2].recalled);
}

/* Until when is the caller's choice, as in any lane; but AT_MOST_ONCE tasks wait (OP_CLAIM 3). */
static void a_late_lane_is_claimed_up_to_the_same_time(void **state)
{
    struct world *w = *state;
    struct task v[LATE_KINDS];
    for (int i = 0; i < LATE_KINDS; i++)
        v[i] = late_task(w, i, NOW + 10);
    insert(w, v, LATE_KINDS);
    struct lane_quota lane = { task_lane(&v[ONCE]), 100 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.until_ms = NOW + 10;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &v[KEYED].id, &v[RECALLED].id);
    assert_int_equal(op.ret_next_due_ms, NOW + 10);
}

static void a_late_lane_and_its_twin_are_one_line(void **state)
{
    struct world *w = *state;
    struct task v[] = { late_task(w, ONCE, NOW - 4), some_task(w), late_task(w, KEYED, NOW - 2), some_task(w) };
    v[1].due_ms = NOW - 3;
    v[3].due_ms = NOW - 1;
    insert(w, v, array_count(v));
    struct lane_quota lanes[] = { { some_lane(), 9 }, { late_twin(some_lane()), 9 } };
    struct op_claim op = claim_of(w, lanes, 2);
    op.lines = &(struct claim_line){ 2, 3 };
    op.line_count = 1;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &v[0].id, &v[1].id, &v[2].id);
    assert_int_equal(lanes[0].ret_next_due_ms, NOW - 1);
    assert_true(lanes[1].ret_next_due_ms == INT64_MAX);
}

static void suspects_of_a_late_lane_are_claimed_with_it(void **state)
{
    struct world *w = *state;
    struct task plain = some_task(w), late = late_task(w, ONCE, NOW);
    plain.losses = late.losses = SUSPECT_LOSSES;
    insert(w, (struct task[]){ plain, late }, 2);
    struct op_claim op = claim_lane(w, some_lane(), 5);
    assert_tasks(&op.ret, &plain.id);
    assert_true(op.ret_next_suspect_ms == INT64_MAX);
    op = claim_lane(w, late_twin(some_lane()), 0);
    assert_int_equal(op.ret.n, 0);
    assert_int_equal(op.ret_next_suspect_ms, NOW);
    op = claim_lane(w, late_twin(some_lane()), 5);
    assert_tasks(&op.ret, &late.id);
}

static void no_task_of_an_outside_worker_is_late(void **state)
{
    struct world *w = *state;
    struct task v[LATE_KINDS];
    for (int i = 0; i < LATE_KINDS; i++) {
        v[i] = late_task(w, i, NOW);
        v[i].target = TARGET_WORKER;
    }
    insert(w, v, LATE_KINDS);
    assert_int_equal(claim_lane(w, late_twin(some_lane()), 0).ret.n, 0);
    struct tasks leased = lease_some(w, 10);
    assert_tasks(&leased, &v[0].id, &v[1].id, &v[2].id);
    give_back(w, &leased.v[0], (struct verdict){ .recalled = true });
    assert_true(get(w, v[0].id).recalled);
    assert_int_equal(claim_lane(w, late_twin(some_lane()), 0).ret.n, 0);
    leased = lease_some(w, 10);
    assert_tasks(&leased, &v[0].id);
}

/* ---- OP_SETTLE 2 ---- */

static void a_recalled_task_waits_in_its_late_lane(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), running = claim_one(w, &t, fresh_id(w));
    give_back(w, &running, (struct verdict){ .recalled = true });
    struct task expected = running;
    expected.state = TASK_SCHEDULED;
    expected.claim = (struct uuid){ 0 };
    expected.attempts = 1;
    expected.updated_ms = NOW + 10;
    expected.recalled = true;
    struct task now = get(w, t.id);
    assert_same_task(&now, &expected);
    running = take_from(w, t.id, late_twin(some_lane()), 0);
    assert_true(running.recalled);
    give_back(w, &running, (struct verdict){ 0 }); /* it stays there */
    assert_true(get(w, t.id).recalled);
    running = take_from(w, t.id, late_twin(some_lane()), 0);
    struct settlement v = settlement_of(&running, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    assert_true(get(w, t.id).recalled);
}

static void a_task_is_recalled_aside_and_as_a_suspect(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), running = claim_one(w, &t, fresh_id(w));
    struct lane host = some_lane();
    host.host = S("api.example");
    give_back(w, &running, (struct verdict){ .recalled = true, .aside = host.host });
    running = take_from(w, t.id, late_twin(host), 0);
    give_back(w, &running, (struct verdict){ .losses = SUSPECT_LOSSES });
    assert_int_equal(claim_lane(w, late_twin(host), 0).ret.n, 0);
    running = take_from(w, t.id, late_twin(host), 1);
    assert_true(running.recalled && str_eq(running.aside, host.host));
    give_back(w, &running, (struct verdict){ .losses = 0 });
    running = take_from(w, t.id, late_twin(host), 0);

    struct task u = some_task(w); /* a suspect first, then recalled */
    running = claim_one(w, &u, fresh_id(w));
    give_back(w, &running, (struct verdict){ .losses = SUSPECT_LOSSES });
    running = take_from(w, u.id, some_lane(), 1);
    give_back(w, &running, (struct verdict){ .losses = SUSPECT_LOSSES, .recalled = true });
    running = take_from(w, u.id, late_twin(some_lane()), 1);
}

static void a_late_task_that_is_recalled_stays_where_it_is(void **state)
{
    struct world *w = *state;
    struct task t = late_task(w, ONCE, NOW), running = claim_one(w, &t, fresh_id(w));
    give_back(w, &running, (struct verdict){ .recalled = true });
    assert_true(get(w, t.id).recalled);
    (void)take_from(w, t.id, late_twin(some_lane()), 0);
}

static void a_replacement_says_whether_its_task_is_late(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 2; i++) {
        struct task t = some_task(w);
        t.recalled = i == 0;
        struct task running = claim_one(w, &t, fresh_id(w)), next = running;
        next.state = TASK_SCHEDULED;
        next.claim = (struct uuid){ 0 };
        next.version++;
        next.recalled = i == 1;
        struct settlement v = settlement_of(&running, TASK_SCHEDULED);
        v.replace = &next;
        assert_true(settle_with(w, &v));
        assert_int_equal(get(w, t.id).recalled, i == 1);
        (void)take_from(w, t.id, i == 1 ? late_twin(some_lane()) : some_lane(), 0);
    }
}

/* ---- edits ---- */

static void an_edit_takes_a_task_back_from_its_late_lane(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), running = claim_one(w, &t, fresh_id(w));
    give_back(w, &running, (struct verdict){ .recalled = true, .aside = S("api.example") });
    struct task before = get(w, t.id), after = before;
    after.version++;
    task_forget_delays(&after);
    change(w, &before, &after);
    struct task now = get(w, t.id);
    assert_same_task(&now, &after);
    assert_true(!now.recalled && now.aside.n == 0);
    (void)take_from(w, t.id, some_lane(), 0);
}

static void an_edit_that_leaves_a_task_late_leaves_it_in_its_lane(void **state)
{
    struct world *w = *state;
    struct task t = late_task(w, KEYED, NOW), running = claim_one(w, &t, fresh_id(w));
    give_back(w, &running, (struct verdict){ .recalled = true });
    struct task before = get(w, t.id), after = before;
    after.version++;
    task_forget_delays(&after);
    change(w, &before, &after);
    assert_false(get(w, t.id).recalled);
    (void)take_from(w, t.id, late_twin(some_lane()), 0);
}

static void an_edit_of_key_or_delivery_moves_a_task(void **state)
{
    struct world *w = *state;
    for (int why = 0; why < LATE_KINDS; why++) {
        struct task plain = some_task(w), late = late_task(w, why, NOW);
        insert(w, &plain, 1);
        late.id = plain.id;
        late.version++;
        change(w, &plain, &late);
        struct task running = take_from(w, plain.id, late_twin(some_lane()), 0);
        give_back(w, &running, (struct verdict){ 0 });
        struct task before = get(w, plain.id), after = before;
        after.version++;
        after.delivery = DELIVER_AT_LEAST_ONCE;
        after.concurrency_key = (struct str){ 0 };
        after.concurrency_limit = 0;
        after.recalled = false;
        change(w, &before, &after);
        (void)take_from(w, plain.id, some_lane(), 0);
    }
}

/* ---- other readers of rows ---- */

static void who_holds_a_recalled_task_learns_that_it_is(void **state)
{
    struct world *w = *state;
    struct task t = late_task(w, RECALLED, NOW);
    struct uuid node = fresh_id(w);
    struct task running = claim_one(w, &t, node);
    struct op_claimed claimed = { .op.kind = OP_CLAIMED, .claim = running.claim };
    assert_ok(world_apply(w, &claimed.op), &claimed.op.error);
    assert_tasks(&claimed.ret, &t.id);
    assert_true(claimed.ret.v[0].recalled);
    hand(w, node, running.claim);
    struct tasks v = handed(w);
    assert_tasks(&v, &t.id);
    assert_true(v.v[0].recalled);
}

static void late_lanes_are_told(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), late_task(w, ONCE, NOW), late_task(w, KEYED, NOW), late_task(w, ONCE, NOW),
                        late_task(w, ONCE, NOW) };
    v[2].priority = 6; /* without an ordinary twin */
    v[3].losses = SUSPECT_LOSSES;
    v[4].target = TARGET_WORKER;
    v[4].priority = 7;
    insert(w, v, array_count(v));
    struct lane *lanes, expected[] = { task_lane(&v[0]), task_lane(&v[1]), task_lane(&v[2]) };
    size_t n;
    struct error e = { 0 };
    assert_ok(reader_lanes(w->reader, &w->arena, &lanes, &n, &e), &e);
    assert_int_equal(n, array_count(expected));
    for (size_t i = 0; i < array_count(expected); i++) {
        size_t found = 0;
        for (size_t j = 0; j < n; j++)
            found += lane_eq(&expected[i], &lanes[j]);
        assert_int_equal(found, 1);
    }
    assert_true(expected[1].late && expected[2].late);
    int64_t due;
    assert_ok(reader_queue_due(w->reader, TENANT, v[0].queue, NOW, &due, &e), &e);
    assert_int_equal(due, 4); /* without the suspect */
}

static void a_lane_of_late_suspects_alone_is_told(void **state)
{
    struct world *w = *state;
    struct task t = late_task(w, ONCE, NOW);
    t.losses = SUSPECT_LOSSES;
    insert(w, &t, 1);
    struct lane *lanes, expected = task_lane(&t);
    size_t n;
    struct error e = { 0 };
    assert_ok(reader_lanes(w->reader, &w->arena, &lanes, &n, &e), &e);
    assert_int_equal(n, 1);
    assert_true(lane_eq(&lanes[0], &expected) && lanes[0].late);
}

static const struct CMUnitTest tests[] = {
    store_test(a_late_lane_is_claimed_by_itself),
    store_test(a_late_lane_is_claimed_up_to_the_same_time),
    store_test(a_late_lane_and_its_twin_are_one_line),
    store_test(suspects_of_a_late_lane_are_claimed_with_it),
    store_test(no_task_of_an_outside_worker_is_late),
    store_test(a_recalled_task_waits_in_its_late_lane),
    store_test(a_task_is_recalled_aside_and_as_a_suspect),
    store_test(a_late_task_that_is_recalled_stays_where_it_is),
    store_test(a_replacement_says_whether_its_task_is_late),
    store_test(an_edit_takes_a_task_back_from_its_late_lane),
    store_test(an_edit_that_leaves_a_task_late_leaves_it_in_its_lane),
    store_test(an_edit_of_key_or_delivery_moves_a_task),
    store_test(who_holds_a_recalled_task_learns_that_it_is),
    store_test(late_lanes_are_told),
    store_test(a_lane_of_late_suspects_alone_is_told),
};
const struct test_list late_tests = { tests, array_count(tests) };

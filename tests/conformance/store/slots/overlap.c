/* The one slot of a recurring task: what a run does that finds the previous one not over. */
#include "base/date.h"
#include "store_slots.h"

/* A recurring task of this policy, in the store. */
static struct task recurring_with(struct world *w, enum overlap overlap)
{
    struct task t = some_recurring(w);
    t.schedule.overlap = overlap;
    t.runs_count = 10;
    t.skipped_count = 2;
    insert(w, &t, 1);
    return t;
}

static struct task run_of(struct world *w, const struct task *parent, int64_t at_ms)
{
    struct task t = some_occurrence(w, parent, at_ms);
    t.overlap = parent->schedule.overlap;
    return t;
}

static struct str slot_of(struct world *w, const struct task *parent)
{
    char text[UUID_TEXT + 3] = "o:";
    struct str key;
    uuid_format(parent->id, text + 2);
    assert_true(arena_str(&w->arena, str_from(text), &key));
    return key;
}

/* The first run, RUNNING; its time is a minute ago. */
static struct task first_run(struct world *w, const struct task *parent)
{
    struct task t = run_of(w, parent, NOW - 60000);
    t = claim_alone(w, &t);
    assert_holders(w, slot_of(w, parent), &t.id);
    return t;
}

static void assert_counts(struct world *w, const struct task *parent, int64_t runs, int64_t skipped)
{
    struct task t = get(w, parent->id);
    assert_int_equal(t.runs_count, runs);
    assert_int_equal(t.skipped_count, skipped);
}

/* ---- policies ---- */

static void a_run_is_skipped_while_the_last_is_not_over(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), second = run_of(w, &parent, NOW);
    first_run(w, &parent);
    struct task skipped = gate_alone(w, &second), expected = second;
    expected.state = TASK_SKIPPED;
    expected.updated_ms = expected.completed_ms = NOW;
    expected.last_error = S("skipped: the run of 2026-02-10T07:59:00.000Z is not over");
    expected.runs_count = 0;
    assert_same_task(&skipped, &expected);
    assert_counts(w, &parent, 9, 3);
}

static void what_was_not_counted_as_a_run_is_not_counted_as_skipped(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), second = run_of(w, &parent, NOW);
    first_run(w, &parent);
    second.runs_count = 0;
    gate_alone(w, &second);
    assert_counts(w, &parent, 10, 2);
}

static void a_run_is_skipped_at_its_time_and_not_before(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), first = first_run(w, &parent),
                second = run_of(w, &parent, NOW + 20);
    insert(w, &second, 1);
    struct op_claim op = claim_between(w, NOW, NOW + 50);
    assert_int_equal(op.ret_gated.n, 0);
    assert_int_equal(op.ret_next_due_ms, NOW + 20);
    end_wakes(w, &first, TASK_COMPLETED);
    op = claim_between(w, NOW, NOW + 50);
    assert_tasks(&op.ret, &second.id);
}

static void a_run_is_not_over_before_it_is_final(void **state)
{
    struct world *w = *state;
    static const enum task_state not_over[] = { TASK_SCHEDULED, TASK_PAUSED, TASK_BLOCKED };
    for (size_t i = 0; i < array_count(not_over); i++) {
        struct task parent = recurring_with(w, OVERLAP_SKIP), first = first_run(w, &parent);
        assert_false(end_wakes(w, &first, not_over[i])); /* a retry in five seconds, or held back */
        assert_holders(w, slot_of(w, &parent), &first.id);
        struct task second = run_of(w, &parent, NOW);
        assert_int_equal(gate_alone(w, &second).state, TASK_SKIPPED);
    }
}

static void every_final_state_ends_a_run(void **state)
{
    struct world *w = *state;
    static const enum task_state over[] = { TASK_COMPLETED, TASK_FAILED, TASK_CANCELLED, TASK_EXPIRED, TASK_SKIPPED };
    for (size_t i = 0; i < array_count(over); i++) {
        struct task parent = recurring_with(w, OVERLAP_QUEUE_ALL), first = first_run(w, &parent),
                    second = run_of(w, &parent, NOW);
        gate_alone(w, &second);
        assert_true(end_wakes(w, &first, over[i]));
        assert_holders(w, slot_of(w, &parent), &second.id);
        assert_taken(w, &second.id);
    }
}

static void each_recurring_task_has_a_slot_of_its_own(void **state)
{
    struct world *w = *state;
    struct task a = recurring_with(w, OVERLAP_SKIP), b = recurring_with(w, OVERLAP_SKIP);
    first_run(w, &a);
    first_run(w, &b);
}

static void runs_that_may_overlap_do(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_ALLOW), a = run_of(w, &parent, NOW - 5), b = run_of(w, &parent, NOW);
    claim_alone(w, &a);
    claim_alone(w, &b);
    assert_free(w, slot_of(w, &parent));
}

static void one_run_waits_and_those_behind_it_are_skipped(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_QUEUE_ONE), first = first_run(w, &parent),
                second = run_of(w, &parent, NOW - 2), third = run_of(w, &parent, NOW - 1),
                fourth = run_of(w, &parent, NOW);
    insert(w, (struct task[]){ second, third }, 2);
    struct op_claim op = claim_now(w);
    assert_int_equal(op.ret_gated.n, 2);
    assert_waits(w, second.id, slot_of(w, &parent));
    assert_int_equal(get(w, third.id).state, TASK_SKIPPED);
    assert_counts(w, &parent, 9, 3);
    assert_true(end_wakes(w, &first, TASK_COMPLETED));
    assert_taken(w, &second.id);
    gate_alone(w, &fourth);
    assert_waits(w, fourth.id, slot_of(w, &parent));
}

static void all_runs_wait_in_their_order(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_QUEUE_ALL), first = first_run(w, &parent),
                v[] = { run_of(w, &parent, NOW), run_of(w, &parent, NOW - 2), run_of(w, &parent, NOW - 1) };
    insert(w, v, 3);
    assert_int_equal(claim_now(w).ret_gated.n, 3);
    for (size_t i = 1; i <= 3; i++) {
        assert_true(end_wakes(w, &first, TASK_COMPLETED));
        struct op_claim op = claim_now(w);
        assert_tasks(&op.ret, &v[i % 3].id);
        first = op.ret.v[0];
    }
}

/* ---- replacing ---- */

static void a_run_that_runs_is_named_to_be_aborted(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_CANCEL_PREVIOUS), first = first_run(w, &parent),
                second = run_of(w, &parent, NOW);
    insert(w, &second, 1);
    struct op_claim op = claim_now(w);
    assert_int_equal(op.ret.n, 0);
    assert_tasks(&op.ret_gated, &second.id);
    assert_int_equal(op.ret_replaced_count, 1);
    assert_true(uuid_eq(op.ret_replaced[0].id, first.id));
    assert_int_equal(op.ret_replaced[0].fence, first.fence);
    assert_waits(w, second.id, slot_of(w, &parent));
    assert_int_equal(get(w, first.id).state, TASK_RUNNING);
    assert_true(end_wakes(w, &first, TASK_CANCELLED));
    assert_taken(w, &second.id);
}

static void a_run_of_the_same_claim_is_named_too(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_CANCEL_PREVIOUS), first = run_of(w, &parent, NOW - 1),
                second = run_of(w, &parent, NOW);
    first.fence = 4;
    insert(w, (struct task[]){ first, second }, 2);
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret, &first.id);
    assert_int_equal(op.ret_replaced_count, 1);
    assert_true(uuid_eq(op.ret_replaced[0].id, first.id));
    assert_int_equal(op.ret_replaced[0].fence, 5);
    assert_waits(w, second.id, slot_of(w, &parent));
}

static void a_run_that_waits_for_its_retry_gives_way_at_once(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_CANCEL_PREVIOUS), first = first_run(w, &parent),
                second = run_of(w, &parent, NOW);
    end_wakes(w, &first, TASK_SCHEDULED);
    insert(w, &second, 1);
    struct op_claim op = claim_now(w);
    assert_int_equal(op.ret_replaced_count, 0);
    assert_tasks(&op.ret_gated, &first.id); /* the second has its slot */
    assert_int_equal(op.ret_gated.v[0].state, TASK_CANCELLED);
    assert_true(str_eq(op.ret_gated.v[0].last_error, S("replaced by the run of 2026-02-10T08:00:00.000Z")));
    assert_int_equal(op.ret_gated.v[0].completed_ms, NOW);
    assert_int_equal(op.ret_gated.v[0].updated_ms, NOW);
    assert_true(op.ret_unblocked_lanes == lane_bit(task_lane(&second)));
    assert_scheduled(w, second.id);
    assert_int_equal(op.ret_next_due_ms, NOW);
    assert_taken(w, &second.id);
}

static void those_that_wait_are_replaced_by_the_latest(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_CANCEL_PREVIOUS), first = first_run(w, &parent),
                second = run_of(w, &parent, NOW - 1), third = run_of(w, &parent, NOW);
    insert(w, (struct task[]){ second, third }, 2);
    struct op_claim op = claim_now(w);
    assert_int_equal(op.ret_gated.n, 2);
    assert_int_equal(get(w, second.id).state, TASK_CANCELLED);
    assert_int_equal(get(w, second.id).waits_for.n, 0);
    assert_waits(w, third.id, slot_of(w, &parent));
    assert_counts(w, &parent, 9, 2); /* the second never started: it was no run */
    assert_int_equal(get(w, second.id).runs_count, 0);
    struct settlement over = settlement_of(&first, TASK_CANCELLED);
    over.verdict.has_execution = true;
    over.verdict.execution = some_execution(w, &first);
    assert_true(settle_wakes(w, &over));
    assert_holders(w, slot_of(w, &parent), &third.id);
    assert_counts(w, &parent, 9, 2); /* the first did start */
}

static void a_holder_that_is_replaced_before_its_start_was_no_run(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_CANCEL_PREVIOUS), first = first_run(w, &parent),
                second = run_of(w, &parent, NOW);
    end_wakes(w, &first, TASK_SCHEDULED); /* returned: it holds the slot still */
    insert(w, &second, 1);
    struct op_claim op = claim_now(w);
    assert_int_equal(op.ret_gated.v[0].state, TASK_CANCELLED);
    assert_int_equal(op.ret_gated.v[0].runs_count, 0);
    assert_counts(w, &parent, 9, 2);
}

/* The one that is replaced stands in another line, and that goes on without it. */
static void who_is_replaced_leaves_its_line(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_CANCEL_PREVIOUS), holder = keyed_task(w, 1, NOW),
                first = run_of(w, &parent, NOW - 5), wide = keyed_task(w, 2, NOW - 1), second = run_of(w, &parent, NOW);
    claim_alone(w, &holder);
    first.concurrency_key = holder.concurrency_key;
    first.concurrency_limit = 1;
    gate_alone(w, &first);
    gate_alone(w, &wide);
    assert_holders(w, slot_of(w, &parent), &first.id);
    insert(w, &second, 1);
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret_gated, &first.id);
    assert_true(op.ret_unblocked_lanes == (lane_bit(task_lane(&wide)) | lane_bit(task_lane(&second))));
    assert_holders(w, KEY, &wide.id, &holder.id);
    assert_holders(w, slot_of(w, &parent), &second.id);
}

/* ---- ahead of the due time ---- */

enum { AHEAD_MS = 3000 };

/* A claim ahead takes exactly these. */
#define assert_taken_ahead(w, ...)                                                                                     \
    do {                                                                                                               \
        struct op_claim op_ = claim_between((w), NOW, NOW + AHEAD_MS);                                                 \
        assert_tasks(&op_.ret, __VA_ARGS__);                                                                           \
        assert_int_equal(op_.ret_gated.n, 0);                                                                          \
    } while (0)

/* The claim of a node that owns the partition of this task alone, and helps with nothing. */
static struct op_claim claim_own(struct world *w, const struct task *t, int64_t now_ms, int64_t until_ms)
{
    struct partitions *own = arena_new(&w->arena, struct partitions);
    struct lane_quota *lane = arena_new(&w->arena, struct lane_quota);
    int partition = partition_of(t->id);
    own->bits[partition / 64] = 1ull << partition % 64;
    *lane = (struct lane_quota){ some_lane(), CLAIM_MAX };
    struct op_claim op = claim_of(w, lane, 1);
    op.now_ms = now_ms;
    op.until_ms = until_ms;
    op.own = own;
    op.help_after_ms = DAY_MS;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_gated.n, 0);
    return op;
}

static struct op_claim claim_own_ahead(struct world *w, const struct task *t)
{
    return claim_own(w, t, NOW, NOW + AHEAD_MS);
}

/* The second and the third run to come, in partitions of different nodes. */
static void two_runs_to_come(struct world *w, const struct task *parent, struct task *second, struct task *third)
{
    *second = run_of(w, parent, NOW + 1000);
    *third = run_of(w, parent, NOW + 2000);
    for (int64_t at_ms = NOW + 2001; partition_of(third->id) == partition_of(second->id); at_ms++)
        *third = run_of(w, parent, at_ms);
    insert(w, (struct task[]){ *third, *second }, 2);
}

static void a_run_does_not_take_the_slot_ahead_of_an_earlier_one(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), second, third;
    two_runs_to_come(w, &parent, &second, &third);
    struct op_claim op = claim_own_ahead(w, &third);
    assert_int_equal(op.ret.n, 0);
    assert_int_equal(op.lanes[0].ret_next_own_ms, third.due_ms);
    assert_free(w, slot_of(w, &parent));
    op = claim_own_ahead(w, &second);
    assert_tasks(&op.ret, &second.id);
    assert_int_equal(claim_own_ahead(w, &third).ret.n, 0);
    end_wakes(w, &op.ret.v[0], TASK_COMPLETED);
    op = claim_own_ahead(w, &third);
    assert_tasks(&op.ret, &third.id);
}

static void a_run_that_is_due_does_not_wait_for_an_earlier_one(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), second, third;
    two_runs_to_come(w, &parent, &second, &third);
    struct op_claim op = claim_own(w, &third, third.due_ms, third.due_ms);
    assert_tasks(&op.ret, &third.id);
}

static void the_first_run_to_come_takes_its_slot_ahead(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), second = run_of(w, &parent, NOW + 1000),
                later = run_of(w, &parent, NOW + 60000);
    insert(w, (struct task[]){ later, second }, 2);
    assert_taken_ahead(w, &second.id);
    assert_holders(w, slot_of(w, &parent), &second.id);
}

static void of_runs_in_one_claim_the_first_is_taken(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_CANCEL_PREVIOUS), second = run_of(w, &parent, NOW + 1000),
                third = run_of(w, &parent, NOW + 2000);
    insert(w, (struct task[]){ third, second }, 2);
    struct op_claim op = claim_between(w, NOW, NOW + AHEAD_MS);
    assert_tasks(&op.ret, &second.id);
    assert_int_equal(op.ret_next_due_ms, third.due_ms);
    assert_int_equal(op.ret_gated.n, 0);
    assert_int_equal(op.ret_replaced_count, 0);
}

static struct op_claim claim_lanes_ahead(struct world *w, struct lane_quota lanes[2], const struct claim_line *line)
{
    struct op_claim op = claim_of(w, lanes, 2);
    op.lines = line;
    op.line_count = line != NULL;
    op.until_ms = NOW + AHEAD_MS;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

/* Because of its lane's place, or of its priority. */
static void a_later_run_that_is_met_first_is_left(void **state)
{
    struct world *w = *state;
    static const struct claim_line lines[] = { { 2, CLAIM_MAX } };
    for (int i = 0; i < 2; i++) {
        struct task parent = recurring_with(w, OVERLAP_QUEUE_ONE), second = run_of(w, &parent, NOW + 1000),
                    third = run_of(w, &parent, NOW + 2000);
        third.priority = PRIORITY_DEFAULT + 1;
        insert(w, (struct task[]){ second, third }, 2);
        struct lane_quota lanes[2] = { { task_lane(&third), CLAIM_MAX }, { task_lane(&second), CLAIM_MAX } };
        struct op_claim op = claim_lanes_ahead(w, lanes, i ? lines : NULL);
        assert_tasks(&op.ret, &second.id);
        end_wakes(w, &op.ret.v[0], TASK_COMPLETED);
        op = claim_lanes_ahead(w, lanes, i ? lines : NULL);
        assert_tasks(&op.ret, &third.id);
    }
}

static void runs_of_one_due_time_go_by_their_scheduled_time(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_QUEUE_ALL), first = run_of(w, &parent, NOW + 1000),
                second = run_of(w, &parent, NOW + 1001);
    struct uuid met_first = first.id;
    first.id = second.id;
    second.id = met_first;
    second.due_ms = first.due_ms;
    insert(w, (struct task[]){ first, second }, 2);
    assert_taken_ahead(w, &first.id);
}

static void a_blocked_run_is_still_to_come(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), held_back = run_of(w, &parent, NOW - 5),
                second = run_of(w, &parent, NOW + 1000);
    held_back.state = TASK_BLOCKED;
    insert(w, (struct task[]){ held_back, second }, 2);
    struct op_claim op = claim_between(w, NOW, NOW + AHEAD_MS);
    assert_int_equal(op.ret.n, 0);
    assert_int_equal(op.ret_next_due_ms, second.due_ms);
    op = claim_between(w, second.due_ms, second.due_ms);
    assert_tasks(&op.ret, &second.id);
}

static void a_paused_run_is_not_waited_for(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), paused = run_of(w, &parent, NOW - 5),
                second = run_of(w, &parent, NOW + 1000);
    paused.state = TASK_PAUSED;
    insert(w, (struct task[]){ paused, second }, 2);
    assert_taken_ahead(w, &second.id);
}

static void runs_that_may_overlap_are_taken_ahead(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_ALLOW), a = run_of(w, &parent, NOW + 1000),
                b = run_of(w, &parent, NOW + 2000);
    insert(w, (struct task[]){ a, b }, 2);
    assert_taken_ahead(w, &a.id, &b.id);
}

/* As one that was asked for by hand. */
static void a_run_that_needs_no_slot_is_not_waited_for(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), by_hand = run_of(w, &parent, NOW + 5),
                second = run_of(w, &parent, NOW + 1000);
    by_hand.overlap = OVERLAP_ALLOW;
    by_hand.queue = S("other");
    insert(w, (struct task[]){ by_hand, second }, 2);
    assert_taken_ahead(w, &second.id);
}

static void runs_of_other_tasks_are_not_waited_for(void **state)
{
    struct world *w = *state;
    struct task a = recurring_with(w, OVERLAP_SKIP), b = recurring_with(w, OVERLAP_SKIP),
                of_a = run_of(w, &a, NOW + 1000), of_b = run_of(w, &b, NOW + 2000);
    of_a.queue = S("other");
    insert(w, (struct task[]){ of_a, of_b }, 2);
    assert_taken_ahead(w, &of_b.id);
}

static void a_run_that_has_the_slot_is_taken_ahead(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), first = first_run(w, &parent),
                second = run_of(w, &parent, NOW + 1000);
    struct settlement retry = settlement_of(&first, TASK_SCHEDULED);
    retry.verdict.due_ms = NOW + 2000;
    settle_wakes(w, &retry);
    insert(w, &second, 1);
    assert_taken_ahead(w, &first.id);
}

/* The next run, claimed ahead; it has not fired. */
static struct task run_ahead(struct world *w, const struct task *parent)
{
    struct task t = run_of(w, parent, NOW + 2000);
    insert(w, &t, 1);
    struct op_claim op = claim_between(w, NOW, NOW + AHEAD_MS);
    assert_tasks(&op.ret, &t.id);
    return op.ret.v[0];
}

/* One that was moved, or resumed, while the next one was claimed already. */
static void a_run_that_has_not_begun_is_waited_for_whatever_the_policy(void **state)
{
    struct world *w = *state;
    static const enum overlap policies[] = { OVERLAP_SKIP, OVERLAP_QUEUE_ONE, OVERLAP_QUEUE_ALL,
                                             OVERLAP_CANCEL_PREVIOUS };
    for (size_t i = 0; i < array_count(policies); i++) {
        struct task parent = recurring_with(w, policies[i]), ahead = run_ahead(w, &parent),
                    due = run_of(w, &parent, NOW);
        insert(w, &due, 1);
        struct op_claim op = claim_now(w);
        assert_tasks(&op.ret_gated, &due.id);
        assert_int_equal(op.ret_replaced_count, 0);
        assert_waits(w, due.id, slot_of(w, &parent));
        assert_int_equal(get(w, ahead.id).state, TASK_RUNNING);
        assert_true(end_wakes(w, &ahead, TASK_COMPLETED));
        assert_taken(w, &due.id);
    }
}

static void a_run_that_is_returned_before_its_time_is_not_replaced(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_CANCEL_PREVIOUS), ahead = run_ahead(w, &parent),
                due = run_of(w, &parent, NOW);
    struct settlement back = settlement_of(&ahead, TASK_SCHEDULED);
    back.verdict.attempts = 0;
    back.verdict.due_ms = ahead.due_ms;
    back.verdict.has_execution = false;
    settle_wakes(w, &back);
    assert_holders(w, slot_of(w, &parent), &ahead.id);
    insert(w, &due, 1);
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret_gated, &due.id);
    assert_waits(w, due.id, slot_of(w, &parent));
    assert_int_equal(get(w, ahead.id).state, TASK_SCHEDULED);
}

static void a_run_that_was_claimed_ahead_is_replaced_from_its_time_on(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_CANCEL_PREVIOUS), ahead = run_ahead(w, &parent),
                later = run_of(w, &parent, NOW + 3000);
    insert(w, &later, 1);
    struct op_claim op = claim_between(w, NOW + 3000, NOW + 3000);
    assert_int_equal(op.ret_replaced_count, 1);
    assert_true(uuid_eq(op.ret_replaced[0].id, ahead.id));
}

/* Else each later run would be skipped until the user lets it go. */
static void a_run_that_a_user_holds_back_before_it_has_begun_gives_its_slot_back(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_QUEUE_ALL), ahead = run_ahead(w, &parent),
                due = run_of(w, &parent, NOW), paused = ahead;
    gate_alone(w, &due);
    paused.state = TASK_PAUSED;
    paused.claim = (struct uuid){ 0 };
    paused.version++;
    struct settlement v = { .id = ahead.id, .fence = ahead.fence, .parent = parent.id, .replace = &paused };
    assert_true(settle_wakes(w, &v));
    assert_holders(w, slot_of(w, &parent), &due.id);
    assert_taken(w, &due.id);
}

static void a_run_that_a_user_puts_off_before_it_has_begun_gives_its_slot_back(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), ahead = run_ahead(w, &parent), moved;
    struct settlement back = settlement_of(&ahead, TASK_SCHEDULED);
    back.verdict.attempts = 0;
    back.verdict.due_ms = ahead.due_ms;
    back.verdict.has_execution = false;
    settle_wakes(w, &back);
    moved = ahead = get(w, ahead.id);
    moved.due_ms += 3600000;
    moved.version++;
    put_wakes(w, &ahead, &moved);
    assert_free(w, slot_of(w, &parent));
}

/* ---- two slots ---- */

static struct task keyed_run(struct world *w, const struct task *parent, int64_t at_ms)
{
    struct task t = run_of(w, parent, at_ms);
    t.concurrency_key = S("db");
    t.concurrency_limit = 1;
    return t;
}

static void a_run_that_waits_for_its_key_is_not_over(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_SKIP), holder = keyed_task(w, 1, NOW),
                first = keyed_run(w, &parent, NOW - 2), second = keyed_run(w, &parent, NOW);
    holder = claim_alone(w, &holder);
    gate_alone(w, &first);
    assert_waits(w, first.id, KEY);
    assert_holders(w, slot_of(w, &parent), &first.id);
    assert_int_equal(gate_alone(w, &second).state, TASK_SKIPPED);
    assert_true(end_wakes(w, &holder, TASK_COMPLETED));
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret, &first.id);
    assert_holders(w, KEY, &first.id);
    end_wakes(w, &op.ret.v[0], TASK_SCHEDULED);
    assert_free(w, KEY); /* until its retry */
    assert_holders(w, slot_of(w, &parent), &first.id);
}

static void a_run_without_its_first_slot_does_not_keep_the_second(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_QUEUE_ALL), holder = keyed_task(w, 1, NOW),
                first = first_run(w, &parent), second = keyed_run(w, &parent, NOW - 1), third = keyed_task(w, 1, NOW),
                edited;
    holder = claim_alone(w, &holder);
    second.overlap = OVERLAP_ALLOW;
    second = gate_alone(w, &second);
    assert_waits(w, second.id, KEY);
    edited = second;
    edited.overlap = OVERLAP_QUEUE_ALL;
    edited.version++;
    put_wakes(w, &second, &edited);
    assert_true(end_wakes(w, &holder, TASK_COMPLETED));
    assert_holders(w, KEY, &second.id);
    insert(w, &third, 1);
    struct op_claim op = claim_now(w);
    assert_waits(w, second.id, slot_of(w, &parent));
    assert_tasks(&op.ret, &third.id); /* the key was given on, and its turn was still to come */
    assert_true(end_wakes(w, &first, TASK_COMPLETED));
    assert_holders(w, slot_of(w, &parent), &second.id);
}

/* ---- changes ---- */

static void a_paused_run_keeps_its_slot_and_a_cancelled_one_does_not(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_QUEUE_ALL), first = first_run(w, &parent),
                second = run_of(w, &parent, NOW), next;
    gate_alone(w, &second);
    end_wakes(w, &first, TASK_SCHEDULED);
    next = first = get(w, first.id);
    next.state = TASK_PAUSED;
    next.version++;
    assert_false(put_wakes(w, &first, &next));
    assert_holders(w, slot_of(w, &parent), &first.id);
    first = next;
    next.state = TASK_CANCELLED;
    assert_true(put_wakes(w, &first, &next));
    assert_holders(w, slot_of(w, &parent), &second.id);
}

/* The schedule goes on, or is cancelled: then its runs stay as cancelled. */
static struct task withdraw_two(struct world *w, bool cancels)
{
    struct task parent = recurring_with(w, OVERLAP_QUEUE_ALL), first = first_run(w, &parent),
                second = run_of(w, &parent, NOW - 1), third = run_of(w, &parent, NOW);
    insert(w, (struct task[]){ second, third }, 2);
    assert_int_equal(claim_now(w).ret_gated.n, 2);
    assert_true(end_wakes(w, &first, TASK_COMPLETED));
    assert_holders(w, slot_of(w, &parent), &second.id); /* it has not fired */
    struct task next = get(w, parent.id);
    next.version++;
    next.state = cancels ? TASK_CANCELLED : next.state;
    next.updated_ms = NOW;
    struct op_put op = put_of(&parent, &next);
    op.withdraw = true;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_withdrawn, 2);
    assert_false(op.ret_unblocked_lanes);
    assert_free(w, slot_of(w, &parent));
    assert_true(is_there(w, TENANT, second.id) == cancels);
    assert_true(!cancels || (get(w, third.id).state == TASK_CANCELLED && !get(w, third.id).waits_for.n));
    return parent;
}

static void what_is_withdrawn_lets_go(void **state)
{
    struct world *w = *state;
    struct task parent = withdraw_two(w, false), again = run_of(w, &parent, NOW);
    claim_alone(w, &again);
}

static void a_cancelled_schedule_frees_the_slot_and_the_line(void **state)
{
    (void)withdraw_two(*state, true);
}

static void what_is_withdrawn_hands_over_to_who_stays(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_QUEUE_ALL), first = first_run(w, &parent),
                second = keyed_run(w, &parent, NOW - 1), other = keyed_task(w, 1, NOW);
    gate_alone(w, &second);
    assert_true(end_wakes(w, &first, TASK_COMPLETED));
    struct op_claim op = claim_now(w); /* it runs, and is given back before it fires */
    assert_tasks(&op.ret, &second.id);
    gate_alone(w, &other);
    struct task stuck = keyed_run(w, &parent, NOW), next = get(w, parent.id);
    stuck.attempts = 1; /* fired once: it stays */
    gate_alone(w, &stuck);
    assert_waits(w, stuck.id, slot_of(w, &parent));
    struct settlement back = settlement_of(&op.ret.v[0], TASK_SCHEDULED);
    back.verdict.attempts = 0;
    back.verdict.due_ms = NOW;
    assert_true(settle_wakes(w, &back));
    assert_holders(w, KEY, &other.id);
    next.version++;
    struct op_put put = put_of(&parent, &next);
    put.withdraw = true;
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_int_equal(put.ret_withdrawn, 1);
    assert_true(put.ret_unblocked_lanes);
    assert_holders(w, slot_of(w, &parent), &stuck.id);
}

static void an_occurrence_spawned_again_stays_in_its_line(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_QUEUE_ALL), first = first_run(w, &parent),
                second = run_of(w, &parent, NOW), v[] = { first, second };
    gate_alone(w, &second);
    v[0].state = v[1].state = TASK_SCHEDULED;
    struct spawn_plan plan = { .occurrences = { v, 2 }, .cursor_ms = NOW + 9000 };
    struct op_spawn op = { .op.kind = OP_SPAWN,
                           .id = parent.id,
                           .version = parent.version,
                           .cursor_ms = parent.cursor_ms,
                           .plan = &plan,
                           .now_ms = NOW };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_holders(w, slot_of(w, &parent), &first.id);
    assert_waits(w, second.id, slot_of(w, &parent));
}

static void a_run_that_is_dropped_is_counted_as_skipped(void **state)
{
    struct world *w = *state;
    static const enum task_state dropped[] = { TASK_EXPIRED, TASK_SKIPPED };
    struct task parent = recurring_with(w, OVERLAP_ALLOW);
    for (size_t i = 0; i < 2; i++) {
        struct task t = run_of(w, &parent, NOW - (int64_t)i), by_hand = run_of(w, &parent, NOW - 10 - (int64_t)i);
        by_hand.runs_count = 0;
        t = claim_alone(w, &t);
        by_hand = claim_alone(w, &by_hand);
        end_wakes(w, &t, dropped[i]);
        end_wakes(w, &by_hand, dropped[i]);
        assert_int_equal(get(w, t.id).runs_count, 0);
        assert_counts(w, &parent, 9 - (int64_t)i, 3 + (int64_t)i);
    }
}

static void a_run_that_is_cancelled_before_its_start_is_not_counted(void **state)
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_ALLOW), t = run_of(w, &parent, NOW),
                by_hand = run_of(w, &parent, NOW - 10);
    by_hand.runs_count = 0;
    t = claim_alone(w, &t);
    by_hand = claim_alone(w, &by_hand);
    end_wakes(w, &t, TASK_CANCELLED);
    end_wakes(w, &by_hand, TASK_CANCELLED);
    assert_int_equal(get(w, t.id).runs_count, 0);
    assert_counts(w, &parent, 9, 2);
}

static const struct CMUnitTest tests[] = {
    store_test(a_run_is_skipped_while_the_last_is_not_over),
    store_test(what_was_not_counted_as_a_run_is_not_counted_as_skipped),
    store_test(a_run_is_skipped_at_its_time_and_not_before),
    store_test(a_run_is_not_over_before_it_is_final),
    store_test(every_final_state_ends_a_run),
    store_test(each_recurring_task_has_a_slot_of_its_own),
    store_test(runs_that_may_overlap_do),
    store_test(one_run_waits_and_those_behind_it_are_skipped),
    store_test(all_runs_wait_in_their_order),
    store_test(a_run_that_runs_is_named_to_be_aborted),
    store_test(a_run_of_the_same_claim_is_named_too),
    store_test(a_run_that_waits_for_its_retry_gives_way_at_once),
    store_test(those_that_wait_are_replaced_by_the_latest),
    store_test(a_holder_that_is_replaced_before_its_start_was_no_run),
    store_test(who_is_replaced_leaves_its_line),
    store_test(a_run_does_not_take_the_slot_ahead_of_an_earlier_one),
    store_test(a_run_that_is_due_does_not_wait_for_an_earlier_one),
    store_test(the_first_run_to_come_takes_its_slot_ahead),
    store_test(of_runs_in_one_claim_the_first_is_taken),
    store_test(a_later_run_that_is_met_first_is_left),
    store_test(runs_of_one_due_time_go_by_their_scheduled_time),
    store_test(a_blocked_run_is_still_to_come),
    store_test(a_paused_run_is_not_waited_for),
    store_test(runs_that_may_overlap_are_taken_ahead),
    store_test(a_run_that_needs_no_slot_is_not_waited_for),
    store_test(runs_of_other_tasks_are_not_waited_for),
    store_test(a_run_that_has_the_slot_is_taken_ahead),
    store_test(a_run_that_has_not_begun_is_waited_for_whatever_the_policy),
    store_test(a_run_that_is_returned_before_its_time_is_not_replaced),
    store_test(a_run_that_was_claimed_ahead_is_replaced_from_its_time_on),
    store_test(a_run_that_a_user_holds_back_before_it_has_begun_gives_its_slot_back),
    store_test(a_run_that_a_user_puts_off_before_it_has_begun_gives_its_slot_back),
    store_test(a_run_that_waits_for_its_key_is_not_over),
    store_test(a_run_without_its_first_slot_does_not_keep_the_second),
    store_test(a_paused_run_keeps_its_slot_and_a_cancelled_one_does_not),
    store_test(what_is_withdrawn_lets_go),
    store_test(a_cancelled_schedule_frees_the_slot_and_the_line),
    store_test(what_is_withdrawn_hands_over_to_who_stays),
    store_test(an_occurrence_spawned_again_stays_in_its_line),
    store_test(a_run_that_is_dropped_is_counted_as_skipped),
    store_test(a_run_that_is_cancelled_before_its_start_is_not_counted),
};
const struct test_list overlap_tests = { tests, array_count(tests) };

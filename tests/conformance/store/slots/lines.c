/* What users' changes do to who holds a slot and to who waits for one. */
#include "store_slots.h"

static void a_task_that_leaves_the_line_waits_no_more(void **state)
{
    struct world *w = *state;
    static const enum task_state states[] = { TASK_PAUSED, TASK_CANCELLED, TASK_COMPLETED, TASK_SCHEDULED };
    struct task holder = keyed_task(w, 1, NOW);
    holder = claim_alone(w, &holder);
    for (size_t i = 0; i < array_count(states); i++) {
        struct task t = keyed_task(w, 1, NOW), next;
        next = t = gate_alone(w, &t);
        next.state = states[i];
        next.version++;
        next.due_ms = NOW + 5000;
        assert_false(put_wakes(w, &t, &next)); /* though it still says what it waited for */
        assert_int_equal(get(w, t.id).state, states[i]);
        assert_int_equal(get(w, t.id).waits_for.n, 0);
    }
    assert_false(end_wakes(w, &holder, TASK_COMPLETED));
    assert_free(w, KEY);
}

static void a_resumed_task_is_looked_at_anew(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), t = keyed_task(w, 1, NOW), paused, resumed;
    claim_alone(w, &holder);
    paused = t = gate_alone(w, &t);
    paused.state = TASK_PAUSED;
    paused.version++;
    assert_false(put_wakes(w, &t, &paused));
    resumed = paused = get(w, t.id);
    resumed.state = TASK_SCHEDULED;
    assert_false(put_wakes(w, &paused, &resumed));
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret_gated, &t.id);
    assert_waits(w, t.id, KEY);
}

static void a_woken_task_that_is_held_back_gives_its_slot_on(void **state)
{
    struct world *w = *state;
    static const enum task_state states[] = { TASK_PAUSED, TASK_CANCELLED, TASK_COMPLETED, TASK_SCHEDULED };
    struct task holder = keyed_task(w, 1, NOW);
    holder = claim_alone(w, &holder);
    for (size_t i = 0; i < array_count(states); i++) {
        struct task first = keyed_task(w, 1, NOW), second = keyed_task(w, 1, NOW), changed;
        gate_alone(w, &first);
        gate_alone(w, &second);
        assert_true(end_wakes(w, &holder, TASK_COMPLETED));
        changed = first = get(w, first.id);
        assert_int_equal(first.state, TASK_SCHEDULED);
        changed.state = states[i];
        changed.due_ms = NOW + 5000;
        changed.version++;
        assert_true(put_wakes(w, &first, &changed));
        assert_holders(w, KEY, &second.id);
        struct op_claim op = claim_now(w);
        assert_tasks(&op.ret, &second.id);
        holder = op.ret.v[0];
    }
}

static void a_deleted_task_neither_holds_nor_waits(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), t = keyed_task(w, 1, NOW), next = keyed_task(w, 1, NOW), gone;
    holder = claim_alone(w, &holder);
    gone = t = gate_alone(w, &t);
    gate_alone(w, &next);
    gone.state = TASK_CANCELLED;
    gone.deleted = true;
    assert_false(put_wakes(w, &t, &gone));
    gone = holder;
    gone.state = TASK_CANCELLED;
    gone.claim = (struct uuid){ 0 };
    gone.deleted = true;
    assert_true(put_wakes(w, &holder, &gone));
    assert_holders(w, KEY, &next.id);
}

static void another_key_takes_a_task_out_of_the_line(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), t = keyed_task(w, 1, NOW), other, none;
    claim_alone(w, &holder);
    other = t = gate_alone(w, &t);
    other.concurrency_key = S("cpu");
    other.version++;
    assert_false(put_wakes(w, &t, &other));
    assert_scheduled(w, t.id);
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret, &t.id);
    assert_holders(w, S("c:1:cpu"), &t.id);

    struct task u = keyed_task(w, 1, NOW);
    none = u = gate_alone(w, &u);
    none.concurrency_key = (struct str){ 0 };
    none.concurrency_limit = 0;
    none.version++;
    assert_false(put_wakes(w, &u, &none));
    assert_int_equal(claim_now(w).ret.n, 1);
}

static void a_raised_limit_lets_in_who_waits(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), t = keyed_task(w, 1, NOW), raised;
    claim_alone(w, &holder);
    raised = t = gate_alone(w, &t);
    raised.concurrency_limit = 2;
    raised.version++;
    assert_true(put_wakes(w, &t, &raised));
    assert_scheduled(w, t.id);
    assert_holders(w, KEY, &holder.id, &t.id);
}

static void under_a_lowered_limit_nobody_comes_in_before_enough_have_left(void **state)
{
    struct world *w = *state;
    struct task v[3], t = keyed_task(w, 3, NOW), lowered;
    for (size_t i = 0; i < 3; i++) {
        v[i] = keyed_task(w, 3, NOW);
        v[i] = claim_alone(w, &v[i]);
    }
    lowered = t = gate_alone(w, &t);
    lowered.concurrency_limit = 1;
    assert_false(put_wakes(w, &t, &lowered));
    assert_false(end_wakes(w, &v[0], TASK_COMPLETED));
    assert_false(end_wakes(w, &v[1], TASK_COMPLETED));
    assert_waits(w, t.id, KEY);
    assert_true(end_wakes(w, &v[2], TASK_COMPLETED));
    assert_holders(w, KEY, &t.id);
}

static void who_lets_the_others_pass_stands_where_its_due_time_puts_it(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), a = keyed_task(w, 1, NOW - 2), b = keyed_task(w, 1, NOW - 1), later;
    holder = claim_alone(w, &holder);
    later = a = gate_alone(w, &a);
    gate_alone(w, &b);
    later.due_ms = NOW + 1000;
    later.version++;
    assert_false(put_wakes(w, &a, &later));
    assert_waits(w, a.id, KEY);
    assert_true(end_wakes(w, &holder, TASK_COMPLETED));
    assert_holders(w, KEY, &b.id);
}

static void the_first_of_a_line_that_leaves_makes_room_for_the_next(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), narrow = keyed_task(w, 1, NOW - 2), wide = keyed_task(w, 2, NOW - 1),
                gone;
    claim_alone(w, &holder);
    gone = narrow = gate_alone(w, &narrow);
    gate_alone(w, &wide);
    gone.state = TASK_CANCELLED;
    assert_true(put_wakes(w, &narrow, &gone));
    assert_holders(w, KEY, &wide.id, &holder.id);
}

static void a_task_can_not_put_itself_into_a_line(void **state)
{
    struct world *w = *state;
    struct task t = keyed_task(w, 1, NOW), waits;
    insert(w, &t, 1);
    waits = t;
    waits.state = TASK_BLOCKED;
    waits.waits_for = KEY;
    assert_false(put_wakes(w, &t, &waits));
    assert_scheduled(w, t.id);
}

static const struct CMUnitTest tests[] = {
    store_test(a_task_that_leaves_the_line_waits_no_more),
    store_test(a_resumed_task_is_looked_at_anew),
    store_test(a_woken_task_that_is_held_back_gives_its_slot_on),
    store_test(a_deleted_task_neither_holds_nor_waits),
    store_test(another_key_takes_a_task_out_of_the_line),
    store_test(a_raised_limit_lets_in_who_waits),
    store_test(under_a_lowered_limit_nobody_comes_in_before_enough_have_left),
    store_test(who_lets_the_others_pass_stands_where_its_due_time_puts_it),
    store_test(the_first_of_a_line_that_leaves_makes_room_for_the_next),
    store_test(a_task_can_not_put_itself_into_a_line),
};
const struct test_list line_tests = { tests, array_count(tests) };

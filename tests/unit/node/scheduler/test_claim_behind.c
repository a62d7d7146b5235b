/* A claim right behind the settle of a task that others wait for: one transaction for each task of a chain. */
#include "node_world.h"

static void add_child(struct world *w, struct task *t, const struct task *parent)
{
    struct dependency on = { .parent = parent->id };
    struct depends_on depends = { .v = &on, .n = 1 };
    struct op_insert op = { .op = { .kind = OP_INSERT }, .tasks = t, .count = 1, .depends = &depends };
    arena_init(&op.op.arena, 4096);
    apply_op(w, &op.op);
    assert_ok(op.op.rc, &op.op.error);
    arena_release(&op.op.arena);
}

/* The parent has run, and its settle is with the writer. */
static struct task ended_parent(struct world *w, struct task *ret_child)
{
    struct task parent = task_due(w, 1, NOW + 40);
    *ret_child = plain_task(2, NOW);
    add_child(w, ret_child, &parent);
    settle_down(w);
    step_at(w, NOW + 40);
    end_run(w, OUTCOME_OK);
    step_at(w, NOW + 40);
    return parent;
}

static size_t pending_count(struct world *w, enum op_kind kind)
{
    size_t n = 0;
    list_each (&w->pending, link)
        n += container_of(link, struct op, link)->kind == kind;
    return n;
}

static void the_child_is_claimed_right_behind_the_settle_of_its_parent(void **state)
{
    struct world *w = *state;
    struct task child, parent = ended_parent(w, &child);
    struct op *settle = first_op(w), *claim = first_op(w);
    assert_int_equal(settle->kind, OP_SETTLE);
    assert_int_equal(claim->kind, OP_CLAIM);
    answer_op(w, settle);
    assert_int_equal(state_of(w, parent.id), TASK_COMPLETED);
    step_at(w, NOW + 40);
    answer_op(w, claim);
    assert_int_equal(state_of(w, child.id), TASK_RUNNING);
    step_at(w, NOW + 40);
    assert_true(is_running(w, &child));
    assert_int_equal(pending_count(w, OP_CLAIM), 0); /* the claim has seen all that the settle started */
}

static void a_child_in_another_lane_is_claimed_after_the_commit(void **state)
{
    struct world *w = *state;
    struct task parent = task_due(w, 1, NOW + 40), child = plain_task(2, NOW), known = plain_task(3, NOW + HOUR);
    known.priority = child.priority = PRIORITY_DEFAULT + 1;
    add_task(w, known);
    add_child(w, &child, &parent);
    settle_down(w);
    step_at(w, NOW + 40);
    end_run(w, OUTCOME_OK);
    settle_down(w);
    assert_true(is_running(w, &child));
}

static void a_settle_that_fails_leaves_the_child_to_a_later_one(void **state)
{
    struct world *w = *state;
    struct task child, parent = ended_parent(w, &child);
    deny(w, OP_SETTLE, false);
    answer(w, OP_CLAIM);
    step_at(w, NOW + 40);
    assert_int_equal(state_of(w, parent.id), TASK_RUNNING);
    assert_int_equal(state_of(w, child.id), TASK_BLOCKED);
    set_clock(w, NOW + 1000);
    settle_down(w);
    assert_true(is_running(w, &child));
}

static void a_claim_whose_answer_was_lost_is_read_back(void **state)
{
    struct world *w = *state;
    struct task child;
    (void)ended_parent(w, &child);
    answer(w, OP_SETTLE);
    deny(w, OP_CLAIM, true);
    set_clock(w, NOW + 1000);
    settle_down(w);
    assert_true(is_running(w, &child));
    assert_int_equal(w->run_count, 1);
}

static void the_end_of_a_task_that_nobody_waits_for_claims_nothing(void **state)
{
    struct world *w = *state;
    one_running(w);
    end_run(w, OUTCOME_OK);
    step_at(w, NOW + 40);
    assert_int_equal(pending_count(w, OP_SETTLE), 1);
    assert_int_equal(pending_count(w, OP_CLAIM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_child_is_claimed_right_behind_the_settle_of_its_parent, setup, teardown),
        cmocka_unit_test_setup_teardown(a_child_in_another_lane_is_claimed_after_the_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(a_settle_that_fails_leaves_the_child_to_a_later_one, setup, teardown),
        cmocka_unit_test_setup_teardown(a_claim_whose_answer_was_lost_is_read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_a_task_that_nobody_waits_for_claims_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

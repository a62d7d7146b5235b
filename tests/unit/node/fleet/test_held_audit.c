/* Tasks that a node goes on holding because a notice was lost: it asks the store, and releases them. */
#include "node/fleet/held_audit.h"

#include "fleet_node_world.h"

enum { MANY = 1500, BATCH = 1000 };

static size_t held(const struct world *w)
{
    return node_status(w->node).scheduler.held;
}

static bool is_asked(const struct world *w)
{
    list_each (&w->pending, link)
        if (container_of(link, struct op, link)->kind == OP_RUNNING)
            return true;
    return false;
}

/* Answers every operation except OP_RUNNING, which the test answers. */
static void rest_but_ask(struct world *w, int64_t now_ms)
{
    set_clock(w, now_ms);
    hand.now_ms = now_ms;
    for (int i = 0; i < 3000; i++) {
        step_at(w, now_ms);
        bool some = carry_all(&hand);
        list_each (&w->pending, link) {
            struct op *op = container_of(link, struct op, link);
            if (op->kind == OP_RUNNING)
                continue;
            list_remove(link);
            apply_op(w, op);
            op->done(op);
            some = true;
            break;
        }
        if (!some)
            return;
    }
    fail_msg("it never comes to rest");
}

/* By another node, whose notice is lost. */
static void settle_elsewhere(struct world *w, const struct task *t)
{
    struct settlement v = { .id = t->id, .fence = 1, .verdict = { .next = TASK_COMPLETED, .attempts = 1 } };
    struct op_settle op = { .op = { .kind = OP_SETTLE }, .v = &v, .n = 1, .now_ms = w->now_ms };
    arena_init(&op.op.arena, 4096);
    apply_op(w, &op.op);
    assert_false(v.stale);
    arena_release(&op.op.arena);
}

static void nothing_is_asked_of_what_has_not_been_held_for_long(void **state)
{
    struct world *w = *state;
    task_due(w, 1, NOW);
    rest_but_ask(w, NOW);
    rest_but_ask(w, NOW + HELD_AUDIT_MS);
    assert_false(is_asked(w));
    assert_int_equal(held(w), 1);
}

static void what_runs_still_is_held_and_asked_about_again_after_a_while(void **state)
{
    struct world *w = *state;
    struct task gone = task_due(w, 1, NOW);
    task_due(w, 2, NOW);
    rest_but_ask(w, NOW);
    settle_elsewhere(w, &gone);
    rest_but_ask(w, NOW + HELD_AUDIT_MS + 1000);
    answer(w, OP_RUNNING);
    assert_int_equal(held(w), 1);
    rest_but_ask(w, NOW + 2 * (int64_t)HELD_AUDIT_MS);
    assert_false(is_asked(w));
    rest_but_ask(w, NOW + 2 * (int64_t)HELD_AUDIT_MS + 2000);
    answer(w, OP_RUNNING);
    assert_int_equal(held(w), 1);
}

static void a_question_that_failed_is_asked_again(void **state)
{
    struct world *w = *state;
    struct task gone = task_due(w, 1, NOW);
    rest_but_ask(w, NOW);
    settle_elsewhere(w, &gone);
    rest_but_ask(w, NOW + HELD_AUDIT_MS + 1000);
    deny(w, OP_RUNNING, true);
    assert_int_equal(held(w), 1);
    rest_but_ask(w, NOW + 2 * (int64_t)HELD_AUDIT_MS + 2000);
    answer(w, OP_RUNNING);
    assert_int_equal(held(w), 0);
}

static void a_clock_set_back_does_not_make_it_wait_for_the_old_time(void **state)
{
    struct world *w = *state;
    struct task gone = task_due(w, 1, NOW);
    rest_but_ask(w, NOW);
    settle_elsewhere(w, &gone);
    int64_t before_ms = NOW - HOUR;
    rest_but_ask(w, before_ms);
    rest_but_ask(w, before_ms + HELD_AUDIT_MS + 1000);
    answer(w, OP_RUNNING);
    assert_int_equal(held(w), 0);
}

static void of_many_the_next_are_asked_about_at_once(void **state)
{
    struct world *w = *state;
    for (int i = 1; i <= MANY; i++)
        task_due(w, i, NOW);
    rest_but_ask(w, NOW);
    assert_int_equal(held(w), MANY);
    for (int i = 1; i <= MANY; i++) {
        struct task t = plain_task(i, NOW);
        settle_elsewhere(w, &t);
    }
    rest_but_ask(w, NOW + HELD_AUDIT_MS + 1000);
    answer(w, OP_RUNNING);
    assert_int_equal(held(w), MANY - BATCH);
    rest_but_ask(w, w->now_ms);
    answer(w, OP_RUNNING);
    assert_int_equal(held(w), 0);
}

static void with_much_room(struct node_setup *setup)
{
    in_a_fleet(setup);
    setup->waiting = (size_t)2 * MANY;
}

static int setup_roomy(void **state)
{
    return setup_fleet_as(state, with_much_room);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup_fleet, teardown_fleet)
    const struct CMUnitTest tests[] = {
        T(nothing_is_asked_of_what_has_not_been_held_for_long),
        T(what_runs_still_is_held_and_asked_about_again_after_a_while),
        T(a_question_that_failed_is_asked_again),
        T(a_clock_set_back_does_not_make_it_wait_for_the_old_time),
        cmocka_unit_test_setup_teardown(of_many_the_next_are_asked_about_at_once, setup_roomy, teardown_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

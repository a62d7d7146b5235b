/* Tasks that a fleet's queue has forgotten: claimed anew in place if they may simply run once more, otherwise
 * settled. */
#include "fleet_node_world.h"

static int retakes, settles, claims;

static void count(const struct op *op)
{
    retakes += op->kind == OP_RETAKE;
    settles += op->kind == OP_SETTLE;
    claims += op->kind == OP_CLAIM && ((const struct op_claim *)op)->ret.n > 0;
}

static bool counted_until(struct world *w, enum op_kind kind)
{
    see_op = count;
    bool found = rest_until(w, kind);
    see_op = NULL;
    return found;
}

static void wipe(void)
{
    queue_free(hand.queue);
    hand.queue = queue_memory_new();
    hand.epoch++;
    retakes = settles = claims = 0;
}

enum { NOTHING = OP_KINDS };

/* Until the missing tasks are handled, or the first operation of that kind. */
static bool rebuild_until(struct world *w, enum op_kind kind)
{
    for (int i = 0; i < 20; i++) {
        w->now_ms += 200;
        if (counted_until(w, kind))
            return true;
    }
    return false;
}

static void rebuild(struct world *w)
{
    assert_false(rebuild_until(w, (enum op_kind)NOTHING));
}

static size_t held(const struct world *w)
{
    return node_status(w->node).scheduler.held;
}

static void it_is_claimed_in_one_step_and_handed_again(void **state)
{
    struct world *w = *state;
    task_due(w, 2, NOW);
    struct task before = task_due(w, 1, NOW);
    rest(w);
    assert_int_equal(handed(w), 2);
    wipe();
    rebuild(w);
    struct task now = read_task(w, before.id);
    assert_true(retakes == 1 && settles == 0 && claims == 0);
    assert_true(now.state == TASK_RUNNING && now.fence == 2 && now.attempts == 0 && now.losses == 0);
    assert_int_equal(now.due_ms, NOW);
    assert_int_equal(queue_depth(hand.queue), 2);
    assert_int_equal(handed(w), 2);
    assert_int_equal(held(w), 2);
    assert_int_equal(told_count, 0); /* no other node had them */
}

static void the_result_of_the_delivery_that_was_forgotten_is_refused(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    struct task old = take_all(w, &a).tasks.v[0];
    wipe();
    rebuild(w);
    publish_outcome(&old, OUTCOME_OK);
    rest(w);
    assert_int_equal(state_of(w, t.id), TASK_RUNNING);
    struct task anew = take_all(w, &a).tasks.v[0];
    publish_outcome(&anew, OUTCOME_OK);
    ack(&anew);
    rest(w);
    assert_int_equal(state_of(w, t.id), TASK_COMPLETED);
    assert_int_equal(held(w), 0);
}

static void what_another_node_held_is_this_ones_and_the_other_is_told(void **state)
{
    struct world *w = *state;
    struct task t = task_due(w, 1, NOW);
    rest(w);
    struct fenced_id name = { t.id, 1 };
    node_on_settled_elsewhere(w->node, &name, 1); /* as if it were another node's */
    assert_int_equal(held(w), 0);
    wipe();
    rebuild(w);
    assert_int_equal(retakes, 1);
    assert_int_equal(held(w), 1);
    assert_int_equal(told_count, 1);
    assert_true(uuid_eq(told[0].id, t.id) && told[0].fence == 1);
}

static void what_counts_in_a_limit_of_another_node_is_returned(void **state)
{
    struct world *w = *state;
    struct queue_rules limited = QUEUE_RULES_DEFAULT;
    limited.concurrent = 2;
    put_queue(w, &limited);
    struct task own = task_due(w, 1, NOW), other = task_due(w, 2, NOW);
    rest(w);
    struct fenced_id name = { other.id, 1 };
    node_on_settled_elsewhere(w->node, &name, 1);
    wipe();
    assert_true(rebuild_until(w, OP_SETTLE));
    assert_int_equal(retakes, 1);
    assert_int_equal(read_task(w, own.id).fence, 2);
    assert_int_equal(read_task(w, other.id).fence, 1);
    rebuild(w);
    assert_int_equal(read_task(w, other.id).fence, 2);
    assert_true(claims == 1 && held(w) == 2);
    assert_int_equal(queue_depth(hand.queue), 2);
}

static void a_queue_at_its_limit_gives_nothing_back(void **state)
{
    struct world *w = *state;
    struct queue_rules limited = QUEUE_RULES_DEFAULT;
    limited.concurrent = 1;
    put_queue(w, &limited);
    struct task runs = task_due(w, 1, NOW), waits = task_due(w, 2, NOW);
    rest(w);
    wipe();
    rebuild(w);
    assert_true(retakes == 1 && settles == 0 && claims == 0);
    assert_int_equal(read_task(w, runs.id).fence, 2);
    assert_int_equal(state_of(w, waits.id), TASK_SCHEDULED);
    assert_int_equal(held(w), 1);
}

static void in_a_queue_that_is_paused_it_waits_for_its_end(void **state)
{
    struct world *w = *state;
    struct task t = task_due(w, 1, NOW);
    rest(w);
    struct queue_rules paused = QUEUE_RULES_DEFAULT;
    paused.paused = true;
    put_queue(w, &paused);
    wipe();
    rebuild(w);
    assert_int_equal(retakes, 0);
    assert_int_equal(state_of(w, t.id), TASK_SCHEDULED);
    assert_int_equal(queue_depth(hand.queue), 0);
}

static void in_a_queue_that_is_paused_meanwhile_too(void **state)
{
    struct world *w = *state;
    struct task t = task_due(w, 1, NOW);
    rest(w);
    wipe();
    assert_true(rebuild_until(w, OP_RETAKE));
    struct queue_rules paused = QUEUE_RULES_DEFAULT;
    paused.paused = true;
    put_queue(w, &paused);
    answer(w, OP_RETAKE);
    rest(w);
    assert_int_equal(state_of(w, t.id), TASK_SCHEDULED);
    assert_int_equal(queue_depth(hand.queue), 0);
    assert_int_equal(held(w), 0);
}

static void what_must_not_run_twice_is_lost_and_suspects_stand_in_their_own_line(void **state)
{
    struct world *w = *state;
    struct task once = plain_task(1, NOW), suspect = plain_task(2, NOW), plain = plain_task(3, NOW);
    once.delivery = DELIVER_AT_MOST_ONCE;
    suspect.losses = SUSPECT_LOSSES;
    add_task(w, once);
    add_task(w, suspect);
    add_task(w, plain);
    rest(w);
    assert_int_equal(queue_depth(hand.queue), 3);
    wipe();
    assert_true(rebuild_until(w, OP_SETTLE));
    assert_int_equal(retakes, 1);
    struct op_settle *op = container_of(next_op(w, OP_SETTLE), struct op_settle, op);
    assert_int_equal(op->n, 2);
    list_push(&w->pending, &op->op.link);
    rebuild(w);
    assert_int_equal(state_of(w, once.id), TASK_FAILED);
    assert_int_equal(read_task(w, suspect.id).fence, 2);
    assert_int_equal(read_task(w, plain.id).fence, 2);
    assert_int_equal(queue_depth(hand.queue), 2);
}

static void what_is_of_no_use_any_more_expires(void **state)
{
    struct world *w = *state;
    struct task t = plain_task(1, NOW);
    t.expires_after_ms = 1500;
    add_task(w, t);
    rest(w);
    wipe();
    rebuild(w);
    assert_int_equal(state_of(w, t.id), TASK_EXPIRED);
    assert_int_equal(queue_depth(hand.queue), 0);
    assert_int_equal(held(w), 0);
}

/* It is read back, and so it is pushed once, and nothing of it is settled. */
static void one_whose_answer_was_lost_is_read_back(void **state)
{
    struct world *w = *state;
    struct task t = task_due(w, 1, NOW);
    rest(w);
    wipe();
    assert_true(rebuild_until(w, OP_RETAKE));
    deny(w, OP_RETAKE, true);
    assert_false(counted_until(w, OP_CLAIMED));
    w->now_ms += 100;
    assert_true(counted_until(w, OP_CLAIMED));
    deny(w, OP_CLAIMED, false);
    rebuild(w);
    assert_true(retakes == 0 && settles == 0 && claims == 0);
    assert_int_equal(read_task(w, t.id).fence, 2);
    assert_int_equal(queue_depth(hand.queue), 1);
    assert_true(handed(w) == 1 && held(w) == 1);
}

static void one_that_never_arrived_is_returned(void **state)
{
    struct world *w = *state;
    struct task t = task_due(w, 1, NOW);
    rest(w);
    wipe();
    assert_true(rebuild_until(w, OP_RETAKE));
    deny(w, OP_RETAKE, false);
    rebuild(w);
    assert_true(settles == 1 && claims == 1);
    assert_int_equal(read_task(w, t.id).fence, 2);
    assert_int_equal(queue_depth(hand.queue), 1);
}

static void what_was_settled_meanwhile_stays_so(void **state)
{
    struct world *w = *state;
    struct task t = task_due(w, 1, NOW);
    rest(w);
    wipe();
    assert_true(rebuild_until(w, OP_RETAKE));
    struct settlement v = { .id = t.id, .fence = 1, .verdict = { .next = TASK_COMPLETED, .attempts = 1 } };
    struct op_settle op = { .op = { .kind = OP_SETTLE }, .v = &v, .n = 1, .now_ms = w->now_ms };
    arena_init(&op.op.arena, 4096);
    apply_op(w, &op.op);
    arena_release(&op.op.arena);
    answer(w, OP_RETAKE);
    rebuild(w);
    assert_int_equal(state_of(w, t.id), TASK_COMPLETED);
    assert_int_equal(queue_depth(hand.queue), 0);
    assert_int_equal(held(w), 0);
}

static void who_goes_meanwhile_gives_it_back(void **state)
{
    struct world *w = *state;
    struct task t = task_due(w, 1, NOW);
    rest(w);
    wipe();
    assert_true(rebuild_until(w, OP_RETAKE));
    node_drain(w->node);
    counted_until(w, OP_RETAKE);
    answer(w, OP_RETAKE);
    rest(w);
    assert_int_equal(state_of(w, t.id), TASK_SCHEDULED);
    assert_int_equal(queue_depth(hand.queue), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup_fleet, teardown_fleet)
    const struct CMUnitTest tests[] = {
        T(it_is_claimed_in_one_step_and_handed_again),
        T(the_result_of_the_delivery_that_was_forgotten_is_refused),
        T(what_another_node_held_is_this_ones_and_the_other_is_told),
        T(what_counts_in_a_limit_of_another_node_is_returned),
        T(a_queue_at_its_limit_gives_nothing_back),
        T(in_a_queue_that_is_paused_it_waits_for_its_end),
        T(in_a_queue_that_is_paused_meanwhile_too),
        T(what_must_not_run_twice_is_lost_and_suspects_stand_in_their_own_line),
        T(what_is_of_no_use_any_more_expires),
        T(one_whose_answer_was_lost_is_read_back),
        T(one_that_never_arrived_is_returned),
        T(what_was_settled_meanwhile_stays_so),
        T(who_goes_meanwhile_gives_it_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

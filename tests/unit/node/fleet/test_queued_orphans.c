/* What becomes of tasks that a control node had pushed when it died, before it recorded that the queue has them. */
#include "fleet_node_world.h"
#include "node/fleet/reconcile.h"

#define MANY 1100 /* more than are read at once */

/* The node has joined, and has not read yet what the dead have left. */
static int setup_beginning_as(void **state, void (*as)(struct node_setup *setup), bool can_tell)
{
    manual_async_io_init(&hand);
    hand.base.push_again = can_tell;
    told_count = 0;
    change_setup = as;
    return setup(state);
}

static int setup_beginning(void **state)
{
    return setup_beginning_as(state, in_a_fleet, true);
}

static void that_waits_for_its_queue(struct node_setup *setup)
{
    in_a_fleet(setup);
    setup->fallback = false;
}

static int setup_that_waits(void **state)
{
    return setup_beginning_as(state, that_waits_for_its_queue, true);
}

static int setup_that_can_not_tell(void **state)
{
    return setup_beginning_as(state, in_a_fleet, false);
}

static void pushed_by_the_dead(const struct task *tasks, size_t n)
{
    struct error e;
    struct pushed pushed;
    assert_ok(queue_push(hand.queue, tasks, n, 0, &pushed, &e), &e);
}

/* Under the first fence: a task that was settled may have been claimed and pushed again. */
static size_t handed_in_its_place(struct world *w)
{
    struct op_handed_off op = { .op = { .kind = OP_HANDED_OFF }, .before_ms = INT64_MAX, .max = MANY };
    size_t n = 0;
    arena_init(&op.op.arena, 64 << 20);
    apply_op(w, &op.op);
    for (size_t i = 0; i < op.ret.n; i++)
        n += op.ret.v[i].fence == 1;
    arena_release(&op.op.arena);
    return n;
}

static void serve(struct world *w)
{
    rest(w);
    report_worker(w, 99, WORKER_KIND_UNKNOWN, 60, false);
}

/* Long enough for the queue to be asked: workers have had time to make known to it what they run. */
static void serve_for_a_while(struct world *w)
{
    serve(w);
    for (int64_t end_ms = w->now_ms + RECONCILE_RENEW_MS + 3000; w->now_ms < end_ms;)
        rest_at(w, w->now_ms + 250);
}

/* Completes everything except questions about tasks, which fail. */
static void serve_while_the_queue_is_silent(struct world *w, int64_t until_ms)
{
    for (; w->now_ms < until_ms; set_clock(w, w->now_ms + 250))
        for (int i = 0; i < 10; i++) {
            step_at(w, w->now_ms);
            while (find_io_request(&hand, IO_KNOWN))
                refuse(&hand, IO_KNOWN, false);
            (void)carry_all(&hand);
            answer_all(w);
        }
}

static void what_the_queue_has_goes_on_and_the_rest_is_lost_or_returned(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task v[] = { plain_task(1, NOW), plain_task(2, NOW - 10), plain_task(3, NOW + 900) };
    claimed_by_the_dead(w, v, 3);
    pushed_by_the_dead(v, 1);
    serve(w);
    assert_int_equal(row_of(w, &v[2], &a).losses, 0);
    assert_int_equal(held_by_the_dead(w), 2); /* the third was returned at once */
    assert_false(node_status(w->node).recovering);
    serve_for_a_while(w);
    assert_int_equal(row_of(w, &v[0], &a).state, TASK_RUNNING);
    assert_int_equal(row_of(w, &v[0], &a).fence, 1);
    assert_int_equal(handed_in_its_place(w), 1);
    assert_int_equal(row_of(w, &v[1], &a).losses, 1); /* the dead node may have run it itself */
    assert_int_equal(held_by_the_dead(w), 0);
    struct taken taken = take_all(w, &a);
    assert_true(uuid_eq(taken.tasks.v[0].id, v[0].id) && taken.tasks.v[0].fence == 1);
    publish_outcome(&taken.tasks.v[0], OUTCOME_OK);
    ack(&taken.tasks.v[0]);
    rest(w);
    assert_int_equal(row_of(w, &v[0], &a).state, TASK_COMPLETED);
}

static void what_runs_at_most_once_and_is_in_the_queue_goes_on(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task v[] = { plain_task(1, NOW), plain_task(2, NOW) };
    v[0].delivery = v[1].delivery = DELIVER_AT_MOST_ONCE;
    claimed_by_the_dead(w, v, 2);
    pushed_by_the_dead(v, 1);
    serve_for_a_while(w);
    assert_int_equal(row_of(w, &v[0], &a).state, TASK_RUNNING);
    assert_int_equal(row_of(w, &v[1], &a).state, TASK_FAILED);
}

static void an_outcome_that_was_published_before_counts(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = plain_task(1, NOW);
    claimed_by_the_dead(w, &t, 1);
    publish_outcome(&t, OUTCOME_OK); /* and acknowledged: the queue does not know it any more */
    serve_for_a_while(w);
    assert_int_equal(row_of(w, &t, &a).state, TASK_COMPLETED);
    assert_int_equal(row_of(w, &t, &a).losses, 0);
}

static void while_the_queue_is_silent_they_wait_and_others_do_not(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task v[] = { plain_task(1, NOW), plain_task(2, NOW + 900) };
    claimed_by_the_dead(w, v, 2);
    pushed_by_the_dead(v, 1);
    serve_while_the_queue_is_silent(w, NOW + 10000);
    assert_false(node_status(w->node).recovering);
    assert_int_equal(row_of(w, &v[0], &a).state, TASK_RUNNING);
    assert_int_equal(held_by_the_dead(w), 1);
    assert_int_equal(row_of(w, &v[1], &a).losses, 0);
    serve_for_a_while(w);
    assert_int_equal(handed_in_its_place(w), 1);
}

/* Nothing but time passes for the queue: no request to it is answered. */
static void serve_while_the_queue_is_down(struct world *w, int64_t until_ms)
{
    for (; w->now_ms < until_ms; set_clock(w, w->now_ms + 100))
        for (int i = 0; i < 10; i++) {
            step_at(w, w->now_ms);
            while (find_io_request(&hand, IO_STATS))
                refuse(&hand, IO_STATS, false);
            answer_all(w);
        }
}

static void while_the_queue_is_down_a_node_that_runs_tasks_itself_waits_for_nothing(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = plain_task(1, NOW);
    claimed_by_the_dead(w, &t, 1);
    pushed_by_the_dead(&t, 1);
    serve_while_the_queue_is_down(w, NOW + 500);
    assert_int_equal(row_of(w, &t, &a).losses, 0);
    serve_while_the_queue_is_down(w, NOW + 5000);
    assert_int_equal(row_of(w, &t, &a).losses, 1);
}

static void while_the_queue_is_down_a_node_that_waits_for_it_returns_only_what_has_not_fired(void **state)
{
    struct world *w = *state;
    static struct task v[MANY + 1];
    for (int i = 0; i <= MANY; i++)
        v[i] = plain_task(i, i < MANY ? NOW : NOW + 990);
    claimed_by_the_dead(w, v, MANY + 1);
    serve_while_the_queue_is_down(w, NOW + 900);
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    assert_int_equal(row_of(w, &v[0], &a).fence, 1);
    assert_int_equal(row_of(w, &v[0], &a).state, TASK_RUNNING);
    struct op_orphans left = { .op = { .kind = OP_ORPHANS }, .max = MANY + 1 };
    arena_init(&left.op.arena, 64 << 20);
    apply_op(w, &left.op);
    assert_int_equal(left.ret.n, MANY); /* though they are more than are read at once */
    arena_release(&left.op.arena);
    assert_false(node_status(w->node).recovering);
}

/* Workers make known to it what they run, which takes a while. */
static void of_a_queue_that_was_wiped_nothing_is_believed_at_first(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = plain_task(1, NOW);
    t.delivery = DELIVER_AT_MOST_ONCE;
    claimed_by_the_dead(w, &t, 1);
    serve(w);
    set_clock(w, NOW + RECONCILE_RENEW_MS + 100);
    for (int i = 0; i < 20 && !find_io_request(&hand, IO_KNOWN); i++) {
        step_at(w, w->now_ms);
        if (!find_io_request(&hand, IO_KNOWN))
            (void)carry_all(&hand);
        answer_all(w);
    }
    assert_non_null(find_io_request(&hand, IO_KNOWN));
    hand.epoch++; /* between the last look and the question */
    rest(w);
    assert_int_equal(row_of(w, &t, &a).state, TASK_RUNNING);
    pushed_by_the_dead(&t, 1); /* as if it were renewed */
    serve_for_a_while(w);
    assert_int_equal(row_of(w, &t, &a).state, TASK_RUNNING);
    assert_int_equal(handed_in_its_place(w), 1);
}

static void of_a_queue_that_can_not_tell_they_are_lost_at_once(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = plain_task(1, NOW);
    claimed_by_the_dead(w, &t, 1);
    pushed_by_the_dead(&t, 1);
    serve_while_the_queue_is_silent(w, NOW + 250);
    assert_int_equal(row_of(w, &t, &a).losses, 1);
}

/* The clock goes on between the answer of the store and the verdict. */
static void what_becomes_due_meanwhile_is_left_to_nobody(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = plain_task(1, NOW + 3);
    claimed_by_the_dead(w, &t, 1);
    step_at(w, NOW);
    answer(w, OP_ORPHANS);
    set_clock(w, NOW + 5);
    serve_for_a_while(w);
    assert_int_equal(held_by_the_dead(w), 0);
}

static void many(struct world *w, size_t unknown_before, size_t known)
{
    static struct task v[MANY];
    for (int i = 0; i < MANY; i++)
        v[i] = plain_task(i, NOW);
    claimed_by_the_dead(w, v, MANY);
    pushed_by_the_dead(v + unknown_before, known);
    serve_for_a_while(w);
    assert_int_equal(held_by_the_dead(w), 0);
    assert_int_equal(handed_in_its_place(w), known);
}

/* A claim is handed off with tasks of the queue alone. */
static void of_many_none_is_left_in_a_claim_that_is_handed_off(void **state)
{
    many(*state, 100, 400);
}

static void of_many_none_is_left_though_most_are_in_the_queue(void **state)
{
    many(*state, 200, 800);
}

/* The store refuses it: its answer was lost, or this node is dead. */
static void a_hand_off_that_fails_is_tried_again(void **state)
{
    struct world *w = *state;
    struct task t = plain_task(1, NOW);
    claimed_by_the_dead(w, &t, 1);
    pushed_by_the_dead(&t, 1);
    serve(w);
    set_clock(w, NOW + RECONCILE_RENEW_MS + 100);
    assert_true(rest_until(w, OP_HANDOFF));
    deny(w, OP_HANDOFF, false);
    assert_int_equal(handed_in_its_place(w), 0);
    serve_for_a_while(w);
    assert_int_equal(handed_in_its_place(w), 1);
}

static void a_node_that_goes_while_it_asks_leaves_them_to_the_next(void **state)
{
    struct world *w = *state;
    struct task t = plain_task(1, NOW);
    claimed_by_the_dead(w, &t, 1);
    pushed_by_the_dead(&t, 1);
    serve(w);
    set_clock(w, NOW + RECONCILE_RENEW_MS + 100);
    for (int i = 0; i < 20 && !find_io_request(&hand, IO_KNOWN); i++) {
        step_at(w, w->now_ms);
        answer_all(w);
    }
    node_drain(w->node);
    rest(w);
    assert_int_equal(held_by_the_dead(w), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup_beginning, teardown_fleet)
    const struct CMUnitTest tests[] = {
        T(what_the_queue_has_goes_on_and_the_rest_is_lost_or_returned),
        T(what_runs_at_most_once_and_is_in_the_queue_goes_on),
        T(an_outcome_that_was_published_before_counts),
        T(while_the_queue_is_silent_they_wait_and_others_do_not),
        T(while_the_queue_is_down_a_node_that_runs_tasks_itself_waits_for_nothing),
        cmocka_unit_test_setup_teardown(
            while_the_queue_is_down_a_node_that_waits_for_it_returns_only_what_has_not_fired, setup_that_waits,
            teardown_fleet),
        T(of_a_queue_that_was_wiped_nothing_is_believed_at_first),
        cmocka_unit_test_setup_teardown(of_a_queue_that_can_not_tell_they_are_lost_at_once, setup_that_can_not_tell,
                                        teardown_fleet),
        T(what_becomes_due_meanwhile_is_left_to_nobody),
        T(of_many_none_is_left_in_a_claim_that_is_handed_off),
        T(of_many_none_is_left_though_most_are_in_the_queue),
        T(a_hand_off_that_fails_is_tried_again),
        T(a_node_that_goes_while_it_asks_leaves_them_to_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

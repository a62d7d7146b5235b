/* What becomes of tasks that a control node had pushed when it died, before it recorded that the queue has them. */
#include "fleet_node_world.h"

#define MANY 1100 /* more than are read at once */

/* The node has joined, and has not read yet what the dead have left. */
static int setup_beginning(void **state)
{
    manual_async_io_init(&hand);
    told_count = 0;
    change_setup = in_a_fleet;
    return setup(state);
}

/* A node that is gone had claimed them in one claim. */
static void claimed_by_the_dead(struct world *w, struct task *tasks, size_t n)
{
    struct uuid_gen ids;
    uuid_gen_init(&ids, 77);
    struct lane_quota lane = { .lane = task_lane(tasks), .max = n };
    struct op_insert insert = { .op = { .kind = OP_INSERT }, .tasks = tasks, .count = n };
    struct op_claim claim = { .op = { .kind = OP_CLAIM },
                              .claim = uuid_next(&ids, w->now_ms),
                              .node = { { 8 } },
                              .lanes = &lane,
                              .lane_count = 1,
                              .now_ms = w->now_ms,
                              .until_ms = w->now_ms + 1000,
                              .max = n,
                              .max_bytes = 1 << 30 };
    arena_init(&insert.op.arena, 1 << 20);
    arena_init(&claim.op.arena, 64 << 20);
    apply_op(w, &insert.op);
    apply_op(w, &claim.op);
    assert_int_equal(claim.ret.n, n);
    for (size_t i = 0; i < n; i++) {
        tasks[i].state = TASK_RUNNING;
        tasks[i].fence = 1;
        tasks[i].claim = claim.claim;
    }
    arena_release(&insert.op.arena);
    arena_release(&claim.op.arena);
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

static void what_the_queue_has_goes_on_and_the_rest_is_lost_or_returned(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task v[] = { plain_task(1, NOW), plain_task(2, NOW - 10), plain_task(3, NOW + 900) };
    claimed_by_the_dead(w, v, 3);
    pushed_by_the_dead(v, 1);
    serve(w);
    assert_int_equal(row_of(w, &v[0], &a).state, TASK_RUNNING);
    assert_int_equal(row_of(w, &v[0], &a).fence, 1);
    assert_int_equal(handed_in_its_place(w), 1);
    assert_int_equal(row_of(w, &v[1], &a).losses, 1); /* the dead node may have run it itself */
    assert_int_equal(row_of(w, &v[2], &a).losses, 0);
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
    serve(w);
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
    serve(w);
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
    for (int i = 0; i < 20 && node_status(w->node).recovering; i++) {
        step_at(w, NOW);
        if (find_io_request(&hand, IO_KNOWN))
            refuse(&hand, IO_KNOWN, false);
        for (struct op *op; !list_empty(&w->pending);) {
            op = container_of(list_pop(&w->pending), struct op, link);
            apply_op(w, op);
            op->done(op);
        }
    }
    assert_false(node_status(w->node).recovering);
    assert_int_equal(row_of(w, &v[0], &a).state, TASK_RUNNING);
    assert_int_equal(row_of(w, &v[1], &a).fence, 1); /* returned */
    assert_int_equal(row_of(w, &v[1], &a).losses, 0);
    assert_int_equal(held_by_the_dead(w), 1);
    serve(w);
    rest_at(w, NOW + 600);
    assert_int_equal(handed_in_its_place(w), 1);
    assert_int_equal(row_of(w, &v[0], &a).fence, 1);
}

static void of_a_queue_that_can_not_tell_they_are_lost(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    hand.base.push_again = false;
    struct task t = plain_task(1, NOW);
    claimed_by_the_dead(w, &t, 1);
    pushed_by_the_dead(&t, 1);
    serve(w);
    assert_int_equal(row_of(w, &t, &a).losses, 1);
}

/* A claim is handed off when its other tasks have been settled. */
static void of_many_none_is_left_in_a_claim_that_is_handed_off(void **state)
{
    struct world *w = *state;
    static struct task v[MANY];
    for (int i = 0; i < MANY; i++)
        v[i] = plain_task(i, NOW);
    claimed_by_the_dead(w, v, MANY);
    pushed_by_the_dead(v + 100, 400);
    serve(w);
    rest_at(w, NOW + 1);
    assert_int_equal(held_by_the_dead(w), 0);
    assert_int_equal(handed_in_its_place(w), 400);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup_beginning, teardown_fleet)
    const struct CMUnitTest tests[] = {
        T(what_the_queue_has_goes_on_and_the_rest_is_lost_or_returned),
        T(what_runs_at_most_once_and_is_in_the_queue_goes_on),
        T(an_outcome_that_was_published_before_counts),
        T(while_the_queue_is_silent_they_wait_and_others_do_not),
        T(of_a_queue_that_can_not_tell_they_are_lost),
        T(of_many_none_is_left_in_a_claim_that_is_handed_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

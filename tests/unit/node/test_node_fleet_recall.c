/* Tasks of a fleet that users want back: from the queue, on their way to it, and while it does not answer. */
#include "fleet_node_world.h"

static enum recall_result recall_result_of;
static int recalls_done;

static void recall_done(struct recall *r)
{
    recall_result_of = r->result;
    recalls_done++;
}

static void a_task_that_waits_in_the_queue_is_recalled_from_there(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    struct task running = row_of(w, &t, &a), replace = running;
    replace.state = TASK_CANCELLED;
    replace.version++;
    struct recall r = { .running = &running, .replace = &replace, .done = recall_done };
    recalls_done = 0;
    node_recall(w->node, &r);
    assert_int_equal(recalls_done, 0);
    rest(w);
    assert_int_equal(recalls_done, 1);
    assert_int_equal(recall_result_of, RECALL_DONE);
    assert_int_equal(row_of(w, &t, &a).state, TASK_CANCELLED);
    assert_int_equal(queue_depth(hand.queue), 0);
    assert_int_equal(node_status(w->node).scheduler.held, 0);
}

/* A user cancels it. */
static struct recall wanted_back(struct world *w, const struct task *t, struct arena *a)
{
    static struct task running, replace;
    replace = running = row_of(w, t, a);
    replace.state = TASK_CANCELLED;
    replace.version++;
    recalls_done = 0;
    return (struct recall){ .running = &running, .replace = &replace, .done = recall_done };
}

/* Otherwise it would run here as soon as the node has waited for the queue for long enough. */
static void a_task_that_is_wanted_back_does_not_run_here_when_its_push_has_failed(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    for (int late = 0; late < 2; late++) { /* the recall fails at once, or when the task would run */
        arena_init(&a, 1 << 20);
        struct task t = task_due(w, 1 + late, w->now_ms);
        step_at(w, w->now_ms);
        answer(w, OP_CLAIM);
        step_at(w, w->now_ms);
        struct recall r = wanted_back(w, &t, &a);
        node_recall(w->node, &r); /* behind the push: it has no answer, either */
        step_at(w, w->now_ms + 1500);
        refuse(&hand, IO_PUSH, false);
        if (!late)
            refuse(&hand, IO_RECALL, false);
        step_at(w, w->now_ms + 300);
        answer(w, OP_SETTLE);
        if (late)
            refuse(&hand, IO_RECALL, false);
        assert_int_equal(w->run_count, 0);
        assert_int_equal(recalls_done, 1);
        assert_int_equal(recall_result_of, late ? RECALL_RUNNING : RECALL_DONE);
        assert_int_equal(row_of(w, &t, &a).state, late ? TASK_SCHEDULED : TASK_CANCELLED);
        rest(w);
        if (!late)
            arena_release(&a);
    }
}

static void a_recall_that_lasts_is_asked_for_until_the_queue_answers_though_nobody_waits(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    atomic_int given_up = RECALL_GIVEN_UP;
    struct recall r = wanted_back(w, &t, &a);
    r.lasts = true;
    r.state = &given_up;
    node_recall(w->node, &r);
    refuse(&hand, IO_RECALL, false);
    step_at(w, NOW + 300);
    refuse(&hand, IO_RECALL, false);
    assert_int_equal(recalls_done, 0);
    assert_int_equal(queue_depth(hand.queue), 1);
    step_at(w, NOW + 600);
    carry(&hand, IO_RECALL);
    assert_int_equal(queue_depth(hand.queue), 0);
    answer(w, OP_SETTLE);
    assert_int_equal(recalls_done, 1);
    assert_int_equal(row_of(w, &t, &a).state, TASK_SCHEDULED); /* of a recurring task that is cancelled: CANCELLED */
}

static void in_a_fleet_of_several(struct node_setup *setup)
{
    in_a_fleet(setup);
    setup->shared = true;
}

static int setup_several(void **state)
{
    return setup_fleet_as(state, in_a_fleet_of_several);
}

/* That node may have it on its way to the queue, and would run it itself. */
static void the_node_that_has_the_task_hears_of_a_recall_that_lasts_though_the_queue_does_not_answer(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    struct recall r = wanted_back(w, &t, &a);
    r.lasts = true;
    node_on_settled_elsewhere(w->node, &(struct fenced_id){ t.id, 1 }, 1); /* as if it were another node's */
    node_recall(w->node, &r);
    assert_true(is_pending(w, OP_RECALL));
    rest(w);
    assert_int_equal(recall_result_of, RECALL_DONE);
    assert_int_equal(row_of(w, &t, &a).state, TASK_CANCELLED);
}

static void one_that_runs_on_a_worker_is_asked_to_end(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    take_all(w, &a);
    struct task running = row_of(w, &t, &a), replace = running;
    replace.state = TASK_CANCELLED;
    struct recall r = { .running = &running, .replace = &replace, .abort = true, .done = recall_done };
    recalls_done = 0;
    node_recall(w->node, &r);
    rest(w);
    assert_int_equal(recalls_done, 1);
    assert_int_equal(recall_result_of, RECALL_ABORTING);
    struct taken taken = take_all(w, &a);
    assert_int_equal(taken.abort_count, 1);
}

/* The other node notifies this one each time. */
static void an_abort_that_another_node_repeats_is_passed_on_twice_a_second(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    take_all(w, &a);
    size_t recalls = 0, aborts = 0;
    struct op_recall op = { .op.kind = OP_RECALL, .id = t.id, .fence = 1, .abort = true, .now_ms = w->now_ms };
    apply_op(w, &op.op);
    for (int64_t end_ms = w->now_ms + 990; w->now_ms < end_ms;) {
        step_at(w, w->now_ms + 30);
        node_on_recall_request(w->node);
        step_at(w, w->now_ms);
        answer(w, OP_RECALL_LIST);
        recalls += find_io_request(&hand, IO_RECALL) != NULL;
        if (find_io_request(&hand, IO_RECALL))
            carry(&hand, IO_RECALL);
        aborts += find_io_request(&hand, IO_ABORT) != NULL;
        rest(w);
    }
    assert_int_equal(recalls, 2);
    assert_int_equal(aborts, 2);
}

static void a_recall_that_lasts_asks_the_worker_that_has_the_task_and_says_so(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    take_all(w, &a);
    struct recall r = wanted_back(w, &t, &a);
    r.lasts = true;
    node_recall(w->node, &r);
    rest(w);
    assert_int_equal(recalls_done, 1);
    assert_int_equal(recall_result_of, RECALL_RUNNING);
    assert_true(r.known && r.told && !r.unsure);
    struct taken taken = take_all(w, &a);
    assert_int_equal(taken.abort_count, 0);
    assert_int_equal(taken.wanted_count, 1);
}

/* Users try again while the queue is down. */
static void of_one_claimed_task_at_most_two_recalls_that_last_wait(void **state)
{
    enum { TRIES = 4 };
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    atomic_int given_up = RECALL_GIVEN_UP;
    struct recall r[TRIES];
    for (size_t i = 0; i < TRIES; i++) {
        int before = recalls_done;
        r[i] = wanted_back(w, &t, &a);
        recalls_done = i ? before : 0;
        r[i].lasts = true;
        r[i].state = &given_up;
        node_recall(w->node, &r[i]);
        step_at(w, w->now_ms + 300);
        refuse(&hand, IO_RECALL, false);
        assert_null(find_io_request(&hand, IO_RECALL));
    }
    assert_int_equal(recalls_done, TRIES - 2);
    assert_false(r[1].known || r[2].known);
    rest_at(w, w->now_ms + 300);
    assert_int_equal(recalls_done, TRIES);
    assert_true(r[0].result == RECALL_ANSWERED && r[TRIES - 1].result == RECALL_FREED);
}

/* A stop that waits for the result may not be told early that nothing was changed. */
static void recalls_that_last_and_are_awaited_all_get_the_result_of_the_first(void **state)
{
    enum { TRIES = 4, OVER = 2 };
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    atomic_int given_up = RECALL_GIVEN_UP, open = RECALL_OPEN;
    atomic_bool over[TRIES] = { 0 };
    struct recall r[TRIES], last = wanted_back(w, &t, &a);
    last.lasts = true;
    last.state = &open;
    for (size_t i = 0; i < TRIES; i++) {
        r[i] = last;
        r[i].state = &given_up;
        r[i].over = &over[i];
        node_recall(w->node, &r[i]);
    }
    assert_int_equal(recalls_done, 0);
    atomic_store(&over[OVER], true); /* its request has ended */
    node_recall(w->node, &last);
    assert_int_equal(recalls_done, 1);
    assert_false(r[OVER].known);
    rest(w);
    assert_int_equal(recalls_done, TRIES + 1);
    assert_true(last.result == RECALL_FREED && r[1].result == RECALL_FREED && r[3].result == RECALL_FREED);
}

/* More at once would delay what else the queue is asked. */
static void few_of_many_recalls_that_last_ask_the_queue_at_once(void **state)
{
    enum { TASKS = 50, WINDOW = 16 };
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    struct task row[TASKS], replace[TASKS];
    struct recall r[TASKS];
    arena_init(&a, 1 << 20);
    for (int i = 0; i < TASKS; i++)
        row[i] = task_due(w, 1 + i, NOW);
    rest(w);
    recalls_done = 0;
    for (int i = 0; i < TASKS; i++) {
        replace[i] = row[i] = row_of(w, &row[i], &a);
        replace[i].state = TASK_CANCELLED;
        replace[i].version++;
        r[i] = (struct recall){ .running = &row[i], .replace = &replace[i], .lasts = true, .done = recall_done };
        node_recall(w->node, &r[i]);
    }
    size_t n = 0;
    list_each (&hand.io_requests, link)
        n += container_of(link, struct io_request, link)->kind == IO_RECALL;
    assert_int_equal(n, WINDOW);
    rest(w);
    assert_int_equal(recalls_done, TASKS);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(row_of(w, &row[i], &a).state, TASK_CANCELLED);
}

/* As if the push had yet to reach it. */
static void queue_has_nothing(enum io_kind kind)
{
    struct io_request *e = next_io_request(&hand, kind);
    e->rc = ERR_OK;
    e->done(e);
}

static void the_queue_is_asked_again_when_the_node_that_pushes_the_task_has_answered(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    struct recall r = wanted_back(w, &t, &a);
    r.lasts = true;
    node_on_settled_elsewhere(w->node, &(struct fenced_id){ t.id, 1 }, 1); /* as if it were another node's */
    node_recall(w->node, &r);
    struct op *first = next_op(w, OP_RECALL);
    apply_op(w, first);
    container_of(first, struct op_recall, op)->ret_handed_off = false;
    first->done(first);
    queue_has_nothing(IO_RECALL);
    queue_has_nothing(IO_WANT_BACK);
    assert_int_equal(recalls_done, 0);
    rest(w);
    assert_int_equal(recalls_done, 1);
    assert_int_equal(recall_result_of, RECALL_DONE);
    assert_int_equal(row_of(w, &t, &a).state, TASK_CANCELLED);
}

/* Nobody was told, and reconcile would claim the task anew. */
static void of_a_task_that_the_queue_has_lost_nothing_is_certain_and_it_does_not_start(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    queue_free(hand.queue);
    hand.queue = queue_memory_new();
    struct recall r = wanted_back(w, &t, &a);
    r.lasts = true;
    node_recall(w->node, &r);
    for (int i = 0; i < 5; i++)
        rest_at(w, w->now_ms + 50);
    assert_int_equal(recalls_done, 1);
    assert_int_equal(recall_result_of, RECALL_RUNNING);
    assert_true(r.known && r.unsure);
    hand.epoch++;
    bool is_returned = false;
    for (int i = 0; i < 20 && !is_returned; i++) {
        set_clock(w, w->now_ms + 200);
        is_returned = rest_until(w, OP_SETTLE);
    }
    assert_true(is_returned); /* in a run that is paused: PAUSED */
    assert_int_equal(row_of(w, &t, &a).fence, 1);
    assert_int_equal(queue_depth(hand.queue), 0);
    rest(w);
}

static void of_a_lost_task_that_was_claimed_anew_nothing_is_certain(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    queue_free(hand.queue);
    hand.queue = queue_memory_new();
    struct recall r = wanted_back(w, &t, &a);
    r.lasts = true;
    node_recall(w->node, &r);
    carry(&hand, IO_RECALL);
    carry(&hand, IO_WANT_BACK);
    struct op *request = next_op(w, OP_RECALL);
    request->rc = recall_too_late(&request->error);
    request->done(request);
    assert_int_equal(recall_result_of, RECALL_FREED);
    assert_true(r.unsure);
    rest(w);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup_fleet, teardown_fleet)
    const struct CMUnitTest tests[] = {
        T(a_task_that_waits_in_the_queue_is_recalled_from_there),
        T(a_task_that_is_wanted_back_does_not_run_here_when_its_push_has_failed),
        T(a_recall_that_lasts_is_asked_for_until_the_queue_answers_though_nobody_waits),
        T(one_that_runs_on_a_worker_is_asked_to_end),
        cmocka_unit_test_setup_teardown(an_abort_that_another_node_repeats_is_passed_on_twice_a_second, setup_several,
                                        teardown_fleet),
        T(a_recall_that_lasts_asks_the_worker_that_has_the_task_and_says_so),
        cmocka_unit_test_setup_teardown(
            the_node_that_has_the_task_hears_of_a_recall_that_lasts_though_the_queue_does_not_answer, setup_several,
            teardown_fleet),
        T(of_one_claimed_task_at_most_two_recalls_that_last_wait),
        T(recalls_that_last_and_are_awaited_all_get_the_result_of_the_first),
        T(few_of_many_recalls_that_last_ask_the_queue_at_once),
        cmocka_unit_test_setup_teardown(the_queue_is_asked_again_when_the_node_that_pushes_the_task_has_answered,
                                        setup_several, teardown_fleet),
        T(of_a_task_that_the_queue_has_lost_nothing_is_certain_and_it_does_not_start),
        T(of_a_lost_task_that_was_claimed_anew_nothing_is_certain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

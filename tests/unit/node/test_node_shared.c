/* A node that may not be alone: what it does after it was stopped, when it is dead, and when other nodes are there. */
#include "node_world.h"

static const struct uuid other = { { 9 } };

static int setup_shared(void **state)
{
    return setup_world(state, true);
}

/* Another node, or one that does not schedule: it sends heartbeats, or is marked dead. */
static void other_beats(struct world *w, struct str doc)
{
    struct op_heartbeat beat = { .op = { .kind = OP_HEARTBEAT },
                                 .node = { .id = other, .name = S("other"), .version = S("1"), .doc = doc },
                                 .now_ms = w->now_ms };
    arena_init(&beat.op.arena, 1 << 16);
    apply_op(w, &beat.op);
    arena_release(&beat.op.arena);
}

static int64_t beats_of(struct world *w, struct uuid id)
{
    const struct node_rows *rows = node_others(w->node);
    for (size_t i = 0; i < rows->n; i++)
        if (uuid_eq(rows->v[i].id, id))
            return rows->v[i].beats;
    return 0;
}

static void bury(struct world *w)
{
    struct uuid id = node_status(w->node).id;
    struct op_node_dead bury = {
        .op = { .kind = OP_NODE_DEAD }, .node = id, .beats = beats_of(w, id), .now_ms = w->now_ms
    };
    arena_init(&bury.op.arena, 1 << 16);
    apply_op(w, &bury.op);
    assert_true(bury.ret_marked_dead);
    arena_release(&bury.op.arena);
}

static size_t count_pending(struct world *w, enum op_kind kind)
{
    size_t n = 0;
    list_each (&w->pending, link)
        n += container_of(link, struct op, link)->kind == kind;
    return n;
}

/* Heartbeats and everything else go on until then. */
static void go_on(struct world *w, int64_t until_ms)
{
    while (w->now_ms < until_ms) {
        w->now_ms += 100;
        settle_down(w);
    }
}

static void who_was_stopped_fires_nothing_before_it_knows_that_it_lives(void **state)
{
    struct world *w = *state;
    one_armed(w);
    step_at(w, NOW + 5000);
    assert_int_equal(w->run_count, 0);
    assert_true(node_status(w->node).fenced);
    assert_int_equal(count_pending(w, OP_HEARTBEAT), 1);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    assert_false(node_status(w->node).fenced);
}

/* The store knows how far the node fires, by due times. It must know of the new time first. */
static void who_finds_its_clock_set_forward_tells_the_store_before_it_fires(void **state)
{
    struct world *w = *state;
    one_armed(w);
    w->set_back_ms -= 60000;
    step_at(w, NOW + 60050); /* 50 ms later by the steady clock */
    assert_false(node_status(w->node).fenced);
    assert_int_equal(w->run_count, 0);
    assert_int_equal(count_pending(w, OP_HEARTBEAT), 1);
    deny(w, OP_HEARTBEAT, true); /* applied, but that is not known here */
    step_at(w, NOW + 60100);
    assert_int_equal(w->run_count, 0);
    go_on(w, NOW + 60700);
    assert_int_equal(w->run_count, 1);
}

/* Others may have cancelled it meanwhile, and were answered. */
static void who_was_held_up_reads_what_others_want_back_before_it_fires(void **state)
{
    struct world *w = *state;
    one_armed(w);
    step_at(w, NOW + 1000);
    assert_false(node_status(w->node).fenced);
    assert_int_equal(count_pending(w, OP_RECALL_LIST), 1);
    for (int i = 1; i < 4; i++) {
        deny(w, OP_RECALL_LIST, false);
        step_at(w, NOW + 1000 + 500 * i); /* the store does not answer: it is asked again */
        assert_int_equal(w->run_count, 0);
        assert_int_equal(count_pending(w, OP_RECALL_LIST), 1);
    }
    settle_down(w);
    assert_int_equal(w->run_count, 1);
}

/* It is stopped so briefly that it is not fenced: only the tokens of its queue's rate are too old. */
static void who_was_stopped_for_a_second_fires_with_no_token_from_before(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_queue(w, &(struct queue_rules){ .weight = 100, .rate = 1, .burst = 1 });
    struct task t = task_due(w, 1, NOW + 40);
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.armed, 1);
    step_at(w, NOW + 1000);
    assert_false(node_status(w->node).fenced);
    assert_int_equal(w->run_count, 0);
    answer(w, OP_RECALL_LIST);
    step_at(w, NOW + 1001);
    assert_int_equal(count_pending(w, OP_LIMIT_TAKE), 1);
    answer(w, OP_LIMIT_TAKE); /* gives the stale one back and takes one */
    step_at(w, NOW + 1002);
    go_on(w, NOW + 1300);
    assert_true(is_running(w, &t));
}

static void who_is_fenced_does_not_ask_to_be_stepped_again_and_again(void **state)
{
    struct world *w = *state;
    one_armed(w);
    assert_true(step_at(w, NOW + 5000) > NOW + 5000);
}

/* It was pushed in time, and the process stopped before it was taken. */
static void what_waits_in_the_queue_of_a_stopped_node_is_given_back(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w);
    struct error e;
    struct pushed came;
    struct task pushed = read_task(w, t.id);
    pushed.queue = S("default");
    pushed.fence = 7; /* of a claim that is not this node's any more */
    assert_ok(queue_push(w->queue, &pushed, 1, 0, &came, &e), &e);
    step_at(w, NOW + 10);
    assert_int_equal(w->run_count, 0);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    step_at(w, NOW + 40);
    assert_int_equal(w->run_count, 1);
}

static void who_is_dead_drops_all_that_it_held_and_joins_again(void **state)
{
    struct world *w = *state;
    struct task running = one_running(w);
    struct task armed = task_due(w, 2, w->now_ms + 40);
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.armed, 1);
    struct uuid before = node_status(w->node).id;
    bury(w);
    step_at(w, w->now_ms + 3000);
    assert_int_equal(w->run_count, 1); /* nothing new */
    answer(w, OP_HEARTBEAT);
    assert_int_equal(w->run_count, 0); /* aborted */
    assert_int_equal(node_status(w->node).scheduler.held, 0);
    assert_false(uuid_eq(before, node_status(w->node).id));
    go_on(w, w->now_ms + 2000);
    assert_true(is_running(w, &running) && is_running(w, &armed)); /* found like those of any dead node */
    assert_int_equal(read_task(w, running.id).losses, 1);
    assert_int_equal(read_task(w, running.id).fence, 2);
    assert_int_equal(read_task(w, running.id).state, TASK_RUNNING);
}

static void a_claim_that_was_under_way_when_it_died_brings_nothing(void **state)
{
    struct world *w = *state;
    settle_down(w);
    task_due(w, 1, NOW);
    step_at(w, NOW);
    struct op *claim = next_op(w, OP_CLAIM);
    apply_op(w, claim);
    assert_int_equal(((struct op_claim *)claim)->ret.n, 1);
    bury(w);
    step_at(w, NOW + 3000);
    answer(w, OP_HEARTBEAT); /* dead */
    claim->done(claim);
    assert_int_equal(node_status(w->node).scheduler.held, 0);
    assert_int_equal(w->run_count, 0);
    go_on(w, NOW + 6000);
    assert_int_equal(w->run_count, 1);
}

static void who_joins_others_takes_nothing_back_that_they_are_about_to_run(void **state)
{
    struct world *w = *state;
    settle_down(w);
    other_beats(w, S("{\"state\":\"ready\"}"));
    bury(w);
    step_at(w, NOW + 3000);
    answer(w, OP_HEARTBEAT);
    for (int i = 0; i < 20; i++) {
        other_beats(w, S("{\"state\":\"ready\"}"));
        step_at(w, w->now_ms + 100);
        assert_int_equal(count_pending(w, OP_CATCH_UP), 0);
        while (!list_empty(&w->pending)) {
            struct op *op = container_of(list_pop(&w->pending), struct op, link);
            apply_op(w, op);
            op->done(op);
        }
    }
    assert_false(node_status(w->node).recovering);
    assert_true(node_status(w->node).partitions < PARTITIONS);
}

/* Until the partitions are shared with a second node. Which task is in whose partition: by number. */
static void share_with_other(struct world *w, int *ret_ours, int *ret_others)
{
    settle_down(w);
    for (int64_t until_ms = NOW + 1000; w->now_ms < until_ms; w->now_ms += 100) {
        other_beats(w, S("{\"state\":\"ready\"}"));
        settle_down(w);
    }
    struct uuid nodes[] = { node_status(w->node).id, other };
    struct partitions own = partitions_share(nodes[0], nodes, 2);
    assert_int_equal(node_status(w->node).partitions, partitions_count(&own));
    *ret_ours = *ret_others = 1;
    while (!partitions_have(&own, partition_of(plain_task(*ret_ours, 0).id)))
        ++*ret_ours;
    while (partitions_have(&own, partition_of(plain_task(*ret_others, 0).id)))
        ++*ret_others;
}

/* The first task is in our partitions, the second in the other node's: that one is left to it for a moment. */
static void tasks_of_others_are_taken_when_they_are_late(void **state)
{
    struct world *w = *state;
    int ours, others;
    share_with_other(w, &ours, &others);
    struct task mine = task_due(w, ours, w->now_ms), yours = task_due(w, others, w->now_ms);
    settle_down(w);
    assert_true(is_running(w, &mine) && !is_running(w, &yours));
    w->now_ms += 100;
    settle_down(w);
    assert_true(is_running(w, &yours));
}

static void who_meets_others_at_their_tasks_leaves_them_to_it_for_a_while(void **state)
{
    struct world *w = *state;
    int ours, others;
    share_with_other(w, &ours, &others);
    task_due(w, ours, w->now_ms);
    step_at(w, w->now_ms);
    struct op_claim *claim = container_of(next_op(w, OP_CLAIM), struct op_claim, op);
    assert_int_equal(claim->help_after_ms, 100);
    apply_op(w, &claim->op);
    claim->ret_conflicts = 1;
    claim->op.done(&claim->op);
    struct task yours = task_due(w, others, w->now_ms - 1000); /* late by far */
    settle_down(w);
    go_on(w, w->now_ms + 100);
    assert_false(is_running(w, &yours));
    go_on(w, w->now_ms + 100);
    assert_true(is_running(w, &yours));
}

/* ---- recall requests of others ---- */

static struct task call_due(struct world *w, int n)
{
    struct task t = plain_task(n, NOW);
    t.target = TARGET_HTTP;
    t.target_config = S("{\"url\":\"https://a.example/\"}");
    return add_task(w, t);
}

/* Another node requests it. Returns what the store says of the request that is there by then. */
static struct op_recall request_from_elsewhere(struct world *w, struct uuid task)
{
    struct op_recall op = { .op.kind = OP_RECALL, .id = task, .fence = read_task(w, task).fence, .now_ms = w->now_ms };
    arena_init(&op.op.arena, 4096);
    apply_op(w, &op.op);
    arena_release(&op.op.arena);
    return op;
}

static void what_waits_for_its_host_is_given_back_and_what_runs_is_refused(void **state)
{
    struct world *w = *state;
    w->runner.host_calls_max = 1;
    settle_down(w);
    struct task runs = call_due(w, 1), parked = call_due(w, 2);
    settle_down(w);
    assert_true(is_running(w, &runs));
    assert_false(is_running(w, &parked));
    assert_int_equal(state_of(w, parked.id), TASK_RUNNING);
    assert_false(request_from_elsewhere(w, runs.id).ret_refused);
    request_from_elsewhere(w, parked.id);
    node_on_recall_request(w->node);
    settle_down(w);
    assert_int_equal(state_of(w, parked.id), TASK_SCHEDULED);
    assert_true(read_task(w, parked.id).due_ms > w->now_ms);
    assert_true(request_from_elsewhere(w, runs.id).ret_refused);
    end_run(w, OUTCOME_OK);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
}

static void count_answer(struct recall *r)
{
    ++*(int *)r->context;
}

/* A user of this node wants it, too, and the store does not take the settlement yet. */
static void what_is_off_the_wheel_and_not_settled_yet_is_granted(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = one_armed(w), running = row_of(w, &t, &a), replace = running;
    int answers = 0;
    replace.state = TASK_CANCELLED;
    replace.version++;
    struct recall r = { .running = &running, .replace = &replace, .done = count_answer, .context = &answers };
    node_recall(w->node, &r);
    deny(w, OP_SETTLE, false);
    request_from_elsewhere(w, t.id);
    node_on_recall_request(w->node);
    step_at(w, w->now_ms);
    answer(w, OP_RECALL_LIST);
    step_at(w, w->now_ms + 30);
    assert_int_equal(count_pending(w, OP_RECALL_LIST), 0); /* not read again, and not refused */
    assert_false(request_from_elsewhere(w, t.id).ret_refused);
    go_on(w, w->now_ms + 500);
    assert_int_equal(answers, 1);
    assert_int_equal(state_of(w, t.id), TASK_CANCELLED);
}

static struct plan *kept_plan;

static void keep_plan(struct planner *p, struct plan *plan)
{
    (void)p;
    kept_plan = plan;
}

static void with_planner(struct node_setup *setup)
{
    static const struct planner_ops ops = { keep_plan };
    static struct planner planner = { &ops };
    setup->planner = &planner;
}

static int setup_with_planner(void **state)
{
    change_setup = with_planner;
    int rc = setup_shared(state);
    change_setup = NULL;
    return rc;
}

/* A run that is due, and with the planner. Another node requests it. */
static struct task planned_run(struct world *w, int links)
{
    settle_down(w);
    struct task t = plain_task(1, NOW);
    t.target = TARGET_WORKFLOW;
    t.links = links;
    add_task(w, t);
    settle_down(w);
    assert_non_null(kept_plan);
    request_from_elsewhere(w, t.id);
    node_on_recall_request(w->node);
    settle_down(w);
    return t;
}

static void fail_plan(struct world *w)
{
    struct plan *plan = take(kept_plan);
    plan->rc = error_set(&plan->error, ERR_UNAVAILABLE, "down");
    plan->done(plan);
    step_at(w, w->now_ms);
}

/* It starts if its plan fails and is made once more. */
static void a_run_that_is_planned_to_be_opened_is_not_refused(void **state)
{
    struct world *w = *state;
    struct task t = planned_run(w, 0);
    assert_false(request_from_elsewhere(w, t.id).ret_refused);
    fail_plan(w);
    go_on(w, w->now_ms + 100);
    assert_int_equal(state_of(w, t.id), TASK_SCHEDULED);
    assert_null(kept_plan);
}

/* The planner sees itself that it is stopped. */
static void a_run_that_is_open_and_planned_is_refused(void **state)
{
    struct world *w = *state;
    struct task t = planned_run(w, TASK_OPENED);
    assert_true(request_from_elsewhere(w, t.id).ret_refused);
    fail_plan(w);
}

int main(void)
{
#define node_test(f) cmocka_unit_test_setup_teardown(f, setup_shared, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_run_that_is_planned_to_be_opened_is_not_refused, setup_with_planner,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_run_that_is_open_and_planned_is_refused, setup_with_planner, teardown),
        node_test(what_is_off_the_wheel_and_not_settled_yet_is_granted),
        node_test(who_was_stopped_fires_nothing_before_it_knows_that_it_lives),
        node_test(who_finds_its_clock_set_forward_tells_the_store_before_it_fires),
        node_test(who_was_held_up_reads_what_others_want_back_before_it_fires),
        node_test(who_was_stopped_for_a_second_fires_with_no_token_from_before),
        node_test(who_is_fenced_does_not_ask_to_be_stepped_again_and_again),
        node_test(what_waits_in_the_queue_of_a_stopped_node_is_given_back),
        node_test(who_is_dead_drops_all_that_it_held_and_joins_again),
        node_test(a_claim_that_was_under_way_when_it_died_brings_nothing),
        node_test(who_joins_others_takes_nothing_back_that_they_are_about_to_run),
        node_test(tasks_of_others_are_taken_when_they_are_late),
        node_test(who_meets_others_at_their_tasks_leaves_them_to_it_for_a_while),
        node_test(what_waits_for_its_host_is_given_back_and_what_runs_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

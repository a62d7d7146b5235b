/* Limits of queues and tenants, by hand: the lanes under the scheduler. tests/sim finds by chance what is frequent. */
#include <stdio.h>

#include "node_world.h"

static const struct queue_rules paused = { .weight = 100, .paused = true, .paused_ms = NOW };

/* ---- places ---- */

static struct task call_due(struct world *w, int n)
{
    struct task t = plain_task(n, NOW);
    t.target = TARGET_HTTP;
    t.target_config = S("{\"url\":\"https://a.example/\"}");
    return add_task(w, t);
}

static void a_task_that_waits_for_its_host_gives_its_place_away_at_once(void **state)
{
    struct world *w = *state;
    w->runner.host_calls_max = 1;
    with_slots(w, 2);
    call_due(w, 1);
    call_due(w, 2);
    task_due(w, 3, NOW + 1);
    step_at(w, NOW + 1);
    answer(w, OP_CLAIM);
    step_at(w, NOW + 1);
    assert_int_equal(w->run_count, 1);
    answer(w, OP_CLAIM); /* made in the same step: nothing else will happen */
    step_at(w, NOW + 1);
    assert_int_equal(w->run_count, 2);
}

static void claim_ahead(struct node_setup *setup)
{
    setup->ahead_ms = 3000;
    setup->ahead_bytes = 1 << 20;
}

static size_t ended_count;

static void end_at_once(struct runner *r, struct run *run)
{
    (void)r;
    ended_count++;
    run->done(run, &(struct outcome){ .kind = OUTCOME_OK, .retry_after_ms = -1 });
}

/* One step starts all of them: a commit would bring the next one, and may take long. */
static void a_task_that_ends_at_once_leaves_its_place_to_the_next_in_the_same_step(void **state)
{
    static const struct runner_ops at_once = { end_at_once, NULL, NULL };
    struct world *w = *state;
    w->runner.ops = &at_once;
    change_setup = claim_ahead;
    with_slots(w, 1);
    for (int i = 1; i <= 5; i++)
        task_due(w, i, NOW + 2000);
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.armed, 5);
    ended_count = 0;
    step_at(w, NOW + 2000);
    assert_int_equal(ended_count, 5);
    settle_down(w);
    change_setup = NULL;
}

/* What is due within the window takes a place when it is claimed. A busy node claims early, but not with places. */
static void a_place_is_taken_at_most_100_ms_early(void **state)
{
    struct world *w = *state;
    for (int ahead = 0; ahead < 2; ahead++) {
        change_setup = ahead ? claim_ahead : NULL;
        with_slots(w, 1);
        for (int n = 1; n <= 3; n++)
            task_due(w, 10 * (ahead + 1) + n, w->now_ms);
        settle_down(w);
        assert_true(node_status(w->node).scheduler.window_ms == (ahead ? 100 : 1000));
        node_drain(w->node);
        node_give_up(w->node);
    }
    change_setup = NULL;
}

/* It was created after the others were claimed. */
static void of_tasks_that_are_due_together_the_most_urgent_one_goes_first(void **state)
{
    struct world *w = *state;
    change_setup = claim_ahead;
    with_slots(w, 1);
    task_due(w, 1, NOW + 2000);
    task_due(w, 2, NOW + 2000);
    settle_down(w);
    struct task urgent = plain_task(3, NOW + 2000);
    urgent.priority = 6; /* of the same class */
    urgent = add_task(w, urgent);
    step_at(w, NOW + 500);
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.armed, 3);
    step_at(w, NOW + 2000);
    settle_down(w);
    assert_true(w->run_count == 1 && is_running(w, &urgent));
    change_setup = NULL;
}

/* ---- pauses ---- */

static void a_paused_queue_claims_nothing_and_costs_nothing(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_queue(w, &paused);
    task_due(w, 1, NOW);
    assert_true(step_at(w, NOW) == INT64_MAX);
    assert_true(list_empty(&w->pending));
    assert_int_equal(w->run_count, 0);
    put_queue(w, &QUEUE_RULES_DEFAULT);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
}

static void what_is_armed_of_a_queue_that_is_paused_is_handed_back(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w);
    put_queue(w, &paused);
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.armed, 0);
    assert_int_equal(node_status(w->node).scheduler.held, 0);
    assert_int_equal(state_of(w, t.id), TASK_SCHEDULED);
    step_at(w, NOW + 1000);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
}

static void what_a_claim_brings_after_the_pause_is_handed_back(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = task_due(w, 1, NOW);
    step_at(w, NOW);
    struct op *claim = next_op(w, OP_CLAIM);
    apply_op(w, claim);
    put_queue(w, &paused);
    claim->done(claim);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    assert_int_equal(state_of(w, t.id), TASK_SCHEDULED);
}

static enum err refuse_to_publish(struct events *ev, const struct event *v, size_t n, struct error *e)
{
    (void)ev, (void)v, (void)n;
    return error_set(e, ERR_UNAVAILABLE, "events are down");
}

static void what_cannot_be_handed_back_now_is_handed_back_later(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w);
    const struct events_ops *whole = w->events->ops;
    struct events_ops broken = *whole;
    broken.publish = refuse_to_publish;
    w->events->ops = &broken;
    put_queue(w, &paused);
    int64_t wake = step_at(w, NOW);
    assert_true(wake > NOW && wake < NOW + 1000);
    step_at(w, NOW + 100); /* its due time is over, and it does not fire */
    w->events->ops = whole;
    assert_int_equal(w->run_count, 0);
    step_at(w, wake);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    assert_int_equal(state_of(w, t.id), TASK_SCHEDULED);
}

static void a_pause_with_an_end_goes_on_at_that_moment(void **state)
{
    struct world *w = *state;
    struct queue_rules rules = paused;
    settle_down(w);
    rules.paused_until_ms = NOW + 5000;
    put_queue(w, &rules);
    task_due(w, 1, NOW);
    assert_true(step_at(w, NOW) == NOW + 5000);
    assert_true(list_empty(&w->pending));
    step_at(w, NOW + 5000);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
}

/* ---- limits ---- */

static void a_queue_never_runs_more_than_its_limit(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_queue(w, &(struct queue_rules){ .weight = 100, .concurrent = 2 });
    for (int i = 1; i <= 4; i++)
        task_due(w, i, NOW);
    settle_down(w);
    assert_int_equal(w->run_count, 2);
    assert_true(step_at(w, NOW) > NOW); /* it does not try again and again */
    for (int left = 3; left >= 0; left--) {
        end_run(w, OUTCOME_OK);
        settle_down(w);
        assert_int_equal(w->run_count, min_of(left, 2));
    }
}

static void a_limit_that_is_lowered_takes_back_what_has_not_fired(void **state)
{
    struct world *w = *state;
    for (int i = 1; i <= 3; i++)
        task_due(w, i, NOW + 40);
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.armed, 3);
    put_queue(w, &(struct queue_rules){ .weight = 100, .concurrent = 1 });
    settle_down(w);
    step_at(w, NOW + 40);
    assert_int_equal(w->run_count, 1);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    end_run(w, OUTCOME_OK);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
}

static void a_tenant_never_runs_more_than_its_limit_and_nothing_when_disabled(void **state)
{
    struct world *w = *state;
    struct tenant_rules rules = { .number = TENANT, .name = S("default"), .max_running = 1 };
    settle_down(w);
    put_tenant(w, &rules);
    task_due(w, 1, NOW);
    task_due(w, 2, NOW);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    rules.disabled = true;
    put_tenant(w, &rules);
    end_run(w, OUTCOME_OK);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    rules.disabled = false;
    put_tenant(w, &rules);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
}

static void one_tenant_among_several_leaves_room_for_the_others(void **state)
{
    struct world *w = *state;
    with_slots(w, 10);
    put_tenant(w, &(struct tenant_rules){ .number = 2, .name = S("acme") });
    for (int i = 1; i <= 20; i++)
        task_due(w, i, NOW);
    settle_down(w);
    assert_int_equal(w->run_count, 8);
    struct task fresh = plain_task(50, NOW);
    fresh.tenant = 2;
    fresh.priority = PRIORITY_MIN;
    add_task(w, fresh);
    settle_down(w);
    assert_true(is_running(w, &fresh));
}

static void a_tenant_that_is_alone_has_every_slot(void **state)
{
    struct world *w = *state;
    with_slots(w, 9); /* too few for a class to keep one */
    for (int i = 1; i <= 20; i++)
        task_due(w, i, NOW);
    settle_down(w);
    assert_int_equal(w->run_count, 9);
}

static void a_class_keeps_the_rest_of_its_tenth_from_lower_ones(void **state)
{
    struct world *w = *state;
    with_slots(w, 20);
    for (int i = 1; i <= 40; i++)
        task_due(w, i, NOW);
    settle_down(w);
    assert_int_equal(w->run_count, 18);
    for (int i = 41; i <= 44; i++) {
        struct task urgent = plain_task(i, NOW);
        urgent.priority = PRIORITY_MAX;
        add_task(w, urgent);
    }
    settle_down(w);
    assert_int_equal(w->run_count, 20);
}

/* ---- rates ---- */

static void a_rate_lets_a_burst_go_and_then_one_at_a_time(void **state)
{
    struct world *w = *state;
    with_slots(w, 10);
    put_queue(w, &(struct queue_rules){ .weight = 100, .rate = 10, .burst = 2 });
    for (int i = 1; i <= 5; i++)
        task_due(w, i, NOW);
    settle_down(w);
    assert_int_equal(w->run_count, 2);
    for (int i = 1; i <= 3; i++) {
        int64_t wake = step_at(w, w->now_ms);
        while (wake < NOW + i * 100) { /* it claims a moment early, and fires when the token is there */
            assert_true(wake > w->now_ms && wake >= NOW + i * 100 - 50);
            step_at(w, wake);
            settle_down(w);
            assert_int_equal(w->run_count, 1 + i);
            wake = step_at(w, w->now_ms);
        }
        assert_true(wake == NOW + i * 100);
        step_at(w, wake);
        settle_down(w);
        assert_int_equal(w->run_count, 2 + i);
    }
}

static void what_waits_for_its_rate_takes_no_slot_from_others(void **state)
{
    struct world *w = *state;
    settle_down(w);
    put_queue(w, &(struct queue_rules){ .weight = 100, .rate = 1, .burst = 1 });
    for (int i = 1; i <= 5; i++)
        task_due(w, i, NOW);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    assert_int_equal(node_status(w->node).scheduler.held, 1);
    for (int i = 11; i <= 12; i++) {
        struct task other = plain_task(i, NOW);
        other.queue = S("mail");
        add_task(w, other);
    }
    settle_down(w);
    assert_int_equal(w->run_count, 3);
}

/* Else a queue whose host is busy would use up its rate without calling anybody. */
static void a_task_that_waited_for_its_host_in_vain_gives_its_token_back(void **state)
{
    struct world *w = *state;
    w->runner.host_calls_max = 1;
    with_slots(w, 10);
    put_queue(w, &(struct queue_rules){ .weight = 100, .rate = 0.01, .burst = 2 });
    call_due(w, 1);
    call_due(w, 2);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    task_due(w, 3, NOW);
    settle_down(w);
    assert_int_equal(w->run_count, 1); /* both tokens are taken */
    step_at(w, NOW + 1001);            /* it was parked for longer than a task waits in its host's line */
    settle_down(w);
    assert_int_equal(w->run_count, 2);
}

static void a_queue_that_goes_on_does_not_meet_its_backlog_all_at_once(void **state)
{
    struct world *w = *state;
    with_slots(w, 60);
    put_queue(w, &(struct queue_rules){ .weight = 100, .resumed_ms = NOW });
    for (int i = 1; i <= 60; i++)
        task_due(w, i, NOW);
    int64_t until = NOW + 500;
    for (int64_t wake = NOW; wake <= until; wake = max_of(step_at(w, w->now_ms), w->now_ms + 1)) {
        step_at(w, wake);
        settle_down(w);
    }
    assert_true(w->run_count >= 20 && w->run_count <= 27); /* 50 a second */
}

/* ---- which lanes are claimed, and in which order ---- */

static void a_claim_asks_only_lanes_with_something_due(void **state)
{
    struct world *w = *state;
    settle_down(w);
    for (int i = 0; i < 20; i++) {
        char name[16];
        int n = snprintf(name, sizeof name, "queue-%d", i);
        struct task far = plain_task(100 + i, NOW + HOUR);
        far.queue = (struct str){ name, (size_t)n };
        add_task(w, far);
    }
    task_due(w, 1, NOW);
    step_at(w, NOW);
    const struct op_claim *claim = (const struct op_claim *)container_of(w->pending.next, struct op, link);
    assert_int_equal(claim->op.kind, OP_CLAIM);
    assert_int_equal(claim->lane_count, 1);
    assert_str(claim->lanes[0].lane.queue, "default");
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.lanes, 22); /* with the late lane of the default queue */
}

/* The claim had passed the lane when the task was written. */
static void what_is_heard_of_while_a_claim_is_under_way_is_not_forgotten(void **state)
{
    struct world *w = *state;
    settle_down(w);
    task_due(w, 1, NOW);
    step_at(w, NOW);
    struct op *claim = next_op(w, OP_CLAIM);
    apply_op(w, claim);
    struct task next = task_due(w, 2, NOW);
    claim->done(claim);
    settle_down(w);
    assert_true(is_running(w, &next));
}

static void classes_share_what_there_is(void **state)
{
    struct world *w = *state;
    with_slots(w, 10);
    for (int i = 1; i <= 60; i++) {
        struct task t = plain_task(i, NOW);
        t.priority = i % 3 == 0 ? 9 : i % 3 == 1 ? 5 : 0;
        t.due_ms -= 60 - i % 3; /* the low ones first */
        struct op_insert op = { .op = { .kind = OP_INSERT }, .tasks = &t, .count = 1 };
        apply_op(w, &op.op);
        node_nudge(w->node, &t, 1);
    }
    settle_down(w);
    int of_class[CLASS_HIGH + 1] = { 0 };
    for (size_t i = 0; i < w->run_count; i++)
        of_class[priority_class_of(w->runs[i]->task->priority)]++;
    assert_int_equal(of_class[CLASS_HIGH], 6);
    assert_int_equal(of_class[CLASS_NORMAL], 3);
    assert_int_equal(of_class[CLASS_LOW], 1);
}

static void the_oldest_wait_is_that_of_the_first_that_nobody_closed(void **state)
{
    struct world *w = *state;
    settle_down(w);
    for (int i = 1; i <= 4; i++)
        task_due(w, i, NOW - 1000 * i);
    settle_down(w);
    assert_int_equal(w->run_count, SLOTS);
    assert_true(node_status(w->node).scheduler.oldest_due_ms[CLASS_NORMAL] == NOW - 1000);
    assert_true(node_status(w->node).scheduler.oldest_due_ms[CLASS_HIGH] == INT64_MAX);
    put_queue(w, &paused);
    end_run(w, OUTCOME_OK);
    settle_down(w);
    assert_true(node_status(w->node).scheduler.oldest_due_ms[CLASS_NORMAL] == INT64_MAX);
}

int main(void)
{
#define node_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        node_test(a_task_that_waits_for_its_host_gives_its_place_away_at_once),
        node_test(a_task_that_ends_at_once_leaves_its_place_to_the_next_in_the_same_step),
        node_test(a_place_is_taken_at_most_100_ms_early),
        node_test(of_tasks_that_are_due_together_the_most_urgent_one_goes_first),
        node_test(a_paused_queue_claims_nothing_and_costs_nothing),
        node_test(what_is_armed_of_a_queue_that_is_paused_is_handed_back),
        node_test(what_a_claim_brings_after_the_pause_is_handed_back),
        node_test(what_cannot_be_handed_back_now_is_handed_back_later),
        node_test(a_pause_with_an_end_goes_on_at_that_moment),
        node_test(a_queue_never_runs_more_than_its_limit),
        node_test(a_limit_that_is_lowered_takes_back_what_has_not_fired),
        node_test(a_tenant_never_runs_more_than_its_limit_and_nothing_when_disabled),
        node_test(one_tenant_among_several_leaves_room_for_the_others),
        node_test(a_tenant_that_is_alone_has_every_slot),
        node_test(a_class_keeps_the_rest_of_its_tenth_from_lower_ones),
        node_test(a_rate_lets_a_burst_go_and_then_one_at_a_time),
        node_test(what_waits_for_its_rate_takes_no_slot_from_others),
        node_test(a_task_that_waited_for_its_host_in_vain_gives_its_token_back),
        node_test(a_queue_that_goes_on_does_not_meet_its_backlog_all_at_once),
        node_test(a_claim_asks_only_lanes_with_something_due),
        node_test(what_is_heard_of_while_a_claim_is_under_way_is_not_forgotten),
        node_test(classes_share_what_there_is),
        node_test(the_oldest_wait_is_that_of_the_first_that_nobody_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

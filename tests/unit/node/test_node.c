/* A node by hand: a writer whose answers the test decides. tests/sim finds by chance what is frequent; here are cases
 * that it finds seldom. */
#include <stdio.h>

#include "node/tenant_needs.h"
#include "node_world.h"

/* ---- firing ---- */

static void nothing_fires_before_its_millisecond(void **state)
{
    struct world *w = *state;
    one_armed(w);
    assert_true(step_at(w, NOW + 39) == NOW + 40);
    assert_int_equal(w->run_count, 0);
    step_at(w, NOW + 40);
    assert_int_equal(w->run_count, 1);
    assert_true(list_empty(&w->pending)); /* nothing touches the store at the moment of firing */
}

static void an_idle_node_asks_never_to_be_woken(void **state)
{
    struct world *w = *state;
    settle_down(w);
    assert_true(step_at(w, NOW + 1) == INT64_MAX);
    assert_true(list_empty(&w->pending));
}

static void no_more_is_claimed_than_there_are_slots(void **state)
{
    struct world *w = *state;
    for (int i = 1; i <= 5; i++)
        task_due(w, i, NOW);
    settle_down(w);
    assert_int_equal(w->run_count, SLOTS);
    assert_int_equal(node_status(w->node).scheduler.held, SLOTS);
    end_run(w, OUTCOME_OK);
    settle_down(w);
    assert_int_equal(w->run_count, SLOTS);
    for (int i = 0; i < 4; i++) {
        end_run(w, OUTCOME_OK);
        settle_down(w);
    }
    assert_int_equal(node_status(w->node).scheduler.held, 0);
}

static void an_outcome_that_comes_twice_frees_one_slot(void **state)
{
    struct world *w = *state;
    struct error e;
    for (int i = 1; i <= 3; i++)
        task_due(w, i, NOW);
    settle_down(w);
    struct event twice = { .outcome.retry_after_ms = -1 };
    twice.task = settle_facts_of(w->runs[2]->task, &twice.outcome, NULL);
    twice.task.queue = S("default"); /* the task's own text ends with it */
    end_run(w, OUTCOME_OK);
    settle_down(w);
    assert_ok(events_publish(w->events, &twice, 1, &e), &e);
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.held, 2);
    assert_int_equal(metric_count(w->metrics, METRIC_RESULTS_STALE), 1);
}

/* ---- answers that are lost ---- */

static void a_claim_whose_answer_was_lost_is_read_back(void **state)
{
    struct world *w = *state;
    settle_down(w);
    task_due(w, 1, NOW + 40);
    step_at(w, NOW);
    deny(w, OP_CLAIM, true);
    int64_t wake = step_at(w, NOW);
    assert_true(wake > NOW && wake <= NOW + 50);
    step_at(w, wake);
    answer(w, OP_CLAIMED);
    step_at(w, max_of(wake, NOW + 40));
    assert_int_equal(w->run_count, 1);
}

static void a_question_on_its_way_is_not_asked_again_when_the_clock_is_set_back(void **state)
{
    struct world *w = *state;
    settle_down(w);
    task_due(w, 1, NOW + 40);
    step_at(w, NOW);
    deny(w, OP_CLAIM, false);
    step_at(w, step_at(w, NOW));
    step_at(w, NOW - HOUR);
    struct op *asked = next_op(w, OP_CLAIMED);
    while (!list_empty(&w->pending)) {
        struct op *other = container_of(list_pop(&w->pending), struct op, link);
        assert_true(other != asked && other->kind != OP_CLAIMED);
        apply_op(w, other);
        other->done(other);
    }
    apply_op(w, asked);
    asked->done(asked);
    settle_down(w);
}

static void a_settlement_whose_answer_was_lost_still_leads_to_its_retry(void **state)
{
    struct world *w = *state;
    struct task t = one_running(w);
    end_run(w, OUTCOME_FAILED);
    step_at(w, NOW + 40);
    deny(w, OP_SETTLE, true);
    int64_t wake = step_at(w, NOW + 41);
    assert_true(wake <= NOW + 200);
    step_at(w, wake);
    answer(w, OP_SETTLE); /* stale: it was applied before */
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.held, 0);
    int64_t due_ms = NOW + 40 + 500;
    step_at(w, due_ms - 20);
    settle_down(w);
    step_at(w, due_ms);
    assert_int_equal(w->run_count, 1);
    assert_true(w->runs[0]->task->fence == 2 && uuid_eq(w->runs[0]->task->id, t.id));
}

static enum err poll_nothing(struct events *ev, size_t max, int64_t wait_ms, struct arena *a, struct event_list *ret,
                             struct error *e)
{
    (void)ev, (void)max, (void)wait_ms, (void)a, (void)ret;
    return error_set(e, ERR_UNAVAILABLE, "events are down");
}

static void an_outcome_that_could_not_be_polled_is_polled_later(void **state)
{
    struct world *w = *state;
    struct task t = one_running(w);
    const struct events_ops *whole = w->events->ops;
    struct events_ops broken = *whole;
    broken.poll = poll_nothing;
    w->events->ops = &broken;
    end_run(w, OUTCOME_OK);
    int64_t wake = step_at(w, NOW + 40);
    w->events->ops = whole;
    assert_true(wake > NOW + 40 && wake <= NOW + 1000); /* nothing else will happen */
    step_at(w, wake);
    settle_down(w);
    assert_int_equal(state_of(w, t.id), TASK_COMPLETED);
}

static void a_failed_settlement_does_not_wait_for_a_time_that_was_set_back(void **state)
{
    struct world *w = *state;
    struct task t = one_running(w);
    end_run(w, OUTCOME_OK);
    step_at(w, NOW + 40);
    deny(w, OP_SETTLE, false);
    step_at(w, NOW - HOUR);
    step_at(w, NOW - HOUR + 1000);
    settle_down(w);
    assert_int_equal(state_of(w, t.id), TASK_COMPLETED);
}

/* ---- recalls ---- */

static void count_answer(struct recall *r)
{
    (*(int *)r->context)++;
}

static void a_recall_takes_back_what_has_not_fired(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w), replace = t;
    int answers = 0;
    struct recall r = { .running = &t, .replace = &replace, .done = count_answer, .context = &answers };
    replace.state = TASK_PAUSED;
    node_recall(w->node, &r);
    assert_int_equal(answers, 0);
    answer(w, OP_SETTLE);
    assert_int_equal(answers, 1);
    assert_int_equal(r.result, RECALL_DONE);
    assert_int_equal(state_of(w, t.id), TASK_PAUSED);
    step_at(w, NOW + 1000);
    assert_int_equal(w->run_count, 0);
    assert_int_equal(node_status(w->node).scheduler.held, 0);
}

/* It had been taken back for a pause, and the recurring task was cancelled before that was stored. */
static void a_recall_says_what_has_become_of_the_task(void **state)
{
    struct world *w = *state;
    struct task parent = plain_task(7, NOW + HOUR), t = plain_task(1, NOW + 40);
    parent.kind = TASK_RECURRING;
    parent.state = TASK_CANCELLED;
    parent.schedule = (struct schedule){ .interval_ms = HOUR, .end_ms = INT64_MAX };
    add_task(w, parent);
    t.kind = TASK_OCCURRENCE;
    t.parent = parent.id;
    add_task(w, t);
    settle_down(w);
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, 1 << 20);
    t = row_of(w, &t, &arena);
    struct task replace = t;
    int answers = 0;
    struct recall r = { .running = &t, .replace = &replace, .done = count_answer, .context = &answers };
    replace.state = TASK_PAUSED;
    replace.claim = (struct uuid){ 0 };
    node_recall(w->node, &r);
    answer(w, OP_SETTLE);
    assert_int_equal(answers, 1);
    assert_int_equal(r.result, RECALL_DONE);
    assert_int_equal(r.became, TASK_CANCELLED);
    assert_int_equal(replace.state, TASK_PAUSED);
    assert_int_equal(state_of(w, t.id), TASK_CANCELLED);
}

/* ---- hosts ---- */

/* Lanes of so many hosts are in the store already. */
static void a_tenant_with_very_many_busy_hosts_keeps_the_others_in_one_lane(void **state)
{
    struct world *w = *state;
    static char names[TENANT_HOSTS_MAX][32];
    struct lane lanes[TENANT_HOSTS_MAX];
    for (int i = 0; i < TENANT_HOSTS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "h%d.example", i);
        lanes[i] = (struct lane){ .tenant = TENANT, .queue = S("default"), .host = str_from(names[i]) };
    }
    node_know_lanes(w->node, lanes, TENANT_HOSTS_MAX);
    struct task t = one_running(w);
    struct run *run = w->runs[--w->run_count];
    run->done(run, &(struct outcome){ .kind = OUTCOME_HELD, .retry_after_ms = 60000, .aside = S("new.example") });
    settle_down(w);
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, 1 << 20);
    struct task now = row_of(w, &t, &arena);
    assert_int_equal(now.state, TASK_SCHEDULED);
    assert_str(now.aside, TENANT_HOSTS_OTHERS);
}

/* The client was told that the task goes on. */
static void a_recall_that_nobody_waits_for_changes_nothing(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w), replace = t;
    int answers = 0;
    atomic_int gone = RECALL_GIVEN_UP, open = RECALL_OPEN;
    replace.state = TASK_CANCELLED;
    struct recall r = { .running = &t, .replace = &replace, .state = &gone, .done = count_answer, .context = &answers };
    node_recall(w->node, &r);
    settle_down(w);
    assert_int_equal(answers, 1);
    assert_true(r.result != RECALL_DONE);
    struct task again = read_task(w, t.id); /* returned and claimed anew */
    assert_int_equal(again.state, TASK_RUNNING);
    r.state = &open;
    r.running = &again;
    node_recall(w->node, &r);
    assert_int_equal(atomic_load(&open), RECALL_TAKEN); /* from now on it does not fire, however long the store takes */
    settle_down(w);
    assert_int_equal(answers, 2);
    assert_int_equal(r.result, RECALL_DONE);
    assert_int_equal(state_of(w, t.id), TASK_CANCELLED);
}

static void a_recall_whose_answer_was_lost_is_done_and_looked_after(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w), replace = t;
    int answers = 0;
    struct recall r = { .running = &t, .replace = &replace, .done = count_answer, .context = &answers };
    replace.state = TASK_SCHEDULED;
    replace.due_ms = NOW + 5000;
    node_recall(w->node, &r);
    deny(w, OP_SETTLE, true);
    assert_int_equal(answers, 0);
    step_at(w, step_at(w, NOW + 1));
    answer(w, OP_SETTLE);
    assert_int_equal(answers, 1);
    assert_int_equal(r.result, RECALL_DONE);
    settle_down(w);
    int64_t wake = step_at(w, w->now_ms); /* without a nudge: it looks by itself */
    assert_true(wake > NOW + 3500 && wake < NOW + 5000);
    step_at(w, wake);
    settle_down(w);
    step_at(w, NOW + 5000);
    assert_int_equal(w->run_count, 1);
}

static void a_failed_recall_does_not_wait_for_a_time_that_was_set_back(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w), replace = t;
    int answers = 0;
    struct recall r = { .running = &t, .replace = &replace, .done = count_answer, .context = &answers };
    replace.state = TASK_CANCELLED;
    node_recall(w->node, &r);
    deny(w, OP_SETTLE, false);
    step_at(w, NOW - HOUR);
    step_at(w, NOW - HOUR + 1000);
    settle_down(w);
    assert_int_equal(answers, 1);
    assert_int_equal(r.result, RECALL_DONE);
    assert_int_equal(state_of(w, t.id), TASK_CANCELLED);
}

static void a_recall_of_what_runs_aborts_it_if_asked_to(void **state)
{
    struct world *w = *state;
    struct task t = one_running(w), replace = t;
    int answers = 0;
    struct recall r = { .running = &t, .replace = &replace, .done = count_answer, .context = &answers };
    node_recall(w->node, &r);
    assert_int_equal(r.result, RECALL_RUNNING);
    assert_true(r.known);
    r.abort = true;
    node_recall(w->node, &r);
    assert_int_equal(r.result, RECALL_ABORTING);
    assert_int_equal(answers, 2);
    settle_down(w);
    assert_int_equal(state_of(w, t.id), TASK_CANCELLED);
}

static bool has_record(struct world *w, const struct idempotency *i)
{
    cleanup_with(arena_release) struct arena a;
    struct idempotency read;
    struct error e;
    arena_init(&a, 1 << 16);
    return reader_idempotency(w->reader, i->tenant, i->key, &a, &read, &e) == ERR_OK;
}

static void a_recall_keeps_the_record_of_its_request(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w), replace = t;
    struct idempotency record = { .tenant = TENANT, .key = { 1 }, .status = 200, .answer = S("{}") };
    int answers = 0;
    struct recall r = {
        .running = &t, .replace = &replace, .idempotency = &record, .done = count_answer, .context = &answers
    };
    replace.state = TASK_PAUSED;
    node_recall(w->node, &r);
    answer(w, OP_SETTLE);
    assert_true(answers == 1 && r.result == RECALL_DONE);
    assert_true(has_record(w, &record)); /* by the same operation: there is no other */
    assert_true(list_empty(&w->pending));
}

static void a_recall_whose_answer_was_lost_is_answered_by_its_record(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w), replace = t;
    struct idempotency record = { .tenant = TENANT, .key = { 1 }, .status = 200, .answer = S("{}") };
    int answers = 0;
    struct recall r = {
        .running = &t, .replace = &replace, .idempotency = &record, .done = count_answer, .context = &answers
    };
    replace.due_ms = NOW + 5000;
    node_recall(w->node, &r);
    deny(w, OP_SETTLE, true);
    step_at(w, step_at(w, NOW + 1));
    answer(w, OP_SETTLE);
    answer(w, OP_SETTLE); /* returned, which is stale */
    assert_true(answers == 1 && r.result == RECALL_ANSWERED);
    assert_int_equal(node_status(w->node).scheduler.held, 0);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    step_at(w, NOW + 4990);
    settle_down(w);
    step_at(w, NOW + 5000); /* as the change says */
    assert_int_equal(w->run_count, 1);
}

static void a_recall_under_a_key_that_was_used_lets_the_task_go(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w), replace = t;
    struct idempotency record = { .tenant = TENANT, .key = { 1 }, .status = 200, .answer = S("{}") };
    struct op_insert used = { .op = { .kind = OP_INSERT }, .idempotency = &record };
    apply_op(w, &used.op);
    int answers = 0;
    struct recall r = {
        .running = &t, .replace = &replace, .idempotency = &record, .done = count_answer, .context = &answers
    };
    replace.state = TASK_CANCELLED;
    replace.due_ms = NOW + 5000;
    node_recall(w->node, &r);
    answer(w, OP_SETTLE);
    assert_int_equal(answers, 0);
    deny(w, OP_SETTLE, false); /* it is off the wheel, and is returned however long that takes */
    step_at(w, step_at(w, NOW + 1));
    answer(w, OP_SETTLE);
    assert_true(answers == 1 && r.result == RECALL_ANSWERED);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    assert_true(w->runs[0]->task->fence == 2 && w->runs[0]->task->due_ms < NOW + 1000);
}

static void a_recall_of_a_claim_that_has_yet_to_arrive_is_not_known(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = task_due(w, 1, NOW + 40);
    t.fence = 1;
    int answers = 0;
    struct recall r = { .running = &t, .replace = &t, .done = count_answer, .context = &answers };
    step_at(w, NOW);
    struct op *claim = next_op(w, OP_CLAIM);
    apply_op(w, claim);
    node_recall(w->node, &r);
    assert_int_equal(r.result, RECALL_RUNNING);
    assert_false(r.known);
    claim->done(claim);
    settle_down(w);
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

/* The plan may have been made before the run was paused or cancelled. */
static void a_recall_of_what_is_being_planned_keeps_its_call_back(void **state)
{
    struct world *w = *state;
    int answers = 0;
    change_setup = with_planner;
    with_slots(w, SLOTS);
    change_setup = NULL;
    struct task t = plain_task(1, NOW);
    t.links = TASK_PLANNED;
    add_task(w, t);
    settle_down(w);
    t.fence = 1;
    assert_non_null(kept_plan);
    struct recall r = { .running = &t, .replace = &t, .abort = true, .done = count_answer, .context = &answers };
    node_recall(w->node, &r);
    assert_int_equal(answers, 1);
    assert_int_equal(r.result, RECALL_RUNNING);
    assert_false(r.known);
    struct plan *first = take(kept_plan);
    first->done(first); /* PLAN_CALL */
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    assert_int_equal(read_task(w, t.id).fence, 2); /* it was returned, and is claimed once more */
    assert_non_null(kept_plan);
    kept_plan->done(kept_plan);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
}

/* ---- recovery ---- */

static void what_a_dead_process_ran_runs_again_and_spends_no_attempt(void **state)
{
    struct world *w = *state;
    struct task t = one_running(w);
    die_and_start_again(w);
    w->now_ms = NOW + 100;
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    assert_true(uuid_eq(w->runs[0]->task->id, t.id));
    assert_int_equal(w->runs[0]->task->fence, 2);
    assert_int_equal(w->runs[0]->task->attempts, 0);
    assert_int_equal(w->runs[0]->task->losses, 1);
    assert_false(node_status(w->node).recovering);
    assert_int_equal(node_status(w->node).scheduler.held, 1);
}

static void what_a_dead_process_had_not_fired_costs_nothing(void **state)
{
    struct world *w = *state;
    one_armed(w);
    die_and_start_again(w);
    settle_down(w);
    step_at(w, NOW + 40);
    assert_int_equal(w->run_count, 1);
    assert_int_equal(w->runs[0]->task->losses, 0);
}

static void recovery_goes_on_after_failures_and_a_clock_set_back(void **state)
{
    struct world *w = *state;
    struct task t = one_running(w);
    die_and_start_again(w);
    step_at(w, NOW + 100);
    deny(w, OP_ORPHANS, false);
    settle_down(w);
    assert_true(node_status(w->node).recovering);
    step_at(w, NOW + 60 - HOUR);
    step_at(w, NOW + 560 - HOUR); /* half a second, whatever the clock shows */
    answer(w, OP_ORPHANS);
    step_at(w, NOW + 560 - HOUR);
    deny(w, OP_SETTLE, true);
    settle_down(w);
    step_at(w, NOW + HOUR);
    settle_down(w);
    assert_false(node_status(w->node).recovering);
    assert_int_equal(w->run_count, 1);
    assert_true(uuid_eq(w->runs[0]->task->id, t.id));
}

static void what_fired_is_not_forgotten_because_the_clock_was_set_back(void **state)
{
    struct world *w = *state;
    one_running(w);
    set_clock(w, NOW - HOUR);
    die_and_start_again(w);
    settle_down(w);
    step_at(w, NOW + 40);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    assert_int_equal(w->runs[0]->task->losses, 1); /* so that catch-up does not withdraw it as one that never fired */
}

static void a_clock_that_was_set_is_counted_and_time_that_passes_is_not(void **state)
{
    struct world *w = *state;
    settle_down(w);
    step_at(w, NOW + HOUR);
    settle_down(w);
    assert_true(metric_count(w->metrics, METRIC_CLOCK_JUMPS) == 0 && !node_status(w->node).clock_set_ms);
    step_at(w, NOW);
    settle_down(w);
    assert_int_equal(metric_count(w->metrics, METRIC_CLOCK_JUMPS), 1);
    assert_true(node_status(w->node).clock_set_ms == NOW && node_status(w->node).clock_jump_ms == -HOUR);
    w->set_back_ms -= HOUR;
    step_at(w, NOW + HOUR);
    settle_down(w);
    assert_true(metric_count(w->metrics, METRIC_CLOCK_JUMPS) == 2 && node_status(w->node).clock_jump_ms == HOUR);
}

static void at_most_once_is_lost_whatever_the_clock_says(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = task_due(w, 1, NOW);
    t.delivery = DELIVER_AT_MOST_ONCE;
    t.version = 2;
    struct op_put put = { .op = { .kind = OP_PUT }, .task = &t, .version = 1, .state = TASK_SCHEDULED };
    apply_op(w, &put.op);
    node_nudge(w->node, &t, 1);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    set_clock(w, NOW - HOUR);
    die_and_start_again(w);
    settle_down(w);
    assert_int_equal(state_of(w, t.id), TASK_FAILED);
}

/* ---- drain ---- */

static void drained_it_hands_back_what_has_not_fired_and_finishes_what_runs(void **state)
{
    struct world *w = *state;
    one_running(w);
    struct task later = task_due(w, 2, NOW + 80);
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.armed, 1);
    node_drain(w->node);
    settle_down(w);
    assert_int_equal(state_of(w, later.id), TASK_SCHEDULED);
    assert_false(node_is_idle(w->node));
    end_run(w, OUTCOME_OK);
    settle_down(w);
    assert_true(node_is_idle(w->node));
    assert_int_equal(node_status(w->node).scheduler.held, 0);
}

int main(void)
{
#define node_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        node_test(nothing_fires_before_its_millisecond),
        node_test(an_idle_node_asks_never_to_be_woken),
        node_test(no_more_is_claimed_than_there_are_slots),
        node_test(an_outcome_that_comes_twice_frees_one_slot),
        node_test(a_claim_whose_answer_was_lost_is_read_back),
        node_test(a_question_on_its_way_is_not_asked_again_when_the_clock_is_set_back),
        node_test(a_settlement_whose_answer_was_lost_still_leads_to_its_retry),
        node_test(an_outcome_that_could_not_be_polled_is_polled_later),
        node_test(a_failed_settlement_does_not_wait_for_a_time_that_was_set_back),
        node_test(a_recall_takes_back_what_has_not_fired),
        node_test(a_recall_says_what_has_become_of_the_task),
        node_test(a_recall_that_nobody_waits_for_changes_nothing),
        node_test(a_tenant_with_very_many_busy_hosts_keeps_the_others_in_one_lane),
        node_test(a_recall_whose_answer_was_lost_is_done_and_looked_after),
        node_test(a_failed_recall_does_not_wait_for_a_time_that_was_set_back),
        node_test(a_recall_of_what_runs_aborts_it_if_asked_to),
        node_test(a_recall_keeps_the_record_of_its_request),
        node_test(a_recall_whose_answer_was_lost_is_answered_by_its_record),
        node_test(a_recall_under_a_key_that_was_used_lets_the_task_go),
        node_test(a_recall_of_a_claim_that_has_yet_to_arrive_is_not_known),
        node_test(a_recall_of_what_is_being_planned_keeps_its_call_back),
        node_test(what_a_dead_process_ran_runs_again_and_spends_no_attempt),
        node_test(what_a_dead_process_had_not_fired_costs_nothing),
        node_test(recovery_goes_on_after_failures_and_a_clock_set_back),
        node_test(what_fired_is_not_forgotten_because_the_clock_was_set_back),
        node_test(a_clock_that_was_set_is_counted_and_time_that_passes_is_not),
        node_test(at_most_once_is_lost_whatever_the_clock_says),
        node_test(drained_it_hands_back_what_has_not_fired_and_finishes_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

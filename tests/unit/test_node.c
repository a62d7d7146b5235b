/* role/node, by hand: a writer whose answers the test decides. What chance finds is in tests/sim; here stands what it finds
 * seldom. */
#include "role/node.h"

#include <stdlib.h>

#include "adapter/events_memory.h"
#include "adapter/queue_memory.h"
#include "adapter/store_memory.h"
#include "adapter/zoneinfo_system.h"
#include "check.h"

#define NOW 1772532000000LL

enum { TENANT = 1, HOUR = 3600000, SLOTS = 3 };

struct world {
    struct store *store;
    struct reader *reader;
    struct queue *queue;
    struct events *events;
    struct zoneinfo *zones;
    struct metrics *metrics;
    struct writer writer;
    struct runner runner;
    struct list pending; /* ops */
    struct run *runs[8];
    size_t run_count;
    struct node *node;
    int64_t now_ms;
    uint64_t lives;
};

static struct world *the_world; /* of the test that runs: the callbacks' only way to it */

static void submit(struct writer *w, struct op *op)
{
    (void)w;
    list_push(&the_world->pending, &op->link);
}

static void start_run(struct runner *r, struct run *run)
{
    (void)r;
    the_world->runs[the_world->run_count++] = run;
}

static void abort_run(struct runner *r, struct run *run)
{
    (void)r;
    struct outcome o = { .kind = OUTCOME_CANCELLED, .retry_after_ms = -1, .started_us = 1, .completed_us = 1 };
    for (size_t i = 0; i < the_world->run_count; i++)
        if (the_world->runs[i] == run)
            the_world->runs[i] = the_world->runs[--the_world->run_count];
    run->done(run, &o);
}

static const struct writer_ops writer_ops = { submit };
static const struct runner_ops runner_ops = { start_run, abort_run, NULL };

static void start_node(struct world *w)
{
    struct node_setup setup = { .writer = &w->writer,
                                .queue = w->queue = queue_memory_new(),
                                .events = w->events = events_memory_new(),
                                .zones = w->zones,
                                .metrics = w->metrics,
                                .name = S("test"),
                                .seed = ++w->lives,
                                .slots = SLOTS,
                                .spawn_ahead_ms = 10000,
                                .arm_min_ms = 50,
                                .arm_max_ms = 1000,
                                .visibility_ms = 30000 };
    setup.runners[TARGET_NOOP] = &w->runner;
    w->node = node_new(&setup, w->now_ms);
    node_know_lane(w->node, (struct lane){ TENANT, S("default"), CLASS_NORMAL });
}

static int setup(void **state)
{
    struct world *w = the_world = xnew(*w);
    struct error e;
    w->now_ms = NOW;
    w->writer.ops = &writer_ops;
    w->runner.ops = &runner_ops;
    w->store = store_memory_new();
    w->zones = zoneinfo_system_new(NULL);
    w->metrics = metrics_new();
    list_init(&w->pending);
    start_node(w);
    *state = w;
    return store_reader(w->store, &w->reader, &e) ? -1 : 0;
}

/* ---- what the writer does ---- */

static int64_t step_at(struct world *w, int64_t now_ms)
{
    w->now_ms = now_ms;
    return node_step(w->node, now_ms * 1000);
}

static struct op *next_op(struct world *w, enum op_kind kind)
{
    list_each (&w->pending, link) {
        struct op *op = container_of(link, struct op, link);
        if (op->kind == kind) {
            list_remove(link);
            return op;
        }
    }
    fail_msg("no operation %d was submitted", kind);
    abort();
}

static void apply_op(struct world *w, struct op *op)
{
    struct error e;
    assert_ok(store_apply(w->store, &op, 1, &e), &e);
}

static void answer(struct world *w, enum op_kind kind)
{
    struct op *op = next_op(w, kind);
    apply_op(w, op);
    op->done(op);
}

static void deny(struct world *w, enum op_kind kind, bool applied)
{
    struct op *op = next_op(w, kind);
    if (applied)
        apply_op(w, op);
    op->rc = error_set(&op->error, ERR_UNAVAILABLE, applied ? "the answer was lost" : "down");
    op->done(op);
}

/* All that is asked is answered until nothing more is. */
static void settle_down(struct world *w)
{
    for (int i = 0; i < 50; i++) {
        step_at(w, w->now_ms);
        if (list_empty(&w->pending))
            return;
        struct op *op = container_of(list_pop(&w->pending), struct op, link);
        apply_op(w, op);
        op->done(op);
    }
    fail_msg("it never comes to rest");
}

static int teardown(void **state)
{
    struct world *w = *state;
    node_drain(w->node);
    node_give_up(w->node);
    settle_down(w);
    assert_true(node_is_idle(w->node));
    assert_int_equal(node_status(w->node).scheduler.held, 0);
    node_free(w->node);
    queue_free(w->queue);
    events_free(w->events);
    reader_free(w->reader);
    store_free(w->store);
    zoneinfo_free(w->zones);
    metrics_free(w->metrics);
    free(w);
    return 0;
}

/* ---- tasks ---- */

static struct task task_due(struct world *w, int n, int64_t due_ms)
{
    struct task t = { .id = { { (uint8_t)n, 1 } },
                      .tenant = TENANT,
                      .state = TASK_SCHEDULED,
                      .due_ms = due_ms,
                      .scheduled_ms = due_ms,
                      .version = 1,
                      .priority = PRIORITY_DEFAULT,
                      .queue = S("default"),
                      .timeout_ms = 1000,
                      .target = TARGET_NOOP,
                      .retry = { .max_attempts = 3, .base_delay_ms = 500, .max_delay_ms = 500, .jitter = JITTER_NONE },
                      .schedule.end_ms = INT64_MAX,
                      .created_ms = NOW };
    struct op_insert op = { .op = { .kind = OP_INSERT }, .tasks = &t, .count = 1 };
    apply_op(w, &op.op);
    node_nudge(w->node, &t, 1, w->now_ms);
    return t;
}

static enum task_state state_of(struct world *w, struct uuid id)
{
    cleanup_with(arena_release) struct arena a;
    struct task t;
    struct error e;
    arena_init(&a, 1 << 16);
    assert_ok(reader_get(w->reader, TENANT, id, &a, &t, &e), &e);
    return t.state;
}

static void end_run(struct world *w, enum outcome_kind kind)
{
    struct outcome o = { .kind = kind,
                         .failure = kind == OUTCOME_FAILED ? FAILURE_TIMEOUT : FAILURE_NONE,
                         .retry_after_ms = -1,
                         .started_us = w->now_ms * 1000,
                         .completed_us = w->now_ms * 1000 };
    assert_true(w->run_count > 0);
    struct run *run = w->runs[--w->run_count];
    run->done(run, &o);
}

/* The beginning of every test: nothing to recover, nothing recurring, one task claimed and waiting for NOW + 40. */
static struct task one_armed(struct world *w)
{
    struct task t = task_due(w, 1, NOW + 40);
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.armed, 1);
    t.fence = 1;
    return t;
}

static struct task one_running(struct world *w)
{
    struct task t = one_armed(w);
    step_at(w, NOW + 40);
    assert_int_equal(w->run_count, 1);
    return t;
}

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
    struct event twice = { .task = settle_facts_of(w->runs[2]->task), .outcome.retry_after_ms = -1 };
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

static void a_failed_settlement_does_not_wait_for_a_time_that_was_set_back(void **state)
{
    struct world *w = *state;
    struct task t = one_running(w);
    end_run(w, OUTCOME_OK);
    step_at(w, NOW + 40);
    deny(w, OP_SETTLE, false);
    step_at(w, NOW - HOUR);
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
    struct recall r = { .id = t.id, .fence = 1, .replace = &replace, .done = count_answer, .context = &answers };
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

static void a_recall_whose_answer_was_lost_is_done_and_looked_after(void **state)
{
    struct world *w = *state;
    struct task t = one_armed(w), replace = t;
    int answers = 0;
    struct recall r = { .id = t.id, .fence = 1, .replace = &replace, .done = count_answer, .context = &answers };
    replace.state = TASK_SCHEDULED;
    replace.due_ms = NOW + 5000;
    node_recall(w->node, &r);
    deny(w, OP_SETTLE, true);
    assert_int_equal(answers, 0);
    step_at(w, step_at(w, NOW + 1));
    answer(w, OP_SETTLE);
    assert_int_equal(answers, 1);
    assert_int_equal(r.result, RECALL_DONE);
    int64_t wake = step_at(w, w->now_ms); /* nobody nudges, it looks by itself */
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
    struct recall r = { .id = t.id, .fence = 1, .replace = &replace, .done = count_answer, .context = &answers };
    replace.state = TASK_CANCELLED;
    node_recall(w->node, &r);
    deny(w, OP_SETTLE, false);
    step_at(w, NOW - HOUR);
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
    struct recall r = { .id = t.id, .fence = 1, .replace = &replace, .done = count_answer, .context = &answers };
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

static void a_recall_of_a_claim_that_has_yet_to_arrive_is_not_known(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task t = task_due(w, 1, NOW + 40);
    int answers = 0;
    struct recall r = { .id = t.id, .fence = 1, .replace = &t, .done = count_answer, .context = &answers };
    step_at(w, NOW);
    struct op *claim = next_op(w, OP_CLAIM);
    apply_op(w, claim);
    node_recall(w->node, &r);
    assert_int_equal(r.result, RECALL_RUNNING);
    assert_false(r.known);
    claim->done(claim);
    settle_down(w);
}

/* ---- recovery ---- */

/* The process dies: what it had is gone, the store stays. */
static void die_and_start_again(struct world *w)
{
    struct store *store = w->store;
    w->store = store_memory_new(); /* a place where the dying node can do no harm */
    node_drain(w->node);
    node_give_up(w->node);
    settle_down(w);
    node_free(w->node);
    queue_free(w->queue);
    events_free(w->events);
    store_free(w->store);
    w->store = store;
    start_node(w);
}

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
    deny(w, OP_HELD, false);
    settle_down(w);
    assert_true(node_status(w->node).recovering);
    step_at(w, NOW + 60 - HOUR); /* half a second from then is not what it waits for */
    answer(w, OP_HELD);
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
    w->now_ms = NOW - HOUR;
    die_and_start_again(w);
    settle_down(w);
    step_at(w, NOW + 40);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    assert_int_equal(w->runs[0]->task->losses, 1); /* so that nobody withdraws it as one that never fired */
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
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    w->now_ms = NOW - HOUR;
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
        node_test(a_failed_settlement_does_not_wait_for_a_time_that_was_set_back),
        node_test(a_recall_takes_back_what_has_not_fired),
        node_test(a_recall_whose_answer_was_lost_is_done_and_looked_after),
        node_test(a_failed_recall_does_not_wait_for_a_time_that_was_set_back),
        node_test(a_recall_of_what_runs_aborts_it_if_asked_to),
        node_test(a_recall_of_a_claim_that_has_yet_to_arrive_is_not_known),
        node_test(what_a_dead_process_ran_runs_again_and_spends_no_attempt),
        node_test(what_a_dead_process_had_not_fired_costs_nothing),
        node_test(recovery_goes_on_after_failures_and_a_clock_set_back),
        node_test(what_fired_is_not_forgotten_because_the_clock_was_set_back),
        node_test(at_most_once_is_lost_whatever_the_clock_says),
        node_test(drained_it_hands_back_what_has_not_fired_and_finishes_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

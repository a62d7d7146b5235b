/* A node whose queue and events are shared: what it hands over, gets back and finds lost, and what it does while they
 * are down. */
#include "fleet_node_world.h"
#include "node/fleet/held_audit.h"

static void a_claim_is_handed_over_when_the_queue_has_all_of_it(void **state)
{
    struct world *w = *state;
    task_due(w, 1, NOW);
    task_due(w, 2, NOW + 40);
    rest(w);
    assert_int_equal(queue_depth(hand.queue), 1);
    assert_int_equal(handed(w), 0);
    rest_at(w, NOW + 40);
    assert_int_equal(queue_depth(hand.queue), 2);
    assert_int_equal(handed(w), 2);
    assert_int_equal(node_status(w->node).scheduler.held, 2);
    assert_int_equal(w->run_count, 0);
}

static void an_outcome_that_a_worker_published_is_settled(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    struct taken taken = take_all(w, &a);
    assert_int_equal(taken.tasks.n, 1);
    publish_outcome(&taken.tasks.v[0], OUTCOME_OK);
    ack(&taken.tasks.v[0]);
    rest(w);
    assert_int_equal(row_of(w, &t, &a).state, TASK_COMPLETED);
    assert_int_equal(node_status(w->node).scheduler.held, 0);
    assert_int_equal(events_depth(hand.events), 0);
    assert_int_equal(told_count, 0);
}

static void others_are_told_of_what_they_hold(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    struct taken taken = take_all(w, &a);
    struct fenced_id name = { t.id, 1 };
    node_on_settled_elsewhere(w->node, &name, 1); /* as if it were another node's */
    assert_int_equal(node_status(w->node).scheduler.held, 0);
    publish_outcome(&taken.tasks.v[0], OUTCOME_OK);
    ack(&taken.tasks.v[0]);
    rest(w);
    assert_int_equal(told_count, 1);
    assert_true(uuid_eq(told[0].id, t.id));
}

static void what_others_settled_and_did_not_tell_is_let_go_of_after_a_while(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    task_due(w, 1, NOW);
    rest(w);
    struct taken taken = take_all(w, &a);
    struct settlement v = { .id = taken.tasks.v[0].id,
                            .fence = 1,
                            .verdict = { .next = TASK_COMPLETED, .attempts = 1 } };
    struct op_settle op = { .op = { .kind = OP_SETTLE }, .v = &v, .n = 1, .now_ms = NOW };
    arena_init(&op.op.arena, 4096);
    apply_op(w, &op.op);
    arena_release(&op.op.arena);
    ack(&taken.tasks.v[0]);
    rest_at(w, NOW + 1000);
    assert_int_equal(node_status(w->node).scheduler.held, 1);
    rest_at(w, NOW + HELD_AUDIT_MS + 1100);
    assert_int_equal(node_status(w->node).scheduler.held, 0);
}

static void what_lapses_is_lost_and_claimed_anew(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    rest(w);
    take_all(w, &a);
    rest_at(w, NOW + 3900);
    assert_int_equal(row_of(w, &t, &a).fence, 1);
    rest_at(w, NOW + 4600);
    rest_at(w, NOW + 4700);
    struct task row = row_of(w, &t, &a);
    assert_int_equal(row.losses, 1);
    assert_int_equal(row.fence, 2);
    assert_int_equal(queue_depth(hand.queue), 1);
    struct fenced_id id = { t.id, 1 };
    struct error e;
    bool known;
    assert_ok(queue_known(hand.queue, &id, NULL, 1, &known, &e), &e);
    assert_false(known); /* acknowledged after the commit */
}

static void what_the_queue_has_forgotten_is_returned_once_the_events_before_have_passed(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW), done = task_due(w, 2, NOW);
    rest(w);
    struct taken taken = take_all(w, &a);
    publish_outcome(&taken.tasks.v[uuid_eq(taken.tasks.v[0].id, done.id) ? 0 : 1], OUTCOME_OK);
    queue_free(hand.queue);
    hand.queue = queue_memory_new();
    hand.epoch++;
    w->now_ms = hand.now_ms = NOW + 1000;
    step_at(w, w->now_ms);
    for (int i = 0; i < 20; i++) { /* everything except published events */
        carry_all(&hand);
        while (!list_empty(&w->pending)) {
            struct op *op = container_of(list_pop(&w->pending), struct op, link);
            apply_op(w, op);
            op->done(op);
        }
        step_at(w, w->now_ms += 200);
        hand.now_ms = w->now_ms;
    }
    assert_int_equal(row_of(w, &t, &a).fence, 1); /* an event has not been applied */
    rest_at(w, w->now_ms + 100);
    rest_at(w, w->now_ms + 100);
    assert_int_equal(row_of(w, &done, &a).state, TASK_COMPLETED);
    assert_int_equal(row_of(w, &t, &a).fence, 2);
    assert_int_equal(row_of(w, &t, &a).losses, 0);
    assert_int_equal(queue_depth(hand.queue), 1);
}

static void what_may_be_in_the_queue_and_must_not_run_twice_is_lost(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task once = plain_task(1, NOW);
    once.delivery = DELIVER_AT_MOST_ONCE;
    add_task(w, once);
    step_at(w, NOW);
    answer(w, OP_CLAIM);
    step_at(w, NOW);
    refuse(&hand, IO_PUSH, true);
    rest_at(w, NOW + 300); /* the queue, asked, does not know it */
    assert_int_equal(row_of(w, &once, &a).state, TASK_FAILED);
    assert_int_equal(queue_depth(hand.queue), 0);
}

static void what_may_be_in_the_queue_and_is_there_is_left_there(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    step_at(w, NOW);
    answer(w, OP_CLAIM);
    step_at(w, NOW);
    struct task arrived = row_of(w, &t, &a);
    struct error e;
    struct pushed pushed;
    assert_ok(queue_push(hand.queue, &arrived, 1, 0, &pushed, &e), &e);
    refuse(&hand, IO_PUSH, true);
    rest_at(w, NOW + 300);
    assert_int_equal(queue_depth(hand.queue), 1);
    assert_int_equal(row_of(w, &t, &a).fence, 1);
    assert_int_equal(handed(w), 1);
}

/* It may have run meanwhile: then it is over, and the next run must have a higher fence. */
static void what_may_have_been_in_the_queue_and_is_not_is_pushed_under_another_fence(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task t = task_due(w, 1, NOW);
    step_at(w, NOW);
    answer(w, OP_CLAIM);
    step_at(w, NOW);
    refuse(&hand, IO_PUSH, true);
    rest_at(w, NOW + 300);
    rest_at(w, NOW + 310);
    assert_int_equal(row_of(w, &t, &a).fence, 2);
    assert_int_equal(row_of(w, &t, &a).losses, 0);
    assert_int_equal(queue_depth(hand.queue), 1);
}

static void what_may_be_in_a_queue_that_can_not_tell_is_claimed_anew(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    hand.base.push_again = false;
    struct task t = task_due(w, 1, NOW);
    step_at(w, NOW);
    answer(w, OP_CLAIM);
    step_at(w, NOW);
    refuse(&hand, IO_PUSH, true);
    rest(w);
    rest_at(w, NOW + 10);
    assert_int_equal(row_of(w, &t, &a).fence, 2);
    assert_int_equal(row_of(w, &t, &a).losses, 0);
    assert_int_equal(queue_depth(hand.queue), 1);
}

/* Who finds it under a claim that was handed over takes it for one that the queue has. */
static void a_claim_is_not_handed_over_before_the_end_of_what_the_queue_did_not_get_is_stored(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    hand.base.push_again = false;
    struct task doubtful = task_due(w, 1, NOW), pushed = task_due(w, 2, NOW + 40);
    step_at(w, NOW);
    answer(w, OP_CLAIM);
    step_at(w, NOW);
    refuse(&hand, IO_PUSH, true);
    assert_true(rest_until(w, OP_SETTLE));
    struct op *settle = next_op(w, OP_SETTLE); /* the store takes its time */
    rest_at(w, NOW + 40);
    assert_int_equal(queue_depth(hand.queue), 1);
    assert_int_equal(row_of(w, &doubtful, &a).fence, 1);
    assert_int_equal(handed(w), 0);
    answer_op(w, settle);
    rest(w);
    assert_int_equal(row_of(w, &pushed, &a).fence, 1);
    assert_int_equal(row_of(w, &doubtful, &a).fence, 2);
    assert_int_equal(handed(w), 2);
}

/* One epoch tells for a whole claim whether the queue has it. */
static void what_a_queue_that_can_not_tell_did_not_get_of_a_claim_before_it_was_wiped_is_claimed_anew(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    hand.base.push_again = false;
    struct task before = task_due(w, 1, NOW), after = task_due(w, 2, NOW + 40);
    rest(w);
    assert_int_equal(queue_depth(hand.queue), 1);
    queue_free(hand.queue);
    hand.queue = queue_memory_new();
    hand.epoch++;
    rest_at(w, NOW + 40);
    rest_at(w, NOW + 50);
    assert_int_equal(queue_depth(hand.queue), 1);
    assert_int_equal(row_of(w, &before, &a).fence, 1);
    assert_true(handed_in(w, &before) == hand.epoch - 1);
    assert_int_equal(row_of(w, &after, &a).fence, 2);
    assert_int_equal(row_of(w, &after, &a).losses, 0);
    assert_true(handed_in(w, &after) == hand.epoch);
    for (int i = 1; i <= 40; i++)
        rest_at(w, NOW + 50 + 100 * i);
    assert_int_equal(queue_depth(hand.queue), 2);
    assert_int_equal(row_of(w, &before, &a).fence, 2);
    assert_int_equal(row_of(w, &after, &a).fence, 2); /* nothing was wrong with it */
    assert_true(handed_in(w, &before) == hand.epoch);
}

static void where_the_queue_can_not_tell_the_first_push_tells_which_epoch_the_others_are_for(void **state)
{
    struct world *w = *state;
    hand.base.push_again = false;
    task_due(w, 1, NOW);
    task_due(w, 2, NOW + 10);
    step_at(w, NOW);
    answer(w, OP_CLAIM);
    step_at(w, NOW);
    struct io_request *first = next_io_request(&hand, IO_PUSH);
    assert_true(container_of(first, struct io_push, io_request)->epoch == 0);
    step_at(w, NOW + 10);
    assert_null(find_io_request(&hand, IO_PUSH));
    run_io_request(&hand, first);
    first->done(first);
    step_at(w, NOW + 10);
    struct io_request *second = find_io_request(&hand, IO_PUSH);
    assert_non_null(second);
    assert_true(container_of(second, struct io_push, io_request)->epoch == hand.epoch);
    rest_at(w, NOW + 10);
    assert_int_equal(handed(w), 2);
}

/* Such a queue can be asked about each task. */
static void a_queue_that_can_tell_gets_the_rest_of_a_claim_though_it_was_wiped(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task before = task_due(w, 1, NOW), after = task_due(w, 2, NOW + 40);
    rest(w);
    queue_free(hand.queue);
    hand.queue = queue_memory_new();
    hand.epoch++;
    for (int i = 0; i <= 40; i++)
        rest_at(w, NOW + 40 + 300 * i);
    assert_int_equal(row_of(w, &before, &a).fence, 2);
    assert_int_equal(row_of(w, &after, &a).fence, 1);
    assert_int_equal(queue_depth(hand.queue), 2);
}

static void while_the_queue_is_down_the_node_runs_what_is_due_itself(void **state)
{
    struct world *w = *state;
    struct task t = task_due(w, 1, NOW);
    step_at(w, NOW);
    answer(w, OP_CLAIM);
    step_at(w, NOW);
    for (int ms = 0; ms <= 1200; ms += 200) {
        if (find_io_request(&hand, IO_PUSH))
            refuse(&hand, IO_PUSH, false);
        if (find_io_request(&hand, IO_STATS))
            refuse(&hand, IO_STATS, false);
        step_at(w, NOW + ms + 200);
    }
    assert_int_equal(w->run_count, 1);
    assert_true(is_running(w, &t));
    assert_true(node_status(w->node).scheduler.falls_back);
    assert_int_equal(handed(w), 0);
    end_run(w, OUTCOME_OK);
    rest_at(w, NOW + 2000);
    task_due(w, 2, NOW + 2000);
    rest_at(w, NOW + 2600); /* the state was read: the next push goes there again */
    assert_int_equal(queue_depth(hand.queue), 1);
    assert_false(node_status(w->node).scheduler.falls_back);
}

/* Store operations are answered; requests to the queue fail, or get no answer at all. */
static void the_queue_is_down_until(struct world *w, int64_t end_ms)
{
    const enum io_kind kinds[] = { IO_PUSH, IO_TIMED_OUT, IO_KNOWN };
    while (w->now_ms < end_ms) {
        for (size_t i = 0; i < array_count(kinds); i++)
            while (find_io_request(&hand, kinds[i]))
                refuse(&hand, kinds[i], false);
        for (; !list_empty(&w->pending); step_at(w, w->now_ms))
            answer_op(w, first_op(w));
        step_at(w, w->now_ms + 20);
    }
}

/* Otherwise reconcile would not find it if the queue came back empty. */
static void what_the_queue_had_before_it_went_down_is_handed_over_and_the_rest_of_the_claim_runs_apart(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task there = task_due(w, 1, NOW), here = task_due(w, 2, NOW + 40);
    rest(w);
    assert_int_equal(queue_depth(hand.queue), 1);
    assert_int_equal(handed(w), 0);
    the_queue_is_down_until(w, NOW + 1500);
    assert_int_equal(handed(w), 1);
    assert_int_equal(row_of(w, &there, &a).fence, 1);
    assert_int_equal(w->run_count, 1);
    assert_true(is_running(w, &here));
    assert_int_equal(row_of(w, &here, &a).fence, 2);
    end_run(w, OUTCOME_OK);
}

static void what_is_left_of_a_claim_when_the_queue_comes_back_is_pushed_under_another(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    task_due(w, 1, NOW);
    step_at(w, NOW);
    answer(w, OP_CLAIM);
    step_at(w, NOW);
    the_queue_is_down_until(w, NOW + 1500);
    assert_int_equal(w->run_count, 1);
    end_run(w, OUTCOME_OK);
    struct task here = task_due(w, 2, NOW + 1500), there = task_due(w, 3, NOW + 1540);
    the_queue_is_down_until(w, NOW + 1520);
    assert_int_equal(w->run_count, 1);
    assert_true(is_running(w, &here));
    assert_true(uuid_eq(row_of(w, &there, &a).claim, row_of(w, &here, &a).claim));
    rest_at(w, NOW + 1539); /* the state is read */
    rest_at(w, NOW + 1540);
    assert_int_equal(queue_depth(hand.queue), 1);
    assert_int_equal(row_of(w, &there, &a).fence, 2);
    assert_int_equal(handed(w), 1);
    end_run(w, OUTCOME_OK);
}

static void a_node_that_goes_leaves_what_the_queue_has(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    struct task there = task_due(w, 1, NOW), armed = task_due(w, 2, NOW + 1000);
    rest(w);
    rest_at(w, NOW + 960);
    node_drain(w->node);
    rest(w);
    assert_int_equal(row_of(w, &there, &a).state, TASK_RUNNING);
    assert_int_equal(row_of(w, &armed, &a).state, TASK_SCHEDULED);
    assert_int_equal(queue_depth(hand.queue), 1);
    assert_int_equal(held_by_the_dead(w), 0);
}

/* ---- pools ---- */

static size_t held(const struct world *w)
{
    return node_status(w->node).scheduler.held;
}

static struct task labelled_task(int n, const char *label)
{
    struct task t = plain_task(n, NOW);
    t.requires = str_from(label);
    return t;
}

static struct worker_kind with_labels(const char *labels)
{
    struct worker_kind k = WORKER_KIND_UNKNOWN;
    k.labels = str_from(labels);
    return k;
}

static int setup_empty_fleet(void **state)
{
    return setup_fleet_without_workers(state, in_a_fleet);
}

static void without_workers_nothing_is_claimed(void **state)
{
    struct world *w = *state;
    struct explanation why;
    struct task t = add_task(w, plain_task(1, NOW));
    rest(w);
    assert_int_equal(held(w), 0);
    explain_row(w, &t, &why);
    assert_int_equal(why.gate, EXPLAIN_NO_WORKER);
    assert_string_equal(why.steps[0].text, "there is no worker: it waits until one joins that can run it");
}

static void what_workers_say_of_themselves_gives_room(void **state)
{
    struct world *w = *state;
    for (int i = 1; i <= 140; i++)
        add_task(w, plain_task(i, NOW));
    rest(w);
    report_worker(w, 3, with_labels(""), 50, false);
    assert_int_equal(held(w), 75 - 7); /* half of the slots in addition; a tenth is kept for the high class */
    report_worker(w, 4, with_labels("eu"), 50, false);
    assert_int_equal(held(w), 140 - 5); /* of 150 places one tenth is kept */
    report_worker(w, 4, with_labels("eu"), 50, true);
    assert_int_equal(node_status(w->node).scheduler.room, 75);
}

static void tasks_that_no_worker_can_run_stay_in_the_store(void **state)
{
    struct world *w = *state;
    struct explanation why;
    report_worker(w, 3, with_labels("eu"), 2, false);
    struct task first = add_task(w, labelled_task(1, "gpu"));
    for (int i = 2; i <= 40; i++)
        add_task(w, labelled_task(i, "gpu"));
    rest(w);
    assert_int_equal(held(w), 0);
    explain_row(w, &first, &why);
    assert_int_equal(why.gate, EXPLAIN_NO_WORKER);
    assert_string_equal(why.steps[0].text, "no worker has the label gpu: it waits until one joins that can run it");
    struct task urgent = plain_task(41, NOW);
    urgent.priority = 9;
    urgent = add_task(w, urgent);
    rest(w);
    assert_int_equal(held(w), 1);
    assert_int_equal(queue_depth(hand.queue), 1);
    report_worker(w, 4, with_labels("gpu"), 4, false);
    assert_int_equal(held(w), 1 + 6);
}

static void a_worker_that_leaves_takes_its_pool_along(void **state)
{
    struct world *w = *state;
    struct explanation why;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    report_worker(w, 3, with_labels(""), 4, false);
    report_worker(w, 4, with_labels("gpu"), 1, false);
    struct task there = add_task(w, labelled_task(1, "gpu"));
    rest(w);
    assert_int_equal(held(w), 1);
    report_worker(w, 4, with_labels("gpu"), 1, true);
    struct task later = add_task(w, labelled_task(2, "gpu"));
    rest(w);
    assert_int_equal(held(w), 1);
    assert_int_equal(row_of(w, &later, &a).state, TASK_SCHEDULED);
    there = row_of(w, &there, &a);
    explain_row(w, &there, &why);
    assert_int_equal(why.gate, EXPLAIN_NO_WORKER);
    assert_string_equal(why.steps[0].text,
                        "it has fired, and no worker has the label gpu: unless it runs, it waits in the queue");
}

static void a_task_that_waits_in_the_queue_for_a_worker_is_not_said_to_run(void **state)
{
    struct world *w = *state;
    struct explanation why;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    report_worker(w, 3, with_labels(""), 2, false);
    struct task t[3];
    for (int i = 0; i < 2; i++)
        t[i] = add_task(w, plain_task(1 + i, NOW));
    rest(w);
    struct task row = row_of(w, &t[1], &a);
    explain_row(w, &row, &why);
    assert_int_equal(why.gate, EXPLAIN_RUNNING);
    assert_non_null(strstr(why.text, "a worker runs it, or will take it from the fleet's queue")); /* it is not known */
    t[2] = add_task(w, plain_task(3, NOW));
    rest(w);
    assert_int_equal(held(w), 3);
    row = row_of(w, &t[2], &a);
    explain_row(w, &row, &why);
    assert_int_equal(why.gate, EXPLAIN_FLEET_QUEUE);
    assert_int_equal(why.outcome, EXPLAIN_WILL_UNKNOWN);
    assert_non_null(strstr(why.text, "the 1 worker that can run it has 2 slots for this node, which has given them 3"));
}

static void while_the_queue_is_down_only_this_process_runs_tasks(void **state)
{
    struct world *w = *state;
    struct explanation why;
    report_worker(w, 3, with_labels("gpu"), 4, false);
    struct task plain = add_task(w, plain_task(1, NOW));
    the_queue_is_down_until(w, NOW + 1500);
    assert_true(is_running(w, &plain));
    struct task gpu = add_task(w, labelled_task(2, "gpu"));
    the_queue_is_down_until(w, NOW + 1600);
    assert_int_equal(held(w), 1);
    explain_row(w, &gpu, &why);
    assert_string_equal(why.steps[0].text, "no worker has the label gpu: it waits until one joins that can run it");
    end_run(w, OUTCOME_OK);
    rest_at(w, NOW + 2200);
    assert_int_equal(queue_depth(hand.queue), 1); /* the queue is back, and so are its workers */
}

/* ---- breakers ---- */

static struct task call_to_a(int n)
{
    struct task t = plain_task(n, NOW);
    t.target = TARGET_HTTP;
    t.target_config = S("{\"url\":\"https://a.example/\"}");
    t.retry.max_attempts = 1;
    return t;
}

/* The outcome of a call to a.example, with what the worker's breaker says. */
static void publish_news(struct world *w, const struct task *t, enum outcome_kind kind, enum breaker_news_kind news)
{
    struct event ev = { .outcome = { .kind = kind,
                                     .failure = kind == OUTCOME_OK ? FAILURE_NONE : FAILURE_CONNECT,
                                     .retry_after_ms = -1,
                                     .started_us = w->now_ms * 1000,
                                     .completed_us = w->now_ms * 1000 },
                        .host = S("a.example"),
                        .breakers.host = { .kind = news, .until_ms = w->now_ms + 30000, .counts = { 10, 10 } } };
    struct error e;
    ev.task = settle_facts_of(t, &ev.outcome, NULL);
    assert_ok(events_publish(hand.events, &ev, 1, &e), &e);
    rest(w);
}

/* The only task that the queue has; its id has this number. */
static struct task the_next(struct world *w, struct arena *a, int n)
{
    struct taken taken = take_all(w, a);
    assert_int_equal(taken.tasks.n, 1);
    assert_int_equal(taken.tasks.v[0].id.b[1], n);
    return taken.tasks.v[0];
}

static void open_by_the_first_call(struct world *w, struct arena *a)
{
    add_task(w, call_to_a(1));
    rest(w);
    struct task first = the_next(w, a, 1);
    publish_news(w, &first, OUTCOME_FAILED, BREAKER_OPENED);
}

static void what_a_worker_says_of_a_host_holds_its_tasks_before_another_gets_them(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    open_by_the_first_call(w, &a);
    add_task(w, call_to_a(2));
    add_task(w, call_to_a(3));
    rest(w);
    assert_int_equal(queue_depth(hand.queue), 0);
    rest_at(w, NOW + 29999);
    assert_int_equal(queue_depth(hand.queue), 0);
    rest_at(w, NOW + 30000);
    struct task trial = the_next(w, &a, 2);
    assert_str(trial.aside, "a.example");
    publish_news(w, &trial, OUTCOME_FAILED, BREAKER_TRIAL_FAILED); /* of a worker whose own breaker is closed */
    rest_at(w, NOW + 59999);
    assert_int_equal(queue_depth(hand.queue), 0);
    rest_at(w, NOW + 60000);
    trial = the_next(w, &a, 3);
    publish_news(w, &trial, OUTCOME_OK, BREAKER_RECOVERED);
    add_task(w, call_to_a(4));
    add_task(w, call_to_a(5));
    rest(w);
    assert_int_equal(queue_depth(hand.queue), 2);
}

static void a_due_task_is_the_trial_if_none_was_put_aside(void **state)
{
    struct world *w = *state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    open_by_the_first_call(w, &a);
    rest_at(w, NOW + 40000);
    add_task(w, call_to_a(2));
    add_task(w, call_to_a(3));
    rest(w);
    struct task trial = the_next(w, &a, 2);
    assert_str(trial.aside, "a.example"); /* so that its worker tells the result */
    publish_news(w, &trial, OUTCOME_OK, BREAKER_RECOVERED);
    assert_int_equal(queue_depth(hand.queue), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup_fleet, teardown_fleet)
    const struct CMUnitTest tests[] = {
        T(a_claim_is_handed_over_when_the_queue_has_all_of_it),
        T(an_outcome_that_a_worker_published_is_settled),
        T(others_are_told_of_what_they_hold),
        T(what_others_settled_and_did_not_tell_is_let_go_of_after_a_while),
        T(what_lapses_is_lost_and_claimed_anew),
        T(what_the_queue_has_forgotten_is_returned_once_the_events_before_have_passed),
        T(what_may_be_in_the_queue_and_must_not_run_twice_is_lost),
        T(what_may_be_in_the_queue_and_is_there_is_left_there),
        T(what_may_have_been_in_the_queue_and_is_not_is_pushed_under_another_fence),
        T(what_may_be_in_a_queue_that_can_not_tell_is_claimed_anew),
        T(what_a_queue_that_can_not_tell_did_not_get_of_a_claim_before_it_was_wiped_is_claimed_anew),
        T(where_the_queue_can_not_tell_the_first_push_tells_which_epoch_the_others_are_for),
        T(a_queue_that_can_tell_gets_the_rest_of_a_claim_though_it_was_wiped),
        T(while_the_queue_is_down_the_node_runs_what_is_due_itself),
        T(a_claim_is_not_handed_over_before_the_end_of_what_the_queue_did_not_get_is_stored),
        T(what_the_queue_had_before_it_went_down_is_handed_over_and_the_rest_of_the_claim_runs_apart),
        T(what_is_left_of_a_claim_when_the_queue_comes_back_is_pushed_under_another),
        T(a_node_that_goes_leaves_what_the_queue_has),
#define E(name) cmocka_unit_test_setup_teardown(name, setup_empty_fleet, teardown_fleet)
        E(without_workers_nothing_is_claimed),
        T(what_a_worker_says_of_a_host_holds_its_tasks_before_another_gets_them),
        T(a_due_task_is_the_trial_if_none_was_put_aside),
        E(what_workers_say_of_themselves_gives_room),
        E(tasks_that_no_worker_can_run_stay_in_the_store),
        E(a_worker_that_leaves_takes_its_pool_along),
        E(a_task_that_waits_in_the_queue_for_a_worker_is_not_said_to_run),
        E(while_the_queue_is_down_only_this_process_runs_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

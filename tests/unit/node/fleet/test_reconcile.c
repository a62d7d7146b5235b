/* Tasks that a queue has forgotten: found, and settled only when no worker can have them any more. */
#include "both_at.h"
#include "node/fleet/reconcile.h"

#include "manual_async_io.h"
#include "manual_writer.h"
#include "node/fleet/event_barrier.h"

#define NOW 1772532000000LL

static struct manual_writer manual;
static struct manual_async_io hand;
static struct reconcile *role;
static bool leads;
static int answers;
static int64_t now_ms;

static bool is_leader(void *context)
{
    (void)context;
    return leads;
}

static void queue_answers(void *context)
{
    (void)context;
    answers++;
}

static int setup(void **state)
{
    (void)state;
    manual_writer_init(&manual);
    manual_async_io_init(&hand);
    leads = true;
    answers = 0;
    now_ms = NOW;
    role = reconcile_new(&(struct reconcile_setup){ .reaper = { .writer = &manual.writer,
                                                                .async_io = &hand.base,
                                                                .metrics = manual.metrics,
                                                                .seed = 1,
                                                                .settled = manual_writer_settled,
                                                                .batch_settled = manual_writer_batch_settled,
                                                                .unblocked = manual_writer_woke,
                                                                .context = &manual },
                                                    .is_leader = is_leader,
                                                    .answers = queue_answers },
                         both_at(NOW));
    return 0;
}

static int64_t step_at(int64_t at_ms)
{
    now_ms = at_ms;
    return reconcile_step(role, both_at(at_ms), 0);
}

/* A page of handed-off tasks, as the store has them; all pushed in that epoch. */
static const struct op_handed_off *answer_page_of(struct task *tasks, size_t n, uint64_t epoch)
{
    static uint64_t epochs[10];
    struct op_handed_off *op = (struct op_handed_off *)asked(&manual, OP_HANDED_OFF);
    assert_true(n <= array_count(epochs));
    for (size_t i = 0; i < n; i++)
        epochs[i] = epoch;
    op->ret = (struct tasks){ tasks, n };
    op->ret_epochs = epochs;
    answer(&manual, &op->op, ERR_OK);
    return op;
}

/* Pushed in an epoch that is not known. */
static const struct op_handed_off *answer_page(struct task *tasks, size_t n)
{
    return answer_page_of(tasks, n, 0);
}

/* The first round, in which there is nothing: it begins when the queue's state was first read. */
static void begin(void)
{
    step_at(NOW);
    carry(&hand, IO_STATS);
    step_at(NOW);
    answer_page(NULL, 0);
    carry(&hand, IO_KNOWN);
    step_at(NOW);
    assert_true(reconcile_is_idle(role));
}

static void wipe(int64_t at_ms)
{
    queue_free(hand.queue);
    hand.queue = queue_memory_new();
    hand.epoch++;
    step_at(at_ms);
    carry(&hand, IO_STATS);
    step_at(at_ms);
}

/* Steps until a request of that kind or a store operation is submitted; returns the time of that. */
static int64_t pass_time_until(enum io_kind kind, int64_t max_ms)
{
    for (int64_t at_ms = now_ms; at_ms <= now_ms + max_ms; at_ms += 10) {
        reconcile_step(role, both_at(at_ms), 0);
        while (find_io_request(&hand, IO_STATS))
            carry(&hand, IO_STATS), reconcile_step(role, both_at(at_ms), 0);
        if (find_io_request(&hand, kind))
            return now_ms = at_ms;
    }
    fail_msg("request %d was not submitted within %d ms", kind, (int)max_ms);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    reconcile_stop(role);
    step_at(now_ms);
    carry_all(&hand);
    while (!asks_nothing(&manual))
        answer(&manual, container_of(manual.pending.next, struct op, link), ERR_UNAVAILABLE), carry_all(&hand);
    step_at(now_ms);
    reconcile_free(role);
    manual_async_io_release(&hand);
    manual_writer_release(&manual);
    return 0;
}

static void nobody_but_the_leader_asks_and_everybody_looks(void **state)
{
    (void)state;
    leads = false;
    assert_true(step_at(NOW) == INT64_MAX); /* a read of the state is in flight */
    carry(&hand, IO_STATS);
    assert_int_equal(answers, 1);
    assert_int_equal(step_at(NOW), NOW + RECONCILE_LOOK_MS);
    assert_true(asks_nothing(&manual));
    struct queue_state seen;
    assert_true(reconcile_state(role, &seen));
    step_at(NOW + RECONCILE_LOOK_MS);
    refuse(&hand, IO_STATS, false);
    assert_false(reconcile_state(role, &seen));
    leads = true;
    step_at(NOW + RECONCILE_LOOK_MS);
    assert_true(asks_nothing(&manual)); /* a queue that does not answer has forgotten nothing */
    step_at(NOW + 2 * (int64_t)RECONCILE_LOOK_MS);
    carry(&hand, IO_STATS);
    step_at(NOW + 2 * (int64_t)RECONCILE_LOOK_MS);
    asked(&manual, OP_HANDED_OFF);
}

static void now_and_then_it_asks_about_what_is_old_enough(void **state)
{
    (void)state;
    begin();
    step_at(NOW + RECONCILE_MS - 1);
    assert_true(asks_nothing(&manual));
    step_at(NOW + RECONCILE_MS);
    assert_int_equal(((struct op_handed_off *)asked(&manual, OP_HANDED_OFF))->before_ms, NOW);
}

static void what_the_queue_knows_is_left_alone(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    struct error e;
    struct pushed pushed;
    assert_ok(queue_push(hand.queue, &t, 1, 0, &pushed, &e), &e);
    begin();
    step_at(NOW + RECONCILE_MS);
    answer_page(&t, 1);
    carry(&hand, IO_KNOWN);
    step_at(NOW + RECONCILE_MS);
    assert_null(find_io_request(&hand, IO_BARRIER));
    assert_true(asks_nothing(&manual));
}

static void what_is_missing_is_settled_when_all_that_was_published_has_passed(void **state)
{
    (void)state;
    struct task t[] = { queued_task(1), queued_task(2) };
    t[1].delivery = DELIVER_AT_MOST_ONCE;
    t[1].attempts = 0;
    begin();
    step_at(NOW + RECONCILE_MS);
    answer_page(t, 2);
    carry(&hand, IO_KNOWN);
    pass_time_until(IO_BARRIER, 0);
    carry(&hand, IO_BARRIER);
    pass_time_until(IO_BARRIER_PASSED, 0);
    struct io_barrier *mark = container_of(next_io_request(&hand, IO_BARRIER_PASSED), struct io_barrier, io_request);
    mark->ret_passed = false;
    mark->io_request.done(&mark->io_request);
    int64_t at_ms = step_at(now_ms);
    assert_true(asks_nothing(&manual) && at_ms > now_ms && at_ms < now_ms + 1000);
    step_at(at_ms);
    carry(&hand, IO_BARRIER_PASSED);
    step_at(at_ms);
    struct op_settle *op = (struct op_settle *)asked(&manual, OP_SETTLE);
    assert_int_equal(op->n, 2);
    assert_int_equal(op->v[0].verdict.next, TASK_SCHEDULED);
    assert_int_equal(op->v[0].verdict.losses, 0);
    assert_int_equal(op->v[1].verdict.next, TASK_FAILED);
    answer(&manual, &op->op, ERR_OK);
    assert_int_equal(manual.told_count, 2);
    assert_int_equal(manual.batches, 1);
}

static void a_round_whose_mark_never_passes_is_begun_anew(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    begin();
    step_at(NOW + RECONCILE_MS);
    answer_page(&t, 1);
    carry(&hand, IO_KNOWN);
    int64_t marked_ms = pass_time_until(IO_BARRIER, 0), at_ms = marked_ms;
    struct event never_applied = { .task = { .id = t.id, .fence = t.fence }, .outcome = { .kind = OUTCOME_OK } };
    struct error e;
    assert_ok(events_publish(hand.events, &never_applied, 1, &e), &e);
    for (; asks_nothing(&manual); step_at(at_ms += 50)) {
        assert_true(at_ms < marked_ms + EVENT_BARRIER_PATIENCE_MS + 5000);
        carry_all(&hand);
    }
    assert_true(at_ms > marked_ms + EVENT_BARRIER_PATIENCE_MS);
    asked(&manual, OP_HANDED_OFF);
}

static void after_another_epoch_workers_have_time_to_renew_what_they_run(void **state)
{
    (void)state;
    struct task t[] = { queued_task(1), queued_task(2) };
    begin();
    wipe(NOW + 700);
    assert_int_equal(((struct op_handed_off *)asked(&manual, OP_HANDED_OFF))->before_ms, NOW + 700);
    answer_page(t, 2);
    carry(&hand, IO_KNOWN);
    int64_t asked_ms = pass_time_until(IO_KNOWN, 5000);
    assert_int_equal(asked_ms, NOW + 700 + RECONCILE_RENEW_MS);
    const struct task *running = &t[0];
    struct take by = { .now_ms = asked_ms, .visibility_ms = 4000, .worker = { { 9 } } };
    struct error e;
    assert_ok(queue_renew(hand.queue, &running, 1, &by, &e), &e);
    carry(&hand, IO_KNOWN);
    pass_time_until(IO_BARRIER, 0);
    carry(&hand, IO_BARRIER);
    pass_time_until(IO_BARRIER_PASSED, 0);
    carry(&hand, IO_BARRIER_PASSED);
    step_at(now_ms);
    struct op_settle *op = (struct op_settle *)asked(&manual, OP_SETTLE);
    assert_int_equal(op->n, 1);
    assert_true(uuid_eq(op->v[0].id, t[1].id));
    answer(&manual, &op->op, ERR_OK);
}

static void a_round_that_failed_still_gives_workers_their_time(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    begin();
    wipe(NOW + 700);
    answer_page(&t, 1);
    refuse(&hand, IO_KNOWN, false);
    step_at(NOW + 700);
    assert_true(asks_nothing(&manual)); /* not at once */
    step_at(NOW + 1700);
    if (find_io_request(&hand, IO_STATS))
        carry(&hand, IO_STATS);
    assert_int_equal(((struct op_handed_off *)asked(&manual, OP_HANDED_OFF))->before_ms, NOW + 700);
    answer_page(&t, 1);
    carry(&hand, IO_KNOWN);
    assert_int_equal(pass_time_until(IO_KNOWN, 5000), NOW + 700 + RECONCILE_RENEW_MS);
}

static void a_round_that_another_epoch_outdates_is_not_gone_on_with(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    int64_t at_ms = NOW + RECONCILE_MS + RECONCILE_LOOK_MS;
    begin();
    step_at(NOW + RECONCILE_MS);
    carry(&hand, IO_STATS);
    ((struct op_handed_off *)asked(&manual, OP_HANDED_OFF))->ret_more = true;
    answer_page(&t, 1);
    hand.epoch++;
    step_at(at_ms);
    carry(&hand, IO_STATS);
    carry(&hand, IO_KNOWN);
    step_at(at_ms);
    const struct op_handed_off *op = (struct op_handed_off *)asked(&manual, OP_HANDED_OFF);
    assert_true(uuid_is_nil(op->after.claim)); /* from the first page on, not the second page of the round before */
    assert_int_equal(op->before_ms, at_ms);
    answer_page(&t, 1);
    carry(&hand, IO_KNOWN);
    assert_int_equal(pass_time_until(IO_KNOWN, 5000), at_ms + RECONCILE_RENEW_MS);
}

static void what_was_wiped_in_the_middle_of_a_round_is_looked_at_anew(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    begin();
    step_at(NOW + RECONCILE_MS);
    carry(&hand, IO_STATS); /* the last one before */
    answer_page(&t, 1);
    carry(&hand, IO_KNOWN);
    hand.epoch++;
    step_at(NOW + RECONCILE_MS);
    assert_null(find_io_request(&hand, IO_BARRIER));
    carry(&hand, IO_STATS);
    step_at(NOW + RECONCILE_MS);
    assert_null(find_io_request(&hand, IO_BARRIER));
    assert_int_equal(((struct op_handed_off *)asked(&manual, OP_HANDED_OFF))->before_ms, NOW + RECONCILE_MS);
    answer_page(&t, 1);
    carry(&hand, IO_KNOWN);
    assert_int_equal(pass_time_until(IO_KNOWN, 5000), NOW + RECONCILE_MS + RECONCILE_RENEW_MS);
}

static void a_look_from_before_the_question_says_nothing_of_the_queue_since(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    begin();
    step_at(NOW + RECONCILE_MS); /* a read of the state goes with it, and its answer is slow */
    struct io_request *slow = next_io_request(&hand, IO_STATS);
    run_io_request(&hand, slow);
    answer_page(&t, 1);
    hand.epoch++;
    carry(&hand, IO_KNOWN);
    step_at(NOW + RECONCILE_MS);
    slow->done(slow);
    step_at(NOW + RECONCILE_MS);
    assert_null(find_io_request(&hand, IO_BARRIER));
    carry(&hand, IO_STATS);
    step_at(NOW + RECONCILE_MS);
    assert_null(find_io_request(&hand, IO_BARRIER));
    asked(&manual, OP_HANDED_OFF);
}

static void who_begins_does_not_know_what_was_before_and_gives_them_time_too(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    step_at(NOW);
    carry(&hand, IO_STATS);
    step_at(NOW);
    answer_page(&t, 1);
    carry(&hand, IO_KNOWN);
    assert_int_equal(pass_time_until(IO_KNOWN, 5000), NOW + RECONCILE_RENEW_MS);
}

/* Until it asks about the missing tasks once more. */
static void checks_at(int64_t at_ms)
{
    assert_int_equal(pass_time_until(IO_KNOWN, 5000), at_ms);
    carry(&hand, IO_KNOWN);
    pass_time_until(IO_BARRIER, 0);
    carry(&hand, IO_BARRIER);
    pass_time_until(IO_BARRIER_PASSED, 0);
    carry(&hand, IO_BARRIER_PASSED);
    step_at(now_ms);
}

static void settles_only(const struct task *t)
{
    struct op_settle *op = (struct op_settle *)asked(&manual, OP_SETTLE);
    assert_int_equal(op->n, 1);
    assert_true(uuid_eq(op->v[0].id, t->id));
    answer(&manual, &op->op, ERR_OK);
}

/* The queue is in its epoch 7, and cannot tell what it knows; one claim was handed over in that epoch. */
static void begins_with_one_of_epoch(struct task *t, uint64_t epoch)
{
    hand.base.push_again = false;
    hand.epoch = 7;
    step_at(NOW);
    carry(&hand, IO_STATS);
    step_at(NOW);
    answer_page_of(t, 1, epoch);
    carry(&hand, IO_KNOWN);
}

static void what_was_pushed_before_a_wipe_that_nobody_saw_is_missing_where_the_queue_can_not_tell(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    begins_with_one_of_epoch(&t, 6);
    assert_null(find_io_request(&hand, IO_BARRIER));
    checks_at(NOW + RECONCILE_RENEW_MS);
    settles_only(&t);
}

static void what_was_pushed_since_is_left_where_the_queue_can_not_tell(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    begins_with_one_of_epoch(&t, 7);
    step_at(NOW);
    assert_true(reconcile_is_idle(role));
}

/* Pushed before the wipe, handed over after the round that followed it. */
static void what_was_handed_over_too_late_is_found_by_the_next_round_which_gives_workers_time_too(void **state)
{
    (void)state;
    struct task t[] = { queued_task(1), queued_task(2) };
    const struct task *running = &t[0];
    struct take by = { .now_ms = NOW, .visibility_ms = 60000, .worker = { { 9 } } };
    struct error e;
    hand.base.push_again = false;
    hand.epoch = 7;
    begin();
    step_at(NOW + RECONCILE_MS);
    answer_page_of(t, 2, 6);
    carry(&hand, IO_KNOWN);
    step_at(now_ms);
    assert_null(find_io_request(&hand, IO_BARRIER));
    assert_ok(queue_renew(hand.queue, &running, 1, &by, &e), &e);
    checks_at(NOW + RECONCILE_MS + RECONCILE_RENEW_MS);
    settles_only(&t[1]);
}

static void who_is_stopped_settles_nothing_more(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    begin();
    step_at(NOW + RECONCILE_MS);
    answer_page(&t, 1);
    carry(&hand, IO_KNOWN);
    reconcile_stop(role);
    assert_true(step_at(now_ms) == INT64_MAX);
    carry_all(&hand);
    step_at(now_ms);
    assert_true(reconcile_is_idle(role));
    assert_int_equal(manual.told_count, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(nobody_but_the_leader_asks_and_everybody_looks),
        T(now_and_then_it_asks_about_what_is_old_enough),
        T(what_the_queue_knows_is_left_alone),
        T(what_is_missing_is_settled_when_all_that_was_published_has_passed),
        T(a_round_whose_mark_never_passes_is_begun_anew),
        T(after_another_epoch_workers_have_time_to_renew_what_they_run),
        T(a_round_that_failed_still_gives_workers_their_time),
        T(a_round_that_another_epoch_outdates_is_not_gone_on_with),
        T(what_was_wiped_in_the_middle_of_a_round_is_looked_at_anew),
        T(a_look_from_before_the_question_says_nothing_of_the_queue_since),
        T(who_begins_does_not_know_what_was_before_and_gives_them_time_too),
        T(what_was_pushed_before_a_wipe_that_nobody_saw_is_missing_where_the_queue_can_not_tell),
        T(what_was_pushed_since_is_left_where_the_queue_can_not_tell),
        T(what_was_handed_over_too_late_is_found_by_the_next_round_which_gives_workers_time_too),
        T(who_is_stopped_settles_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

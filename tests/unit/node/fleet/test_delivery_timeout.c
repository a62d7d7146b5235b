/* Deliveries whose worker went silent: settled, and only then acknowledged. */
#include "both_at.h"
#include "node/fleet/delivery_timeout.h"

#include "manual_async_io.h"
#include "manual_writer.h"
#include "node/fleet/event_barrier.h"

#define NOW 1772532000000LL

enum { VISIBLE_MS = 4000 };

static struct manual_writer manual;
static struct manual_async_io hand;
static struct delivery_timeout *role;

static int setup(void **state)
{
    (void)state;
    manual_writer_init(&manual);
    manual_async_io_init(&hand);
    role = delivery_timeout_new(&(struct reaper_setup){ .writer = &manual.writer,
                                                        .async_io = &hand.base,
                                                        .metrics = manual.metrics,
                                                        .seed = 1,
                                                        .settled = manual_writer_settled,
                                                        .batch_settled = manual_writer_batch_settled,
                                                        .unblocked = manual_writer_woke,
                                                        .context = &manual });
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    delivery_timeout_stop(role);
    carry_all(&hand);
    assert_true(delivery_timeout_is_idle(role));
    delivery_timeout_free(role);
    manual_async_io_release(&hand);
    manual_writer_release(&manual);
    return 0;
}

static void push(struct task *t)
{
    struct error e;
    struct pushed pushed;
    assert_ok(queue_push(hand.queue, t, 1, 0, &pushed, &e), &e);
}

/* Pushes them; a worker takes them at NOW and goes silent. */
static void lose(struct task *v, size_t n)
{
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < n; i++)
        push(&v[i]);
    struct take ask = { .max = n,
                        .now_ms = NOW,
                        .visibility_ms = VISIBLE_MS,
                        .worker = { { 9 } },
                        .alone = true,
                        .cpu_milli = -1,
                        .memory_mb = -1 };
    struct taken taken;
    struct error e;
    assert_ok(queue_take(hand.queue, &ask, &a, &taken, &e), &e);
    assert_int_equal(taken.tasks.n, n);
}

static int64_t step_at(int64_t now_ms)
{
    hand.now_ms = now_ms;
    return delivery_timeout_step(role, both_at(now_ms), 0);
}

static bool knows(const struct task *t)
{
    struct fenced_id id = { t->id, t->fence };
    struct error e;
    bool known;
    assert_ok(queue_known(hand.queue, &id, NULL, 1, &known, &e), &e);
    return known;
}

/* The event barrier passes: every event from before is applied. */
static void events_pass_at(int64_t now_ms)
{
    step_at(now_ms);
    carry(&hand, IO_BARRIER);
    step_at(now_ms);
    carry(&hand, IO_BARRIER_PASSED);
    step_at(now_ms);
}

static const struct op_settle *found_at(int64_t now_ms)
{
    step_at(now_ms);
    carry(&hand, IO_TIMED_OUT);
    events_pass_at(now_ms);
    return (const struct op_settle *)asked(&manual, OP_SETTLE);
}

static void publish(const struct task *t)
{
    struct event e = { .task = { .id = t->id, .fence = t->fence }, .outcome = { .kind = OUTCOME_OK } };
    struct error err;
    assert_ok(events_publish(hand.events, &e, 1, &err), &err);
}

static void apply_all(void)
{
    cleanup_with(arena_release) struct arena a;
    struct event_list list;
    struct error e;
    arena_init(&a, 1 << 20);
    assert_ok(events_poll(hand.events, 100, 0, &a, &list, &e), &e);
    for (size_t i = 0; i < list.n; i++)
        assert_ok(events_ack(hand.events, &list.v[i].sequence, 1, &e), &e);
}

static void where_nothing_lapses_it_asks_now_and_then(void **state)
{
    (void)state;
    assert_true(step_at(NOW) == INT64_MAX); /* one question is in flight */
    step_at(NOW + 10);
    carry(&hand, IO_TIMED_OUT);
    assert_int_equal(step_at(NOW + 20), NOW + DELIVERY_TIMEOUT_ASK_MS);
    assert_null(find_io_request(&hand, IO_TIMED_OUT));
    step_at(NOW + DELIVERY_TIMEOUT_ASK_MS);
    carry(&hand, IO_TIMED_OUT);
}

static void what_lapsed_is_acknowledged_after_the_commit_and_not_before(void **state)
{
    (void)state;
    struct task t[] = { queued_task(1), queued_task(2) };
    t[1].delivery = DELIVER_AT_MOST_ONCE;
    lose(t, 2);
    const struct op_settle *op = found_at(NOW + VISIBLE_MS);
    assert_int_equal(op->n, 2);
    for (size_t i = 0; i < 2; i++) {
        bool second = uuid_eq(op->v[i].id, t[1].id);
        assert_int_equal(op->v[i].verdict.next, second ? TASK_FAILED : TASK_SCHEDULED);
        assert_int_equal(op->v[i].verdict.losses, 1);
    }
    assert_null(find_io_request(&hand, IO_ACK));
    answer(&manual, asked(&manual, OP_SETTLE), ERR_OK);
    assert_int_equal(manual.told_count, 2);
    assert_int_equal(manual.batches, 1);
    assert_true(knows(&t[0]));
    carry(&hand, IO_ACK);
    assert_false(knows(&t[0]) || knows(&t[1]));
}

/* Its outcome is published and not applied; its delivery timed out, and the event barrier is set. */
static struct task ended_and_timed_out_at(int64_t at_ms)
{
    struct task t = queued_task(1);
    lose(&t, 1);
    publish(&t);
    step_at(at_ms);
    carry(&hand, IO_TIMED_OUT);
    step_at(at_ms);
    carry(&hand, IO_BARRIER);
    return t;
}

/* The task ended, and its worker died before it could acknowledge the delivery; the updater is behind. */
static void nothing_is_settled_before_all_is_applied_that_was_published_before(void **state)
{
    (void)state;
    int64_t at_ms = NOW + VISIBLE_MS;
    struct task t = ended_and_timed_out_at(at_ms);
    for (int i = 0; i < 100; i++) {
        int64_t next_ms = step_at(at_ms);
        carry(&hand, IO_BARRIER_PASSED);
        assert_true(next_ms == INT64_MAX); /* one question is in flight */
        next_ms = step_at(at_ms);
        assert_true(next_ms > at_ms && next_ms <= at_ms + 1000);
        assert_true(asks_nothing(&manual));
        assert_null(find_io_request(&hand, IO_TIMED_OUT));
        at_ms = next_ms;
    }
    apply_all();
    step_at(at_ms);
    carry(&hand, IO_BARRIER_PASSED);
    step_at(at_ms);
    answer(&manual, asked(&manual, OP_SETTLE), ERR_OK);
    carry(&hand, IO_ACK);
    assert_false(knows(&t));
}

static void while_events_are_away_what_lapsed_waits(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    int64_t at_ms = NOW + VISIBLE_MS;
    lose(&t, 1);
    step_at(at_ms);
    carry(&hand, IO_TIMED_OUT);
    step_at(at_ms);
    for (int i = 0; i < 100; i++) {
        refuse(&hand, i < 50 ? IO_BARRIER : IO_BARRIER_PASSED, false);
        at_ms = step_at(at_ms);
        step_at(at_ms);
        if (i == 49) {
            carry(&hand, IO_BARRIER);
            step_at(at_ms);
        }
    }
    assert_true(at_ms > NOW + VISIBLE_MS + 1000 && at_ms < NOW + 60000);
    assert_true(asks_nothing(&manual));
    carry(&hand, IO_BARRIER_PASSED);
    step_at(at_ms);
    answer(&manual, asked(&manual, OP_SETTLE), ERR_OK);
    carry(&hand, IO_ACK);
}

/* Lost events are never applied: the next answer of the queue brings another barrier, which does not wait for them. */
static void a_mark_that_never_passes_is_given_up_for_another(void **state)
{
    (void)state;
    int64_t at_ms = NOW + VISIBLE_MS;
    struct task t = ended_and_timed_out_at(at_ms);
    for (step_at(at_ms); find_io_request(&hand, IO_BARRIER_PASSED); step_at(at_ms)) {
        carry(&hand, IO_BARRIER_PASSED);
        at_ms = step_at(at_ms);
        assert_in_range(at_ms, NOW, NOW + VISIBLE_MS + EVENT_BARRIER_PATIENCE_MS + TIMED_OUT_AGAIN_MS);
    }
    assert_true(asks_nothing(&manual));
    apply_all();
    const struct op_settle *op = found_at(at_ms + TIMED_OUT_AGAIN_MS);
    assert_int_equal(op->n, 1);
    answer(&manual, asked(&manual, OP_SETTLE), ERR_OK);
    carry(&hand, IO_ACK);
    assert_false(knows(&t));
}

static void who_is_stopped_while_it_waits_leaves_what_lapsed_to_others(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    lose(&t, 1);
    step_at(NOW + VISIBLE_MS);
    carry(&hand, IO_TIMED_OUT);
    step_at(NOW + VISIBLE_MS);
    delivery_timeout_stop(role);
    assert_false(delivery_timeout_is_idle(role));
    carry(&hand, IO_BARRIER);
    assert_true(delivery_timeout_is_idle(role));
    assert_true(step_at(NOW + 60000) == INT64_MAX);
    assert_true(asks_nothing(&manual));
    assert_true(knows(&t));
}

static void the_next_question_follows_an_answer_at_once(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    lose(&t, 1);
    found_at(NOW + VISIBLE_MS);
    answer(&manual, asked(&manual, OP_SETTLE), ERR_OK);
    carry(&hand, IO_ACK);
    step_at(NOW + VISIBLE_MS);
    carry(&hand, IO_TIMED_OUT);
}

static void while_the_store_is_down_nothing_is_acknowledged_and_nothing_else_asked(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    lose(&t, 1);
    found_at(NOW + VISIBLE_MS);
    for (int64_t at_ms = NOW + VISIBLE_MS; at_ms < NOW + 60000;) {
        answer(&manual, asked(&manual, OP_SETTLE), ERR_UNAVAILABLE);
        assert_null(find_io_request(&hand, IO_ACK));
        int64_t next_ms = step_at(at_ms);
        assert_true(next_ms > at_ms && next_ms <= at_ms + 1000);
        step_at(at_ms = next_ms);
        assert_null(find_io_request(&hand, IO_TIMED_OUT));
    }
    answer(&manual, asked(&manual, OP_SETTLE), ERR_OK);
    assert_int_equal(manual.told_count, 1);
    carry(&hand, IO_ACK);
    assert_false(knows(&t));
}

static void an_ack_that_was_lost_brings_it_again_for_its_fence_to_refuse(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    lose(&t, 1);
    found_at(NOW + VISIBLE_MS);
    answer(&manual, asked(&manual, OP_SETTLE), ERR_OK);
    refuse(&hand, IO_ACK, false);
    const struct op_settle *op = found_at(NOW + VISIBLE_MS + TIMED_OUT_AGAIN_MS);
    assert_int_equal(op->n, 1);
    op->v[0].stale = true;
    answer(&manual, asked(&manual, OP_SETTLE), ERR_OK);
    assert_int_equal(metric_count(manual.metrics, METRIC_TASKS_RECOVERED), 1);
    carry(&hand, IO_ACK);
    assert_false(knows(&t));
}

/* The queue has lost the contents of the deliveries: it still knows their ids. */
static void what_has_lost_its_contents_is_acknowledged_for_who_compares(void **state)
{
    (void)state;
    struct task t[] = { queued_task(1), queued_task(2) };
    step_at(NOW);
    struct io_timed_out *ask = container_of(next_io_request(&hand, IO_TIMED_OUT), struct io_timed_out, io_request);
    ask->ret.v = arena_alloc(&ask->arena, 2 * sizeof *ask->ret.v);
    ask->ret.v[0] = (struct timed_out_delivery){ .task = { .id = t[0].id, .fence = 1 }, .fired = true };
    ask->ret.v[1] = (struct timed_out_delivery){ .task = t[1] };
    ask->ret.n = 2;
    ask->io_request.done(&ask->io_request);
    events_pass_at(NOW);
    struct op_settle *op = (struct op_settle *)asked(&manual, OP_SETTLE);
    assert_int_equal(op->n, 1);
    assert_true(uuid_eq(op->v[0].id, t[1].id));
    assert_int_equal(op->v[0].verdict.losses, 0); /* no worker had it */
    answer(&manual, &op->op, ERR_OK);
    struct io_ids *ack = container_of(find_io_request(&hand, IO_ACK), struct io_ids, io_request);
    assert_int_equal(ack->n, 2);
    carry(&hand, IO_ACK);
}

static void a_question_that_failed_is_asked_again_later(void **state)
{
    (void)state;
    step_at(NOW);
    refuse(&hand, IO_TIMED_OUT, false);
    assert_int_equal(step_at(NOW), NOW + DELIVERY_TIMEOUT_ASK_MS);
    struct moment now = { NOW - 3600000, NOW + DELIVERY_TIMEOUT_ASK_MS }; /* also when the clock was set back */
    delivery_timeout_step(role, now, 0);
    carry(&hand, IO_TIMED_OUT);
}

static void who_is_stopped_ends_what_it_has_begun(void **state)
{
    (void)state;
    struct task t = queued_task(1);
    lose(&t, 1);
    found_at(NOW + VISIBLE_MS);
    delivery_timeout_stop(role);
    assert_false(delivery_timeout_is_idle(role));
    answer(&manual, asked(&manual, OP_SETTLE), ERR_OK);
    carry(&hand, IO_ACK);
    assert_true(step_at(NOW + 60000) == INT64_MAX);
    assert_null(find_io_request(&hand, IO_TIMED_OUT));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(where_nothing_lapses_it_asks_now_and_then),
        T(what_lapsed_is_acknowledged_after_the_commit_and_not_before),
        T(nothing_is_settled_before_all_is_applied_that_was_published_before),
        T(while_events_are_away_what_lapsed_waits),
        T(a_mark_that_never_passes_is_given_up_for_another),
        T(who_is_stopped_while_it_waits_leaves_what_lapsed_to_others),
        T(the_next_question_follows_an_answer_at_once),
        T(while_the_store_is_down_nothing_is_acknowledged_and_nothing_else_asked),
        T(an_ack_that_was_lost_brings_it_again_for_its_fence_to_refuse),
        T(what_has_lost_its_contents_is_acknowledged_for_who_compares),
        T(a_question_that_failed_is_asked_again_later),
        T(who_is_stopped_ends_what_it_has_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

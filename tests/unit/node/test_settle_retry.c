/* Claims that ended without an outcome: sent again until the store has them, told of once. */
#include "both_at.h"
#include "node/updater/settle_retry.h"

#include "desk.h"

#define NOW 1772532000000LL

struct world {
    struct desk desk;
    struct ends ends;
    struct arena arena;
    struct prng random;
    struct event events[3];
    struct settlement settlements[3];
};

static void done(void *context)
{
    ((struct world *)context)->desk.batches++;
}

static void settled(void *context, const struct event *e, const struct settlement *s)
{
    desk_settled(&((struct world *)context)->desk, e, s);
}

static void unblocked(void *context, uint64_t lanes)
{
    desk_woke(&((struct world *)context)->desk, lanes);
}

static int setup(void **state)
{
    struct world *w = *state = xnew(*w);
    desk_init(&w->desk);
    arena_init(&w->arena, 1 << 16);
    prng_init(&w->random, 1);
    w->ends.setup = (struct settle_retry_setup){ .writer = &w->desk.writer,
                                                 .metrics = w->desk.metrics,
                                                 .settled = settled,
                                                 .unblocked = unblocked,
                                                 .done = done,
                                                 .context = w };
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    assert_true(settle_retry_is_idle(&w->ends));
    arena_release(&w->arena);
    desk_release(&w->desk);
    free(w);
    return 0;
}

static void submit(struct world *w, size_t n, enum delivery delivery)
{
    for (size_t i = 0; i < n; i++) {
        struct task t = queued_task((int)i + 1);
        t.delivery = delivery;
        w->settlements[i] =
            lost_verdict_settle(&t, (struct lost){ .fired = true }, NOW, &w->random, &w->arena, &w->events[i]);
    }
    settle_retry_submit(&w->ends, w->events, w->settlements, n, both_at(NOW));
}

static void a_batch_is_told_of_after_its_commit(void **state)
{
    struct world *w = *state;
    submit(w, 3, DELIVER_AT_LEAST_ONCE);
    struct op_settle *op = (struct op_settle *)asked(&w->desk, OP_SETTLE);
    assert_int_equal(op->n, 3);
    assert_int_equal(op->now_ms, NOW);
    assert_int_equal(w->desk.told_count, 0);
    assert_false(settle_retry_is_idle(&w->ends));
    op->ret_unblocked_lanes = 4;
    answer(&w->desk, &op->op, ERR_OK);
    assert_int_equal(w->desk.told_count, 3);
    assert_int_equal(w->desk.batches, 1);
    assert_true(w->desk.unblocked == 4);
}

static void one_that_failed_is_sent_again_soon_and_told_of_once(void **state)
{
    struct world *w = *state;
    submit(w, 2, DELIVER_AT_LEAST_ONCE);
    answer(&w->desk, asked(&w->desk, OP_SETTLE), ERR_UNAVAILABLE);
    assert_true(w->desk.unblocked == UINT64_MAX); /* it may have been committed: who waits looks for itself */
    assert_false(settle_retry_is_idle(&w->ends));
    int64_t at_ms = settle_retry_step(&w->ends, both_at(NOW));
    assert_true(at_ms > NOW && at_ms < NOW + 1000);
    settle_retry_step(&w->ends, both_at(at_ms - 1));
    assert_true(asks_nothing(&w->desk));
    assert_true(settle_retry_step(&w->ends, both_at(at_ms)) == INT64_MAX);
    struct op_settle *op = (struct op_settle *)asked(&w->desk, OP_SETTLE);
    assert_int_equal(op->n, 2);
    assert_int_equal(op->now_ms, at_ms);
    answer(&w->desk, &op->op, ERR_OK);
    assert_int_equal(w->desk.told_count, 2);
    assert_int_equal(w->desk.batches, 1);
}

static void it_does_not_wait_for_a_time_that_was_set_back(void **state)
{
    struct world *w = *state;
    submit(w, 1, DELIVER_AT_LEAST_ONCE);
    answer(&w->desk, asked(&w->desk, OP_SETTLE), ERR_UNAVAILABLE);
    struct moment now = { NOW - 3600000, NOW + 200 }; /* the steady clock has gone on */
    assert_int_equal(settle_retry_step(&w->ends, (struct moment){ now.wall_ms, NOW }), now.wall_ms + 200);
    settle_retry_step(&w->ends, now);
    answer(&w->desk, asked(&w->desk, OP_SETTLE), ERR_OK);
}

static void only_what_was_not_refused_by_its_fence_is_counted(void **state)
{
    struct world *w = *state;
    submit(w, 3, DELIVER_AT_MOST_ONCE);
    struct op_settle *op = (struct op_settle *)asked(&w->desk, OP_SETTLE);
    op->v[1].stale = true;
    answer(&w->desk, &op->op, ERR_OK);
    assert_int_equal(w->desk.told_count, 3); /* whoever holds one lets go of it */
    assert_int_equal(metric_count(w->desk.metrics, METRIC_TASKS_RECOVERED), 2);
    assert_int_equal(metric_count(w->desk.metrics, METRIC_TASKS_FAILED), 2);
}

static void what_waits_is_left_to_others_by_who_gives_up(void **state)
{
    struct world *w = *state;
    submit(w, 1, DELIVER_AT_LEAST_ONCE);
    settle_retry_give_up(&w->ends);
    assert_false(settle_retry_is_idle(&w->ends)); /* it is under way */
    answer(&w->desk, asked(&w->desk, OP_SETTLE), ERR_UNAVAILABLE);
    settle_retry_give_up(&w->ends);
    assert_int_equal(w->desk.told_count, 0);
    assert_int_equal(w->desk.batches, 1);
    assert_true(settle_retry_step(&w->ends, both_at(NOW + 10000)) == INT64_MAX);
    assert_true(asks_nothing(&w->desk));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_batch_is_told_of_after_its_commit),           T(one_that_failed_is_sent_again_soon_and_told_of_once),
        T(it_does_not_wait_for_a_time_that_was_set_back), T(only_what_was_not_refused_by_its_fence_is_counted),
        T(what_waits_is_left_to_others_by_who_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

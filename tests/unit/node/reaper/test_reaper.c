/* Claims that ended without an outcome: found, judged, settled until the store has them, told of once, acknowledged. */
#include "both_at.h"
#include "node/reaper/reaper.h"

#include "manual_writer.h"

#define NOW 1772532000000LL

enum { CLAIMS_MAX = 3, EACH_MS = 500 };

/* A source that finds what the test says, and whose answers the test gives. */
struct world {
    struct reaper reaper;
    struct manual_writer manual;
    struct task tasks[CLAIMS_MAX];
    size_t n;
    bool prepares;
    int asked, prepared, acknowledged, over;
};

static struct world *world_of(struct reaper *r)
{
    return container_of(r, struct world, reaper);
}

static void ask(struct reaper *r)
{
    world_of(r)->asked++;
    r->ask_at_ms = r->now.steady_ms + EACH_MS;
}

static bool prepare(struct reaper *r)
{
    world_of(r)->prepared += world_of(r)->prepares;
    return world_of(r)->prepares;
}

static void judge(struct reaper *r)
{
    struct world *w = world_of(r);
    for (size_t i = 0; i < w->n; i++)
        reaper_add(r, lost_verdict_settle(&w->tasks[i], (struct lost){ .fired = true }, reaper_verdict_ms(r),
                                          &r->random, &r->arena, reaper_next_event(r)));
}

static void acknowledge(struct reaper *r)
{
    world_of(r)->acknowledged++;
}

static void batch_over(struct reaper *r)
{
    world_of(r)->over++;
}

static const struct reaper_source source = {
    .name = "test",
    .ask = ask,
    .prepare = prepare,
    .decide = judge,
    .acknowledge = acknowledge,
    .batch_over = batch_over,
};

static int setup(void **state)
{
    struct world *w = *state = xnew(*w);
    manual_writer_init(&w->manual);
    reaper_init(&w->reaper, &source,
                &(struct reaper_setup){ .writer = &w->manual.writer,
                                        .metrics = w->manual.metrics,
                                        .seed = 1,
                                        .settled = manual_writer_settled,
                                        .batch_settled = manual_writer_batch_settled,
                                        .unblocked = manual_writer_woke,
                                        .context = &w->manual });
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    reaper_stop(&w->reaper);
    assert_true(reaper_is_idle(&w->reaper));
    reaper_release(&w->reaper);
    manual_writer_release(&w->manual);
    free(w);
    return 0;
}

static int64_t step_at(struct world *w, int64_t ms)
{
    return reaper_step(&w->reaper, both_at(ms), 0, true);
}

/* So many are found, and their settlement is with the writer. */
static void submit(struct world *w, size_t n, enum delivery delivery)
{
    for (size_t i = 0; i < n; i++) {
        w->tasks[i] = queued_task((int)i + 1);
        w->tasks[i].delivery = delivery;
    }
    w->n = n;
    step_at(w, NOW);
    reaper_found(&w->reaper, n);
    step_at(w, NOW);
}

static void end_batch(struct world *w)
{
    assert_int_equal(w->acknowledged, 1);
    reaper_acknowledged(&w->reaper);
    assert_int_equal(w->over, 1);
}

static void a_batch_is_told_of_after_its_commit(void **state)
{
    struct world *w = *state;
    submit(w, 2, DELIVER_AT_LEAST_ONCE);
    struct op_settle *op = (struct op_settle *)asked(&w->manual, OP_SETTLE);
    assert_int_equal(op->n, 2);
    assert_int_equal(w->manual.told_count, 0);
    answer(&w->manual, &op->op, ERR_OK);
    assert_int_equal(w->manual.told_count, 2);
    assert_int_equal(w->manual.batches, 1);
    end_batch(w);
}

static void one_that_failed_is_sent_again_soon_and_told_of_once(void **state)
{
    struct world *w = *state;
    submit(w, 2, DELIVER_AT_LEAST_ONCE);
    answer(&w->manual, asked(&w->manual, OP_SETTLE), ERR_UNAVAILABLE);
    assert_true(w->manual.unblocked == UINT64_MAX); /* it may have been done */
    int64_t at_ms = step_at(w, NOW);
    assert_true(at_ms > NOW && at_ms < NOW + 1000);
    step_at(w, at_ms - 1);
    assert_true(asks_nothing(&w->manual));
    assert_true(step_at(w, at_ms) == INT64_MAX);
    struct op_settle *op = (struct op_settle *)asked(&w->manual, OP_SETTLE);
    assert_int_equal(op->n, 2);
    assert_int_equal(op->now_ms, at_ms);
    answer(&w->manual, &op->op, ERR_OK);
    assert_int_equal(w->manual.told_count, 2);
    assert_int_equal(w->manual.batches, 1);
    end_batch(w);
}

static void it_does_not_wait_for_a_time_that_was_set_back(void **state)
{
    struct world *w = *state;
    submit(w, 1, DELIVER_AT_LEAST_ONCE);
    answer(&w->manual, asked(&w->manual, OP_SETTLE), ERR_UNAVAILABLE);
    int64_t wait_ms = step_at(w, NOW) - NOW;
    struct moment back = { NOW - 3600000, NOW };
    assert_int_equal(reaper_step(&w->reaper, back, 0, true), back.wall_ms + wait_ms);
    back.wall_ms += wait_ms;
    back.steady_ms += wait_ms;
    reaper_step(&w->reaper, back, 0, true);
    answer(&w->manual, asked(&w->manual, OP_SETTLE), ERR_OK);
    end_batch(w);
}

static void only_what_was_not_refused_by_its_fence_is_counted(void **state)
{
    struct world *w = *state;
    submit(w, 3, DELIVER_AT_MOST_ONCE);
    struct op_settle *op = (struct op_settle *)asked(&w->manual, OP_SETTLE);
    op->v[0].ret_state = op->v[1].ret_state = TASK_FAILED;
    op->v[1].stale = true;
    op->v[2].ret_state = TASK_CANCELLED; /* its run was stopped meanwhile */
    answer(&w->manual, &op->op, ERR_OK);
    assert_int_equal(w->manual.told_count, 3); /* whoever holds one lets go of it */
    assert_int_equal(metric_count(w->manual.metrics, METRIC_TASKS_RECOVERED), 2);
    assert_int_equal(metric_count(w->manual.metrics, METRIC_TASKS_FAILED), 1);
    end_batch(w);
}

static void what_waits_is_left_to_others_by_who_gives_up(void **state)
{
    struct world *w = *state;
    submit(w, 1, DELIVER_AT_LEAST_ONCE);
    reaper_stop(&w->reaper);
    assert_false(reaper_is_idle(&w->reaper)); /* it is under way */
    answer(&w->manual, asked(&w->manual, OP_SETTLE), ERR_UNAVAILABLE);
    assert_int_equal(w->manual.told_count, 0);
    assert_int_equal(w->acknowledged, 0);
    assert_int_equal(w->over, 1);
    assert_true(step_at(w, NOW + 10000) == INT64_MAX);
    assert_true(asks_nothing(&w->manual));
    assert_int_equal(w->asked, 1);
}

static void what_is_settled_when_it_is_stopped_is_acknowledged(void **state)
{
    struct world *w = *state;
    submit(w, 1, DELIVER_AT_LEAST_ONCE);
    reaper_stop(&w->reaper);
    answer(&w->manual, asked(&w->manual, OP_SETTLE), ERR_OK);
    assert_int_equal(w->manual.told_count, 1);
    end_batch(w);
}

static void nothing_is_judged_before_it_is_prepared(void **state)
{
    struct world *w = *state;
    w->prepares = true;
    submit(w, 1, DELIVER_AT_LEAST_ONCE);
    assert_int_equal(w->prepared, 1);
    assert_true(asks_nothing(&w->manual));
    reaper_prepared(&w->reaper);
    step_at(w, NOW);
    answer(&w->manual, asked(&w->manual, OP_SETTLE), ERR_OK);
    end_batch(w);
}

static void who_is_stopped_before_the_verdicts_leaves_the_batch(void **state)
{
    struct world *w = *state;
    w->prepares = true;
    submit(w, 1, DELIVER_AT_LEAST_ONCE);
    reaper_stop(&w->reaper);
    assert_false(reaper_is_idle(&w->reaper));
    reaper_prepared(&w->reaper);
    assert_int_equal(w->over, 1);
    assert_true(asks_nothing(&w->manual));
}

static void where_nothing_is_found_it_asks_again_at_its_time(void **state)
{
    struct world *w = *state;
    step_at(w, NOW);
    reaper_found(&w->reaper, 0);
    assert_int_equal(w->over, 1);
    assert_int_equal(step_at(w, NOW), NOW + EACH_MS);
    assert_int_equal(w->asked, 1);
    reaper_step(&w->reaper, both_at(NOW + EACH_MS), 0, false); /* it may not */
    assert_int_equal(w->asked, 1);
    step_at(w, NOW + EACH_MS);
    assert_int_equal(w->asked, 2);
    reaper_found(&w->reaper, 0);
}

static void what_needs_no_verdict_is_acknowledged_all_the_same(void **state)
{
    struct world *w = *state;
    step_at(w, NOW);
    reaper_found(&w->reaper, 1); /* and judge adds none */
    step_at(w, NOW);
    assert_true(asks_nothing(&w->manual));
    end_batch(w);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_batch_is_told_of_after_its_commit),
        T(one_that_failed_is_sent_again_soon_and_told_of_once),
        T(it_does_not_wait_for_a_time_that_was_set_back),
        T(only_what_was_not_refused_by_its_fence_is_counted),
        T(what_waits_is_left_to_others_by_who_gives_up),
        T(what_is_settled_when_it_is_stopped_is_acknowledged),
        T(nothing_is_judged_before_it_is_prepared),
        T(who_is_stopped_before_the_verdicts_leaves_the_batch),
        T(where_nothing_is_found_it_asks_again_at_its_time),
        T(what_needs_no_verdict_is_acknowledged_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

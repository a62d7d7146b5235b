/* A delivery whose worker is silent or gone times out: it is reported until acknowledged, and never delivered again. */
#include "queue_world.h"

static int64_t visibility(void)
{
    return adapter_under_test->visibility_ms;
}

static void what_a_dead_worker_had_lapses(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    push(w, v, 2);
    take_exactly(w, 0, 2);
    push(w, v + 2, 1);
    take_exactly(w, 1, 1);
    ack(w, 1, &v[2]);
    worker_dies(w, 0);
    struct delivery_timeouts gone = timed_out_exactly(w, 2);
    for (int i = 0; i < 2; i++) {
        const struct timed_out_delivery *l = timed_out_of(&gone, &v[i]);
        assert_non_null(l);
        assert_true(l->fired && !l->alone);
        assert_same_delivery(&l->task, &v[i]);
    }
}

static void a_silent_delivery_lapses_at_its_timeout(void **state)
{
    needs(adapter_under_test->timeouts);
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_exactly(w, 0, 1);
    if (adapter_under_test->own_clock) {
        assert_int_equal(time_out_now(w).n, 0);
        pass(w, visibility());
    } else {
        pass(w, visibility() - 1);
        assert_int_equal(time_out_now(w).n, 0);
        pass(w, 1);
    }
    struct delivery_timeouts gone = timed_out_exactly(w, 1);
    assert_same_delivery(&gone.v[0].task, &t);
}

static void a_lapse_is_never_delivered_again(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_exactly(w, 0, 1);
    worker_dies(w, 0);
    take_none(w, 1);
    timed_out_exactly(w, 1);
    take_none(w, 1);
    ack_timed_out(w, &t);
    take_none(w, 1);
    assert_int_equal(time_out_now(w).n, 0);
}

static void a_late_ack_of_what_lapsed_is_fine(void **state)
{
    needs(adapter_under_test->timeouts);
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_exactly(w, 0, 1);
    pass(w, visibility());
    timed_out_exactly(w, 1);
    renew(w, 0, &t); /* the worker is back too late */
    ack(w, 0, &t);
    pass(w, 2 * visibility());
    assert_int_equal(time_out_now(w).n, 0);
    assert_false(is_known(w, &t) && adapter_under_test->knows);
}

static void a_lapse_comes_again_until_it_is_acknowledged(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 2);
    take_exactly(w, 0, 2);
    worker_dies(w, 0);
    timed_out_exactly(w, 2);
    ack_timed_out(w, &v[0]);
    assert_true(is_known(w, &v[1]));
    pass(w, TIMED_OUT_AGAIN_MS + 1);
    struct delivery_timeouts again = timed_out_exactly(w, 1);
    assert_same_delivery(&again.v[0].task, &v[1]);
    ack_timed_out(w, &v[1]);
    assert_false(is_known(w, &v[1]) && adapter_under_test->knows);
}

static void what_waits_does_not_lapse(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    renew(w, 0, &t);
    pass(w, 2 * visibility());
    assert_int_equal(time_out_now(w).n, 0);
    take_exactly(w, 1, 1);
}

static void a_renewed_delivery_lapses_later(void **state)
{
    needs(adapter_under_test->timeouts);
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 2);
    take_exactly(w, 0, 2);
    pass(w, visibility() / 2);
    renew(w, 0, &v[0]);
    pass(w, visibility() / 2);
    struct delivery_timeouts gone = timed_out_exactly(w, 1);
    assert_same_delivery(&gone.v[0].task, &v[1]);
    pass(w, visibility() / 2);
    gone = timed_out_exactly(w, 1);
    assert_same_delivery(&gone.v[0].task, &v[0]);
}

static void a_lapse_not_yet_reported_can_be_renewed_or_acknowledged(void **state)
{
    needs(adapter_under_test->timeouts);
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 2);
    take_exactly(w, 0, 2);
    pass(w, visibility() + 1);
    renew(w, 0, &v[0]);
    ack(w, 0, &v[1]);
    assert_int_equal(time_out_now(w).n, 0);
    pass(w, visibility() + 1);
    struct delivery_timeouts gone = timed_out_exactly(w, 1);
    assert_same_delivery(&gone.v[0].task, &v[0]);
}

static void what_is_renewed_is_known_again(void **state)
{
    needs(adapter_under_test->knows);
    struct world *w = *state;
    struct task t = some_task(w); /* never pushed: as if the queue had lost it */
    renew(w, 0, &t);
    assert_true(is_known(w, &t));
    take_none(w, 1);
    worker_dies(w, 0);
    struct delivery_timeouts gone = timed_out_exactly(w, 1);
    assert_same_delivery(&gone.v[0].task, &t);
    assert_true(gone.v[0].fired);
}

static void an_arena_too_small_gets_what_lapses_fit(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_big_task(w), some_big_task(w) };
    push(w, v, 2);
    take_exactly(w, 0, 2);
    worker_dies(w, 0);
    struct delivery_timeouts gone = { 0 };
    struct error e = { 0 };
    cleanup_with(arena_release) struct arena none;
    cleanup_with(arena_release) struct arena small;
    arena_init(&none, 100);
    arena_init(&small, 34000);
    enum err rc = ERR_OK;
    for (int i = 0; i < 200 && rc != ERR_LIMIT; i++) {
        rc = queue_timed_out(w->queue, w->now_ms, &none, &gone, &e);
        assert_true(rc == ERR_LIMIT || gone.n == 0);
        pass(w, rc ? 0 : 10);
    }
    assert_int_equal(rc, ERR_LIMIT);
    assert_ok(queue_timed_out(w->queue, w->now_ms, &small, &gone, &e), &e);
    assert_int_equal(gone.n, 1);
    timed_out_exactly(w, 1);
}

static void who_runs_it_is_asked_once_to_abort(void **state)
{
    needs(adapter_under_test->aborts);
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    push(w, v, 1);
    take_exactly(w, 0, 1);
    push(w, v + 1, 2);
    ask_abort(w, &v[0]);
    ask_abort(w, &v[0]);
    ask_abort(w, &v[2]); /* still waiting */
    struct take none = take_of(w, 1, 0);
    assert_int_equal(take_with(w, 1, &none).abort_count, 0);
    struct take own = take_of(w, 0, 0);
    struct taken told = take_with(w, 0, &own);
    assert_int_equal(told.abort_count, 1);
    assert_true(uuid_eq(told.aborts[0].id, v[0].id) && told.aborts[0].fence == v[0].fence);
    assert_int_equal(take_with(w, 0, &own).abort_count, 0);
    ack(w, 0, &v[0]);
}

static void an_abort_comes_along_with_tasks(void **state)
{
    needs(adapter_under_test->aborts);
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 1);
    take_exactly(w, 0, 1);
    ask_abort(w, &v[0]);
    push(w, v + 1, 1);
    struct take t = take_of(w, 0, 5);
    t.wait_ms = 1000;
    struct taken got = take_with(w, 0, &t);
    assert_int_equal(got.abort_count, 1);
    assert_int_equal(got.tasks.n, 1);
}

static void an_abort_of_what_is_unknown_changes_nothing(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    ask_abort(w, &t);
    take_none(w, 0);
    push(w, &t, 1);
    take_exactly(w, 0, 1);
    ack(w, 0, &t);
    ask_abort(w, &t);
    struct take own = take_of(w, 0, 0);
    assert_int_equal(take_with(w, 0, &own).abort_count, 0);
}

static enum want_back_answer want_back(struct world *w, const struct task *t)
{
    struct error e = { 0 };
    enum want_back_answer answer;
    assert_ok(queue_want_back(w->queue, t, 0, &answer, &e), &e);
    return answer;
}

static void who_has_it_is_told_once_that_it_is_wanted_back(void **state)
{
    needs(adapter_under_test->aborts);
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    assert_int_equal(want_back(w, &t), WANT_BACK_WAITS);
    take_exactly(w, 0, 1);
    assert_int_equal(want_back(w, &t), WANT_BACK_TOLD);
    struct take other = take_of(w, 1, 0), own = take_of(w, 0, 0);
    assert_int_equal(take_with(w, 1, &other).wanted_count, 0);
    struct taken told = take_with(w, 0, &own);
    assert_int_equal(told.wanted_count, 1);
    assert_int_equal(told.abort_count, 0);
    assert_true(uuid_eq(told.wanted[0].id, t.id) && told.wanted[0].fence == t.fence);
    assert_true((told.heard_ms != 0) == adapter_under_test->own_clock);
    assert_int_equal(take_with(w, 0, &own).wanted_count, 0);
    ack(w, 0, &t);
    assert_int_equal(want_back(w, &t), adapter_under_test->knows ? WANT_BACK_UNKNOWN : WANT_BACK_TOLD);
}

/* Nobody is told of a task that the queue has lost: its worker may start it, or a node may claim it anew. */
static void a_task_that_is_lost_and_wanted_back_is_not_known(void **state)
{
    needs(adapter_under_test->aborts);
    struct world *w = *state;
    struct error e = { 0 };
    struct queue_state now;
    struct task t = some_task(w);
    enum want_back_answer same, other;
    assert_ok(queue_stats(w->queue, &now, &e), &e);
    assert_ok(queue_want_back(w->queue, &t, now.epoch, &same, &e), &e);
    assert_ok(queue_want_back(w->queue, &t, now.epoch + 1, &other, &e), &e);
    assert_int_equal(same, adapter_under_test->knows ? WANT_BACK_UNKNOWN : WANT_BACK_TOLD);
    assert_int_equal(other, WANT_BACK_UNKNOWN);
}

static void one_that_has_timed_out_and_is_wanted_back_is_known(void **state)
{
    needs(adapter_under_test->aborts);
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_exactly(w, 0, 1);
    worker_dies(w, 0);
    timed_out_exactly(w, 1);
    assert_int_equal(want_back(w, &t), WANT_BACK_TOLD);
}

static const struct CMUnitTest tests[] = {
    queue_test(what_a_dead_worker_had_lapses),
    queue_test(a_silent_delivery_lapses_at_its_timeout),
    queue_test(a_lapse_is_never_delivered_again),
    queue_test(a_late_ack_of_what_lapsed_is_fine),
    queue_test(a_lapse_comes_again_until_it_is_acknowledged),
    queue_test(what_waits_does_not_lapse),
    queue_test(a_renewed_delivery_lapses_later),
    queue_test(a_lapse_not_yet_reported_can_be_renewed_or_acknowledged),
    queue_test(what_is_renewed_is_known_again),
    queue_test(an_arena_too_small_gets_what_lapses_fit),
    queue_test(who_runs_it_is_asked_once_to_abort),
    queue_test(an_abort_comes_along_with_tasks),
    queue_test(who_has_it_is_told_once_that_it_is_wanted_back),
    queue_test(a_task_that_is_lost_and_wanted_back_is_not_known),
    queue_test(one_that_has_timed_out_and_is_wanted_back_is_known),
    queue_test(an_abort_of_what_is_unknown_changes_nothing),
};
const struct test_list timeout_tests = { tests, array_count(tests) };

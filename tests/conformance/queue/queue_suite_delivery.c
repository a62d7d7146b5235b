/* A pushed task is delivered, complete, once and in order; or recalled. */
#include "queue_world.h"

static void a_task_is_delivered_whole(void **state)
{
    struct world *w = *state;
    char payload[] = "{\"a\":1}";
    struct task t = some_task(w);
    t.kind = TASK_OCCURRENCE;
    t.parent = uuid_next(&w->ids, NOW);
    t.scheduled_ms = NOW - 3;
    t.version = 4;
    t.attempts = 2;
    t.losses = 1;
    t.priority = 7;
    t.task_type = S("nightly");
    t.delivery = DELIVER_AT_MOST_ONCE;
    t.timeout_ms = 30000;
    t.expires_after_ms = 60000;
    t.retry = (struct retry_policy){ 3, BACKOFF_FIXED, 7, 8, JITTER_NONE, S("[{\"on\":\"5xx\"}]") };
    t.target = TARGET_HTTP;
    t.target_config = S("{\"url\":\"https://a.example/\\u00e4\"}");
    t.extra = S("{\"metadata\":{\"k\":\"v\"}}");
    t.created_ms = NOW - 100000;
    struct task expected = t;
    t.payload = str_from(payload);
    push(w, &t, 1);
    payload[1] = 'X'; /* borrowed only for the call */
    struct tasks got = take_exactly(w, 0, 1);
    assert_same_delivery(&got.v[0], &expected);
}

static void deliveries_of_a_lane_come_in_the_order_they_were_pushed(void **state)
{
    needs(adapter_under_test->orders);
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    push(w, (struct task[]){ v[3], v[0] }, 2);
    push(w, (struct task[]){ v[2], v[1] }, 2);
    struct tasks first = take_exactly_with(w, 0, take_of(w, 0, 3), 3), rest = take_exactly(w, 1, 1);
    assert_same_delivery(&first.v[0], &v[3]);
    assert_same_delivery(&first.v[1], &v[0]);
    assert_same_delivery(&first.v[2], &v[2]);
    assert_same_delivery(&rest.v[0], &v[1]);
}

static void a_high_class_comes_first(void **state)
{
    needs(adapter_under_test->orders);
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    v[0].priority = 0;
    v[1].priority = 9;
    v[2].priority = 5;
    push(w, v, 3);
    struct tasks got = take_exactly(w, 0, 3);
    assert_same_delivery(&got.v[0], &v[1]);
    assert_same_delivery(&got.v[1], &v[2]);
    assert_same_delivery(&got.v[2], &v[0]);
}

static void a_high_priority_of_a_class_comes_first(void **state)
{
    needs(adapter_under_test->orders && !adapter_under_test->whole_classes);
    struct world *w = *state;
    static const int pushed[] = { 7, 9, 8, 9, 0, 3, 7, 4 }, expected[] = { 1, 3, 2, 0, 6, 7, 5, 4 };
    struct task v[array_count(pushed)];
    for (size_t i = 0; i < array_count(pushed); i++) {
        v[i] = some_task(w);
        v[i].priority = pushed[i];
    }
    push(w, v, array_count(v));
    struct tasks got = take_exactly(w, 0, array_count(v));
    for (size_t i = 0; i < array_count(v); i++)
        assert_same_delivery(&got.v[i], &v[expected[i]]);
}

static void no_more_come_than_were_asked_for(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    push(w, v, 3);
    struct take two = take_of(w, 0, 2);
    two.wait_ms = 1000;
    assert_in_range(take_with(w, 0, &two).tasks.n, 1, 2);
}

static void a_delivery_goes_to_one_worker(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_exactly(w, 0, 1);
    take_none(w, 1);
    take_none(w, 0);
}

static void several_workers_share_what_is_pushed(void **state)
{
    struct world *w = *state;
    enum { COUNT = 30 };
    struct task v[COUNT];
    bool came[COUNT] = { 0 };
    for (int i = 0; i < COUNT; i++) {
        v[i] = some_task(w);
        v[i].timeout_ms = i; /* its place in the order */
    }
    push(w, v, COUNT);
    for (int i = 0; i < COUNT; i++) {
        struct tasks one = take_exactly(w, i % WORKERS, 1);
        assert_false(came[one.v[0].timeout_ms]);
        came[one.v[0].timeout_ms] = true;
        ack(w, i % WORKERS, &one.v[0]);
    }
    take_none(w, 0);
}

static void an_empty_queue_gives_nothing(void **state)
{
    struct world *w = *state;
    take_none(w, 0);
    assert_int_equal(time_out_now(w).n, 0);
    assert_int_equal(queue_depth(w->queue), 0);
}

static void who_has_no_slot_gets_nothing(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_none_with(w, 0, take_of(w, 0, 0));
    take_exactly(w, 0, 1);
}

static void depth_counts_what_waits(void **state)
{
    needs(adapter_under_test->counts && adapter_under_test->recalls);
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    push(w, v, 3);
    assert_int_equal(queue_depth(w->queue), 3);
    struct tasks got = take_exactly(w, 0, 1);
    assert_int_equal(queue_depth(w->queue), 2);
    assert_true(recall(w, &v[2]));
    assert_int_equal(queue_depth(w->queue), 1);
    ack(w, 0, &got.v[0]);
    assert_int_equal(queue_depth(w->queue), 1);
}

static void who_looks_sees_how_many_wait_and_run(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    struct queue_state before = { 0 }, after = { 0 };
    struct error e = { 0 };
    push(w, v, 3);
    take_exactly(w, 0, 1);
    assert_ok(queue_stats(w->queue, &before, &e), &e);
    if (adapter_under_test->knows) {
        assert_int_equal(before.waiting, 2);
        assert_int_equal(before.delivered, 1);
    }
    assert_true(before.timeout_max_ms > 0);
    take_exactly(w, 0, 2);
    assert_ok(queue_stats(w->workers[1].handle, &after, &e), &e);
    assert_true(before.epoch == after.epoch);
}

static uint64_t epoch_now(struct world *w)
{
    struct queue_state state = { 0 };
    struct error e = { 0 };
    assert_ok(queue_stats(w->workers[1].handle, &state, &e), &e);
    assert_true(state.epoch != 0);
    return state.epoch;
}

static void a_push_tells_the_epoch_that_a_look_shows(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    struct pushed first, second;
    struct error e = { 0 };
    assert_ok(queue_push(w->queue, v, 1, 0, &first, &e), &e);
    assert_true(first.epoch == epoch_now(w));
    assert_ok(queue_push(w->queue, v + 1, 1, first.epoch, &second, &e), &e);
    assert_true(second.epoch == first.epoch && epoch_now(w) == first.epoch);
    take_exactly(w, 0, 2);
}

static void what_is_meant_for_another_epoch_is_not_pushed(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct pushed pushed;
    struct error e = { 0 };
    uint64_t epoch = epoch_now(w);
    assert_int_equal(queue_push(w->queue, &t, 1, epoch + 1, &pushed, &e), ERR_CONFLICT);
    assert_false(pushed.unsure);
    assert_true(pushed.epoch == epoch);
    take_none(w, 0);
    assert_ok(queue_push(w->queue, &t, 1, pushed.epoch, &pushed, &e), &e);
    take_exactly(w, 0, 1);
}

/* Except for a delivery that a worker of the same process has. */
static void a_queue_that_can_not_tell_knows_what_was_pushed_in_its_epoch(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    struct fenced_id ids[] = { id_of(&v[0]), id_of(&v[1]), id_of(&v[2]) };
    struct error e = { 0 };
    uint64_t epoch = epoch_now(w), epochs[] = { epoch, epoch + 1, 0 };
    bool known[3];
    push(w, v, 1);
    assert_ok(queue_known(w->queue, ids, epochs, 3, known, &e), &e);
    assert_true(known[0]);
    assert_false(known[1]);
    assert_int_equal(known[2], !adapter_under_test->knows);
}

static void what_was_recalled_is_not_delivered(void **state)
{
    needs(adapter_under_test->recalls);
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    push(w, v, 3);
    assert_true(recall(w, &v[1]));
    assert_false(recall(w, &v[1]));
    struct tasks got = take_exactly(w, 0, 2);
    assert_same_delivery(&got.v[0], &v[0]);
    assert_same_delivery(&got.v[1], &v[2]);
    assert_false(is_known(w, &v[1]) && adapter_under_test->knows);
}

static void what_was_delivered_cannot_be_recalled(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_exactly(w, 0, 1);
    assert_false(recall(w, &t));
    worker_dies(w, 0);
    timed_out_exactly(w, 1); /* it still waited */
    assert_false(recall(w, &t));
}

static void another_fence_is_another_delivery(void **state)
{
    struct world *w = *state;
    struct task old = some_task(w), new = old;
    new.fence = 2;
    push(w, (struct task[]){ old, new }, 2);
    if (adapter_under_test->recalls) {
        assert_true(recall(w, &old));
    } else {
        ack(w, 0, &take_exactly_with(w, 0, take_of(w, 0, 1), 1).v[0]);
    }
    struct tasks got = take_exactly(w, 0, 1);
    ack(w, 0, got.v[0].fence == 2 ? &old : &new);
    worker_dies(w, 0);
    timed_out_exactly(w, 1);
}

static void a_delivery_pushed_again_counts_once(void **state)
{
    struct world *w = *state;
    needs(w->queue->ops->push_again);
    struct task t = some_task(w);
    push(w, &t, 1);
    push(w, (struct task[]){ t, t }, 2);
    take_exactly_with(w, 0, take_of(w, 0, 10), 1);
    push(w, &t, 1); /* a worker has it already */
    take_none(w, 0);
    take_none(w, 1);
}

static void what_is_there_is_known_until_it_is_acknowledged(void **state)
{
    needs(adapter_under_test->knows);
    struct world *w = *state;
    struct task t = some_task(w), other = some_task(w);
    push(w, &t, 1);
    assert_true(is_known(w, &t));
    assert_false(is_known(w, &other));
    take_exactly(w, 0, 1);
    assert_true(is_known(w, &t));
    ack(w, 0, &t);
    assert_false(is_known(w, &t));
}

static void an_acknowledged_delivery_is_gone(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_exactly(w, 0, 1);
    ack(w, 0, &t);
    ack(w, 0, &t); /* unknown by now: succeeds */
    worker_dies(w, 0);
    assert_int_equal(time_out_now(w).n, 0);
    take_none(w, 1);
}

static void an_ack_of_what_waits_changes_nothing(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    ack(w, 0, &t);
    take_exactly(w, 0, 1);
}

static void an_arena_too_small_gets_what_fits(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_big_task(w), some_big_task(w) };
    push(w, v, 2);
    struct take t = take_of(w, 0, 2);
    t.wait_ms = 1000;
    struct taken got = { 0 };
    struct error e = { 0 };
    cleanup_with(arena_release) struct arena small;
    cleanup_with(arena_release) struct arena none;
    arena_init(&none, 100);
    arena_init(&small, 34000);
    assert_int_equal(queue_take(w->workers[0].handle, &t, &none, &got, &e), ERR_LIMIT);
    assert_ok(queue_take(w->workers[0].handle, &t, &small, &got, &e), &e);
    assert_int_equal(got.tasks.n, 1);
    assert_int_equal(take_exactly_with(w, 0, t, 1).n, 1);
}

static void many_at_once_all_come(void **state)
{
    struct world *w = *state;
    enum { MANY = 2500 };
    struct task *v = xcalloc(MANY, sizeof *v);
    for (int i = 0; i < MANY; i++)
        v[i] = some_task(w);
    push(w, v, MANY);
    struct take t = take_of(w, 0, TAKE_MAX);
    t.visibility_ms = 60000;
    struct tasks got = take_exactly_with(w, 0, t, MANY);
    struct fenced_id *ids = xcalloc(MANY, sizeof *ids);
    for (int i = 0; i < MANY; i++)
        ids[i] = id_of(&got.v[i]);
    struct error e = { 0 };
    assert_ok(queue_ack(w->workers[0].handle, ids, MANY, &e), &e);
    take_none(w, 0);
    free(ids);
    free(v);
}

static const struct CMUnitTest tests[] = {
    queue_test(a_task_is_delivered_whole),
    queue_test(deliveries_of_a_lane_come_in_the_order_they_were_pushed),
    queue_test(a_high_class_comes_first),
    queue_test(a_high_priority_of_a_class_comes_first),
    queue_test(no_more_come_than_were_asked_for),
    queue_test(a_delivery_goes_to_one_worker),
    queue_test(several_workers_share_what_is_pushed),
    queue_test(an_empty_queue_gives_nothing),
    queue_test(who_has_no_slot_gets_nothing),
    queue_test(depth_counts_what_waits),
    queue_test(who_looks_sees_how_many_wait_and_run),
    queue_test(a_push_tells_the_epoch_that_a_look_shows),
    queue_test(what_is_meant_for_another_epoch_is_not_pushed),
    queue_test(a_queue_that_can_not_tell_knows_what_was_pushed_in_its_epoch),
    queue_test(what_was_recalled_is_not_delivered),
    queue_test(what_was_delivered_cannot_be_recalled),
    queue_test(another_fence_is_another_delivery),
    queue_test(a_delivery_pushed_again_counts_once),
    queue_test(what_is_there_is_known_until_it_is_acknowledged),
    queue_test(an_acknowledged_delivery_is_gone),
    queue_test(an_ack_of_what_waits_changes_nothing),
    queue_test(an_arena_too_small_gets_what_fits),
    queue_test(many_at_once_all_come),
};
const struct test_list delivery_tests = { tests, array_count(tests) };

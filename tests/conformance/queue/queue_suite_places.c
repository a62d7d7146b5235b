/* A place that a worker keeps for a class goes to no lower one (rule 8), and queue_unblock ends a wait (rule 15). */
#include <pthread.h>
#include <stdatomic.h>

#include "queue_world.h"

enum { A_LONG_MS = 20000 };

static struct take keeping(struct world *w, int worker, size_t max, size_t normal, size_t high)
{
    struct take t = take_of(w, worker, max);
    t.kept[CLASS_NORMAL] = normal;
    t.kept[CLASS_HIGH] = high;
    return t;
}

static struct task of_priority(struct world *w, int priority)
{
    struct task t = some_task(w);
    t.priority = priority;
    return t;
}

static void push_some(struct world *w, int priority, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct task t = of_priority(w, priority);
        push(w, &t, 1);
    }
}

static void a_lower_class_leaves_what_is_kept(void **state)
{
    struct world *w = *state;
    push_some(w, 3, 5);
    take_exactly_with(w, 0, keeping(w, 0, 4, 1, 1), 2);
    take_none_with(w, 0, keeping(w, 0, 2, 1, 1));
    push_some(w, 4, 3);
    struct tasks got = take_exactly_with(w, 0, keeping(w, 0, 2, 1, 1), 1);
    assert_int_equal(got.v[0].priority, 4);
    take_none_with(w, 0, keeping(w, 0, 1, 0, 1));
    push_some(w, 7, 2);
    got = take_exactly_with(w, 0, keeping(w, 0, 1, 0, 1), 1);
    assert_int_equal(got.v[0].priority, 7);
}

/* A place that is kept for a class may go to a higher one. */
static void a_higher_class_takes_what_is_kept_for_a_lower_one(void **state)
{
    struct world *w = *state;
    push_some(w, 9, 3);
    take_exactly_with(w, 0, keeping(w, 0, 3, 3, 0), 3);
}

static void who_keeps_more_than_it_has_takes_the_highest_only(void **state)
{
    struct world *w = *state;
    push_some(w, 0, 2);
    push_some(w, 5, 2);
    take_none_with(w, 0, keeping(w, 0, 2, 100, 100));
    push_some(w, 9, 1);
    struct tasks got = take_exactly_with(w, 0, keeping(w, 0, 2, 100, 100), 1);
    assert_int_equal(got.v[0].priority, 9);
}

static void places_are_filled_by_the_highest_that_wait(void **state)
{
    needs(adapter_under_test->orders);
    struct world *w = *state;
    size_t came[CLASSES] = { 0 };
    push_some(w, 0, 5);
    push_some(w, 5, 2);
    push_some(w, 8, 2);
    struct tasks got = take_exactly_with(w, 0, keeping(w, 0, 6, 1, 3), 5); /* one is kept for a third high one */
    for (size_t i = 0; i < got.n; i++)
        came[priority_class_of(got.v[i].priority)]++;
    assert_int_equal(came[CLASS_HIGH], 2);
    assert_int_equal(came[CLASS_NORMAL], 2);
    assert_int_equal(came[CLASS_LOW], 1);
}

/* More than an adapter takes in one step. */
static void many_places_are_kept_exactly(void **state)
{
    struct world *w = *state;
    struct task v[500];
    for (size_t i = 0; i < array_count(v); i++)
        v[i] = of_priority(w, 2);
    push(w, v, array_count(v));
    struct take t = keeping(w, 0, 500, 60, 60);
    size_t came = 0;
    t.wait_ms = 100;
    for (size_t n = 1; n; came += n) {
        n = take_with(w, 0, &t).tasks.n;
        t.max -= n;
    }
    assert_int_equal(came, 380);
}

/* ---- workers that wait ---- */

struct waiter {
    pthread_t thread;
    struct world *w;
    struct queue *handle;
    struct take ask;
    size_t came;
    int64_t took_ms;
    _Atomic bool begun, over;
};

static void *wait_for_tasks(void *context)
{
    struct waiter *x = context;
    struct arena a;
    struct taken got = { 0 };
    struct error e = { 0 };
    int64_t since_ms = monotonic_ms();
    arena_init(&a, 1 << 24);
    x->begun = true;
    assert_ok(queue_take(x->handle, &x->ask, &a, &got, &e), &e);
    x->took_ms = monotonic_ms() - since_ms;
    x->came = got.tasks.n;
    x->over = true;
    arena_release(&a);
    return NULL;
}

/* A thread begins late on a busy machine: what the test does next is meant for one that waits. */
static void start_waiting(struct world *w, int worker, struct waiter *x, struct take ask, int64_t wait_ms)
{
    x->w = w;
    x->handle = w->workers[worker].handle;
    x->ask = ask;
    x->ask.wait_ms = wait_ms;
    x->begun = x->over = false;
    assert_int_equal(pthread_create(&x->thread, NULL, wait_for_tasks, x), 0);
    while (!x->begun)
        pass(w, 1);
}

static void stop_waiting(struct waiter *x)
{
    assert_int_equal(pthread_join(x->thread, NULL), 0);
}

/* Worker 0 waits longer than worker 1, and did so with a place for everything before. */
static void who_has_no_place_for_a_task_is_not_woken_by_it(void **state)
{
    needs(adapter_under_test->own_clock);
    struct world *w = *state;
    struct waiter full = { 0 }, has_room = { 0 };
    push_some(w, 0, 1); /* RabbitMQ: its route is known to both */
    take_exactly(w, 1, 1);
    for (int i = 0; i < 4; i++) {
        take_none_with(w, 0, take_of(w, 0, 1));
        start_waiting(w, 0, &full, keeping(w, 0, 2, 1, 1), 300);
        pass(w, 50);
        start_waiting(w, 1, &has_room, take_of(w, 1, 1), A_LONG_MS);
        pass(w, 50);
        push_some(w, 0, 1);
        stop_waiting(&has_room);
        assert_int_equal(has_room.came, 1);
        assert_in_range(has_room.took_ms, 0, 1000);
        stop_waiting(&full);
        assert_int_equal(full.came, 0);
        assert_true(full.took_ms >= 299);
    }
}

static void who_keeps_a_place_is_woken_for_its_class(void **state)
{
    needs(adapter_under_test->own_clock);
    struct world *w = *state;
    struct waiter full = { 0 };
    push_some(w, 9, 1);
    take_exactly(w, 0, 1);
    start_waiting(w, 0, &full, keeping(w, 0, 1, 0, 1), A_LONG_MS);
    pass(w, 100);
    push_some(w, 9, 1);
    stop_waiting(&full);
    assert_int_equal(full.came, 1);
    assert_in_range(full.took_ms, 0, 1500);
}

static void unblock(struct world *w, struct queue *handle, int worker)
{
    struct error e = { 0 };
    assert_ok(queue_unblock(handle, w->workers[worker].id, &e), &e);
}

static void a_wait_that_is_unblocked_ends(void **state)
{
    needs(adapter_under_test->own_clock);
    struct world *w = *state;
    struct waiter x = { 0 };
    struct queue *twin = adapter_under_test->twin(w->workers[0].handle, w->prefix);
    push_some(w, 0, 1);
    take_exactly(w, 0, 1);
    start_waiting(w, 0, &x, take_of(w, 0, 1), A_LONG_MS);
    pass(w, 200);
    assert_false(x.over);
    unblock(w, twin, 0);
    stop_waiting(&x);
    assert_int_equal(x.came, 0);
    assert_in_range(x.took_ms, 150, 2000);
    adapter_under_test->close(twin);
}

static void a_take_that_was_unblocked_before_it_began_does_not_wait(void **state)
{
    needs(adapter_under_test->own_clock);
    struct world *w = *state;
    struct queue *twin = adapter_under_test->twin(w->workers[0].handle, w->prefix);
    push_some(w, 0, 1);
    take_exactly(w, 0, 1);
    struct take t = take_of(w, 0, 1);
    t.wait_ms = A_LONG_MS;
    int64_t since_ms = monotonic_ms();
    unblock(w, twin, 0);
    assert_int_equal(take_with(w, 0, &t).tasks.n, 0);
    assert_in_range(monotonic_ms() - since_ms, 0, 2000);
    t.wait_ms = 300; /* once is once */
    since_ms = monotonic_ms();
    assert_int_equal(take_with(w, 0, &t).tasks.n, 0);
    assert_true(monotonic_ms() - since_ms >= 299);
    adapter_under_test->close(twin);
}

static void a_take_that_was_unblocked_brings_what_waits(void **state)
{
    struct world *w = *state;
    struct queue *twin = adapter_under_test->twin(w->workers[0].handle, w->prefix);
    push_some(w, 0, 1);
    unblock(w, twin, 0);
    take_exactly(w, 0, 1);
    adapter_under_test->close(twin);
}

static const struct CMUnitTest tests[] = {
    queue_test(a_lower_class_leaves_what_is_kept),
    queue_test(a_higher_class_takes_what_is_kept_for_a_lower_one),
    queue_test(who_keeps_more_than_it_has_takes_the_highest_only),
    queue_test(places_are_filled_by_the_highest_that_wait),
    queue_test(many_places_are_kept_exactly),
    queue_test(who_has_no_place_for_a_task_is_not_woken_by_it),
    queue_test(who_keeps_a_place_is_woken_for_its_class),
    queue_test(a_wait_that_is_unblocked_ends),
    queue_test(a_take_that_was_unblocked_before_it_began_does_not_wait),
    queue_test(a_take_that_was_unblocked_brings_what_waits),
};
const struct test_list places_tests = { tests, array_count(tests) };

/* A worker gets only tasks that its filter accepts and that fit into its room; a suspect comes alone. */
#include "queue_world.h"

/* Of these tasks the filter accepts only the last. */
static void only_the_last_comes(struct world *w, const struct queue_filter *f, const struct task *v, size_t n)
{
    push(w, v, n);
    struct take t = take_of(w, 0, 10);
    t.filter = f;
    struct tasks got = take_exactly_with(w, 0, t, 1);
    assert_same_delivery(&got.v[0], &v[n - 1]);
    take_none_with(w, 0, t);
}

/* A task that one worker's filter rejects is delivered to another worker. */
static void the_rest_comes_to_who_takes_all(struct world *w, size_t n)
{
    const struct str labels[] = { S("gpu"), S("x86") };
    struct queue_filter all = { .priority_max = PRIORITY_MAX, .labels = labels, .label_count = 2 };
    struct take t = take_of(w, 1, 10);
    t.filter = &all;
    take_exactly_with(w, 1, t, n);
}

static void a_worker_gets_only_its_queues(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    const struct str queues[] = { S("reports"), S("mail") };
    struct queue_filter f = { .queues = queues, .queue_count = 2, .priority_max = PRIORITY_MAX };
    v[0].queue = S("other");
    v[2].queue = S("mail");
    only_the_last_comes(w, &f, v, 3);
    the_rest_comes_to_who_takes_all(w, 2);
}

static void a_worker_gets_only_its_tenants(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    const struct str tenants[] = { S("tenant-4"), S("tenant-7") };
    struct queue_filter f = { .tenants = tenants, .tenant_count = 2, .priority_max = PRIORITY_MAX };
    v[1].tenant = 77;
    v[2].tenant = 7;
    only_the_last_comes(w, &f, v, 3);
    the_rest_comes_to_who_takes_all(w, 2);
}

static void a_worker_gets_only_its_priorities(void **state)
{
    needs(!adapter_under_test->whole_classes);
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    struct queue_filter f = { .priority_min = 2, .priority_max = 4 };
    v[0].priority = 1;
    v[1].priority = 5;
    v[2].priority = 4;
    only_the_last_comes(w, &f, v, 3);
    the_rest_comes_to_who_takes_all(w, 2);
}

static void a_worker_gets_only_its_classes(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    struct queue_filter f = { .priority_min = 4, .priority_max = 6 };
    v[0].priority = 3;
    v[1].priority = 7;
    v[2].priority = 6;
    only_the_last_comes(w, &f, v, 3);
    the_rest_comes_to_who_takes_all(w, 2);
}

static void a_worker_gets_what_requires_none_but_its_labels(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    const struct str labels[] = { S("gpu"), S("eu") };
    struct queue_filter f = { .priority_max = PRIORITY_MAX, .labels = labels, .label_count = 2 };
    v[0].requires = S("gpu,x86");
    v[1].requires = S("x86");
    v[2].requires = S("gpu");
    only_the_last_comes(w, &f, v, 3);
    the_rest_comes_to_who_takes_all(w, 2);
}

static void who_has_no_filter_gets_what_requires_no_labels(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    v[0].requires = S("gpu");
    only_the_last_comes(w, NULL, v, 2);
    the_rest_comes_to_who_takes_all(w, 1);
}

/* Tasks pushed before a worker came, and while it waits. */
static void what_one_filter_stops_another_lets_through(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    const struct str mail[] = { S("mail") }, reports[] = { S("reports") };
    struct queue_filter a = { .queues = mail, .queue_count = 1, .priority_max = PRIORITY_MAX };
    struct queue_filter b = { .queues = reports, .queue_count = 1, .priority_max = PRIORITY_MAX };
    v[0].queue = v[2].queue = mail[0];
    v[1].queue = v[3].queue = reports[0];
    struct take of_a = take_of(w, 0, 10), of_b = take_of(w, 1, 10);
    of_a.filter = &a;
    of_b.filter = &b;
    for (int i = 0; i < 4; i += 2) {
        push(w, v + i, 2);
        struct tasks got_b = take_exactly_with(w, 1, of_b, 1), got_a = take_exactly_with(w, 0, of_a, 1);
        assert_same_delivery(&got_a.v[0], &v[i]);
        assert_same_delivery(&got_b.v[0], &v[i + 1]);
    }
}

static void only_what_fits_into_the_room_comes(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    v[0].cpu_milli = 1001;
    v[1].memory_mb = 129;
    v[2].cpu_milli = 1000;
    v[2].memory_mb = 128;
    push(w, v, 3);
    struct take t = take_of(w, 0, 10);
    t.cpu_milli = 1000;
    t.memory_mb = 128;
    struct tasks got = take_exactly_with(w, 0, t, 1);
    assert_same_delivery(&got.v[0], &v[2]);
    take_none_with(w, 0, t);
    take_exactly_with(w, 1, take_of(w, 1, 10), 2); /* a worker without a limit */
}

static void several_together_fit_into_the_room(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    v[0].cpu_milli = v[1].cpu_milli = v[2].cpu_milli = 400;
    push(w, v, 4);
    struct take t = take_of(w, 0, 10);
    t.cpu_milli = 1000;
    t.wait_ms = 1000;
    size_t milli = 0, n = 0;
    for (struct tasks got = take_with(w, 0, &t).tasks; got.n; got = take_with(w, 0, &t).tasks, t.wait_ms = A_MOMENT_MS)
        for (size_t i = 0; i < got.n; i++, n++) {
            milli += (size_t)got.v[i].cpu_milli;
            t.cpu_milli -= got.v[i].cpu_milli;
        }
    assert_int_equal(milli, 800);
    assert_int_equal(n, 3); /* a task without resource requirements always fits */
}

static void a_suspect_comes_only_to_who_is_alone(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    v[0].losses = SUSPECT_LOSSES;
    push(w, v, 2);
    struct tasks got = take_exactly_with(w, 0, take_of(w, 0, 10), 1);
    assert_same_delivery(&got.v[0], &v[1]);
    take_none(w, 0);
    struct take alone = take_of(w, 1, 10);
    alone.alone = true;
    got = take_exactly_with(w, 1, alone, 1);
    assert_same_delivery(&got.v[0], &v[0]);
}

static void nothing_comes_with_a_suspect(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    v[0].losses = v[2].losses = SUSPECT_LOSSES;
    push(w, v, 4);
    struct take alone = take_of(w, 0, 10);
    alone.alone = true;
    alone.wait_ms = 1000;
    size_t came = 0;
    for (int i = 0; i < 10 && came < 4; i++) {
        struct tasks got = take_with(w, 0, &alone).tasks;
        for (size_t k = 0; k < got.n; k++)
            assert_true(got.n == 1 || !task_is_suspect(&got.v[k]));
        for (size_t k = 0; k < got.n; k++)
            ack(w, 0, &got.v[k]);
        came += got.n;
    }
    assert_int_equal(came, 4);
}

static void a_suspect_that_lapses_was_alone(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    t.losses = SUSPECT_LOSSES;
    push(w, &t, 1);
    struct take alone = take_of(w, 0, 10);
    alone.alone = true;
    take_exactly_with(w, 0, alone, 1);
    worker_dies(w, 0);
    struct delivery_timeouts gone = timed_out_exactly(w, 1);
    assert_true(gone.v[0].fired && gone.v[0].alone);
}

static const struct CMUnitTest tests[] = {
    queue_test(a_worker_gets_only_its_queues),
    queue_test(a_worker_gets_only_its_tenants),
    queue_test(a_worker_gets_only_its_priorities),
    queue_test(a_worker_gets_only_its_classes),
    queue_test(a_worker_gets_what_requires_none_but_its_labels),
    queue_test(who_has_no_filter_gets_what_requires_no_labels),
    queue_test(what_one_filter_stops_another_lets_through),
    queue_test(only_what_fits_into_the_room_comes),
    queue_test(several_together_fit_into_the_room),
    queue_test(a_suspect_comes_only_to_who_is_alone),
    queue_test(nothing_comes_with_a_suspect),
    queue_test(a_suspect_that_lapses_was_alone),
};
const struct test_list filter_tests = { tests, array_count(tests) };

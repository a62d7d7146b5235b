/* Holds each adapter to port/queue.h: queue_suite [adapter]. */
#include <stdio.h>
#include <stdlib.h>

#include "adapter/queue_memory.h"
#include "check.h"
#include "seed.h"
#include "task_eq.h"

#define NOW INT64_C(1770710400000)

struct queue_adapter {
    const char *name;
    struct queue *(*open)(void);
};

static const struct queue_adapter adapters[] = {
    { "memory", queue_memory_new },
};

static const struct queue_adapter *adapter_under_test;

struct world {
    struct queue *queue;
    struct arena arena;
    struct uuid_gen ids;
};

static int world_open(void **state)
{
    struct world *w = xnew(*w);
    w->queue = adapter_under_test->open();
    arena_init(&w->arena, 1 << 26);
    uuid_gen_init(&w->ids, 1);
    *state = w;
    return 0;
}

static int world_close(void **state)
{
    struct world *w = *state;
    queue_free(w->queue);
    arena_release(&w->arena);
    free(w);
    return 0;
}
#define queue_test(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)

static struct task some_task(struct world *w)
{
    return (struct task){ .id = uuid_next(&w->ids, NOW),
                          .tenant = 1,
                          .state = TASK_RUNNING,
                          .fence = 1,
                          .claim = uuid_next(&w->ids, NOW),
                          .due_ms = NOW,
                          .queue = S("default"),
                          .name = S("report"),
                          .payload = S("{\"a\":1}"),
                          .retry = RETRY_DEFAULT,
                          .target = TARGET_NOOP };
}

static struct delivery_id id_of(const struct task *t)
{
    return (struct delivery_id){ t->id, t->fence };
}

static void push(struct world *w, const struct task *v, size_t n)
{
    struct error e = { 0 };
    assert_ok(queue_push(w->queue, v, n, &e), &e);
}

/* Takes with a timeout of 100 ms. */
static struct tasks take_up_to(struct world *w, size_t max, int64_t now_ms)
{
    struct take t = { .max = max, .now_ms = now_ms, .visibility_ms = 100, .worker = uuid_next(&w->ids, NOW) };
    struct tasks ret = { 0 };
    struct error e = { 0 };
    assert_ok(queue_take(w->queue, &t, &w->arena, &ret, &e), &e);
    return ret;
}

static struct tasks lapsed_at(struct world *w, int64_t now_ms)
{
    struct tasks ret = { 0 };
    struct error e = { 0 };
    assert_ok(queue_lapsed(w->queue, now_ms, &w->arena, &ret, &e), &e);
    return ret;
}

static bool recall(struct world *w, struct delivery_id d)
{
    bool recalled = false;
    struct error e = { 0 };
    assert_ok(queue_recall(w->queue, d, &recalled, &e), &e);
    return recalled;
}

static void ack(struct world *w, const struct task *t)
{
    struct delivery_id d = id_of(t);
    struct error e = { 0 };
    assert_ok(queue_ack(w->queue, &d, 1, &e), &e);
}

static void renew(struct world *w, const struct task *t, int64_t until_ms)
{
    struct delivery_id d = id_of(t);
    struct error e = { 0 };
    assert_ok(queue_renew(w->queue, &d, 1, until_ms, &e), &e);
}

static void a_task_is_delivered_whole(void **state)
{
    struct world *w = *state;
    char payload[] = "{\"a\":1}";
    struct task t = some_task(w), expected = t;
    t.payload = str_from(payload);
    push(w, &t, 1);
    payload[1] = 'X'; /* it was borrowed for the call */
    struct tasks got = take_up_to(w, 10, NOW);
    assert_int_equal(got.n, 1);
    assert_same_task(&got.v[0], &expected);
}

static void deliveries_come_in_the_order_they_were_pushed(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    push(w, (struct task[]){ v[3], v[0] }, 2);
    push(w, (struct task[]){ v[2], v[1] }, 2);
    struct tasks first = take_up_to(w, 3, NOW), rest = take_up_to(w, 3, NOW);
    assert_int_equal(first.n, 3);
    assert_same_task(&first.v[0], &v[3]);
    assert_same_task(&first.v[1], &v[0]);
    assert_same_task(&first.v[2], &v[2]);
    assert_int_equal(rest.n, 1);
    assert_same_task(&rest.v[0], &v[1]);
}

static void a_delivery_goes_to_one_worker(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    assert_int_equal(take_up_to(w, 10, NOW).n, 1);
    assert_int_equal(take_up_to(w, 10, NOW).n, 0);
}

static void an_empty_queue_gives_nothing(void **state)
{
    struct world *w = *state;
    assert_int_equal(take_up_to(w, 10, NOW).n, 0);
    assert_int_equal(lapsed_at(w, NOW).n, 0);
    assert_int_equal(queue_depth(w->queue), 0);
}

static void depth_counts_what_waits(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    push(w, v, 3);
    assert_int_equal(queue_depth(w->queue), 3);
    take_up_to(w, 1, NOW);
    assert_int_equal(queue_depth(w->queue), 2);
    assert_true(recall(w, id_of(&v[2])));
    assert_int_equal(queue_depth(w->queue), 1);
    lapsed_at(w, NOW + 100);
    assert_int_equal(queue_depth(w->queue), 1);
}

static void a_silent_delivery_lapses_at_its_timeout(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_up_to(w, 1, NOW);
    assert_int_equal(lapsed_at(w, NOW + 99).n, 0);
    struct tasks gone = lapsed_at(w, NOW + 100);
    assert_int_equal(gone.n, 1);
    assert_same_task(&gone.v[0], &t);
}

static void a_lapse_is_reported_once_and_never_delivered_again(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_up_to(w, 1, NOW);
    assert_int_equal(take_up_to(w, 1, NOW + 1000).n, 0);
    assert_int_equal(lapsed_at(w, NOW + 1000).n, 1);
    assert_int_equal(lapsed_at(w, NOW + 2000).n, 0);
    assert_int_equal(take_up_to(w, 1, NOW + 2000).n, 0);
    renew(w, &t, NOW + 5000); /* the worker wakes up: too late */
    ack(w, &t);
    assert_int_equal(lapsed_at(w, NOW + 9000).n, 0);
}

static void what_waits_does_not_lapse(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    renew(w, &t, NOW - 5);
    assert_int_equal(lapsed_at(w, NOW + 1000000).n, 0);
    assert_int_equal(take_up_to(w, 1, NOW).n, 1);
}

static void a_renewed_delivery_lapses_later(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 2);
    take_up_to(w, 2, NOW);
    renew(w, &v[0], NOW + 500);
    struct tasks gone = lapsed_at(w, NOW + 499);
    assert_int_equal(gone.n, 1);
    assert_same_task(&gone.v[0], &v[1]);
    gone = lapsed_at(w, NOW + 500);
    assert_int_equal(gone.n, 1);
    assert_same_task(&gone.v[0], &v[0]);
}

static void a_lapse_not_yet_reported_can_be_renewed_or_acknowledged(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w) };
    push(w, v, 2);
    take_up_to(w, 2, NOW);
    renew(w, &v[0], NOW + 900);
    ack(w, &v[1]);
    assert_int_equal(lapsed_at(w, NOW + 899).n, 0);
    assert_int_equal(lapsed_at(w, NOW + 900).n, 1);
}

static void an_acknowledged_delivery_is_gone(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_up_to(w, 1, NOW);
    ack(w, &t);
    ack(w, &t); /* unknown by now, and fine */
    assert_int_equal(lapsed_at(w, NOW + 1000).n, 0);
    assert_int_equal(take_up_to(w, 1, NOW).n, 0);
}

static void an_ack_of_what_waits_changes_nothing(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    ack(w, &t);
    assert_int_equal(take_up_to(w, 1, NOW).n, 1);
}

static void what_was_recalled_is_not_delivered(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w) };
    push(w, v, 3);
    assert_true(recall(w, id_of(&v[1])));
    assert_false(recall(w, id_of(&v[1])));
    struct tasks got = take_up_to(w, 10, NOW);
    assert_int_equal(got.n, 2);
    assert_same_task(&got.v[0], &v[0]);
    assert_same_task(&got.v[1], &v[2]);
}

static void what_was_delivered_cannot_be_recalled(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    take_up_to(w, 1, NOW);
    assert_false(recall(w, id_of(&t)));
    assert_int_equal(lapsed_at(w, NOW + 100).n, 1); /* and it still is where it was */
    assert_false(recall(w, id_of(&t)));
}

static void another_fence_is_another_delivery(void **state)
{
    struct world *w = *state;
    struct task old = some_task(w), new = old;
    new.fence = 2;
    push(w, (struct task[]){ old, new }, 2);
    assert_true(recall(w, id_of(&old)));
    struct tasks got = take_up_to(w, 10, NOW);
    assert_int_equal(got.n, 1);
    assert_int_equal(got.v[0].fence, 2);
    ack(w, &old);
    assert_int_equal(lapsed_at(w, NOW + 100).n, 1);
}

static void a_delivery_pushed_again_counts_once(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    push(w, &t, 1);
    push(w, (struct task[]){ t, t }, 2);
    assert_int_equal(take_up_to(w, 10, NOW).n, 1);
    push(w, &t, 1); /* its worker has it */
    assert_int_equal(take_up_to(w, 10, NOW).n, 0);
}

static void an_arena_too_small_gets_what_fits(void **state)
{
    struct world *w = *state;
    static char big[20000];
    memset(big, 'x', sizeof big);
    struct task v[] = { some_task(w), some_task(w) };
    v[0].payload = v[1].payload = (struct str){ big, sizeof big };
    push(w, v, 2);
    struct take t = { .max = 2, .now_ms = NOW, .visibility_ms = 100 };
    struct tasks got = { 0 };
    struct error e = { 0 };
    cleanup_with(arena_release) struct arena small;
    cleanup_with(arena_release) struct arena none;
    arena_init(&none, 100);
    arena_init(&small, 30000);
    assert_int_equal(queue_take(w->queue, &t, &none, &got, &e), ERR_LIMIT);
    assert_int_equal(queue_depth(w->queue), 2);
    assert_ok(queue_take(w->queue, &t, &small, &got, &e), &e);
    assert_int_equal(got.n, 1);
    assert_int_equal(queue_depth(w->queue), 1);
    assert_int_equal(take_up_to(w, 2, NOW).n, 1);
    assert_int_equal(queue_lapsed(w->queue, NOW + 100, &none, &got, &e), ERR_LIMIT);
    arena_reset(&small);
    assert_ok(queue_lapsed(w->queue, NOW + 100, &small, &got, &e), &e);
    assert_int_equal(got.n, 1);
    assert_int_equal(lapsed_at(w, NOW + 100).n, 1);
}

/* Each of many tasks is delivered once; what is acknowledged is gone, the rest lapses, all of it, once. */
static void random_steps_lose_and_repeat_nothing(void **state)
{
    struct world *w = *state;
    struct prng r = seeded_prng("queue");
    enum { COUNT = 3000 };
    enum { WAITS, TAKEN, DONE, GONE } *is = xcalloc(COUNT, sizeof *is);
    struct task *v = xcalloc(COUNT, sizeof *v);
    size_t pushed = 0, lapses = 0, delivered = 0;
    for (int64_t now = NOW; now < NOW + 4000; now++) {
        for (size_t n = pushed < COUNT ? prng_below(&r, 3) : 0; n > 0 && pushed < COUNT; n--) {
            v[pushed] = some_task(w);
            v[pushed].timeout_ms = (int64_t)pushed; /* its place */
            push(w, &v[pushed++], 1);
        }
        struct tasks got = take_up_to(w, 1 + prng_below(&r, 2), now), gone = lapsed_at(w, now);
        for (size_t i = 0; i < got.n; i++) {
            assert_int_equal(is[got.v[i].timeout_ms], WAITS);
            assert_int_equal(got.v[i].timeout_ms, delivered++); /* nothing is recalled here: strictly in order */
            is[got.v[i].timeout_ms] = TAKEN;
        }
        for (size_t i = 0; i < gone.n; i++, lapses++) {
            assert_int_equal(is[gone.v[i].timeout_ms], TAKEN);
            is[gone.v[i].timeout_ms] = GONE;
        }
        size_t one = prng_below(&r, COUNT);
        if (is[one] == TAKEN) {
            is[one] = DONE;
            ack(w, &v[one]);
        }
        arena_reset(&w->arena);
    }
    assert_int_equal(delivered, COUNT);
    assert_true(lapses > 100);
    assert_int_equal(queue_depth(w->queue), 0);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(is[i] == DONE || is[i] == GONE);
    free(is);
    free(v);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        queue_test(a_task_is_delivered_whole),
        queue_test(deliveries_come_in_the_order_they_were_pushed),
        queue_test(a_delivery_goes_to_one_worker),
        queue_test(an_empty_queue_gives_nothing),
        queue_test(depth_counts_what_waits),
        queue_test(a_silent_delivery_lapses_at_its_timeout),
        queue_test(a_lapse_is_reported_once_and_never_delivered_again),
        queue_test(what_waits_does_not_lapse),
        queue_test(a_renewed_delivery_lapses_later),
        queue_test(a_lapse_not_yet_reported_can_be_renewed_or_acknowledged),
        queue_test(an_acknowledged_delivery_is_gone),
        queue_test(an_ack_of_what_waits_changes_nothing),
        queue_test(what_was_recalled_is_not_delivered),
        queue_test(what_was_delivered_cannot_be_recalled),
        queue_test(another_fence_is_another_delivery),
        queue_test(a_delivery_pushed_again_counts_once),
        queue_test(an_arena_too_small_gets_what_fits),
        queue_test(random_steps_lose_and_repeat_nothing),
    };
    for (size_t i = 0; i < array_count(adapters); i++)
        if (strcmp(argc > 1 ? argv[1] : "memory", adapters[i].name) == 0)
            adapter_under_test = &adapters[i];
    if (!adapter_under_test) {
        fprintf(stderr, "%s is no queue that was built\n", argv[1]);
        return 2;
    }
    return cmocka_run_group_tests_name(adapter_under_test->name, tests, NULL, NULL);
}

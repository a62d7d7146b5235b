/* Several updaters share the events. If one is gone, the events that it had polled come to the others. */
#include "events_world.h"

enum { TASKS = 20, EACH = 10, ALL = TASKS * EACH };

/* Which events of which task came to which updater. */
struct tally {
    struct world *w;
    struct uuid tasks[TASKS];
    int64_t seen[TASKS], acked[TASKS]; /* the latest fence; fences come as 1 … EACH */
    int holder[TASKS];                 /* the updater with unacknowledged events of the task */
    size_t came;
    struct event_list held[UPDATERS]; /* polled, not acknowledged */
};

static void tally_init(struct tally *t, struct world *w)
{
    *t = (struct tally){ .w = w };
    for (int i = 0; i < TASKS; i++)
        t->tasks[i] = uuid_next(&w->ids, NOW);
    for (int i = 0; i < UPDATERS; i++)
        t->held[i].v = arena_array(&w->arena, struct event, ALL);
}

static size_t index_of(const struct tally *t, const struct event *event)
{
    size_t i = 0;
    while (i < TASKS && !uuid_eq(t->tasks[i], event->task.id))
        i++;
    assert_true(i < TASKS);
    return i;
}

static void publish_round(struct tally *t, int64_t fence)
{
    struct event v[TASKS];
    for (int i = 0; i < TASKS; i++)
        v[i] = event_of(t->w, t->tasks[i], fence);
    publish(t->w, v, TASKS);
}

/* Each event comes once, in the order of its task, and no task is with two updaters at a time. */
static void poll_and_keep(struct tally *t, int updater)
{
    struct event_list got = poll_once(t->w, updater, 7, 20);
    for (size_t i = 0; i < got.n; i++) {
        size_t at = index_of(t, &got.v[i]);
        assert_int_equal(got.v[i].task.fence, t->seen[at] + 1);
        assert_true(t->acked[at] == t->seen[at] || t->holder[at] == updater);
        t->seen[at]++;
        t->holder[at] = updater;
        t->held[updater].v[t->held[updater].n++] = got.v[i];
        t->came++;
    }
}

static void ack_held(struct tally *t, int updater)
{
    struct event_list *held = &t->held[updater];
    for (size_t i = 0; i < held->n; i++) {
        ack(t->w, updater, &held->v[i]);
        t->acked[index_of(t, &held->v[i])] = held->v[i].task.fence;
    }
    held->n = 0;
}

static void several_updaters_share_and_keep_the_order_of_each_task(void **state)
{
    needs(adapter_under_test->several);
    struct world *w = *state;
    struct tally t;
    tally_init(&t, w);
    open_updater(w, 1);
    open_updater(w, 2);
    int64_t end = monotonic_ms() + ENOUGH_MS;
    for (int step = 0; t.came < ALL; step++) {
        if (step < EACH)
            publish_round(&t, step + 1);
        poll_and_keep(&t, step % UPDATERS);
        if (step % 5 == 0)
            ack_held(&t, step / 5 % UPDATERS);
        if (monotonic_ms() > end)
            fail_msg("%zu of %d came", t.came, ALL);
    }
    for (int i = 0; i < UPDATERS; i++) {
        ack_held(&t, i);
        poll_none(w, i);
    }
}

static void what_a_dead_updater_had_comes_to_the_others(void **state)
{
    needs(adapter_under_test->several);
    struct world *w = *state;
    publish_fences(w, 1, 5);
    struct event_list got = poll_exactly(w, 0, 4);
    ack(w, 0, &got.v[0]);
    struct events_barrier m = mark(w);
    updater_dies(w, 0);
    open_updater(w, 1);
    struct event_list rest = poll_exactly(w, 1, 4);
    assert_fences(&rest, 2, 5);
    for (size_t i = 0; i < rest.n; i++)
        ack(w, 1, &rest.v[i]);
    wait_passed(w, &m);
    poll_none(w, 1);
}

static void one_who_comes_later_gets_what_was_published_before(void **state)
{
    needs(adapter_under_test->several);
    struct world *w = *state;
    updater_dies(w, 0); /* before it has polled anything */
    publish_fences(w, 1, 3);
    open_updater(w, 1);
    struct event_list got = poll_exactly(w, 1, 3);
    assert_fences(&got, 1, 3);
}

static const struct CMUnitTest tests[] = {
    events_test(several_updaters_share_and_keep_the_order_of_each_task),
    events_test(what_a_dead_updater_had_comes_to_the_others),
    events_test(one_who_comes_later_gets_what_was_published_before),
};
const struct test_list updater_tests = { tests, array_count(tests) };

/* Holds each adapter to port/events.h: events_suite [adapter]. */
#include <stdio.h>
#include <stdlib.h>

#include "adapter/events_memory.h"
#include "check.h"
#include "seed.h"

#define NOW INT64_C(1770710400000)

struct events_adapter {
    const char *name;
    struct events *(*open)(void);
};

static const struct events_adapter adapters[] = {
    { "memory", events_memory_new },
};

static const struct events_adapter *adapter_under_test;

struct world {
    struct events *events;
    struct arena arena;
    struct uuid_gen ids;
};

static int world_open(void **state)
{
    struct world *w = xnew(*w);
    w->events = adapter_under_test->open();
    arena_init(&w->arena, 1 << 26);
    uuid_gen_init(&w->ids, 1);
    *state = w;
    return 0;
}

static int world_close(void **state)
{
    struct world *w = *state;
    events_free(w->events);
    arena_release(&w->arena);
    free(w);
    return 0;
}
#define events_test(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)

static struct event event_of_fence(struct world *w, int64_t fence)
{
    return (struct event){
        .task = { .id = uuid_next(&w->ids, NOW),
                  .parent = uuid_next(&w->ids, NOW),
                  .tenant = 3,
                  .kind = TASK_OCCURRENCE,
                  .fence = fence,
                  .scheduled_ms = NOW + 1,
                  .due_ms = NOW + 2,
                  .attempts = 4,
                  .losses = 5,
                  .delivery = DELIVER_AT_MOST_ONCE,
                  .expires_ms = NOW + 12,
                  .target = TARGET_WORKER,
                  .place = S("https://a.example"),
                  .retry = { 6, BACKOFF_FIXED, 7, 8, JITTER_NONE, S("[]") } },
        .outcome = { .kind = OUTCOME_FAILED,
                     .failure = FAILURE_HTTP,
                     .sent = true,
                     .alone = true,
                     .http_status = 503,
                     .retry_after_ms = 9,
                     .started_us = 10,
                     .completed_us = 11,
                     .error = S("HTTP 503"),
                     .output = S("later"),
                     .worker = S("node-1"),
                     .trace_id = S("4bf9") },
    };
}

static void publish(struct world *w, const struct event *v, size_t n)
{
    struct error e = { 0 };
    assert_ok(events_publish(w->events, v, n, &e), &e);
}

static void publish_fences(struct world *w, int64_t from, int64_t to)
{
    for (int64_t i = from; i <= to; i++) {
        struct event event = event_of_fence(w, i);
        publish(w, &event, 1);
    }
}

static struct event_list poll_up_to(struct world *w, size_t max)
{
    struct event_list ret = { 0 };
    struct error e = { 0 };
    assert_ok(events_poll(w->events, max, &w->arena, &ret, &e), &e);
    return ret;
}

static void reset(struct world *w)
{
    struct error e = { 0 };
    assert_ok(events_reset(w->events, &e), &e);
}

static void ack(struct world *w, uint64_t sequence)
{
    struct error e = { 0 };
    assert_ok(events_ack(w->events, &sequence, 1, &e), &e);
}

/* The list's fences are from … to. */
static void assert_fences(const struct event_list *l, int64_t from, int64_t to)
{
    assert_int_equal(l->n, to - from + 1);
    for (size_t i = 0; i < l->n; i++)
        assert_int_equal(l->v[i].task.fence, from + (int64_t)i);
}

static void an_event_comes_whole(void **state)
{
    struct world *w = *state;
    char text[] = "HTTP 503", place[] = "https://a.example";
    struct event event = event_of_fence(w, 2);
    event.outcome.error = str_from(text);
    event.task.place = str_from(place);
    publish(w, &event, 1);
    text[0] = place[0] = 'X'; /* they were borrowed for the call */
    struct event_list got = poll_up_to(w, 10);
    assert_int_equal(got.n, 1);
    const struct settle_facts *t = &got.v[0].task, *u = &event.task;
    assert_true(uuid_eq(t->id, u->id) && uuid_eq(t->parent, u->parent));
    assert_true(t->tenant == 3 && t->kind == TASK_OCCURRENCE && t->fence == 2 && t->scheduled_ms == NOW + 1);
    assert_true(t->due_ms == NOW + 2 && t->attempts == 4 && t->losses == 5 && t->delivery == DELIVER_AT_MOST_ONCE);
    assert_true(t->retry.max_attempts == 6 && t->retry.backoff == BACKOFF_FIXED && t->retry.base_delay_ms == 7);
    assert_true(t->retry.max_delay_ms == 8 && t->retry.jitter == JITTER_NONE);
    assert_str(t->retry.rules, "[]");
    assert_true(t->expires_ms == NOW + 12 && t->target == TARGET_WORKER);
    assert_str(t->place, "https://a.example");
    const struct outcome *o = &got.v[0].outcome;
    assert_true(o->kind == OUTCOME_FAILED && o->failure == FAILURE_HTTP && o->sent && o->alone &&
                o->http_status == 503);
    assert_true(o->retry_after_ms == 9 && o->started_us == 10 && o->completed_us == 11);
    assert_str(o->error, "HTTP 503");
    assert_str(o->output, "later");
    assert_str(o->worker, "node-1");
    assert_str(o->trace_id, "4bf9");
}

static void events_come_in_the_order_they_were_published(void **state)
{
    struct world *w = *state;
    struct event two[] = { event_of_fence(w, 1), event_of_fence(w, 2) };
    publish(w, two, 2);
    publish_fences(w, 3, 5);
    struct event_list first = poll_up_to(w, 3), rest = poll_up_to(w, 3);
    assert_fences(&first, 1, 3);
    assert_fences(&rest, 4, 5);
}

static void sequences_name_events_apart(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 3);
    struct event_list got = poll_up_to(w, 3);
    assert_true(got.v[0].sequence != got.v[1].sequence && got.v[1].sequence != got.v[2].sequence &&
                got.v[0].sequence != got.v[2].sequence);
}

static void nothing_published_gives_nothing(void **state)
{
    struct world *w = *state;
    assert_int_equal(poll_up_to(w, 10).n, 0);
    assert_int_equal(events_depth(w->events), 0);
    reset(w);
    assert_int_equal(poll_up_to(w, 10).n, 0);
}

static void what_was_polled_does_not_come_again_by_itself(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 1);
    assert_int_equal(poll_up_to(w, 10).n, 1);
    assert_int_equal(poll_up_to(w, 10).n, 0);
}

static void what_was_not_acknowledged_comes_again_after_a_reset(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 4);
    struct event_list got = poll_up_to(w, 3);
    ack(w, got.v[0].sequence);
    reset(w);
    struct event_list again = poll_up_to(w, 10);
    assert_fences(&again, 2, 4); /* in their order, those never polled behind */
    assert_true(again.v[0].sequence == got.v[1].sequence);
}

static void a_second_reset_brings_them_once_more(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 3);
    poll_up_to(w, 2);
    reset(w);
    poll_up_to(w, 1);
    reset(w);
    struct event_list again = poll_up_to(w, 10);
    assert_fences(&again, 1, 3);
}

static void what_was_acknowledged_never_comes_again(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 3);
    struct event_list got = poll_up_to(w, 3);
    uint64_t sequences[] = { got.v[2].sequence, got.v[0].sequence }; /* in any order */
    struct error e = { 0 };
    assert_ok(events_ack(w->events, sequences, 2, &e), &e);
    reset(w);
    struct event_list again = poll_up_to(w, 10);
    assert_fences(&again, 2, 2);
}

static void an_ack_that_comes_after_a_reset_holds(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 3);
    struct event_list got = poll_up_to(w, 3);
    reset(w);
    ack(w, got.v[1].sequence);
    assert_int_equal(events_depth(w->events), 2);
    struct event_list again = poll_up_to(w, 10);
    assert_int_equal(again.n, 2);
    assert_int_equal(again.v[0].task.fence, 1);
    assert_int_equal(again.v[1].task.fence, 3);
    assert_int_equal(poll_up_to(w, 10).n, 0);
}

static void an_unknown_ack_is_fine(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 1);
    struct event_list got = poll_up_to(w, 1);
    ack(w, got.v[0].sequence + 1000);
    assert_int_equal(events_depth(w->events), 1);
    ack(w, got.v[0].sequence);
    ack(w, got.v[0].sequence);
    assert_int_equal(events_depth(w->events), 0);
}

static void depth_counts_what_was_not_acknowledged(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 3);
    assert_int_equal(events_depth(w->events), 3);
    struct event_list got = poll_up_to(w, 2);
    assert_int_equal(events_depth(w->events), 3);
    ack(w, got.v[0].sequence);
    assert_int_equal(events_depth(w->events), 2);
}

static void an_arena_too_small_gets_what_fits(void **state)
{
    struct world *w = *state;
    static char big[20000];
    memset(big, 'x', sizeof big);
    struct event v[] = { event_of_fence(w, 1), event_of_fence(w, 2) };
    v[0].outcome.output = v[1].outcome.output = (struct str){ big, sizeof big };
    publish(w, v, 2);
    struct event_list got = { 0 };
    struct error e = { 0 };
    cleanup_with(arena_release) struct arena none;
    cleanup_with(arena_release) struct arena small;
    arena_init(&none, 100);
    arena_init(&small, 30000);
    assert_int_equal(events_poll(w->events, 2, &none, &got, &e), ERR_LIMIT);
    assert_ok(events_poll(w->events, 2, &small, &got, &e), &e);
    assert_fences(&got, 1, 1);
    got = poll_up_to(w, 2);
    assert_fences(&got, 2, 2);
}

/* Whatever is polled, acknowledged and reset: each event comes until it is acknowledged, and the order never breaks. */
static void random_steps_lose_nothing(void **state)
{
    struct world *w = *state;
    struct prng r = seeded_prng("events");
    enum { COUNT = 2000 };
    bool *done = xcalloc(COUNT + 1, sizeof *done);
    int64_t published = 0, before = 0;
    size_t finished = 0;
    for (int step = 0; finished < COUNT; step++) {
        assert_true(step < 100000);
        if (published < COUNT && prng_below(&r, 3) > 0) {
            published++;
            publish_fences(w, published, published);
        }
        if (prng_below(&r, 50) == 0) {
            reset(w);
            before = 0;
        }
        struct event_list got = poll_up_to(w, 1 + prng_below(&r, 4));
        for (size_t i = 0; i < got.n; i++) {
            assert_true(got.v[i].task.fence > before && !done[got.v[i].task.fence]);
            before = got.v[i].task.fence;
            if (prng_below(&r, 4) == 0)
                continue;
            ack(w, got.v[i].sequence);
            done[before] = true;
            finished++;
        }
        assert_int_equal(events_depth(w->events), published - (int64_t)finished);
        arena_reset(&w->arena);
    }
    free(done);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        events_test(an_event_comes_whole),
        events_test(events_come_in_the_order_they_were_published),
        events_test(sequences_name_events_apart),
        events_test(nothing_published_gives_nothing),
        events_test(what_was_polled_does_not_come_again_by_itself),
        events_test(what_was_not_acknowledged_comes_again_after_a_reset),
        events_test(a_second_reset_brings_them_once_more),
        events_test(what_was_acknowledged_never_comes_again),
        events_test(an_ack_that_comes_after_a_reset_holds),
        events_test(an_unknown_ack_is_fine),
        events_test(depth_counts_what_was_not_acknowledged),
        events_test(an_arena_too_small_gets_what_fits),
        events_test(random_steps_lose_nothing),
    };
    for (size_t i = 0; i < array_count(adapters); i++)
        if (strcmp(argc > 1 ? argv[1] : "memory", adapters[i].name) == 0)
            adapter_under_test = &adapters[i];
    if (!adapter_under_test) {
        fprintf(stderr, "%s are no events that were built\n", argv[1]);
        return 2;
    }
    return cmocka_run_group_tests_name(adapter_under_test->name, tests, NULL, NULL);
}

/* A published event comes complete and in order, until it is acknowledged. */
#include "events_world.h"

static void an_event_comes_whole(void **state)
{
    struct world *w = *state;
    char text[] = "HTTP 503", place[] = "https://a.example", queue[] = "mail", name[] = "nightly", trace[] = "- req-7",
         aside[] = "b.example:8443";
    struct event event = event_of(w, w->task, 2);
    event.outcome.error = str_from(text);
    event.task.place = str_from(place);
    event.task.queue = str_from(queue);
    event.task.name = str_from(name);
    event.task.trace = str_from(trace);
    event.task.run = w->task;
    event.outcome.aside = str_from(aside);
    publish(w, &event, 1);
    text[0] = place[0] = queue[0] = name[0] = trace[0] = aside[0] = 'X'; /* borrowed only for the call */
    struct event_list got = poll_exactly(w, 0, 1);
    assert_int_equal(got.v[0].kind, EVENT_OUTCOME);
    const struct settle_facts *t = &got.v[0].task, *u = &event.task;
    assert_true(uuid_eq(t->id, u->id) && uuid_eq(t->parent, u->parent));
    assert_true(t->tenant == 3 && t->kind == TASK_OCCURRENCE && t->fence == 2 && t->scheduled_ms == NOW + 1);
    assert_true(t->due_ms == NOW + 2 && t->attempts == 4 && t->losses == 5 && t->delivery == DELIVER_AT_MOST_ONCE);
    assert_true(t->retry.max_attempts == 6 && t->retry.backoff == BACKOFF_FIXED && t->retry.base_delay_ms == 7);
    assert_true(t->retry.max_delay_ms == 8 && t->retry.jitter == JITTER_NONE);
    assert_str(t->retry.rules, "[]");
    assert_true(t->expires_ms == NOW + 12 && t->target == TARGET_WORKER);
    assert_str(t->place, "https://a.example");
    assert_str(t->queue, "mail");
    assert_str(t->name, "nightly");
    assert_true(t->version == 13 && uuid_eq(t->run, u->run));
    assert_str(t->trace, "- req-7");
    const struct outcome *o = &got.v[0].outcome;
    assert_true(o->kind == OUTCOME_FAILED && o->failure == FAILURE_HTTP && o->sent && o->alone &&
                o->http_status == 503);
    assert_true(o->retry_after_ms == 9 && o->started_us == 10 && o->completed_us == 11);
    assert_str(o->error, "HTTP 503");
    assert_str(o->output, "later");
    assert_str(o->worker, "node-1");
    assert_str(o->trace_id, "4bf9");
    assert_str(o->aside, "b.example:8443");
    assert_true(o->recalled);
}

static void news_of_breakers_come_whole(void **state)
{
    struct world *w = *state;
    struct event event = event_of(w, w->task, 2);
    event.host = S("a.example:8443");
    event.breakers.host = (struct breaker_news){
        .kind = BREAKER_OPENED, .by_retry_after = true, .until_ms = NOW + 30000, .counts = { 12, 10 }
    };
    event.breakers.tenant = (struct breaker_news){ .kind = BREAKER_HELD, .until_ms = NOW + 1000 };
    publish(w, &event, 1);
    struct event_list got = poll_exactly(w, 0, 1);
    const struct breaker_news *host = &got.v[0].breakers.host, *tenant = &got.v[0].breakers.tenant;
    assert_str(got.v[0].host, "a.example:8443");
    assert_true(host->kind == BREAKER_OPENED && host->by_retry_after && host->until_ms == NOW + 30000);
    assert_true(host->counts.total == 12 && host->counts.failures == 10);
    assert_true(tenant->kind == BREAKER_HELD && tenant->until_ms == NOW + 1000);
}

static void what_a_worker_says_of_itself_comes_whole(void **state)
{
    struct world *w = *state;
    struct event event = { .kind = EVENT_WORKER,
                           .worker = { .id = w->task,
                                       .name = S("host-3:17"),
                                       .version = S("0.1.0"),
                                       .slots = 100,
                                       .running = 7,
                                       .left = true,
                                       .kind = { .queues = S("mail,reports"),
                                                 .tenants = S("acme"),
                                                 .labels = S("eu,gpu"),
                                                 .priority_min = 2,
                                                 .priority_max = 8,
                                                 .cpu_milli = 1500,
                                                 .memory_mb = 4000 },
                                       .doc = S("{\"queues\":[\"mail\"]}") } };
    publish(w, &event, 1);
    struct event_list got = poll_exactly(w, 0, 1);
    const struct worker_report *r = &got.v[0].worker;
    assert_int_equal(got.v[0].kind, EVENT_WORKER);
    assert_true(uuid_eq(r->id, w->task) && r->slots == 100 && r->running == 7 && r->left);
    assert_str(r->name, "host-3:17");
    assert_str(r->version, "0.1.0");
    assert_int_equal(worker_kind_compare(&r->kind, &event.worker.kind), 0);
    assert_str(r->doc, "{\"queues\":[\"mail\"]}");
}

static void events_of_a_task_come_in_the_order_they_were_published(void **state)
{
    struct world *w = *state;
    struct event two[] = { event_of(w, w->task, 1), event_of(w, w->task, 2) };
    publish(w, two, 2);
    publish_fences(w, 3, 5);
    struct event_list first = poll_exactly(w, 0, 3), rest = poll_exactly(w, 0, 2);
    assert_fences(&first, 1, 3);
    assert_fences(&rest, 4, 5);
}

static void sequences_name_events_apart(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 2);
    struct event other = event_of(w, uuid_next(&w->ids, NOW), 3);
    publish(w, &other, 1);
    struct event_list got = poll_exactly(w, 0, 3);
    assert_true(got.v[0].sequence != got.v[1].sequence && got.v[1].sequence != got.v[2].sequence &&
                got.v[0].sequence != got.v[2].sequence);
}

static void nothing_published_gives_nothing(void **state)
{
    struct world *w = *state;
    poll_none(w, 0);
    assert_int_equal(events_depth(w->publisher), 0);
    reset(w, 0);
    poll_none(w, 0);
}

static void what_was_polled_does_not_come_again_by_itself(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 1);
    poll_exactly(w, 0, 1);
    poll_none(w, 0);
}

static void what_was_not_acknowledged_comes_again_after_a_reset(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 4);
    struct event_list got = poll_exactly(w, 0, 3);
    ack(w, 0, &got.v[0]);
    reset(w, 0);
    struct event_list again = poll_exactly(w, 0, 3);
    assert_fences(&again, 2, 4); /* in order, the events that were never polled last */
    poll_none(w, 0);
}

static void a_second_reset_brings_them_once_more(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 3);
    poll_exactly(w, 0, 2);
    reset(w, 0);
    poll_exactly(w, 0, 1);
    reset(w, 0);
    struct event_list again = poll_exactly(w, 0, 3);
    assert_fences(&again, 1, 3);
}

static void what_was_acknowledged_never_comes_again(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 3);
    struct event_list got = poll_exactly(w, 0, 3);
    uint64_t sequences[] = { got.v[2].sequence, got.v[0].sequence }; /* in any order */
    struct error e = { 0 };
    assert_ok(events_ack(w->updaters[0], sequences, 2, &e), &e);
    reset(w, 0);
    if (adapter_under_test->keeps_acks) {
        struct event_list again = poll_exactly(w, 0, 1);
        assert_fences(&again, 2, 2);
        poll_none(w, 0);
    } else {
        struct event_list again = poll_exactly(w, 0, 1);
        assert_true(again.v[0].task.fence != 1);
    }
}

static void an_ack_that_comes_after_a_reset_holds(void **state)
{
    needs(adapter_under_test->keeps_acks);
    struct world *w = *state;
    publish_fences(w, 1, 3);
    struct event_list got = poll_exactly(w, 0, 3);
    reset(w, 0);
    ack(w, 0, &got.v[1]);
    struct event_list again = poll_exactly(w, 0, 2);
    assert_int_equal(again.v[0].task.fence, 1);
    assert_int_equal(again.v[1].task.fence, 3);
    poll_none(w, 0);
}

static void an_unknown_ack_is_fine(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 1);
    struct event_list got = poll_exactly(w, 0, 1);
    struct event unknown = { .sequence = got.v[0].sequence + 1000 };
    struct events_barrier m = mark(w);
    ack(w, 0, &unknown);
    assert_false(passed(w, &m));
    ack(w, 0, &got.v[0]);
    ack(w, 0, &got.v[0]);
    wait_passed(w, &m);
}

static void depth_counts_what_was_not_acknowledged(void **state)
{
    needs(adapter_under_test->counts);
    struct world *w = *state;
    publish_fences(w, 1, 3);
    assert_int_equal(events_depth(w->publisher), 3);
    struct event_list got = poll_exactly(w, 0, 2);
    assert_int_equal(events_depth(w->publisher), 3);
    ack(w, 0, &got.v[0]);
    assert_int_equal(events_depth(w->publisher), 2);
}

static void an_arena_too_small_gets_what_fits(void **state)
{
    struct world *w = *state;
    static char big[20000];
    memset(big, 'x', sizeof big);
    struct event v[] = { event_of(w, w->task, 1), event_of(w, w->task, 2) };
    v[0].outcome.output = v[1].outcome.output = (struct str){ big, sizeof big };
    publish(w, v, 2);
    struct event_list got = { 0 };
    struct error e = { 0 };
    cleanup_with(arena_release) struct arena none;
    cleanup_with(arena_release) struct arena small;
    arena_init(&none, 100);
    arena_init(&small, 34000);
    enum err rc = ERR_OK;
    for (int i = 0; i < 100 && rc == ERR_OK; i++) {
        rc = events_poll(w->updaters[0], 2, 200, &none, &got, &e);
        assert_true(rc || got.n == 0);
    }
    assert_int_equal(rc, ERR_LIMIT);
    for (int i = 0; i < 100 && got.n == 0; i++)
        assert_ok(events_poll(w->updaters[0], 2, 200, &small, &got, &e), &e);
    assert_fences(&got, 1, 1);
    got = poll_exactly(w, 0, 1);
    assert_fences(&got, 2, 2);
}

static void a_mark_is_passed_when_all_before_it_is_acknowledged(void **state)
{
    struct world *w = *state;
    struct events_barrier empty = mark(w);
    wait_passed(w, &empty);
    publish_fences(w, 1, 2);
    struct event other = event_of(w, uuid_next(&w->ids, NOW), 3);
    publish(w, &other, 1);
    struct events_barrier three = mark(w);
    assert_false(passed(w, &three));
    struct event_list got = poll_exactly(w, 0, 3);
    assert_false(passed(w, &three));
    publish_fences(w, 4, 4); /* behind the barrier: does not count */
    ack(w, 0, &got.v[2]);
    ack(w, 0, &got.v[0]);
    assert_false(passed(w, &three));
    ack(w, 0, &got.v[1]);
    wait_passed(w, &three);
    struct events_barrier four = mark(w);
    assert_false(passed(w, &four));
    got = poll_exactly(w, 0, 1);
    ack(w, 0, &got.v[0]);
    wait_passed(w, &four);
    wait_passed(w, &empty);
}

/* Random polls, acks and resets: each event comes until it is acknowledged, and the events of a task stay in order. */
static void random_steps_lose_nothing(void **state)
{
    struct world *w = *state;
    struct prng r = seeded_prng("events");
    enum { COUNT = 2000, COUNT_FAR = 500, TASKS = 5 };
    struct uuid tasks[TASKS];
    int64_t before[TASKS] = { 0 };
    int64_t published = 0, count = adapter_under_test->far ? COUNT_FAR : COUNT, finished = 0;
    bool *done = xcalloc((size_t)count + 1, sizeof *done);
    for (int i = 0; i < TASKS; i++)
        tasks[i] = uuid_next(&w->ids, NOW);
    for (int step = 0; finished < count; step++) {
        assert_true(step < 100000);
        if (published < count && prng_below(&r, 3) > 0) {
            published++;
            struct event event = event_of(w, tasks[published % TASKS], published);
            publish(w, &event, 1);
        }
        if (prng_below(&r, 50) == 0) {
            reset(w, 0);
            memset(before, 0, sizeof before);
        }
        struct event_list got = poll_once(w, 0, 1 + prng_below(&r, 4), published == count ? 50 : 0);
        for (size_t i = 0; i < got.n; i++) {
            int64_t fence = got.v[i].task.fence, *last = &before[fence % TASKS];
            assert_true(fence > *last);
            assert_true(!done[fence] || !adapter_under_test->keeps_acks);
            *last = fence;
            if (prng_below(&r, 4) == 0)
                continue;
            ack(w, 0, &got.v[i]);
            finished += !done[fence];
            done[fence] = true;
        }
        if (adapter_under_test->counts)
            assert_int_equal(events_depth(w->publisher), published - finished);
        arena_reset(&w->arena);
    }
    free(done);
}

static const struct CMUnitTest tests[] = {
    events_test(an_event_comes_whole),
    events_test(news_of_breakers_come_whole),
    events_test(what_a_worker_says_of_itself_comes_whole),
    events_test(events_of_a_task_come_in_the_order_they_were_published),
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
    events_test(a_mark_is_passed_when_all_before_it_is_acknowledged),
    events_test(random_steps_lose_nothing),
};
const struct test_list carry_tests = { tests, array_count(tests) };

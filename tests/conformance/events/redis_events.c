/* Events on Redis when updaters or Redis itself die, and what remains in Redis. */
#include "redis_world.h"

struct stage {
    struct redis_process server;
    char url[SERVER_URL];
    struct events *publisher, *updater;
    struct arena arena;
    struct uuid_gen gen;
};

static int stage_open_with(void **state, const char *const *more)
{
    struct stage *s = xnew(*s);
    server_open(&s->server, more);
    server_url(&s->server, "one", s->url);
    arena_init(&s->arena, 1 << 26);
    uuid_gen_init(&s->gen, (uint64_t)getpid());
    s->publisher = redis_events(s->url);
    s->updater = redis_events(s->url);
    *state = s;
    return 0;
}

static int stage_open(void **state)
{
    return stage_open_with(state, NULL);
}

static int stage_open_kept(void **state)
{
    return stage_open_with(state, (const char *const[]){ "--appendonly", "yes", NULL });
}

static int stage_close(void **state)
{
    struct stage *s = *state;
    events_free(s->publisher);
    events_free(s->updater);
    arena_release(&s->arena);
    server_close(&s->server);
    free(s);
    return 0;
}

/* One event for each of many tasks, so that all streams are used. */
static enum err publish_one(struct stage *s, int64_t fence, struct error *e)
{
    struct event event = { .task = { .id = uuid_next(&s->gen, NOW), .fence = fence, .retry = RETRY_DEFAULT },
                           .outcome = { .kind = OUTCOME_OK, .retry_after_ms = -1 } };
    return events_publish(s->publisher, &event, 1, e);
}

static void publish(struct stage *s, int64_t from, int64_t to)
{
    struct error e = { 0 };
    enum err rc = ERR_OK;
    int64_t end = steady_ms() + ENOUGH_MS;
    for (int64_t i = from; i <= to; i += rc == ERR_OK) {
        rc = publish_one(s, i, &e);
        if (rc && steady_ms() > end)
            fail_msg("%s", e.text);
    }
}

/* Polls until each of 1 … n has come, acknowledges all, and returns how many came twice. */
static size_t poll_all(struct stage *s, struct events *by, size_t n, bool ack)
{
    bool came[1000] = { 0 };
    size_t found = 0, twice = 0;
    for (int64_t end = steady_ms() + 2 * ENOUGH_MS; found < n;) {
        struct event_list got = { 0 };
        struct error e = { 0 };
        enum err rc = events_poll(by, 100, 100, &s->arena, &got, &e);
        if (steady_ms() > end)
            fail_msg("%zu of %zu came: %s", found, n, e.text);
        for (size_t i = 0; rc == ERR_OK && i < got.n; i++) {
            bool *is = &came[got.v[i].task.fence];
            twice += *is;
            found += !*is;
            *is = true;
            if (ack)
                assert_ok(events_ack(by, &got.v[i].sequence, 1, &e), &e);
        }
    }
    return twice;
}

static void what_is_acknowledged_leaves_nothing_behind(void **state)
{
    struct stage *s = *state;
    publish(s, 1, 200);
    assert_int_equal(poll_all(s, s->updater, 200, true), 0);
    for (int i = 0; i < 16; i++) {
        char command[64], text[32];
        snprintf(command, sizeof command, "XLEN {one}:e:%d", i);
        server_text(&s->server, command, text, sizeof text);
        assert_string_equal(text, "0");
    }
}

/* A killed updater releases nothing: its streams get another owner when its ownership expires. */
static void what_a_killed_updater_had_comes_to_the_others(void **state)
{
    struct stage *s = *state;
    int done[2];
    char byte;
    publish(s, 1, 50);
    assert_int_equal(pipe(done), 0);
    pid_t child = fork();
    if (child == 0) {
        struct events *cancel_reason = redis_events(s->url);
        struct event_list got = { 0 };
        struct error e;
        size_t n = 0;
        while (n < 50 && events_poll(cancel_reason, 100, 1000, &s->arena, &got, &e) == ERR_OK)
            n += got.n;
        (void)!write(done[1], "x", 1);
        pause();
    }
    assert_int_equal(read(done[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int64_t start = steady_ms();
    assert_int_equal(poll_all(s, s->updater, 50, true), 0);
    assert_true(steady_ms() - start < 15000);
    close(done[0]);
    close(done[1]);
}

static void an_updater_that_joins_gets_its_share(void **state)
{
    struct stage *s = *state;
    struct events *second = redis_events(s->url);
    publish(s, 1, 50);
    assert_int_equal(poll_all(s, s->updater, 50, true), 0); /* it owns all streams */
    struct event_list got = { 0 };
    struct error e = { 0 };
    size_t by_first = 0, by_second = 0;
    int64_t fence = 51;
    for (int64_t end = steady_ms() + ENOUGH_MS; (by_first == 0 || by_second == 0) && steady_ms() < end;
         by_second += got.n) {
        publish(s, fence, fence + 19);
        fence = fence > 800 ? 51 : fence + 20;
        assert_ok(events_poll(s->updater, 100, 50, &s->arena, &got, &e), &e);
        by_first += got.n;
        for (size_t i = 0; i < got.n; i++)
            assert_ok(events_ack(s->updater, &got.v[i].sequence, 1, &e), &e);
        assert_ok(events_poll(second, 100, 50, &s->arena, &got, &e), &e);
        for (size_t i = 0; i < got.n; i++)
            assert_ok(events_ack(second, &got.v[i].sequence, 1, &e), &e);
    }
    assert_true(by_first > 0 && by_second > 0);
    events_free(second);
}

/* Polls by both until each of 1 … n has come, and acknowledges all. */
static void poll_by_both(struct stage *s, struct events *const by[2], size_t n)
{
    bool came[1000] = { 0 };
    struct error e = { 0 };
    int64_t end = steady_ms() + ENOUGH_MS;
    for (size_t found = 0, turn = 0; found < n; turn++) {
        struct event_list got = { 0 };
        assert_ok(events_poll(by[turn % 2], 100, 50, &s->arena, &got, &e), &e);
        for (size_t i = 0; i < got.n; i++) {
            found += !came[got.v[i].task.fence];
            came[got.v[i].task.fence] = true;
            assert_ok(events_ack(by[turn % 2], &got.v[i].sequence, 1, &e), &e);
        }
        if (steady_ms() > end)
            fail_msg("%zu of %zu came", found, n);
    }
}

/* Also if the updater has to release their streams because another one joins. */
static void what_could_not_be_acknowledged_comes_again(void **state)
{
    struct stage *s = *state;
    uint64_t sequences[50];
    struct error e = { 0 };
    publish(s, 1, 50);
    for (size_t n = 0; n < 50;) {
        struct event_list got = { 0 };
        assert_ok(events_poll(s->updater, 50 - n, 1000, &s->arena, &got, &e), &e);
        for (size_t i = 0; i < got.n; i++)
            sequences[n++] = got.v[i].sequence;
    }
    server_do(&s->server, "ACL SETUSER default -xdel");
    assert_int_equal(events_ack(s->updater, sequences, 50, &e), ERR_UNAVAILABLE);
    server_do(&s->server, "ACL SETUSER default +xdel");
    struct events *const both[] = { s->updater, redis_events(s->url) };
    poll_by_both(s, both, 50);
    events_free(both[1]);
}

static void what_cannot_be_read_is_passed_over_for_good(void **state)
{
    struct stage *s = *state;
    publish(s, 1, 10);
    for (int i = 0; i < 16; i++) {
        char command[64];
        snprintf(command, sizeof command, "XADD {one}:e:%d * e {\"v\":999}", i);
        server_do(&s->server, command);
        snprintf(command, sizeof command, "XADD {one}:e:%d * other x", i);
        server_do(&s->server, command);
    }
    publish(s, 11, 20);
    assert_int_equal(poll_all(s, s->updater, 20, true), 0);
    struct events_barrier m;
    struct error e = { 0 };
    bool passed = false;
    struct event_list got = { 0 };
    assert_ok(events_barrier(s->publisher, &m, &e), &e);
    for (int64_t end = steady_ms() + ENOUGH_MS; !passed && steady_ms() < end;) {
        assert_ok(events_poll(s->updater, 100, 10, &s->arena, &got, &e), &e);
        assert_int_equal(got.n, 0);
        assert_ok(events_barrier_passed(s->publisher, &m, &passed, &e), &e);
    }
    assert_true(passed);
}

static void restarted_with_its_data_nothing_is_lost(void **state)
{
    struct stage *s = *state;
    publish(s, 1, 30);
    poll_all(s, s->updater, 30, false); /* none is acknowledged */
    server_stop(&s->server, SIGKILL);
    struct error e = { 0 };
    assert_int_equal(publish_one(s, 31, &e), ERR_UNAVAILABLE);
    server_start(&s->server);
    publish(s, 31, 40);
    poll_all(s, s->updater, 40, true);
}

static void after_a_wipe_it_goes_on(void **state)
{
    struct stage *s = *state;
    publish(s, 1, 30);
    poll_all(s, s->updater, 30, false);
    server_do(&s->server, "FLUSHALL");
    publish(s, 1, 30);
    poll_all(s, s->updater, 30, true);
    server_stop(&s->server, SIGKILL);
    server_start(&s->server);
    publish(s, 1, 30);
    poll_all(s, s->updater, 30, true);
}

int main(void)
{
#define on(f)   cmocka_unit_test_setup_teardown(f, stage_open, stage_close)
#define kept(f) cmocka_unit_test_setup_teardown(f, stage_open_kept, stage_close)
    const struct CMUnitTest tests[] = {
        on(what_is_acknowledged_leaves_nothing_behind),
        on(what_a_killed_updater_had_comes_to_the_others),
        on(an_updater_that_joins_gets_its_share),
        on(what_cannot_be_read_is_passed_over_for_good),
        on(what_could_not_be_acknowledged_comes_again),
        kept(restarted_with_its_data_nothing_is_lost),
        on(after_a_wipe_it_goes_on),
    };
    return cmocka_run_group_tests_name("redis_events", tests, NULL, NULL);
}

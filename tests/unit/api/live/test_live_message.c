#include "api/live/live_message.h"
#include "base/prng.h"
#include "check.h"

static struct buf text;

static int begin(void **state)
{
    (void)state;
    buf_init(&text, 8192);
    return 0;
}

static int end(void **state)
{
    (void)state;
    buf_release(&text);
    return 0;
}

static struct uuid id_of(const char *s)
{
    struct uuid id;
    assert_true(uuid_parse(str_from(s), &id));
    return id;
}

static struct live_task some_task(void)
{
    return (struct live_task){ .id = id_of("01920000-0000-7000-8000-000000000001"),
                               .queue = S("mail:eu"),
                               .name = S("night \"shift\""),
                               .error = S("HTTP 503: later"),
                               .state = TASK_RUNNING,
                               .attempt = 2,
                               .version = 3,
                               .at_ms = 1770710400123 };
}

/* ---- for readers ---- */

static void an_event_is_two_lines(void **state)
{
    (void)state;
    struct live_task t = some_task();
    live_write_task(&text, &t);
    assert_str(buf_str(&text), "event: task\ndata: {\"id\":\"01920000-0000-7000-8000-000000000001\",\"parent_id\":null,"
                               "\"name\":\"night \\\"shift\\\"\",\"queue\":\"mail:eu\",\"status\":\"RUNNING\","
                               "\"attempt\":2,\"error\":\"HTTP 503: later\",\"version\":3,"
                               "\"at\":\"2026-02-10T08:00:00.123Z\"}\n");
}

static void what_is_not_known_is_null(void **state)
{
    (void)state;
    struct live_counts c = { .v = { 1, 2, 3, 4, 5 }, .running = 0, .due = -1 };
    live_write_counts(&text, &c, 0);
    assert_str(buf_str(&text), "event: counts\ndata: {\"created\":1,\"started\":2,\"completed\":3,\"failed\":4,"
                               "\"retried\":5,\"running\":0,\"due\":null,\"at\":\"1970-01-01T00:00:00.000Z\"}\n");
}

static void a_text_cannot_end_an_event(void **state)
{
    (void)state;
    live_write_node(&text, &(struct live_node){ .name = S("a\n\nevent: end\r\ndata: {}"), .state = S("ready") });
    size_t lines = 0;
    for (size_t i = 0; i < text.n; i++) {
        assert_true(text.p[i] != '\r');
        lines += text.p[i] == '\n';
    }
    assert_int_equal(lines, 2);
}

/* Of the longest texts, with what JSON must escape. LIVE_TEXT_MAX (live_internal.h) is 1024. */
static void long_texts_are_cut_and_on_one_line(void **state)
{
    (void)state;
    char quotes[1000], hidden[1000];
    memset(quotes, '"', sizeof quotes);
    memset(hidden, '\n', sizeof hidden);
    struct live_task t = some_task();
    t.parent = t.id;
    t.queue = (struct str){ quotes, 0 };
    t.name = (struct str){ quotes, sizeof quotes };
    t.error = (struct str){ quotes, sizeof quotes };
    live_write_task(&text, &t);
    assert_true(text.n < 1024 - 100); /* the queue has up to 100 bytes */
    assert_non_null(strstr(buf_cstr(&text), "\\\"…\""));
    buf_reset(&text);
    t.error = (struct str){ hidden, 3 };
    live_write_task(&text, &t);
    assert_non_null(strstr(buf_cstr(&text), "\"error\":\"   \""));
}

/* ---- for other nodes ---- */

static void a_line_comes_as_it_was_written(void **state)
{
    (void)state;
    struct live_task t = some_task(), bare = { .id = t.id, .parent = t.id, .state = TASK_FAILED };
    struct live_counts c = { .v = { 1, 2, 3, 4, INT64_MAX }, .running = 7, .due = -1 };
    struct live_job j = {
        .id = t.id, .state = JOB_STOPPED, .action = ACTION_RUN_NOW, .redrive = true, .total = 9, .done = 8, .failed = 1
    };
    struct live_incident i = { .id = t.id,
                               .setting = t.id,
                               .kind = INCIDENT_ALERT,
                               .change = INCIDENT_CHANGE_TOLD,
                               .open = true,
                               .count = 12,
                               .at_ms = 5,
                               .cause = S("host:a.example:80") };
    struct str sender, rest;
    struct live_word w;
    int32_t tenant;
    live_line_begin(&text, "0123456789abcdef", 12);
    live_line_task(&text, &t);
    live_line_details(&text, &t);
    live_line_task(&text, &bare);
    live_line_details(&text, &bare);
    live_line_more(&text, 5);
    live_line_counts(&text, &c);
    live_line_job(&text, &j);
    live_line_incident(&text, &i);
    live_line_watch(&text);
    assert_true(live_line_read(buf_str(&text), &sender, &tenant, &rest));
    assert_str(sender, "0123456789abcdef");
    assert_int_equal(tenant, 12);
    assert_true(live_line_next(&rest, &w) && w.kind == LIVE_WORD_TASK && uuid_eq(w.task.id, t.id));
    assert_true(uuid_is_nil(w.task.parent) && w.task.state == TASK_RUNNING && w.task.attempt == 2);
    assert_true(w.task.version == 3 && w.task.at_ms == t.at_ms);
    assert_str(w.task.queue, "mail:eu");
    assert_str(w.task.name, "night \"shift\"");
    assert_str(w.task.error, "HTTP 503: later");
    assert_true(live_line_next(&rest, &w) && w.kind == LIVE_WORD_TASK && uuid_eq(w.task.parent, t.id));
    assert_true(w.task.queue.n == 0 && w.task.state == TASK_FAILED && !w.task.name.n && !w.task.error.n);
    assert_true(live_line_next(&rest, &w) && w.kind == LIVE_WORD_MORE && w.more == 5);
    assert_true(live_line_next(&rest, &w) && w.kind == LIVE_WORD_COUNTS);
    assert_memory_equal(&w.counts, &c, sizeof c);
    assert_true(live_line_next(&rest, &w) && w.kind == LIVE_WORD_JOB && uuid_eq(w.job.id, j.id));
    assert_true(w.job.state == JOB_STOPPED && w.job.action == ACTION_RUN_NOW && w.job.redrive && !w.job.total_exact);
    assert_true(w.job.total == 9 && w.job.done == 8 && w.job.failed == 1);
    assert_true(live_line_next(&rest, &w) && w.kind == LIVE_WORD_INCIDENT && uuid_eq(w.incident.setting, t.id));
    assert_true(w.incident.kind == INCIDENT_ALERT && w.incident.change == INCIDENT_CHANGE_TOLD && w.incident.open);
    assert_true(w.incident.count == 12 && w.incident.at_ms == 5);
    assert_str(w.incident.cause, "host:a.example:80");
    assert_true(live_line_next(&rest, &w) && w.kind == LIVE_WORD_WATCH);
    assert_false(live_line_next(&rest, &w));
}

static void words_that_are_not_known_are_skipped(void **state)
{
    (void)state;
    struct str sender, rest;
    struct live_word w;
    int32_t tenant;
    assert_true(live_line_read(S("1 0123456789abcdef 1 x:1 t: t:a:b d:YQ:YQ m: m:0 m:-1 c:1 c j:1 i:1  m:3 z"), &sender,
                               &tenant, &rest));
    assert_true(live_line_next(&rest, &w) && w.kind == LIVE_WORD_MORE && w.more == 3);
    assert_false(live_line_next(&rest, &w));
}

static void other_lines_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = { "",
                                         "1",
                                         "2 0123456789abcdef 1 m:1",
                                         "1 0123456789abcde 1 m:1",
                                         "1 0123456789abcdef 0 m:1",
                                         "1 0123456789abcdef x m:1",
                                         "1 0123456789abcdef 99999999999 m:1" };
    struct str sender, rest;
    int32_t tenant;
    for (size_t i = 0; i < array_count(lines); i++)
        assert_false(live_line_read(str_from(lines[i]), &sender, &tenant, &rest));
}

static void a_damaged_line_does_no_harm(void **state)
{
    (void)state;
    struct live_task t = some_task();
    struct prng random;
    prng_init(&random, 7);
    for (int round = 0; round < 20000; round++) {
        struct str sender, rest;
        struct live_word w;
        int32_t tenant;
        buf_reset(&text);
        live_line_begin(&text, "0123456789abcdef", 1);
        live_line_task(&text, &t);
        live_line_details(&text, &t);
        live_line_more(&text, 5);
        text.p[prng_below(&random, text.n)] = (char)prng_below(&random, 256);
        buf_cut(&text, prng_below(&random, text.n + 1));
        if (!live_line_read(buf_str(&text), &sender, &tenant, &rest))
            continue;
        while (live_line_next(&rest, &w))
            assert_true(w.kind != LIVE_WORD_TASK || w.task.queue.n + w.task.name.n + w.task.error.n <= text.n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_event_is_two_lines, begin, end),
        cmocka_unit_test_setup_teardown(what_is_not_known_is_null, begin, end),
        cmocka_unit_test_setup_teardown(a_text_cannot_end_an_event, begin, end),
        cmocka_unit_test_setup_teardown(long_texts_are_cut_and_on_one_line, begin, end),
        cmocka_unit_test_setup_teardown(a_line_comes_as_it_was_written, begin, end),
        cmocka_unit_test_setup_teardown(words_that_are_not_known_are_skipped, begin, end),
        cmocka_unit_test_setup_teardown(other_lines_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_damaged_line_does_no_harm, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "make_task.h"

#include "core/task/spawn.h"
#include "seed.h"

static const char *shown(struct buf *b, const struct task *t, const struct task_context *c)
{
    struct jw w;
    buf_reset(b);
    jw_init(&w, b);
    task_to_json(&w, t, c);
    return buf_cstr(b);
}

static void a_new_task_is_shown_whole(void **state)
{
    struct task_context c = context();
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 1 << 20);
    struct task t =
        make(state, "{\"payload\":{\"a\": 1},\"metadata\":{\"t\":2},\"retry\":{\"rules\":[{\"on\":[\"503\"]}]},"
                    "\"name\":\"N\",\"task_type\":\"k\",\"delay\":\"1m\"," HOOK "}");
    assert_string_equal(
        shown(&b, &t, &c),
        "{\"id\":\"0198f000-0000-7000-8000-000000000001\",\"status\":\"SCHEDULED\",\"type\":\"ONE_TIME\",\"name\":\"N\","
        "\"task_type\":\"k\",\"queue\":\"default\",\"priority\":5,\"run_at\":\"2026-02-10T08:01:00.000Z\","
        "\"next_execution\":\"2026-02-10T08:01:00.000Z\",\"delivery\":\"AT_LEAST_ONCE\",\"timeout_ms\":30000,"
        "\"retry\":{\"max_attempts\":5,\"backoff\":\"EXPONENTIAL\",\"base_delay_ms\":1000,\"max_delay_ms\":3600000,"
        "\"jitter\":\"FULL\",\"rules\":[{\"on\":[\"503\"]}]},\"target_type\":\"HTTP_CALLBACK\","
        "\"target_config\":{\"url\":\"https://example.com/x\"},\"payload\":{\"a\": 1},\"metadata\":{\"t\":2},\"version\":1,"
        "\"created_at\":\"2026-02-10T08:00:00.000Z\",\"updated_at\":\"2026-02-10T08:00:00.000Z\",\"started_at\":null,"
        "\"completed_at\":null,\"attempts\":0,\"last_error\":null}");
}

static void a_recurring_task_is_shown_with_its_schedule(void **state)
{
    struct task_context c = context();
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 1 << 20);
    struct task t =
        make(state, "{" DAILY "\"start_time\":\"2026-02-10T08:00:01Z\",\"end_date\":\"2027-01-01T00:00:00Z\","
                    "\"max_runs\":3,\"dst_policy\":{\"gap\":\"SKIP\",\"overlap\":\"BOTH\"},"
                    "\"target_type\":\"NOOP\"}");
    t.runs_count = 2;
    t.skipped_count = 1;
    t.last_run_ms = NOW_MS;
    const char *text = shown(&b, &t, &c);
    static const char schedule[] =
        "\"run_at\":null,\"cron_expression\":\"0 8 * * *\",\"time_zone\":\"UTC\","
        "\"dst_policy\":{\"gap\":\"SKIP\",\"overlap\":\"BOTH\"},\"start_time\":\"2026-02-10T08:00:01.000Z\","
        "\"end_date\":\"2027-01-01T00:00:00.000Z\",\"max_runs\":3,\"spread_seconds\":0,\"catch_up_mode\":\"RUN_ONE_NOW\","
        "\"catch_up_window_seconds\":86400,\"overlap_policy\":\"SKIP\",\"next_execution\":\"2026-02-11T08:00:00.000Z\",";
    assert_non_null(strstr(text, schedule));
    assert_non_null(strstr(text, "\"target_type\":\"NOOP\",\"target_config\":{},\"version\":1,"));
    assert_non_null(strstr(text, "\"runs_count\":2,\"skipped_count\":1,\"last_run_at\":\"2026-02-10T08:00:00.000Z\"}"));
    t = make(state, "{" EVERY HOOK "}");
    text = shown(&b, &t, &c);
    assert_non_null(strstr(text, "\"interval_seconds\":300,\"time_zone\":\"UTC\",\"start_time\":null,\"end_date\":null,"
                                 "\"max_runs\":null,"));
    assert_non_null(strstr(text, "\"skipped_count\":0,\"last_run_at\":null}"));
}

static void one_half_of_a_dst_policy_is_shown_alone(void **state)
{
    struct task_context c = context();
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 1 << 20);
    struct task t = make(state, "{" DAILY HOOK ",\"dst_policy\":{\"overlap\":\"LAST\"}}");
    assert_non_null(strstr(shown(&b, &t, &c), "\"dst_policy\":{\"overlap\":\"LAST\"},"));
    t = make(state, "{" DAILY HOOK ",\"dst_policy\":{\"gap\":\"SHIFT\"}}");
    assert_non_null(strstr(shown(&b, &t, &c), "\"dst_policy\":{\"gap\":\"SHIFT\"},"));
}

static void an_occurrence_names_its_parent_and_its_time(void **state)
{
    struct task_context c = context();
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 1 << 20);
    struct task t = make(state, "{" HOOK "}");
    t.kind = TASK_OCCURRENCE;
    t.parent = t.id;
    t.state = TASK_FAILED;
    t.started_ms = t.completed_ms = NOW_MS + 5;
    t.attempts = 5;
    t.last_error = S("it \"broke\"");
    const char *text = shown(&b, &t, &c);
    assert_non_null(strstr(text, "\"status\":\"FAILED\",\"type\":\"OCCURRENCE\","));
    assert_non_null(strstr(text, "\"parent_id\":\"0198f000-0000-7000-8000-000000000001\","
                                 "\"scheduled_for\":\"2026-02-10T08:00:00.000Z\",\"next_execution\":null,"));
    assert_non_null(strstr(text,
                           "\"started_at\":\"2026-02-10T08:00:00.005Z\",\"completed_at\":\"2026-02-10T08:00:00.005Z\","
                           "\"attempts\":5,\"last_error\":\"it \\\"broke\\\"\"}"));
}

static void an_occurrence_says_what_became_of_its_times(void **state)
{
    struct task_context c = context();
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 1 << 20);
    struct task t = make(state, "{" HOOK ",\"metadata\":{\"a\":1}}");
    t.kind = TASK_OCCURRENCE;
    t.state = TASK_SKIPPED;
    t.skipped_count = 3;
    t.cursor_ms = NOW_MS + 2000;
    t.last_error = S("skipped 3 occurrences from … to …: missed (catch_up_mode SKIP_MISSED)");
    assert_non_null(strstr(shown(&b, &t, &c),
                           "\"skipped\":{\"reason\":\"MISSED\",\"from\":\"2026-02-10T08:00:00.000Z\","
                           "\"to\":\"2026-02-10T08:00:02.000Z\",\"count\":3}"));
    t.skipped_count = t.cursor_ms = 0;
    t.last_error = S("skipped: the run of 2026-02-10T07:00:00.000Z is not over");
    assert_non_null(strstr(shown(&b, &t, &c),
                           "\"skipped\":{\"reason\":\"OVERLAP\",\"from\":\"2026-02-10T08:00:00.000Z\","
                           "\"to\":\"2026-02-10T08:00:00.000Z\",\"count\":1}"));
    t.state = TASK_EXPIRED;
    assert_non_null(strstr(shown(&b, &t, &c), "\"skipped\":{\"reason\":\"EXPIRED\","));
    t.started_ms = NOW_MS; /* it has run: its retry would have come too late */
    assert_null(strstr(shown(&b, &t, &c), "\"skipped\":"));
    t.extra = S("{\"metadata\":{\"a\":1},\"moved\":{\"from\":\"2026-03-29T02:30:00\",\"reason\":\"DST_GAP\"}}");
    assert_non_null(strstr(shown(&b, &t, &c), "\"moved\":{\"from\":\"2026-03-29T02:30:00\",\"reason\":\"DST_GAP\"}"));
    assert_non_null(strstr(buf_cstr(&b), "\"metadata\":{\"a\":1}"));
}

static void a_claimed_task_is_shown_as_scheduled_until_it_is_due(void **state)
{
    struct task_context c = context();
    struct task t = make(state, "{" HOOK ",\"delay\":\"1s\"}");
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 1 << 20);
    t.state = TASK_RUNNING;
    assert_non_null(strstr(shown(&b, &t, &c), "\"status\":\"SCHEDULED\""));
    c.now_ms = t.due_ms;
    assert_non_null(strstr(shown(&b, &t, &c), "\"status\":\"RUNNING\""));
}

static void the_next_execution_is_told_while_there_is_one(void **state)
{
    struct task_context c = context();
    struct task t = make(state, "{" HOOK ",\"delay\":\"1s\"}");
    int64_t ms = 0;
    assert_true(task_next_execution(&t, &c, &ms));
    assert_int_equal(ms, NOW_MS + 1000);
    static const enum task_state none[] = { TASK_PAUSED,    TASK_COMPLETED, TASK_FAILED,
                                            TASK_CANCELLED, TASK_SKIPPED,   TASK_EXPIRED };
    for (size_t i = 0; i < array_count(none); i++) {
        t.state = none[i];
        assert_false(task_next_execution(&t, &c, &ms));
    }
    struct task r = make(state, "{" EVERY HOOK ",\"start_time\":\"2026-02-10T08:00:05Z\"}");
    r.cursor_ms += 300000; /* the first occurrence is spawned already, and has not fired */
    assert_true(task_next_execution(&r, &c, &ms));
    assert_int_equal(ms, NOW_MS + 5000);
    r.cursor_ms += 600000; /* the clock was set forward and back: these were decided on meanwhile */
    assert_true(task_next_execution(&r, &c, &ms));
    assert_int_equal(ms, NOW_MS + 905000);
    r.cursor_ms -= 600000;
    c.zones = NULL; /* without the rule only the cursor is known */
    assert_true(task_next_execution(&r, &c, &ms));
    assert_int_equal(ms, NOW_MS + 305000);
    c.zones = zones;
    r.cursor_ms = NOW_MS - 1; /* to be caught up */
    assert_true(task_next_execution(&r, &c, &ms));
    assert_int_equal(ms, NOW_MS - 1);
    r.cursor_ms = INT64_MAX;
    r.schedule.end_ms = NOW_MS - 1;
    assert_false(task_next_execution(&r, &c, &ms));
}

static void the_brief_view_is_what_a_batch_answers(void **state)
{
    struct task_context c = context();
    struct task t = make(state, "{" HOOK "}");
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 4096);
    struct jw w;
    jw_init(&w, &b);
    task_brief_to_json(&w, &t, &c);
    assert_string_equal(buf_cstr(&b), "{\"id\":\"0198f000-0000-7000-8000-000000000001\",\"status\":\"SCHEDULED\","
                                      "\"next_execution\":\"2026-02-10T08:00:00.000Z\"}");
}

static void an_execution_is_shown_whole(void **state)
{
    (void)state;
    struct task_context c = context();
    struct execution x = {
        .id = c.id,
        .task = c.id,
        .scheduled_ms = NOW_MS,
        .due_ms = NOW_MS + 1000,
        .started_us = (NOW_MS + 1000) * 1000 + 213,
        .completed_us = (NOW_MS + 1007) * 1000 + 900,
        .attempt = 2,
        .fence = 9,
        .status = EXECUTION_FAILED,
        .http_status = 503,
        .worker = S("w1"),
        .error = S("HTTP 503"),
        .output = S("oops"),
        .trace_id = S("0af7"),
    };
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 4096);
    struct jw w;
    jw_init(&w, &b);
    execution_to_json(&w, &x);
    assert_string_equal(
        buf_cstr(&b),
        "{\"id\":\"0198f000-0000-7000-8000-000000000001\",\"task_id\":\"0198f000-0000-7000-8000-000000000001\","
        "\"occurrence_id\":null,\"scheduled_for\":\"2026-02-10T08:00:00.000Z\",\"attempt_number\":2,\"status\":\"FAILED\","
        "\"started_at\":\"2026-02-10T08:00:01.000Z\",\"completed_at\":\"2026-02-10T08:00:01.007Z\",\"delay_ms\":0.213,\"delay_cause\":null,"
        "\"worker\":\"w1\",\"http_status\":503,\"error_message\":\"HTTP 503\",\"output\":\"oops\",\"trace_id\":\"0af7\","
        "\"fence\":9}");
    buf_reset(&b);
    jw_init(&w, &b);
    x = (struct execution){ .id = c.id, .task = c.id, .occurrence = c.id, .status = EXECUTION_LOST, .attempt = 1 };
    execution_to_json(&w, &x);
    assert_non_null(
        strstr(buf_cstr(&b),
               "\"status\":\"LOST\",\"started_at\":null,\"completed_at\":null,\"delay_ms\":null,\"delay_cause\":null,"
               "\"worker\":null,\"http_status\":null,\"error_message\":null,\"output\":null,"));
    assert_null(strstr(buf_cstr(&b), "\"occurrence_id\":null"));
}

/* ---- round trip ---- */

static const char *const set_by_us[] = { "id",         "status",        "version",      "created_at", "updated_at",
                                         "started_at", "attempts",      "completed_at", "last_error", "next_execution",
                                         "runs_count", "skipped_count", "last_run_at",  "expires_at" };

/* A view, without its read-only fields, is a body that makes the same task. */
static void check_round_trip(void **state, const char *body)
{
    struct task_context c = context();
    struct task t = make(state, body);
    cleanup_with(buf_release) struct buf first, second;
    buf_init(&first, 1 << 20);
    buf_init(&second, 1 << 20);
    shown(&first, &t, &c);
    json_t *root = json_loadb(first.p, first.n, 0, NULL);
    assert_non_null(root);
    for (size_t i = 0; i < array_count(set_by_us); i++)
        json_object_del(root, set_by_us[i]);
    char *again = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER);
    struct task copy = make(state, again);
    shown(&second, &copy, &c);
    assert_string_equal(buf_cstr(&first), buf_cstr(&second));
    assert_int_equal(copy.cursor_ms, t.cursor_ms);
    free(again);
    json_decref(root);
}

static void a_view_makes_the_same_task_again(void **state)
{
    check_round_trip(state, "{" HOOK "}");
    check_round_trip(state,
                     "{" HOOK ",\"delay\":\"3d\",\"name\":\"a\\\"b\",\"payload\":[1,\"x\"],\"metadata\":{\"k\":null},"
                     "\"max_retries\":0,\"priority\":0,\"delivery\":\"AT_MOST_ONCE\"}");
    check_round_trip(state, "{" EVERY HOOK "}");
    check_round_trip(state, "{\"cron_expression\":\"H H * * *\",\"target_type\":\"NOOP\",\"time_zone\":\"Asia/Tokyo\","
                            "\"spread_seconds\":600,\"max_runs\":4,\"overlap_policy\":\"QUEUE_ONE\","
                            "\"dst_policy\":{\"gap\":\"SKIP\"},\"end_date\":\"2030-01-01T00:00:00Z\"}");
    check_round_trip(state, "{\"payload\":{\"webhook_url\":\"http://h\",\"body\":null}}");
}

/* Random fields: every body that is accepted comes back the same. */
static void random_views_make_the_same_task_again(void **state)
{
    static const char *const common[] = { "\"name\":\"x y\"",
                                          "\"queue\":\"q\"",
                                          "\"task_type\":\"t:1\"",
                                          "\"priority\":7",
                                          "\"timeout_ms\":44",
                                          "\"delivery\":\"AT_MOST_ONCE\"",
                                          "\"retry\":{\"max_attempts\":9,\"jitter\":\"NONE\"}",
                                          "\"payload\":{\"deep\":[{\"a\":[]}]}",
                                          "\"metadata\":{\"é\":\"x\"}",
                                          "\"concurrency_key\":\"k k\",\"concurrency_limit\":4",
                                          "\"dedupe_key\":\"d\",\"dedupe_window_seconds\":9",
                                          "\"expires_after_seconds\":8",
                                          "\"idempotency_key\":\"z\"" };
    static const char *const repeated[] = { "\"time_zone\":\"America/Sao_Paulo\"",
                                            "\"start_time\":\"2026-05-01T00:00:00.250Z\"",
                                            "\"end_date\":\"2099-01-01T00:00:00Z\"",
                                            "\"max_runs\":77",
                                            "\"spread_seconds\":3",
                                            "\"catch_up_mode\":\"RUN_ALL_MISSED\"",
                                            "\"catch_up_window_seconds\":5",
                                            "\"overlap_policy\":\"ALLOW\"" };
    struct prng r = seeded_prng("random_views_make_the_same_task_again");
    for (int round = 0; round < 100; round++) {
        cleanup_with(buf_release) struct buf b;
        buf_init(&b, 1 << 16);
        bool recurring = prng_below(&r, 2);
        buf_text(&b, "{" HOOK);
        for (size_t i = 0; i < array_count(common); i++)
            if (prng_below(&r, 2))
                buf_printf(&b, ",%s", common[i]);
        if (recurring)
            buf_text(&b, prng_below(&r, 2) ? ",\"interval_seconds\":90" : ",\"cron_expression\":\"H/7 3 * * *\"");
        for (size_t i = 0; recurring && i < array_count(repeated); i++)
            if (prng_below(&r, 2))
                buf_printf(&b, ",%s", repeated[i]);
        buf_char(&b, '}');
        check_round_trip(state, buf_cstr(&b));
        arena_reset(*state);
    }
}

static void a_rule_owns_a_zone(void **state)
{
    struct task t = make(state, "{" DAILY HOOK ",\"time_zone\":\"Europe/Berlin\"}");
    struct recurrence rule;
    struct rule_base base = { 0 };
    struct error e = { 0 };
    assert_ok(task_rule(&t, zones, NULL, &rule, &base, &e), &e);
    assert_string_equal(tz_name(base.zone), "Europe/Berlin");
    assert_int_equal(spawn_first(&rule, NOW_MS), t.cursor_ms);
    rule_base_release(&base);
    t.schedule.time_zone = S("Europe/Berln");
    assert_int_equal(task_rule(&t, zones, NULL, &rule, &base, &e), ERR_INVALID);
    assert_string_equal(e.field, "time_zone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(a_new_task_is_shown_whole),
        row(a_recurring_task_is_shown_with_its_schedule),
        row(one_half_of_a_dst_policy_is_shown_alone),
        row(an_occurrence_names_its_parent_and_its_time),
        row(a_claimed_task_is_shown_as_scheduled_until_it_is_due),
        row(an_occurrence_says_what_became_of_its_times),
        row(the_next_execution_is_told_while_there_is_one),
        row(the_brief_view_is_what_a_batch_answers),
        row(an_execution_is_shown_whole),
        row(a_view_makes_the_same_task_again),
        row(random_views_make_the_same_task_again),
        row(a_rule_owns_a_zone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

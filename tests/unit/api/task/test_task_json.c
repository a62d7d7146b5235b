#include "make_task.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- new tasks ---- */

static void everything_but_the_target_has_a_default(void **state)
{
    struct task t = make(state, "{" HOOK "}");
    struct task_context c = context();
    assert_true(uuid_eq(t.id, c.id));
    assert_int_equal(t.tenant, 7);
    assert_int_equal(t.kind, TASK_ONE_TIME);
    assert_int_equal(t.state, TASK_SCHEDULED);
    assert_true(uuid_is_nil(t.parent) && uuid_is_nil(t.claim));
    assert_int_equal(t.due_ms, NOW_MS);
    assert_int_equal(t.scheduled_ms, NOW_MS);
    assert_int_equal(t.version, 1);
    assert_int_equal(t.fence, 0);
    assert_int_equal(t.priority, 5);
    assert_str(t.queue, "default");
    assert_str(t.name, "");
    assert_str(t.task_type, "");
    assert_int_equal(t.delivery, DELIVER_AT_LEAST_ONCE);
    assert_int_equal(t.timeout_ms, 30000);
    assert_int_equal(t.expires_after_ms, 0);
    assert_int_equal(t.retry.max_attempts, 5);
    assert_int_equal(t.retry.backoff, BACKOFF_EXPONENTIAL);
    assert_int_equal(t.retry.base_delay_ms, 1000);
    assert_int_equal(t.retry.max_delay_ms, 3600000);
    assert_int_equal(t.retry.jitter, JITTER_FULL);
    assert_int_equal(t.retry.rules.n, 0);
    assert_int_equal(t.target, TARGET_HTTP);
    assert_str(t.target_config, "{\"url\":\"https://example.com/x\"}");
    assert_str(t.payload, "");
    assert_str(t.extra, "");
    assert_int_equal(t.created_ms, NOW_MS);
    assert_int_equal(t.updated_ms, NOW_MS);
    assert_int_equal(t.started_ms + t.completed_ms + t.attempts + t.losses, 0);
    assert_int_equal(t.schedule.end_ms, 0); /* no schedule: none is stored */
    assert_false(t.deleted);
}

static void every_field_of_a_one_time_task_is_kept(void **state)
{
    struct task t = make(state, "{\"type\":\"ONE_TIME\",\"name\":\"Grüße, Welt\",\"task_type\":\"report.daily:v2\","
                                "\"queue\":\"Mail_1-a\",\"priority\":9,\"run_at\":\"2026-02-11T09:00:00+01:00\","
                                "\"delivery\":\"AT_MOST_ONCE\",\"timeout_ms\":1500,\"idempotency_key\":\"k\","
                                "\"retry\":{\"max_attempts\":7,\"backoff\":\"FIXED\",\"base_delay_ms\":20,"
                                "\"max_delay_ms\":30,\"jitter\":\"NONE\", \"rules\" : [ {\"on\": [\"503\", \"5xx\", "
                                "\"timeout\"], \"max_attempts\": 3 } ] },"
                                "\"target_type\":\"NOOP\",\"target_config\": { } ,"
                                "\"payload\": [ 1.50, \"a\\u00fc\" , {} ] ,\"metadata\":{ \"team\" : \"a\" }}");
    assert_str(t.name, "Grüße, Welt");
    assert_str(t.task_type, "report.daily:v2");
    assert_str(t.queue, "Mail_1-a");
    assert_int_equal(t.priority, 9);
    assert_int_equal(t.scheduled_ms, at("2026-02-11T08:00:00Z"));
    assert_int_equal(t.due_ms, t.scheduled_ms);
    assert_int_equal(t.delivery, DELIVER_AT_MOST_ONCE);
    assert_int_equal(t.timeout_ms, 1500);
    assert_int_equal(t.retry.max_attempts, 7);
    assert_int_equal(t.retry.backoff, BACKOFF_FIXED);
    assert_int_equal(t.retry.base_delay_ms, 20);
    assert_int_equal(t.retry.max_delay_ms, 30);
    assert_int_equal(t.retry.jitter, JITTER_NONE);
    assert_str(t.retry.rules, "[ {\"on\": [\"503\", \"5xx\", \"timeout\"], \"max_attempts\": 3 } ]");
    assert_int_equal(t.target, TARGET_NOOP);
    assert_str(t.target_config, "{ }");
    assert_str(t.payload, "[ 1.50, \"a\\u00fc\" , {} ]");
    assert_str(t.extra, "{\"metadata\":{ \"team\" : \"a\" }}");
}

static void every_field_of_a_recurring_task_is_kept(void **state)
{
    struct task t = make(state, "{" HOOK ",\"cron_expression\":\"0 8 * * MON-FRI\",\"time_zone\":\"Europe/Berlin\","
                                "\"dst_policy\":{\"gap\":\"SKIP\",\"overlap\":\"LAST\"},"
                                "\"start_time\":\"2026-03-01T00:00:00Z\",\"end_date\":\"2027-01-01T00:00:00Z\","
                                "\"max_runs\":10,\"spread_seconds\":60,\"catch_up_mode\":\"SKIP_MISSED\","
                                "\"catch_up_window_seconds\":3600,\"overlap_policy\":\"CANCEL_PREVIOUS\"}");
    const struct schedule *s = &t.schedule;
    assert_int_equal(t.kind, TASK_RECURRING);
    assert_str(s->cron, "0 8 * * MON-FRI");
    assert_int_equal(s->interval_ms, 0);
    assert_str(s->time_zone, "Europe/Berlin");
    assert_int_equal(s->gap, DST_GAP_SKIP);
    assert_int_equal(s->repeat, DST_REPEAT_LAST);
    assert_int_equal(s->start_ms, at("2026-03-01T00:00:00Z"));
    assert_int_equal(s->end_ms, at("2027-01-01T00:00:00Z"));
    assert_int_equal(s->max_runs, 10);
    assert_int_equal(s->spread_ms, 60000);
    assert_int_equal(s->catch_up, CATCH_UP_NONE);
    assert_int_equal(s->catch_up_window_ms, 3600000);
    assert_int_equal(s->overlap, OVERLAP_CANCEL_PREVIOUS);
    int64_t monday = at("2026-03-02T07:00:00Z"); /* up to a minute later, because of the spread */
    assert_in_range(t.cursor_ms, monday, monday + 59999);
    assert_int_equal(t.due_ms, t.cursor_ms);
    assert_int_equal(t.scheduled_ms, t.cursor_ms);
}

static void a_recurring_task_has_defaults_too(void **state)
{
    struct task t = make(state, "{" EVERY HOOK "}");
    const struct schedule *s = &t.schedule;
    assert_int_equal(s->interval_ms, 300000);
    assert_int_equal(s->cron.n, 0);
    assert_str(s->time_zone, "UTC");
    assert_int_equal(s->gap, DST_GAP_DEFAULT);
    assert_int_equal(s->repeat, DST_REPEAT_DEFAULT);
    assert_int_equal(s->start_ms, 0);
    assert_int_equal(s->end_ms, INT64_MAX);
    assert_int_equal(s->max_runs, 0);
    assert_int_equal(s->spread_ms, 0);
    assert_int_equal(s->catch_up, CATCH_UP_ONE);
    assert_int_equal(s->catch_up_window_ms, 86400000);
    assert_int_equal(s->overlap, OVERLAP_SKIP);
    assert_int_equal(t.cursor_ms, NOW_MS); /* the start, occurrence 0, is the creation */
    struct task anchored = make(state, "{" EVERY HOOK ",\"start_time\":\"2026-02-10T07:59:00Z\"}");
    assert_int_equal(anchored.cursor_ms, at("2026-02-10T08:04:00Z"));
    struct task typed = make(state, "{" DAILY HOOK ",\"type\":\"RECURRING\",\"time_zone\":\"America/New_York\"}");
    assert_int_equal(typed.cursor_ms, at("2026-02-10T13:00:00Z"));
}

static void seconds_may_have_a_fraction(void **state)
{
    struct task t = make(state, "{" HOOK ",\"interval_seconds\":0.5,\"catch_up_window_seconds\":1.5,"
                                "\"spread_seconds\":0.25,\"dedupe_key\":\"k\",\"dedupe_window_seconds\":0.001,"
                                "\"expires_after_seconds\":2.0004}");
    assert_int_equal(t.schedule.interval_ms, 500);
    assert_int_equal(t.schedule.catch_up_window_ms, 1500);
    assert_int_equal(t.schedule.spread_ms, 250);
    assert_int_equal(t.dedupe_window_ms, 1);
    assert_int_equal(t.expires_after_ms, 2000);
}

static void a_type_that_is_no_kind_is_the_task_type_and_means_a_worker(void **state)
{
    struct task t = make(state, "{\"type\":\"email.send\",\"payload\":{\"to\":\"a\"},"
                                "\"scheduled_at\":\"2026-02-11T00:00:00Z\"}");
    assert_int_equal(t.kind, TASK_ONE_TIME);
    assert_int_equal(t.target, TARGET_WORKER);
    assert_str(t.task_type, "email.send");
    assert_str(t.payload, "{\"to\":\"a\"}");
    assert_int_equal(t.due_ms, at("2026-02-11T00:00:00Z"));
    assert_int_equal(t.timeout_ms, 0); /* no limit but its lease */
    t = make(state, "{\"type\":\"email.send\",\"payload\":{\"webhook_url\":\"https://h/x\"}}");
    assert_int_equal(t.target, TARGET_HTTP);
    assert_str(t.task_type, "email.send");
    assert_int_equal(t.timeout_ms, 30000);
    assert_str(t.payload, "");
    t = make(state, "{\"type\":\"email\",\"payload\":{\"a\": 1.0,\"webhook_url\":\"https://h/x\",\"method\":\"PUT\","
                    "\"to\":[\"b\"]}}"); /* the data is what the target gets */
    assert_str(t.target_config, "{\"url\":\"https://h/x\",\"method\":\"PUT\"}");
    assert_str(t.payload, "{\"a\":1.0,\"to\":[\"b\"]}");
    t = make(state, "{\"type\":\"email\",\"payload\":{\"webhook_url\":\"https://h/x\",\"body\":7}}");
    assert_str(t.target_config, "{\"url\":\"https://h/x\",\"body\":7}");
    t = make(state, "{\"type\":\"email.send\"," DAILY HOOK "}");
    assert_int_equal(t.kind, TASK_RECURRING);
    assert_int_equal(t.target, TARGET_HTTP);
    assert_int_equal(make(state, "{\"type\":\"one_time\"," HOOK "}").kind, TASK_ONE_TIME);
    assert_int_equal(make(state, "{\"target_type\":\"WORKER\",\"timeout_ms\":1500}").timeout_ms, 1500);
}

static void a_one_time_task_is_spread_by_its_id_and_its_run_at_stays(void **state)
{
    struct task t = make(state, "{" HOOK ",\"run_at\":\"2026-02-11T00:00:00Z\",\"spread_seconds\":600,"
                                "\"metadata\":{\"a\":1}}");
    int64_t spread_ms = t.due_ms - t.scheduled_ms;
    assert_int_equal(t.scheduled_ms, at("2026-02-11T00:00:00Z"));
    assert_int_equal(spread_ms, schedule_spread(&(struct schedule){ .spread_ms = 600000 }, t.id));
    assert_true(spread_ms > 0 && spread_ms < 600000);
}

static void a_preview_needs_no_target(void **state)
{
    struct task_context c = context();
    struct json_doc d;
    struct task t;
    struct error e = { 0 };
    c.only_times = true;
    assert_ok(json_parse(S("{\"cron_expression\":\"0 8 * * *\"}"), &d, &e), &e);
    assert_ok(task_from_json(&d, &c, *state, &t, &e), &e);
    assert_int_equal(t.cursor_ms, NOW_MS);
    json_doc_release(&d);
}

static void a_zone_whose_file_is_damaged_is_refused_by_its_field(void **state)
{
    struct task_context c = context();
    struct json_doc d;
    struct task t;
    struct error e = { 0 };
    char folder[] = "/tmp/belfry-zones-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/Broken", folder);
    FILE *file = fopen(path, "w");
    assert_true(file && fputs("no time zone", file) > 0 && fclose(file) == 0);
    c.zones = zoneinfo_system_new(folder);
    assert_ok(json_parse(S("{" DAILY HOOK ",\"time_zone\":\"Broken\"}"), &d, &e), &e);
    assert_int_equal(task_from_json(&d, &c, *state, &t, &e), ERR_INVALID);
    assert_string_equal(e.field, "time_zone");
    assert_says(&e, "cannot be used: the server cannot read the file of this zone; name another zone");
    json_doc_release(&d);
    zoneinfo_free(c.zones);
    assert_int_equal(unlink(path) + rmdir(folder), 0);
}

static void due_is_never_before_now_and_the_wish_is_kept(void **state)
{
    struct task t = make(state, "{" HOOK ",\"run_at\":\"2020-01-01T00:00:00Z\"}");
    assert_int_equal(t.due_ms, NOW_MS);
    assert_int_equal(t.scheduled_ms, at("2020-01-01T00:00:00Z"));
}

static void aliases_mean_what_they_stand_for(void **state)
{
    assert_int_equal(make(state, "{" HOOK ",\"scheduled_at\":\"2026-02-11T00:00:00Z\"}").due_ms,
                     at("2026-02-11T00:00:00Z"));
    assert_int_equal(make(state, "{" HOOK ",\"delay\":\"1h30m\"}").due_ms, NOW_MS + 5400000);
    assert_int_equal(make(state, "{" HOOK ",\"delay\":\"0s\"}").due_ms, NOW_MS);
    assert_int_equal(make(state, "{" HOOK ",\"max_retries\":0}").retry.max_attempts, 1);
    assert_int_equal(make(state, "{" HOOK ",\"max_retries\":99,\"retry\":{\"jitter\":\"NONE\"}}").retry.max_attempts,
                     100);
    assert_int_equal(make(state, "{\"target_type\":\"NOOP\"}").target, TARGET_NOOP);
    assert_str(make(state, "{\"target_type\":\"NOOP\"}").target_config, "");
}

static void the_short_form_becomes_a_target(void **state)
{
    struct task t = make(state, "{\"payload\": {\"webhook_url\":\"http://h/p?q=1\", \"method\":\"PUT\","
                                " \"body\" : {\"a\": 1.0 } }}");
    assert_int_equal(t.target, TARGET_HTTP);
    assert_str(t.target_config, "{\"url\":\"http://h/p?q=1\",\"method\":\"PUT\",\"body\":{\"a\": 1.0 }}");
    assert_str(t.payload, "");
    t = make(state, "{\"timeout_ms\":77,\"payload\":{\"webhook_url\":\"https://h\"}}");
    assert_str(t.target_config, "{\"url\":\"https://h\"}");
    assert_int_equal(t.timeout_ms, 77);
    t = make(state,
             "{\"target_type\":\"NOOP\",\"payload\":{\"webhook_url\":7}}"); /* with a target it is only a payload */
    assert_str(t.payload, "{\"webhook_url\":7}");
}

static void the_timeout_of_the_config_wins(void **state)
{
    struct task t = make(state, "{\"timeout_ms\":1,\"target_config\":{\"url\":\"http://h\",\"timeout_ms\":3600000}}");
    assert_int_equal(t.timeout_ms, 3600000);
}

static void null_is_the_same_as_absent(void **state)
{
    struct task t = make(
        state,
        "{\"type\":null,\"name\":null,\"task_type\":null,\"queue\":null,\"priority\":null,\"run_at\":null,"
        "\"scheduled_at\":null,\"delay\":null,\"cron_expression\":null,\"interval_seconds\":null,\"time_zone\":null,"
        "\"dst_policy\":null,\"start_time\":null,\"end_date\":null,\"max_runs\":null,\"spread_seconds\":null,"
        "\"catch_up_mode\":null,\"catch_up_window_seconds\":null,\"overlap_policy\":null,\"delivery\":null,"
        "\"retry\":{\"max_attempts\":null,\"rules\":null,\"backoff\":null},\"max_retries\":null,\"timeout_ms\":null,"
        "\"target_type\":null,\"payload\":null,\"metadata\":null,\"idempotency_key\":null," HOOK "}");
    assert_int_equal(t.kind, TASK_ONE_TIME);
    assert_str(t.queue, "default");
    assert_int_equal(t.priority, 5);
    assert_int_equal(t.retry.max_attempts, 5);
    assert_int_equal(t.timeout_ms, 30000);
    assert_str(t.payload, "");
    assert_str(t.extra, "");
    assert_str(t.retry.rules, "");
    t = make(state, "{\"retry\":null," DAILY "\"dst_policy\":{\"gap\":null}," HOOK "}");
    assert_int_equal(t.retry.max_attempts, 5);
}

static void a_larger_first_delay_raises_the_cap_that_nobody_set(void **state)
{
    struct task t = make(state, "{" HOOK ",\"retry\":{\"base_delay_ms\":7200000}}");
    assert_int_equal(t.retry.max_delay_ms, 7200000);
}

static void urls_of_every_sound_form_are_taken(void **state)
{
    static const char *const urls[] = { "http://h",
                                        "HTTPS://Example.COM:8443/a/b?c=d&e=[1]#f",
                                        "http://[::1]",
                                        "http://[2001:db8::1]:80/x",
                                        "http://127.0.0.1:1/",
                                        "https://h?x=a@b",
                                        "https://h/p@q:r",
                                        "https://h:65535",
                                        "http://h:" };
    for (size_t i = 0; i < array_count(urls); i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"target_config\":{\"url\":\"%s\",\"method\":\"HEAD\"}}", urls[i]);
        assert_int_equal(make(state, body).target, TARGET_HTTP);
    }
}

static void headers_of_every_sound_form_are_taken(void **state)
{
    struct task t =
        make(state, "{\"target_config\":{\"url\":\"http://h\",\"headers\":{\"X-Team\":\"a b\\tc~\","
                    "\"Authorization\":\"Bearer x\",\"content-type\":\"text/plain\",\"!#$%&'*+-.^_`|~\":\"\","
                    "\"Hosts\":\"1\",\"WebhookId\":\"2\",\"Belfry\":\"3\"},\"body\":null}}");
    assert_int_equal(t.target, TARGET_HTTP);
    make(state, "{\"target_config\":{\"url\":\"http://h\",\"headers\":null,\"body\":null,\"method\":\"HEAD\"}}");
}

static void texts_at_their_limits_are_taken(void **state)
{
    char body[21000], url[2049], long_word[101], name[256];
    memset(url, 'a', sizeof url - 1);
    memcpy(url, "https://h/", 10);
    url[sizeof url - 1] = '\0';
    memset(long_word, 'w', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(body, sizeof body,
             "{\"target_config\":{\"url\":\"%s\"},\"queue\":\"%s\",\"task_type\":\"%s\",\"name\":\"%s\"}", url,
             long_word, long_word, name);
    struct task t = make(state, body);
    assert_int_equal(t.queue.n, 100);
    assert_int_equal(t.name.n, 255);
    char metadata[16 * 1024 + 1]; /* {"a":"…"} of exactly 16 KiB */
    memset(metadata, 'm', sizeof metadata - 1);
    memcpy(metadata, "{\"a\":\"", 6);
    memcpy(metadata + sizeof metadata - 3, "\"}", 3);
    snprintf(body, sizeof body, "{" HOOK ",\"metadata\":%s}", metadata);
    assert_int_equal(make(state, body).extra.n, 16 * 1024 + 13);
    snprintf(body, sizeof body, "{" HOOK ",\"metadata\":%.6s %s}", metadata, metadata + 6);
    struct error e = { 0 };
    assert_int_equal(try_make(*state, str_from(body), &t, &e), ERR_INVALID);
    assert_string_equal(e.field, "metadata");
    assert_string_equal(e.text, "must be at most 16384 bytes long, not 16385");
}

static void fifty_headers_are_taken_and_one_more_is_not(void **state)
{
    for (int count = 50; count <= 51; count++) {
        cleanup_with(buf_release) struct buf b;
        buf_init(&b, 1 << 16);
        buf_text(&b, "{\"target_config\":{\"url\":\"http://h\",\"headers\":{");
        for (int i = 0; i < count; i++)
            buf_printf(&b, "%s\"h%d\":\"v\"", i ? "," : "", i);
        buf_text(&b, "}}}");
        struct task t;
        struct error e = { 0 };
        enum err rc = try_make(*state, buf_str(&b), &t, &e);
        assert_int_equal(rc, count == 50 ? ERR_OK : ERR_INVALID);
        if (rc) {
            assert_string_equal(e.field, "target_config.headers");
            assert_string_equal(e.text, "must have at most 50 members, not 51");
        }
    }
}

static void a_full_arena_is_a_limit_not_a_crash(void **state)
{
    (void)state;
    static const char body[] =
        "{" HOOK ",\"name\":\"a name\",\"payload\":\"0123456789012345678901234567890123456789012345678901234567890\","
        "\"metadata\":{\"a\":\"0123456789012345678901234567890123456789\"}}";
    int limits = 0;
    for (size_t max = 8; max < 1024; max += 8) {
        struct arena a;
        struct task t = { .version = 99 };
        struct error e = { 0 };
        arena_init(&a, max);
        enum err rc = try_make(&a, str_from(body), &t, &e);
        assert_true(rc == ERR_OK || rc == ERR_LIMIT);
        assert_int_equal(t.version, rc ? 99 : 1);
        limits += rc == ERR_LIMIT;
        arena_release(&a);
    }
    assert_in_range(limits, 20, 127);
}

/* ---- refusals ---- */

#define H "'target_config':{'url':'http://h'}"
#define U "'target_config':{'url':"
/* clang-format off */
static const struct {
    const char *body, *field, *says;
} bad[] = {
    /* not a body */
    { "[]", "", "must be an object, not an array" },
    { "7", "", "must be an object, not a number" },
    { "null", "", "must be an object, not null" },
    { "{}", "target_config", "is required: {\"url\": \"https://…\"}, or a target_type that needs none" },
    { "{'payload':{'a':1}}", "target_config", "is required: " },
    { "{'payload':null}", "target_config", "is required: " },
    { "{'target_config':null}", "target_config", "is required: " },
    /* unknown, not possible here, read-only */
    { "{'nmae':'x'," H "}", "nmae", "is unknown, did you mean 'name'?" },
    { "{'whatever':1," H "}", "whatever", "is unknown" },
    { "{'depends_on':['x']," H "}", "depends_on", "is not possible here" },
    { "{'join':'ANY'," H "}", "join", "is only for tasks with depends_on" },
    { "{'depends_on':[],'cron_expression':'* * * * *'," H "}", "depends_on", "is only for one-time tasks" },
    { "{'requires':'gpu'," H "}", "requires", "must be an array" },
    { "{'requires':['a b']," H "}", "requires", "a label may have only letters" },
    { "{'requires':['a,b']," H "}", "requires", "a label may have only letters" },
    { "{'resources':{'cpu':-1}," H "}", "resources.cpu", "" },
    { "{'resources':{'disk':1}," H "}", "resources.disk", "" },
    { "{'url':'https://example.com'," H "}", "url", "is unknown; did you mean target_config.url?" },
    { "{'id':'x'," H "}", "id", "is set by Belfry and cannot be given" },
    { "{'status':'PAUSED'," H "}", "status", "is set by Belfry and cannot be given" },
    { "{'version':1," H "}", "version", "is set by Belfry and cannot be given" },
    { "{'next_execution':null," H "}", "next_execution", "is set by Belfry and cannot be given" },
    { "{'last_run_at':null," H "}", "last_run_at", "is set by Belfry and cannot be given" },
    /* names and words */
    { "{'name':7," H "}", "name", "must be a string, not a number" },
    { "{'name':''," H "}", "name", "must not be empty" },
    { "{'name':'a\\nb'," H "}", "name", "must not hold control characters" },
    { "{'name':'a\\u007fb'," H "}", "name", "must not hold control characters" },
    { "{'name':'a\\u0085'," H "}", "name", "must not hold control characters" },
    { "{'name':'a\\u0000b'," H "}", "name", "must not contain a NUL character" },
    { "{'task_type':'a b'," H "}", "task_type", "must consist of letters, digits and . _ : -" },
    { "{'task_type':'a/b'," H "}", "task_type", "must consist of letters, digits and . _ : -" },
    { "{'task_type':''," H "}", "task_type", "must not be empty" },
    { "{'task_type':[]," H "}", "task_type", "must be a string, not an array" },
    { "{'queue':'ü'," H "}", "queue", "must consist of letters, digits and . _ : -" },
    { "{'queue':'a,b'," H "}", "queue", "must consist of letters, digits and . _ : -" },
    { "{'queue':''," H "}", "queue", "must not be empty" },
    { "{'queue':true," H "}", "queue", "must be a string, not a boolean" },
    { "{'priority':10," H "}", "priority", "must be between 0 and 9, not 10" },
    { "{'priority':-1," H "}", "priority", "must be between 0 and 9, not -1" },
    { "{'priority':5.5," H "}", "priority", "must be a whole number" },
    { "{'priority':'5'," H "}", "priority", "must be a number, not a string" },
    { "{'idempotency_key':''," H "}", "idempotency_key", "must not be empty" },
    { "{'idempotency_key':1," H "}", "idempotency_key", "must be a string, not a number" },
    /* type */
    { "{'type':'RECURING'," H "}", "type", "must be ONE_TIME or RECURRING, or a task type that looks like neither" },
    { "{'type':'OCCURRENCE'," H "}", "type", "must be ONE_TIME or RECURRING" },
    { "{'type':'send mail'," H "}", "type", "must be ONE_TIME, RECURRING or a task type of letters" },
    { "{'type':'a','task_type':'b'," H "}", "type", "is read as the task type here" },
    { "{'type':1," H "}", "type", "must be a string, not a number" },
    { "{'type':'RECURRING'," H "}", "type", "is RECURRING, so cron_expression or interval_seconds is required" },
    { "{'type':'ONE_TIME','interval_seconds':1," H "}", "interval_seconds", "is only for recurring tasks" },
    { "{'type':'ONE_TIME','cron_expression':'* * * * *'," H "}", "cron_expression", "is only for recurring tasks" },
    { "{'cron_expression':'* * * * *','interval_seconds':1," H "}", "interval_seconds", "cannot be given together with cron_expression; give one of the two" },
    /* one-time only, recurring only */
    { "{'run_at':'2026-02-10T08:00:00Z','interval_seconds':1," H "}", "run_at", "is only for one-time tasks; a recurring task begins at start_time" },
    { "{'scheduled_at':'2026-02-10T08:00:00Z','cron_expression':'* * * * *'," H "}", "scheduled_at", "is only for one-time tasks" },
    { "{'delay':'1m','interval_seconds':1," H "}", "delay", "is only for one-time tasks" },
    { "{'time_zone':'UTC'," H "}", "time_zone", "is only for recurring tasks" },
    { "{'dst_policy':{}," H "}", "dst_policy", "is only for recurring tasks" },
    { "{'start_time':'2026-02-10T08:00:00Z'," H "}", "start_time", "is only for recurring tasks" },
    { "{'end_date':'2026-02-10T08:00:00Z'," H "}", "end_date", "is only for recurring tasks" },
    { "{'max_runs':1," H "}", "max_runs", "is only for recurring tasks" },
    { "{'catch_up_mode':'SKIP_MISSED'," H "}", "catch_up_mode", "is only for recurring tasks" },
    { "{'catch_up_window_seconds':1," H "}", "catch_up_window_seconds", "is only for recurring tasks" },
    { "{'overlap_policy':'ALLOW'," H "}", "overlap_policy", "is only for recurring tasks" },
    /* time of a ONE_TIME task */
    { "{'run_at':'tomorrow'," H "}", "run_at", "" },
    { "{'run_at':1770710400," H "}", "run_at", "must be a string, not a number" },
    { "{'run_at':'2026-02-30T08:00:00Z'," H "}", "run_at", "has day 30, which does not exist in February" },
    { "{'run_at':'2026-02-10T08:00:00'," H "}", "run_at", "offset" },
    { "{'scheduled_at':'x'," H "}", "scheduled_at", "" },
    { "{'run_at':'2026-02-10T08:00:00Z','scheduled_at':'2026-02-10T08:00:00Z'," H "}", "scheduled_at", "is another name of run_at; give one of the two" },
    { "{'run_at':'2026-02-10T08:00:00Z','delay':'1s'," H "}", "delay", "cannot be given together with run_at; give one of the two" },
    { "{'scheduled_at':'2026-02-10T08:00:00Z','delay':'1s'," H "}", "delay", "cannot be given together with run_at; give one of the two" },
    { "{'delay':60," H "}", "delay", "must be a string, not a number" },
    { "{'delay':'1.5h'," H "}", "delay", "" },
    { "{'delay':'-1s'," H "}", "delay", "" },
    { "{'delay':''," H "}", "delay", "" },
    { "{'delay':'200000d'," H "}", "delay", "" },
    /* time of a RECURRING task */
    { "{'interval_seconds':0," H "}", "interval_seconds", "must be between 0.1 and 3162240000, not 0" },
    { "{'interval_seconds':3162240001," H "}", "interval_seconds", "must be between 0.1 and 3162240000" },
    { "{'interval_seconds':0.05," H "}", "interval_seconds", "must be between 0.1 and 3162240000, not 0.05" },
    { "{'interval_seconds':'5m'," H "}", "interval_seconds", "must be a number, not a string" },
    { "{'cron_expression':'61 * * * *'," H "}", "cron_expression", "minute: 61 is not between 0 and 59, at position 1" },
    { "{'cron_expression':'0 0 30 2 *'," H "}", "cron_expression", "day of month: February never has 30 days" },
    { "{'cron_expression':'* * *'," H "}", "cron_expression", "has 3 fields; expected 5" },
    { "{'cron_expression':'* * * * 8'," H "}", "cron_expression", "day of week: 8 is not between 0 and 7" },
    { "{'cron_expression':'@never'," H "}", "cron_expression", "this macro is not known" },
    { "{'cron_expression':''," H "}", "cron_expression", "must not be empty" },
    { "{'cron_expression':' '," H "}", "cron_expression", "is empty" },
    { "{'cron_expression':5," H "}", "cron_expression", "must be a string, not a number" },
    { "{'interval_seconds':1,'time_zone':'Mars/Olympus'," H "}", "time_zone", "Mars/Olympus" },
    { "{'interval_seconds':1,'time_zone':'Europe/Berlni'," H "}", "time_zone", "Europe/Berlin" },
    { "{'interval_seconds':1,'time_zone':'../etc/passwd'," H "}", "time_zone", "is not a time zone name" },
    { "{'interval_seconds':1,'time_zone':''," H "}", "time_zone", "must not be empty" },
    { "{'interval_seconds':1,'time_zone':1," H "}", "time_zone", "must be a string" },
    { "{'interval_seconds':1,'dst_policy':{'gap':'SHIFT'}," H "}", "dst_policy", "needs a cron_expression; an interval does not follow the clock" },
    { "{'cron_expression':'0 8 * * *','dst_policy':{'gap':'JUMP'}," H "}", "dst_policy.gap", "must be one of SHIFT, SKIP, not 'JUMP'" },
    { "{'cron_expression':'0 8 * * *','dst_policy':{'gap':''}," H "}", "dst_policy.gap", "must be one of SHIFT, SKIP" },
    { "{'cron_expression':'0 8 * * *','dst_policy':{'overlap':'NONE'}," H "}", "dst_policy.overlap", "must be one of FIRST, LAST, BOTH, not 'NONE'" },
    { "{'cron_expression':'0 8 * * *','dst_policy':{'gaps':1}," H "}", "dst_policy.gaps", "is unknown, did you mean 'gap'?" },
    { "{'cron_expression':'0 8 * * *','dst_policy':'SHIFT'," H "}", "dst_policy", "must be an object, not a string" },
    { "{'interval_seconds':1,'start_time':'soon'," H "}", "start_time", "" },
    { "{'interval_seconds':1,'start_time':'1970-01-01T00:00:00Z'," H "}", "start_time", "must be after 1970-01-01T00:00:00Z" },
    { "{'interval_seconds':1,'start_time':'1969-01-01T00:00:00Z'," H "}", "start_time", "must be after 1970-01-01T00:00:00Z" },
    { "{'interval_seconds':1,'start_time':'2300-01-01T00:00:00Z'," H "}", "start_time", "leaves nothing to fire: the schedule has no time after it" },
    { "{'interval_seconds':1,'end_date':'2026-02-09T08:00:00Z'," H "}", "end_date", "leaves nothing to fire" },
    { "{'cron_expression':'0 0 1 1 *','end_date':'2026-12-31T08:00:00Z'," H "}", "end_date", "leaves nothing to fire" },
    { "{'interval_seconds':1,'start_time':'2027-01-01T00:00:00Z','end_date':'2027-01-01T00:00:00Z'," H "}", "end_date", "must be after start_time" },
    { "{'interval_seconds':1,'end_date':1," H "}", "end_date", "must be a string" },
    { "{'interval_seconds':1,'max_runs':0," H "}", "max_runs", "must be between 1 and 1000000000, not 0" },
    { "{'interval_seconds':1,'max_runs':1000000001," H "}", "max_runs", "must be between 1 and 1000000000" },
    { "{'interval_seconds':1,'spread_seconds':-1," H "}", "spread_seconds", "must be between 0 and 86400, not -1" },
    { "{'interval_seconds':1,'spread_seconds':86401," H "}", "spread_seconds", "must be between 0 and 86400, not 86401" },
    { "{'interval_seconds':1,'catch_up_mode':'ALL'," H "}", "catch_up_mode", "must be one of RUN_ONE_NOW, RUN_ALL_MISSED, SKIP_MISSED, not 'ALL'" },
    { "{'interval_seconds':1,'catch_up_window_seconds':0," H "}", "catch_up_window_seconds", "must be between 0.001 and 31622400, not 0" },
    { "{'interval_seconds':1,'overlap_policy':'WAIT'," H "}", "overlap_policy", "must be one of SKIP, ALLOW, QUEUE_ONE, QUEUE_ALL, CANCEL_PREVIOUS, not 'WAIT'" },
    /* delivery, retry, timeout */
    { "{'delivery':'EXACTLY_ONCE'," H "}", "delivery", "must be one of AT_LEAST_ONCE, AT_MOST_ONCE, not 'EXACTLY_ONCE'" },
    { "{'retry':5," H "}", "retry", "must be an object, not a number" },
    { "{'retry':{'attempts':5}," H "}", "retry.attempts", "is unknown" },
    { "{'retry':{'max_attempts':0}," H "}", "retry.max_attempts", "must be between 1 and 100, not 0" },
    { "{'retry':{'max_attempts':101}," H "}", "retry.max_attempts", "must be between 1 and 100, not 101" },
    { "{'retry':{'backoff':'LINEAR'}," H "}", "retry.backoff", "must be one of EXPONENTIAL, FIXED, not 'LINEAR'" },
    { "{'retry':{'jitter':'SOME'}," H "}", "retry.jitter", "must be one of FULL, NONE, not 'SOME'" },
    { "{'retry':{'base_delay_ms':0}," H "}", "retry.base_delay_ms", "must be between 1 and 86400000, not 0" },
    { "{'retry':{'max_delay_ms':604800001}," H "}", "retry.max_delay_ms", "must be between 1 and 604800000" },
    { "{'retry':{'base_delay_ms':10,'max_delay_ms':9}," H "}", "retry.max_delay_ms", "must be at least base_delay_ms, which is 10" },
    { "{'retry':{'max_delay_ms':999}," H "}", "retry.max_delay_ms", "must be at least base_delay_ms, which is 1000" },
    { "{'retry':{'rules':{}}," H "}", "retry.rules", "must be a list of at most 20 rules" },
    { "{'retry':{'rules':[{}]}," H "}", "retry.rules[0].on", "is required" },
    { "{'retry':{'rules':[{'on':['503']},{'on':['often']}]}," H "}", "retry.rules[1].on[0]", "'often' is neither a status" },
    { "{'retry':{'rules':[{'on':['503'],'max_attempts':0}]}," H "}", "retry.rules[0].max_attempts", "must be between 1 and 100" },
    { "{'retry':{'rules':[{'on':['503'],'wait':0}]}," H "}", "retry.rules[0].wait", "is unknown" },
    { "{'max_retries':-1," H "}", "max_retries", "must be between 0 and 99, not -1" },
    { "{'max_retries':100," H "}", "max_retries", "must be between 0 and 99, not 100" },
    { "{'max_retries':1,'retry':{'max_attempts':2}," H "}", "max_retries", "means retry.max_attempts - 1; give one of the two" },
    { "{'timeout_ms':0," H "}", "timeout_ms", "must be between 1 and 3600000, not 0" },
    { "{'timeout_ms':3600001," H "}", "timeout_ms", "must be between 1 and 3600000, not 3600001" },
    { "{'timeout_ms':'30s'," H "}", "timeout_ms", "must be a number, not a string" },
    /* targets */
    { "{'target_type':'FAX'}", "target_type", "must be one of HTTP_CALLBACK, QUEUE_MESSAGE, WORKER, WORKFLOW, NOOP, not 'FAX'" },
    { "{'target_type':'HTTP_CALLBACK'}", "target_config", "is required for an HTTP_CALLBACK" },
    { "{'target_type':'HTTP_CALLBACK','payload':{'webhook_url':'http://h'}}", "target_config", "is required for an HTTP_CALLBACK" },
    { "{'target_type':'QUEUE_MESSAGE'}", "target_config", "is required for a QUEUE_MESSAGE" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{}}", "target_config.broker", "is required" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'jobs'}}", "target_config.destination", "is required" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'a b','destination':'d'}}", "target_config.broker", "must be a name" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'http://a','destination':'d'}}", "target_config.broker", "must be a name, or begin with redis://" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'redis://me:pw@a','destination':'d'}}", "target_config.broker", "must not hold a user or password" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'kafka://a?ssl.ca.location=/etc/passwd','destination':'d'}}", "target_config.broker", "must not hold parameters" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'redis://','destination':'d'}}", "target_config.broker", "has no host" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'redis://a,b','destination':'d'}}", "target_config.broker", "has too many hosts" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'redis://a:0','destination':'d'}}", "target_config.broker", "has a port that is not" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'kafka://a/b','destination':'d'}}", "target_config.broker", "must have no path" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'j','destination':''}}", "target_config.destination", "" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'j','destination':'a\\nb'}}", "target_config.destination", "must not hold control characters" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'j','destination':'d','headers':{'Belfry-Fence':'1'}}}", "target_config.headers.Belfry-Fence", "is reserved" },
    { "{'target_type':'QUEUE_MESSAGE','target_config':{'broker':'j','destination':'d','url':'x'}}", "target_config.url", "" },
    { "{'target_type':'COMMAND'}", "target_type", "must be one of HTTP_CALLBACK, QUEUE_MESSAGE, WORKER, WORKFLOW, NOOP, not 'COMMAND'" },
    { "{'target_type':'WORKER','target_config':{'url':'x'}}", "target_config.url", "" },
    { "{'target_type':'WORKFLOW'}", "target_config", "is required for a WORKFLOW" },
    { "{'target_type':'WORKFLOW','target_config':{}}", "target_config.workflow", "is required" },
    { "{'target_type':'WORKFLOW','target_config':{'workflow':'w'},'timeout_ms':5}", "timeout_ms", "has no effect" },
    { "{'target_type':'NOOP','target_config':{'url':'http://h'}}", "target_config.url", "is unknown" },
    { "{'target_type':'NOOP','target_config':[]}", "target_config", "must be an object, not an array" },
    { "{'target_config':'http://h'}", "target_config", "must be an object, not a string" },
    { "{'target_config':{}}", "target_config.url", "is required" },
    { "{'target_config':{'uri':'http://h'}}", "target_config.uri", "is unknown, did you mean 'url'?" },
    { "{" U "7}}", "target_config.url", "must be a string, not a number" },
    { "{" U "null}}", "target_config.url", "must be a string, not null" },
    { "{" U "''}}", "target_config.url", "must not be empty" },
    { "{" U "'h'}}", "target_config.url", "must begin with http:// or https://" },
    { "{" U "'ftp://h/'}}", "target_config.url", "must begin with http:// or https://" },
    { "{" U "'file:///etc/passwd'}}", "target_config.url", "must begin with http:// or https://" },
    { "{" U "'javascript:alert(1)'}}", "target_config.url", "must begin with http:// or https://" },
    { "{" U "'http:/h'}}", "target_config.url", "must begin with http:// or https://" },
    { "{" U "'http://'}}", "target_config.url", "has no host" },
    { "{" U "'http:///path'}}", "target_config.url", "has no host" },
    { "{" U "'http://?q'}}", "target_config.url", "has no host" },
    { "{" U "'http://:80/'}}", "target_config.url", "has no host" },
    { "{" U "'http://[]/'}}", "target_config.url", "has no host" },
    { "{" U "'http://[]:80/'}}", "target_config.url", "has no host" },
    { "{" U "'http://[::1/'}}", "target_config.url", "has a '[' without its ']'" },
    { "{" U "'http://[::1]x/'}}", "target_config.url", "has a port that is not between 1 and 65535" },
    { "{" U "'http://h:0/'}}", "target_config.url", "has a port that is not between 1 and 65535" },
    { "{" U "'http://h:65536/'}}", "target_config.url", "has a port that is not between 1 and 65535" },
    { "{" U "'http://h:8o/'}}", "target_config.url", "has a port that is not between 1 and 65535" },
    { "{" U "'http://u@h/'}}", "target_config.url", "must not hold a user or password; send them in a header" },
    { "{" U "'http://u:p@h/'}}", "target_config.url", "must not hold a user or password; send them in a header" },
    { "{" U "'http://h/a b'}}", "target_config.url", "must not hold ' ' (at position 11); write it as %20" },
    { "{" U "'http://h/\\r\\nX: y'}}", "target_config.url", "must not hold byte 0x0d (at position 10); write it as %0D" },
    { "{" U "'http://h/\\u007f'}}", "target_config.url", "must not hold byte 0x7f" },
    { "{" U "'http://h\\\\@x/'}}", "target_config.url", "must not hold '\\'" },
    { "{" U "'http://h/\\u0000'}}", "target_config.url", "must not contain a NUL character" },
    { "{" U "'http://bücher.example/'}}", "target_config.url", "must be ASCII (at position 9)" },
    { "{" U "'http://h','method':'TRACE'}}", "target_config.method", "must be one of GET, POST, PUT, PATCH, DELETE, HEAD, not 'TRACE'" },
    { "{" U "'http://h','method':'get'}}", "target_config.method", "must be one of GET" },
    { "{" U "'http://h','method':null}}", "target_config.method", "must be a string, not null" },
    { "{" U "'http://h','timeout_ms':null}}", "target_config.timeout_ms", "must be a number, not null" },
    { "{" U "'http://h','method':'HEAD','body':{}}}", "target_config.body", "cannot be sent with HEAD" },
    { "{'payload':{'webhook_url':'http://h','method':'HEAD','body':0}}", "payload.body", "cannot be sent with HEAD" },
    { "{" U "'http://h','timeout_ms':0}}", "target_config.timeout_ms", "must be between 1 and 3600000, not 0" },
    { "{" U "'http://h','headers':[]}}", "target_config.headers", "must be an object of names and strings" },
    { "{" U "'http://h','headers':{'':'x'}}}", "target_config.headers.", "is not a valid header name; use letters, digits and dashes" },
    { "{" U "'http://h','headers':{'a b':'x'}}}", "target_config.headers.a b", "is not a valid header name; use letters, digits and dashes" },
    { "{" U "'http://h','headers':{'a:':'x'}}}", "target_config.headers.a:", "is not a valid header name; use letters, digits and dashes" },
    { "{" U "'http://h','headers':{'a\\r\\n':'x'}}}", "target_config.headers.a\r\n", "is not a valid header name; use letters, digits and dashes" },
    { "{" U "'http://h','headers':{'ä':'x'}}}", "target_config.headers.ä", "is not a valid header name; use letters, digits and dashes" },
    { "{" U "'http://h','headers':{'X':1}}}", "target_config.headers.X", "must be a string" },
    { "{" U "'http://h','headers':{'X':null}}}", "target_config.headers.X", "must be a string" },
    { "{" U "'http://h','headers':{'X':'a\\nb'}}}", "target_config.headers.X", "must hold visible ASCII characters only" },
    { "{" U "'http://h','headers':{'X':'a\\u0000b'}}}", "target_config.headers.X", "must hold visible ASCII characters only" },
    { "{" U "'http://h','headers':{'X':'ü'}}}", "target_config.headers.X", "must hold visible ASCII characters only" },
    { "{" U "'http://h','headers':{'X-A':'1','x-a':'2'}}}", "target_config.headers", "'x-a' is given twice: case makes no difference" },
    { "{" U "'http://h','headers':{'Host':'x'}}}", "target_config.headers.Host", "is reserved: Belfry or the HTTP connection sets it" },
    { "{" U "'http://h','headers':{'content-length':'1'}}}", "target_config.headers.content-length", "is reserved: Belfry or the HTTP connection sets it" },
    { "{" U "'http://h','headers':{'Transfer-Encoding':'x'}}}", "target_config.headers.Transfer-Encoding", "is reserved: Belfry or the HTTP connection sets it" },
    { "{" U "'http://h','headers':{'Connection':'close'}}}", "target_config.headers.Connection", "is reserved: Belfry or the HTTP connection sets it" },
    { "{" U "'http://h','headers':{'Webhook-Id':'1'}}}", "target_config.headers.Webhook-Id", "is reserved: Belfry or the HTTP connection sets it" },
    { "{" U "'http://h','headers':{'webhook-anything':'1'}}}", "target_config.headers.webhook-anything", "is reserved: Belfry or the HTTP connection sets it" },
    { "{" U "'http://h','headers':{'BELFRY-Task-Id':'1'}}}", "target_config.headers.BELFRY-Task-Id", "is reserved: Belfry or the HTTP connection sets it" },
    { "{" U "'http://h','headers':{'Idempotency-Key':'1'}}}", "target_config.headers.Idempotency-Key", "is reserved: Belfry or the HTTP connection sets it" },
    { "{" U "'http://h','headers':{'traceparent':'1'}}}", "target_config.headers.traceparent", "is reserved: Belfry or the HTTP connection sets it" },
    { "{" U "'http://h','headers':{'Proxy-Authorization':'1'}}}", "target_config.headers.Proxy-Authorization", "is reserved: Belfry or the HTTP connection sets it" },
    /* the short form, metadata */
    { "{'payload':{'webhook_url':7}}", "payload.webhook_url", "must be a string, not a number" },
    { "{'payload':{'webhook_url':''}}", "payload.webhook_url", "must not be empty" },
    { "{'payload':{'webhook_url':'h'}}", "payload.webhook_url", "must begin with http:// or https://" },
    { "{'payload':{'webhook_url':'http://u@h'}}", "payload.webhook_url", "must not hold a user or password" },
    { "{'payload':{'webhook_url':'http://h','method':'BREW'}}", "payload.method", "must be one of GET" },
    { "{'payload':{'webhook_url':'http://h','header':{}}}", "payload.header", "is unknown" },
    { "{'type':'email','payload':{'webhook_url':'http://h','body':1,'a':1}}", "payload.a", "is unknown" },
    { "{'type':'email','payload':{'webhook_url':'h','a':1}}", "payload.webhook_url", "must begin with http:// or https://" },
    { "{'type':'email','payload':{'webhook_url':'http://h','method':'BREW','a':1}}", "payload.method", "must be one of GET" },
    { "{'metadata':[]," H "}", "metadata", "must be an object" },
    { "{'metadata':'x'," H "}", "metadata", "must be an object" },
};
/* clang-format on */

static void bad_bodies_are_refused_by_field_with_a_sentence(void **state)
{
    assert_true(array_count(bad) >= 120);
    for (size_t i = 0; i < array_count(bad); i++) {
        cleanup_with(free_charp) char *body = unquoted(bad[i].body);
        struct task t = { .version = 99 };
        struct error e = { 0 };
        enum err rc = try_make(*state, str_from(body), &t, &e);
        bool as_told = rc == ERR_INVALID && e.code == ERR_INVALID && strcmp(e.field, bad[i].field) == 0 && e.text[0] &&
                       strstr(e.text, bad[i].says);
        if (!as_told)
            fail_msg("%s: %d '%s' '%s', not '%s' '%s'", body, rc, e.field, e.text, bad[i].field, bad[i].says);
        assert_int_equal(t.version, 99);
        assert_int_equal(try_make(*state, str_from(body), &t, &(struct error){ 0 }), ERR_INVALID);
    }
}

static void long_texts_are_refused_with_their_length(void **state)
{
    static const struct {
        const char *format, *field, *says;
        int length;
    } rows[] = {
        { "{\"name\":\"%.*s\"," HOOK "}", "name", "must be between 1 and 255 characters long, not 256", 256 },
        { "{\"queue\":\"%.*s\"," HOOK "}", "queue", "must be between 1 and 100 bytes long, not 101", 101 },
        { "{\"task_type\":\"%.*s\"," HOOK "}", "task_type", "must be between 1 and 100 bytes long, not 101", 101 },
        { "{\"idempotency_key\":\"%.*s\"," HOOK "}", "idempotency_key", "must be between 1 and 255 bytes long, not 256",
          256 },
        { "{\"target_config\":{\"url\":\"%.*s\"}}", "target_config.url",
          "must be between 1 and 2048 bytes long, not 2049", 2049 },
        { "{\"cron_expression\":\"%.*s\"," HOOK "}", "cron_expression",
          "is 300 characters long; at most 256 are allowed", 300 },
        { "{\"target_config\":{\"url\":\"http://h\",\"headers\":{\"X\":\"%.*s\"}}}", "target_config.headers.X",
          "must be at most 8192 bytes long", 8193 },
        { "{\"target_config\":{\"url\":\"http://h\",\"headers\":{\"%.*s\":\"\"}}}", "target_config.headers",
          "must have names of at most 128 bytes", 129 },
    };
    static char filler[9000], body[10000];
    memset(filler, 'x', sizeof filler);
    for (size_t i = 0; i < array_count(rows); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(body, sizeof body, rows[i].format, rows[i].length, filler);
#pragma GCC diagnostic pop
        struct task t;
        struct error e = { 0 };
        assert_int_equal(try_make(*state, str_from(body), &t, &e), ERR_INVALID);
        assert_string_equal(e.field, rows[i].field);
        assert_says(&e, rows[i].says);
    }
}

static void nobody_need_ask_why(void **state)
{
    struct task_context c = context();
    struct json_doc d;
    struct task t, changed;
    bool reschedules;
    assert_int_equal(json_parse(S("{\"target_type\":\"NOOP\",\"max_runs\":1}"), &d, NULL), ERR_OK);
    assert_int_equal(task_from_json(&d, &c, *state, &t, NULL), ERR_INVALID);
    t = make(state, "{" HOOK "}");
    assert_int_equal(task_patch_json(&t, &d, &c, *state, &changed, &reschedules, NULL), ERR_INVALID);
    json_doc_release(&d);
    t = make(state, "{" EVERY HOOK "}");
    struct recurrence rule;
    struct rule_base base = { 0 };
    t.schedule.time_zone = S("Nowhere");
    assert_int_equal(task_rule(&t, zones, NULL, &rule, &base, NULL), ERR_INVALID);
    t.schedule.time_zone = S("UTC");
    t.schedule.calendar = S("none");
    assert_int_equal(task_rule(&t, zones, NULL, &rule, &base, NULL), ERR_INVALID);
    t.schedule.calendar = S("");
    t.schedule.cron = S("x");
    assert_int_equal(task_rule(&t, zones, NULL, &rule, &base, NULL), ERR_INVALID);
    assert_null(base.zone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(everything_but_the_target_has_a_default),
        row(every_field_of_a_one_time_task_is_kept),
        row(every_field_of_a_recurring_task_is_kept),
        row(a_recurring_task_has_defaults_too),
        row(seconds_may_have_a_fraction),
        row(a_type_that_is_no_kind_is_the_task_type_and_means_a_worker),
        row(a_one_time_task_is_spread_by_its_id_and_its_run_at_stays),
        row(a_preview_needs_no_target),
        row(a_zone_whose_file_is_damaged_is_refused_by_its_field),
        row(due_is_never_before_now_and_the_wish_is_kept),
        row(aliases_mean_what_they_stand_for),
        row(the_short_form_becomes_a_target),
        row(the_timeout_of_the_config_wins),
        row(null_is_the_same_as_absent),
        row(a_larger_first_delay_raises_the_cap_that_nobody_set),
        row(urls_of_every_sound_form_are_taken),
        row(headers_of_every_sound_form_are_taken),
        row(texts_at_their_limits_are_taken),
        row(fifty_headers_are_taken_and_one_more_is_not),
        row(a_full_arena_is_a_limit_not_a_crash),
        row(bad_bodies_are_refused_by_field_with_a_sentence),
        row(long_texts_are_refused_with_their_length),
        row(nobody_need_ask_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

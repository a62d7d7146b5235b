#include "make_task.h"

static void an_edit_changes_only_what_it_names(void **state)
{
    struct task t =
        make(state, "{\"name\":\"n\",\"queue\":\"q\",\"task_type\":\"tt\",\"priority\":3,\"payload\":[1],"
                    "\"metadata\":{\"m\":1},\"delay\":\"1h\",\"delivery\":\"AT_MOST_ONCE\",\"timeout_ms\":9,"
                    "\"retry\":{\"max_attempts\":2,\"rules\":[{\"on\":[\"5xx\"]}]}," HOOK "}");
    struct task p = patch(state, &t, "{\"priority\":8}");
    assert_int_equal(p.priority, 8);
    assert_int_equal(p.version, 2);
    assert_int_equal(p.updated_ms, NOW_MS + 1000);
    assert_int_equal(p.created_ms, NOW_MS);
    assert_int_equal(p.due_ms, t.due_ms);
    assert_int_equal(p.scheduled_ms, t.scheduled_ms);
    assert_str(p.name, "n");
    assert_str(p.queue, "q");
    assert_str(p.task_type, "tt");
    assert_str(p.payload, "[1]");
    assert_str(p.extra, "{\"metadata\":{\"m\":1}}");
    assert_int_equal(p.delivery, DELIVER_AT_MOST_ONCE);
    assert_int_equal(p.timeout_ms, 9);
    assert_int_equal(p.retry.max_attempts, 2);
    assert_str(p.retry.rules, "[{\"on\":[\"5xx\"]}]");
    assert_str(p.target_config, "{\"url\":\"https://example.com/x\"}");
    p = patch(state, &t, "{}");
    assert_int_equal(p.version, 2);
    assert_int_equal(p.priority, 3);
}

static void an_edit_takes_every_field(void **state)
{
    struct task t = make(state, "{" HOOK "}");
    struct task p = patch(state, &t,
                          "{\"name\":\"n\",\"queue\":\"q\",\"task_type\":\"tt\",\"payload\":{\"webhook_url\":1},"
                          "\"metadata\":{},\"run_at\":\"2026-03-01T00:00:00Z\",\"delivery\":\"AT_MOST_ONCE\","
                          "\"timeout_ms\":9,\"max_retries\":2,\"type\":\"ONE_TIME\","
                          "\"retry\":{\"rules\":[],\"base_delay_ms\":5},"
                          "\"target_config\":{\"url\":\"http://y\"}}");
    assert_str(p.name, "n");
    assert_str(p.payload, "{\"webhook_url\":1}");
    assert_str(p.extra, "{\"metadata\":{}}");
    assert_int_equal(p.due_ms, at("2026-03-01T00:00:00Z"));
    assert_int_equal(p.retry.max_attempts, 3);
    assert_int_equal(p.retry.base_delay_ms, 5);
    assert_str(p.retry.rules, "[]");
    assert_str(p.target_config, "{\"url\":\"http://y\"}");
    assert_int_equal(p.timeout_ms, 9);
    assert_int_equal(patch(state, &t, "{\"delay\":\"1m\"}").due_ms, NOW_MS + 61000);
    assert_int_equal(patch(state, &t, "{\"run_at\":\"2000-01-01T00:00:00Z\"}").due_ms, NOW_MS + 1000);
    p = patch(state, &t, "{\"target_type\":\"NOOP\"}");
    assert_int_equal(p.target, TARGET_NOOP);
    assert_str(p.target_config, "");
}

static void null_in_an_edit_goes_back_to_the_default(void **state)
{
    struct task t = make(state, "{\"name\":\"n\",\"queue\":\"q\",\"priority\":3,\"payload\":[1],\"metadata\":{\"m\":1},"
                                "\"retry\":{\"max_attempts\":2,\"base_delay_ms\":7,\"rules\":[{\"on\":[\"5xx\"]}]},"
                                "\"delay\":\"1h\"," HOOK "}");
    struct task p = patch(state, &t,
                          "{\"name\":null,\"queue\":null,\"priority\":null,\"payload\":null,\"metadata\":null,"
                          "\"retry\":{\"base_delay_ms\":null,\"rules\":null},\"run_at\":null,"
                          "\"target_config\":null}");
    assert_str(p.name, "");
    assert_str(p.queue, "default");
    assert_int_equal(p.priority, 5);
    assert_str(p.payload, "");
    assert_str(p.extra, "");
    assert_int_equal(p.retry.max_attempts, 2);
    assert_int_equal(p.retry.base_delay_ms, 1000);
    assert_str(p.retry.rules, "");
    assert_int_equal(p.due_ms, t.due_ms);
    assert_str(p.target_config, "{\"url\":\"https://example.com/x\"}");
    p = patch(state, &t, "{\"retry\":null}");
    assert_int_equal(p.retry.max_attempts, 5);
    assert_str(p.retry.rules, "");
    struct task r = make(state, "{" DAILY HOOK ",\"end_date\":\"2027-01-01T00:00:00Z\",\"max_runs\":3,"
                                "\"dst_policy\":{\"gap\":\"SKIP\",\"overlap\":\"BOTH\"}}");
    p = patch(state, &r, "{\"end_date\":null,\"max_runs\":null,\"dst_policy\":{\"gap\":null}}");
    assert_int_equal(p.schedule.end_ms, INT64_MAX);
    assert_int_equal(p.schedule.max_runs, 0);
    assert_int_equal(p.schedule.gap, DST_GAP_DEFAULT);
    assert_int_equal(p.schedule.repeat, DST_REPEAT_BOTH);
}

static void a_new_schedule_moves_the_cursor_and_nothing_else_does(void **state)
{
    struct task t = make(state, "{" EVERY HOOK "}");
    t.cursor_ms = NOW_MS - 3600000; /* an hour behind: to be caught up */
    t.runs_count = 4;
    struct task p = patch(state, &t, "{\"priority\":1,\"max_runs\":5,\"catch_up_mode\":\"RUN_ALL_MISSED\"}");
    assert_int_equal(p.cursor_ms, t.cursor_ms);
    assert_int_equal(p.schedule.max_runs, 5);
    assert_int_equal(p.schedule.catch_up, CATCH_UP_ALL);
    assert_int_equal(p.runs_count, 4);
    p = patch(state, &t, "{\"interval_seconds\":60}");
    assert_int_equal(p.cursor_ms, NOW_MS + 60000); /* counted from its creation */
    assert_int_equal(p.schedule.interval_ms, 60000);
    p = patch(state, &t, "{\"cron_expression\":\"0 9 * * *\",\"time_zone\":\"Europe/Berlin\"}");
    assert_str(p.schedule.cron, "0 9 * * *");
    assert_int_equal(p.schedule.interval_ms, 0);
    assert_int_equal(p.cursor_ms, at("2026-02-11T08:00:00Z"));
    struct task back = patch(state, &p, "{\"interval_seconds\":300}");
    assert_int_equal(back.schedule.cron.n, 0);
    assert_int_equal(back.cursor_ms, NOW_MS + 300000);
    static const char *const moving[] = { "{\"time_zone\":\"Asia/Tokyo\"}", "{\"start_time\":\"2026-02-10T10:00:00Z\"}",
                                          "{\"end_date\":\"2027-01-01T00:00:00Z\"}", "{\"spread_seconds\":10}" };
    for (size_t i = 0; i < array_count(moving); i++)
        assert_true(patch(state, &t, moving[i]).cursor_ms > NOW_MS);
    p.cursor_ms = 5;
    assert_int_equal(patch(state, &p, "{\"dst_policy\":{\"gap\":\"SHIFT\"}}").cursor_ms, at("2026-02-11T08:00:00Z"));
    assert_int_equal(patch(state, &p, "{\"dst_policy\":{\"overlap\":\"LAST\"}}").cursor_ms, at("2026-02-11T08:00:00Z"));
}

static void a_one_time_task_is_spread_again_when_its_time_or_its_spread_changes(void **state)
{
    struct task t = make(state, "{" HOOK ",\"run_at\":\"2026-02-11T00:00:00Z\",\"metadata\":{\"a\":1}}");
    int64_t part_ms = schedule_spread(&(struct schedule){ .spread_ms = 600000 }, t.id);
    struct task p = patch(state, &t, "{\"spread_seconds\":600}");
    assert_int_equal(p.scheduled_ms, t.scheduled_ms);
    assert_int_equal(p.due_ms, t.scheduled_ms + part_ms);
    p = patch(state, &p, "{\"run_at\":\"2026-02-12T00:00:00Z\"}");
    assert_int_equal(p.due_ms, at("2026-02-12T00:00:00Z") + part_ms);
    p = patch(state, &p, "{\"priority\":1}");
    assert_str(p.extra, "{\"metadata\":{\"a\":1},\"spread_seconds\":600}");
    p = patch(state, &p, "{\"spread_seconds\":null}");
    assert_int_equal(p.due_ms, at("2026-02-12T00:00:00Z"));
    assert_str(p.extra, "{\"metadata\":{\"a\":1}}");
}

static void a_worker_task_has_a_timeout_only_while_one_is_given(void **state)
{
    struct task t = make(state, "{\"target_type\":\"WORKER\",\"delay\":\"1h\"}");
    assert_int_equal(t.timeout_ms, 0);
    struct task p = patch(state, &t, "{\"timeout_ms\":1500}");
    assert_int_equal(p.timeout_ms, 1500);
    assert_int_equal(patch(state, &p, "{\"priority\":1}").timeout_ms, 1500);
    assert_int_equal(patch(state, &p, "{\"timeout_ms\":null}").timeout_ms, 0);
    p = patch(state, &t, "{\"target_type\":\"NOOP\"}");
    assert_int_equal(p.timeout_ms, 30000);
}

static void a_claimed_task_is_edited_until_it_fires(void **state)
{
    struct task t = make(state, "{" HOOK ",\"delay\":\"10s\"}"), p;
    t.state = TASK_RUNNING;
    t.fence = 3;
    t.claim = t.id;
    p = patch(state, &t, "{\"priority\":1}");
    assert_int_equal(p.state, TASK_SCHEDULED);
    assert_int_equal(p.fence, 3);
    assert_true(uuid_is_nil(p.claim));
    struct error e = { 0 };
    bool reschedules;
    assert_int_equal(try_patch(*state, &t, "{\"priority\":1}", t.due_ms, &p, &reschedules, &e), ERR_CONFLICT);
    assert_string_equal(e.text, "the task is RUNNING and cannot be changed; wait for it to end, or cancel it");
}

static void what_is_over_stays_as_it_was_but_a_failure_may_be_mended(void **state)
{
    struct task t = make(state, "{" HOOK "}"), p;
    static const enum task_state over[] = { TASK_COMPLETED, TASK_CANCELLED, TASK_SKIPPED, TASK_EXPIRED };
    struct error e = { 0 };
    bool reschedules;
    for (size_t i = 0; i < array_count(over); i++) {
        t.state = over[i];
        assert_int_equal(try_patch(*state, &t, "{}", NOW_MS, &p, &reschedules, &e), ERR_CONFLICT);
        assert_says(&e, task_state_name(over[i]));
        assert_says(&e, "create a new task");
    }
    t.state = TASK_FAILED;
    p = patch(state, &t, "{\"target_config\":{\"url\":\"http://better\"}}");
    assert_int_equal(p.state, TASK_FAILED);
    assert_str(p.target_config, "{\"url\":\"http://better\"}");
    assert_int_equal(try_patch(*state, &t, "{\"run_at\":\"2026-03-01T00:00:00Z\"}", NOW_MS, &p, &reschedules, &e),
                     ERR_INVALID);
    assert_string_equal(e.field, "run_at");
    assert_string_equal(e.text, "cannot be changed: the task is FAILED; retry it");
    assert_int_equal(try_patch(*state, &t, "{\"delay\":\"1s\"}", NOW_MS, &p, &reschedules, &e), ERR_INVALID);
    assert_string_equal(e.field, "delay");
    t.deleted = true;
    assert_int_equal(try_patch(*state, &t, "{}", NOW_MS, &p, &reschedules, &e), ERR_NOT_FOUND);
}

static void bad_edits_are_refused_by_field(void **state)
{
    struct task once = make(state, "{" HOOK "}"), every = make(state, "{" EVERY HOOK "}");
    struct task timed = make(state, "{\"target_config\":{\"url\":\"http://h\",\"timeout_ms\":5}}");
    struct task noop = make(state, "{\"target_type\":\"NOOP\"}"), occurrence = once;
    struct task secret =
        make(state, "{\"target_config\":{\"url\":\"http://h\",\"headers\":{\"Authorization\":\"s\"}}}");
    occurrence.kind = TASK_OCCURRENCE;
    struct task message = make(state, "{\"target_type\":\"QUEUE_MESSAGE\",\"target_config\":{\"broker\":\"redis://h\","
                                      "\"destination\":\"d\",\"headers\":{\"X-Token\":\"s\"}}}");
    const struct {
        const struct task *task;
        const char *body, *field, *says;
    } rows[] = {
        { &once, "{'type':'RECURRING','interval_seconds':1}", "type",
          "is ONE_TIME and cannot be changed; create a new task" },
        { &every, "{'type':'ONE_TIME'}", "type", "is RECURRING and cannot be changed" },
        { &once, "{'interval_seconds':1}", "interval_seconds", "is only for recurring tasks" },
        { &every, "{'run_at':'2026-03-01T00:00:00Z'}", "run_at", "is only for one-time tasks" },
        { &occurrence, "{'delay':'1s'}", "delay", "is only for one-time tasks" },
        { &occurrence, "{'max_runs':1}", "max_runs", "is only for recurring tasks" },
        { &every, "{'interval_seconds':null}", "cron_expression", "or interval_seconds is required" },
        { &every, "{'cron_expression':'x'}", "cron_expression", "has 1 field" },
        { &every, "{'time_zone':'Nowhere'}", "time_zone", "Nowhere" },
        { &every, "{'end_date':'2020-01-01T00:00:00Z'}", "end_date", "leaves nothing to fire" },
        { &timed, "{'timeout_ms':6}", "timeout_ms", "is set by target_config.timeout_ms; change it there" },
        { &timed, "{'timeout_ms':6,'target_config':{'url':'http://i'}}", "timeout_ms", "change it there" },
        { &timed, "{'target_config':{'url':null}}", "target_config.url", "is required" },
        { &timed, "{'target_config':{'u\\u0072l':'http://i'}}", "target_config.u\\u0072l", "is given twice" },
        { &timed, "{'target_config':[]}", "target_config", "must be an object" },
        { &secret, "{'target_config':{'url':'http://i'}}", "target_config.headers.Authorization",
          "must be given again, or be null, because the host or broker is another one" },
        { &message, "{'target_config':{'broker':'redis://i'}}", "target_config.headers.X-Token",
          "or broker is another one" },
        { &noop, "{'target_type':'HTTP_CALLBACK'}", "target_config", "is required for an HTTP_CALLBACK" },
        { &once, "{'target_type':'COMMAND'}", "target_type",
          "must be one of HTTP_CALLBACK, QUEUE_MESSAGE, WORKER, WORKFLOW, NOOP, not 'COMMAND'" },
        { &once, "{'target_config':{'url':'x'}}", "target_config.url", "must begin with" },
        { &once, "{'status':'PAUSED','name':'x'}", "status", "is set by Belfry" },
        { &once, "[]", "", "must be an object" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        cleanup_with(free_charp) char *body = unquoted(rows[i].body);
        struct task p = { .version = 99 };
        struct error e = { 0 };
        bool reschedules = false;
        enum err rc = try_patch(*state, rows[i].task, body, NOW_MS + 1, &p, &reschedules, &e);
        if (rc != ERR_INVALID || strcmp(e.field, rows[i].field) != 0 || !strstr(e.text, rows[i].says))
            fail_msg("%s: %d '%s' '%s', not '%s' '%s'", body, rc, e.field, e.text, rows[i].field, rows[i].says);
        assert_int_equal(p.version, 99);
        assert_false(reschedules);
    }
}

static void a_run_that_is_over_is_run_again_instead(void **state)
{
    struct task run = make(state, "{\"target_type\":\"WORKFLOW\",\"target_config\":{\"workflow\":\"w\"}}"), p;
    struct error e = { 0 };
    char id[UUID_TEXT + 1], says[200];
    bool reschedules = false;
    run.state = TASK_COMPLETED;
    uuid_format(run.id, id);
    snprintf(says, sizeof says, "the run is COMPLETED and cannot be changed; use POST /v1/workflows/%s/rerun", id);
    assert_int_equal(try_patch(*state, &run, "{\"priority\":1}", NOW_MS + 1, &p, &reschedules, &e), ERR_CONFLICT);
    assert_string_equal(e.text, says);
}

static void a_timeout_goes_with_the_config_that_brought_it(void **state)
{
    struct task t = make(state, "{\"timeout_ms\":9,\"target_config\":{\"url\":\"http://h\",\"timeout_ms\":5}}");
    assert_int_equal(patch(state, &t, "{\"target_config\":{\"url\":\"http://i\"}}").timeout_ms, 5);
    assert_int_equal(patch(state, &t, "{\"target_config\":{\"timeout_ms\":null}}").timeout_ms, 30000);
    assert_int_equal(patch(state, &t, "{\"target_config\":{\"timeout_ms\":7}}").timeout_ms, 7);
    assert_int_equal(patch(state, &t, "{\"timeout_ms\":8,\"target_config\":{\"timeout_ms\":null}}").timeout_ms, 8);
    assert_int_equal(patch(state, &t, "{\"priority\":1}").timeout_ms, 5);
}

static void an_edit_of_the_target_changes_only_what_it_names(void **state)
{
    struct task t = make(state, "{\"target_config\":{\"url\":\"http://h/a\",\"method\":\"PUT\",\"body\":{\"n\": 1.50},"
                                "\"headers\":{\"X-Team\":\"a\",\"Authorization\":\"s3cret\"}}}");
    static const struct {
        const char *edit, *config;
    } rows[] = {
        { "{'url':'http://h/b'}", "{'url':'http://h/b','method':'PUT','body':{'n': 1.50},"
                                  "'headers':{'X-Team':'a','Authorization':'s3cret'}}" },
        { "{'body':{'m':2}}", "{'url':'http://h/a','method':'PUT','body':{'m':2},"
                              "'headers':{'X-Team':'a','Authorization':'s3cret'}}" },
        { "{'body':null,'method':null,'timeout_ms':null}",
          "{'url':'http://h/a','headers':{'X-Team':'a','Authorization':'s3cret'}}" },
        { "{'headers':{'x-team':'b','X-New':'c'}}", "{'url':'http://h/a','method':'PUT','body':{'n': 1.50},"
                                                    "'headers':{'x-team':'b','Authorization':'s3cret','X-New':'c'}}" },
        { "{'headers':{'X-TEAM':null,'authorization':'***'}}",
          "{'url':'http://h/a','method':'PUT','body':{'n': 1.50},'headers':{'authorization':'s3cret'}}" },
        { "{'url':'http://i','headers':{'Authorization':null}}",
          "{'url':'http://i','method':'PUT','body':{'n': 1.50},'headers':{'X-Team':'a'}}" },
        { "{'url':'http://i','headers':null}", "{'url':'http://i','method':'PUT','body':{'n': 1.50}}" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char body[256];
        snprintf(body, sizeof body, "{'target_config':%s}", rows[i].edit);
        cleanup_with(free_charp) char *edit = unquoted(body);
        cleanup_with(free_charp) char *config = unquoted(rows[i].config);
        assert_str(patch(state, &t, edit).target_config, config);
    }
    struct task p = patch(state, &t,
                          "{\"target_type\":\"QUEUE_MESSAGE\",\"target_config\":"
                          "{\"broker\":\"redis://h\",\"destination\":\"d\"}}");
    assert_str(p.target_config, "{\"broker\":\"redis://h\",\"destination\":\"d\"}");
    p = patch(state, &p,
              "{\"target_type\":\"HTTP_CALLBACK\",\"target_config\":{\"url\":\"http://h\",\"method\":null}}");
    assert_str(p.target_config, "{\"url\":\"http://h\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(an_edit_changes_only_what_it_names),
        row(an_edit_takes_every_field),
        row(an_edit_of_the_target_changes_only_what_it_names),
        row(null_in_an_edit_goes_back_to_the_default),
        row(a_new_schedule_moves_the_cursor_and_nothing_else_does),
        row(a_one_time_task_is_spread_again_when_its_time_or_its_spread_changes),
        row(a_worker_task_has_a_timeout_only_while_one_is_given),
        row(a_claimed_task_is_edited_until_it_fires),
        row(what_is_over_stays_as_it_was_but_a_failure_may_be_mended),
        row(bad_edits_are_refused_by_field),
        row(a_run_that_is_over_is_run_again_instead),
        row(a_timeout_goes_with_the_config_that_brought_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

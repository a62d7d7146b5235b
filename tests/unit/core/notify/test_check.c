/* Dead-man checks: when a success is due, and what is told if there is none. */
#include "core/notify/check.h"

#include "base/json/json.h"
#include "base/rfc3339.h"
#include "check.h"
#include "core/notify/setting.h"
#include "platform/zoneinfo_system.h"

enum { SECOND = 1000, MINUTE = 60000, HOUR = 3600000 };

static struct zoneinfo *zones;
static struct tz *utc, *berlin;
static struct arena arena;

static int set_up(void **state)
{
    (void)state;
    struct error e;
    arena_init(&arena, 1 << 20);
    zones = zoneinfo_system_new(NULL);
    return zoneinfo_get(zones, S("UTC"), &utc, &e) || zoneinfo_get(zones, S("Europe/Berlin"), &berlin, &e) ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    tz_unref(utc);
    tz_unref(berlin);
    zoneinfo_free(zones);
    arena_release(&arena);
    return 0;
}

static int64_t at(const char *text)
{
    struct error e;
    int64_t ms = 0;
    assert_ok(rfc3339_parse(str_from(text), &ms, &e), &e);
    return ms;
}

static void assert_at(int64_t ms, const char *expected)
{
    char got[RFC3339_TEXT + 1];
    rfc3339_format(ms, got);
    if (ms != at(expected))
        fail_msg("expected %s, got %s", expected, got);
}

/* A task that runs at 02:00 each day, in the zone, and everything that a check needs to know of it. */
struct world {
    struct task task;
    struct recurrence schedule, deadlines;
    struct check_facts facts;
    struct check check;
};

static struct task nightly(const char *created)
{
    return (struct task){ .kind = TASK_RECURRING,
                          .version = 1,
                          .queue = S("reports"),
                          .created_ms = at(created),
                          .updated_ms = at(created),
                          .schedule = { .cron = S("0 2 * * *"), .time_zone = S("UTC"), .end_ms = INT64_MAX } };
}

static void look(struct world *w, struct tz *zone, const struct calendar *calendar, const char *expect)
{
    struct error e = { 0 };
    bool recurring = w->task.kind == TASK_RECURRING;
    w->facts.task = &w->task;
    assert_ok(expectation_read(str_from(expect), recurring, &arena, &w->facts.expect, &e), &e);
    if (recurring) {
        assert_ok(schedule_rule(&w->task.schedule, w->task.id, zone, calendar, w->task.created_ms, &w->schedule, &e),
                  &e);
        w->facts.schedule = &w->schedule;
    }
    if (w->facts.expect.success_by.n) {
        assert_ok(expectation_rule(&w->facts.expect, &w->task, zone, calendar, &w->deadlines, &e), &e);
        w->facts.deadlines = &w->deadlines;
    }
    check_begin(&w->check, &w->facts);
}

static struct execution success(const char *scheduled, const char *completed)
{
    return (struct execution){ .status = EXECUTION_COMPLETED,
                               .scheduled_ms = at(scheduled),
                               .completed_us = at(completed) * 1000 };
}

static void an_expectation_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field;
        bool recurring;
    } rows[] = {
        { "{\"success_by\":\"06:00\",\"days\":\"MON-FRI\"}", NULL, true },
        { "{\"success_by\":\"23:59\"}", NULL, true },
        { "{\"within_seconds\":1.5}", NULL, false },
        { "{\"success_by\":null}", NULL, false },
        { "{\"success_by\":\"24:00\"}", "success_by", true },
        { "{\"success_by\":\"6:00\"}", "success_by", true },
        { "{\"success_by\":\"06:00\"}", "success_by", false },
        { "{\"success_by\":\"06:00\",\"within_seconds\":5}", "within_seconds", true },
        { "{\"success_by\":\"06:00\",\"days\":\"FUNDAY\"}", "days", true },
        { "{\"success_by\":\"06:00\",\"days\":\"MON *\"}", "days", true },
        { "{\"days\":\"MON\"}", "days", true },
        { "{\"within_seconds\":0.9}", "within_seconds", false },
        { "{\"until\":1}", "until", false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct expectation x;
        struct error e = { 0 };
        enum err rc = expectation_read(str_from(rows[i].text), rows[i].recurring, &arena, &x, &e);
        assert_int_equal(rc, rows[i].field ? ERR_INVALID : ERR_OK);
        assert_string_equal(e.field, rows[i].field ? rows[i].field : "");
    }
    struct expectation none = { 0 };
    assert_true(expectation_is_none(&none));
}

static void a_schedule_that_misses_its_own_expectation_is_warned_of(void **state)
{
    (void)state;
    static const struct {
        const char *cron, *zone, *within, *starts, *holds;
    } rows[] = {
        { "0 * * * *", "UTC", "1800", "is shorter than the time from one run to the next, 1h: it is missed after every",
          "give more than 1h" },
        { "0 * * * *", "UTC", "3589", "is shorter than the time", "1h" },
        { "0 * * * *", "UTC", "3590", NULL, NULL }, /* a deadline is judged 10 s later */
        { "0 8 * * MON-FRI", "UTC", "93600", "is shorter than the longest time from one run to the next, 3d: ",
          "between 2026-02-13T08:00:00.000Z and 2026-02-16T08:00:00.000Z; give more than 3d, or success_by" },
        { "0 2 * * *", "UTC", "86400", NULL, NULL },
        { "0 2 * * *", "Europe/Berlin", "86400", "is shorter than the longest time", "2026-10-2" }, /* 25 h */
        { "* 8-18 * * *", "UTC", "3600", "is shorter than the longest time from one run to the next, 13h1m", "T18:59" },
        { "0 0 1 1 *", "UTC", "60", "is shorter than the time", "366d" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct world w = { .task = nightly("2026-02-10T12:00:00Z") };
        cleanup_with(buf_release) struct buf out;
        char expect[64];
        buf_init(&out, 1024);
        w.task.schedule.cron = str_from(rows[i].cron);
        w.task.schedule.time_zone = str_from(rows[i].zone);
        snprintf(expect, sizeof expect, "{\"within_seconds\":%s}", rows[i].within);
        look(&w, strcmp(rows[i].zone, "UTC") ? berlin : utc, NULL, expect);
        expectation_warn(&w.facts.expect, &w.schedule, at("2026-02-10T12:00:00Z"), &out);
        if (!rows[i].starts)
            assert_int_equal(out.n, 0);
        else if (!str_starts(buf_str(&out), str_from(rows[i].starts)) || !strstr(buf_cstr(&out), rows[i].holds))
            fail_msg("%s", buf_cstr(&out));
    }
}

static void deadlines_keep_their_local_time(void **state)
{
    (void)state;
    static const struct {
        const char *zone, *expect, *after, *next[3];
    } rows[] = {
        { "Europe/Berlin",
          "{\"success_by\":\"06:00\"}",
          "2026-03-28T00:00:00Z", /* the clock is set forward */
          { "2026-03-28T05:00:00Z", "2026-03-29T04:00:00Z", "2026-03-30T04:00:00Z" } },
        { "Europe/Berlin",
          "{\"success_by\":\"02:30\"}",
          "2026-03-28T12:00:00Z", /* in the gap */
          { "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z" } },
        { "Europe/Berlin",
          "{\"success_by\":\"02:30\"}",
          "2026-10-24T12:00:00Z", /* in the repeat: the first one */
          { "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z", "2026-10-27T01:30:00Z" } },
        { "UTC",
          "{\"success_by\":\"06:00\",\"days\":\"MON-FRI\"}",
          "2026-02-27T00:00:00Z", /* the end of a month */
          { "2026-02-27T06:00:00Z", "2026-03-02T06:00:00Z", "2026-03-03T06:00:00Z" } },
        { "UTC",
          "{\"success_by\":\"00:00\"}",
          "2028-02-28T12:00:00Z",
          { "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z", "2028-03-02T00:00:00Z" } },
        { "UTC",
          "{\"success_by\":\"23:59\",\"days\":\"SUN\"}",
          "2026-12-28T00:00:00Z",
          { "2027-01-03T23:59:00Z", "2027-01-10T23:59:00Z", "2027-01-17T23:59:00Z" } },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct world w = { .task = nightly("2026-01-01T12:00:00Z") };
        look(&w, strcmp(rows[i].zone, "UTC") == 0 ? utc : berlin, NULL, rows[i].expect);
        w.check.after_ms = at(rows[i].after);
        for (size_t k = 0; k < 3; k++) {
            int64_t next_ms = check_deadline(&w.check, &w.facts);
            assert_at(next_ms, rows[i].next[k]);
            w.check.after_ms = next_ms + 1;
        }
    }
}

static void policies_at_clock_changes_count_for_deadlines(void **state)
{
    (void)state;
    static const struct {
        enum dst_gap gap;
        enum dst_repeat repeat;
        const char *after, *next[2];
    } rows[] = {
        { DST_GAP_SKIP, 0, "2026-03-28T12:00:00Z", { "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z" } },
        { 0, DST_REPEAT_LAST, "2026-10-24T12:00:00Z", { "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z" } },
        { 0, DST_REPEAT_BOTH, "2026-10-24T12:00:00Z", { "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z" } },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct world w = { .task = nightly("2026-01-01T12:00:00Z") };
        w.task.schedule.gap = rows[i].gap;
        w.task.schedule.repeat = rows[i].repeat;
        look(&w, berlin, NULL, "{\"success_by\":\"02:30\"}");
        w.check.after_ms = at(rows[i].after);
        for (size_t k = 0; k < 2; k++) {
            int64_t next_ms = check_deadline(&w.check, &w.facts);
            assert_at(next_ms, rows[i].next[k]);
            w.check.after_ms = next_ms + 1;
        }
    }
}

static void a_changed_calendar_moves_the_deadline_both_ways(void **state)
{
    (void)state;
    struct calendar all = { .name = "all" }, weekdays = { .name = "weekdays", .excluded_weekdays = 1U << 0 | 1U << 6 };
    struct world w = { .task = nightly("2026-02-06T12:00:00Z") }; /* a Friday */
    look(&w, utc, &weekdays, "{\"success_by\":\"06:00\"}");
    assert_at(check_deadline(&w.check, &w.facts), "2026-02-09T06:00:00Z");
    w.task.version++;
    w.task.updated_ms = at("2026-02-06T13:00:00Z"); /* the change of a calendar writes the task */
    look(&w, utc, &all, "{\"success_by\":\"06:00\"}");
    assert_at(check_deadline(&w.check, &w.facts), "2026-02-07T06:00:00Z");
    (void)check_plan(&w.check, &w.facts, false, at("2026-02-07T06:00:10Z"));
    look(&w, utc, &weekdays, "{\"success_by\":\"06:00\"}");
    assert_at(check_deadline(&w.check, &w.facts), "2026-02-09T06:00:00Z");
    look(&w, utc, &all, "{\"success_by\":\"06:00\"}");
    assert_at(check_deadline(&w.check, &w.facts), "2026-02-08T06:00:00Z");
    assert_at(w.check.missed_ms, "2026-02-07T06:00:00Z");
}

static void the_calendar_of_the_task_leaves_out_deadlines(void **state)
{
    (void)state;
    struct calendar weekdays = { .name = "weekdays", .excluded_weekdays = 1U << 0 | 1U << 6 };
    struct world w = { .task = nightly("2026-02-06T12:00:00Z") }; /* a Friday */
    look(&w, utc, &weekdays, "{\"success_by\":\"06:00\"}");
    assert_at(check_deadline(&w.check, &w.facts), "2026-02-09T06:00:00Z");
    struct world moved = { .task = nightly("2026-02-06T12:00:00Z") };
    moved.task.schedule.calendar_policy = CALENDAR_PREVIOUS_DAY;
    look(&moved, utc, &weekdays, "{\"success_by\":\"23:00\"}");
    assert_at(check_deadline(&moved.check, &moved.facts), "2026-02-09T23:00:00Z"); /* after the next run, on Monday */
}

static void the_first_deadline_comes_after_the_next_occurrence(void **state)
{
    (void)state;
    struct world early = { .task = nightly("2026-02-10T01:00:00Z") },
                 late = { .task = nightly("2026-02-10T05:30:00Z") };
    look(&early, utc, NULL, "{\"success_by\":\"06:00\"}");
    look(&late, utc, NULL, "{\"success_by\":\"06:00\"}");
    assert_at(check_deadline(&early.check, &early.facts), "2026-02-10T06:00:00Z");
    assert_at(check_deadline(&late.check, &late.facts), "2026-02-11T06:00:00Z");
}

static void only_an_occurrence_of_the_period_meets_a_deadline(void **state)
{
    (void)state;
    struct world w = { .task = nightly("2026-02-10T01:00:00Z") };
    look(&w, utc, NULL, "{\"success_by\":\"06:00\"}");
    int64_t deadline_ms = check_deadline(&w.check, &w.facts);
    struct execution ok = success("2026-02-10T02:00:00Z", "2026-02-10T06:00:10Z"),
                     late = success("2026-02-10T02:00:00Z", "2026-02-10T06:00:11Z"),
                     before = success("2026-02-10T00:00:00Z", "2026-02-10T02:00:00Z"),
                     failed = success("2026-02-10T02:00:00Z", "2026-02-10T02:00:01Z");
    failed.status = EXECUTION_FAILED;
    assert_true(check_is_met_by(&w.check, deadline_ms, &ok));
    assert_false(check_is_met_by(&w.check, deadline_ms, &late));
    assert_false(check_is_met_by(&w.check, deadline_ms, &before));
    assert_false(check_is_met_by(&w.check, deadline_ms, &failed));
}

static void a_deadline_is_judged_when_its_grace_is_over(void **state)
{
    (void)state;
    struct world w = { .task = nightly("2026-02-10T01:00:00Z") };
    look(&w, utc, NULL, "{\"success_by\":\"06:00\"}");
    struct check_plan p = check_plan(&w.check, &w.facts, false, at("2026-02-10T06:00:09Z"));
    assert_false(p.is_missed);
    assert_at(p.next_ms, "2026-02-10T06:00:10Z");
    struct check met = w.check;
    p = check_plan(&met, &w.facts, true, at("2026-02-10T06:00:10Z"));
    assert_false(p.is_missed || met.missed_ms);
    assert_at(p.next_ms, "2026-02-11T06:00:10Z");
    p = check_plan(&w.check, &w.facts, false, at("2026-02-10T06:00:10Z"));
    assert_true(p.is_missed);
    assert_at(p.deadline_ms, "2026-02-10T06:00:00Z");
    assert_at(w.check.missed_ms, "2026-02-10T06:00:00Z");
    assert_at(w.check.from_ms, "2026-02-10T06:00:00Z");
    assert_at(p.next_ms, "2026-02-11T06:00:10Z");
    assert_true(check_is_late(&w.check, 0));
    assert_false(check_is_late(&w.check, at("2026-02-10T07:00:00Z")));
}

static void an_outage_over_many_deadlines_is_one_miss(void **state)
{
    (void)state;
    struct world w = { .task = nightly("2026-02-10T01:00:00Z") };
    look(&w, utc, NULL, "{\"success_by\":\"06:00\"}");
    struct check_plan p = check_plan(&w.check, &w.facts, false, at("2026-02-14T09:00:00Z"));
    assert_true(p.is_missed);
    assert_at(p.deadline_ms, "2026-02-10T06:00:00Z");
    assert_at(w.check.from_ms, "2026-02-14T06:00:00Z");
    assert_at(p.next_ms, "2026-02-15T06:00:10Z");
}

static void within_counts_from_the_latest_of_all(void **state)
{
    (void)state;
    struct world w = { .task = nightly("2026-02-10T01:00:00Z") };
    look(&w, utc, NULL, "{\"within_seconds\":7200}");
    assert_at(check_deadline(&w.check, &w.facts), "2026-02-10T03:00:00Z");
    w.facts.ok_ms = at("2026-02-10T02:00:01Z");
    assert_at(check_deadline(&w.check, &w.facts), "2026-02-10T04:00:01Z");
    w.task.schedule.start_ms = at("2026-03-01T00:00:00Z");
    assert_at(check_deadline(&w.check, &w.facts), "2026-03-01T02:00:00Z");
    struct world once = { .task = { .version = 1, .created_ms = at("2026-02-10T01:00:00Z") } };
    once.task.scheduled_ms = at("2026-02-12T01:00:00Z");
    look(&once, utc, NULL, "{\"within_seconds\":60}");
    assert_at(check_deadline(&once.check, &once.facts), "2026-02-12T01:01:00Z");
}

static void within_is_missed_once_until_a_success(void **state)
{
    (void)state;
    struct world w = { .task = nightly("2026-02-10T01:00:00Z") };
    look(&w, utc, NULL, "{\"within_seconds\":60}");
    int64_t now_ms = at("2026-02-10T01:01:10Z");
    struct check_plan p = check_plan(&w.check, &w.facts, false, now_ms);
    assert_true(p.is_missed && p.next_ms == now_ms + MINUTE);
    p = check_plan(&w.check, &w.facts, false, now_ms + HOUR);
    assert_false(p.is_missed);
    assert_true(check_is_late(&w.check, 0));
    w.facts.ok_ms = now_ms + HOUR;
    p = check_plan(&w.check, &w.facts, false, now_ms + HOUR + SECOND);
    assert_false(p.is_missed || w.check.missed_ms);
    assert_int_equal(p.next_ms, now_ms + HOUR + MINUTE + CHECK_GRACE_MS);
    assert_int_equal(check_shown_deadline(&w.check, &w.facts.expect, p.next_ms), p.next_ms + MINUTE);
    p = check_plan(&w.check, &w.facts, false, p.next_ms);
    assert_true(p.is_missed);
    assert_int_equal(check_shown_deadline(&w.check, &w.facts.expect, w.facts.ok_ms), 0);
}

static void a_change_or_a_resumption_starts_a_check_again(void **state)
{
    (void)state;
    struct world w = { .task = nightly("2026-02-10T01:00:00Z") };
    look(&w, utc, NULL, "{\"success_by\":\"06:00\"}");
    (void)check_plan(&w.check, &w.facts, false, at("2026-02-10T06:00:10Z"));
    w.task.version++;
    w.task.updated_ms = at("2026-02-10T08:00:00Z");
    look(&w, utc, NULL, "{\"success_by\":\"06:00\"}"); /* another field was changed */
    assert_true(w.check.missed_ms);
    w.task.state = TASK_PAUSED;
    look(&w, utc, NULL, "{\"success_by\":\"06:00\"}");
    assert_true(w.check.missed_ms && w.check.was_paused);
    w.task.state = TASK_SCHEDULED;
    w.task.updated_ms = at("2026-02-12T05:00:00Z");
    look(&w, utc, NULL, "{\"success_by\":\"06:00\"}");
    assert_false(w.check.missed_ms);
    assert_at(check_deadline(&w.check, &w.facts), "2026-02-13T06:00:00Z");
    look(&w, utc, NULL, "{\"success_by\":\"07:00\"}");
    assert_at(check_deadline(&w.check, &w.facts), "2026-02-13T07:00:00Z");
    struct world in = { .task = nightly("2026-02-10T01:00:00Z") };
    look(&in, utc, NULL, "{\"within_seconds\":60}");
    (void)check_plan(&in.check, &in.facts, false, at("2026-02-10T02:00:00Z"));
    in.task.version++;
    in.task.updated_ms = at("2026-02-10T08:00:00Z");
    look(&in, utc, NULL, "{\"within_seconds\":60}");
    assert_false(in.check.missed_ms);
    assert_at(check_deadline(&in.check, &in.facts), "2026-02-10T08:01:00Z");
}

static void a_check_comes_back_as_it_was_written(void **state)
{
    (void)state;
    struct check c = { 1, 2, 3, 4, 5, 6, INT64_MAX, true }, back;
    struct error e = { 0 };
    cleanup_with(buf_release) struct buf doc;
    struct jw w;
    buf_init(&doc, 4096);
    jw_init(&w, &doc);
    check_write(&w, &c);
    assert_ok(check_read(buf_str(&doc), &arena, &back, &e), &e);
    assert_true(back.since_ms == 1 && back.after_ms == 2 && back.from_ms == 3 && back.deadline_ms == 4);
    assert_true(back.missed_ms == 5 && back.version == 6 && back.of == INT64_MAX && back.was_paused);
    assert_ok(check_read(S("{}"), &arena, &back, &e), &e);
    assert_int_equal(back.of, 0);
    assert_int_equal(check_read(S("[]"), &arena, &back, &e), ERR_CORRUPT);
}

static void the_sentence_names_the_reason(void **state)
{
    (void)state;
    struct execution failed = success("2026-02-10T02:00:00Z", "2026-02-10T02:00:01Z"), ok = failed;
    failed.status = EXECUTION_FAILED;
    failed.error = S("HTTP 503");
    const struct {
        struct check_reason why;
        enum task_state state;
        const char *end;
    } rows[] = {
        { { .tenant_disabled = true }, TASK_PAUSED, "the tenant is disabled" },
        { { .queue_paused = true }, TASK_PAUSED, "the task is paused" },
        { { .queue_paused = true }, TASK_SCHEDULED, "its queue 'reports' is paused" },
        { { .queue_paused = true, .running_ms = at("2026-02-10T02:00:00Z"), .last = &ok },
          TASK_SCHEDULED,
          "it runs since 2026-02-10T02:00:00.000Z" },
        { { .running_ms = at("2026-02-10T03:00:00Z"), .last = &failed },
          TASK_SCHEDULED,
          "it runs since 2026-02-10T03:00:00.000Z; its last attempt, at 2026-02-10T02:00:01.000Z, did not succeed: "
          "HTTP 503" },
        { { 0 }, TASK_SCHEDULED, "it has not run yet" },
        { { .last = &ok }, TASK_SCHEDULED, "it has not run since its success at 2026-02-10T02:00:01.000Z" },
        { { .last = &failed },
          TASK_SCHEDULED,
          "its last attempt, at 2026-02-10T02:00:01.000Z, did not succeed: HTTP 503" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct world w = { .task = nightly("2026-02-10T01:00:00Z") };
        cleanup_with(buf_release) struct buf out;
        char expected[256];
        buf_init(&out, 4096);
        look(&w, utc, NULL, "{\"success_by\":\"06:00\",\"days\":\"MON-FRI\"}");
        w.task.state = rows[i].state;
        check_explain(&w.facts, &rows[i].why, at("2026-02-10T06:00:00Z"), &out);
        snprintf(expected, sizeof expected, "no success by 2026-02-10T06:00:00.000Z (06:00 on MON-FRI in UTC): %s",
                 rows[i].end);
        assert_string_equal(buf_cstr(&out), expected);
    }
}

static void a_task_names_the_settings_that_are_told_of_it(void **state)
{
    (void)state;
    struct setting s = setting_default();
    struct task t = { .name = S("nightly") };
    struct uuid id;
    s.name = S("ops");
    s.filter.name = S("other");
    assert_true(uuid_parse(S("01920000-0000-7000-8000-000000000001"), &id));
    assert_false(setting_is_told(&s, id, &t, S("")));
    assert_true(setting_is_told(&s, id, &t, S("[\"dev\",\"ops\"]")));
    assert_true(setting_is_told(&s, id, &t, S("[\"01920000-0000-7000-8000-000000000001\"]")));
    assert_false(setting_is_told(&s, id, &t, S("[\"dev\"]")));
    s.filter.name = S("night*");
    assert_true(setting_is_told(&s, id, &t, S("[\"dev\"]")));
    assert_false(setting_is_told(&s, id, &t, S("[]")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expectation_is_checked),
        cmocka_unit_test(a_schedule_that_misses_its_own_expectation_is_warned_of),
        cmocka_unit_test(deadlines_keep_their_local_time),
        cmocka_unit_test(policies_at_clock_changes_count_for_deadlines),
        cmocka_unit_test(a_changed_calendar_moves_the_deadline_both_ways),
        cmocka_unit_test(the_calendar_of_the_task_leaves_out_deadlines),
        cmocka_unit_test(the_first_deadline_comes_after_the_next_occurrence),
        cmocka_unit_test(only_an_occurrence_of_the_period_meets_a_deadline),
        cmocka_unit_test(a_deadline_is_judged_when_its_grace_is_over),
        cmocka_unit_test(an_outage_over_many_deadlines_is_one_miss),
        cmocka_unit_test(within_counts_from_the_latest_of_all),
        cmocka_unit_test(within_is_missed_once_until_a_success),
        cmocka_unit_test(a_change_or_a_resumption_starts_a_check_again),
        cmocka_unit_test(a_check_comes_back_as_it_was_written),
        cmocka_unit_test(the_sentence_names_the_reason),
        cmocka_unit_test(a_task_names_the_settings_that_are_told_of_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

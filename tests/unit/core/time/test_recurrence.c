#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/prng.h"
#include "base/rfc3339.h"
#include "core/time/recurrence.h"
#include "platform/zoneinfo_system.h"
#include "seed.h"

static struct zoneinfo *zones;

static struct tz *zone(const char *name)
{
    struct error e;
    struct tz *z = NULL;
    assert_ok(zoneinfo_get(zones, str_from(name), &z, &e), &e);
    return z;
}

static int64_t at(const char *text)
{
    struct error e;
    int64_t ms = 0;
    assert_ok(rfc3339_parse(str_from(text), &ms, &e), &e);
    return ms;
}

static struct recurrence cron_rule(const char *expression, struct tz *z)
{
    struct error e;
    struct recurrence r = { .kind = RECUR_CRON, .zone = z, .end_ms = INT64_MAX };
    assert_ok(cron_parse(str_from(expression), 0, &r.cron, &e), &e);
    return r;
}

static struct recurrence interval_rule(int64_t interval_ms, const char *start, struct tz *z)
{
    return (struct recurrence){
        .kind = RECUR_INTERVAL, .interval_ms = interval_ms, .zone = z, .start_ms = at(start), .end_ms = INT64_MAX
    };
}

/* Compares the occurrences from `from` on with instants written as "2026-03-28T01:30Z 2026-…". */
static void assert_fires(const struct recurrence *r, const char *from, const char *expected)
{
    struct str rest = str_from(expected), word;
    int64_t from_ms = at(from);
    while (str_cut(&rest, ' ', &word)) {
        char text[40], got[RFC3339_TEXT + 1];
        snprintf(text, sizeof text, STR_FMT ":00Z", (int)word.n - 1, word.p);
        struct occurrence o;
        assert_true(recurrence_next(r, from_ms, &o));
        rfc3339_format(o.at_ms, got);
        if (o.at_ms != at(text))
            fail_msg("from %s: expected %s, got %s", from, text, got);
        from_ms = o.at_ms + 1;
    }
}

static void clock_changes_of_the_world(void **state)
{
    (void)state;
    static const struct {
        const char *zone, *expression, *from, *fires;
    } rows[] = {
        /* An expression with a fixed time of day: once each day. */
        { "Europe/Berlin", "30 2 * * *", "2026-03-28T00:00:00Z",
          "2026-03-28T01:30Z 2026-03-29T01:00Z 2026-03-30T00:30Z" },
        { "Europe/Berlin", "30 2 * * *", "2026-10-24T00:00:00Z",
          "2026-10-24T00:30Z 2026-10-25T00:30Z 2026-10-26T01:30Z" },
        { "Europe/Berlin", "0,30 2 * * *", "2026-03-29T00:00:00Z", "2026-03-29T01:00Z 2026-03-30T00:00Z" },
        { "Europe/Berlin", "0 2,3 * * *", "2026-03-29T00:00:00Z", "2026-03-29T01:00Z 2026-03-30T00:00Z" },
        { "Europe/Berlin", "30 2 * * *", "2090-03-25T00:00:00Z",
          "2090-03-25T01:30Z 2090-03-26T01:00Z 2090-03-27T00:30Z" },
        { "America/New_York", "30 2 * * *", "2026-03-08T00:00:00Z", "2026-03-08T07:00Z 2026-03-09T06:30Z" },
        { "America/New_York", "30 1 * * *", "2026-11-01T00:00:00Z", "2026-11-01T05:30Z 2026-11-02T06:30Z" },
        { "Australia/Lord_Howe", "15 2 * * *", "2025-10-04T00:00:00Z", "2025-10-04T15:30Z 2025-10-05T15:15Z" },
        { "Australia/Lord_Howe", "45 1 * * *", "2025-04-05T00:00:00Z", "2025-04-05T14:45Z 2025-04-06T15:15Z" },
        { "Africa/Cairo", "30 0 * * *", "2025-04-24T12:00:00Z", "2025-04-24T22:00Z 2025-04-25T21:30Z" },
        { "Africa/Cairo", "30 23 * * *", "2025-10-30T12:00:00Z", "2025-10-30T20:30Z 2025-10-31T21:30Z" },
        { "America/Santiago", "0 0 * * *", "2025-09-06T12:00:00Z", "2025-09-07T04:00Z 2025-09-08T03:00Z" },
        { "America/Santiago", "30 23 * * *", "2025-04-05T12:00:00Z", "2025-04-06T02:30Z 2025-04-07T03:30Z" },
        { "Pacific/Chatham", "0 3 * * *", "2025-09-27T00:00:00Z", "2025-09-27T14:00Z 2025-09-28T13:15Z" },
        { "Pacific/Chatham", "0 3 * * *", "2025-04-05T00:00:00Z", "2025-04-05T13:15Z 2025-04-06T14:15Z" },
        { "Antarctica/Troll", "30 1,2 * * *", "2025-03-29T12:00:00Z", "2025-03-30T01:00Z 2025-03-30T23:30Z" },
        { "Antarctica/Troll", "30 1,2 * * *", "2025-10-25T12:00:00Z",
          "2025-10-25T23:30Z 2025-10-26T00:30Z 2025-10-27T01:30Z" },
        { "Pacific/Apia", "0 8 * * *", "2011-12-29T00:00:00Z",
          "2011-12-29T18:00Z 2011-12-30T10:00Z 2011-12-30T18:00Z 2011-12-31T18:00Z" },
        { "Africa/Casablanca", "30 2 * * *", "2025-02-22T12:00:00Z", "2025-02-23T01:30Z 2025-02-24T02:30Z" },
        { "Africa/Casablanca", "30 2 * * *", "2025-04-05T12:00:00Z", "2025-04-06T02:00Z 2025-04-07T01:30Z" },
        { "Asia/Kathmandu", "5 0 * * *", "1985-12-30T20:00:00Z", "1985-12-31T18:30Z 1986-01-01T18:20Z" },
        { "Europe/Dublin", "30 1 * * *", "2026-03-29T00:00:00Z", "2026-03-29T01:00Z 2026-03-30T00:30Z" },
        { "Europe/Dublin", "30 1 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30Z 2026-10-26T01:30Z" },
        /* An expression with a step: nothing in the gap, both copies of the repeat. */
        { "Europe/Berlin", "*/30 * * * *", "2026-03-29T00:30:00Z",
          "2026-03-29T00:30Z 2026-03-29T01:00Z 2026-03-29T01:30Z" },
        { "Europe/Berlin", "*/30 2 * * *", "2026-03-28T02:00:00Z", "2026-03-30T00:00Z 2026-03-30T00:30Z" },
        { "Europe/Berlin", "*/30 2 * * *", "2026-10-25T00:00:00Z",
          "2026-10-25T00:00Z 2026-10-25T00:30Z 2026-10-25T01:00Z 2026-10-25T01:30Z 2026-10-26T01:00Z" },
        { "Australia/Lord_Howe", "*/15 * * * *", "2025-04-05T14:45:00Z",
          "2025-04-05T14:45Z 2025-04-05T15:00Z 2025-04-05T15:15Z 2025-04-05T15:30Z" },
        { "Asia/Kathmandu", "0 8 * * *", "2026-03-29T00:00:00Z", "2026-03-29T02:15Z 2026-03-30T02:15Z" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct tz *z = zone(rows[i].zone);
        struct recurrence r = cron_rule(rows[i].expression, z);
        assert_fires(&r, rows[i].from, rows[i].fires);
        tz_unref(z);
    }
}

static void dst_policy_overrules_either_half(void **state)
{
    (void)state;
    struct tz *z = zone("Europe/Berlin");
    struct recurrence fixed = cron_rule("30 2 * * *", z), wild = cron_rule("*/20 2 * * *", z);

    fixed.gap = DST_GAP_SKIP;
    assert_fires(&fixed, "2026-03-28T00:00:00Z", "2026-03-28T01:30Z 2026-03-30T00:30Z");
    fixed.repeat = DST_REPEAT_LAST;
    assert_fires(&fixed, "2026-10-24T12:00:00Z", "2026-10-25T01:30Z 2026-10-26T01:30Z");
    fixed.repeat = DST_REPEAT_BOTH;
    assert_fires(&fixed, "2026-10-24T12:00:00Z", "2026-10-25T00:30Z 2026-10-25T01:30Z 2026-10-26T01:30Z");

    wild.gap = DST_GAP_SHIFT;
    assert_fires(&wild, "2026-03-28T12:00:00Z", "2026-03-29T01:00Z 2026-03-30T00:00Z");
    wild.repeat = DST_REPEAT_FIRST;
    assert_fires(&wild, "2026-10-25T00:20:00Z", "2026-10-25T00:20Z 2026-10-25T00:40Z 2026-10-26T01:00Z");
    wild.repeat = DST_REPEAT_LAST;
    assert_fires(&wild, "2026-10-24T12:00:00Z",
                 "2026-10-25T01:00Z 2026-10-25T01:20Z 2026-10-25T01:40Z 2026-10-26T01:00Z");
    tz_unref(z);
}

static void every_shift_says_why(void **state)
{
    (void)state;
    struct tz *z = zone("Europe/Berlin");
    struct recurrence r = cron_rule("30 2 * * *", z);
    struct occurrence o;
    struct buf text;
    buf_init(&text, 1000);

    assert_true(recurrence_next(&r, at("2026-03-29T00:00:00Z"), &o));
    assert_int_equal(o.notes, NOTE_GAP_SHIFTED);
    occurrence_explain(&r, &o, &text);
    assert_str(buf_str(&text), "02:30 does not exist that day; fires when the clock has been set forward");

    buf_reset(&text);
    r.repeat = DST_REPEAT_BOTH;
    assert_true(recurrence_next(&r, at("2026-10-25T00:00:00Z"), &o));
    assert_int_equal(o.notes, NOTE_FIRST_COPY);
    assert_true(recurrence_next(&r, o.at_ms + 1, &o));
    assert_int_equal(o.notes, NOTE_SECOND_COPY);
    occurrence_explain(&r, &o, &text);
    assert_str(buf_str(&text), "02:30 comes twice that day; this is the second");

    buf_reset(&text);
    r.spread_ms = 60000;
    r.hash = 61234;
    assert_true(recurrence_next(&r, at("2026-06-01T00:00:00Z"), &o));
    occurrence_explain(&r, &o, &text);
    assert_str(buf_str(&text), "spread by 1s234ms");
    buf_release(&text);
    tz_unref(z);
}

static void skipped_gaps_are_answered_when_asked(void **state)
{
    (void)state;
    struct tz *z = zone("Europe/Berlin");
    struct recurrence r = cron_rule("30 2 * * *", z);
    r.gap = DST_GAP_SKIP;
    struct occurrence o;
    assert_true(recurrence_next_or_skip(&r, at("2026-03-28T01:30:00.001Z"), &o));
    assert_false(o.fires);
    assert_int_equal(o.notes, NOTE_GAP_SKIPPED);
    assert_int_equal(o.at_ms, at("2026-03-29T01:00:00Z") - 1);
    assert_int_equal(o.nominal_local, at("2026-03-29T02:30:00Z") / 1000);
    assert_true(recurrence_next_or_skip(&r, o.at_ms + 1, &o));
    assert_true(o.fires);
    assert_int_equal(o.at_ms, at("2026-03-30T00:30:00Z"));

    /* The end bounds skipped occurrences, even if the spread moves the last occurrence beyond the gap. */
    struct recurrence spread = r;
    spread.end_ms = at("2026-03-28T12:00:00Z");
    spread.spread_ms = 3 * DAY_MS;
    spread.hash = 2 * DAY_MS;
    assert_true(recurrence_next_or_skip(&spread, at("2026-03-28T02:00:00Z"), &o));
    assert_true(o.fires);
    assert_int_equal(o.at_ms, at("2026-03-29T01:30:00Z"));

    /* A rule that shifts skips nothing. A rule without a gap ahead returns only occurrences that fire. */
    r.gap = DST_GAP_SHIFT;
    assert_true(recurrence_next_or_skip(&r, at("2026-03-28T12:00:00Z"), &o));
    assert_true(o.fires);
    struct recurrence utc = cron_rule("* * * * *", tz_utc());
    assert_true(recurrence_next_or_skip(&utc, at("2026-03-28T12:00:00Z"), &o));
    assert_true(o.fires);
    utc.end_ms = at("2026-01-01T00:00:00Z");
    assert_false(recurrence_next_or_skip(&utc, at("2026-03-28T12:00:00Z"), &o));
    assert_false(recurrence_next_or_skip(&utc, RECURRENCE_END_MS, &o));
    tz_unref(z);
}

/* ---- intervals ---- */

static void intervals_never_drift(void **state)
{
    (void)state;
    struct tz *z = zone("Europe/Berlin");
    struct recurrence r = interval_rule(5400000, "2026-03-28T22:00:00Z", z); /* across the clock change */
    assert_fires(&r, "2026-03-28T00:00:00Z", "2026-03-28T22:00Z 2026-03-28T23:30Z 2026-03-29T01:00Z 2026-03-29T02:30Z");
    struct prng random;
    prng_init(&random, 1);
    for (int i = 0; i < 20000; i++) {
        r.interval_ms = prng_between(&random, 1, 1000000000);
        int64_t from = prng_between(&random, 0, RECURRENCE_END_MS - 1);
        struct occurrence o;
        if (!recurrence_next(&r, from, &o))
            continue;
        assert_int_equal((o.at_ms - r.start_ms) % r.interval_ms, 0);
        assert_true(o.at_ms >= from && (o.at_ms - r.interval_ms < from || o.at_ms == r.start_ms));
    }
    tz_unref(z);
}

/* Fills ret with at most max occurrences with from_ms <= at_ms < until_ms; returns how many. */
static size_t occurrences_between(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret,
                                  size_t max)
{
    size_t n = 0;
    while (n < max && recurrence_next(r, from_ms, &ret[n]) && ret[n].at_ms < until_ms)
        from_ms = ret[n++].at_ms + 1;
    return n;
}

static void start_end_and_spread_bound_every_kind(void **state)
{
    (void)state;
    struct recurrence r = cron_rule("0 * * * *", tz_utc());
    struct occurrence o[10];
    r.start_ms = at("2026-01-01T00:00:00.001Z");
    r.end_ms = at("2026-01-01T03:00:00Z"); /* inclusive */
    assert_int_equal(occurrences_between(&r, 0, INT64_MAX, o, 10), 3);
    assert_int_equal(o[0].at_ms, at("2026-01-01T01:00:00Z"));
    assert_int_equal(o[2].at_ms, at("2026-01-01T03:00:00Z"));
    assert_int_equal(occurrences_between(&r, at("2026-01-01T01:00:00Z"), at("2026-01-01T03:00:00Z"), o, 10), 2);
    assert_int_equal(occurrences_between(&r, 0, INT64_MAX, o, 2), 2);

    r.spread_ms = 600000;
    r.hash = 600000 * 7 + 300000;
    assert_int_equal(recurrence_spread(&r), 300000);
    /* the end bounds the scheduled time, not the time with the spread */
    assert_int_equal(occurrences_between(&r, 0, INT64_MAX, o, 10), 3);
    assert_int_equal(o[2].at_ms, at("2026-01-01T03:05:00Z"));
    assert_int_equal(o[2].scheduled_ms, at("2026-01-01T03:00:00Z"));
    assert_true(recurrence_next(&r, at("2026-01-01T01:05:00Z"), &o[0]));
    assert_int_equal(o[0].at_ms, at("2026-01-01T01:05:00Z"));

    struct recurrence step = interval_rule(60000, "2026-01-01T00:00:00Z", tz_utc());
    step.end_ms = at("2026-01-01T00:01:00Z");
    assert_int_equal(occurrences_between(&step, 0, INT64_MAX, o, 10), 2);
    assert_false(recurrence_next(&step, RECURRENCE_END_MS, &o[0]));
    step.end_ms = INT64_MAX;
    step.interval_ms = INT64_MAX / 2;
    assert_false(recurrence_next(&step, step.start_ms + 1, &o[0]));
}

static void rules_reach_from_1970_to_2200(void **state)
{
    (void)state;
    struct tz *z = zone("Europe/Berlin");
    struct recurrence r = cron_rule("0 0 29 2 *", z);
    assert_fires(&r, "1970-01-01T00:00:00Z", "1972-02-28T23:00Z 1976-02-28T23:00Z");
    assert_fires(&r, "2097-01-01T00:00:00Z", "2104-02-28T23:00Z"); /* 2100 is no leap year */
    assert_fires(&r, "2190-01-01T00:00:00Z", "2192-02-28T23:00Z 2196-02-28T23:00Z");
    struct occurrence o;
    assert_false(recurrence_next(&r, at("2197-01-01T00:00:00Z"), &o));
    struct recurrence minute = cron_rule("59 23 31 12 *", tz_utc());
    assert_fires(&minute, "2200-01-01T00:00:00Z", "2200-12-31T23:59Z");
    assert_false(recurrence_next(&minute, at("2200-12-31T23:59:00.001Z"), &o));
    tz_unref(z);
}

/* ---- calendars ---- */

/* Closed: weekends, and 25 and 26 December 2026 (Friday, Saturday). Open: Saturday 2 January 2027. */
static struct calendar office_calendar(void)
{
    static int32_t excluded[2], included[1];
    excluded[0] = (int32_t)day_number((struct date){ 2026, 12, 26 });
    excluded[1] = (int32_t)day_number((struct date){ 2026, 12, 25 });
    included[0] = (int32_t)day_number((struct date){ 2027, 1, 2 });
    return (struct calendar){ .name = "office",
                              .excluded_weekdays = 1 << 0 | 1 << 6,
                              .excluded = excluded,
                              .excluded_count = calendar_sort(excluded, 2),
                              .included = included,
                              .included_count = 1 };
}

static void excluded_days_are_skipped_or_moved(void **state)
{
    (void)state;
    struct tz *z = zone("Europe/Berlin");
    struct calendar c = office_calendar();
    struct recurrence daily = cron_rule("0 8 * * *", z), monthly = cron_rule("0 8 25,27 * *", z);
    daily.calendar = monthly.calendar = &c;
    assert_fires(&daily, "2026-12-24T00:00:00Z", "2026-12-24T07:00Z 2026-12-28T07:00Z");
    assert_fires(&daily, "2027-01-01T00:00:00Z", "2027-01-01T07:00Z 2027-01-02T07:00Z 2027-01-04T07:00Z");
    assert_fires(&monthly, "2026-12-01T00:00:00Z", "2027-01-25T07:00Z 2027-01-27T07:00Z");

    monthly.calendar_policy = CALENDAR_NEXT_DAY; /* both days move to Monday 28 December: one occurrence */
    assert_fires(&monthly, "2026-12-01T00:00:00Z", "2026-12-28T07:00Z 2027-01-25T07:00Z");
    assert_fires(&monthly, "2026-12-27T12:00:00Z", "2026-12-28T07:00Z 2027-01-25T07:00Z");
    assert_fires(&monthly, "2026-12-28T07:00:00.001Z", "2027-01-25T07:00Z");
    struct occurrence o;
    assert_true(recurrence_next(&monthly, at("2026-12-01T00:00:00Z"), &o));
    assert_int_equal(o.notes, NOTE_MOVED);
    assert_int_equal(o.nominal_local, at("2026-12-25T08:00:00Z") / 1000);

    monthly.calendar_policy = CALENDAR_PREVIOUS_DAY; /* both move to Thursday 24 December */
    assert_fires(&monthly, "2026-12-01T00:00:00Z", "2026-12-24T07:00Z 2027-01-25T07:00Z");
    assert_fires(&monthly, "2026-12-25T00:00:00Z", "2027-01-25T07:00Z");

    daily.calendar_policy = CALENDAR_NEXT_DAY; /* an occurrence that stays has no NOTE_MOVED */
    assert_true(recurrence_next(&daily, at("2026-12-25T00:00:00Z"), &o));
    assert_int_equal(o.at_ms, at("2026-12-28T07:00:00Z"));
    assert_int_equal(o.notes, 0);
    tz_unref(z);
}

static void skipped_days_are_answered_when_asked(void **state)
{
    (void)state;
    struct tz *z = zone("Europe/Berlin");
    struct calendar c = office_calendar();
    struct recurrence r = cron_rule("*/10 8 * * *", z);
    struct buf text;
    buf_init(&text, 1000);
    r.calendar = &c;
    struct occurrence o;
    int64_t from = at("2026-12-24T08:00:00Z");
    static const char *const skipped[] = { "2026-12-25T07:00:00Z", "2026-12-26T07:00:00Z", "2026-12-27T07:00:00Z" };
    for (size_t i = 0; i < array_count(skipped); i++) {
        assert_true(recurrence_next_or_skip(&r, from, &o));
        assert_false(o.fires);
        assert_int_equal(o.at_ms, at(skipped[i]));
        from = o.at_ms + 1;
    }
    occurrence_explain(&r, &o, &text);
    assert_str(buf_str(&text), "skipped: 2026-12-27 (Sunday) is excluded by the calendar");
    assert_true(recurrence_next_or_skip(&r, from, &o));
    assert_true(o.fires);

    struct recurrence step = interval_rule(8 * 3600000LL, "2026-12-25T03:00:00Z", z);
    step.calendar = &c;
    assert_true(recurrence_next_or_skip(&step, at("2026-12-25T03:00:00Z"), &o));
    assert_int_equal(o.at_ms, at("2026-12-25T03:00:00Z"));
    assert_int_equal(o.notes, NOTE_DAY_EXCLUDED);
    assert_true(recurrence_next_or_skip(&step, o.at_ms + 1, &o));
    /* 00:00 UTC on the 26th would be 01:00 in that zone: 27 h later */
    assert_int_equal(o.at_ms, at("2026-12-26T03:00:00Z"));
    buf_release(&text);
    tz_unref(z);
}

static void a_calendar_that_excludes_everything_ends_the_rule(void **state)
{
    (void)state;
    struct calendar never = { .excluded_weekdays = 0x7f };
    struct recurrence r = cron_rule("0 8 * * *", tz_utc());
    struct recurrence step = interval_rule(3600000, "2026-01-01T00:00:00Z", tz_utc());
    r.calendar = step.calendar = &never;
    struct occurrence o;
    for (int policy = CALENDAR_SKIP; policy <= CALENDAR_PREVIOUS_DAY; policy++) {
        r.calendar_policy = step.calendar_policy = (enum calendar_policy)policy;
        r.start_ms = step.start_ms = at("2199-01-01T00:00:00Z");
        assert_false(recurrence_next(&r, 0, &o));
        assert_false(recurrence_next(&step, 0, &o));
    }
}

static void intervals_meet_the_calendar_too(void **state)
{
    (void)state;
    struct tz *z = zone("Europe/Berlin");
    struct calendar c = office_calendar();
    struct recurrence r = interval_rule(DAY_MS, "2026-12-24T11:00:00Z", z);
    r.calendar = &c;
    assert_fires(&r, "2026-12-24T00:00:00Z", "2026-12-24T11:00Z 2026-12-28T11:00Z");
    r = interval_rule(2 * DAY_MS, "2026-12-25T11:00:00Z", z); /* 25, 27, 29 … */
    r.calendar = &c;
    r.calendar_policy = CALENDAR_NEXT_DAY;
    assert_fires(&r, "2026-12-24T00:00:00Z",
                 "2026-12-28T11:00Z 2026-12-29T11:00Z 2026-12-31T11:00Z 2027-01-02T11:00Z 2027-01-04T11:00Z");
    r.calendar_policy = CALENDAR_PREVIOUS_DAY; /* a step that would move to before the start is dropped */
    assert_fires(&r, "2026-12-20T00:00:00Z", "2026-12-29T11:00Z");
    r.start_ms -= 2 * DAY_MS;
    assert_fires(&r, "2026-12-20T00:00:00Z", "2026-12-23T11:00Z 2026-12-24T11:00Z 2026-12-29T11:00Z");
    struct recurrence odd =
        interval_rule(7 * 3600000LL, "2026-12-25T11:00:00Z", z); /* 11:00 18:00 | 01:00 08:00 15:00 22:00 … UTC */
    odd.calendar = &c;
    odd.calendar_policy = CALENDAR_NEXT_DAY;
    struct occurrence o[32];
    size_t n = occurrences_between(&odd, at("2026-12-25T00:00:00Z"), at("2026-12-28T23:00:00Z"), o, 32);
    assert_true(n > 8); /* the steps of three days arrive on one day */
    for (size_t i = 0; i < n; i++) {
        assert_true(o[i].at_ms >= at("2026-12-27T23:00:00Z") && o[i].at_ms < at("2026-12-28T23:00:00Z"));
        assert_true(i == 0 || o[i].at_ms > o[i - 1].at_ms);
    }
    tz_unref(z);
}

/* ---- the oracle: minute by minute, from the definitions, without spans ---- */

struct oracle {
    const struct recurrence *r;
    bool shift;
    enum dst_repeat repeat;
};

static bool day_fires(const struct recurrence *r, int64_t day)
{
    bool named = cron_matches_day(&r->cron, day);
    if (!r->calendar)
        return named;
    if (!calendar_is_business_day(r->calendar, day))
        return false;
    if (named || r->calendar_policy == CALENDAR_SKIP)
        return named;
    int back = r->calendar_policy == CALENDAR_NEXT_DAY ? -1 : 1;
    for (int64_t d = day + back; !calendar_is_business_day(r->calendar, d); d += back)
        if (cron_matches_day(&r->cron, d))
            return true;
    return false;
}

static bool minute_matches(const struct recurrence *r, int64_t local)
{
    int64_t day = day_of_second(local);
    int second = (int)(local - day * DAY_S);
    return cron_next_in_day(&r->cron, second) == second && day_fires(r, day);
}

/* Whether an instant in (a, b) has this local time. Checks minute by minute. */
static bool local_in(const struct tz *z, int64_t a, int64_t b, int64_t local)
{
    for (int64_t t = a; t < b; t += 60)
        if (tz_local(z, t) == local)
            return true;
    return false;
}

static bool oracle_fires(const struct oracle *o, int64_t t, bool near_change)
{
    const struct tz *z = o->r->zone;
    int64_t local = tz_local(z, t);
    if (o->shift)
        for (int64_t l = tz_local(z, t - 60) + 60; l < local; l += 60)
            if (minute_matches(o->r, l))
                return true;
    if (!minute_matches(o->r, local))
        return false;
    if (!near_change || o->repeat == DST_REPEAT_BOTH)
        return true;
    if (o->repeat == DST_REPEAT_FIRST)
        return !local_in(z, t - 3 * HOUR_S, t, local);
    return !local_in(z, t + 60, t + 3 * HOUR_S, local);
}

static const char *random_field(struct prng *r, int low, int high, char out[40])
{
    int a = (int)prng_between(r, low, high), b = (int)prng_between(r, a, high);
    switch (prng_below(r, 6)) {
    case 0: return "*";
    case 1: snprintf(out, 40, "%d-%d", a, b); break;
    case 2: snprintf(out, 40, "%d,%d", a, b); break;
    case 3: snprintf(out, 40, "*/%d", (int)prng_between(r, 2, 20)); break;
    default: snprintf(out, 40, "%d", a); break;
    }
    return out;
}

static void random_expression(struct prng *r, char out[256])
{
    char f[5][40];
    static const char *const days[] = { "*", "*", "*", "L", "LW", "15W", "1,29", "*/3", "L-3" };
    static const char *const weekdays[] = { "*", "*", "*", "MON-FRI", "SUN", "FRI#2", "SATL" };
    snprintf(out, 256, "%s %s %s %s %s", random_field(r, 0, 59, f[0]), random_field(r, 0, 4, f[1]),
             days[prng_below(r, array_count(days))], prng_below(r, 3) ? "*" : random_field(r, 1, 12, f[3]),
             weekdays[prng_below(r, array_count(weekdays))]);
}

/* Windows of one week around a clock change, where mistakes are most likely. */
static void fast_search_agrees_with_the_brute_force_oracle(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Europe/Berlin",     "America/New_York", "Australia/Lord_Howe", "Africa/Cairo",  "America/Santiago",
        "Pacific/Chatham",   "Antarctica/Troll", "Africa/Casablanca",   "Europe/Dublin", "UTC",
        "America/Sao_Paulo", "Asia/Gaza"
    };
    struct prng random = seeded_prng("oracle");
    struct calendar c = { .excluded_weekdays = 1 << 0 | 1 << 6 };
    for (int round = 0; round < 400; round++) {
        struct tz *z = zone(names[prng_below(&random, array_count(names))]);
        char expression[256];
        random_expression(&random, expression);
        struct error e;
        struct recurrence r = { .kind = RECUR_CRON, .zone = z, .end_ms = INT64_MAX };
        if (cron_parse(str_from(expression), 0, &r.cron, &e)) {
            tz_unref(z);
            continue;
        }
        r.gap = (enum dst_gap)prng_below(&random, 3);
        r.repeat = (enum dst_repeat)prng_below(&random, 4);
        r.calendar = prng_below(&random, 3) ? NULL : &c;
        r.calendar_policy = (enum calendar_policy)prng_below(&random, 3);
        struct oracle o = { &r, r.gap == DST_GAP_SHIFT || (r.gap == DST_GAP_DEFAULT && !r.cron.follows_clock),
                            r.repeat               ? r.repeat
                            : r.cron.follows_clock ? DST_REPEAT_BOTH
                                                   : DST_REPEAT_FIRST };
        int64_t somewhere =
            prng_between(&random, at("1972-01-01T00:00:00Z") / 60000, at("2199-01-01T00:00:00Z") / 60000) * 60;
        struct tz_span span = tz_span_at(z, somewhere);
        int64_t change = span.until == INT64_MAX ? somewhere : span.until;
        change -= floor_mod(change, 60);
        int64_t from = change - prng_between(&random, 0, 3 * 1440) * 60, until = change + 2 * DAY_S;
        int64_t next = from * 1000;
        for (int64_t t = from; t < until; t += 60) {
            if (!oracle_fires(&o, t, llabs(t - change) < DAY_S))
                continue;
            struct occurrence got;
            if (!recurrence_next(&r, next, &got) || got.at_ms != t * 1000) {
                char want[RFC3339_TEXT + 1], have[RFC3339_TEXT + 1] = "nothing";
                rfc3339_format(t * 1000, want);
                if (recurrence_next(&r, next, &got))
                    rfc3339_format(got.at_ms, have);
                fail_msg("'%s' in %s (gap %d, repeat %d, calendar %d/%d): oracle %s, search %s", expression, tz_name(z),
                         (int)r.gap, (int)r.repeat, r.calendar != NULL, (int)r.calendar_policy, want, have);
            }
            next = t * 1000 + 1;
        }
        struct occurrence beyond;
        if (recurrence_next(&r, next, &beyond))
            assert_true(beyond.at_ms >= until * 1000);
        tz_unref(z);
    }
}

static int setup(void **state)
{
    (void)state;
    zones = zoneinfo_system_new(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    zoneinfo_free(zones);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock_changes_of_the_world),
        cmocka_unit_test(dst_policy_overrules_either_half),
        cmocka_unit_test(every_shift_says_why),
        cmocka_unit_test(skipped_gaps_are_answered_when_asked),
        cmocka_unit_test(intervals_never_drift),
        cmocka_unit_test(start_end_and_spread_bound_every_kind),
        cmocka_unit_test(rules_reach_from_1970_to_2200),
        cmocka_unit_test(excluded_days_are_skipped_or_moved),
        cmocka_unit_test(skipped_days_are_answered_when_asked),
        cmocka_unit_test(a_calendar_that_excludes_everything_ends_the_rule),
        cmocka_unit_test(intervals_meet_the_calendar_too),
        cmocka_unit_test(fast_search_agrees_with_the_brute_force_oracle),
    };
    return cmocka_run_group_tests_name("recurrence", tests, setup, teardown);
}

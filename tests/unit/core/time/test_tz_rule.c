#include "check.h"

#include <stdio.h>

#include "base/date.h"
#include "core/time/tz_rule.h"

static struct tz_rule parsed(const char *text)
{
    struct tz_rule r = { 0 };
    struct error e = { 0 };
    assert_ok(tz_rule_parse(str_from(text), true, &r, &e), &e);
    return r;
}

static int64_t utc(int year, int month, int day, int hour, int minute, int second)
{
    return civil_second((struct civil){ { year, month, day }, hour, minute, second });
}

static void names_and_offsets_are_read_with_east_positive(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name;
        int32_t offset_s;
    } rows[] = {
        { "UTC0", "UTC", 0 },
        { "EST5", "EST", -18000 },
        { "EST+5", "EST", -18000 },
        { "JST-9", "JST", 32400 },
        { "<+0330>-3:30", "+0330", 12600 },
        { "<-00>0", "-00", 0 },
        { "<A1b>-00:00:01", "A1b", 1 },
        { "LMT24:59:59", "LMT", -89999 },
        { "LMT-24:59:59", "LMT", 89999 },
        { "Amsterdam-0:19:32", "Amsterdam", 1172 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct tz_rule r = parsed(rows[i].text);
        assert_str(r.standard.abbreviation, rows[i].name);
        assert_int_equal(r.standard.offset_s, rows[i].offset_s);
        assert_false(r.has_daylight);
    }
}

static void daylight_time_is_an_hour_ahead_unless_said_otherwise(void **state)
{
    (void)state;
    struct tz_rule r = parsed("CET-1CEST,M3.5.0,M10.5.0/3");
    assert_true(r.has_daylight);
    assert_str(r.daylight.abbreviation, "CEST");
    assert_int_equal(r.daylight.offset_s, 7200);
    assert_int_equal(r.start.time_s, 7200);
    assert_int_equal(r.end.time_s, 10800);
    r = parsed("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0");
    assert_int_equal(r.standard.offset_s, 37800);
    assert_int_equal(r.daylight.offset_s, 39600);
    r = parsed("IST-1GMT0,M10.5.0,M3.5.0/1");
    assert_int_equal(r.daylight.offset_s, 0);
    assert_int_equal(r.start.kind, TZ_EDGE_WEEKDAY);
    assert_int_equal(r.start.month * 100 + r.start.week * 10 + r.start.day, 1050);
    r = parsed("AAA0BBB,M3.5.0/-167:59:59,M10.5.0/+167");
    assert_int_equal(r.start.time_s, -604799);
    assert_int_equal(r.end.time_s, 601200);
}

static void each_year_begins_and_ends_daylight_time(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int year;
        struct civil from, until;
    } rows[] = {
        { "CET-1CEST,M3.5.0,M10.5.0/3", 2026, { { 2026, 3, 29 }, 1, 0, 0 }, { { 2026, 10, 25 }, 1, 0, 0 } },
        { "EST5EDT,M3.2.0,M11.1.0", 2026, { { 2026, 3, 8 }, 7, 0, 0 }, { { 2026, 11, 1 }, 6, 0, 0 } },
        { "<-04>4<-03>,M9.1.6/24,M4.1.6/24", 2026, { { 2026, 9, 6 }, 4, 0, 0 }, { { 2027, 4, 4 }, 3, 0, 0 } },
        { "<+1245>-12:45<+1345>,M9.5.0/2:45,M4.1.0/3:45",
          2026,
          { { 2026, 9, 26 }, 14, 0, 0 },
          { { 2027, 4, 3 }, 14, 0, 0 } },
        { "IST-1GMT0,M10.5.0,M3.5.0/1", 2026, { { 2026, 10, 25 }, 1, 0, 0 }, { { 2027, 3, 28 }, 1, 0, 0 } },
        /* J60 is 1 March in every year; 59 is 29 February in leap years */
        { "AAA0BBB,J60/0,J365/0", 2026, { { 2026, 3, 1 }, 0, 0, 0 }, { { 2026, 12, 30 }, 23, 0, 0 } },
        { "AAA0BBB,J60/0,J365/0", 2028, { { 2028, 3, 1 }, 0, 0, 0 }, { { 2028, 12, 30 }, 23, 0, 0 } },
        { "AAA0BBB,J59/0,J61/0", 2028, { { 2028, 2, 28 }, 0, 0, 0 }, { { 2028, 3, 1 }, 23, 0, 0 } },
        { "AAA0BBB,59/0,364/0", 2026, { { 2026, 3, 1 }, 0, 0, 0 }, { { 2026, 12, 30 }, 23, 0, 0 } },
        { "AAA0BBB,59/0,365/0", 2028, { { 2028, 2, 29 }, 0, 0, 0 }, { { 2028, 12, 30 }, 23, 0, 0 } },
        /* week 5 is the last Sunday, even if it is the fourth; February 2026 has exactly four */
        { "AAA0BBB,M2.5.0,M5.5.0", 2026, { { 2026, 2, 22 }, 2, 0, 0 }, { { 2026, 5, 31 }, 1, 0, 0 } },
        { "AAA0BBB,M2.1.0,M2.4.6", 2026, { { 2026, 2, 1 }, 2, 0, 0 }, { { 2026, 2, 28 }, 1, 0, 0 } },
        /* as in Gaza: 50 hours after Thursday's midnight; and the day before */
        { "EET-2EEST,M3.4.4/50,M10.4.4/50", 2026, { { 2026, 3, 28 }, 0, 0, 0 }, { { 2026, 10, 23 }, 23, 0, 0 } },
        { "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2026, { { 2026, 3, 29 }, 1, 0, 0 }, { { 2026, 10, 25 }, 1, 0, 0 } },
        /* begins a week into the next year, ends a week before the year: the first end that comes after the beginning
         * counts */
        { "AAA0BBB,J365/167,0/-167", 2026, { { 2027, 1, 6 }, 23, 0, 0 }, { { 2027, 12, 25 }, 0, 0, 0 } },
        /* daylight time all year: its end is the next beginning */
        { "EST5EDT,0/0,J365/25", 2026, { { 2026, 1, 1 }, 5, 0, 0 }, { { 2027, 1, 1 }, 5, 0, 0 } },
        { "XXX3EDT4,0/0,J365/23", 2026, { { 2026, 1, 1 }, 3, 0, 0 }, { { 2027, 1, 1 }, 3, 0, 0 } },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct tz_rule r = parsed(rows[i].text);
        struct tz_daylight d = tz_rule_daylight(&r, rows[i].year);
        if (d.from != civil_second(rows[i].from) || d.until != civil_second(rows[i].until))
            fail_msg("%s in %d: from %lld until %lld", rows[i].text, rows[i].year, (long long)d.from,
                     (long long)d.until);
    }
}

/* By the definition, day by day: the last Sunday has no later Sunday in its month. */
static void last_sundays_are_last_in_six_hundred_years(void **state)
{
    (void)state;
    struct tz_rule r = parsed("UTC0BST,M3.5.0/0,M10.5.0/1");
    for (int year = 1900; year <= 2500; year++) {
        int64_t day = day_number((struct date){ year, 3, 31 });
        while (weekday_of(day) != 0)
            day--;
        struct tz_daylight d = tz_rule_daylight(&r, year);
        assert_int_equal(d.from, day * DAY_S);
        assert_true(d.until > d.from && d.until < utc(year, 11, 1, 0, 0, 0));
    }
}

static void what_is_no_rule_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int wrong_at;
    } rows[] = {
        { "", 1 },
        { "E5", 2 },
        { "ES5", 3 },
        { "EST", 4 },
        { "ESTx", 5 },
        { "5", 1 },
        { "<+0>0", 4 },
        { "<+01", 5 },
        { "<+0 1>0", 4 },
        { "EST25", 4 },
        { "EST5:60", 6 },
        { "EST5:", 6 },
        { "EST5:00:60", 9 },
        { "EST5:00:", 9 },
        { "EST5 ", 5 },
        { "EST5EDT", 8 },
        { "EST5ED,M3.2.0,M11.1.0", 7 },
        { "EST5EDT25,M3.2.0,M11.1.0", 8 },
        { "EST5EDT,", 9 },
        { "EST5EDT,M3.2.0", 15 },
        { "EST5EDT,M3.2.0,", 16 },
        { "EST5EDT,M0.2.0,M11.1.0", 10 },
        { "EST5EDT,M13.2.0,M11.1.0", 10 },
        { "EST5EDT,M3.0.0,M11.1.0", 12 },
        { "EST5EDT,M3.6.0,M11.1.0", 12 },
        { "EST5EDT,M3.2.7,M11.1.0", 14 },
        { "EST5EDT,M3,M11.1.0", 11 },
        { "EST5EDT,M3.2,M11.1.0", 13 },
        { "EST5EDT,J0,J365", 10 },
        { "EST5EDT,J366,J1", 10 },
        { "EST5EDT,366,1", 9 },
        { "EST5EDT,M3.2.0/168,M11.1.0", 16 },
        { "EST5EDT,M3.2.0/,M11.1.0", 16 },
        { "EST5EDT,M3.2.0,M11.1.0x", 23 },
        { "EST5EDT,M3.2.0,M11.1.0,J1", 23 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct tz_rule r = { .has_daylight = true };
        struct error e = { 0 };
        char says[64];
        snprintf(says, sizeof says, "(wrong at character %d)", rows[i].wrong_at);
        if (tz_rule_parse(str_from(rows[i].text), true, &r, &e) != ERR_CORRUPT)
            fail_msg("'%s' is taken for a rule", rows[i].text);
        if (!strstr(e.text, says))
            fail_msg("'%s': %s", rows[i].text, e.text);
        assert_true(r.has_daylight); /* untouched */
    }
}

static void only_version_three_stretches_the_hours(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool plain;
    } rows[] = {
        { "AAA0BBB,M3.5.0/24,M10.5.0", true },   { "AAA0BBB,M3.5.0/25,M10.5.0", false },
        { "AAA0BBB,M3.5.0/-1,M10.5.0", false },  { "AAA0BBB,M3.5.0,M10.5.0/+2", false },
        { "AAA0BBB,M3.5.0,M10.5.0/100", false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct tz_rule r;
        struct error e;
        assert_int_equal(tz_rule_parse(str_from(rows[i].text), false, &r, &e), rows[i].plain ? ERR_OK : ERR_CORRUPT);
        assert_int_equal(tz_rule_parse(str_from(rows[i].text), true, &r, &e), ERR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_offsets_are_read_with_east_positive),
        cmocka_unit_test(daylight_time_is_an_hour_ahead_unless_said_otherwise),
        cmocka_unit_test(each_year_begins_and_ends_daylight_time),
        cmocka_unit_test(last_sundays_are_last_in_six_hundred_years),
        cmocka_unit_test(what_is_no_rule_is_refused_with_its_place),
        cmocka_unit_test(only_version_three_stretches_the_hours),
    };
    return cmocka_run_group_tests_name("tz_rule", tests, NULL, NULL);
}

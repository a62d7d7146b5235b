#include "check.h"

#include <time.h>

#include "base/rfc3339.h"
#include "seed.h"

static const int64_t year_0_ms = -62167219200000, year_9999_end_ms = 253402300799999;

static void instants_are_read_with_any_offset(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        { "1970-01-01T00:00:00Z", 0 },
        { "2026-02-10T08:00:00Z", 1770710400000 },
        { "2026-02-10t08:00:00z", 1770710400000 },
        { "2026-02-10 08:00:00Z", 1770710400000 },
        { "2026-02-10T09:00:00+01:00", 1770710400000 },
        { "2026-02-10T08:00:00-00:00", 1770710400000 },
        { "2026-02-10T09:30:00.5+05:30", 1770696000500 },
        { "2000-02-29T12:00:00-08:00", 951854400000 },
        { "1985-04-12T23:20:50.52Z", 482196050520 },
        { "1996-12-19T16:39:57-08:00", 851042397000 },
        { "1937-01-01T12:00:27.87+00:20", -1041337172130 },
        { "2026-03-01T00:00:00+23:59", 1772236860000 },
        { "0000-01-01T00:00:00Z", -62167219200000 },
        { "0000-01-01T01:00:00+01:00", -62167219200000 },
        { "9999-12-31T23:59:59.999Z", 253402300799999 },
        { "9999-12-31T22:59:59.999-01:00", 253402300799999 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        int64_t ms = 77;
        struct error e;
        assert_ok(rfc3339_parse(str_from(rows[i].text), &ms, &e), &e);
        assert_int_equal(ms, rows[i].ms);
    }
}

static void fractions_are_cut_to_milliseconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        { "1970-01-01T00:00:00.1Z", 100 },
        { "1970-01-01T00:00:00.12Z", 120 },
        { "1970-01-01T00:00:00.123Z", 123 },
        { "1970-01-01T00:00:00.003Z", 3 },
        { "1970-01-01T00:00:00.1239Z", 123 },
        { "1970-01-01T00:00:00.999999999Z", 999 },
        { "1970-01-01T00:00:00.000999999+00:00", 0 },
        { "1969-12-31T23:59:59.999Z", -1 },
        { "1969-12-31T23:59:59.9999Z", -1 }, /* truncated as written, also before 1970 */
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        int64_t ms = 77;
        struct error e;
        assert_ok(rfc3339_parse(str_from(rows[i].text), &ms, &e), &e);
        assert_int_equal(ms, rows[i].ms);
    }
}

static void a_leap_second_is_read_as_the_second_after_it(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        { "2016-12-31T23:59:60Z", 1483228800000 },      { "2016-12-31T23:59:60.5Z", 1483228800500 },
        { "2016-12-31T15:59:60-08:00", 1483228800000 }, { "2017-01-01T05:29:60+05:30", 1483228800000 },
        { "2024-02-29T23:59:60Z", 1709251200000 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        int64_t ms = 77;
        struct error e;
        assert_ok(rfc3339_parse(str_from(rows[i].text), &ms, &e), &e);
        assert_int_equal(ms, rows[i].ms);
    }
}

static const char like[] = ": write it like 2026-02-10T08:00:00Z";
static const char leap[] = "has second 60, which exists only as a leap second, at 23:59:60 UTC on a month's last day";

static void refusals_say_what_is_wrong_and_where(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says, *rest;
    } rows[] = {
        { "", "is empty", like },
        { "202", "ends where the year (4 digits) is expected", like },
        { "2026", "ends where '-' is expected", like },
        { "2026-", "ends where the month (2 digits) is expected", like },
        { "2026-02-10", "needs a time after the date: 2026-02-10T08:00:00Z", "" },
        { "2026-02-10T", "ends where the hour (2 digits) is expected", like },
        { "2026-02-10T08:00", "ends where ':' is expected", like },
        { "2026-02-10T08:00:00", "needs an offset: 'Z' or '+01:00'", "" },
        { "2026-02-10T08:00:00.5", "needs an offset: 'Z' or '+01:00'", "" },
        { "2026-02-10T08:00:00.", "ends where a digit of the fraction is expected", like },
        { "2026-02-10T08:00:00+01", "ends where ':' is expected", like },
        { "tomorrow", "has 't' at character 1, where the year (4 digits) is expected", like },
        { "+2026-02-10T08:00:00Z", "has '+' at character 1, where the year (4 digits) is expected", like },
        { "12026-02-10T08:00:00Z", "has '6' at character 5, where '-' is expected", like },
        { "2026/02/10T08:00:00Z", "has '/' at character 5, where '-' is expected", like },
        { "2026-2-10T08:00:00Z", "has '-' at character 7, where the month (2 digits) is expected", like },
        { "2026-02-10_08:00:00Z", "has '_' at character 11, where 'T' is expected", like },
        { "2026-02-10T8:00:00Z", "has ':' at character 13, where the hour (2 digits) is expected", like },
        { "2026-02-10T08:00Z", "has 'Z' at character 17, where ':' is expected", like },
        { "2026-02-10T08:00:00,5Z", "has ',' at character 20, where an offset, 'Z' or '+01:00', is expected", like },
        { "2026-02-10T08:00:00.Z", "has 'Z' at character 21, where a digit of the fraction is expected", like },
        { "2026-02-10T08:00:00.1234567891Z", "has 10 digits after the decimal point: use at most 9", "" },
        { "2026-02-10T08:00:00\a", "has byte 0x07 at character 20, where an offset, 'Z' or '+01:00', is expected",
          like },
        { "2026-02-10T08:00:00+0100", "has '0' at character 23, where ':' is expected", like },
        { "2026-02-10T08:00:00+1:00", "has ':' at character 22, where the offset hour (2 digits) is expected", like },
        { "2026-02-10T08:00:00Z ", "has ' ' at character 21, where the end is expected", like },
        { "2026-02-10T08:00:00+01:00Z", "has 'Z' at character 26, where the end is expected", like },
        { "2026-13-10T08:00:00Z", "has month 13, which is not between 01 and 12", "" },
        { "2026-00-10T08:00:00Z", "has month 00, which is not between 01 and 12", "" },
        { "2026-02-00T08:00:00Z", "has day 00, which is not between 01 and 31", "" },
        { "2026-01-32T08:00:00Z", "has day 32, which is not between 01 and 31", "" },
        { "2026-02-30T08:00:00Z", "has day 30, which does not exist in February", "" },
        { "2026-04-31T08:00:00Z", "has day 31, which does not exist in April", "" },
        { "2026-02-29T08:00:00Z", "has day 29, which does not exist in February 2026", "" },
        { "1900-02-29T08:00:00Z", "has day 29, which does not exist in February 1900", "" },
        { "2026-02-10T25:00:00Z", "has hour 25, which is not between 00 and 23", "" },
        { "2026-02-10T24:00:00Z", "has hour 24, which is not between 00 and 23", "" },
        { "2026-02-10T08:60:00Z", "has minute 60, which is not between 00 and 59", "" },
        { "2026-02-10T08:00:61Z", "has second 61, which is not between 00 and 59", "" },
        { "2026-02-10T08:00:00+24:00", "has offset hour 24, which is not between 00 and 23", "" },
        { "2026-02-10T08:00:00-01:60", "has offset minute 60, which is not between 00 and 59", "" },
        { "2026-02-10T08:00:60Z", leap, "" },
        { "2016-12-31T23:58:60Z", leap, "" },
        { "2016-12-30T23:59:60Z", leap, "" },
        { "2016-12-31T23:59:60+01:00", leap, "" },
        { "2017-01-01T00:00:60Z", leap, "" },
        { "2017-01-01T00:59:60Z", leap, "" },
        { "0000-01-01T00:00:00+00:01", "is outside the years 0000 to 9999 in UTC", "" },
        { "9999-12-31T23:59:59-00:01", "is outside the years 0000 to 9999 in UTC", "" },
        { "9999-12-31T23:59:60Z", "is outside the years 0000 to 9999 in UTC", "" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        int64_t ms = 77;
        struct error e = { .field = "stale" };
        char says[200];
        snprintf(says, sizeof says, "%s%s", rows[i].says, rows[i].rest);
        assert_int_equal(rfc3339_parse(str_from(rows[i].text), &ms, &e), ERR_INVALID);
        assert_string_equal(e.text, says);
        assert_string_equal(e.field, "");
        assert_int_equal(e.code, ERR_INVALID);
        assert_int_equal(ms, 77);
    }
}

static void every_cut_of_a_good_text_is_refused(void **state)
{
    (void)state;
    struct str whole = S("2026-02-10T08:00:00.123456789+01:00");
    int64_t ms;
    struct error e;
    assert_ok(rfc3339_parse(whole, &ms, &e), &e);
    for (size_t n = 0; n < whole.n; n++)
        assert_int_equal(rfc3339_parse(str_sub(whole, 0, n), &ms, NULL), ERR_INVALID);
    assert_int_equal(rfc3339_parse((struct str){ NULL, 0 }, &ms, &e), ERR_INVALID);
    assert_int_equal(rfc3339_parse(S("2026-02-10T08:00:00\0Z"), &ms, &e), ERR_INVALID);
    assert_says(&e, "has byte 0x00 at character 20");
}

static void instants_print_in_utc_with_milliseconds(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        { 0, "1970-01-01T00:00:00.000Z" },
        { -1, "1969-12-31T23:59:59.999Z" },
        { -1000, "1969-12-31T23:59:59.000Z" },
        { 1770710400000, "2026-02-10T08:00:00.000Z" },
        { 951782400007, "2000-02-29T00:00:00.007Z" },
        { -62167219200000, "0000-01-01T00:00:00.000Z" },
        { 253402300799999, "9999-12-31T23:59:59.999Z" },
        { 253402300800000, "9999-12-31T23:59:59.999Z" },
        { INT64_MAX, "9999-12-31T23:59:59.999Z" },
        { -62167219200001, "0000-01-01T00:00:00.000Z" },
        { INT64_MIN, "0000-01-01T00:00:00.000Z" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char text[RFC3339_TEXT + 1];
        rfc3339_format(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void any_instant_goes_there_and_back_and_agrees_with_libc(void **state)
{
    (void)state;
    struct prng r = seeded_prng("instants");
    for (int i = 0; i < 50000; i++) {
        int64_t ms = prng_between(&r, year_0_ms, year_9999_end_ms), again = 0;
        char text[RFC3339_TEXT + 1], by_libc[64];
        struct error e;
        rfc3339_format(ms, text);
        time_t second = (time_t)floor_div(ms, 1000);
        struct tm tm;
        assert_non_null(gmtime_r(&second, &tm));
        snprintf(by_libc, sizeof by_libc, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1,
                 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)floor_mod(ms, 1000));
        assert_string_equal(text, by_libc);
        assert_ok(rfc3339_parse(str_from(text), &again, &e), &e);
        assert_int_equal(again, ms);
    }
}

static void any_instant_is_read_from_any_offset(void **state)
{
    (void)state;
    struct prng r = seeded_prng("offsets");
    for (int i = 0; i < 50000; i++) {
        int64_t ms = prng_between(&r, year_0_ms + DAY_MS, year_9999_end_ms - DAY_MS), again = 0;
        int offset_min = (int)prng_between(&r, -1439, 1439), size = offset_min < 0 ? -offset_min : offset_min;
        struct civil c = civil_of(floor_div(ms, 1000) + offset_min * MINUTE_S);
        char text[64];
        struct error e;
        snprintf(text, sizeof text, "%04d-%02d-%02d %02d:%02d:%02d.%03d%c%02d:%02d", c.date.year, c.date.month,
                 c.date.day, c.hour, c.minute, c.second, (int)floor_mod(ms, 1000), offset_min < 0 ? '-' : '+',
                 size / 60, size % 60);
        assert_ok(rfc3339_parse(str_from(text), &again, &e), &e);
        assert_int_equal(again, ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instants_are_read_with_any_offset),
        cmocka_unit_test(fractions_are_cut_to_milliseconds),
        cmocka_unit_test(a_leap_second_is_read_as_the_second_after_it),
        cmocka_unit_test(refusals_say_what_is_wrong_and_where),
        cmocka_unit_test(every_cut_of_a_good_text_is_refused),
        cmocka_unit_test(instants_print_in_utc_with_milliseconds),
        cmocka_unit_test(any_instant_goes_there_and_back_and_agrees_with_libc),
        cmocka_unit_test(any_instant_is_read_from_any_offset),
    };
    return cmocka_run_group_tests_name("rfc3339", tests, NULL, NULL);
}

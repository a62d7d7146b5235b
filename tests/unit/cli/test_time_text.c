#include "cli/time_text.h"

#include "check.h"

#define NOW_MS 1770710400000LL /* 2026-02-10T08:00:00Z */

static void relative_times_name_the_two_units_that_matter(void **state)
{
    (void)state;
    static const struct {
        int64_t from_now_ms;
        const char *text;
    } rows[] = {
        { 0, "now" },
        { 499, "now" },
        { -499, "now" },
        { 500, "in 1s" },
        { -500, "1s ago" },
        { -3000, "3s ago" },
        { 59999, "in 59s" },
        { 60000, "in 1m" },
        { 5 * 60000 + 900, "in 5m" },
        { 3599999, "in 59m59s" },
        { 3600000, "in 1h" },
        { 4859000, "in 1h20m" },
        { 86399999, "in 23h59m" },
        { -86400000, "1d ago" },
        { 3 * 86400000LL + 4 * 3599999, "in 3d3h" },
        { 29 * 86400000LL + 23 * 3600000, "in 29d23h" },
        { 30 * 86400000LL + 23 * 3600000, "in 30d" },
        { -400 * 86400000LL, "400d ago" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char text[TIME_TEXT];
        time_text_relative(NOW_MS + rows[i].from_now_ms, NOW_MS, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void far_ends_of_time_fit(void **state)
{
    (void)state;
    char text[TIME_TEXT];
    time_text_relative(253402300799999, NOW_MS, text); /* the year 9999 */
    assert_string_equal(text, "in 2912402d");
    time_text_relative(-62167219200000, NOW_MS, text); /* the year 0 */
    assert_string_equal(text, "740022d ago");
    time_text_utc(-62167219200000, text);
    assert_string_equal(text, "0000-01-01 00:00:00Z");
}

static void utc_shows_milliseconds_where_there_are_any(void **state)
{
    (void)state;
    char text[TIME_TEXT];
    time_text_utc(NOW_MS, text);
    assert_string_equal(text, "2026-02-10 08:00:00Z");
    time_text_utc(NOW_MS + 7, text);
    assert_string_equal(text, "2026-02-10 08:00:00.007Z");
    time_text_utc(-1, text);
    assert_string_equal(text, "1969-12-31 23:59:59.999Z");
}

static void wall_clock_times_name_day_and_zone(void **state)
{
    (void)state;
    char text[TIME_TEXT];
    time_text_local(tz_utc(), NOW_MS + 50, text);
    assert_string_equal(text, "Tue 2026-02-10 08:00:00.050 UTC");
    time_text_local(tz_utc(), -1000, text);
    assert_string_equal(text, "Wed 1969-12-31 23:59:59 UTC");
    time_text_wall(NOW_MS / 1000, 0, "", text);
    assert_string_equal(text, "Tue 2026-02-10 08:00:00");
}

static void spans_are_as_fine_as_they_are_short(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        { -5, "0ms" },      { 0, "0ms" },        { 1, "1ms" },         { 999, "999ms" },
        { 1000, "1.0s" },   { 1250, "1.2s" },    { 59999, "59.9s" },   { 60000, "1m" },
        { 125900, "2m5s" }, { 3660000, "1h1m" }, { 90000000, "1d1h" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char text[TIME_TEXT];
        time_text_took(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relative_times_name_the_two_units_that_matter),
        cmocka_unit_test(far_ends_of_time_fit),
        cmocka_unit_test(utc_shows_milliseconds_where_there_are_any),
        cmocka_unit_test(wall_clock_times_name_day_and_zone),
        cmocka_unit_test(spans_are_as_fine_as_they_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

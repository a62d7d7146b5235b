#include "check.h"

#include "base/duration.h"
#include "seed.h"

static void durations_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        { "90s", 90000 },
        { "15m", 900000 },
        { "1h30m", 5400000 },
        { "7d", 604800000 },
        { "250ms", 250 },
        { "0s", 0 },
        { "0ms", 0 },
        { "2w", 1209600000 },
        { "1w2d3h4m5s6ms", 788645006 },
        { "1m1ms", 60001 },
        { "1d0h", 86400000 },
        { "007s", 7000 },
        { "36600d", DURATION_MAX_MS },
        { "3162240000000ms", DURATION_MAX_MS },
        { "00000000000000000000000000000001s", 1000 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        int64_t ms = -1;
        struct error e;
        assert_ok(duration_parse(str_from(rows[i].text), &ms, &e), &e);
        assert_int_equal(ms, rows[i].ms);
    }
}

static void refusals_say_the_remedy(void **state)
{
    (void)state;
    static const struct {
        struct str text;
        const char *says;
    } rows[] = {
        { { "", 0 }, "is empty: write it like 90s, 15m, 1h30m or 7d" },
        { { NULL, 0 }, "is empty: write it like 90s, 15m, 1h30m or 7d" },
        { { "5", 1 }, "'5' needs a unit: 5s, 5m, 5h or 5d" },
        { { "1h30", 4 }, "'30' after 'h' needs a unit too, as in 1h30m" },
        { { "1.5h", 4 }, "takes whole numbers only: 1h30m, not 1.5h" },
        { { "1,5h", 4 }, "takes whole numbers only: 1h30m, not 1.5h" },
        { { "-5s", 3 }, "must not be negative: write it like 90s, 15m, 1h30m or 7d" },
        { { "+5s", 3 }, "has '+' at character 1, where a number is expected: write it like 1h30m" },
        { { "1h-5s", 5 }, "has '-' at character 3, where a number is expected: write it like 1h30m" },
        { { "1h 30m", 6 }, "has ' ' at character 3, where a number is expected: write it like 1h30m" },
        { { "5 s", 3 }, "has ' ' after '5', where a unit is expected: w, d, h, m, s or ms" },
        { { "5\xc2\xb5s", 4 }, "has byte 0xc2 after '5', where a unit is expected: w, d, h, m, s or ms" },
        { { "s", 1 }, "has 's' at character 1, where a number is expected: write it like 1h30m" },
        { { "1y", 2 }, "'y' is not a unit: use w, d, h, m, s or ms" },
        { { "5M", 2 }, "'M' is not a unit: use w, d, h, m, s or ms" },
        { { "5minutesandfortyseconds", 23 }, "'minutesandfortysecon' is not a unit: use w, d, h, m, s or ms" },
        { { "30m1h", 5 }, "has 'h' after 'm': larger units come first, as in 1h30m" },
        { { "5ms5s", 5 }, "has 's' after 'ms': larger units come first, as in 1h30m" },
        { { "1m2m", 4 }, "has 'm' twice: add the two numbers" },
        { { "36601d", 6 }, "is longer than 36600d, a century" },
        { { "36600d1ms", 9 }, "is longer than 36600d, a century" },
        { { "99999999999999999999999999s", 27 }, "is longer than 36600d, a century" },
        { { "9223372036854775807w", 20 }, "is longer than 36600d, a century" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        int64_t ms = 77;
        struct error e = { 0 };
        assert_int_equal(duration_parse(rows[i].text, &ms, &e), ERR_INVALID);
        assert_string_equal(e.text, rows[i].says);
        assert_string_equal(e.field, "");
        assert_int_equal(ms, 77);
    }
}

static void nothing_is_read_past_the_end(void **state)
{
    (void)state;
    int64_t ms;
    struct error e;
    assert_ok(duration_parse((struct str){ "5msX", 2 }, &ms, &e), &e);
    assert_int_equal(ms, 300000);
    assert_int_equal(duration_parse((struct str){ "5ms", 1 }, &ms, NULL), ERR_INVALID);
}

static void durations_print_largest_unit_first(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        { 0, "0s" },
        { 1, "1ms" },
        { 1000, "1s" },
        { 1001, "1s1ms" },
        { 90000, "1m30s" },
        { 5400000, "1h30m" },
        { 86400000, "1d" },
        { 604800000, "7d" },
        { 86399999, "23h59m59s999ms" },
        { DURATION_MAX_MS, "36600d" },
        { INT64_MAX, "106751991167d7h12m55s807ms" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char text[DURATION_TEXT];
        duration_format(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void any_duration_goes_there_and_back(void **state)
{
    (void)state;
    struct prng r = seeded_prng("duration");
    for (int i = 0; i < 20000; i++) {
        int64_t ms = (int64_t)prng_below(&r, DURATION_MAX_MS + 1) >> prng_below(&r, 42), again;
        char text[DURATION_TEXT];
        struct error e;
        duration_format(ms, text);
        assert_ok(duration_parse(str_from(text), &again, &e), &e);
        assert_int_equal(again, ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read_as_people_write_them),
        cmocka_unit_test(refusals_say_the_remedy),
        cmocka_unit_test(nothing_is_read_past_the_end),
        cmocka_unit_test(durations_print_largest_unit_first),
        cmocka_unit_test(any_duration_goes_there_and_back),
    };
    return cmocka_run_group_tests_name("duration", tests, NULL, NULL);
}

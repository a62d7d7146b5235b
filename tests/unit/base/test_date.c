#include "check.h"

#include "base/date.h"

static void day_numbers_count_from_1970(void **state)
{
    (void)state;
    static const struct {
        struct date date;
        int64_t day;
        int weekday;
    } rows[] = {
        { { 1970, 1, 1 }, 0, 4 },      { { 1969, 12, 31 }, -1, 3 },      { { 2000, 2, 29 }, 11016, 2 },
        { { 1900, 3, 1 }, -25508, 4 }, { { 2100, 3, 1 }, 47541, 1 },     { { 2026, 11, 15 }, 20772, 0 },
        { { 0, 1, 1 }, -719528, 6 },   { { 9999, 12, 31 }, 2932896, 5 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        assert_int_equal(day_number(rows[i].date), rows[i].day);
        assert_int_equal(weekday_of(rows[i].day), rows[i].weekday);
    }
}

static void every_day_of_ten_thousand_years_goes_there_and_back(void **state)
{
    (void)state;
    struct date expected = { 0, 1, 1 };
    for (int64_t day = -719528; day <= 2932896; day++) {
        struct date d = date_of_day(day);
        assert_true(d.year == expected.year && d.month == expected.month && d.day == expected.day);
        assert_true(day_number(d) == day && date_is_valid(d));
        if (++expected.day > days_in_month(expected.year, expected.month)) {
            expected.day = 1;
            if (++expected.month > 12) {
                expected.month = 1;
                expected.year++;
            }
        }
    }
}

static void impossible_dates_are_not_valid(void **state)
{
    (void)state;
    static const struct date rows[] = { { 2026, 2, 29 }, { 2100, 2, 29 }, { 2026, 4, 31 }, { 2026, 0, 1 },
                                        { 2026, 13, 1 }, { 2026, 1, 0 },  { -1, 1, 1 },    { 10000, 1, 1 } };
    for (size_t i = 0; i < array_count(rows); i++)
        assert_false(date_is_valid(rows[i]));
    assert_true(date_is_valid((struct date){ 2000, 2, 29 }));
}

static void civil_seconds_go_there_and_back(void **state)
{
    (void)state;
    struct civil c = civil_of(-1);
    assert_int_equal(c.date.year, 1969);
    assert_int_equal(c.hour * 10000 + c.minute * 100 + c.second, 235959);
    for (int64_t s = -4000000000; s < 8000000000; s += 86399 * 7)
        assert_int_equal(civil_second(civil_of(s)), s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(day_numbers_count_from_1970),
        cmocka_unit_test(every_day_of_ten_thousand_years_goes_there_and_back),
        cmocka_unit_test(impossible_dates_are_not_valid),
        cmocka_unit_test(civil_seconds_go_there_and_back),
    };
    return cmocka_run_group_tests_name("date", tests, NULL, NULL);
}

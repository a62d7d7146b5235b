#include "check.h"

#include "base/prng.h"
#include "core/time/cron.h"
#include "cron_oracle.h"

enum { TEXT_MAX = 4096 };

struct row {
    const char *expression, *text;
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct cron c;
        struct error e = { .code = ERR_OK };
        assert_ok(cron_parse(str_from(rows[i].expression), 0, &c, &e), &e);
        cleanup_with(buf_release) struct buf b;
        buf_init(&b, TEXT_MAX);
        cron_describe(str_from(rows[i].expression), &b);
        if (strcmp(buf_cstr(&b), rows[i].text) != 0)
            fail_msg("'%s' reads '%s', not '%s'", rows[i].expression, buf_cstr(&b), rows[i].text);
    }
}

static void times_of_day_read_as_a_clock(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "0 8 * * MON-FRI", "At 08:00 on Monday through Friday" },
        { "30 2 * * *", "At 02:30 every day" },
        { "0 8,12,18 * * *", "At 08:00, 12:00 and 18:00 every day" },
        { "0,30 8,9,20 * * *", "At 08:00, 08:30, 09:00, 09:30, 20:00 and 20:30 every day" },
        { "0 */8 * * *", "At 00:00, 08:00 and 16:00 every day" },
        { "*/21 2 * * *", "At 02:00, 02:21 and 02:42 every day" },
        { "0 22/1 * * *", "At 22:00 and 23:00 every day" },
        { "30 0 8 * * *", "At 08:00:30 every day" },
        { "15,45 30 8 * * *", "At 08:30:15 and 08:30:45 every day" },
        { "H(5-5) H(6-6) * * *", "At 06:05 every day" },
    };
    check_rows(rows, array_count(rows));
}

static void equal_distances_read_as_a_beat(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "* * * * *", "Every minute" },
        { "* * * * * *", "Every second" },
        { "0 * * * * *", "Every minute" },
        { "0-59 0-23 1-31 1-12 0-7", "Every minute" },
        { "*/5 * * * *", "Every 5 minutes" },
        { "5/10 * * * *", "Every 10 minutes from minute 5 of every hour" },
        { "0,30 * * * *", "Every 30 minutes" },
        { "5,35 * * * *", "Every 30 minutes from minute 5 of every hour" },
        { "0 * * * *", "Every hour on the hour" },
        { "@hourly", "Every hour on the hour" },
        { "*/60 * * * *", "Every hour on the hour" },
        { "30 * * * *", "Every hour at minute 30" },
        { "30 0 * * * *", "Every hour at minute 0 and second 30" },
        { "30 15 * * * *", "Every hour at minute 15 and second 30" },
        { "30 * * * * *", "Every minute at second 30" },
        { "30 */5 * * * *", "Every 5 minutes at second 30" },
        { "30 5/10 * * * *", "Every 10 minutes from 00:05:30" },
        { "*/10 * * * * *", "Every 10 seconds" },
        { "5/10 * * * * *", "Every 10 seconds from second 5 of every minute" },
        { "15,45 * * * * *", "Every 30 seconds from second 15 of every minute" },
        { "0 */2 * * *", "Every 2 hours from 00:00" },
        { "15 */2 * * *", "Every 2 hours from 00:15" },
        { "30 15 */4 * * *", "Every 4 hours from 00:15:30" },
        { "0 */6 * * *", "Every 6 hours from 00:00" },
        { "0 */5 * * *", "Every 5 hours from 00:00 through 20:00 every day" },
        { "0 9-17 * * MON-FRI", "Every hour from 09:00 through 17:00 on Monday through Friday" },
        { "30 9-17/2 * * *", "Every 2 hours from 09:30 through 17:30 every day" },
        { "*/15 9-17 * * MON-FRI", "Every 15 minutes from 09:00 through 17:45 on Monday through Friday" },
        { "0,30 8-17 * * *", "Every 30 minutes from 08:00 through 17:30 every day" },
        { "* 8 * * *", "Every minute from 08:00 through 08:59 every day" },
        { "10-20 8 * * *", "Every minute from 08:10 through 08:20 every day" },
        { "*/7 8 * * *", "Every 7 minutes from 08:00 through 08:56 every day" },
        { "*/10 30 8 * * *", "Every 10 seconds from 08:30:00 through 08:30:50 every day" },
        { "*/10 * 8-17 * * *", "Every 10 seconds from 08:00:00 through 17:59:50 every day" },
        { "H/1 * * * *", "Every minute" },
    };
    check_rows(rows, array_count(rows));
}

static void uneven_times_read_field_by_field(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "*/7 * * * *", "Every 7 minutes from minute 0 through 56 of every hour" },
        { "*/11 * * * *", "Every 11 minutes from minute 0 through 55 of every hour" },
        { "*/7 * * * * *", "Every 7 seconds from second 0 through 56 of every minute" },
        { "*/7 8-17 * * *", "Every 7 minutes from minute 0 through 56 of hours 8 through 17 every day" },
        { "*/5 8,12 * * *", "Every 5 minutes of hours 8 and 12 every day" },
        { "5/10 8,12 * * *", "Every 10 minutes from minute 5 of hours 8 and 12 every day" },
        { "* 8,12 * * *", "Every minute of hours 8 and 12 every day" },
        { "* */2 * * *", "Every minute of every 2nd hour from 0 through 22 every day" },
        { "10-20 * * * *", "At minutes 10 through 20 of every hour" },
        { "10-20 8-17 * * *", "At minutes 10 through 20 of hours 8 through 17 every day" },
        { "11,12,13 * * * *", "At minutes 11 through 13 of every hour" },
        { "5,36 * * * *", "At minutes 5 and 36 of every hour" },
        { "1,3,5,9 * * * *", "At minutes 1, 3, 5 and 9 of every hour" },
        { "0,20,41 8-17 * * *", "At minutes 0, 20 and 41 of hours 8 through 17 every day" },
        { "0 1-5,10,20-23 * * *", "At minute 0 of hours 1 through 5, 10 and 20 through 23 every day" },
        { "15,46 * * * * *", "At seconds 15 and 46 of every minute" },
        { "*/10 */5 * * * *", "Every 10 seconds of every 5th minute from 0 through 55 of every hour" },
        { "*/13 */9 * * * *",
          "Every 13 seconds from second 0 through 52 of every 9th minute from 0 through 54 of every hour" },
        { "5 */7 8-10 * * *", "At second 5 of every 7th minute from 0 through 56 of hours 8 through 10 every day" },
    };
    check_rows(rows, array_count(rows));
}

static void hash_reads_as_the_choice_it_is(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "H * * * *", "Every hour at a minute chosen by the task's id" },
        { "H(0-29) * * * *", "Every hour at a minute between 0 and 29 chosen by the task's id" },
        { "H H * * *", "At a time chosen by the task's id every day" },
        { "H H H * * *", "At a time chosen by the task's id every day" },
        { "H H(2-5) * * *", "At a time from 02:00 through 05:59 chosen by the task's id every day" },
        { "H 8 * * *", "At a time from 08:00 through 08:59 chosen by the task's id every day" },
        { "H 9-17 * * MON-FRI", "At a minute chosen by the task's id in hours 9 through 17 on Monday through Friday" },
        { "0 H * * *", "At minute 0 of an hour chosen by the task's id every day" },
        { "0 H(2-5) * * *", "At minute 0 of an hour between 2 and 5 chosen by the task's id every day" },
        { "0 H/3 * * *",
          "At minute 0 of every 3rd hour from an hour between 0 and 2 chosen by the task's id every day" },
        { "H/15 * * * *", "Every 15 minutes from a minute between 0 and 14 chosen by the task's id" },
        { "H/7 * * * *", "Every 7 minutes from a minute between 0 and 6 chosen by the task's id in every hour" },
        { "H/15 9-17 * * *",
          "Every 15 minutes from a minute between 0 and 14 chosen by the task's id in hours 9 through 17 every day" },
        { "H(0-29)/10 * * * *",
          "Every 10 minutes from a minute between 0 and 9 chosen by the task's id through 29 in every hour" },
        { "5,H * * * *", "At minute 5 and a minute chosen by the task's id in every hour" },
        { "H,30 8 * * *", "At minute 30 and a minute chosen by the task's id in hour 8 every day" },
        { "H 8,H * * *",
          "At a minute chosen by the task's id in hour 8 and an hour chosen by the task's id every day" },
        { "H(0-29) 8 * * *", "At a minute between 0 and 29 chosen by the task's id in hour 8 every day" },
        { "H * * * * *", "Every minute at a second chosen by the task's id" },
        { "H */5 * * * *", "At a second chosen by the task's id in every 5th minute from 0 through 55 of every hour" },
        { "5 H 8 * * *", "At second 5 of a minute chosen by the task's id in hour 8 every day" },
        { "* H * * *", "Every minute of an hour chosen by the task's id every day" },
        { "*/5 H(8-10) * * *", "Every 5 minutes of an hour between 8 and 10 chosen by the task's id every day" },
        { "0 0 H * *", "At 00:00 on a day chosen by the task's id within the month" },
        { "0 0 H 6 *", "At 00:00 on a day chosen by the task's id within June" },
        { "0 0 H 6,7 *", "At 00:00 on a day chosen by the task's id within the month in June and July" },
        { "0 0 H/3 * *",
          "At 00:00 on every 3rd day from a day between 1 and 3 chosen by the task's id within the month" },
        { "0 0 H/3 6 1",
          "At 00:00 on every 3rd day from a day between 1 and 3 chosen by the task's id within the month, or on Monday, only in June" },
        { "0 8 H(1-7) * MON",
          "At 08:00 on a day between 1 and 7 chosen by the task's id within the month, or on Monday" },
        { "0 0 1 H *", "At 00:00 on day 1 of a month chosen by the task's id" },
        { "0 0 1 H(3-5) *", "At 00:00 on day 1 of a month between March and May chosen by the task's id" },
        { "0 0 1 H/3 *",
          "At 00:00 on day 1 of the month in every 3rd month from a month between January and March chosen by the task's id" },
        { "0 0 1 H,6 *", "At 00:00 on day 1 of the month in June and a month chosen by the task's id" },
        { "0 0 * H *", "At 00:00 every day in a month chosen by the task's id" },
        { "0 0 * * H", "At 00:00 on a day of the week chosen by the task's id" },
        { "0 0 * * H(MON-FRI)", "At 00:00 on a day of the week between Monday and Friday chosen by the task's id" },
        { "0 0 * * H(FRI-SUN)", "At 00:00 on a day of the week between Friday and Sunday chosen by the task's id" },
        { "0 0 * * H/2",
          "At 00:00 on every 2nd day of the week from a day of the week between Sunday and Monday chosen by the task's id" },
        { "0 0 * 1 H,MON#1",
          "At 00:00 on a day of the week chosen by the task's id and the 1st Monday within January" },
    };
    check_rows(rows, array_count(rows));
}

static void days_of_the_month_are_counted(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "0 0 1 * *", "At 00:00 on day 1 of the month" },
        { "@monthly", "At 00:00 on day 1 of the month" },
        { "0 0 1,15 * ?", "At 00:00 on days 1 and 15 of the month" },
        { "0 0 1-5,10,20-25 * *", "At 00:00 on days 1 through 5, 10 and 20 through 25 of the month" },
        { "0 0 */10 * *", "At 00:00 on every 10th day from 1 through 31 of the month" },
        { "0 0 */31 * *", "At 00:00 on day 1 of the month" },
        { "0 0 2,12,22 * *", "At 00:00 on days 2, 12 and 22 of the month" },
        { "0 0 L * *", "At 00:00 on the last day of the month" },
        { "0 0 L-1 * *", "At 00:00 on the day before the last day of the month" },
        { "0 0 L-3 * *", "At 00:00 on the day 3 days before the last day of the month" },
        { "0 0 1,15,L * *", "At 00:00 on days 1 and 15 and the last day of the month" },
        { "0 0 15W * *", "At 00:00 on the weekday nearest to day 15 of the month" },
        { "0 0 LW 6 *", "At 00:00 on the last weekday of June" },
        { "0 0 L,LW,15W,L-5 * *",
          "At 00:00 on the last day, the last weekday, the weekday nearest to day 15 and the day 5 days before the last day of the month" },
        { "0 0 29 2 *", "At 00:00 on day 29 of February" },
        { "@yearly", "At 00:00 on day 1 of January" },
        { "0 8 1 1 ?", "At 08:00 on day 1 of January" },
        { "0 0 1 */3 *", "At 00:00 on day 1 of the month in January, April, July and October" },
        { "0 0 1 3-5 *", "At 00:00 on day 1 of the month in March through May" },
        { "0 0,12 1 1-3,6 *", "At 00:00 and 12:00 on day 1 of the month in January through March and June" },
    };
    check_rows(rows, array_count(rows));
}

static void weekdays_are_named_from_where_a_run_begins(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "0 0 * * SAT-SUN", "At 00:00 on Saturday and Sunday" },
        { "0 0 * * SUN-TUE", "At 00:00 on Sunday through Tuesday" },
        { "0 0 * * MON,WED,FRI", "At 00:00 on Monday, Wednesday and Friday" },
        { "0 0 * * 5,6,0,1,3", "At 00:00 on Wednesday and Friday through Monday" },
        { "0 0 * * 1-6", "At 00:00 on Monday through Saturday" },
        { "0 0 * * 7", "At 00:00 on Sunday" },
        { "@weekly", "At 00:00 on Sunday" },
        { "0 0 * * */2", "At 00:00 on Tuesday, Thursday, Saturday and Sunday" },
        { "0 0 * * */7", "At 00:00 on Sunday" },
        { "0 0 * * MON#2", "At 00:00 on the 2nd Monday of the month" },
        { "0 0 * * TUE#1,WED#3,THU#5",
          "At 00:00 on the 1st Tuesday, the 3rd Wednesday and the 5th Thursday of the month" },
        { "0 0 * * FRIL", "At 00:00 on the last Friday of the month" },
        { "0 0 * 6 FRIL", "At 00:00 on the last Friday of June" },
        { "0 0 * 6,9 FRIL", "At 00:00 on the last Friday of the month in June and September" },
        { "0 0 * * MON#2,FRI", "At 00:00 on Friday and the 2nd Monday of the month" },
        { "0 8 * 1,6 MON", "At 08:00 on Monday in January and June" },
        { "0 0 * 3-5 *", "At 00:00 every day in March through May" },
        { "* * * 1 *", "Every minute in January" },
        { "0 * * 12 SAT", "Every hour on the hour on Saturday in December" },
    };
    check_rows(rows, array_count(rows));
}

static void two_day_fields_say_whether_one_or_both_must_match(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "0 0 1,15 * MON", "At 00:00 on days 1 and 15 of the month, or on Monday" },
        { "0 0 13 * FRI", "At 00:00 on day 13 of the month, or on Friday" },
        { "0 0 1,15 1,6 MON", "At 00:00 on days 1 and 15 of the month, or on Monday, only in January and June" },
        { "0 0 L * FRIL", "At 00:00 on the last day of the month, or on the last Friday of the month" },
        { "59 59 23 31 DEC FRIL",
          "At 23:59:59 on day 31 of the month, or on the last Friday of the month, only in December" },
        { "0 0 13 * 0-6", "At 00:00 every day" },
        { "0 0 1-31 * 5", "At 00:00 every day" },
        { "0 0 */2 * MON", "At 00:00 on every 2nd day from 1 through 31 of the month, only if it is Monday" },
        { "0 0 */2 1 MON,WED,FRI",
          "At 00:00 on every 2nd day from 1 through 31 of January, only if it is Monday, Wednesday or Friday" },
        { "0 0 1-7 * */2",
          "At 00:00 on days 1 through 7 of the month, only if it is Tuesday, Thursday, Saturday or Sunday" },
        { "0 0 */2 * */3",
          "At 00:00 on every 2nd day from 1 through 31 of the month, only if it is Wednesday, Saturday or Sunday" },
        { "0 0 1-31 * *", "At 00:00 every day" },
        { "* * 1 * MON", "Every minute on day 1 of the month, or on Monday" },
    };
    check_rows(rows, array_count(rows));
}

static void description_goes_behind_what_is_there_and_stops_at_the_limit(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 20);
    buf_text(&b, "due: ");
    cron_describe(S("*/5 * * * *"), &b);
    assert_string_equal(buf_cstr(&b), "due: Every 5 minutes");
    assert_false(b.full);
    cron_describe(S("0 8 * * *"), &b);
    assert_string_equal(buf_cstr(&b), "due: Every 5 minutes");
    assert_true(b.full);
}

static void every_random_expression_reads_as_one_clean_sentence(void **state)
{
    (void)state;
    const uint64_t seed = 1789;
    print_message("# seed %llu\n", (unsigned long long)seed);
    struct prng r;
    prng_init(&r, seed);
    for (int i = 0; i < 1000; i++) {
        char text[CRON_TEXT_MAX + 1];
        oracle_generate(&r, text, sizeof text);
        cleanup_with(buf_release) struct buf b;
        buf_init(&b, TEXT_MAX);
        cron_describe(str_from(text), &b);
        struct str s = buf_str(&b);
        bool starts = str_starts(s, S("At ")) || str_starts(s, S("Every "));
        bool clean = str_is_utf8(s) && !strstr(s.p, "  ") && !strstr(s.p, ",,") && !strstr(s.p, " ,");
        if (b.full || !starts || !clean || s.p[s.n - 1] == ' ')
            fail_msg("'%s' reads '%s'", text, s.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_day_read_as_a_clock),
        cmocka_unit_test(equal_distances_read_as_a_beat),
        cmocka_unit_test(uneven_times_read_field_by_field),
        cmocka_unit_test(hash_reads_as_the_choice_it_is),
        cmocka_unit_test(days_of_the_month_are_counted),
        cmocka_unit_test(weekdays_are_named_from_where_a_run_begins),
        cmocka_unit_test(two_day_fields_say_whether_one_or_both_must_match),
        cmocka_unit_test(description_goes_behind_what_is_there_and_stops_at_the_limit),
        cmocka_unit_test(every_random_expression_reads_as_one_clean_sentence),
    };
    return cmocka_run_group_tests_name("cron_describe", tests, NULL, NULL);
}

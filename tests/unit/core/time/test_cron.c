#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/prng.h"
#include "core/time/cron.h"
#include "cron_oracle.h"

static struct cron parse_for(const char *text, uint64_t hash)
{
    struct cron c;
    struct error e = { .code = ERR_OK };
    enum err rc = cron_parse(str_from(text), hash, &c, &e);
    if (rc)
        fail_msg("'%s': %s: %s", text, e.field, e.text);
    return c;
}

static struct cron parse(const char *text)
{
    return parse_for(text, 0);
}

/* "2026-02-28 08:00:00" as a civil second. */
static int64_t at(const char *text)
{
    struct civil c = { .second = 0 };
    int read =
        sscanf(text, "%d-%d-%d %d:%d:%d", &c.date.year, &c.date.month, &c.date.day, &c.hour, &c.minute, &c.second);
    assert_true(read == 3 || read == 5 || read == 6);
    return civil_second(c);
}

static void assert_at(const char *expression, int64_t second, const char *expected)
{
    struct civil c = civil_of(second);
    char got[64];
    snprintf(got, sizeof got, "%04d-%02d-%02d %02d:%02d:%02d", c.date.year, c.date.month, c.date.day, c.hour, c.minute,
             c.second);
    if (strcmp(got, expected) != 0)
        fail_msg("'%s' gives %s, not %s", expression, got, expected);
}

struct next_row {
    const char *expression, *from;
    const char *fires[4]; /* expected occurrences in order; ends with NULL */
};

static void check_next(const struct next_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct cron c = parse(rows[i].expression);
        int64_t from = at(rows[i].from);
        for (size_t k = 0; k < array_count(rows[i].fires) && rows[i].fires[k]; k++) {
            from = cron_next(&c, from);
            assert_at(rows[i].expression, from, rows[i].fires[k]);
            from++;
        }
    }
}

static void times_of_day_are_found_in_order(void **state)
{
    (void)state;
    static const struct next_row rows[] = {
        { "* * * * *", "2026-01-01 00:00:00", { "2026-01-01 00:00:00", "2026-01-01 00:01:00" } },
        { "* * * * *", "2026-01-01 00:00:01", { "2026-01-01 00:01:00", "2026-01-01 00:02:00" } },
        { "* * * * * *", "2026-12-31 23:59:59", { "2026-12-31 23:59:59", "2027-01-01 00:00:00" } },
        { "*/20 * * * *",
          "2026-01-01 23:30:00",
          { "2026-01-01 23:40:00", "2026-01-02 00:00:00", "2026-01-02 00:20:00" } },
        { "*/25 * * * *",
          "2026-01-01 00:01:00",
          { "2026-01-01 00:25:00", "2026-01-01 00:50:00", "2026-01-01 01:00:00" } },
        { "50/5 3 * * *",
          "2026-01-01 00:00:00",
          { "2026-01-01 03:50:00", "2026-01-01 03:55:00", "2026-01-02 03:50:00" } },
        { "10-30/10 3 * * *",
          "2026-01-01 03:11:00",
          { "2026-01-01 03:20:00", "2026-01-01 03:30:00", "2026-01-02 03:10:00" } },
        { "0 8,12 * * *", "2026-01-01 08:00:01", { "2026-01-01 12:00:00", "2026-01-02 08:00:00" } },
        { "30 59 23 * * *", "2026-01-01 23:59:31", { "2026-01-02 23:59:30" } },
        { "15,45 30 8 * * *", "2026-01-01 08:30:16", { "2026-01-01 08:30:45", "2026-01-02 08:30:15" } },
        { "*/60 * * * *", "2026-01-01 00:01:00", { "2026-01-01 01:00:00", "2026-01-01 02:00:00" } },
        { " \t0\t8  *  * *\t", "2026-01-01 08:00:01", { "2026-01-02 08:00:00" } },
        { "0 0 * * *", "1969-12-31 23:59:59", { "1970-01-01 00:00:00" } },
        { "0 0 * * *", "1582-10-04 12:00:00", { "1582-10-05 00:00:00" } },
    };
    check_next(rows, array_count(rows));
}

static void days_of_the_month_and_week_are_found(void **state)
{
    (void)state;
    static const struct next_row rows[] = {
        { "0 0 31 * *", "2026-01-31 00:00:01", { "2026-03-31 00:00:00", "2026-05-31 00:00:00" } },
        { "0 0 L * *", "2026-01-31 00:00:01", { "2026-02-28 00:00:00", "2026-03-31 00:00:00" } },
        { "0 0 L 2 *", "2027-03-01", { "2028-02-29 00:00:00", "2029-02-28 00:00:00" } },
        { "0 0 L-1 * *", "2026-02-01", { "2026-02-27 00:00:00", "2026-03-30 00:00:00" } },
        { "0 0 L-30 * *", "2026-01-02", { "2026-03-01 00:00:00", "2026-05-01 00:00:00" } },
        { "0 0 L-28 2 *", "2026-01-01", { "2028-02-01 00:00:00" } },
        { "0 0 1,15,L * *", "2026-02-02", { "2026-02-15 00:00:00", "2026-02-28 00:00:00", "2026-03-01 00:00:00" } },
        { "0 0 1W * *", "2026-08-01", { "2026-08-03 00:00:00" } },                         /* Saturday */
        { "0 0 1W * *", "2026-02-01", { "2026-02-02 00:00:00" } },                         /* Sunday */
        { "0 0 15W * *", "2026-08-01", { "2026-08-14 00:00:00" } },                        /* Saturday */
        { "0 0 15w * *", "2026-11-01", { "2026-11-16 00:00:00" } },                        /* Sunday */
        { "0 0 31W * *", "2026-05-01", { "2026-05-29 00:00:00", "2026-07-31 00:00:00" } }, /* Sunday */
        { "0 0 30W 4 *", "2028-01-01", { "2028-04-28 00:00:00" } },                        /* Sunday, the last */
        { "0 0 29W 2 *", "2026-01-01", { "2028-02-29 00:00:00", "2032-02-27 00:00:00" } }, /* Sunday */
        { "0 0 LW * *", "2026-05-01", { "2026-05-29 00:00:00", "2026-06-30 00:00:00" } },
        { "0 0 lw 10 *", "2026-01-01", { "2026-10-30 00:00:00" } }, /* ends on a Saturday */
        { "0 0 * * MON#2", "2026-06-01", { "2026-06-08 00:00:00", "2026-07-13 00:00:00" } },
        { "0 0 * * 1#5", "2026-06-01", { "2026-06-29 00:00:00", "2026-08-31 00:00:00" } },
        { "0 0 * * FRIL", "2026-06-01", { "2026-06-26 00:00:00", "2026-07-31 00:00:00" } },
        { "0 0 ? * fridayl", "2026-06-01", { "2026-06-26 00:00:00", "2026-07-31 00:00:00" } },
        { "0 0 * * 7L,0#1", "2026-06-01", { "2026-06-07 00:00:00", "2026-06-28 00:00:00", "2026-07-05 00:00:00" } },
        { "0 0 * * SAT-SUN", "2026-06-01", { "2026-06-06 00:00:00", "2026-06-07 00:00:00", "2026-06-13 00:00:00" } },
        { "0 0 * * 5-7", "2026-06-01", { "2026-06-05 00:00:00", "2026-06-06 00:00:00", "2026-06-07 00:00:00" } },
        { "0 0 * * SUN-SUN", "2026-06-01", { "2026-06-07 00:00:00", "2026-06-14 00:00:00" } },
        { "0 0 * * 7", "2026-06-01", { "2026-06-07 00:00:00", "2026-06-14 00:00:00" } },
        { "0 0 * * 7/3", "2026-06-01", { "2026-06-03 00:00:00", "2026-06-06 00:00:00", "2026-06-07 00:00:00" } },
        { "0 0 * * MON/2",
          "2026-06-01",
          { "2026-06-01 00:00:00", "2026-06-03 00:00:00", "2026-06-05 00:00:00", "2026-06-08 00:00:00" } },
        { "0 0 * * 1-7/3", "2026-06-01", { "2026-06-01 00:00:00", "2026-06-04 00:00:00", "2026-06-07 00:00:00" } },
        { "0 0 1 jan-MAR,Dec *",
          "2026-02-02",
          { "2026-03-01 00:00:00", "2026-12-01 00:00:00", "2027-01-01 00:00:00" } },
        { "0 0 1 APRIL/3 *",
          "2026-01-01",
          { "2026-04-01 00:00:00", "2026-07-01 00:00:00", "2026-10-01 00:00:00", "2027-04-01 00:00:00" } },
        { "0 0 */10 * ?", "2026-01-30", { "2026-01-31 00:00:00", "2026-02-01 00:00:00", "2026-02-11 00:00:00" } },
    };
    check_next(rows, array_count(rows));
}

static void friday_the_13th_is_either_unless_a_star_begins_a_field(void **state)
{
    (void)state;
    static const struct next_row rows[] = {
        { "0 0 13 * FRI",
          "2026-11-10",
          { "2026-11-13 00:00:00", "2026-11-20 00:00:00", "2026-11-27 00:00:00", "2026-12-04 00:00:00" } },
        { "0 0 13 * 5", "2026-12-08", { "2026-12-11 00:00:00", "2026-12-13 00:00:00", "2026-12-18 00:00:00" } },
        { "0 0 13 * */5", "2026-11-14", { "2026-12-13 00:00:00", "2027-06-13 00:00:00", "2027-08-13 00:00:00" } },
        { "0 0 */12 * 5", "2026-02-01", { "2026-02-13 00:00:00", "2026-03-13 00:00:00", "2026-05-01 00:00:00" } },
        { "0 0 ? * FRI", "2026-11-10", { "2026-11-13 00:00:00", "2026-11-20 00:00:00" } },
        { "0 0 13 * ?", "2026-11-10", { "2026-11-13 00:00:00", "2026-12-13 00:00:00" } },
        { "0 0 13 * 0-6", "2026-11-10", { "2026-11-10 00:00:00", "2026-11-11 00:00:00" } },
        { "0 0 30 2 MON", "2026-01-01", { "2026-02-02 00:00:00", "2026-02-09 00:00:00" } },
        { "0 0 ? * ?", "2026-01-01", { "2026-01-01 00:00:00", "2026-01-02 00:00:00" } },
    };
    check_next(rows, array_count(rows));
}

static void leap_days_skip_the_centuries_that_have_none(void **state)
{
    (void)state;
    static const struct next_row rows[] = {
        { "0 0 29 2 *", "2026-01-01", { "2028-02-29 00:00:00", "2032-02-29 00:00:00" } },
        { "0 0 29 2 *", "2096-03-01", { "2104-02-29 00:00:00" } },
        { "0 0 29 2 *", "1999-01-01", { "2000-02-29 00:00:00" } },
        { "0 0 29 2 *", "2396-03-01", { "2400-02-29 00:00:00" } },
        { "0 0 */28 2 1#5", "2026-01-01", { "2044-02-29 00:00:00", "2072-02-29 00:00:00", "2112-02-29 00:00:00" } },
    };
    check_next(rows, array_count(rows));
}

static void macros_are_what_they_stand_for(void **state)
{
    (void)state;
    static const struct {
        const char *macro, *expression;
    } rows[] = {
        { "@yearly", "0 0 1 1 *" }, { "@Annually", "0 0 1 1 *" }, { "@monthly", "0 0 1 * *" },
        { "@WEEKLY", "0 0 * * 0" }, { " @daily ", "0 0 * * *" },  { "@midnight", "0 0 * * *" },
        { "@hourly", "0 * * * *" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct cron a = parse(rows[i].macro), b = parse(rows[i].expression);
        assert_true(a.seconds == b.seconds && a.minutes == b.minutes && a.hours == b.hours && a.months == b.months);
        assert_memory_equal(a.days, b.days, sizeof a.days);
        assert_int_equal(a.follows_clock, b.follows_clock);
    }
}

static void only_stars_ranges_and_steps_in_the_time_follow_the_clock(void **state)
{
    (void)state;
    static const struct {
        const char *expression;
        bool follows, hashed;
    } rows[] = {
        { "0 8 * * *", false, false },       { "30 2 */2 1-6 2-5", false, false }, { "0,30 8,9 * * *", false, false },
        { "5 0 8 * * *", false, false },     { "* 8 * * *", true, false },         { "0 * * * *", true, false },
        { "0 8-9 * * *", true, false },      { "8-8 8 * * *", true, false },       { "*/60 8 * * *", true, false },
        { "5/30 8 * * *", true, false },     { "* 0 8 * * *", true, false },       { "0,30-40 0 8 * * *", true, false },
        { "H H * * *", false, true },        { "H(0-9) 8 * * *", false, true },    { "H/20 8 * * *", true, true },
        { "H(0-29)/9 8 * * *", true, true }, { "0 0 H * *", false, true },         { "0 0 * H H/2", false, true },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct cron c = parse(rows[i].expression);
        if (c.follows_clock != rows[i].follows || c.uses_hash != rows[i].hashed)
            fail_msg("'%s' follows %d, hashed %d", rows[i].expression, c.follows_clock, c.uses_hash);
    }
    assert_false(parse("* * * * *").has_seconds);
    assert_true(parse("0 * * * * *").has_seconds);
}

static void hash_chooses_within_its_range_and_fills_it(void **state)
{
    (void)state;
    static const struct {
        const char *expression;
        int min, max; /* of the field that has the H */
        size_t offset, size;
    } rows[] = {
        { "H 0 0 * * *", 0, 59, offsetof(struct cron, seconds), 8 },
        { "H * * * *", 0, 59, offsetof(struct cron, minutes), 8 },
        { "H(10-19) * * * *", 10, 19, offsetof(struct cron, minutes), 8 },
        { "0 H * * *", 0, 23, offsetof(struct cron, hours), 4 },
        { "0 h(7-7) * * *", 7, 7, offsetof(struct cron, hours), 4 },
        { "0 0 1 H *", 1, 12, offsetof(struct cron, months), 2 },
        { "0 0 1 H(JUN-AUG) *", 6, 8, offsetof(struct cron, months), 2 },
        { "0 0 H * *", 1, 28, offsetof(struct cron, days), 4 },
        { "0 0 H(5-7) * *", 5, 7, offsetof(struct cron, days), 4 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        uint64_t seen = 0;
        for (uint64_t hash = 0; hash < 1000; hash++) {
            struct cron c = parse_for(rows[i].expression, hash);
            uint64_t set = 0;
            memcpy(&set, (const char *)&c + rows[i].offset, rows[i].size);
            assert_int_equal(__builtin_popcountll(set), 1);
            seen |= set;
        }
        assert_int_equal(__builtin_ctzll(seen), rows[i].min);
        assert_int_equal(__builtin_popcountll(seen), rows[i].max - rows[i].min + 1);
        assert_int_equal(63 - __builtin_clzll(seen), rows[i].max);
    }
}

static void hashed_weekday_is_one_of_seven(void **state)
{
    (void)state;
    unsigned seen = 0;
    for (uint64_t hash = 0; hash < 200; hash++) {
        struct cron c = parse_for("0 0 * * H", hash), f = parse_for("0 0 * * H(FRI-SUN)", hash);
        seen |= 1u << weekday_of(cron_next_day(&c, 0));
        int w = weekday_of(cron_next_day(&f, 0));
        assert_true(w == 5 || w == 6 || w == 0);
    }
    assert_int_equal(seen, 0x7F);
}

static void hashed_steps_keep_their_distance_and_start_anywhere(void **state)
{
    (void)state;
    uint64_t starts = 0;
    for (uint64_t hash = 0; hash < 300; hash++) {
        struct cron c = parse_for("H/15 H(10-20)/4 * * *", hash);
        int first = __builtin_ctzll(c.minutes);
        assert_true(first < 15);
        assert_true(c.minutes == (1ULL | 1ULL << 15 | 1ULL << 30 | 1ULL << 45) << first);
        starts |= 1ULL << first;
        int hour = __builtin_ctz(c.hours);
        assert_true(hour >= 10 && hour < 14);
        assert_true(c.hours >> 21 == 0);
        assert_true(c.hours >> (hour + 4) & 1);
        struct cron d = parse_for("0 0 H/30 2 *", hash); /* always a day that February has */
        assert_true(cron_next(&d, 0) != INT64_MAX);
        struct cron narrow = parse_for("H(3-5)/50 * * * *", hash);
        assert_true(narrow.minutes == 8 || narrow.minutes == 16 || narrow.minutes == 32);
    }
    assert_int_equal(starts, 0x7FFF);
}

static void hash_is_the_same_for_ever_and_each_field_has_its_own(void **state)
{
    (void)state;
    struct cron c = parse_for("H H H H H *", 0x0123456789abcdef), w = parse_for("0 0 * * H", 0x0123456789abcdef);
    assert_at("H", cron_next(&c, at("2026-01-01")), "2026-03-03 15:14:06");
    assert_at("H", cron_next(&w, at("2026-01-01")), "2026-01-04 00:00:00");
    bool pairs[60][60] = { { false } };
    int distinct = 0;
    for (uint64_t hash = 0; hash < 600; hash++) {
        c = parse_for("H H * * * *", hash * 0x9e3779b97f4a7c15);
        bool *pair = &pairs[__builtin_ctzll(c.seconds)][__builtin_ctzll(c.minutes)];
        distinct += !*pair;
        *pair = true;
    }
    assert_true(distinct > 500); /* 552 are expected of independent draws, 60 of equal ones */
}

struct error_row {
    const char *expression, *field, *says;
};

static void check_errors(const struct error_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct cron c = { .seconds = 77 };
        struct error e = { .code = ERR_OK };
        if (cron_parse(str_from(rows[i].expression), 0, &c, &e) != ERR_INVALID)
            fail_msg("'%s' was accepted", rows[i].expression);
        if (strcmp(e.field, rows[i].field) != 0 || !strstr(e.text, rows[i].says))
            fail_msg("'%s' gives '%s: %s', not '%s: %s'", rows[i].expression, e.field, e.text, rows[i].field,
                     rows[i].says);
        assert_int_equal(c.seconds, 77);
        assert_int_equal(cron_parse(str_from(rows[i].expression), 0, &c, NULL), ERR_INVALID);
    }
}

static void errors_in_the_whole_say_what_is_expected(void **state)
{
    (void)state;
    static const struct error_row rows[] = {
        { "", "expression", "is empty" },
        { " \t ", "expression", "is empty" },
        { "*", "expression", "has 1 field; expected 5 (minute hour" },
        { "* * * *", "expression", "has 4 fields; expected 5" },
        { "0 0 12 * * ? 2030", "expression", "has 7 fields; a year field is not supported" },
        { "* * * * * * * *", "expression", "has 8 fields; expected 5" },
        { "@reboot", "expression", "@reboot is not supported; run 'belfry add' from a start script" },
        { "@every 5m", "expression", "use an interval" },
        { "@EVERY", "expression", "use an interval" },
        { "@dayly", "expression", "did you mean @daily?" },
        { "@fortnightly", "expression", "there are @yearly, @monthly, @weekly, @daily" },
        { "@", "expression", "not known" },
        { "@daily 5", "expression", "nothing may follow @daily" },
        { "TZ=Europe/Berlin 0 8 * * * *", "expression", "a time zone is given apart" },
        { "CRON_TZ=UTC 0 8 * * *", "expression", "a time zone is given apart" },
    };
    check_errors(rows, array_count(rows));
}

static void errors_name_the_field_the_character_and_its_place(void **state)
{
    (void)state;
    static const struct error_row rows[] = {
        { "60 * * * *", "minute", "60 is not between 0 and 59, at position 1" },
        { "* 24 * * *", "hour", "24 is not between 0 and 23, at position 3" },
        { "60 * * * * *", "second", "60 is not between 0 and 59" },
        { "0 0 0 * *", "day of month", "0 is not between 1 and 31, at position 5" },
        { "0 0 32 * *", "day of month", "32 is not between 1 and 31" },
        { "0 0 1 0 *", "month", "0 is not between 1 and 12" },
        { "0 0 1 13 *", "month", "13 is not between 1 and 12" },
        { "0 0 * * 8", "day of week", "8 is not between 0 and 7, at position 9" },
        { "5,61 * * * *", "minute", "61 is not between 0 and 59, at position 3" },
        { "0-60 * * * *", "minute", "60 is not between 0 and 59" },
        { "99999999999999999999 * * * *", "minute", "999999999... is not between 0 and 59" },
        { "x * * * *", "minute", "'x' at position 1 is not a number" },
        { "0 0 * * * x", "day of week", "'x' at position 11 is not a day of week; write SUN to SAT or 0 to 6" },
        { "*x * * * *", "minute", "unexpected 'x' at position 2" },
        { "5x * * * *", "minute", "unexpected 'x' at position 2" },
        { "1.5 * * * *", "minute", "unexpected '.' at position 2" },
        { "* -1 * * *", "hour", "unexpected '-' at position 3" },
        { "+1 * * * *", "minute", "unexpected '+' at position 1" },
        { "1;2 * * * *", "minute", "unexpected ';' at position 2" },
        { "* * * * \x07", "day of week", "unexpected byte 0x07 at position 9" },
        { "1\n * * * *", "minute", "unexpected byte 0x0A at position 2" },
        { "0 9\xe2\x80\x93"
          "17 * * *",
          "hour", "unexpected byte 0xE2 at position 4; only plain ASCII is understood" },
        { "*** * * * *", "minute", "unexpected '*' at position 2" },
        { "*-5 * * * *", "minute", "unexpected '-' at position 2" },
        { ", * * * *", "minute", "unexpected ',' at position 1" },
        { "1,,2 * * * *", "minute", "unexpected ',' at position 3" },
        { "1, * * * *", "minute", "a value is missing after ',' at position 2" },
        { "1- * * * *", "minute", "a value is missing after '-' at position 2" },
        { "1-2-3 * * * *", "minute", "unexpected '-' at position 4" },
        { "1-x * * * *", "minute", "'x' at position 3 is not a number" },
        { "*/ * * * *", "minute", "a step is missing after '/' at position 2" },
        { "*/0 * * * *", "minute", "step 0 at position 3 would never move on" },
        { "*/00 * * * *", "minute", "step 0 at position 3" },
        { "*/90 * * * *", "minute", "90 is not between 1 and 60, at position 3; for longer periods use an interval" },
        { "0 1-5/25 * * *", "hour", "25 is not between 1 and 24" },
        { "5/x * * * *", "minute", "unexpected 'x' at position 3" },
        { "*/5/5 * * * *", "minute", "unexpected '/' at position 4" },
        { "/5 * * * *", "minute", "unexpected '/' at position 1; a step follows *" },
    };
    check_errors(rows, array_count(rows));
}

static void errors_carry_the_remedy(void **state)
{
    (void)state;
    static const struct error_row rows[] = {
        { "0 0 * * 5-1", "day of week", "range 5-1 runs backwards; write 5-7,1" },
        { "0 0 * * 5-2", "day of week", "range 5-2 runs backwards; write 5-7,1-2" },
        { "0 0 * * 5-0", "day of week", "range 5-0 runs backwards; write 5-7" },
        { "0 0 * * 7-2", "day of week", "range 7-2 runs backwards; write 0-2" },
        { "0 0 * * FRI-MON", "day of week", "range FRI-MON runs backwards; write FRI-SUN,MON" },
        { "0 0 * * friday-1", "day of week", "range FRI-1 runs backwards; write FRI-SUN,MON" },
        { "0 22-6 * * *", "hour", "range 22-6 runs backwards; write 22-23,0-6" },
        { "59-0 * * * *", "minute", "range 59-0 runs backwards; write 59,0" },
        { "0 0 25-5 * *", "day of month", "range 25-5 runs backwards; write 25-31,1-5" },
        { "0 0 1 NOV-FEB *", "month", "range NOV-FEB runs backwards; write NOV-DEC,JAN-FEB" },
        { "H(9-3) * * * *", "minute", "range 9-3 runs backwards; H needs a range that does not, such as H(3-9)" },
        { "0 0 * * L", "day of week", "write SATL or 6L for the last Saturday, 6 for Saturday" },
        { "0 0 * * 1,l", "day of week", "'L' at position 11 lacks its day" },
        { "0 0 * * TUES", "day of week", "'TUES' at position 9 is not a day of week; did you mean TUE?" },
        { "0 0 * * MONDY", "day of week", "did you mean MON?" },
        { "0 0 1 SEPT *", "month", "did you mean SEP?" },
        { "0 0 1 MON *", "month", "'MON' at position 7 is not a month" },
        { "0 0 1 XYZ *", "month", "write JAN to DEC or 1 to 12" },
        { "MON * * * *", "minute", "'MON' at position 1 is not a number" },
        { "L * * * *", "minute", "L is the last day of the month or, behind a day of the week, its last: FRIL" },
        { "0 5L * * *", "hour", "unexpected 'L' at position 4; L is the last day of the month" },
        { "0 0 5L * *", "day of month", "unexpected 'L' at position 6" },
        { "0 0 * * 5W", "day of week", "unexpected 'W' at position 10; W follows a day of the month, or L: 15W, LW" },
        { "0 0 * * LW", "day of week", "'LW' at position 9 is not a day of week" },
        { "0 0 W * *", "day of month",
          "'W' at position 5 is not a number; W follows a day of the month, or L: 15W, LW" },
        { "0 0 1#2 * *", "day of month", "unexpected '#' at position 6; # follows a day of the week: MON#2" },
        { "? * * * *", "minute", "unexpected '?' at position 1; ? stands alone" },
        { "0 0 ?,1 * *", "day of month", "unexpected '?' at position 5; ? stands alone" },
        { "0 0 1,? * *", "day of month", "unexpected '?' at position 7; ? stands alone" },
        { "0 0 1 ? *", "month", "unexpected '?' at position 7" },
        { "0 0 ?/2 * *", "day of month", "unexpected '?' at position 5" },
        { "0 0 L-0 * *", "day of month", "0 is not between 1 and 30" },
        { "0 0 L-31 * *", "day of month", "31 is not between 1 and 30" },
        { "0 0 L- * *", "day of month", "a value is missing after '-' at position 6" },
        { "0 0 L-3W * *", "day of month", "unexpected 'W' at position 8" },
        { "0 0 L/2 * *", "day of month", "unexpected '/' at position 6" },
        { "0 0 32W * *", "day of month", "32 is not between 1 and 31" },
        { "0 0 1-5W * *", "day of month", "unexpected 'W' at position 8" },
        { "0 0 * * 1#0", "day of week", "0 is not between 1 and 5" },
        { "0 0 * * MON#6", "day of week", "6 is not between 1 and 5, at position 13" },
        { "0 0 * * MON#", "day of week", "a value is missing after '#' at position 12" },
        { "0 0 * * MON#2-3", "day of week", "unexpected '-' at position 14" },
        { "H( * * * *", "minute", "a value is missing after '(' at position 2" },
        { "H(5 * * * *", "minute", "the range's end is missing after '5' at position 3" },
        { "H(5) * * * *", "minute", "unexpected ')' at position 4" },
        { "H(5-9 * * * *", "minute", "')' is missing after '9' at position 5" },
        { "H(5-99) * * * *", "minute", "99 is not between 0 and 59" },
        { "H/0 * * * *", "minute", "step 0 at position 3" },
        { "H5 * * * *", "minute", "unexpected '5' at position 2" },
        { "0 0 H(20-31) * *", "day of month", "H cannot choose day 31, which some months lack; end its range at 28" },
    };
    check_errors(rows, array_count(rows));
}

static void dates_that_never_come_are_refused(void **state)
{
    (void)state;
    static const struct error_row rows[] = {
        { "0 0 30 2 *", "day of month", "February never has 30 days" },
        { "0 0 31 FEB ?", "day of month", "February never has 31 days" },
        { "0 0 31 11 *", "day of month", "November never has 31 days" },
        { "0 0 31 4,6,9,11 *", "day of month", "no date ever matches" },
        { "0 0 30-31 2 *", "day of month", "no date ever matches" },
        { "0 0 30W 2 *", "day of month", "no date ever matches" },
        { "0 0 L-29 2 *", "day of month", "no date ever matches" },
        { "0 0 */30 * MON#2", "day of month", "no date ever matches" },
        { "0 0 30 H *", "day of month", "some months that H may choose never have such a day" },
        { "0 0 31 H/12 *", "day of month", "some months that H may choose" },
    };
    check_errors(rows, array_count(rows));
    parse("0 0 30 H(3-8) *");
    parse("0 0 31 H,1 *");
    parse("0 0 31 4,6,7 *");
    parse("0 0 L-28 2 *");
}

static void length_is_limited(void **state)
{
    (void)state;
    char text[CRON_TEXT_MAX + 2];
    struct cron c;
    struct error e;
    memset(text, ' ', sizeof text);
    memcpy(text, "0 8 * * *", 9);
    assert_int_equal(cron_parse((struct str){ text, CRON_TEXT_MAX }, 0, &c, &e), ERR_OK);
    assert_int_equal(cron_parse((struct str){ text, CRON_TEXT_MAX + 1 }, 0, &c, &e), ERR_INVALID);
    assert_string_equal(e.field, "expression");
    assert_says(&e, "is 257 characters long; at most 256 are allowed");
    for (size_t i = 0; i < CRON_TEXT_MAX - 8; i++)
        text[i] = i % 2 ? ',' : '1'; /* the largest possible number of members */
    text[CRON_TEXT_MAX - 9] = '1';
    memcpy(text + CRON_TEXT_MAX - 8, " * * * *", 8);
    assert_int_equal(cron_parse((struct str){ text, CRON_TEXT_MAX }, 0, &c, &e), ERR_OK);
    assert_int_equal(c.minutes, 1 << 1 | 1ULL << 11);
    assert_int_equal(cron_parse((struct str){ "0 \0 * * *", 9 }, 0, &c, &e), ERR_INVALID);
    assert_says(&e, "unexpected byte 0x00 at position 3");
}

static void search_is_bounded_on_both_sides(void **state)
{
    (void)state;
    struct cron c = parse("0 0 1 1 *");
    assert_at("last", cron_next(&c, at("2498-06-01")), "2499-01-01 00:00:00");
    assert_true(cron_next(&c, at("2499-01-01 00:00:01")) == INT64_MAX);
    assert_true(cron_next(&c, at("2500-01-01")) == INT64_MAX);
    assert_true(cron_next(&c, INT64_MAX) == INT64_MAX);
    assert_true(cron_next_day(&c, INT64_MAX) == INT64_MAX);
    assert_at("first", cron_next(&c, INT64_MIN), "0000-01-01 00:00:00");
    assert_false(cron_matches_day(&c, INT64_MAX));
    assert_false(cron_matches_day(&c, INT64_MIN));
    c = parse("* * * * * *");
    assert_at("last second", cron_next(&c, at("2499-12-31 23:59:59")), "2499-12-31 23:59:59");
}

static void day_and_time_are_answered_apart(void **state)
{
    (void)state;
    struct cron c = parse("5,10 30 8,20 29 2 *");
    assert_true(cron_matches_day(&c, day_number((struct date){ 2028, 2, 29 })));
    assert_false(cron_matches_day(&c, day_number((struct date){ 2028, 2, 28 })));
    assert_false(cron_matches_day(&c, day_number((struct date){ 2027, 3, 1 })));
    assert_int_equal(cron_next_day(&c, day_number((struct date){ 2028, 2, 29 })),
                     day_number((struct date){ 2028, 2, 29 }));
    static const struct {
        int from, next;
    } rows[] = {
        { 0, 8 * HOUR_S + 1805 },
        { 8 * HOUR_S, 8 * HOUR_S + 1805 },
        { 8 * HOUR_S + 1805, 8 * HOUR_S + 1805 },
        { 8 * HOUR_S + 1806, 8 * HOUR_S + 1810 },
        { 8 * HOUR_S + 1811, 20 * HOUR_S + 1805 },
        { 8 * HOUR_S + 1860, 20 * HOUR_S + 1805 },
        { 9 * HOUR_S, 20 * HOUR_S + 1805 },
        { 20 * HOUR_S + 1811, -1 },
        { 21 * HOUR_S, -1 },
        { DAY_S - 1, -1 },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        assert_int_equal(cron_next_in_day(&c, rows[i].from), rows[i].next);
}

static void seconds_of_a_day_are_counted_as_if_one_by_one(void **state)
{
    (void)state;
    static const char *const texts[] = { "* * * * * *",        "5,10 30 8,20 * * *",    "0 0 * * *", "59 59 23 * * *",
                                         "*/7 */13 1-3 * * *", "0-30/3 5,59 */5 * * *", "30 2 * * *" };
    for (size_t k = 0; k < array_count(texts); k++) {
        struct cron c = parse(texts[k]);
        int wanted = 0, last = -1, found_last = -1;
        for (int s = DAY_S - 1; s >= 0; s--) {
            if (cron_next_in_day(&c, s) == s) {
                wanted++;
                last = max_of(last, s);
            }
            assert_int_equal(cron_count_in_day(&c, s, &found_last), wanted);
            assert_int_equal(found_last, last);
        }
    }
}

/* The seed of the random tests: BELFRY_SEED if it is set, else always the same. */
static uint64_t seed(void)
{
    const char *text = getenv("BELFRY_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 20260214;
    print_message("# seed %llu\n", (unsigned long long)seed);
    return seed;
}

enum { HORIZON_DAYS = 500, OFTEN = 400 };

/* Compares one search with the oracle's, up to the horizon. */
static void compare_next(const char *text, const struct cron *c, const struct oracle *o, int64_t from)
{
    int64_t expected = oracle_next(o, from, HORIZON_DAYS), got = cron_next(c, from);
    if (expected >= 0 ? got != expected : got < (day_of_second(from) + HORIZON_DAYS) * DAY_S)
        fail_msg("'%s' from %lld gives %lld, not %lld", text, (long long)from, (long long)got, (long long)expected);
}

/* Whether no day matches in the 28 years in which every kind of year occurs. */
static bool oracle_finds_none(const struct oracle *o)
{
    for (int64_t day = 0; day < 28 * 366; day++)
        if (oracle_day(o, day))
            return false;
    return true;
}

static void random_expressions_agree_with_a_naive_matcher(void **state)
{
    (void)state;
    struct prng r;
    prng_init(&r, seed());
    int refused = 0;
    for (int i = 0; i < OFTEN; i++) {
        char text[CRON_TEXT_MAX + 1];
        uint64_t hash = prng_u64(&r);
        oracle_generate(&r, text, sizeof text);
        struct oracle o = oracle_of(text, hash);
        struct cron c;
        struct error e;
        if (cron_parse(str_from(text), hash, &c, &e)) {
            if (strcmp(e.field, "day of month") != 0 || (!strchr(text, 'H') && !oracle_finds_none(&o)))
                fail_msg("'%s' refused: %s: %s", text, e.field, e.text);
            refused++;
            continue;
        }
        for (int k = 0; k < 4; k++)
            compare_next(text, &c, &o, prng_between(&r, 0, 7258118400)); /* up to the year 2200 */
    }
    assert_true(refused < OFTEN / 10);
}

static void every_fire_of_two_days_agrees_with_a_naive_matcher(void **state)
{
    (void)state;
    struct prng r;
    prng_init(&r, seed() + 1);
    for (int i = 0; i < 60; i++) {
        char text[CRON_TEXT_MAX + 1];
        oracle_generate(&r, text, sizeof text);
        struct oracle o = oracle_of(text, 7);
        struct cron c;
        if (cron_parse(str_from(text), 7, &c, NULL))
            continue;
        int64_t day = prng_between(&r, 0, 80000);
        while (!oracle_day(&o, day) && day < 90000)
            day++;
        int64_t next = cron_next(&c, day * DAY_S);
        for (int64_t s = day * DAY_S; s < (day + 2) * DAY_S; s++) {
            if (s % DAY_S == 0 && !oracle_day(&o, s / DAY_S)) {
                s += DAY_S - 1;
                continue;
            }
            if (oracle_second(&o, s) != (s == next))
                fail_msg("'%s' at %lld: next is %lld", text, (long long)s, (long long)next);
            if (s == next)
                next = cron_next(&c, s + 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_day_are_found_in_order),
        cmocka_unit_test(days_of_the_month_and_week_are_found),
        cmocka_unit_test(friday_the_13th_is_either_unless_a_star_begins_a_field),
        cmocka_unit_test(leap_days_skip_the_centuries_that_have_none),
        cmocka_unit_test(macros_are_what_they_stand_for),
        cmocka_unit_test(only_stars_ranges_and_steps_in_the_time_follow_the_clock),
        cmocka_unit_test(hash_chooses_within_its_range_and_fills_it),
        cmocka_unit_test(hashed_weekday_is_one_of_seven),
        cmocka_unit_test(hashed_steps_keep_their_distance_and_start_anywhere),
        cmocka_unit_test(hash_is_the_same_for_ever_and_each_field_has_its_own),
        cmocka_unit_test(errors_in_the_whole_say_what_is_expected),
        cmocka_unit_test(errors_name_the_field_the_character_and_its_place),
        cmocka_unit_test(errors_carry_the_remedy),
        cmocka_unit_test(dates_that_never_come_are_refused),
        cmocka_unit_test(length_is_limited),
        cmocka_unit_test(search_is_bounded_on_both_sides),
        cmocka_unit_test(day_and_time_are_answered_apart),
        cmocka_unit_test(seconds_of_a_day_are_counted_as_if_one_by_one),
        cmocka_unit_test(random_expressions_agree_with_a_naive_matcher),
        cmocka_unit_test(every_fire_of_two_days_agrees_with_a_naive_matcher),
    };
    return cmocka_run_group_tests_name("cron", tests, NULL, NULL);
}

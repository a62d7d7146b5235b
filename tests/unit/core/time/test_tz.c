/* The zones are written out here and not taken from this machine's tzdata, because future rules may change.
 * tests/e2e/schedules/test_zoneinfo.py checks that the system's own files are read correctly. */
#include "check.h"

#include <stdio.h>

#include "base/date.h"
#include "base/prng.h"
#include "core/time/tz.h"
#include "tzif.h"

static enum err parse(const struct tzif *t, struct tz **ret, struct error *e)
{
    struct buf b;
    buf_init(&b, 4 << 20);
    tzif_write(&b, t);
    assert_false(b.full);
    enum err rc = tz_parse(S("Test/Zone"), buf_str(&b), ret, e);
    buf_release(&b);
    return rc;
}

static struct tz *zone_of(const struct tzif *t)
{
    struct tz *z = NULL;
    struct error e = { 0 };
    assert_ok(parse(t, &z, &e), &e);
    return z;
}

/* A zone that has a rule only. */
static struct tz *zone_of_rule(const char *footer)
{
    static const struct tzif_type types[] = { { 0 } };
    return zone_of(
        &(struct tzif){ .version = '3', .types = types, .type_count = 1, .chars = S("LMT\0"), .footer = footer });
}

/* ---- tables of clock changes ---- */

struct change {
    const char *zone;
    struct civil at; /* UTC */
    int32_t before_s, after_s;
    bool dst;
    const char *abbreviation;
};

static void check_local(const struct change *c, const struct tz *z, int64_t local, int kind, int64_t first,
                        int64_t last)
{
    struct tz_instants i = tz_instants_of(z, local);
    if ((int)i.kind != kind || i.first != first || i.last != last)
        fail_msg("%s %d-%02d-%02d: local %lld is kind %d, %lld to %lld; not %d, %lld to %lld", c->zone, c->at.date.year,
                 c->at.date.month, c->at.date.day, (long long)local, i.kind, (long long)i.first, (long long)i.last,
                 kind, (long long)first, (long long)last);
}

/* Checks both sides of a change, in instants and in wall-clock times. */
static void check_change(const struct change *c, const struct tz *z)
{
    int64_t at = civil_second(c->at);
    int32_t jump = c->after_s - c->before_s;
    struct tz_span s = tz_span_at(z, at), before = tz_span_at(z, at - 1);
    if (s.from != at || before.until != at)
        fail_msg("%s does not change on %d-%02d-%02d", c->zone, c->at.date.year, c->at.date.month, c->at.date.day);
    assert_int_equal(s.offset_s, c->after_s);
    assert_int_equal(s.offset_before_s, c->before_s);
    assert_int_equal(before.offset_s, c->before_s);
    assert_int_equal(s.dst, c->dst);
    assert_string_equal(s.abbreviation, c->abbreviation);
    assert_int_equal(tz_local(z, at - 1), at - 1 + c->before_s);
    assert_int_equal(tz_local(z, at), at + c->after_s);
    if (jump > 0) {
        check_local(c, z, at + c->before_s - 1, TZ_UNIQUE, at - 1, at - 1);
        check_local(c, z, at + c->before_s, TZ_GAP, at, at);
        check_local(c, z, at + c->after_s - 1, TZ_GAP, at, at);
        check_local(c, z, at + c->after_s, TZ_UNIQUE, at, at);
    } else {
        check_local(c, z, at + c->after_s - 1, TZ_UNIQUE, at + jump - 1, at + jump - 1);
        check_local(c, z, at + c->before_s, TZ_UNIQUE, at - jump, at - jump);
    }
    if (jump < 0) {
        check_local(c, z, at + c->after_s, TZ_REPEAT, at + jump, at);
        check_local(c, z, at + c->before_s - 1, TZ_REPEAT, at - 1, at - jump - 1);
    }
}

static void check_changes(const char *name, struct tz *z, const struct change *rows, size_t count)
{
    size_t checked = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].zone, name) == 0) {
            check_change(&rows[i], z);
            checked++;
        }
    assert_true(checked > 0);
    tz_unref(z);
}

static void clocks_change_where_the_rule_says(void **state)
{
    (void)state;
    static const struct {
        const char *zone, *footer;
    } zones[] = {
        { "Europe/Berlin", "\nCET-1CEST,M3.5.0,M10.5.0/3\n" },
        { "America/New_York", "\nEST5EDT,M3.2.0,M11.1.0\n" },
        { "Australia/Lord_Howe", "\n<+1030>-10:30<+11>-11,M10.1.0,M4.1.0\n" },
        { "Africa/Cairo", "\nEET-2EEST,M4.5.5/0,M10.5.4/24\n" },
        { "America/Santiago", "\n<-04>4<-03>,M9.1.6/24,M4.1.6/24\n" },
        { "Pacific/Chatham", "\n<+1245>-12:45<+1345>,M9.5.0/2:45,M4.1.0/3:45\n" },
        { "Antarctica/Troll", "\n<+00>0<+02>-2,M3.5.0/1,M10.5.0/3\n" },
        { "Europe/Dublin", "\nIST-1GMT0,M10.5.0,M3.5.0/1\n" },
    };
    static const struct change rows[] = {
        { "Europe/Berlin", { { 2026, 3, 29 }, 1, 0, 0 }, 3600, 7200, true, "CEST" },
        { "Europe/Berlin", { { 2026, 10, 25 }, 1, 0, 0 }, 7200, 3600, false, "CET" },
        { "Europe/Berlin", { { 2090, 3, 26 }, 1, 0, 0 }, 3600, 7200, true, "CEST" },
        { "Europe/Berlin", { { 2090, 10, 29 }, 1, 0, 0 }, 7200, 3600, false, "CET" },
        { "America/New_York", { { 2026, 3, 8 }, 7, 0, 0 }, -18000, -14400, true, "EDT" },
        { "America/New_York", { { 2026, 11, 1 }, 6, 0, 0 }, -14400, -18000, false, "EST" },
        { "America/New_York", { { 2090, 3, 12 }, 7, 0, 0 }, -18000, -14400, true, "EDT" },
        { "America/New_York", { { 2090, 11, 5 }, 6, 0, 0 }, -14400, -18000, false, "EST" },
        { "Australia/Lord_Howe", { { 2026, 4, 4 }, 15, 0, 0 }, 39600, 37800, false, "+1030" },
        { "Australia/Lord_Howe", { { 2026, 10, 3 }, 15, 30, 0 }, 37800, 39600, true, "+11" },
        { "Australia/Lord_Howe", { { 2090, 4, 1 }, 15, 0, 0 }, 39600, 37800, false, "+1030" },
        { "Australia/Lord_Howe", { { 2090, 9, 30 }, 15, 30, 0 }, 37800, 39600, true, "+11" },
        { "Africa/Cairo", { { 2026, 4, 23 }, 22, 0, 0 }, 7200, 10800, true, "EEST" },
        { "Africa/Cairo", { { 2026, 10, 29 }, 21, 0, 0 }, 10800, 7200, false, "EET" },
        { "Africa/Cairo", { { 2090, 4, 27 }, 22, 0, 0 }, 7200, 10800, true, "EEST" },
        { "Africa/Cairo", { { 2090, 10, 26 }, 21, 0, 0 }, 10800, 7200, false, "EET" },
        { "America/Santiago", { { 2026, 4, 5 }, 3, 0, 0 }, -10800, -14400, false, "-04" },
        { "America/Santiago", { { 2026, 9, 6 }, 4, 0, 0 }, -14400, -10800, true, "-03" },
        { "America/Santiago", { { 2090, 4, 2 }, 3, 0, 0 }, -10800, -14400, false, "-04" },
        { "America/Santiago", { { 2090, 9, 3 }, 4, 0, 0 }, -14400, -10800, true, "-03" },
        { "Pacific/Chatham", { { 2026, 4, 4 }, 14, 0, 0 }, 49500, 45900, false, "+1245" },
        { "Pacific/Chatham", { { 2026, 9, 26 }, 14, 0, 0 }, 45900, 49500, true, "+1345" },
        { "Pacific/Chatham", { { 2090, 4, 1 }, 14, 0, 0 }, 49500, 45900, false, "+1245" },
        { "Pacific/Chatham", { { 2090, 9, 23 }, 14, 0, 0 }, 45900, 49500, true, "+1345" },
        { "Antarctica/Troll", { { 2026, 3, 29 }, 1, 0, 0 }, 0, 7200, true, "+02" },
        { "Antarctica/Troll", { { 2026, 10, 25 }, 1, 0, 0 }, 7200, 0, false, "+00" },
        { "Antarctica/Troll", { { 2090, 3, 26 }, 1, 0, 0 }, 0, 7200, true, "+02" },
        { "Antarctica/Troll", { { 2090, 10, 29 }, 1, 0, 0 }, 7200, 0, false, "+00" },
        { "Europe/Dublin", { { 2026, 3, 29 }, 1, 0, 0 }, 0, 3600, false, "IST" },
        { "Europe/Dublin", { { 2026, 10, 25 }, 1, 0, 0 }, 3600, 0, true, "GMT" },
        { "Europe/Dublin", { { 2090, 3, 26 }, 1, 0, 0 }, 0, 3600, false, "IST" },
        { "Europe/Dublin", { { 2090, 10, 29 }, 1, 0, 0 }, 3600, 0, true, "GMT" },
    };
    for (size_t i = 0; i < array_count(zones); i++)
        check_changes(zones[i].zone, zone_of_rule(zones[i].footer), rows, array_count(rows));
}

/* Casablanca uses +01 and sets its clock back for Ramadan: a table entry for each year, here up to 2026. */
static void clocks_change_where_the_table_says(void **state)
{
    (void)state;
    static const struct change casablanca[] = {
        { "Africa/Casablanca", { { 2018, 6, 17 }, 2, 0, 0 }, 0, 3600, true, "+01" },
        { "Africa/Casablanca", { { 2018, 10, 28 }, 2, 0, 0 }, 3600, 3600, false, "+01" },
        { "Africa/Casablanca", { { 2025, 2, 23 }, 2, 0, 0 }, 3600, 0, true, "+00" },
        { "Africa/Casablanca", { { 2025, 4, 6 }, 2, 0, 0 }, 0, 3600, false, "+01" },
        { "Africa/Casablanca", { { 2026, 2, 15 }, 2, 0, 0 }, 3600, 0, true, "+00" },
        { "Africa/Casablanca", { { 2026, 3, 22 }, 2, 0, 0 }, 0, 3600, false, "+01" },
    };
    static const struct tzif_type types[] = { { 0, 0, 0 }, { 3600, 1, 4 }, { 3600, 0, 4 }, { 0, 1, 0 } };
    static const uint8_t indexes[] = { 1, 2, 3, 2, 3, 2 };
    int64_t times[array_count(casablanca)];
    for (size_t i = 0; i < array_count(casablanca); i++)
        times[i] = civil_second(casablanca[i].at);
    struct tz *z = zone_of(&(struct tzif){ .version = '2',
                                           .times = times,
                                           .indexes = indexes,
                                           .time_count = array_count(times),
                                           .types = types,
                                           .type_count = 4,
                                           .chars = S("+00\0+01\0"),
                                           .footer = "\n<+01>-1\n" });
    struct tz_span last = tz_span_at(z, civil_second((struct civil){ { 2090, 7, 1 }, 0, 0, 0 }));
    assert_int_equal(last.from, times[5]);
    assert_true(last.until == INT64_MAX && last.offset_s == 3600 && !last.dst);
    check_changes("Africa/Casablanca", z, casablanca, array_count(casablanca));
}

/* Samoa moved from the east of the date line to its west: 30 December 2011 did not exist there. */
static void a_skipped_day_is_a_gap_of_24_hours(void **state)
{
    (void)state;
    static const struct change apia[] = {
        { "Pacific/Apia", { { 2011, 9, 24 }, 14, 0, 0 }, -39600, -36000, true, "-10" },
        { "Pacific/Apia", { { 2011, 12, 30 }, 10, 0, 0 }, -36000, 50400, true, "+14" },
        { "Pacific/Apia", { { 2012, 3, 31 }, 14, 0, 0 }, 50400, 46800, false, "+13" },
    };
    static const struct tzif_type types[] = { { -39600, 0, 0 }, { -36000, 1, 4 }, { 50400, 1, 8 }, { 46800, 0, 12 } };
    static const uint8_t indexes[] = { 1, 2, 3 };
    int64_t times[] = { civil_second(apia[0].at), civil_second(apia[1].at), civil_second(apia[2].at) };
    struct tz *z = zone_of(&(struct tzif){ .version = '2',
                                           .times = times,
                                           .indexes = indexes,
                                           .time_count = 3,
                                           .types = types,
                                           .type_count = 4,
                                           .chars = S("-11\0-10\0+14\0+13\0"),
                                           .footer = "\n<+13>-13\n" });
    for (int hour = 0; hour < 24; hour++) {
        struct tz_instants i = tz_instants_of(z, civil_second((struct civil){ { 2011, 12, 30 }, hour, 59, 59 }));
        assert_true(i.kind == TZ_GAP && i.first == times[1] && i.last == times[1]);
    }
    assert_int_equal(tz_local(z, times[1]), civil_second((struct civil){ { 2011, 12, 31 }, 0, 0, 0 }));
    check_changes("Pacific/Apia", z, apia, array_count(apia));
}

static void kathmandu_moved_by_a_quarter_of_an_hour(void **state)
{
    (void)state;
    static const struct change rows[] = {
        { "Asia/Kathmandu", { { 1985, 12, 31 }, 18, 30, 0 }, 19800, 20700, false, "+0545" }
    };
    static const struct tzif_type types[] = { { 19800, 0, 0 }, { 20700, 0, 6 } };
    int64_t at = civil_second(rows[0].at);
    struct tzif file = { .times = &at,
                         .indexes = (const uint8_t[]){ 1 },
                         .time_count = 1,
                         .types = types,
                         .type_count = 2,
                         .chars = S("+0530\0+0545\0"),
                         .footer = "\n<+0545>-5:45\n" };
    for (int version = 0; version < 5; version++) {
        file.version = "\0002345"[version]; /* versions after 4 are read like 4 */
        struct tz *z = zone_of(&file);
        assert_int_equal(tz_span_at(z, civil_second((struct civil){ { 2090, 1, 1 }, 0, 0, 0 })).offset_s, 20700);
        check_changes("Asia/Kathmandu", z, rows, 1);
    }
}

/* ---- where the rule begins and ends ---- */

static size_t count_spans(const struct tz *z)
{
    size_t n = 1;
    for (struct tz_span s = tz_span_at(z, INT64_MIN); s.until != INT64_MAX; n++) {
        struct tz_span next = tz_span_at(z, s.until);
        assert_true(next.from == s.until && next.until > next.from && next.offset_before_s == s.offset_s);
        assert_true(next.offset_s != s.offset_s || next.dst != s.dst || strcmp(next.abbreviation, s.abbreviation) != 0);
        s = next;
    }
    return n;
}

static void the_rule_is_written_out_to_its_last_year(void **state)
{
    (void)state;
    struct tz *z = zone_of_rule("\nCET-1CEST,M3.5.0,M10.5.0/3\n");
    assert_int_equal(count_spans(z), 1 + 2 * (TZ_LAST_YEAR - 1900 + 1));
    struct tz_span last = tz_span_at(z, INT64_MAX);
    assert_int_equal(civil_of(last.from).date.year, TZ_LAST_YEAR);
    assert_true(last.offset_s == 3600 && !last.dst && last.until == INT64_MAX);
    struct tz_span first = tz_span_at(z, INT64_MIN);
    assert_true(first.from == INT64_MIN && first.offset_s == 3600 && first.offset_before_s == 3600);
    tz_unref(z);
}

static void daylight_time_all_year_never_changes(void **state)
{
    (void)state;
    static const char *const rows[] = { "\nXXX3EDT4,0/0,J365/23\n", "\nEST5EDT,0/0,J365/25\n",
                                        "\nEST5EDT,0/0,J365/167\n", "\nEST5EDT,J1/0,J1/1\n",
                                        "\nXXX-15EDT4,0/0,J365/23\n" };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct tz *z = zone_of_rule(rows[i]);
        if (count_spans(z) != 1)
            fail_msg("%s has %zu spans", rows[i], count_spans(z));
        struct tz_span s = tz_span_at(z, 0);
        assert_true(s.dst && s.offset_s == -14400);
        assert_string_equal(s.abbreviation, "EDT");
        tz_unref(z);
    }
}

/* Times of up to one week, in both directions, move beginnings and ends into other years: spans stay in order. */
static void rules_that_reach_over_the_new_year_keep_their_order(void **state)
{
    (void)state;
    static const char *const days[] = { "0", "J1", "J365", "365", "M1.1.0", "M12.5.6" };
    static const char *const times[] = { "-167", "-24", "0", "24", "167:59:59" };
    enum { DAYS = array_count(days), TIMES = array_count(times) };
    for (size_t i = 0; i < (size_t)DAYS * TIMES * DAYS * TIMES; i++) {
        char footer[128];
        snprintf(footer, sizeof footer, "\n<+12>-12<-12>12,%s/%s,%s/%s\n", days[i % DAYS], times[i / DAYS % TIMES],
                 days[i / DAYS / TIMES % DAYS], times[i / DAYS / TIMES / DAYS]);
        struct tz *z = zone_of_rule(footer);
        size_t spans = count_spans(z);
        assert_true(spans >= 1 && spans <= 2 * (TZ_LAST_YEAR - 1900 + 3));
        tz_unref(z);
    }
}

static struct tz *zone_from(int64_t last, uint8_t type, const char *footer)
{
    static const struct tzif_type types[] = { { -600, 0, 0 }, { 3600, 0, 4 }, { 7200, 1, 8 } };
    return zone_of(&(struct tzif){ .version = '3',
                                   .times = &last,
                                   .indexes = &type,
                                   .time_count = 1,
                                   .types = types,
                                   .type_count = 3,
                                   .chars = S("LMT\0CET\0CEST\0"),
                                   .footer = footer });
}

static void the_rule_takes_over_at_the_last_transition(void **state)
{
    (void)state;
    static const struct {
        struct civil last;
        uint8_t type;
        struct civil next;
    } rows[] = {
        { { { 2026, 3, 29 }, 1, 0, 0 }, 2, { { 2026, 10, 25 }, 1, 0, 0 } },
        { { { 2026, 10, 25 }, 1, 0, 0 }, 1, { { 2027, 3, 28 }, 1, 0, 0 } },
        { { { 2026, 6, 1 }, 0, 0, 0 }, 2, { { 2026, 10, 25 }, 1, 0, 0 } },
        { { { 2026, 1, 1 }, 0, 0, 0 }, 1, { { 2026, 3, 29 }, 1, 0, 0 } },
        { { { 2026, 12, 31 }, 23, 0, 0 }, 1, { { 2027, 3, 28 }, 1, 0, 0 } },
        { { { 1850, 1, 1 }, 0, 0, 0 }, 1, { { 1900, 3, 25 }, 1, 0, 0 } },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        int64_t last = civil_second(rows[i].last);
        struct tz *z = zone_from(last, rows[i].type, "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
        struct tz_span s = tz_span_at(z, last);
        assert_true(s.from == last && s.offset_before_s == -600);
        assert_int_equal(s.offset_s, rows[i].type * 3600);
        assert_int_equal(s.until, civil_second(rows[i].next));
        assert_string_equal(tz_span_at(z, last - 1).abbreviation, "LMT");
        tz_unref(z);
    }
}

/* A file that contradicts itself: the rule is preferred, as in glibc and Python. */
static void against_the_last_transition_the_rule_wins(void **state)
{
    (void)state;
    int64_t june = civil_second((struct civil){ { 2026, 6, 1 }, 0, 0, 0 });
    struct tz *z = zone_from(june, 1, "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
    assert_int_equal(tz_span_at(z, june).offset_s, 7200);
    tz_unref(z);
    z = zone_from(june, 1, "\nLMT0:10\n");
    assert_int_equal(count_spans(z), 1);
    tz_unref(z);
}

static void beyond_its_last_year_a_rule_says_nothing(void **state)
{
    (void)state;
    int64_t late[] = { civil_second((struct civil){ { TZ_LAST_YEAR, 1, 1 }, 0, 0, 0 }), INT64_C(1) << 59 };
    for (size_t i = 0; i < array_count(late); i++) {
        struct tz *z = zone_from(late[i], 1, "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
        assert_int_equal(count_spans(z), 2);
        tz_unref(z);
    }
    /* The only day of daylight time of 2499 is before the table's end, the next one is after the rule's end: no change
     * is left. */
    struct tz *z =
        zone_from(civil_second((struct civil){ { 2499, 12, 28 }, 0, 0, 0 }), 1, "\nCET0CEST-0,M12.5.5/24,M12.5.5/48\n");
    assert_true(count_spans(z) <= 3);
    tz_unref(z);
}

static void without_a_rule_the_last_span_goes_on(void **state)
{
    (void)state;
    struct tz *z = zone_from(1000000, 2, "\n\n");
    struct tz_span s = tz_span_at(z, INT64_MAX);
    assert_true(s.from == 1000000 && s.until == INT64_MAX && s.dst && s.offset_s == 7200);
    assert_int_equal(count_spans(z), 2);
    tz_unref(z);
}

static void transitions_that_change_nothing_are_dropped(void **state)
{
    (void)state;
    static const struct tzif_type types[] = { { 0, 0, 0 }, { 0, 0, 4 }, { 0, 1, 0 }, { 0, 0, 0 } };
    static const int64_t times[] = { 10, 20, 30, 40, 50 };
    struct tz *z = zone_of(&(struct tzif){ .times = times,
                                           .indexes = (const uint8_t[]){ 3, 1, 1, 2, 0 },
                                           .time_count = 5,
                                           .types = types,
                                           .type_count = 4,
                                           .chars = S("AAA\0AAB\0") });
    assert_int_equal(count_spans(z), 4); /* AAA, AAB at 20, AAA daylight at 40, AAA at 50 */
    assert_int_equal(tz_span_at(z, 19).until, 20);
    assert_int_equal(tz_span_at(z, 39).from, 20);
    assert_int_equal(tz_span_at(z, 45).dst, true);
    tz_unref(z);
}

/* ---- odd tables ---- */

/* Checks every second of a small range against a linear search. */
static void check_by_search(const struct tz *z, int64_t low, int64_t high)
{
    for (int64_t local = low; local <= high; local++) {
        int64_t first = INT64_MAX, last = INT64_MIN, jump = INT64_MAX;
        for (int64_t t = low - 200; t <= high + 200; t++) {
            if (tz_local(z, t) == local) {
                first = min_of(first, t);
                last = t;
            }
            if (jump == INT64_MAX && tz_local(z, t) > local)
                jump = t;
        }
        struct tz_instants i = tz_instants_of(z, local);
        bool gap = first == INT64_MAX;
        assert_int_equal(i.kind, gap ? TZ_GAP : first == last ? TZ_UNIQUE : TZ_REPEAT);
        assert_int_equal(i.first, gap ? jump : first);
        assert_int_equal(i.last, gap ? jump : last);
    }
}

static void spans_shorter_than_their_jumps_are_searched_right(void **state)
{
    (void)state;
    enum { SEED = 20260329 };
    struct prng random;
    prng_init(&random, SEED);
    print_message("# seed %d\n", SEED);
    for (int round = 0; round < 60; round++) {
        struct tzif_type types[8];
        int64_t times[12], at = 0;
        uint8_t indexes[12];
        for (size_t i = 0; i < array_count(types); i++)
            types[i] = (struct tzif_type){ (int32_t)prng_between(&random, -60, 60), i % 2, 0 };
        for (size_t i = 0; i < array_count(times); i++) {
            times[i] = at += prng_between(&random, 1, 25);
            indexes[i] = (uint8_t)prng_below(&random, array_count(types));
        }
        struct tz *z = zone_of(&(struct tzif){ .times = times,
                                               .indexes = indexes,
                                               .time_count = array_count(times),
                                               .types = types,
                                               .type_count = array_count(types),
                                               .chars = S("AAA\0") });
        check_by_search(z, -100, 400);
        tz_unref(z);
    }
}

static void a_wall_clock_time_seen_three_times_has_a_first_and_a_last(void **state)
{
    (void)state;
    static const struct tzif_type types[] = { { 100, 0, 0 }, { 90, 0, 0 }, { 80, 0, 0 } };
    static const int64_t times[] = { 0, 10 };
    struct tz *z = zone_of(&(struct tzif){ .times = times,
                                           .indexes = (const uint8_t[]){ 1, 2 },
                                           .time_count = 2,
                                           .types = types,
                                           .type_count = 3,
                                           .chars = S("AAA\0") });
    struct tz_instants i = tz_instants_of(z, 95); /* at -5, 5 and 15 */
    assert_true(i.kind == TZ_REPEAT && i.first == -5 && i.last == 15);
    tz_unref(z);
}

static void the_ends_of_time_do_not_overflow(void **state)
{
    (void)state;
    struct tz *zones[] = { zone_of_rule("\nEST5EDT,M3.2.0,M11.1.0\n"), zone_of_rule("\nJST-9\n"), tz_utc() };
    for (size_t i = 0; i < array_count(zones); i++) {
        assert_true(tz_local(zones[i], INT64_MAX) >= INT64_MAX - DAY_S);
        assert_true(tz_local(zones[i], INT64_MIN) <= INT64_MIN + DAY_S);
        assert_true(tz_instants_of(zones[i], INT64_MAX).first >= INT64_MAX - DAY_S);
        assert_true(tz_instants_of(zones[i], INT64_MIN).last <= INT64_MIN + DAY_S);
        tz_unref(zones[i]);
    }
}

/* ---- bad files ---- */

static const int64_t two_times[] = { 100, 200 };
static const uint8_t two_indexes[] = { 1, 0 };
static const struct tzif_type two_types[] = { { 0, 0, 0 }, { 3600, 1, 4 } };

static struct tzif good_file(char version)
{
    return (struct tzif){ .version = version,
                          .times = two_times,
                          .indexes = two_indexes,
                          .time_count = 2,
                          .types = two_types,
                          .type_count = 2,
                          .chars = S("AAA\0BBB\0"),
                          .isstd_count = 2,
                          .isut_count = 2,
                          .footer = version ? "\nAAA0\n" : NULL };
}

static void every_shorter_file_is_refused(void **state)
{
    (void)state;
    static const char versions[] = { '\0', '2' };
    for (size_t v = 0; v < array_count(versions); v++) {
        struct tzif file = good_file(versions[v]);
        struct buf b;
        buf_init(&b, 4096);
        tzif_write(&b, &file);
        for (size_t n = 0; n <= b.n; n++) {
            struct tz *z = NULL;
            struct error e = { 0 };
            /* an allocation of the exact size, so that a sanitizer detects a read past its end */
            char *exact = memcpy(xmalloc(n), b.p, n);
            enum err rc = tz_parse(S("Cut"), (struct str){ exact, n }, &z, &e);
            assert_int_equal(rc, n == b.n ? ERR_OK : ERR_CORRUPT);
            assert_true((rc == ERR_OK) == (z != NULL));
            if (rc)
                assert_says(&e, "time zone 'Cut': ");
            tz_unref(z);
            free_charp(&exact);
        }
        buf_release(&b);
    }
}

static void refused(const struct tzif *file, enum err code, const char *sentence)
{
    struct tz *z = NULL;
    struct error e = { 0 };
    char whole[512];
    snprintf(whole, sizeof whole, "time zone 'Test/Zone': %s", sentence);
    assert_int_equal(parse(file, &z, &e), code);
    assert_null(z);
    assert_string_equal(e.text, whole);
    assert_string_equal(e.field, "");
    assert_int_equal(parse(file, &z, NULL), code);
}

static void broken_files_are_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct tzif_type far_east = { 93600, 0, 0 }, far_west = { -93600, 0, 0 }, marked = { 0, 2, 0 },
                                  lost = { 0, 0, 8 };
    static const int64_t falling[] = { 200, 100 }, same[] = { 100, 100 };
    static const int64_t far[] = { 0, (INT64_C(1) << 59) + 1 }, early[] = { -(INT64_C(1) << 59) - 1, 0 };
    static const struct tzif_type endless[255] = { { 0 } };
    struct tzif f;
#define REFUSED(change, code, sentence)                                                                                \
    do {                                                                                                               \
        f = good_file('2');                                                                                            \
        change;                                                                                                        \
        refused(&f, code, sentence);                                                                                   \
    } while (0)
    REFUSED(f.leap_count = 27, ERR_INVALID, "counts leap seconds; use the zone without 'right/'");
    REFUSED(f.version = '1', ERR_CORRUPT, "version byte 0x31 is unknown");
    REFUSED(f.version = ':', ERR_CORRUPT, "version byte 0x3a is unknown");
    REFUSED((f.type_count = 0, f.isstd_count = f.isut_count = 0), ERR_CORRUPT,
            "has 0 types of local time, not 1 to 254");
    REFUSED((f.types = endless, f.type_count = 255, f.isstd_count = f.isut_count = 0), ERR_CORRUPT,
            "has 255 types of local time, not 1 to 254");
    REFUSED(f.isstd_count = 1, ERR_CORRUPT, "has indicators for some of its types only");
    REFUSED(f.isut_count = 3, ERR_CORRUPT, "has indicators for some of its types only");
    REFUSED(f.indexes = (const uint8_t[2]){ 2 }, ERR_CORRUPT, "transition 1 leads to type 2, which it does not have");
    REFUSED(f.times = falling, ERR_CORRUPT, "transition 2 is not later than the one before");
    REFUSED(f.times = same, ERR_CORRUPT, "transition 2 is not later than the one before");
    REFUSED(f.times = far, ERR_CORRUPT, "transition 2 is too far away");
    REFUSED(f.times = early, ERR_CORRUPT, "transition 1 is too far away");
    REFUSED((f.types = &far_east, f.type_count = 1, f.isstd_count = f.isut_count = 0), ERR_CORRUPT,
            "is 93600 s away from UTC");
    REFUSED((f.types = &far_west, f.type_count = 1, f.isstd_count = f.isut_count = 0), ERR_CORRUPT,
            "is -93600 s away from UTC");
    REFUSED((f.types = &marked, f.type_count = 1, f.isstd_count = f.isut_count = 0), ERR_CORRUPT,
            "has a daylight mark of 2");
    REFUSED((f.types = &lost, f.type_count = 1, f.isstd_count = f.isut_count = 0), ERR_CORRUPT,
            "has an abbreviation outside its text");
    REFUSED(f.chars = S("AAA\0BBB"), ERR_CORRUPT, "has an abbreviation outside its text");
    REFUSED(f.chars = S(""), ERR_CORRUPT, "has an abbreviation outside its text");
    REFUSED(f.chars = S("A\033A\0BBB\0"), ERR_CORRUPT, "has an abbreviation with unprintable characters");
    REFUSED(f.chars = S("A\xC3\xA4\0BBB\0"), ERR_CORRUPT, "has an abbreviation with unprintable characters");
    REFUSED(f.chars = S("ABCDEFGHIJKLMNOPQRSTUVWXYZA\0"), ERR_CORRUPT,
            "has an abbreviation of more than 26 characters");
    REFUSED(f.footer = NULL, ERR_CORRUPT, "has no footer");
    REFUSED(f.footer = "AAA0\n", ERR_CORRUPT, "has no footer");
    REFUSED(f.footer = "\nAAA0", ERR_CORRUPT, "has no footer");
    REFUSED(f.footer = "\nAAA\n", ERR_CORRUPT, "its rule is not a POSIX TZ string (wrong at character 4)");
    REFUSED(f.footer = "\nABCDEFGHIJKLMNOPQRSTUVWXYZA0\n", ERR_CORRUPT,
            "has an abbreviation of more than 26 characters");
    REFUSED(f.footer = "\nAAA0ABCDEFGHIJKLMNOPQRSTUVWXYZA,M3.5.0,M10.5.0\n", ERR_CORRUPT,
            "has an abbreviation of more than 26 characters");
    REFUSED(f.footer = "\nAAA0BBB,M3.5.0/-1,M10.5.0\n", ERR_CORRUPT,
            "its rule is not a POSIX TZ string (wrong at character 16)");
#undef REFUSED
}

static void huge_files_are_refused_before_they_cost_anything(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct tz *z = NULL;
    struct buf b;
    buf_init(&b, 2 << 20);
    struct tzif file = good_file('\0');
    tzif_write(&b, &file);
    size_t small = b.n;
    tzif_zeros(&b, (1 << 20) + 1 - small);
    assert_int_equal(tz_parse(S("Big"), buf_str(&b), &z, &e), ERR_CORRUPT);
    assert_string_equal(e.text, "time zone 'Big': has 1048577 bytes, more than 1048576");
    /* counts of four billion in a file of one hundred bytes */
    static const struct {
        size_t at;
        const char *says;
    } counts[] = {
        { 20, "indicators" },           { 24, "indicators" },
        { 28, "counts leap seconds" },  { 32, "has 4294967295 transitions, more than 100000" },
        { 36, "has 4294967295 types" }, { 40, "cut short in its table" },
    };
    for (size_t i = 0; i < array_count(counts); i++) {
        char copy[256];
        memcpy(copy, b.p, small);
        memset(copy + counts[i].at, 0xff, 4);
        assert_true(tz_parse(S("Big"), (struct str){ copy, small }, &z, &e) != ERR_OK);
        assert_says(&e, counts[i].says);
        copy[4] = '2'; /* the same in the block that is skipped */
        assert_int_equal(tz_parse(S("Big"), (struct str){ copy, small }, &z, &e), ERR_CORRUPT);
        assert_says(&e, "cut short in its first block");
    }
    assert_null(z);
    buf_release(&b);
}

/* 254 types of the file and two of the rule: a byte can still identify each. */
static void as_many_types_as_a_byte_can_name(void **state)
{
    (void)state;
    struct tzif_type types[254];
    int64_t times[254];
    uint8_t indexes[254];
    for (int i = 0; i < 254; i++) {
        types[i] = (struct tzif_type){ i, 0, 0 };
        times[i] = i * 1000;
        indexes[i] = (uint8_t)i;
    }
    struct tz *z = zone_of(&(struct tzif){ .version = '2',
                                           .times = times,
                                           .indexes = indexes,
                                           .time_count = 254,
                                           .types = types,
                                           .type_count = 254,
                                           .chars = S("AAA\0"),
                                           .footer = "\nCET-1CEST,M3.5.0,M10.5.0/3\n" });
    assert_int_equal(tz_span_at(z, 252500).offset_s, 252);
    assert_int_equal(tz_span_at(z, 253000).offset_s, 3600);
    assert_string_equal(tz_span_at(z, civil_second((struct civil){ { 2026, 7, 1 }, 0, 0, 0 })).abbreviation, "CEST");
    tz_unref(z);
}

/* ---- sharing ---- */

static void utc_is_always_there(void **state)
{
    (void)state;
    struct tz *z = tz_utc();
    tz_unref(z);
    tz_unref(tz_ref(z));
    cleanup_with(tz_unrefp) struct tz *again = tz_utc();
    assert_ptr_equal(again, z);
    assert_string_equal(tz_name(z), "UTC");
    struct tz_span s = tz_span_at(z, 0);
    assert_true(s.from == INT64_MIN && s.until == INT64_MAX && s.offset_s == 0 && s.offset_before_s == 0 && !s.dst);
    assert_string_equal(s.abbreviation, "UTC");
    struct tz_instants i = tz_instants_of(z, 1234567890);
    assert_true(i.kind == TZ_UNIQUE && i.first == 1234567890 && i.last == 1234567890);
}

static void a_zone_lives_as_long_as_its_last_reference(void **state)
{
    (void)state;
    struct tz *z = zone_of_rule("\nJST-9\n");
    struct tz *other = tz_ref(z);
    assert_ptr_equal(other, z);
    tz_unref(z);
    assert_string_equal(tz_name(other), "Test/Zone");
    assert_int_equal(tz_local(other, 0), 32400);
    tz_unrefp(&other);
    tz_unref(NULL);
}

static void a_zone_may_have_no_name(void **state)
{
    (void)state;
    struct tzif file = good_file('\0');
    struct buf b;
    struct tz *z = NULL;
    buf_init(&b, 4096);
    tzif_write(&b, &file);
    assert_int_equal(tz_parse((struct str){ 0 }, buf_str(&b), &z, NULL), ERR_OK);
    assert_string_equal(tz_name(z), "");
    tz_unref(z);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_change_where_the_rule_says),
        cmocka_unit_test(clocks_change_where_the_table_says),
        cmocka_unit_test(a_skipped_day_is_a_gap_of_24_hours),
        cmocka_unit_test(kathmandu_moved_by_a_quarter_of_an_hour),
        cmocka_unit_test(the_rule_is_written_out_to_its_last_year),
        cmocka_unit_test(daylight_time_all_year_never_changes),
        cmocka_unit_test(rules_that_reach_over_the_new_year_keep_their_order),
        cmocka_unit_test(the_rule_takes_over_at_the_last_transition),
        cmocka_unit_test(against_the_last_transition_the_rule_wins),
        cmocka_unit_test(beyond_its_last_year_a_rule_says_nothing),
        cmocka_unit_test(without_a_rule_the_last_span_goes_on),
        cmocka_unit_test(transitions_that_change_nothing_are_dropped),
        cmocka_unit_test(spans_shorter_than_their_jumps_are_searched_right),
        cmocka_unit_test(a_wall_clock_time_seen_three_times_has_a_first_and_a_last),
        cmocka_unit_test(the_ends_of_time_do_not_overflow),
        cmocka_unit_test(every_shorter_file_is_refused),
        cmocka_unit_test(broken_files_are_refused_with_a_sentence),
        cmocka_unit_test(huge_files_are_refused_before_they_cost_anything),
        cmocka_unit_test(as_many_types_as_a_byte_can_name),
        cmocka_unit_test(utc_is_always_there),
        cmocka_unit_test(a_zone_lives_as_long_as_its_last_reference),
        cmocka_unit_test(a_zone_may_have_no_name),
    };
    return cmocka_run_group_tests_name("tz", tests, NULL, NULL);
}

/* iCalendar files as dates. The test sets the clock and the span: repeats from 2026-01-01 to 2035-12-31. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "platform/zoneinfo_system.h"
#include "port/ical.h"
#include "port/zoneinfo.h"

struct test_clock {
    struct clock base;
    int64_t ns, step_ns; /* each reading advances the clock */
};

static int64_t wall_us(struct clock *c)
{
    (void)c;
    return 0;
}

static int64_t steady_ns(struct clock *c)
{
    struct test_clock *t = container_of(c, struct test_clock, base);
    return t->ns += t->step_ns;
}

static const struct clock_ops clock_ops = { .wall_us = wall_us, .steady_ns = steady_ns };

static int32_t day_of(int year, int month, int day)
{
    return (int32_t)day_number((struct date){ year, month, day });
}

struct reading {
    struct arena arena;
    struct ical_dates dates;
    struct error error;
};

static enum err read_with(struct reading *r, struct str text, const struct tz *zone, int64_t step_ns)
{
    struct test_clock clock = { { &clock_ops }, 0, step_ns };
    struct ical_options o = {
        .from_day = day_of(2026, 1, 1), .until_day = day_of(2036, 1, 1), .zone = zone, .clock = &clock.base
    };
    *r = (struct reading){ 0 };
    arena_init(&r->arena, 64 << 20);
    return ical_read(text, &o, &r->arena, &r->dates, &r->error);
}

static void reading_release(struct reading *r)
{
    arena_release(&r->arena);
}

/* "2026-01-01 New Year;…" */
static void dates_text(const struct ical_dates *d, struct buf *out)
{
    for (size_t i = 0; i < d->n; i++) {
        struct date date = date_of_day(d->v[i].day);
        buf_printf(out, "%s%04d-%02d-%02d" STR_FMT, i ? ";" : "", date.year, date.month, date.day,
                   STR_ARG(d->v[i].name));
    }
}

static void expect_in(const char *events, const struct tz *zone, const char *expected)
{
    cleanup_with(reading_release) struct reading r;
    cleanup_with(buf_release) struct buf text, found;
    buf_init(&text, 1 << 20);
    buf_init(&found, 1 << 20);
    buf_printf(&text, "BEGIN:VCALENDAR\r\n%sEND:VCALENDAR\r\n", events);
    assert_ok(read_with(&r, buf_str(&text), zone, 1), &r.error);
    dates_text(&r.dates, &found);
    assert_string_equal(buf_cstr(&found), expected);
}

#define expect(events, expected) expect_in((events), NULL, (expected))
#define EVENT(lines)             "BEGIN:VEVENT\r\n" lines "END:VEVENT\r\n"

static void an_event_covers_its_days(void **state)
{
    (void)state;
    expect(EVENT("DTSTART;VALUE=DATE:20260101\r\n"), "2026-01-01");
    expect(EVENT("DTSTART;VALUE=DATE:20260101\r\nDTEND;VALUE=DATE:20260102\r\n"), "2026-01-01");
    expect(EVENT("DTSTART;VALUE=DATE:20260227\r\nDTEND;VALUE=DATE:20260302\r\n"), "2026-02-27;2026-02-28;2026-03-01");
    expect(EVENT("DTSTART;VALUE=DATE:20260101\r\nDURATION:P2D\r\n"), "2026-01-01;2026-01-02");
    expect(EVENT("DTSTART:20260101T100000\r\n"), "2026-01-01");
    expect(EVENT("DTSTART:20260101T220000\r\nDTEND:20260102T000000\r\n"), "2026-01-01"); /* ends at midnight */
    expect(EVENT("DTSTART:20260101T220000\r\nDTEND:20260102T000001\r\n"), "2026-01-01;2026-01-02");
    expect(EVENT("DTSTART;TZID=America/New_York:20260101T220000\r\nDURATION:PT3H\r\n"), "2026-01-01;2026-01-02");
    /* An event that does not repeat may be at any time. */
    expect(EVENT("DTSTART;VALUE=DATE:20500101\r\n"), "2050-01-01");
    expect("", "");
}

static void names_are_kept_and_lines_unfolded(void **state)
{
    (void)state;
    expect(EVENT("SUMMARY:New\r\n  Year\\, again\r\nDTSTART;VALUE\r\n =DATE:20260101\r\n"),
           "2026-01-01New Year, again");
    expect(EVENT("DTSTART;VALUE=DATE:20260101\r\n") EVENT("SUMMARY:b\r\nDTSTART;VALUE=DATE:20260101\r\n"),
           "2026-01-01b");
    cleanup_with(reading_release) struct reading r;
    assert_ok(read_with(&r,
                        S("\xEF\xBB\xBF"
                          "begin:vcalendar\nX-WR-CALNAME:Our days\nEND:VCALENDAR"),
                        NULL, 1),
              &r.error);
    assert_str(r.dates.name, "Our days");
    assert_int_equal(r.dates.n, 0);
}

static void a_long_name_is_cut_at_a_character(void **state)
{
    (void)state;
    cleanup_with(reading_release) struct reading r;
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, 1 << 20);
    buf_text(&text, "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20260101\nSUMMARY:x");
    for (int i = 0; i < 200; i++)
        buf_text(&text, "ä");
    buf_text(&text, "\nEND:VEVENT\nEND:VCALENDAR\n");
    assert_ok(read_with(&r, buf_str(&text), NULL, 1), &r.error);
    assert_int_equal(r.dates.v[0].name.n, CALENDAR_TEXT_MAX - 1);
    assert_true(str_is_utf8(r.dates.v[0].name));
}

static void repeats_are_written_out_within_the_span(void **state)
{
    (void)state;
    expect(EVENT("DTSTART;VALUE=DATE:20200501\r\nRRULE:FREQ=YEARLY;UNTIL=20280501\r\n"),
           "2026-05-01;2027-05-01;2028-05-01");
    expect(EVENT("DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=WEEKLY;COUNT=3\r\n"), "2026-01-05;2026-01-12;2026-01-19");
    expect(EVENT("DTSTART;VALUE=DATE:20251222\r\nRRULE:FREQ=WEEKLY;COUNT=3\r\n"),
           "2026-01-05"); /* the first two are before the span */
    expect(EVENT("DTSTART;VALUE=DATE:20350101\r\nRRULE:FREQ=MONTHLY;BYDAY=-1MO;BYMONTH=11,12\r\n"),
           "2035-11-26;2035-12-31");
    expect(EVENT("DTSTART;VALUE=DATE:20350601\r\nDTEND;VALUE=DATE:20350603\r\nRRULE:FREQ=MONTHLY;COUNT=2\r\n"),
           "2035-06-01;2035-06-02;2035-07-01;2035-07-02");
    /* Several times of one day are one date, but each counts as a repeat. */
    expect(EVENT("DTSTART:20260105T080000\r\nRRULE:FREQ=DAILY;COUNT=8;BYHOUR=8,9,10;BYMINUTE=0,30\r\n"),
           "2026-01-05;2026-01-06");
    expect(EVENT("DTSTART;VALUE=DATE:20160229\r\nRRULE:FREQ=YEARLY\r\n"), "2028-02-29;2032-02-29");
}

static void exceptions_additions_and_overrides_are_honoured(void **state)
{
    (void)state;
    expect(EVENT("DTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=DAILY;COUNT=4\r\nEXDATE;VALUE=DATE:20260102,20260104\r\n"),
           "2026-01-01;2026-01-03");
    expect(EVENT("DTSTART;TZID=Europe/Berlin:20260101T090000\r\nRRULE:FREQ=DAILY;COUNT=2\r\n"
                 "EXDATE;TZID=Europe/Berlin:20260102T090000\r\n"),
           "2026-01-01");
    expect(EVENT("DTSTART;VALUE=DATE:20260101\r\nRDATE;VALUE=DATE:20260105,20260103\r\n"),
           "2026-01-01;2026-01-03;2026-01-05");
    expect(EVENT("DTSTART:20260101T100000Z\r\nRDATE;VALUE=PERIOD:20260103T100000Z/PT1H\r\n"), "2026-01-01;2026-01-03");
    expect(EVENT("UID:a\r\nDTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=DAILY;COUNT=3\r\n")
               EVENT("UID:a\r\nRECURRENCE-ID;VALUE=DATE:20260102\r\nDTSTART;VALUE=DATE:20260110\r\nSUMMARY:moved\r\n")
                   EVENT("UID:b\r\nRECURRENCE-ID;VALUE=DATE:20260101\r\nDTSTART;VALUE=DATE:20260120\r\n"),
           "2026-01-01;2026-01-03;2026-01-10moved;2026-01-20");
    /* One repeat of a series is cancelled. */
    expect(EVENT("UID:a\r\nDTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=DAILY;COUNT=2\r\n") EVENT(
               "UID:a\r\nRECURRENCE-ID;VALUE=DATE:20260102\r\nDTSTART;VALUE=DATE:20260102\r\nSTATUS:CANCELLED\r\n"),
           "2026-01-01");
    expect(EVENT("DTSTART;VALUE=DATE:20260101\r\nSTATUS:CANCELLED\r\n"), "");
    expect(EVENT("DTSTART;VALUE=DATE:20260101\r\nSTATUS:CONFIRMED\r\nTRANSP:TRANSPARENT\r\n"), "2026-01-01");
}

static void what_is_no_event_is_passed_over(void **state)
{
    (void)state;
    expect(
        "BEGIN:VTIMEZONE\r\nTZID:X\r\nBEGIN:STANDARD\r\nDTSTART:19701025T030000\r\nRRULE:FREQ=SECONDLY\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n"
        "BEGIN:VTODO\r\nDTSTART;VALUE=DATE:20260101\r\nEND:VTODO\r\n" EVENT(
            "BEGIN:VALARM\r\nDTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=NEVER\r\nEND:VALARM\r\nDTSTART;VALUE=DATE:20260103\r\n"
            "X-ODD;A=\"b:c\":d\r\nATTENDEE:mailto:a@example.com\r\n"),
        "2026-01-03");
}

static void utc_has_its_date_where_it_is_asked_for(void **state)
{
    (void)state;
    struct zoneinfo *zones = zoneinfo_system_new(NULL);
    struct tz *tokyo = NULL;
    struct error e = { 0 };
    assert_ok(zoneinfo_get(zones, S("Asia/Tokyo"), &tokyo, &e), &e);
    expect(EVENT("DTSTART:20260101T160000Z\r\n"), "2026-01-01");
    expect_in(EVENT("DTSTART:20260101T160000Z\r\n"), tokyo, "2026-01-02");
    expect_in(EVENT("DTSTART:20260101T140000Z\r\nDTEND:20260101T160000Z\r\n"), tokyo, "2026-01-01;2026-01-02");
    expect_in(EVENT("DTSTART:20260101T160000Z\r\nRRULE:FREQ=DAILY;COUNT=3\r\nEXDATE:20260102T160000Z\r\n"), tokyo,
              "2026-01-02;2026-01-04");
    /* The date in the event's own zone. */
    expect_in(EVENT("DTSTART;TZID=Europe/Berlin:20260101T160000\r\n"), tokyo, "2026-01-01");
    tz_unref(tokyo);
    zoneinfo_free(zones);
}

static void refuse(const char *text, const char *says)
{
    cleanup_with(reading_release) struct reading r;
    if (read_with(&r, str_from(text), NULL, 1) == ERR_OK)
        fail_msg("accepted: %.200s", text);
    assert_says(&r.error, says);
}

#define FILE(events) "BEGIN:VCALENDAR\r\n" events "END:VCALENDAR\r\n"

static void what_can_not_be_read_is_refused_with_its_place(void **state)
{
    (void)state;
    refuse("", "BEGIN:VCALENDAR");
    refuse("\r\n\r\n", "BEGIN:VCALENDAR");
    refuse("{\"excluded\": []}", "line 1: must begin with BEGIN:VCALENDAR");
    refuse("BEGIN:VCARD\r\nEND:VCARD\r\n", "must begin with BEGIN:VCALENDAR");
    refuse("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n", "is it the whole file?");
    refuse("BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\nEND:VCALENDAR\r\n", "line 3: END without its BEGIN");
    refuse("BEGIN:VCALENDAR\r\n\xff\r\nEND:VCALENDAR\r\n", "UTF-8");
    refuse(FILE("X-A:b\r\n" EVENT("SUMMARY:Lost\r\n")), "line 3: event 'Lost' has no DTSTART");
    refuse(FILE(EVENT("UID:1\r\n")), "line 2: the event has no DTSTART");
    refuse(FILE(EVENT("DTSTART;VALUE=DATE:20261399\r\n")), "line 2: the event has a DTSTART that");
    refuse(FILE(EVENT("DTSTART;VALUE=DATE:18000101\r\n")), "between 1900 and 2200");
    refuse(FILE(EVENT("DTSTART;VALUE=DATE:20260102\r\nDTEND;VALUE=DATE:20260101\r\n")), "ends before it begins");
    refuse(FILE(EVENT("DTSTART;VALUE=DATE:20260102\r\nDURATION:-P1D\r\n")), "ends before it begins");
    refuse(FILE(EVENT("DTSTART;VALUE=DATE:20260102\r\nDURATION:P99999W\r\n")), "lasts longer");
    refuse(FILE(EVENT("DTSTART;VALUE=DATE:20260102\r\nRRULE:FREQ=MINUTELY\r\n")),
           "line 4: the RRULE repeats more than once a day");
    refuse(FILE(EVENT("DTSTART;VALUE=DATE:20260102\r\nRRULE:FREQ=YEARLY\r\nEXDATE;VALUE=DATE:never\r\n")), "EXDATE");
    refuse(FILE(EVENT("DTSTART;VALUE=DATE:20260102\r\nRDATE:soon\r\n")), "RDATE");
    refuse(FILE(EVENT("DTSTART;VALUE=DATE:20260102\r\nRECURRENCE-ID:x\r\n")), "RECURRENCE-ID");
    refuse(
        "BEGIN:VCALENDAR\nBEGIN:A\nBEGIN:B\nBEGIN:C\nBEGIN:D\nBEGIN:E\nBEGIN:F\nBEGIN:G\nBEGIN:H\nBEGIN:I\nBEGIN:J\n",
        "line 11: is nested more than 10 deep");
}

static void refuse_large(struct buf *text, enum err code, const char *says)
{
    cleanup_with(reading_release) struct reading r;
    buf_text(text, "END:VCALENDAR\n");
    assert_false(text->full);
    assert_int_equal(read_with(&r, buf_str(text), NULL, 1), code);
    assert_says(&r.error, says);
    buf_release(text);
}

static struct buf begin_large(void)
{
    struct buf b;
    buf_init(&b, 8 << 20);
    buf_text(&b, "BEGIN:VCALENDAR\n");
    return b;
}

struct bad_rule {
    const char *rule, *why;
};

/* Each rule is on line 4. */
static void refuse_rules(const struct bad_rule *rows, size_t n, const char *start)
{
    for (size_t i = 0; i < n; i++) {
        char text[400], why[200];
        snprintf(text, sizeof text, FILE("BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:%s\r\nRRULE:%s\r\nEND:VEVENT\r\n"), start,
                 rows[i].rule);
        snprintf(why, sizeof why, "line 4: the RRULE %s", rows[i].why);
        refuse(text, why);
    }
}

static void a_rule_with_an_impossible_part_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct bad_rule rows[] = {
        { "FREQ=YEARLY;BYMONTH=13", "has the BYMONTH '13'; it must be 1 to 12" },
        { "FREQ=YEARLY;BYMONTH=1,0", "has the BYMONTH '0'" },
        { "FREQ=YEARLY;BYMONTH=-1", "has the BYMONTH '-1'" },
        { "FREQ=YEARLY;BYMONTH=", "has an empty BYMONTH" },
        { "FREQ=YEARLY;BYMONTH=MAY", "has the BYMONTH 'MAY'" },
        { "FREQ=MONTHLY;BYMONTHDAY=32", "has the BYMONTHDAY '32'; it must be 1 to 31, or negative" },
        { "FREQ=MONTHLY;BYMONTHDAY=-32", "has the BYMONTHDAY '-32'" },
        { "FREQ=MONTHLY;BYMONTHDAY=1,,2", "has the BYMONTHDAY ''" },
        { "FREQ=MONTHLY;bymonthday=0", "has the BYMONTHDAY '0'" },
        { "FREQ=DAILY;BYHOUR=25", "has the BYHOUR '25'" },
        { "FREQ=DAILY;BYMINUTE=60", "has the BYMINUTE '60'" },
        { "FREQ=DAILY;BYSECOND=61", "has the BYSECOND '61'" },
        { "FREQ=YEARLY;BYDAY=60MO",
          "has the BYDAY '60MO'; it must be 1 to 53, or negative, before a weekday such as MO" },
        { "FREQ=YEARLY;BYDAY=0MO", "has the BYDAY '0MO'" },
        { "FREQ=WEEKLY;BYDAY=MO,XX", "has the BYDAY 'XX'" },
        { "FREQ=WEEKLY;BYDAY=1", "has the BYDAY '1'" },
        { "FREQ=YEARLY;BYYEARDAY=367", "has the BYYEARDAY '367'" },
        { "FREQ=YEARLY;BYWEEKNO=54", "has the BYWEEKNO '54'" },
        { "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=400", "has the BYSETPOS '400'" },
        { "FREQ=DAILY;COUNT=0", "has the COUNT '0'" },
        { "FREQ=DAILY;INTERVAL=0", "has the INTERVAL '0'" },
        { "FREQ=YEARLY;BYMONTH=1\r\n 3", "has the BYMONTH '13'" }, /* folded */
        { "FREQ=DAILY;INTERVAL=32768", "has the INTERVAL '32768'; it must be 1 to 32767" },
        { "FREQ=FOO", "has the FREQ 'FOO'; it must be DAILY, WEEKLY, MONTHLY or YEARLY" },
        { "FREQ=2DAILY", "has the FREQ '2DAILY'" },
        { "FREQ=DAILY;WKST=XX", "has the WKST 'XX'; it must be a weekday such as MO" },
        { "FREQ=DAILY;UNTIL=20261301", "has the UNTIL '20261301'; it must be a date such as 20261231, or " },
        { "FREQ=DAILY;UNTIL=20261232", "has the UNTIL '20261232'" },
        { "FREQ=DAILY;UNTIL=20260631", "has the UNTIL '20260631'" },
        { "FREQ=DAILY;UNTIL=20260229T000000Z", "has the UNTIL '20260229T000000Z'" },
        { "FREQ=DAILY;UNTIL=00000000", "has the UNTIL '00000000'" },
        { "FREQ=DAILY;UNTIL=20261231T240000Z", "has the UNTIL '20261231T240000Z'" },
        { "FREQ=DAILY;UNTIL=20261231T236000", "has the UNTIL '20261231T236000'" },
        { "FREQ=DAILY;UNTIL=20261231T2359", "has the UNTIL '20261231T2359'" },
        { "FREQ=DAILY;UNTIL=20261231Z", "has the UNTIL '20261231Z'" },
        { "FREQ=DAILY;UNTIL=2026", "has the UNTIL '2026'" },
        { "FREQ=DAILY;UNTIL=", "has an empty UNTIL; give it a value, or remove it" },
    };
    refuse_rules(rows, array_count(rows), "20260105");
    expect(EVENT("DTSTART;VALUE=DATE:20350101\r\nRRULE:FREQ=MONTHLY;BYDAY=+1MO;BYMONTH=01,1\r\n 2\r\n"),
           "2035-01-01;2035-12-03");
    expect(EVENT("DTSTART;VALUE=DATE:20350131\r\nRRULE:FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=2\r\n"),
           "2035-01-31;2035-02-28");
}

static void a_rule_that_can_not_be_read_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct bad_rule rows[] = {
        { "", "has no FREQ; it must be DAILY, WEEKLY, MONTHLY or YEARLY" },
        { "INTERVAL=2", "has no FREQ" },
        { "FREQ=DAILY;FOO=1", "has the part 'FOO', which is not supported; remove it" },
        { "RSCALE=GREGORIAN;FREQ=DAILY", "has the part 'RSCALE', which is not supported" },
        { "FREQ=DAILY;COUNT", "has an empty COUNT" },
        { "FREQ=DAILY;FREQ=WEEKLY", "has FREQ twice; keep one" },
        { "FREQ=DAILY;COUNT=2;UNTIL=20261231", "has both COUNT and UNTIL; remove one of them" },
        { "FREQ=DAILY; COUNT=2", "cannot be read; write it as FREQ=YEARLY;BYMONTH=5, without blanks" },
        { "FREQ=DAILY;COUNT=1,2", "has the COUNT '1,2'; it must be 1 to 2147483647" },
    };
    refuse_rules(rows, array_count(rows), "20260105");
    refuse(FILE(EVENT("DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=YEARLY\r\nRRULE:FREQ=DAILY\r\n")),
           "line 5: a second RRULE is not supported; give it an event of its own");
    expect(EVENT("DTSTART;VALUE=DATE:20260105\r\nRRULE:count=1;freq=daily;;wkst=su;\r\n"), "2026-01-05");
    expect(EVENT("DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=DAILY;UNTIL=2026-01-06\r\n"), "2026-01-05;2026-01-06");
}

static void a_rule_whose_parts_do_not_go_together_is_refused(void **state)
{
    (void)state;
    static const struct bad_rule rows[] = {
        { "FREQ=MONTHLY;BYDAY=6MO",
          "has a BYDAY with a number above 5, but a month has at most five of a weekday; make "
          "it 1 to 5, or -1 to -5" },
        { "FREQ=MONTHLY;BYDAY=MO,-6MO", "has a BYDAY with a number above 5" },
        { "FREQ=YEARLY;BYMONTH=5;BYDAY=6MO", "has a BYDAY with a number above 5" },
        { "FREQ=WEEKLY;BYDAY=2MO", "has a BYDAY with a number, which is for FREQ=MONTHLY and FREQ=YEARLY; remove the "
                                   "number, or change FREQ" },
        { "FREQ=DAILY;BYDAY=TU,2MO", "has a BYDAY with a number, which is for" },
        { "FREQ=YEARLY;BYWEEKNO=20;BYDAY=1MO", "has a BYDAY with a number beside BYWEEKNO; remove the number" },
        { "FREQ=MONTHLY;BYWEEKNO=1", "has a BYWEEKNO, which is for FREQ=YEARLY; remove BYWEEKNO, or change FREQ" },
        { "FREQ=WEEKLY;BYWEEKNO=1", "has a BYWEEKNO" },
        { "FREQ=DAILY;BYWEEKNO=1", "has a BYWEEKNO" },
        { "FREQ=WEEKLY;BYMONTHDAY=5", "has a BYMONTHDAY with FREQ=WEEKLY; remove BYMONTHDAY, or change FREQ to" },
        { "FREQ=DAILY;BYYEARDAY=5", "has a BYYEARDAY, which is for FREQ=YEARLY; remove BYYEARDAY, or change FREQ" },
        { "FREQ=WEEKLY;BYYEARDAY=5", "has a BYYEARDAY" },
        { "BYYEARDAY=5;FREQ=MONTHLY", "has a BYYEARDAY" },
        { "FREQ=DAILY;BYHOUR=8,9,10,11,12;BYMINUTE=0,10,20,30,40",
          "has more than 24 times a day; only its days count" },
        { "FREQ=MONTHLY;BYSETPOS=1", "has a BYSETPOS without another BY part; add one such as BYDAY, or remove it" },
        { "FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=2",
          "has a BYSETPOS with FREQ=DAILY or FREQ=WEEKLY, which is not supported" },
        { "FREQ=YEARLY;BYMONTH=1;BYYEARDAY=5", "has a BYYEARDAY beside BYMONTH" },
        { "FREQ=YEARLY;BYWEEKNO=20;BYMONTH=5", "has a BYWEEKNO beside BYMONTH" },
    };
    refuse_rules(rows, array_count(rows), "20260105");
    expect(EVENT("DTSTART;VALUE=DATE:20350101\r\nRRULE:FREQ=YEARLY;BYDAY=20MO,-53MO\r\n"), "2035-01-01;2035-05-14");
    expect(EVENT("DTSTART;VALUE=DATE:20350103\r\nRRULE:FREQ=MONTHLY;BYMONTH=4;BYDAY=5MO,-5SU\r\n"),
           "2035-04-01;2035-04-30");
    expect(EVENT("DTSTART;VALUE=DATE:20350103\r\nRRULE:FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO\r\n"), "2035-05-14");
    expect(EVENT("DTSTART;VALUE=DATE:20350103\r\nRRULE:FREQ=YEARLY;BYYEARDAY=-1\r\n"), "2035-12-31");
    expect(EVENT("DTSTART;VALUE=DATE:20351101\r\nRRULE:FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1\r\n"),
           "2035-11-27;2035-12-31");
}

static void a_rule_that_can_never_give_a_date_is_refused(void **state)
{
    (void)state;
    static const struct bad_rule rows[] = {
        { "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
          "never gives a date: no day fits all of DTSTART, BYMONTHDAY, BYMONTH; change one of them" },
        { "FREQ=YEARLY;BYMONTH=4;BYMONTHDAY=31", "never gives a date" },
        { "FREQ=MONTHLY;BYMONTH=2,4,6;BYMONTHDAY=31", "never gives a date" },
        { "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;UNTIL=20250101", "never gives a date" },
        { "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;COUNT=1", "never gives a date" },
        { "FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1;BYSETPOS=2",
          "never gives a date: no day fits all of DTSTART, BYMONTHDAY, "
          "BYMONTH, BYSETPOS; change one of them" },
        { "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29", /* 2026, 2030: no leap year */
          "never gives a date: no day fits all of DTSTART, INTERVAL, BYMONTHDAY, BYMONTH" },
        { "FREQ=MONTHLY;INTERVAL=12;BYMONTH=5", "never gives a date: no day fits all of DTSTART, INTERVAL, BYMONTH" },
    };
    static const struct bad_rule of_31st[] = {
        { "FREQ=YEARLY;BYMONTH=2", "never gives a date: no day fits all of DTSTART, BYMONTH; change one of them" },
    };
    refuse_rules(rows, array_count(rows), "20260105");
    refuse_rules(of_31st, array_count(of_31st), "20260131");
    refuse(FILE(EVENT("DTSTART:20260105T000000\r\nRRULE:FREQ=YEARLY;BYMONTH=4;BYMONTHDAY=31;BYHOUR=1,2,3\r\n")),
           "line 4: the RRULE never gives a date");
    /* Each of these would be tried on each day, for centuries. */
    refuse(FILE(EVENT("DTSTART:20260105T000000\r\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;"
                      "BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\r\n")),
           "line 4: the RRULE never gives a date");
    refuse(FILE(EVENT("DTSTART:19000105T000000\r\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU;"
                      "BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYMINUTE=0,30\r\n")),
           "line 4: the RRULE has more than 24 times a day");
}

/* It ended before the span, or its first date comes later. */
static void a_rule_that_gives_no_date_within_the_span_is_taken(void **state)
{
    (void)state;
    expect(EVENT("DTSTART;VALUE=DATE:20200501\r\nRRULE:FREQ=YEARLY;UNTIL=20220501\r\n"), "");
    expect(EVENT("DTSTART;VALUE=DATE:20200501\r\nRRULE:FREQ=YEARLY;COUNT=2\r\n"), "");
    expect(EVENT("DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=1;UNTIL=20260301\r\n"), "");
    expect(EVENT("DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=DAILY;UNTIL=20260101\r\n"), "");
    expect(EVENT("DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;UNTIL=20271231\r\n"), "");
    expect(EVENT("DTSTART;VALUE=DATE:20330101\r\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29\r\n"), "");
    expect(EVENT("DTSTART;VALUE=DATE:20330101\r\nRRULE:FREQ=MONTHLY;BYMONTH=2;BYDAY=5SU\r\n"), ""); /* in 2060 */
    expect(EVENT("DTSTART;VALUE=DATE:20500101\r\nRRULE:FREQ=YEARLY\r\n"), "");
    expect(EVENT("DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=DAILY;COUNT=1\r\nEXDATE;VALUE=DATE:20260105\r\n"), "");
    expect(EVENT("DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30\r\nSTATUS:CANCELLED\r\n"),
           "");
}

static void what_is_too_much_is_refused(void **state)
{
    (void)state;
    struct buf b = begin_large();
    for (int i = 0; i <= ICAL_EVENTS_MAX; i++)
        buf_text(&b, "BEGIN:VEVENT\nDTSTART;VALUE=DATE:20260101\nEND:VEVENT\n");
    refuse_large(&b, ERR_LIMIT, "holds more than 5000 events");
    b = begin_large();
    for (int i = 0; i < 10; i++) /* each of ten years has another set of days: more than a calendar holds */
        buf_printf(&b, "BEGIN:VEVENT\nDTSTART;VALUE=DATE:%d0101\nDURATION:P8000D\nEND:VEVENT\n", 1920 + i * 22);
    refuse_large(&b, ERR_LIMIT, "holds more than 20000 dates");
    b = begin_large();
    buf_text(&b, "BEGIN:VEVENT\nSUMMARY:");
    for (int i = 0; i < ICAL_EVENT_BYTES; i++)
        buf_char(&b, 'x');
    buf_text(&b, "\nEND:VEVENT\n");
    refuse_large(&b, ERR_INVALID, "line 2: the event is larger than 64 KiB");
    b = begin_large();
    for (int i = 0; i < ICAL_TEXT_MAX / 8; i++)
        buf_text(&b, "X-ABC:D\n");
    refuse_large(&b, ERR_LIMIT, "is larger than 4 MiB");
}

static void a_search_that_takes_too_long_ends(void **state)
{
    (void)state;
    cleanup_with(reading_release) struct reading r;
    assert_int_equal(
        read_with(&r, S(FILE(EVENT("DTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=DAILY\r\n"))), NULL, 1000000), ERR_LIMIT);
    assert_says(&r.error, "line 2: takes too long");
    cleanup_with(reading_release) struct reading slow;
    assert_int_equal(read_with(&slow, S(FILE(EVENT("DTSTART;VALUE=DATE:20260101\r\n"))), NULL, 3000000000), ERR_LIMIT);
}

static void an_arena_that_is_full_is_told(void **state)
{
    (void)state;
    struct test_clock clock = { { &clock_ops }, 0, 1 };
    struct ical_options o = { .until_day = 1, .clock = &clock.base };
    struct ical_dates dates;
    struct arena a;
    arena_init(&a, 1000);
    assert_int_equal(ical_read(S(FILE("")), &o, &a, &dates, NULL), ERR_LIMIT);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_covers_its_days),
        cmocka_unit_test(names_are_kept_and_lines_unfolded),
        cmocka_unit_test(a_long_name_is_cut_at_a_character),
        cmocka_unit_test(repeats_are_written_out_within_the_span),
        cmocka_unit_test(exceptions_additions_and_overrides_are_honoured),
        cmocka_unit_test(what_is_no_event_is_passed_over),
        cmocka_unit_test(utc_has_its_date_where_it_is_asked_for),
        cmocka_unit_test(what_can_not_be_read_is_refused_with_its_place),
        cmocka_unit_test(a_rule_with_an_impossible_part_is_refused_with_its_line),
        cmocka_unit_test(a_rule_that_can_not_be_read_is_refused_with_its_line),
        cmocka_unit_test(a_rule_whose_parts_do_not_go_together_is_refused),
        cmocka_unit_test(a_rule_that_can_never_give_a_date_is_refused),
        cmocka_unit_test(a_rule_that_gives_no_date_within_the_span_is_taken),
        cmocka_unit_test(what_is_too_much_is_refused),
        cmocka_unit_test(a_search_that_takes_too_long_ends),
        cmocka_unit_test(an_arena_that_is_full_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#pragma once
/* core/time/cron.h - cron expressions as sets of wall-clock times.
 *
 *   [second] minute hour day-of-month month day-of-week   or   @yearly @monthly @weekly @daily @midnight @hourly
 *
 *   *  a  a-b  a,b  * /n  a-b/n  a/n (from a to the end)   JAN-DEC  SUN-SAT  (7 is Sunday too)   ? (days: any)
 *   day of month: L last, L-n n before the last, nW the weekday nearest to day n, LW the last weekday
 *   day of week:  d#n the n-th such day of the month, dL the last one
 *   H  H/n  H(a-b)  H(a-b)/n   a value chosen by the task's id, the same each time
 *
 * If both day fields are restricted, a day matches if either field matches (OR), as in Vixie cron. A field that begins
 * with '*' or is '?' does not restrict; then both must match. This module does not handle zones and DST: it works in
 * local civil seconds, and core/time/recurrence.h maps them to instants. */
#include "base/buf.h"
#include "base/date.h"
#include "base/str.h"
#include "core/time/calendar.h"

enum { CRON_TEXT_MAX = 256 };

/* A parsed expression. Plain data that can be copied. */
struct cron {
    uint64_t seconds, minutes; /* bit n: value n matches */
    uint32_t hours;
    uint16_t months; /* bits 1..12 */
    /* The matching days depend only on the month's length and the weekday of its first day: days[length - 28][weekday
     * of the 1st], bit d for day d. */
    uint32_t days[4][7];
    bool has_seconds; /* written with six fields */
    /* has '*', a range or a step in its second, minute or hour: decides the default at a clock change (recurrence.h) */
    bool follows_clock;
    bool uses_hash; /* has an H */
};

/* hash chooses the values of H: equal for equal task ids. Errors are ERR_INVALID; their field is the name of the cron
 * field ("minute", "day of week") or "expression"; the sentence names the faulty character. An expression that no date
 * can match (30 February) is refused here. */
enum err cron_parse(struct str text, uint64_t hash, struct cron *ret, struct error *e) must_use;

/* The first matching second at or after `local`, or INT64_MAX if there is none until the year 2500. Years before 0 do
 * not match. */
int64_t cron_next(const struct cron *c, int64_t local);

/* Whether this day matches, and the first matching second of a day at or after `from` (0..86399), or -1. */
bool cron_matches_day(const struct cron *c, int64_t day);
int cron_next_in_day(const struct cron *c, int from);
/* How many seconds of a day match at or after `from` (0..86399), and the last of them. 0: none, *ret_last stays. */
int cron_count_in_day(const struct cron *c, int from, int *ret_last);

/* The first matching day at or after `day`, or INT64_MAX. */
int64_t cron_next_day(const struct cron *c, int64_t day);
/* As cron_next_day, but only business days of the calendar, up to `last`. */
int64_t cron_next_business_day(const struct cron *c, const struct calendar *calendar, int64_t day, int64_t last);

/* Describes an expression in plain English: "At 08:00 on Monday through Friday". The text must be valid. */
void cron_describe(struct str text, struct buf *out);

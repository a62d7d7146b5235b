#pragma once
/* base/date.h - the proleptic Gregorian calendar as arithmetic: no time zone, no clock, no library.
 *
 * - A day number counts days since 1970-01-01.
 * - A civil second counts seconds since 1970-01-01T00:00:00, with 86,400 seconds in every day. It is UTC if it was made
 *   from an instant, and local time if it was made from a time zone. */
#include <stdbool.h>
#include <stdint.h>

enum { DAY_S = 86400, HOUR_S = 3600, MINUTE_S = 60 };
#define DAY_MS 86400000LL

struct date {
    int year;  /* 1970 */
    int month; /* 1..12 */
    int day;   /* 1..31 */
};

struct civil {
    struct date date;
    int hour, minute, second;
};

int64_t day_number(struct date d); /* the day may exceed the month: 32 January is 1 February */
struct date date_of_day(int64_t day);
bool date_is_valid(struct date d); /* years 0 to 9999 */
bool is_leap_year(int year);
int days_in_month(int year, int month);
int weekday_of(int64_t day); /* 0 Sunday … 6 Saturday */

struct civil civil_of(int64_t second);
int64_t civil_second(struct civil c);

/* Division that rounds down, for times before 1970. */
static inline int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t floor_mod(int64_t a, int64_t b)
{
    return a - floor_div(a, b) * b;
}

static inline int64_t day_of_second(int64_t second)
{
    return floor_div(second, DAY_S);
}

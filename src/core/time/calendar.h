#pragma once
/* core/time/calendar.h - business calendars: which local dates are business days.
 *
 * A date in `included` is a business day. Any other date in `excluded` is not. For all other dates the weekday decides.
 * Dates are day numbers (base/date.h) without a zone: the task's zone determines the date of an instant. */
#include "base/date.h"
#include "base/str.h"

enum { CALENDAR_DATES_MAX = 20000, CALENDAR_REACH_DAYS = 370 };

struct calendar {
    const char *name;
    uint8_t excluded_weekdays;          /* bit 0 Sunday … bit 6 Saturday */
    const int32_t *excluded, *included; /* sorted, without duplicates; borrowed */
    size_t excluded_count, included_count;
    const struct str *excluded_names; /* "Christmas Day", by the index in excluded; NULL: none has a name */
};

/* What happens to an occurrence on a day that is not a business day. */
enum calendar_policy { CALENDAR_SKIP, CALENDAR_NEXT_DAY, CALENDAR_PREVIOUS_DAY };

/* Sorts in place and removes duplicates; returns the new count. */
size_t calendar_sort(int32_t *days, size_t count);

bool calendar_is_business_day(const struct calendar *c, int64_t day);

/* Why a day is not a business day, for a person: "Christmas Day", "Sunday"; empty: it is an excluded date without a
 * name, or a business day. */
struct str calendar_reason(const struct calendar *c, int64_t day);

/* The nearest business day strictly after (direction +1) or before (-1) `day`, at most CALENDAR_REACH_DAYS away. False
 * if there is none, as in a calendar that excludes every day. */
bool calendar_business_day(const struct calendar *c, int64_t day, int direction, int64_t *ret);

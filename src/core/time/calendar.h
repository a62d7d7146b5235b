#pragma once
/* core/time/calendar.h - business calendars: which local dates are business days.
 *
 * A date named in `included` is one; else a date named in `excluded` is not; else its weekday decides. Dates are day
 * numbers (base/date.h) without a zone: the task's zone says which date an instant falls on. */
#include "base/date.h"
#include "base/str.h"

enum { CALENDAR_DATES_MAX = 20000, CALENDAR_REACH_DAYS = 370 };

struct calendar {
    const char *name;
    uint8_t excluded_weekdays;          /* bit 0 Sunday … bit 6 Saturday */
    const int32_t *excluded, *included; /* sorted, without repeats; borrowed */
    size_t excluded_count, included_count;
};

/* What becomes of an occurrence on a day that is not a business day. */
enum calendar_policy { CALENDAR_SKIP, CALENDAR_NEXT_DAY, CALENDAR_PREVIOUS_DAY };

/* Sorts and removes repeats in place, for whoever fills a calendar; returns the new count. */
size_t calendar_sort(int32_t *days, size_t count);

bool calendar_is_business_day(const struct calendar *c, int64_t day);

/* The nearest business day strictly after (direction +1) or before (-1) `day`, at most CALENDAR_REACH_DAYS away; false
 * when there is none: a calendar that excludes everything moves nothing anywhere. */
bool calendar_business_day(const struct calendar *c, int64_t day, int direction, int64_t *ret);

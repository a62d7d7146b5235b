#pragma once
/* core/time/calendar.h - business calendars: which local dates are business days.
 *
 * A date in `included` is a business day. Any other date in `excluded` is not. For all other dates the weekday decides.
 * Dates are day numbers (base/date.h) without a zone: the task's zone determines the date of an instant. */
#include "base/date.h"
#include "base/str.h"

enum { CALENDAR_DATES_MAX = 20000, CALENDAR_REACH_DAYS = 370 };

/* A word says of 64 days which are business days: bit b of word w is day 64 * w + b. The words of a calendar cover 1969
 * to 2202, so that a search passes over closed years in a microsecond. */
enum { CALENDAR_WORD_DAYS = 64, CALENDAR_WORD_FIRST = -16, CALENDAR_WORDS = 1352 };

struct calendar {
    const char *name;
    uint8_t excluded_weekdays;          /* bit 0 Sunday … bit 6 Saturday */
    const int32_t *excluded, *included; /* sorted, without duplicates; borrowed */
    size_t excluded_count, included_count;
    const struct str *excluded_names; /* "Christmas Day", by the index in excluded; NULL: none has a name */
    const uint64_t *words;            /* of calendar_fill_words, borrowed; NULL: they are computed each time */
};

/* What happens to an occurrence on a day that is not a business day. */
enum calendar_policy { CALENDAR_SKIP, CALENDAR_NEXT_DAY, CALENDAR_PREVIOUS_DAY };

/* Sorts in place and removes duplicates; returns the new count. */
size_t calendar_sort(int32_t *days, size_t count);

/* Computes all words of the calendar, for its member `words`. */
void calendar_fill_words(const struct calendar *c, uint64_t words[CALENDAR_WORDS]);

bool calendar_is_business_day(const struct calendar *c, int64_t day);

/* The 64 days from `first` on: bit b is set if first + b is a business day. */
uint64_t calendar_business_days(const struct calendar *c, int64_t first);

/* The first business day at or after `day`, up to `last`; INT64_MAX: there is none. */
int64_t calendar_first_from(const struct calendar *c, int64_t day, int64_t last);
/* The last business day at or before `day`, down to `first`; INT64_MIN: there is none. */
int64_t calendar_last_until(const struct calendar *c, int64_t day, int64_t first);

/* Why a day is not a business day, for a person: "Christmas Day", "Sunday"; empty: it is an excluded date without a
 * name, or a business day. */
struct str calendar_reason(const struct calendar *c, int64_t day);

/* The nearest business day strictly after (direction +1) or before (-1) `day`, at most CALENDAR_REACH_DAYS away. False
 * if there is none, as in a calendar that excludes every day. */
bool calendar_business_day(const struct calendar *c, int64_t day, int direction, int64_t *ret);

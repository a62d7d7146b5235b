#pragma once
/* core/time/recurrence_internal.h - what recurrence.c and recurrence_skips.c share: the rule in local time, steps of
 * intervals, and conversions. */
#include "core/time/recurrence.h"

#define NONE INT64_MAX

/* A wall-clock second, and the second that the rule named before the calendar moved it. */
struct recurrence_hit {
    int64_t local; /* NONE: there is none */
    int64_t nominal;
};

int64_t recurrence_ceil_seconds(int64_t ms);
bool recurrence_is_business_day(const struct recurrence *r, int64_t day);
/* Of a cron rule with a calendar: the first day in [day, last] on which the rule fires, and the day that the rule
 * itself named. */
int64_t recurrence_next_day(const struct recurrence *r, int64_t day, int64_t last, int64_t *ret_nominal);
struct recurrence_hit recurrence_next_local(const struct recurrence *r, int64_t local, int64_t until);
bool recurrence_shifts_out_of_gaps(const struct recurrence *r);
enum dst_repeat recurrence_repeat_policy(const struct recurrence *r);
int64_t recurrence_next_step(const struct recurrence *r, int64_t from_ms); /* start + k·interval at or after from_ms */
int64_t recurrence_local_ms(const struct recurrence *r, int64_t ms);
int64_t recurrence_instant_of_local_ms(const struct recurrence *r, int64_t local);
int64_t recurrence_day_begins_ms(const struct recurrence *r, int64_t day);
/* The first occurrence that fires in [from_ms, until_ms), without the spread. */
bool recurrence_next_scheduled(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret);

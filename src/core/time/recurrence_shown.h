#pragma once
/* core/time/recurrence_shown.h - the times of a rule as people are shown them: fires, and why times before them do not
 * fire. */
#include "core/time/recurrence.h"

/* As recurrence_next_or_skip, but the times of one excluded day are one entry with their number (count, last_ms), from
 * from_ms on, also if some of the day are before it; and so are times that were moved to another one. occurrence_behind
 * is the from_ms for the next entry. */
bool recurrence_next_shown(const struct recurrence *r, int64_t from_ms, struct occurrence *ret);

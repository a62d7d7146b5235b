/* Both lists are sorted sets of day numbers, so membership is a binary search. */
#include "core/time/calendar.h"

#include <assert.h>
#include <stdlib.h>

static int calendar_compare_days(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

size_t calendar_sort(int32_t *days, size_t count)
{
    if (count < 2)
        return count;
    qsort(days, count, sizeof *days, calendar_compare_days);
    size_t kept = 1;
    for (size_t i = 1; i < count; i++)
        if (days[i] != days[kept - 1])
            days[kept++] = days[i];
    return kept;
}

/* The index of the day; count: it is not there. */
static size_t calendar_find(const int32_t *days, size_t count, int64_t day)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (days[middle] < day)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && days[low] == day ? low : count;
}

static bool calendar_contains(const int32_t *days, size_t count, int64_t day)
{
    return calendar_find(days, count, day) < count;
}

bool calendar_is_business_day(const struct calendar *c, int64_t day)
{
    if (calendar_contains(c->included, c->included_count, day))
        return true;
    if (c->excluded_weekdays >> weekday_of(day) & 1)
        return false;
    return !calendar_contains(c->excluded, c->excluded_count, day);
}

struct str calendar_reason(const struct calendar *c, int64_t day)
{
    static const char *const names[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" };
    if (calendar_is_business_day(c, day))
        return S("");
    size_t at = calendar_find(c->excluded, c->excluded_count, day);
    if (at < c->excluded_count)
        return c->excluded_names ? c->excluded_names[at] : S("");
    return str_from(names[weekday_of(day)]);
}

bool calendar_business_day(const struct calendar *c, int64_t day, int direction, int64_t *ret)
{
    assert(direction == 1 || direction == -1);
    for (int i = 1; i <= CALENDAR_REACH_DAYS; i++) {
        if (calendar_is_business_day(c, day + (int64_t)i * direction)) {
            *ret = day + (int64_t)i * direction;
            return true;
        }
    }
    return false;
}

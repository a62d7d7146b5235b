/* Searches go by words of 64 days, so their cost depends on the distance only, and little. A word is computed from the
 * weekdays and from the few dates of each list that a binary search finds. */
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

/* The index of the first date at or after the day. */
static size_t calendar_lower_bound(const int32_t *days, size_t count, int64_t day)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (days[middle] < day)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- words ---- */

static uint64_t calendar_word_of_dates(const int32_t *days, size_t count, int64_t first)
{
    uint64_t set = 0;
    for (size_t i = calendar_lower_bound(days, count, first); i < count && days[i] < first + CALENDAR_WORD_DAYS; i++)
        set |= 1ULL << (days[i] - first);
    return set;
}

static uint64_t calendar_word_of_weekdays(uint8_t weekdays, int64_t first)
{
    const uint64_t weekly = 0x8102040810204081ULL; /* bits 0, 7, 14 … 63 */
    uint64_t set = 0;
    int weekday = weekday_of(first);
    for (int i = 0; i < 7; i++)
        if (weekdays >> (weekday + i) % 7 & 1)
            set |= weekly << i;
    return set;
}

static uint64_t calendar_compute_word(const struct calendar *c, int64_t word)
{
    int64_t first = word * CALENDAR_WORD_DAYS;
    uint64_t closed = calendar_word_of_weekdays(c->excluded_weekdays, first) |
                      calendar_word_of_dates(c->excluded, c->excluded_count, first);
    return ~closed | calendar_word_of_dates(c->included, c->included_count, first);
}

void calendar_fill_words(const struct calendar *c, uint64_t words[CALENDAR_WORDS])
{
    for (int i = 0; i < CALENDAR_WORDS; i++)
        words[i] = calendar_compute_word(c, CALENDAR_WORD_FIRST + i);
}

static uint64_t calendar_word(const struct calendar *c, int64_t word)
{
    if (c->words && word >= CALENDAR_WORD_FIRST && word < CALENDAR_WORD_FIRST + CALENDAR_WORDS)
        return c->words[word - CALENDAR_WORD_FIRST];
    return calendar_compute_word(c, word);
}

/* ---- days ---- */

bool calendar_is_business_day(const struct calendar *c, int64_t day)
{
    int64_t word = floor_div(day, CALENDAR_WORD_DAYS);
    return calendar_word(c, word) >> (day - word * CALENDAR_WORD_DAYS) & 1;
}

uint64_t calendar_business_days(const struct calendar *c, int64_t first)
{
    int64_t word = floor_div(first, CALENDAR_WORD_DAYS), bit = first - word * CALENDAR_WORD_DAYS;
    uint64_t days = calendar_word(c, word) >> bit;
    return bit ? days | calendar_word(c, word + 1) << (CALENDAR_WORD_DAYS - bit) : days;
}

int64_t calendar_first_from(const struct calendar *c, int64_t day, int64_t last)
{
    int64_t word = floor_div(day, CALENDAR_WORD_DAYS);
    uint64_t days = calendar_word(c, word) & ~0ULL << (day - word * CALENDAR_WORD_DAYS);
    while (!days) {
        if (++word * CALENDAR_WORD_DAYS > last)
            return INT64_MAX;
        days = calendar_word(c, word);
    }
    int64_t found = word * CALENDAR_WORD_DAYS + __builtin_ctzll(days);
    return found <= last ? found : INT64_MAX;
}

int64_t calendar_last_until(const struct calendar *c, int64_t day, int64_t first)
{
    enum { HIGHEST = CALENDAR_WORD_DAYS - 1 };
    int64_t word = floor_div(day, CALENDAR_WORD_DAYS);
    uint64_t days = calendar_word(c, word) & ~0ULL >> (HIGHEST - (day - word * CALENDAR_WORD_DAYS));
    while (!days) {
        if (--word * CALENDAR_WORD_DAYS + HIGHEST < first)
            return INT64_MIN;
        days = calendar_word(c, word);
    }
    int64_t found = word * CALENDAR_WORD_DAYS + HIGHEST - __builtin_clzll(days);
    return found >= first ? found : INT64_MIN;
}

struct str calendar_reason(const struct calendar *c, int64_t day)
{
    static const char *const names[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" };
    if (calendar_is_business_day(c, day))
        return S("");
    size_t at = calendar_lower_bound(c->excluded, c->excluded_count, day);
    if (at < c->excluded_count && c->excluded[at] == day)
        return c->excluded_names ? c->excluded_names[at] : S("");
    return str_from(names[weekday_of(day)]);
}

bool calendar_business_day(const struct calendar *c, int64_t day, int direction, int64_t *ret)
{
    assert(direction == 1 || direction == -1);
    int64_t found = direction > 0 ? calendar_first_from(c, day + 1, day + CALENDAR_REACH_DAYS)
                                  : calendar_last_until(c, day - 1, day - CALENDAR_REACH_DAYS);
    if (found == INT64_MAX || found == INT64_MIN)
        return false;
    *ret = found;
    return true;
}

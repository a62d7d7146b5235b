/* An iCalendar file of any kind. If it is accepted, its dates are sorted, unique and within limits. If it is refused,
 * the error has a sentence. */
#include <stdlib.h>

#include "port/ical.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static int64_t passing_ns; /* each reading advances the clock, so that the time limit is reached, too */

static int64_t wall_us(struct clock *c)
{
    (void)c;
    return 0;
}

static int64_t steady_ns(struct clock *c)
{
    (void)c;
    return passing_ns += 20000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct clock_ops ops = { .wall_us = wall_us, .steady_ns = steady_ns };
    struct clock clock = { &ops };
    struct ical_options o = { .from_day = 20000, .until_day = 24000, .clock = &clock };
    struct ical_dates dates = { 0 };
    struct error e = { 0 };
    struct arena a;
    arena_init(&a, 64 << 20);
    if (ical_read((struct str){ (const char *)data, size }, &o, &a, &dates, &e)) {
        require(e.code != ERR_OK && e.text[0]);
    } else {
        require(dates.n <= CALENDAR_DATES_MAX && dates.name.n <= CALENDAR_TEXT_MAX);
        for (size_t i = 0; i < dates.n; i++) {
            require(i == 0 || dates.v[i].day > dates.v[i - 1].day);
            require(dates.v[i].name.n <= CALENDAR_TEXT_MAX && str_is_utf8(dates.v[i].name));
        }
    }
    arena_release(&a);
    return 0;
}

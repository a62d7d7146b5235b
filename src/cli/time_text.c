#include "cli/time_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/date.h"
#include "base/duration.h"
#include "base/rfc3339.h"

enum { NOW_MS = 500, SECOND_MS = 1000, TENTH_MS = 100 };

/* Rounds a duration down to its two largest units: seconds below 1 h, minutes below 1 day, hours below 30 days, days
 * above. */
static int64_t time_text_round_down(int64_t ms)
{
    static const struct {
        int64_t below_ms, unit_ms;
    } steps[] = {
        { SECOND_MS * HOUR_S, SECOND_MS },
        { DAY_MS, SECOND_MS * MINUTE_S },
        { 30 * DAY_MS, SECOND_MS * HOUR_S },
    };
    for (size_t i = 0; i < array_count(steps); i++)
        if (ms < steps[i].below_ms)
            return ms - ms % steps[i].unit_ms;
    return ms - ms % DAY_MS;
}

void time_text_relative(int64_t at_ms, int64_t now_ms, char out[TIME_TEXT])
{
    bool is_past = at_ms < now_ms;
    int64_t distance = is_past ? now_ms - at_ms : at_ms - now_ms;
    if (distance < NOW_MS) {
        snprintf(out, TIME_TEXT, "now");
        return;
    }
    char span[DURATION_TEXT];
    duration_format(time_text_round_down(max_of(distance, (int64_t)SECOND_MS)), span);
    snprintf(out, TIME_TEXT, "%s%s%s", is_past ? "" : "in ", span, is_past ? " ago" : "");
}

void time_text_utc(int64_t ms, char out[TIME_TEXT])
{
    char text[RFC3339_TEXT + 1];
    rfc3339_format(ms, text); /* 2026-02-10T08:00:00.000Z */
    bool has_millis = floor_mod(ms, SECOND_MS) != 0;
    snprintf(out, TIME_TEXT, "%.10s %.*sZ", text, has_millis ? 12 : 8, text + 11);
}

void time_text_wall(int64_t local, int millis, const char *zone, char out[TIME_TEXT])
{
    static const char *const weekdays[] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    struct civil c = civil_of(local);
    char fraction[8] = "";
    if (millis)
        snprintf(fraction, sizeof fraction, ".%03d", millis);
    snprintf(out, TIME_TEXT, "%s %04d-%02d-%02d %02d:%02d:%02d%s%s%s", weekdays[weekday_of(day_of_second(local))],
             c.date.year, c.date.month, c.date.day, c.hour, c.minute, c.second, fraction, zone[0] ? " " : "", zone);
}

void time_text_local(const struct tz *zone, int64_t ms, char out[TIME_TEXT])
{
    int64_t second = floor_div(ms, SECOND_MS);
    struct tz_span span = tz_span_at(zone, second);
    time_text_wall(second + span.offset_s, (int)floor_mod(ms, SECOND_MS), span.abbreviation, out);
}

void time_text_took(int64_t ms, char out[TIME_TEXT])
{
    char span[DURATION_TEXT];
    if (ms >= SECOND_MS && ms < SECOND_MS * MINUTE_S) {
        snprintf(out, TIME_TEXT, "%lld.%llds", (long long)(ms / SECOND_MS), (long long)(ms % SECOND_MS / TENTH_MS));
        return;
    }
    duration_format(ms < SECOND_MS ? max_of(ms, (int64_t)0) : time_text_round_down(ms), span);
    snprintf(out, TIME_TEXT, "%s", ms <= 0 ? "0ms" : span);
}

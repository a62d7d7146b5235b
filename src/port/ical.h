#pragma once
/* port/ical.h - reads the dates and their names from an iCalendar file (RFC 5545), for business calendars.
 *
 * Each VEVENT stands for the dates that it covers, as written, in the event's own zone. Repeats (RRULE by day, week,
 * month or year) are expanded within a span. RDATE, EXDATE and RECURRENCE-ID are applied; cancelled events are left
 * out. Everything else in the file is skipped. The file is not trusted: its cost in memory and time is bounded. */
#include "core/time/calendar_json.h"
#include "core/time/tz.h"
#include "port/clock.h"

enum {
    ICAL_TEXT_MAX = 4 << 20,
    ICAL_EVENTS_MAX = 5000,
    ICAL_EVENT_BYTES = 64 << 10, /* of one event, without skipped lines */
    ICAL_TIME_MAX_MS = 2000,     /* a rule without dates would be searched for long */
    ICAL_FIRST_YEAR = 1900,
    ICAL_LAST_YEAR = 2200,
};

struct ical_options {
    int32_t from_day, until_day; /* repeats: [from, until) */
    const struct tz *zone;       /* the zone in which an event given in UTC has its date; NULL: UTC */
    struct clock *clock;
};

struct ical_dates {
    struct str name; /* X-WR-CALNAME; empty: none */
    struct calendar_date *v;
    size_t n; /* by date, each once, at most CALENDAR_DATES_MAX */
};

/* Results are in the arena. The sentence of an error names the line: that of the RRULE, or that of the event and its
 * SUMMARY. */
enum err ical_read(struct str text, const struct ical_options *o, struct arena *a, struct ical_dates *ret,
                   struct error *e) must_use;

#pragma once
/* port/ical.h - an iCalendar file (RFC 5545) as what a business calendar wants of it: dates and their names.
 *
 * Every VEVENT stands for the dates that it covers: the date that is written there, in the event's own zone. Repeats (RRULE by day, week,
 * month or year) are written out within a span; RDATE, EXDATE and RECURRENCE-ID are honoured, cancelled events are left out; all else
 * in the file is passed over. The file is a stranger's: what it may cost in memory and time is bounded. */
#include "core/time/calendar_json.h"
#include "core/time/tz.h"
#include "port/clock.h"

enum {
    ICAL_TEXT_MAX = 4 << 20,
    ICAL_EVENTS_MAX = 5000,
    ICAL_EVENT_BYTES = 64 << 10, /* of one event, without what we pass over */
    ICAL_TIME_MAX_MS = 2000,     /* a rule whose dates never come is searched for long */
    ICAL_FIRST_YEAR = 1900,
    ICAL_LAST_YEAR = 2200,
};

struct ical_options {
    int32_t from_day, until_day; /* repeats: [from, until) */
    const struct tz *zone;       /* where an event that is given in UTC has its date; NULL: in UTC */
    struct clock *clock;
};

struct ical_dates {
    struct str name; /* X-WR-CALNAME; empty: none */
    struct calendar_date *v;
    size_t n; /* by date, each once, at most CALENDAR_DATES_MAX */
};

/* Everything lives in the arena. The sentence names the event, by its SUMMARY and its line. */
enum err ical_read(struct str text, const struct ical_options *o, struct arena *a, struct ical_dates *ret,
                   struct error *e) must_use;

#pragma once
/* core/time/recurrence.h - when a recurring task fires: a rule, laid on the time line of its zone.
 *
 * Pure: the same rule and the same question give the same answer, whoever asks. Times are milliseconds since 1970 UTC;
 * rules are exact from 1970 to 2200 and stop firing at RECURRENCE_END_MS.
 *
 *  - interval: occurrence k is start + k·interval, exactly: it never drifts, whatever the zone does;
 *  - cron: keeps its local time; at a change of the clock `gap` and `repeat` say what happens. By default as Vixie cron
 *    does: an expression fixed in its time of day shifts to the first valid instant after the gap and fires in the
 *    first copy of a repeat; one that follows the clock fires not at all in a gap and in both copies of a repeat;
 *  - calendar: an occurrence on an excluded local date is skipped, or moved to the next or previous business day at the
 *    same local time; what is moved onto another occurrence is one fire;
 *  - spread: each fire is later by an offset in [0, spread) that depends on the task alone. */
#include "core/time/calendar.h"
#include "core/time/cron.h"
#include "core/time/tz.h"

#define RECURRENCE_END_MS 7289654400000LL /* 2201-01-01T00:00:00Z */

enum dst_gap { DST_GAP_DEFAULT, DST_GAP_SHIFT, DST_GAP_SKIP };
enum dst_repeat { DST_REPEAT_DEFAULT, DST_REPEAT_FIRST, DST_REPEAT_LAST, DST_REPEAT_BOTH };

struct recurrence {
    enum { RECUR_INTERVAL, RECUR_CRON } kind;
    int64_t interval_ms; /* RECUR_INTERVAL */
    struct cron cron;    /* RECUR_CRON */
    const struct tz *zone;
    enum dst_gap gap;
    enum dst_repeat repeat;
    const struct calendar *calendar; /* NULL: every day is a business day */
    enum calendar_policy calendar_policy;
    int64_t start_ms;  /* no occurrence before it; an interval's anchor */
    int64_t end_ms;    /* none after it; INT64_MAX: no end */
    int64_t spread_ms; /* 0: none */
    uint64_t hash;     /* of the task's id: its place within the spread */
};

/* Why an occurrence is not simply where the rule says. A fire may carry several. */
enum occurrence_note {
    NOTE_GAP_SHIFTED = 1 << 0, /* its local time does not exist that day: fires when the gap ends */
    NOTE_FIRST_COPY = 1 << 1,  /* its local time comes twice; this is the first */
    NOTE_SECOND_COPY = 1 << 2,
    NOTE_MOVED = 1 << 3, /* from an excluded day, `nominal_day` */
    NOTE_SPREAD = 1 << 4,
    NOTE_GAP_SKIPPED = 1 << 5,  /* not a fire: its local time does not exist */
    NOTE_DAY_EXCLUDED = 1 << 6, /* not a fire: its day is excluded */
};

struct occurrence {
    int64_t at_ms;         /* when it fires: with the spread */
    int64_t scheduled_ms;  /* the same without the spread */
    int64_t nominal_local; /* the wall-clock second that the rule names, before any shift or move */
    unsigned notes;        /* enum occurrence_note */
    bool fires;            /* false: skipped, for the reason in notes */
};

/* The first fire with at_ms >= from_ms; false when there is none. */
bool recurrence_next(const struct recurrence *r, int64_t from_ms, struct occurrence *ret);

/* As recurrence_next, but skipped occurrences are answered too: one for each skipped day or gap, not for each second
 * of it, in its place among the fires. For previews and for listing what was not run. */
bool recurrence_next_or_skip(const struct recurrence *r, int64_t from_ms, struct occurrence *ret);

/* Fires with from_ms <= at_ms < until_ms, at most max of them, into ret; returns how many. Ask again from one
 * millisecond after the last for the rest. */
size_t recurrence_between(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret,
                          size_t max);

/* The offset within the spread window, in milliseconds. */
int64_t recurrence_spread(const struct recurrence *r);

/* The notes as a sentence for a person, "" when there are none. */
void occurrence_explain(const struct recurrence *r, const struct occurrence *o, struct buf *out);

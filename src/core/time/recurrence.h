#pragma once
/* core/time/recurrence.h - when a recurring task fires: a rule, applied in its time zone.
 *
 * Pure: the same rule and the same arguments give the same answer on every node. Times are milliseconds since 1970 UTC.
 * Rules are exact from 1970 to 2200 and stop firing at RECURRENCE_END_MS.
 *
 * - interval: occurrence k is exactly start + k·interval. It never drifts, whatever the zone does.
 * - cron: keeps its local time. At a clock change `gap` and `repeat` decide. The defaults are those of Vixie cron: an
 *   expression with a fixed time of day shifts to the first valid instant after a gap and fires in the first copy of a
 *   repeat; an expression with '*', a range or a step in its time does not fire in a gap and fires in both copies of a
 *   repeat.
 * - calendar: an occurrence on an excluded local date is skipped, or moved to the next or previous business day at the
 *   same local time. If it is moved onto another occurrence, the two fire once.
 * - spread: each occurrence is delayed by an offset in [0, spread) that depends on the task alone. */
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
    int64_t start_ms;  /* no occurrence before it; the anchor of an interval */
    int64_t end_ms;    /* no occurrence after it; INT64_MAX: no end */
    int64_t spread_ms; /* 0: none */
    uint64_t hash;     /* of the task's id: determines its offset within the spread */
};

/* Why an occurrence is not at the time that the rule names. An occurrence may have several notes. */
enum occurrence_note {
    NOTE_GAP_SHIFTED = 1 << 0, /* its local time does not exist that day: fires at the end of the gap */
    NOTE_FIRST_COPY = 1 << 1,  /* its local time comes twice; this is the first */
    NOTE_SECOND_COPY = 1 << 2,
    NOTE_MOVED = 1 << 3, /* moved from an excluded day, given by `nominal_local` */
    NOTE_SPREAD = 1 << 4,
    NOTE_GAP_SKIPPED = 1 << 5,  /* does not fire: its local time does not exist */
    NOTE_DAY_EXCLUDED = 1 << 6, /* does not fire: its day is excluded */
    NOTE_COPY_SKIPPED = 1 << 7, /* does not fire: its local time comes twice, and the other one fires */
    NOTE_MERGED = 1 << 8,       /* does not fire of its own: moved to a time at which another one fires */
};

struct occurrence {
    int64_t at_ms;         /* when it fires, with the spread */
    int64_t scheduled_ms;  /* the same without the spread */
    int64_t nominal_local; /* the wall-clock second that the rule names, before any shift or move */
    unsigned notes;        /* enum occurrence_note */
    bool fires;            /* false: skipped, for the reason in notes */
    /* Only of recurrence_next_entry, if it does not fire: the run of skipped times goes up to last_ms. */
    int64_t last_ms, count;
};

/* Finds the first occurrence that fires with at_ms >= from_ms; false if there is none. */
bool recurrence_next(const struct recurrence *r, int64_t from_ms, struct occurrence *ret);
/* As recurrence_next, with at_ms < until_ms. The search does not go further. */
bool recurrence_next_before(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret);

/* As recurrence_next, but returns skipped occurrences, too, in order: one for each skipped day or gap, not one for each
 * second of it. For previews and for listing what was not run. */
bool recurrence_next_or_skip(const struct recurrence *r, int64_t from_ms, struct occurrence *ret);

/* Every time that the rule names, once: the first entry with from_ms <= at_ms < until_ms. An entry is an occurrence
 * that fires, or a run of times that do not, all for the same reason: those of one excluded day, one gap or one repeat.
 * A time that was moved is the occurrence that fires elsewhere, and has no entry of its own. The times of a gap have
 * the millisecond before the change. */
bool recurrence_next_entry(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret);
/* How far a run of times that do not fire, which recurrence_next_entry found from first_ms on (scheduled_ms), goes
 * before until_ms. excluded: the calendar left the run out. The calendar of the rule does not count, so it may have
 * changed since. False: it finds no such run. */
bool recurrence_run_before(const struct recurrence *r, int64_t first_ms, int64_t until_ms, bool excluded,
                           struct occurrence *ret);
int64_t occurrence_behind(const struct recurrence *r, const struct occurrence *o); /* from_ms for the next entry */

/* The offset within the spread window, in milliseconds. */
int64_t recurrence_spread(const struct recurrence *r);

/* Writes the notes as a sentence for a person; "" if there are none. */
void occurrence_explain(const struct recurrence *r, const struct occurrence *o, struct buf *out);

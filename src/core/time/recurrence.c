/* Three layers, each built on the previous one:
 * 1. The rule in local time: recurrence_next_local returns the next wall-clock second of a cron rule with the
 *   calendar applied. A calendar moves whole days, and the times of day are the same on each day, so it only changes
 *   which days match.
 * 2. The time line: recurrence_next_cron walks the zone's spans, in each of which local time is UTC plus a constant,
 *   and handles gaps and repeats at their borders.
 * 3. Start, end and spread, which are the same for every kind of rule.
 *
 * Intervals are instants from the start; only the calendar applies to them.
 *
 * A search passes over closed days and over clock changes without a hit at once: a calendar may be closed for a
 * century, and every request that shows a task searches. A search that needs only what comes before a time stops
 * there. */
#include "core/time/recurrence_internal.h"

#include <assert.h>
#include <stdlib.h>

/* No clock change is much larger than a day: further than this from a border, local times are unique. */
enum { BORDER_S = 2 * DAY_S };

/* More than two local times of one instant can differ. */
enum { OFFSETS_S = 3 * DAY_S };

static const int64_t END_DAY = RECURRENCE_END_MS / DAY_MS;

int64_t recurrence_ceil_seconds(int64_t ms)
{
    return -floor_div(-ms, 1000);
}

/* ---- 1. local time: days, then seconds ---- */

bool recurrence_is_business_day(const struct recurrence *r, int64_t day)
{
    return !r->calendar || calendar_is_business_day(r->calendar, day);
}

/* The last local day that begins before the instant. */
static int64_t recurrence_last_day(int64_t until_ms)
{
    return min_of(END_DAY, floor_div(until_ms, DAY_MS) + 1 + OFFSETS_S / DAY_S);
}

/* Excluded days move forward to the next business day. Moves keep the order of days. So the first occurrence that
 * arrives at or after `day` comes from the first nominal day, counted from the excluded days right before the business
 * day. Nominal days from which no business day is within reach have no occurrence. */
static int64_t recurrence_next_day_moved_forward(const struct recurrence *r, int64_t day, int64_t last,
                                                 int64_t *ret_nominal)
{
    for (int64_t nominal;; day = nominal) {
        int64_t target = calendar_first_from(r->calendar, day, last);
        if (target == NONE)
            return NONE;
        int64_t reach = target - CALENDAR_REACH_DAYS, before = calendar_last_until(r->calendar, target - 1, reach);
        nominal = cron_next_day(&r->cron, before == INT64_MIN ? reach : before + 1);
        if (nominal > END_DAY)
            return NONE;
        if (nominal > target)
            continue;
        *ret_nominal = cron_matches_day(&r->cron, target) ? target : nominal;
        return target;
    }
}

static int64_t recurrence_next_day_moved_back(const struct recurrence *r, int64_t day, int64_t last,
                                              int64_t *ret_nominal)
{
    for (int64_t from = day; from <= last;) {
        int64_t nominal = cron_next_day(&r->cron, from);
        if (nominal > END_DAY)
            return NONE;
        int64_t target = calendar_last_until(r->calendar, nominal, max_of(day, nominal - CALENDAR_REACH_DAYS));
        if (target > last)
            return NONE;
        if (target != INT64_MIN) {
            *ret_nominal = cron_matches_day(&r->cron, target) ? target : nominal;
            return target;
        }
        from = calendar_first_from(r->calendar, nominal, END_DAY);
    }
    return NONE;
}

int64_t recurrence_next_day(const struct recurrence *r, int64_t day, int64_t last, int64_t *ret_nominal)
{
    assert(r->calendar);
    if (r->calendar_policy == CALENDAR_NEXT_DAY)
        return recurrence_next_day_moved_forward(r, day, min_of(last, END_DAY + CALENDAR_REACH_DAYS), ret_nominal);
    if (r->calendar_policy == CALENDAR_PREVIOUS_DAY)
        return recurrence_next_day_moved_back(r, day, last, ret_nominal);
    return *ret_nominal = cron_next_business_day(&r->cron, r->calendar, day, min_of(last, END_DAY));
}

struct recurrence_hit recurrence_next_local(const struct recurrence *r, int64_t local, int64_t until)
{
    const struct recurrence_hit none = { NONE, NONE };
    if (!r->calendar) {
        int64_t at = cron_next(&r->cron, local);
        return at < until ? (struct recurrence_hit){ at, at } : none;
    }
    int64_t from_day = day_of_second(local), last = day_of_second(until - 1), nominal;
    int64_t day = recurrence_next_day(r, from_day, last, &nominal);
    int second = day == NONE ? -1 : cron_next_in_day(&r->cron, day == from_day ? (int)(local - day * DAY_S) : 0);
    if (second < 0 && day != NONE) {
        day = recurrence_next_day(r, from_day + 1, last, &nominal);
        second = cron_next_in_day(&r->cron, 0);
    }
    if (day == NONE || day * DAY_S + second >= until)
        return none;
    return (struct recurrence_hit){ day * DAY_S + second, nominal * DAY_S + second };
}

/* ---- 2. the time line ---- */

bool recurrence_shifts_out_of_gaps(const struct recurrence *r)
{
    return r->gap == DST_GAP_SHIFT || (r->gap == DST_GAP_DEFAULT && !r->cron.follows_clock);
}

enum dst_repeat recurrence_repeat_policy(const struct recurrence *r)
{
    if (r->repeat != DST_REPEAT_DEFAULT)
        return r->repeat;
    return r->cron.follows_clock ? DST_REPEAT_BOTH : DST_REPEAT_FIRST;
}

/* Returns the first second that the rule names inside the gap at the span's start; NONE if there is no gap or no such
 * second. */
static struct recurrence_hit recurrence_hit_in_gap(const struct recurrence *r, const struct tz_span *span)
{
    if (span->offset_s <= span->offset_before_s || span->from == INT64_MIN)
        return (struct recurrence_hit){ NONE, NONE };
    return recurrence_next_local(r, span->from + span->offset_before_s, span->from + span->offset_s);
}

static unsigned recurrence_copy_note(const struct recurrence *r, const struct tz_span *span, int64_t at, int64_t local)
{
    if (at - BORDER_S > span->from && at < span->until - BORDER_S)
        return 0;
    struct tz_instants i = tz_instants_of(r->zone, local);
    if (i.kind != TZ_REPEAT)
        return 0;
    return at == i.first ? NOTE_FIRST_COPY : NOTE_SECOND_COPY;
}

static bool recurrence_copy_is_wanted(const struct recurrence *r, unsigned note)
{
    enum dst_repeat policy = recurrence_repeat_policy(r);
    return note == 0 || policy == DST_REPEAT_BOTH || (note == NOTE_FIRST_COPY) == (policy == DST_REPEAT_FIRST);
}

static void recurrence_set_cron_occurrence(struct occurrence *o, int64_t at_s, struct recurrence_hit h, unsigned notes)
{
    if (day_of_second(h.local) != day_of_second(h.nominal))
        notes |= NOTE_MOVED;
    *o = (struct occurrence){
        .at_ms = at_s * 1000, .scheduled_ms = at_s * 1000, .nominal_local = h.nominal, .notes = notes, .fires = true
    };
}

/* Returns where the search continues after an unwanted copy: after the whole repeated period, not after this second. */
static int64_t recurrence_after_unwanted_copy(const struct tz_span *span, unsigned note, int64_t at)
{
    if (note == NOTE_FIRST_COPY)
        return span->until;
    int64_t repeat_ends = span->from + (span->offset_before_s - span->offset_s);
    return at < repeat_ends && repeat_ends < span->until ? repeat_ends : at + 1;
}

/* Returns where the search continues if the next hit after t is behind the span's end, or NONE. If t is not close to
 * that end, the clock shows only later times from then on, so nothing happens until shortly before the hit. */
static int64_t recurrence_after_span(const struct tz_span *span, int64_t t, int64_t hit)
{
    if (span->until != INT64_MAX && t + OFFSETS_S >= span->until)
        return span->until;
    return hit == NONE ? NONE : max_of(span->until, hit - OFFSETS_S);
}

/* Finds the first cron occurrence at or after the instant t, in seconds; those at or after until_ms may be missed. */
static bool recurrence_next_cron(const struct recurrence *r, int64_t t, int64_t until_ms, struct occurrence *ret)
{
    int64_t local_end = (recurrence_last_day(until_ms) + 1) * DAY_S;
    if (until_ms >= RECURRENCE_END_MS)
        local_end = NONE;
    while (t < RECURRENCE_END_MS / 1000) {
        struct tz_span span = tz_span_at(r->zone, t);
        if (t == span.from && recurrence_shifts_out_of_gaps(r)) {
            struct recurrence_hit h = recurrence_hit_in_gap(r, &span);
            if (h.local != NONE) {
                recurrence_set_cron_occurrence(ret, t, h, NOTE_GAP_SHIFTED);
                return true;
            }
        }
        struct recurrence_hit h = recurrence_next_local(r, t + span.offset_s, local_end);
        int64_t at = h.local == NONE ? NONE : h.local - span.offset_s;
        if (at >= span.until) {
            t = recurrence_after_span(&span, t, h.local);
            continue;
        }
        unsigned note = recurrence_copy_note(r, &span, at, h.local);
        if (recurrence_copy_is_wanted(r, note)) {
            recurrence_set_cron_occurrence(ret, at, h, note);
            return at < RECURRENCE_END_MS / 1000;
        }
        t = recurrence_after_unwanted_copy(&span, note, at);
    }
    return false;
}

/* ---- intervals ---- */

/* Returns the first start + k·interval at or after from_ms. */
int64_t recurrence_next_step(const struct recurrence *r, int64_t from_ms)
{
    if (from_ms <= r->start_ms)
        return r->start_ms;
    int64_t k = -floor_div(-(from_ms - r->start_ms), r->interval_ms);
    int64_t offset;
    if (__builtin_mul_overflow(k, r->interval_ms, &offset) || offset > RECURRENCE_END_MS - r->start_ms)
        return NONE;
    return r->start_ms + offset;
}

int64_t recurrence_local_ms(const struct recurrence *r, int64_t ms)
{
    return ms + tz_span_at(r->zone, floor_div(ms, 1000)).offset_s * 1000LL;
}

int64_t recurrence_instant_of_local_ms(const struct recurrence *r, int64_t local)
{
    int64_t second = floor_div(local, 1000);
    struct tz_instants i = tz_instants_of(r->zone, second);
    return i.first * 1000 + (i.kind == TZ_GAP ? 0 : local - second * 1000);
}

int64_t recurrence_day_begins_ms(const struct recurrence *r, int64_t day)
{
    return recurrence_instant_of_local_ms(r, day * DAY_MS);
}

static void recurrence_set_step_occurrence(const struct recurrence *r, struct occurrence *o, int64_t at_ms,
                                           int64_t nominal_ms, unsigned notes)
{
    *o = (struct occurrence){ .at_ms = at_ms,
                              .scheduled_ms = at_ms,
                              .notes = notes,
                              .fires = true,
                              .nominal_local = floor_div(recurrence_local_ms(r, nominal_ms), 1000) };
}

/* The first time that the clock can show at or after the instant. Times of a gap arrive at its end, where the clock
 * shows more. */
static int64_t recurrence_first_local_ms(const struct recurrence *r, int64_t from_ms)
{
    return min_of(recurrence_local_ms(r, from_ms), recurrence_local_ms(r, from_ms - 1) + 1);
}

/* When a step of the day `source` arrives that is moved to the day `target`, at its local time. */
static int64_t recurrence_arrival(const struct recurrence *r, int64_t step, int64_t source, int64_t target)
{
    return recurrence_instant_of_local_ms(r, recurrence_local_ms(r, step) + (target - source) * DAY_MS);
}

/* Finds the first step in [from, until) that arrives at from_ms or later. Replaces *ret only if it arrives earlier. The
 * clock is not set back in between, so that no step arrives before an earlier one. */
static void recurrence_find_arrival(const struct recurrence *r, int64_t from, int64_t until, int64_t source,
                                    int64_t target, int64_t from_ms, struct occurrence *ret)
{
    int64_t first = recurrence_next_step(r, from);
    int64_t count = first < until ? -floor_div(first - until, r->interval_ms) : 0, low = 0, high = count;
    for (int64_t middle = 0; low < high; middle = low + (high - low) / 2) { /* the first one is the usual hit */
        if (recurrence_arrival(r, first + middle * r->interval_ms, source, target) >= from_ms)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == count)
        return;
    int64_t step = first + low * r->interval_ms, at = recurrence_arrival(r, step, source, target);
    if (at < ret->at_ms)
        recurrence_set_step_occurrence(r, ret, at, step, NOTE_MOVED);
}

/* The same for all steps of the excluded day `source`. If the clock is set back on it, a later step may have an earlier
 * time of day. */
static void recurrence_find_moved_step(const struct recurrence *r, int64_t source, int64_t target, int64_t from_ms,
                                       int64_t from_local, struct occurrence *ret)
{
    int64_t from_time = min_of(max_of(from_local - target * DAY_MS, 0), DAY_MS - 1);
    int64_t from = recurrence_instant_of_local_ms(r, source * DAY_MS + from_time);
    int64_t ends = recurrence_day_begins_ms(r, source + 1);
    struct tz_span span = tz_span_at(r->zone, floor_div(ends, 1000) - 1);
    if (span.from <= floor_div(from, 1000) || span.offset_s >= span.offset_before_s) {
        recurrence_find_arrival(r, from, ends, source, target, from_ms, ret);
        return;
    }
    recurrence_find_arrival(r, from, span.from * 1000, source, target, from_ms, ret);
    recurrence_find_arrival(r, span.from * 1000, ends, source, target, from_ms, ret);
}

static int64_t recurrence_common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* No step that is moved to `day` arrives in [from_ms, the result): a move changes a step by whole days and by
 * differences of offsets only. Steps of a gap arrive at the clock change: if one is near, the result is from_ms. */
static int64_t recurrence_first_arrival(const struct recurrence *r, int64_t day, int direction, int64_t from_ms)
{
    int64_t far = day + direction * (CALENDAR_REACH_DAYS + 1), ends = (max_of(day, far) + 2) * DAY_S;
    int64_t unit = recurrence_common_divisor(r->interval_ms, DAY_MS);
    struct tz_span span = tz_span_at(r->zone, (min_of(day, far) - 2) * DAY_S);
    while (span.until < ends) {
        span = tz_span_at(r->zone, span.until);
        unit = recurrence_common_divisor(unit, llabs((int64_t)span.offset_s - span.offset_before_s) * 1000);
    }
    int64_t first = r->start_ms - floor_div(r->start_ms - from_ms, unit) * unit;
    return tz_span_at(r->zone, floor_div(first, 1000)).from < floor_div(from_ms, 1000) ? first : from_ms;
}

/* Finds the first step that arrives on the business day `day` at or after from_ms: one of its own, or one of the
 * excluded days beside it. */
static bool recurrence_find_step_on_day(const struct recurrence *r, int64_t day, int64_t from_ms,
                                        struct occurrence *ret)
{
    ret->at_ms = NONE;
    int64_t own = recurrence_next_step(r, max_of(from_ms, recurrence_day_begins_ms(r, day)));
    if (own < recurrence_day_begins_ms(r, day + 1))
        recurrence_set_step_occurrence(r, ret, own, own, 0);
    int direction = r->calendar_policy == CALENDAR_NEXT_DAY ? -1 : 1;
    int64_t source = day + direction, from_local = recurrence_first_local_ms(r, from_ms);
    if (ret->at_ms == from_ms || recurrence_is_business_day(r, source))
        return ret->at_ms != NONE;
    int64_t first_ms = recurrence_first_arrival(r, day, direction, from_ms);
    for (int i = 0; i < CALENDAR_REACH_DAYS && ret->at_ms > first_ms && !recurrence_is_business_day(r, source);
         i++, source += direction)
        recurrence_find_moved_step(r, source, day, from_ms, from_local, ret);
    return ret->at_ms != NONE;
}

/* Given that no step arrives on `day`, returns the first later day on which one can arrive: the day of the next step,
 * or the business day before it if the step moves back there. */
static int64_t recurrence_day_of_next_arrival(const struct recurrence *r, int64_t day)
{
    int64_t from_day = day + 1, step;
    while (from_day != NONE && (step = recurrence_next_step(r, recurrence_day_begins_ms(r, from_day))) != NONE) {
        int64_t arrives = floor_div(recurrence_local_ms(r, step), DAY_MS);
        if (r->calendar_policy != CALENDAR_PREVIOUS_DAY || recurrence_is_business_day(r, arrives) ||
            calendar_business_day(r->calendar, arrives, -1, &arrives))
            return max_of(day + 1, arrives);
        from_day = calendar_first_from(r->calendar, arrives, END_DAY); /* steps before it are out of reach, too */
    }
    return NONE;
}

static bool recurrence_next_step_with_moves(const struct recurrence *r, int64_t from_ms, int64_t until_ms,
                                            struct occurrence *ret)
{
    int64_t day = floor_div(recurrence_local_ms(r, from_ms), DAY_MS), last = recurrence_last_day(until_ms);
    while (day <= last && (day = calendar_first_from(r->calendar, day, last)) != NONE) {
        if (recurrence_find_step_on_day(r, day, from_ms, ret))
            return true;
        day = recurrence_day_of_next_arrival(r, day);
    }
    return false;
}

static bool recurrence_next_step_with_skips(const struct recurrence *r, int64_t from_ms, int64_t until_ms,
                                            struct occurrence *ret)
{
    int64_t last = recurrence_last_day(until_ms);
    for (int64_t step; (step = recurrence_next_step(r, from_ms)) < min_of(until_ms, RECURRENCE_END_MS);) {
        int64_t day = floor_div(recurrence_local_ms(r, step), DAY_MS);
        if (recurrence_is_business_day(r, day)) {
            recurrence_set_step_occurrence(r, ret, step, step, 0);
            return true;
        }
        int64_t open = calendar_first_from(r->calendar, day + 1, last);
        if (open == NONE)
            return false;
        from_ms = max_of(step + 1, recurrence_day_begins_ms(r, open));
    }
    return false;
}

static bool recurrence_next_interval(const struct recurrence *r, int64_t from_ms, int64_t until_ms,
                                     struct occurrence *ret)
{
    if (r->calendar && r->calendar_policy != CALENDAR_SKIP)
        return recurrence_next_step_with_moves(r, from_ms, until_ms, ret);
    return recurrence_next_step_with_skips(r, from_ms, until_ms, ret);
}

/* ---- 3. start, end and spread ---- */

int64_t recurrence_spread(const struct recurrence *r)
{
    return r->spread_ms > 0 ? (int64_t)(r->hash % (uint64_t)r->spread_ms) : 0;
}

bool recurrence_next_scheduled(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret)
{
    from_ms = max_of(from_ms, max_of(r->start_ms, 0));
    until_ms = min_of(until_ms, min_of(r->end_ms, RECURRENCE_END_MS - 1) + 1);
    bool found = r->kind == RECUR_INTERVAL ? recurrence_next_interval(r, from_ms, until_ms, ret)
                                           : recurrence_next_cron(r, recurrence_ceil_seconds(from_ms), until_ms, ret);
    return found && ret->at_ms < until_ms;
}

static void recurrence_add_spread(const struct recurrence *r, struct occurrence *o)
{
    if (r->spread_ms > 0) {
        o->at_ms += recurrence_spread(r);
        o->notes |= NOTE_SPREAD;
    }
}

bool recurrence_next_before(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret)
{
    assert(r->zone && (r->kind == RECUR_CRON || r->interval_ms > 0) && r->spread_ms >= 0);
    if (from_ms >= RECURRENCE_END_MS || from_ms >= until_ms)
        return false;
    struct occurrence found;
    int64_t spread = recurrence_spread(r);
    if (!recurrence_next_scheduled(r, max_of(from_ms, 0) - spread, max_of(until_ms, 0) - spread, &found))
        return false;
    recurrence_add_spread(r, &found);
    *ret = found;
    return true;
}

bool recurrence_next(const struct recurrence *r, int64_t from_ms, struct occurrence *ret)
{
    return recurrence_next_before(r, from_ms, INT64_MAX, ret);
}

/* ---- skipped occurrences, for previews ---- */

/* A skipped gap is returned as one millisecond before the change, so that it never collides with an occurrence at the
 * change. */
static bool recurrence_skipped_gap(const struct recurrence *r, int64_t from_ms, int64_t until_ms,
                                   struct occurrence *ret)
{
    if (r->kind != RECUR_CRON || recurrence_shifts_out_of_gaps(r))
        return false;
    struct tz_span span = tz_span_at(r->zone, recurrence_ceil_seconds(from_ms));
    if (span.from == INT64_MIN || span.from * 1000 - 1 < from_ms) {
        if (span.until == INT64_MAX)
            return false;
        span = tz_span_at(r->zone, span.until);
    }
    for (; span.from < floor_div(until_ms, 1000); span = tz_span_at(r->zone, span.until)) {
        struct recurrence_hit h = recurrence_hit_in_gap(r, &span);
        if (h.local != NONE) {
            *ret = (struct occurrence){ .at_ms = span.from * 1000 - 1,
                                        .scheduled_ms = span.from * 1000 - 1,
                                        .nominal_local = h.nominal,
                                        .notes = NOTE_GAP_SKIPPED };
            return true;
        }
        if (span.until == INT64_MAX)
            return false;
    }
    return false;
}

/* Returns the first instant at which the rule would have fired on that day; NONE if it would not. */
static int64_t recurrence_first_of_day(const struct recurrence *r, int64_t day)
{
    if (r->kind == RECUR_CRON)
        return recurrence_instant_of_local_ms(r, (day * DAY_S + cron_next_in_day(&r->cron, 0)) * 1000);
    int64_t step = recurrence_next_step(r, recurrence_day_begins_ms(r, day));
    return step < recurrence_day_begins_ms(r, day + 1) ? step : NONE;
}

static int64_t recurrence_next_nominal_day(const struct recurrence *r, int64_t day)
{
    if (r->kind == RECUR_CRON)
        return cron_next_day(&r->cron, day);
    int64_t step = recurrence_next_step(r, recurrence_day_begins_ms(r, day));
    return step == NONE ? NONE : floor_div(recurrence_local_ms(r, step), DAY_MS);
}

static bool recurrence_skipped_day(const struct recurrence *r, int64_t from_ms, int64_t until_ms,
                                   struct occurrence *ret)
{
    if (!r->calendar || r->calendar_policy != CALENDAR_SKIP)
        return false;
    int64_t last = min_of(floor_div(recurrence_local_ms(r, min_of(until_ms, RECURRENCE_END_MS)), DAY_MS), END_DAY);
    int64_t day = floor_div(recurrence_local_ms(r, from_ms), DAY_MS);
    for (; (day = recurrence_next_nominal_day(r, day)) <= last; day++) {
        if (recurrence_is_business_day(r, day))
            continue;
        int64_t at = recurrence_first_of_day(r, day);
        if (at < from_ms || at >= until_ms)
            continue;
        *ret = (struct occurrence){ .at_ms = at,
                                    .scheduled_ms = at,
                                    .notes = NOTE_DAY_EXCLUDED,
                                    .nominal_local = floor_div(recurrence_local_ms(r, at), 1000) };
        return true;
    }
    return false;
}

/* The first skipped gap or day in [from_ms, until_ms). */
static bool recurrence_next_skip(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret)
{
    struct occurrence gap;
    bool has_day = recurrence_skipped_day(r, from_ms, until_ms, ret);
    /* a gap before midnight comes first even if the excluded day begins in it */
    bool has_gap = recurrence_skipped_gap(r, from_ms, has_day ? min_of(until_ms, ret->at_ms + 1001) : until_ms, &gap);
    if (has_gap && (!has_day || gap.at_ms <= ret->at_ms))
        *ret = gap;
    return has_day || has_gap;
}

bool recurrence_next_or_skip(const struct recurrence *r, int64_t from_ms, struct occurrence *ret)
{
    struct occurrence fire;
    int64_t from = max_of(from_ms, max_of(r->start_ms, 0));
    if (from >= RECURRENCE_END_MS)
        return false;
    bool fires = recurrence_next(r, from, &fire);
    /* the end bounds skipped occurrences as it bounds the others */
    int64_t ends_ms = min_of(r->end_ms, RECURRENCE_END_MS - 1) + 1;
    if (recurrence_next_skip(r, from, fires ? min_of(fire.at_ms, ends_ms) : ends_ms, ret))
        return true;
    if (fires)
        *ret = fire;
    return fires;
}

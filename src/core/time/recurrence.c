/* Three layers, each over the one before:
 *  1. the rule in local time: next_local() gives the next wall-clock second of a cron rule, calendar applied (a calendar
 *     moves whole days, and the times of day are the same on each, so it only changes which days match);
 *  2. the time line: fire_on_line() walks the zone's spans, in each of which local time is a plain shift of UTC, and
 *     decides at their borders what a gap or a repeat does;
 *  3. start, end and spread, which are the same for every kind of rule.
 * Intervals are instants to begin with and only meet the calendar. */
#include "core/time/recurrence.h"

#include <assert.h>

/* No change of any clock is larger than a day and a bit: further than this from a border, local times are unique. */
enum { BORDER_S = 2 * DAY_S };

#define NONE INT64_MAX
static const int64_t END_DAY = RECURRENCE_END_MS / DAY_MS;

/* A wall-clock second, and the one the rule named before the calendar moved it. */
struct hit {
    int64_t local; /* NONE: there is none */
    int64_t nominal;
};

static int64_t ceil_seconds(int64_t ms)
{
    return -floor_div(-ms, 1000);
}

/* ---- 1. local time: days, then seconds ---- */

static bool is_open(const struct recurrence *r, int64_t day)
{
    return !r->calendar || calendar_is_business_day(r->calendar, day);
}

static int64_t next_kept_day(const struct recurrence *r, int64_t day)
{
    while ((day = cron_next_day(&r->cron, day)) <= END_DAY && !is_open(r, day))
        day++;
    return day <= END_DAY ? day : NONE;
}

/* Excluded days move on to the next business day. Days move in order, so the first that arrives at or after `day` is the
 * first nominal one from the excluded days right before it on. */
static int64_t next_day_moved_on(const struct recurrence *r, int64_t day, int64_t *ret_nominal)
{
    int64_t nominal = day;
    for (int i = 0; i < CALENDAR_REACH_DAYS && !is_open(r, nominal - 1); i++)
        nominal--;
    for (; (nominal = cron_next_day(&r->cron, nominal)) <= END_DAY; nominal++) {
        int64_t target = nominal;
        if (!is_open(r, nominal) && !calendar_business_day(r->calendar, nominal, 1, &target))
            continue;
        if (target < day)
            continue;
        *ret_nominal = cron_matches_day(&r->cron, target) ? target : nominal;
        return target;
    }
    return NONE;
}

static int64_t next_day_moved_back(const struct recurrence *r, int64_t day, int64_t *ret_nominal)
{
    for (int64_t nominal = day; (nominal = cron_next_day(&r->cron, nominal)) <= END_DAY; nominal++) {
        int64_t target = nominal;
        if (!is_open(r, nominal) && !calendar_business_day(r->calendar, nominal, -1, &target))
            continue;
        if (target < day)
            continue; /* has gone by */
        *ret_nominal = cron_matches_day(&r->cron, target) ? target : nominal;
        return target;
    }
    return NONE;
}

/* The first day at or after `day` on which the rule fires, and the day that the rule itself named. */
static int64_t next_day(const struct recurrence *r, int64_t day, int64_t *ret_nominal)
{
    if (r->calendar && r->calendar_policy == CALENDAR_NEXT_DAY)
        return next_day_moved_on(r, day, ret_nominal);
    if (r->calendar && r->calendar_policy == CALENDAR_PREVIOUS_DAY)
        return next_day_moved_back(r, day, ret_nominal);
    return *ret_nominal = next_kept_day(r, day);
}

static struct hit next_local(const struct recurrence *r, int64_t local)
{
    if (!r->calendar) {
        int64_t at = cron_next(&r->cron, local);
        return (struct hit){ at, at };
    }
    int64_t from_day = day_of_second(local), nominal;
    int64_t day = next_day(r, from_day, &nominal);
    int second = day == NONE ? -1 : cron_next_in_day(&r->cron, day == from_day ? (int)(local - day * DAY_S) : 0);
    if (second < 0 && day != NONE) {
        day = next_day(r, from_day + 1, &nominal);
        second = cron_next_in_day(&r->cron, 0);
    }
    if (day == NONE)
        return (struct hit){ NONE, NONE };
    return (struct hit){ day * DAY_S + second, nominal * DAY_S + second };
}

/* ---- 2. the time line ---- */

static bool shifts_out_of_gaps(const struct recurrence *r)
{
    return r->gap == DST_GAP_SHIFT || (r->gap == DST_GAP_DEFAULT && !r->cron.follows_clock);
}

static enum dst_repeat repeat_policy(const struct recurrence *r)
{
    if (r->repeat != DST_REPEAT_DEFAULT)
        return r->repeat;
    return r->cron.follows_clock ? DST_REPEAT_BOTH : DST_REPEAT_FIRST;
}

/* What the rule names inside the gap that the span begins with; NONE when there is no gap or nothing in it. */
static struct hit in_gap(const struct recurrence *r, const struct tz_span *span)
{
    if (span->offset_s <= span->offset_before_s || span->from == INT64_MIN)
        return (struct hit){ NONE, NONE };
    struct hit h = next_local(r, span->from + span->offset_before_s);
    return h.local < span->from + span->offset_s ? h : (struct hit){ NONE, NONE };
}

static unsigned copy_note(const struct recurrence *r, const struct tz_span *span, int64_t at, int64_t local)
{
    if (at - BORDER_S > span->from && at < span->until - BORDER_S)
        return 0;
    struct tz_instants i = tz_instants_of(r->zone, local);
    if (i.kind != TZ_REPEAT)
        return 0;
    return at == i.first ? NOTE_FIRST_COPY : NOTE_SECOND_COPY;
}

static bool copy_is_wanted(const struct recurrence *r, unsigned note)
{
    enum dst_repeat policy = repeat_policy(r);
    return note == 0 || policy == DST_REPEAT_BOTH || (note == NOTE_FIRST_COPY) == (policy == DST_REPEAT_FIRST);
}

static void place(struct occurrence *o, int64_t at_s, struct hit h, unsigned notes)
{
    if (day_of_second(h.local) != day_of_second(h.nominal))
        notes |= NOTE_MOVED;
    *o = (struct occurrence){
        .at_ms = at_s * 1000, .scheduled_ms = at_s * 1000, .nominal_local = h.nominal, .notes = notes, .fires = true
    };
}

/* Where the search goes on after an unwanted copy: behind all of its kind, not behind this one second. */
static int64_t after_unwanted(const struct tz_span *span, unsigned note, int64_t at)
{
    if (note == NOTE_FIRST_COPY)
        return span->until;
    int64_t repeat_ends = span->from + (span->offset_before_s - span->offset_s);
    return at < repeat_ends && repeat_ends < span->until ? repeat_ends : at + 1;
}

/* The first cron fire at or after the instant t, in seconds. */
static bool fire_on_line(const struct recurrence *r, int64_t t, struct occurrence *ret)
{
    while (t < RECURRENCE_END_MS / 1000) {
        struct tz_span span = tz_span_at(r->zone, t);
        if (t == span.from && shifts_out_of_gaps(r)) {
            struct hit h = in_gap(r, &span);
            if (h.local != NONE) {
                place(ret, t, h, NOTE_GAP_SHIFTED);
                return true;
            }
        }
        struct hit h = next_local(r, t + span.offset_s);
        if (h.local == NONE)
            return false;
        int64_t at = h.local - span.offset_s;
        if (at >= span.until) {
            t = span.until;
            continue;
        }
        unsigned note = copy_note(r, &span, at, h.local);
        if (copy_is_wanted(r, note)) {
            place(ret, at, h, note);
            return at < RECURRENCE_END_MS / 1000;
        }
        t = after_unwanted(&span, note, at);
    }
    return false;
}

/* ---- intervals ---- */

/* The first start + k·interval at or after from. */
static int64_t next_step(const struct recurrence *r, int64_t from_ms)
{
    if (from_ms <= r->start_ms)
        return r->start_ms;
    int64_t k = -floor_div(-(from_ms - r->start_ms), r->interval_ms);
    int64_t offset;
    if (__builtin_mul_overflow(k, r->interval_ms, &offset) || offset > RECURRENCE_END_MS - r->start_ms)
        return NONE;
    return r->start_ms + offset;
}

static int64_t local_ms(const struct recurrence *r, int64_t ms)
{
    return ms + tz_span_at(r->zone, floor_div(ms, 1000)).offset_s * 1000LL;
}

static int64_t instant_of_local_ms(const struct recurrence *r, int64_t local)
{
    int64_t second = floor_div(local, 1000);
    struct tz_instants i = tz_instants_of(r->zone, second);
    return i.first * 1000 + (i.kind == TZ_GAP ? 0 : local - second * 1000);
}

static int64_t day_begins_ms(const struct recurrence *r, int64_t day)
{
    return instant_of_local_ms(r, day * DAY_MS);
}

static void place_step(const struct recurrence *r, struct occurrence *o, int64_t at_ms, int64_t nominal_ms,
                       unsigned notes)
{
    *o = (struct occurrence){ .at_ms = at_ms,
                              .scheduled_ms = at_ms,
                              .notes = notes,
                              .fires = true,
                              .nominal_local = floor_div(local_ms(r, nominal_ms), 1000) };
}

/* The first step of the excluded day `source` that, moved to the day `target` at its local time, is at or after from;
 * better only if earlier than *ret already is. */
static void step_moved(const struct recurrence *r, int64_t source, int64_t target, int64_t from_ms,
                       struct occurrence *ret)
{
    int64_t from_time = max_of(local_ms(r, from_ms) - target * DAY_MS, 0);
    int64_t ends = day_begins_ms(r, source + 1);
    int64_t step = next_step(r, instant_of_local_ms(r, source * DAY_MS + min_of(from_time, DAY_MS - 1)));
    for (; step < ends; step += r->interval_ms) {
        int64_t time = local_ms(r, step) - source * DAY_MS;
        int64_t at = instant_of_local_ms(r, target * DAY_MS + time);
        if (at < from_ms)
            continue;
        if (at < ret->at_ms)
            place_step(r, ret, at, step, NOTE_MOVED);
        return;
    }
}

/* Steps that arrive on the business day `day` at or after from: its own, and those of the excluded days beside it. */
static bool step_arriving(const struct recurrence *r, int64_t day, int64_t from_ms, struct occurrence *ret)
{
    ret->at_ms = NONE;
    int64_t own = next_step(r, max_of(from_ms, day_begins_ms(r, day)));
    if (own < day_begins_ms(r, day + 1))
        place_step(r, ret, own, own, 0);
    int direction = r->calendar_policy == CALENDAR_NEXT_DAY ? -1 : 1;
    int64_t source = day + direction;
    for (int i = 0; i < CALENDAR_REACH_DAYS && !is_open(r, source); i++, source += direction)
        step_moved(r, source, day, from_ms, ret);
    return ret->at_ms != NONE;
}

/* The day before which nothing arrives, given that nothing did on `day`: that of the next step, or the business day
 * before it if the step moves back there. */
static int64_t day_of_next_arrival(const struct recurrence *r, int64_t day)
{
    int64_t step = next_step(r, day_begins_ms(r, day + 1));
    if (step == NONE)
        return NONE;
    int64_t arrives = floor_div(local_ms(r, step), DAY_MS);
    if (!is_open(r, arrives) && r->calendar_policy == CALENDAR_PREVIOUS_DAY &&
        !calendar_business_day(r->calendar, arrives, -1, &arrives))
        return day + 1;
    return max_of(day + 1, arrives);
}

static bool step_with_moves(const struct recurrence *r, int64_t from_ms, struct occurrence *ret)
{
    int64_t day = floor_div(local_ms(r, from_ms), DAY_MS);
    while (day <= END_DAY) {
        if (is_open(r, day)) {
            if (step_arriving(r, day, from_ms, ret))
                return true;
            day = day_of_next_arrival(r, day);
        } else if (!calendar_business_day(r->calendar, day, 1, &day)) {
            day += CALENDAR_REACH_DAYS;
        }
    }
    return false;
}

static bool step_with_skips(const struct recurrence *r, int64_t from_ms, struct occurrence *ret)
{
    for (int64_t step; (step = next_step(r, from_ms)) < RECURRENCE_END_MS;) {
        int64_t day = floor_div(local_ms(r, step), DAY_MS);
        if (is_open(r, day)) {
            place_step(r, ret, step, step, 0);
            return true;
        }
        int64_t open;
        if (!calendar_business_day(r->calendar, day, 1, &open))
            open = day + CALENDAR_REACH_DAYS;
        from_ms = max_of(step + 1, day_begins_ms(r, open));
    }
    return false;
}

static bool next_interval(const struct recurrence *r, int64_t from_ms, struct occurrence *ret)
{
    if (r->calendar && r->calendar_policy != CALENDAR_SKIP)
        return step_with_moves(r, from_ms, ret);
    return step_with_skips(r, from_ms, ret);
}

/* ---- 3. start, end, spread ---- */

int64_t recurrence_spread(const struct recurrence *r)
{
    return r->spread_ms > 0 ? (int64_t)(r->hash % (uint64_t)r->spread_ms) : 0;
}

static bool next_scheduled(const struct recurrence *r, int64_t from_ms, struct occurrence *ret)
{
    from_ms = max_of(from_ms, max_of(r->start_ms, 0));
    bool found =
        r->kind == RECUR_INTERVAL ? next_interval(r, from_ms, ret) : fire_on_line(r, ceil_seconds(from_ms), ret);
    return found && ret->at_ms <= r->end_ms && ret->at_ms < RECURRENCE_END_MS;
}

static void add_spread(const struct recurrence *r, struct occurrence *o)
{
    if (r->spread_ms > 0) {
        o->at_ms += recurrence_spread(r);
        o->notes |= NOTE_SPREAD;
    }
}

bool recurrence_next(const struct recurrence *r, int64_t from_ms, struct occurrence *ret)
{
    assert(r->zone && (r->kind == RECUR_CRON || r->interval_ms > 0) && r->spread_ms >= 0);
    if (from_ms >= RECURRENCE_END_MS)
        return false;
    struct occurrence found;
    if (!next_scheduled(r, max_of(from_ms, 0) - recurrence_spread(r), &found))
        return false;
    add_spread(r, &found);
    *ret = found;
    return true;
}

size_t recurrence_between(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret,
                          size_t max)
{
    size_t n = 0;
    while (n < max && recurrence_next(r, from_ms, &ret[n]) && ret[n].at_ms < until_ms)
        from_ms = ret[n++].at_ms + 1;
    return n;
}

/* ---- what does not fire, for previews ---- */

/* A skipped gap is answered one millisecond before the change, so that it never collides with a fire at it. */
static bool skipped_gap(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret)
{
    if (r->kind != RECUR_CRON || shifts_out_of_gaps(r))
        return false;
    struct tz_span span = tz_span_at(r->zone, ceil_seconds(from_ms));
    if (span.from == INT64_MIN || span.from * 1000 - 1 < from_ms) {
        if (span.until == INT64_MAX)
            return false;
        span = tz_span_at(r->zone, span.until);
    }
    for (; span.from < floor_div(until_ms, 1000); span = tz_span_at(r->zone, span.until)) {
        struct hit h = in_gap(r, &span);
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

/* The first instant on which the rule would have fired on that day; NONE when it would not. */
static int64_t first_of_day(const struct recurrence *r, int64_t day)
{
    if (r->kind == RECUR_CRON)
        return instant_of_local_ms(r, (day * DAY_S + cron_next_in_day(&r->cron, 0)) * 1000);
    int64_t step = next_step(r, day_begins_ms(r, day));
    return step < day_begins_ms(r, day + 1) ? step : NONE;
}

static int64_t next_nominal_day(const struct recurrence *r, int64_t day)
{
    if (r->kind == RECUR_CRON)
        return cron_next_day(&r->cron, day);
    int64_t step = next_step(r, day_begins_ms(r, day));
    return step == NONE ? NONE : floor_div(local_ms(r, step), DAY_MS);
}

static bool skipped_day(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret)
{
    if (!r->calendar || r->calendar_policy != CALENDAR_SKIP)
        return false;
    int64_t last = min_of(floor_div(local_ms(r, min_of(until_ms, RECURRENCE_END_MS)), DAY_MS), END_DAY);
    int64_t day = floor_div(local_ms(r, from_ms), DAY_MS);
    for (; (day = next_nominal_day(r, day)) <= last; day++) {
        if (is_open(r, day))
            continue;
        int64_t at = first_of_day(r, day);
        if (at < from_ms || at >= until_ms)
            continue;
        *ret = (struct occurrence){ .at_ms = at,
                                    .scheduled_ms = at,
                                    .notes = NOTE_DAY_EXCLUDED,
                                    .nominal_local = floor_div(local_ms(r, at), 1000) };
        return true;
    }
    return false;
}

bool recurrence_next_or_skip(const struct recurrence *r, int64_t from_ms, struct occurrence *ret)
{
    from_ms = max_of(from_ms, max_of(r->start_ms, 0));
    if (from_ms >= RECURRENCE_END_MS)
        return false;
    struct occurrence fire, gap, day;
    bool fires = recurrence_next(r, from_ms, &fire);
    int64_t ends_ms = min_of(r->end_ms, RECURRENCE_END_MS - 1) + 1; /* the end bounds skips as it bounds fires */
    int64_t until_ms = fires ? min_of(fire.at_ms, ends_ms) : ends_ms;
    bool has_gap = skipped_gap(r, from_ms, until_ms, &gap);
    bool has_day = skipped_day(r, from_ms, has_gap ? gap.at_ms : until_ms, &day);
    if (!fires && !has_gap && !has_day)
        return false;
    *ret = has_day ? day : has_gap ? gap : fire;
    return true;
}

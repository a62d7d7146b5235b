/* Nominal times that do not fire. A run of them never contains one that fires:
 * - An excluded day has no fires: its own times are skipped, and moved ones arrive on business days.
 * - In the unwanted copy of a repeat nothing fires.
 * - A gap has no instants. Its times have one key, the millisecond before the change.
 *
 * Times of day are the same on each day, so the calendar treats all times of a cron rule on one day alike. Steps of an
 * interval are treated alike too, unless a clock change lies between the two days. */
#include "core/time/recurrence_internal.h"
#include "core/time/recurrence_shown.h"

enum { SKIP_BREAKS_MAX = 32 };

/* What becomes of a nominal time on an excluded day. */
enum skip_fate { FATE_MOVED, FATE_MERGED, FATE_DROPPED };

static void skip_set(struct occurrence *o, int64_t first_ms, int64_t last_ms, int64_t count, unsigned notes)
{
    *o = (struct occurrence){
        .at_ms = first_ms, .scheduled_ms = first_ms, .last_ms = last_ms, .count = count, .notes = notes
    };
}

static unsigned skip_note(enum skip_fate fate)
{
    return fate == FATE_MERGED ? NOTE_MERGED : NOTE_DAY_EXCLUDED;
}

static bool skip_is_within(const struct recurrence *r, int64_t ms)
{
    return ms >= r->start_ms && ms <= r->end_ms && ms < RECURRENCE_END_MS;
}

static bool skip_target_day(const struct recurrence *r, int64_t day, int64_t *ret)
{
    return r->calendar_policy != CALENDAR_SKIP &&
           calendar_business_day(r->calendar, day, r->calendar_policy == CALENDAR_NEXT_DAY ? 1 : -1, ret);
}

/* Whether the clock is not changed on these days, and all their times are within start and end. */
static bool skip_days_are_plain(const struct recurrence *r, int64_t first, int64_t last)
{
    int64_t begins = recurrence_day_begins_ms(r, first), ends = recurrence_day_begins_ms(r, last + 1);
    struct tz_span span = tz_span_at(r->zone, floor_div(begins, 1000));
    return floor_div(begins, 1000) > span.from && recurrence_ceil_seconds(ends) < span.until &&
           skip_is_within(r, begins) && skip_is_within(r, ends);
}

/* ---- intervals ---- */

static enum skip_fate skip_step_fate(const struct recurrence *r, int64_t day, int64_t step)
{
    int64_t target, local = recurrence_local_ms(r, step);
    struct occurrence o;
    if (!skip_target_day(r, day, &target))
        return FATE_DROPPED;
    int64_t at = recurrence_instant_of_local_ms(r, local + (target - day) * DAY_MS);
    if (!skip_is_within(r, at) || !recurrence_next_scheduled(r, at, at + 1, &o))
        return FATE_DROPPED;
    return o.nominal_local == floor_div(local, 1000) ? FATE_MOVED : FATE_MERGED;
}

/* Whether all steps of the day have the same fate. */
static bool skip_day_is_uniform(const struct recurrence *r, int64_t day)
{
    int64_t target;
    return !skip_target_day(r, day, &target) || skip_days_are_plain(r, min_of(day, target), max_of(day, target));
}

/* Times of day at which the fates of a day's steps may change, in no order. */
struct skip_breaks {
    size_t n;
    int64_t ms[SKIP_BREAKS_MAX];
};

static void skip_add_break(struct skip_breaks *b, int64_t local_ms)
{
    if (b->n < SKIP_BREAKS_MAX)
        b->ms[b->n] = local_ms - floor_div(local_ms, DAY_MS) * DAY_MS;
    b->n++; /* more than SKIP_BREAKS_MAX: there are too many */
}

/* The clock changes of the days that a calendar can move to where `day` is moved, and where the rule begins and
 * ends. */
static void skip_find_breaks(const struct recurrence *r, int64_t day, struct skip_breaks *ret)
{
    int64_t first_s = (day - 2 * CALENDAR_REACH_DAYS) * DAY_S, last_s = (day + 2 * CALENDAR_REACH_DAYS) * DAY_S;
    *ret = (struct skip_breaks){ 0 };
    skip_add_break(ret, recurrence_local_ms(r, r->start_ms));
    if (r->end_ms < RECURRENCE_END_MS)
        skip_add_break(ret, recurrence_local_ms(r, r->end_ms) + 1);
    for (struct tz_span span = tz_span_at(r->zone, first_s); span.until < last_s;) {
        span = tz_span_at(r->zone, span.until);
        skip_add_break(ret, (span.from + span.offset_before_s) * 1000);
        skip_add_break(ret, (span.from + span.offset_s) * 1000);
    }
}

/* The last offset that the day has, and the one before it. */
static struct tz_span skip_last_span(const struct recurrence *r, int64_t day)
{
    return tz_span_at(r->zone, floor_div(recurrence_day_begins_ms(r, day + 1), 1000) - 1);
}

/* Whether the clock changes at most once on the day, and shows no time of another day before or after. */
static bool skip_day_is_whole(const struct recurrence *r, int64_t day)
{
    struct tz_span span = skip_last_span(r, day);
    int64_t begins_s = floor_div(recurrence_day_begins_ms(r, day), 1000);
    return span.from <= begins_s ||
           (tz_span_at(r->zone, begins_s).until == span.from && day_of_second(span.from + span.offset_s) == day &&
            day_of_second(span.from + span.offset_before_s) == day);
}

/* The last step before the next break, on such a day. A time of day that comes twice is a break in both copies. */
static int64_t skip_last_before_break(const struct recurrence *r, const struct skip_breaks *b, int64_t day,
                                      int64_t step, int64_t last)
{
    struct tz_span span = skip_last_span(r, day);
    for (size_t i = 0; i < b->n; i++) {
        int64_t local = day * DAY_MS + b->ms[i], at = local - span.offset_s * 1000LL;
        int64_t before = local - span.offset_before_s * 1000LL;
        last = at > step ? min_of(last, at - 1) : last;
        last = before > step ? min_of(last, before - 1) : last;
    }
    return step + (last - step) / r->interval_ms * r->interval_ms;
}

/* The last of the steps from `step` on, up to `last`, that have its fate. Between two breaks all have the same one,
 * but for those that a gap gives one instant, of which the first may be another. */
static int64_t skip_last_alike(const struct recurrence *r, int64_t day, int64_t step, int64_t last, enum skip_fate fate)
{
    struct skip_breaks breaks;
    skip_find_breaks(r, day, &breaks);
    bool by_parts = breaks.n <= SKIP_BREAKS_MAX && skip_day_is_whole(r, day);
    int64_t end = step;
    while (last - end >= r->interval_ms && skip_step_fate(r, day, end + r->interval_ms) == fate) {
        end += r->interval_ms;
        int64_t until = by_parts ? skip_last_before_break(r, &breaks, day, end, last) : end;
        if (until - end > r->interval_ms && skip_step_fate(r, day, end + r->interval_ms) == fate &&
            skip_step_fate(r, day, until) == fate)
            end = until;
    }
    return end;
}

/* The steps from `step` on, of its day, with the same fate. */
static enum skip_fate skip_run_of_steps(const struct recurrence *r, int64_t day, int64_t step, struct occurrence *ret)
{
    int64_t last = min_of(recurrence_day_begins_ms(r, day + 1) - 1, r->end_ms), end = step;
    enum skip_fate fate = skip_step_fate(r, day, step);
    if (skip_day_is_uniform(r, day))
        end = step + (last - step) / r->interval_ms * r->interval_ms;
    else
        end = skip_last_alike(r, day, step, last, fate);
    skip_set(ret, step, end, (end - step) / r->interval_ms + 1, skip_note(fate));
    return fate;
}

static bool skip_next_step(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret)
{
    int64_t step = recurrence_next_step(r, from_ms);
    while (r->calendar && step < until_ms) {
        int64_t day = floor_div(recurrence_local_ms(r, step), DAY_MS);
        if (recurrence_is_business_day(r, day))
            return false; /* it fires */
        if (skip_run_of_steps(r, day, step, ret) != FATE_MOVED)
            return true;
        step = ret->last_ms + r->interval_ms;
    }
    return false;
}

/* ---- cron: excluded days ---- */

/* Of all times of the day, if they are within start and end where they arrive, on the day *ret_target. */
static enum skip_fate skip_day_fate(const struct recurrence *r, int64_t day, int64_t *ret_target)
{
    int64_t nominal;
    if (!skip_target_day(r, day, ret_target))
        return FATE_DROPPED;
    bool is_own = recurrence_next_day(r, *ret_target, *ret_target, &nominal) == *ret_target && nominal == day;
    return is_own ? FATE_MOVED : FATE_MERGED;
}

static bool skip_second_arrives(const struct recurrence *r, int64_t target, int second)
{
    return skip_is_within(r, recurrence_instant_of_local_ms(r, (target * DAY_S + second) * 1000));
}

/* Of a plain day whose times all have the same fate: they are counted without looking at each. */
static bool skip_run_of_plain_day(const struct recurrence *r, int64_t day, int64_t from_ms, enum skip_fate fate,
                                  struct occurrence *ret)
{
    int64_t begins = recurrence_day_begins_ms(r, day),
            from = max_of(recurrence_ceil_seconds(from_ms) - begins / 1000, (int64_t)0);
    int last, count = fate != FATE_MOVED && from < DAY_S ? cron_count_in_day(&r->cron, (int)from, &last) : 0;
    if (count)
        skip_set(ret, begins + (int64_t)cron_next_in_day(&r->cron, (int)from) * 1000, begins + (int64_t)last * 1000,
                 count, skip_note(fate));
    return count > 0;
}

/* The first run of the day at or after from_ms that does not fire elsewhere. */
static bool skip_run_of_day(const struct recurrence *r, int64_t day, int64_t from_ms, struct occurrence *ret)
{
    int64_t count = 0, target;
    enum skip_fate fate = FATE_MOVED;
    const enum skip_fate day_fate = skip_day_fate(r, day, &target);
    if (skip_days_are_plain(r, day, day) && (day_fate != FATE_MOVED || skip_days_are_plain(r, target, target)))
        return skip_run_of_plain_day(r, day, from_ms, day_fate, ret);
    for (int s = cron_next_in_day(&r->cron, 0); s >= 0; s = s < DAY_S - 1 ? cron_next_in_day(&r->cron, s + 1) : -1) {
        int64_t at = recurrence_instant_of_local_ms(r, (day * DAY_S + s) * 1000);
        if (at < from_ms)
            continue;
        enum skip_fate next = day_fate;
        if (!skip_is_within(r, at))
            next = FATE_MOVED;
        else if (day_fate == FATE_MOVED && !skip_second_arrives(r, target, s))
            next = FATE_DROPPED;
        if (count && next != fate)
            break;
        if (next == FATE_MOVED)
            continue;
        fate = next;
        skip_set(ret, count ? ret->scheduled_ms : at, at, count + 1, skip_note(fate));
        count++;
    }
    return count > 0;
}

static bool skip_next_day(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret)
{
    if (!r->calendar)
        return false;
    int64_t day = floor_div(recurrence_local_ms(r, from_ms), DAY_MS),
            last = floor_div(recurrence_local_ms(r, min_of(until_ms, RECURRENCE_END_MS)), DAY_MS);
    for (; (day = cron_next_day(&r->cron, day)) <= last; day++)
        if (!recurrence_is_business_day(r, day) && skip_run_of_day(r, day, from_ms, ret))
            return ret->scheduled_ms < until_ms;
    return false;
}

/* ---- cron: clock changes ---- */

/* The times that the rule names in [local, until); returns how many, and the last. */
static int64_t skip_count_hits(const struct recurrence *r, int64_t local, int64_t until, int64_t *ret_last)
{
    int64_t n = 0;
    for (struct recurrence_hit h; (h = recurrence_next_local(r, local, until)).local != NONE; n++)
        local = (*ret_last = h.local) + 1;
    return n;
}

static bool skip_in_gap(const struct recurrence *r, const struct tz_span *span, int64_t from_ms, struct occurrence *ret)
{
    int64_t key = span->from * 1000 - 1, ends = span->from + span->offset_s, ignored;
    if (key < from_ms || !skip_is_within(r, key))
        return false;
    int64_t n = skip_count_hits(r, span->from + span->offset_before_s, ends, &ignored);
    unsigned notes = NOTE_GAP_SKIPPED;
    if (recurrence_shifts_out_of_gaps(r)) { /* one fires at the change, for all and for the one at the change */
        n = n ? n - 1 + skip_count_hits(r, ends, ends + 1, &ignored) : 0;
        notes = NOTE_GAP_SHIFTED | NOTE_MERGED;
    }
    skip_set(ret, key, key, n, notes);
    return n > 0;
}

static bool skip_copy(const struct recurrence *r, const struct tz_span *span, int64_t from_ms, struct occurrence *ret)
{
    enum dst_repeat policy = recurrence_repeat_policy(r);
    int64_t length = span->offset_before_s - span->offset_s, first, last;
    bool second = policy == DST_REPEAT_FIRST;
    if (policy == DST_REPEAT_BOTH)
        return false;
    int64_t offset = second ? span->offset_s : span->offset_before_s;
    int64_t begins = max_of(recurrence_ceil_seconds(from_ms), second ? span->from : span->from - length);
    int64_t ends = min_of(span->from + span->offset_before_s,
                          r->end_ms == INT64_MAX ? NONE : floor_div(r->end_ms, 1000) + offset + 1);
    first = recurrence_next_local(r, begins + offset, ends).local;
    int64_t n = first != NONE ? skip_count_hits(r, first, ends, &last) : 0;
    if (n)
        skip_set(ret, (first - offset) * 1000, (last - offset) * 1000, n, NOTE_COPY_SKIPPED);
    return n > 0;
}

static bool skip_next_change(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret)
{
    int64_t horizon = floor_div(min_of(until_ms, RECURRENCE_END_MS), 1000) + DAY_S; /* first copies come before it */
    struct tz_span span = tz_span_at(r->zone, recurrence_ceil_seconds(from_ms));
    for (;; span = tz_span_at(r->zone, span.until)) {
        bool gap = span.offset_s > span.offset_before_s, copy = span.offset_s < span.offset_before_s;
        bool found = span.from != INT64_MIN &&
                     ((gap && skip_in_gap(r, &span, from_ms, ret)) || (copy && skip_copy(r, &span, from_ms, ret)));
        if (found && ret->scheduled_ms < until_ms)
            return true;
        if (span.until == INT64_MAX || span.until > horizon)
            return false;
    }
}

/* ---- all ---- */

/* Without the spread, before the next fire. */
static bool skip_next(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret)
{
    struct occurrence change;
    if (from_ms >= until_ms)
        return false;
    if (r->kind == RECUR_INTERVAL)
        return skip_next_step(r, from_ms, until_ms, ret);
    bool day = skip_next_day(r, from_ms, until_ms, ret);
    if (!skip_next_change(r, from_ms, day ? ret->scheduled_ms : until_ms, &change))
        return day;
    *ret = change;
    return true;
}

bool recurrence_next_entry(const struct recurrence *r, int64_t from_ms, int64_t until_ms, struct occurrence *ret)
{
    struct occurrence fire, skip;
    int64_t spread = recurrence_spread(r), from = max_of(from_ms - spread, max_of(r->start_ms, 0));
    if (from >= RECURRENCE_END_MS || from_ms >= until_ms)
        return false;
    bool fires = recurrence_next_before(r, from_ms, until_ms, &fire);
    int64_t ends = min_of(r->end_ms, RECURRENCE_END_MS - 1) + 1,
            limit = min_of(until_ms == INT64_MAX ? until_ms : until_ms - spread, ends);
    if (skip_next(r, from, fires ? min_of(limit, fire.scheduled_ms) : limit, &skip)) {
        skip.at_ms += spread;
        *ret = skip;
        return true;
    }
    if (fires)
        *ret = fire;
    return fires;
}

bool recurrence_run_before(const struct recurrence *r, int64_t first_ms, int64_t until_ms, bool excluded,
                           struct occurrence *ret)
{
    static const struct calendar no_business_day = { .name = "", .excluded_weekdays = 0x7f };
    struct recurrence cut = *r;
    struct occurrence o;
    cut.calendar = excluded ? &no_business_day : NULL;
    cut.calendar_policy = CALENDAR_SKIP;
    cut.end_ms = min_of(r->end_ms, until_ms - 1);
    if (!skip_next(&cut, first_ms, until_ms, &o) || o.scheduled_ms != first_ms)
        return false;
    *ret = o;
    return true;
}

bool recurrence_next_shown(const struct recurrence *r, int64_t from_ms, struct occurrence *ret)
{
    struct occurrence one, run;
    bool found = recurrence_next_or_skip(r, from_ms, &one);
    bool by_day = recurrence_next_entry(r, from_ms, INT64_MAX, &run) && !run.fires && !(run.notes & NOTE_GAP_SHIFTED) &&
                  run.notes & (NOTE_DAY_EXCLUDED | NOTE_MERGED);
    if (by_day && (!found || run.at_ms <= one.at_ms || one.notes & NOTE_DAY_EXCLUDED)) {
        run.nominal_local = floor_div(recurrence_local_ms(r, run.scheduled_ms), 1000);
        *ret = run;
        return true;
    }
    one.last_ms = one.at_ms - recurrence_spread(r);
    one.count = 1;
    if (found)
        *ret = one;
    return found;
}

int64_t occurrence_behind(const struct recurrence *r, const struct occurrence *o)
{
    return o->fires ? o->at_ms + 1 : o->last_ms + recurrence_spread(r) + 1;
}

#pragma once
/* tests/support/nominal_times.h - what becomes of every time that a rule names, one second or one step after the other.
 * It shares nothing with core/time/recurrence: only cron's days and seconds, calendars and zones are taken as given. */
#include <stdlib.h>

#include "core/time/recurrence.h"

enum nominal_fate { NOMINAL_FIRES, NOMINAL_EXCLUDED, NOMINAL_MERGED, NOMINAL_GAP, NOMINAL_GAP_MERGED, NOMINAL_COPY };

struct nominal {
    int64_t at_ms; /* when it fires; of others their own time, in a gap the millisecond before the change */
    enum nominal_fate fate;
    bool used; /* for the test */
};

struct nominals {
    const struct recurrence *rule;
    struct nominal *v;
    size_t n, cap;
};

static inline int nominal_compare(const void *a, const void *b)
{
    const struct nominal *x = a, *y = b;
    return x->at_ms != y->at_ms ? (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms) : (int)x->fate - (int)y->fate;
}

static inline void nominal_add(struct nominals *all, int64_t at_ms, enum nominal_fate fate)
{
    if (at_ms < all->rule->start_ms || at_ms > all->rule->end_ms)
        return;
    if (all->n == all->cap) {
        all->cap = all->cap * 2 + 64;
        all->v = xrealloc(all->v, all->cap * sizeof *all->v);
    }
    all->v[all->n++] = (struct nominal){ at_ms, fate, false };
}

static inline bool nominal_is_open(const struct recurrence *r, int64_t day)
{
    return !r->calendar || calendar_is_business_day(r->calendar, day);
}

/* The business day to which an excluded one moves. */
static inline int64_t nominal_target(const struct recurrence *r, int64_t day)
{
    int step = r->calendar_policy == CALENDAR_NEXT_DAY ? 1 : -1;
    do
        day += step;
    while (!nominal_is_open(r, day));
    return day;
}

/* ---- cron ---- */

/* A wall-clock second on a business day. */
static inline void nominal_on_clock(struct nominals *all, int64_t local)
{
    const struct recurrence *r = all->rule;
    struct tz_instants i = tz_instants_of(r->zone, local);
    bool shifts = r->gap == DST_GAP_SHIFT || (r->gap == DST_GAP_DEFAULT && !r->cron.follows_clock);
    bool both = r->repeat == DST_REPEAT_BOTH || (r->repeat == DST_REPEAT_DEFAULT && r->cron.follows_clock);
    bool second = r->repeat == DST_REPEAT_LAST;
    if (i.kind == TZ_UNIQUE)
        nominal_add(all, i.first * 1000, NOMINAL_FIRES);
    if (i.kind == TZ_GAP)
        nominal_add(all, i.first * 1000 - !shifts, shifts ? NOMINAL_FIRES : NOMINAL_GAP);
    if (i.kind == TZ_REPEAT) {
        nominal_add(all, i.first * 1000, both || !second ? NOMINAL_FIRES : NOMINAL_COPY);
        nominal_add(all, i.last * 1000, both || second ? NOMINAL_FIRES : NOMINAL_COPY);
    }
}

/* Whether the day moves to its target as the first of those that do, onto a day without times of its own. */
static inline bool nominal_is_first_to(const struct recurrence *r, int64_t day, int64_t target)
{
    if (cron_matches_day(&r->cron, target))
        return false;
    for (int64_t other = min_of(day, target) - 40; other < day; other++)
        if (cron_matches_day(&r->cron, other) && !nominal_is_open(r, other) && nominal_target(r, other) == target)
            return false;
    return true;
}

static inline void nominal_of_day(struct nominals *all, int64_t day)
{
    const struct recurrence *r = all->rule;
    bool open = nominal_is_open(r, day), moves = !open && r->calendar_policy != CALENDAR_SKIP;
    int64_t target = moves ? nominal_target(r, day) : day;
    bool own = moves && nominal_is_first_to(r, day, target);
    for (int64_t local = day * DAY_S; (local = cron_next(&r->cron, local)) < (day + 1) * DAY_S; local++) {
        int64_t there = local + (target - day) * DAY_S, at_ms = tz_instants_of(r->zone, there).first * 1000;
        bool arrives = at_ms >= r->start_ms && at_ms <= r->end_ms;
        if (open || (own && arrives))
            nominal_on_clock(all, there);
        else
            nominal_add(all, tz_instants_of(r->zone, local).first * 1000,
                        moves && !own ? NOMINAL_MERGED : NOMINAL_EXCLUDED);
    }
}

/* Several times that a gap shifts fire once. */
static inline void nominal_merge_shifted(struct nominals *all)
{
    if (all->n > 1) /* an empty list has no memory */
        qsort(all->v, all->n, sizeof *all->v, nominal_compare);
    for (size_t i = 1; i < all->n; i++)
        if (all->v[i].fate == NOMINAL_FIRES && all->v[i - 1].fate == NOMINAL_FIRES &&
            all->v[i].at_ms == all->v[i - 1].at_ms) {
            size_t j = i;
            for (; j < all->n && all->v[j].at_ms == all->v[i - 1].at_ms && all->v[j].fate == NOMINAL_FIRES; j++)
                all->v[j] = (struct nominal){ all->v[j].at_ms - 1, NOMINAL_GAP_MERGED, false };
            i = j - 1;
        }
}

/* ---- intervals ---- */

struct nominal_step {
    int64_t at_ms, to_ms; /* its own time; where it is moved */
    int64_t distance;     /* in days */
};

static inline int nominal_step_compare(const void *a, const void *b)
{
    const struct nominal_step *x = a, *y = b;
    if (x->to_ms != y->to_ms)
        return x->to_ms < y->to_ms ? -1 : 1;
    return x->distance != y->distance ? (x->distance > y->distance) - (x->distance < y->distance)
                                      : (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
}

static inline struct nominal_step nominal_move_step(const struct recurrence *r, int64_t at_ms)
{
    int64_t local = at_ms + tz_span_at(r->zone, floor_div(at_ms, 1000)).offset_s * 1000LL;
    int64_t day = floor_div(local, DAY_MS), target = nominal_target(r, day);
    int64_t there = local + (target - day) * DAY_MS;
    struct tz_instants i = tz_instants_of(r->zone, floor_div(there, 1000));
    int64_t to_ms = i.first * 1000 + (i.kind == TZ_GAP ? 0 : there - floor_div(there, 1000) * 1000);
    return (struct nominal_step){ at_ms, to_ms, llabs(target - day) };
}

/* Of the steps that arrive at one moment, the one from the nearest day fires. */
static inline void nominal_steps(struct nominals *all, int64_t from_ms, int64_t until_ms)
{
    const struct recurrence *r = all->rule;
    struct nominal_step *v = NULL;
    size_t n = 0;
    for (int64_t at_ms = r->start_ms; at_ms < until_ms; at_ms += r->interval_ms) {
        int64_t day = floor_div(at_ms + tz_span_at(r->zone, floor_div(at_ms, 1000)).offset_s * 1000LL, DAY_MS);
        bool open = nominal_is_open(r, day);
        if (at_ms < from_ms)
            continue;
        if (!open && r->calendar_policy == CALENDAR_SKIP) {
            nominal_add(all, at_ms, NOMINAL_EXCLUDED);
            continue;
        }
        v = xrealloc(v, (n + 1) * sizeof *v);
        v[n++] = open ? (struct nominal_step){ at_ms, at_ms, 0 } : nominal_move_step(r, at_ms);
    }
    if (n)
        qsort(v, n, sizeof *v, nominal_step_compare);
    for (size_t i = 0; i < n; i++) {
        bool arrives = v[i].to_ms >= r->start_ms && v[i].to_ms <= r->end_ms;
        bool taken = i && v[i - 1].to_ms == v[i].to_ms;
        nominal_add(all, arrives && !taken ? v[i].to_ms : v[i].at_ms,
                    !arrives ? NOMINAL_EXCLUDED
                    : taken  ? NOMINAL_MERGED
                             : NOMINAL_FIRES);
    }
    free(v);
}

/* Sorted by time. Exact for times in [from_ms, until_ms), if no 40 days in a row are excluded. */
static inline struct nominals nominals_between(const struct recurrence *r, int64_t from_ms, int64_t until_ms)
{
    enum { REACH = 45 };
    struct nominals all = { .rule = r };
    if (r->kind == RECUR_INTERVAL) {
        nominal_steps(&all, from_ms - REACH * DAY_MS, until_ms + REACH * DAY_MS);
    } else {
        int64_t day = floor_div(from_ms, DAY_MS) - REACH, last = floor_div(until_ms, DAY_MS) + REACH;
        for (; day <= last; day++)
            if (cron_matches_day(&r->cron, day))
                nominal_of_day(&all, day);
        nominal_merge_shifted(&all);
    }
    if (all.n)
        qsort(all.v, all.n, sizeof *all.v, nominal_compare);
    return all;
}

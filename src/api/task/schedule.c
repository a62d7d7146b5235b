/* The schedule of a recurring task: checks its fields together and makes its rule. A rule uses a time zone and perhaps
 * a calendar. Both may change or be deleted while tasks name them, so the rule is made again for each use. */
#include <assert.h>
#include <stdio.h>

#include "api/task/body.h"
#include "core/task/spawn.h"

static struct schedule task_schedule_of(const struct task_body *b)
{
    /* The one in the body replaces the other. */
    bool by_interval = b->has.interval || (b->interval_ms && !b->has.cron);
    return (struct schedule){
        .cron = by_interval ? (struct str){ NULL, 0 } : b->cron,
        .interval_ms = by_interval ? b->interval_ms : 0,
        .time_zone = b->time_zone,
        .calendar = b->calendar,
        .calendar_policy = b->calendar.n ? (enum calendar_policy)b->calendar_policy : CALENDAR_SKIP,
        .gap = (enum dst_gap)b->dst.gap,
        .repeat = (enum dst_repeat)b->dst.repeat,
        .start_ms = b->start_ms,
        .end_ms = b->end_ms,
        .max_runs = b->max_runs,
        .spread_ms = b->spread_ms,
        .catch_up = (enum catch_up)b->catch_up,
        .catch_up_window_ms = b->catch_up_window_ms,
        .overlap = (enum overlap)b->overlap,
    };
}

/* Whether two schedules fire at different times. */
static bool task_schedule_differs(const struct schedule *x, const struct schedule *y)
{
    return !str_eq(x->cron, y->cron) || x->interval_ms != y->interval_ms || !str_eq(x->time_zone, y->time_zone) ||
           !str_eq(x->calendar, y->calendar) || x->calendar_policy != y->calendar_policy || x->gap != y->gap ||
           x->repeat != y->repeat || x->start_ms != y->start_ms || x->end_ms != y->end_ms ||
           x->spread_ms != y->spread_ms;
}

static enum err task_schedule_check(const struct task_body *b, const struct schedule *s, struct error *e)
{
    if (!s->cron.n && !s->interval_ms)
        return error_field(e, "cron_expression", "or interval_seconds is required for a RECURRING task");
    if (b->has.dst && !s->cron.n)
        return error_field(e, "dst_policy", "needs a cron_expression; an interval does not follow the clock");
    if (b->has.calendar_policy && !s->calendar.n)
        return error_field(e, "calendar_policy", "needs a calendar");
    if (b->has.start && s->start_ms <= 0)
        return error_field(e, "start_time", "must be after 1970-01-01T00:00:00Z");
    if (s->end_ms <= s->start_ms)
        return error_field(e, "end_date", "must be after start_time");
    return ERR_OK;
}

static enum err task_schedule_refuse_never(const struct schedule *s, struct recurrence *rule, int64_t now_ms,
                                           struct error *e)
{
    rule->calendar = NULL;
    if (s->calendar.n && spawn_first(rule, now_ms) != INT64_MAX)
        return error_field(e, "calendar", "leaves nothing to fire: it excludes every day that the schedule names");
    if (s->end_ms != INT64_MAX)
        return error_field(e, "end_date", "leaves nothing to fire: the schedule's next time is after it, or never");
    if (s->start_ms)
        return error_field(e, "start_time", "leaves nothing to fire: the schedule has no time after it");
    return error_field(e, s->cron.n ? "cron_expression" : "interval_seconds", "never fires again");
}

enum err task_set_schedule(const struct task_body *b, const struct task *current, const struct task_context *c,
                           struct task *t, struct error *e)
{
    struct schedule s = task_schedule_of(b);
    if (task_schedule_check(b, &s, e))
        return ERR_INVALID;
    /* If the body names the calendar again, its days may have changed: compute the times again. */
    bool same_times = current && !b->has.calendar && !task_schedule_differs(&s, &t->schedule);
    t->schedule = s;
    if (same_times)
        return ERR_OK;
    struct recurrence rule;
    cleanup_with(rule_base_release) struct rule_base base = { 0 };
    if (task_rule(t, c->zones, c->catalog, &rule, &base, e))
        return e->code;
    int64_t first_ms = spawn_first(&rule, c->now_ms);
    if (first_ms == INT64_MAX)
        return task_schedule_refuse_never(&s, &rule, c->now_ms, e);
    t->due_ms = t->scheduled_ms = first_ms;
    t->cursor_ms = spawn_first_entry(&rule, c->now_ms);
    return ERR_OK;
}

/* ---- the rule ---- */

static enum err task_schedule_find_calendar(const struct task *t, struct catalog_cache *catalog,
                                            const struct calendar **ret, struct error *e)
{
    if (!t->schedule.calendar.n)
        return ERR_OK;
    if (!catalog)
        return error_field(e, "calendar", "cannot be used: this server has no calendars");
    if (catalog_cache_calendar(catalog, t->tenant, t->schedule.calendar, ret, e) == ERR_OK)
        return ERR_OK;
    e->code = ERR_INVALID; /* a wrong value in a field of the body, not a missing resource */
    return ERR_INVALID;
}

enum err task_zone(struct zoneinfo *zones, struct str name, struct tz **ret, struct error *e)
{
    enum err rc = zoneinfo_get(zones, name, ret, e);
    if (rc == ERR_CORRUPT || rc == ERR_UNAVAILABLE)
        return error_field(e, "time_zone",
                           "cannot be used: the server cannot read the file of this zone; name another "
                           "zone, or have the package tzdata installed again on the server");
    if (rc)
        snprintf(e->field, sizeof e->field, "time_zone");
    return rc;
}

enum err task_rule(const struct task *t, struct zoneinfo *zones, struct catalog_cache *catalog, struct recurrence *ret,
                   struct rule_base *ret_base, struct error *e)
{
    assert(t->kind == TASK_RECURRING);
    cleanup_with(rule_base_release) struct rule_base base = { 0 };
    struct error why = { 0 };
    enum err rc = task_zone(zones, t->schedule.time_zone, &base.zone, &why);
    if (rc == ERR_OK)
        rc = task_schedule_find_calendar(t, catalog, &base.calendar, &why);
    if (rc == ERR_OK)
        rc = schedule_rule(&t->schedule, t->id, base.zone, base.calendar, t->created_ms, ret, &why);
    if (rc && e)
        *e = why;
    if (rc == ERR_OK) {
        *ret_base = base;
        base = (struct rule_base){ 0 };
    }
    return rc;
}

void rule_base_release(struct rule_base *b)
{
    tz_unref(b->zone);
    catalog_cache_calendar_unref(b->calendar);
    *b = (struct rule_base){ 0 };
}

/* What users ask for: tasks of all kinds, at all times. */
#include <assert.h>

#include "core/task/spawn.h"
#include "port/zoneinfo.h"
#include "request.h"

enum { SECOND = 1000, BURST_MAX = 40 };

static struct str some_queue(struct sim *s)
{
    return gates_queue_name((int)between(s, 0, QUEUES - 1));
}

/* Limits, keys and expiry. */
static void add_gates(struct sim *s, struct task *t)
{
    static const char *const keys[] = { "one", "two" };
    if (t->target == TARGET_HTTP)
        t->target_config = gates_target((int)between(s, 0, s->profile.isolation ? HOSTS - 1 : COMMON_HOSTS - 1));
    if (!s->profile.keys)
        return;
    if (chance(s, 25)) {
        t->concurrency_key = str_from(keys[between(s, 0, 1)]);
        t->concurrency_limit = (int)between(s, 1, 2);
    }
    if (chance(s, 15))
        t->expires_after_ms = between(s, 1, 20 * SECOND);
}

struct task some_task(struct sim *s, enum task_kind kind)
{
    int64_t now_ms = wall_ms(s);
    int64_t base_ms = between(s, 100, 2000);
    struct task t = {
        .id = uuid_next(&s->ids, now_ms),
        .tenant = (int32_t)between(s, 1, s->profile.tenants),
        .kind = kind,
        .state = TASK_SCHEDULED,
        .due_ms = now_ms,
        .scheduled_ms = now_ms,
        .version = 1,
        .priority = (int)between(s, PRIORITY_MIN, PRIORITY_MAX),
        .queue = some_queue(s),
        .name = S("simulated"),
        .delivery = chance(s, 15) ? DELIVER_AT_MOST_ONCE : DELIVER_AT_LEAST_ONCE,
        .timeout_ms = between(s, 500, 5000),
        .retry = { .max_attempts = (int)between(s, 1, 5),
                   .backoff = chance(s, 70) ? BACKOFF_EXPONENTIAL : BACKOFF_FIXED,
                   .base_delay_ms = base_ms,
                   .max_delay_ms = between(s, base_ms, 15000),
                   .jitter = chance(s, 70) ? JITTER_FULL : JITTER_NONE },
        .target = chance(s, 70) ? TARGET_HTTP : TARGET_NOOP,
        .payload = chance(s, 50) ? S("{\"hello\": 1}") : S(""),
        .schedule.end_ms = INT64_MAX,
        .created_ms = now_ms,
        .updated_ms = now_ms,
    };
    add_gates(s, &t);
    return t;
}

static int64_t some_time(struct sim *s)
{
    int64_t now_ms = wall_ms(s);
    int64_t roll = between(s, 0, 99);
    if (roll < 10)
        return now_ms - between(s, 0, 3600 * SECOND);
    if (roll < 50)
        return now_ms + between(s, 0, 3 * SECOND);
    if (roll < 96)
        return now_ms + between(s, 0, 60 * SECOND);
    return now_ms + 86400 * SECOND;
}

void make_one_time(struct request *r)
{
    struct sim *s = r->sim;
    r->count = chance(s, 85) ? 1 : (size_t)between(s, 2, 20); /* many at one instant */
    r->has_key = r->count == 1 && chance(s, 40);
    r->tasks = arena_array(&r->arena, struct task, r->count);
    int64_t at_ms = some_time(s);
    bool alike = chance(s, 50);
    for (size_t i = 0; i < r->count; i++) {
        struct task t = some_task(s, TASK_ONE_TIME);
        if (i && alike) { /* many tasks for one queue */
            t.queue = r->tasks[0].queue;
            t.concurrency_key = r->tasks[0].concurrency_key;
            t.concurrency_limit = r->tasks[0].concurrency_limit;
        }
        t.tenant = i ? r->tasks[0].tenant : t.tenant;
        t.scheduled_ms = at_ms;
        t.due_ms = max_of(at_ms, wall_ms(s));
        r->tasks[i] = t;
        oracle_add(s, &t);
    }
    joins_make(r);
}

/* Many tasks at one instant. */
void make_burst(struct request *r)
{
    struct sim *s = r->sim;
    r->count = chance(s, 30) ? 1 : (size_t)between(s, 2, BURST_MAX);
    r->tasks = arena_array(&r->arena, struct task, r->count);
    bool alike = s->profile.isolation != ISOLATION_STALLS && chance(s, 50);
    for (size_t i = 0; i < r->count; i++) {
        struct task t = some_task(s, TASK_ONE_TIME);
        isolation_make_task(s, &t);
        if (i && alike)
            isolation_make_alike(&r->tasks[0], &t);
        t.tenant = i ? r->tasks[0].tenant : t.tenant;
        r->tasks[i] = t;
        oracle_add(s, &t);
    }
}

static struct recurrence rule_of(struct sim *s, const struct task *t, struct tz **zone)
{
    struct error e;
    struct recurrence rule;
    enum err rc = *zone ? ERR_OK : zoneinfo_get(s->zones, t->schedule.time_zone, zone, &e);
    if (rc == ERR_OK)
        rc = schedule_rule(&t->schedule, t->id, *zone, NULL, t->created_ms, &rule, &e);
    assert(rc == ERR_OK);
    return rule;
}

static struct schedule some_schedule(struct sim *s)
{
    static const char *const crons[] = { "*/10 * * * * *", "*/7 * * * * *", "0,30 * * * * *", "* * * * *" };
    static const int64_t windows_ms[] = { 10 * SECOND, 300 * SECOND, 86400 * SECOND };
    int64_t now_ms = wall_ms(s);
    struct schedule x = {
        .interval_ms = between(s, 2, 30) * SECOND,
        .time_zone = chance(s, 50) ? S("UTC") : S("Europe/Berlin"),
        .end_ms = chance(s, 30) ? now_ms + between(s, 0, 120 * SECOND) : INT64_MAX,
        .max_runs = chance(s, 30) ? between(s, 1, 8) : 0,
        .spread_ms = chance(s, 30) ? between(s, 1, (chance(s, 50) ? 2 : 60) * SECOND) : 0,
        .catch_up = (enum catch_up)between(s, 0, 2),
        .catch_up_window_ms = windows_ms[between(s, 0, 2)],
        .overlap = s->profile.keys ? (enum overlap)between(s, 0, OVERLAP_CANCEL_PREVIOUS) : OVERLAP_ALLOW,
    };
    if (chance(s, 40))
        x.cron = str_from(crons[between(s, 0, array_count(crons) - 1)]);
    if (chance(s, 40))
        x.start_ms = now_ms + between(s, -20 * SECOND, 30 * SECOND);
    return x;
}

void make_recurring(struct request *r)
{
    struct sim *s = r->sim;
    struct task t = some_task(s, TASK_RECURRING);
    struct tz *zone = NULL;
    t.schedule = some_schedule(s);
    struct recurrence rule = rule_of(s, &t, &zone);
    t.cursor_ms = spawn_first(&rule, wall_ms(s));
    r->count = 1;
    r->tasks = arena_array(&r->arena, struct task, 1);
    r->tasks[0] = t;
    struct subject *x = oracle_add(s, &t);
    x->zone = zone;
    x->rules[x->rule_count++] = rule;
}

static bool edit_one_time(struct request *r)
{
    struct sim *s = r->sim;
    struct task *t = &r->plan.task;
    enum task_state shown = task_shown_state(t, wall_ms(s));
    if (shown != TASK_SCHEDULED && shown != TASK_PAUSED)
        return false;
    t->state = shown;
    t->claim = (struct uuid){ 0 };
    t->scheduled_ms = some_time(s);
    t->due_ms = max_of(t->scheduled_ms, wall_ms(s));
    return true;
}

static bool edit_recurring(struct request *r)
{
    struct sim *s = r->sim;
    struct task *t = &r->plan.task;
    if (task_is_final(t->state))
        return false;
    r->plan.withdraw = true;
    r->withdraw_from_ms = 0;
    r->has_new_rule = r->subject->rule_count < array_count(r->subject->rules) && chance(s, 30);
    if (!r->has_new_rule)
        return true;
    t->schedule.cron = S("");
    t->schedule.interval_ms = between(s, 2, 30) * SECOND;
    r->new_rule = rule_of(s, t, &r->subject->zone);
    t->cursor_ms = spawn_first(&r->new_rule, wall_ms(s));
    r->withdraw_from_ms = wall_ms(s);
    return true;
}

bool make_edit(struct request *r)
{
    struct sim *s = r->sim;
    r->plan = (struct action_plan){ .task = r->current, .changes = true };
    r->has_new_rule = false;
    bool possible = r->current.kind == TASK_RECURRING ? edit_recurring(r) : edit_one_time(r);
    struct task *t = &r->plan.task;
    t->version++;
    t->updated_ms = wall_ms(s);
    t->priority = (int)between(s, PRIORITY_MIN, PRIORITY_MAX);
    t->queue = some_queue(s);
    return possible;
}

#pragma once
/* tests/support/spawn_bench.h - a recurring task, its plan, times and zones, for tests of core/task/spawn. */
#include "check.h"
#include "core/task/spawn.h"
#include "platform/zoneinfo_system.h"

#define NOW  1772532000000LL /* 2026-03-03T10:00:00Z */
#define HOUR 3600000LL
#define DAY  (24 * HOUR)

enum { SECOND = 1000, AHEAD = 10000, ARENA = 4 << 20 };

static struct zoneinfo *zones;
static struct tz *utc, *berlin;

static int setup(void **state)
{
    (void)state;
    struct error e;
    zones = zoneinfo_system_new(NULL);
    return zoneinfo_get(zones, S("UTC"), &utc, &e) || zoneinfo_get(zones, S("Europe/Berlin"), &berlin, &e) ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    tz_unref(utc);
    tz_unref(berlin);
    zoneinfo_free(zones);
    return 0;
}

/* A recurring task, its rule, and its latest plan. */
struct bench {
    struct task t;
    struct recurrence rule;
    struct arena arena;
    struct spawn_plan plan;
    const struct spawn_taken *taken; /* for the plan; NULL: none */
};

/* Fires every `interval_ms`, anchored at NOW; its cursor is at `cursor_ms`. */
static inline void every(struct bench *b, int64_t interval_ms, int64_t cursor_ms)
{
    struct error e;
    *b = (struct bench){ 0 };
    b->t = (struct task){ .id = { { 1, 2, 3, 4 } },
                          .tenant = 3,
                          .kind = TASK_RECURRING,
                          .state = TASK_SCHEDULED,
                          .version = 9,
                          .fence = 0,
                          .cursor_ms = cursor_ms,
                          .queue = S("mail"),
                          .name = S("digest"),
                          .priority = 8,
                          .retry = RETRY_DEFAULT,
                          .schedule = { .interval_ms = interval_ms,
                                        .start_ms = NOW - 400 * DAY,
                                        .end_ms = INT64_MAX,
                                        .catch_up_window_ms = 1000 * DAY } };
    assert_ok(schedule_rule(&b->t.schedule, b->t.id, utc, NULL, NOW, &b->rule, &e), &e);
    arena_init(&b->arena, ARENA);
}

static inline void plan_at(struct bench *b, int64_t now_ms)
{
    struct error e;
    arena_reset(&b->arena);
    assert_ok(spawn_plan(&b->t, &b->rule, b->taken, now_ms, now_ms + AHEAD, &b->arena, &b->plan, &e), &e);
}

static inline const struct task *occurrence(const struct bench *b, size_t i)
{
    assert_true(i < b->plan.occurrences.n);
    return &b->plan.occurrences.v[i];
}

static inline void is_run(const struct bench *b, size_t i, int64_t scheduled_ms, int64_t due_ms)
{
    const struct task *o = occurrence(b, i);
    assert_int_equal(o->state, TASK_SCHEDULED);
    assert_true(o->scheduled_ms == scheduled_ms);
    assert_true(o->due_ms == due_ms);
}

static inline void is_skipped(const struct bench *b, size_t i, int64_t first_ms, const char *why)
{
    const struct task *o = occurrence(b, i);
    assert_int_equal(o->state, TASK_SKIPPED);
    assert_true(o->scheduled_ms == first_ms);
    assert_str(o->last_error, why);
}

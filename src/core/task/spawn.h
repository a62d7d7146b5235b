#pragma once
/* core/task/spawn.h - spawning: which occurrences of a recurring task are created now, and where its cursor moves.
 *
 * Pure. Missed occurrences (downtime, pause) are caught up according to the task's catch_up mode. Skipped occurrences
 * are counted and become one SKIPPED occurrence that says how many they were, from when to when, and why. */
#include "core/task/task.h"

enum {
    SPAWN_MAX = 200, /* occurrences in one visit; the rest is created in the next visit, at once */
    /* A task with max_runs is visited this long before an occurrence that may replace a skipped one. The skipped one
     * was due at least one second earlier. */
    SPAWN_LEAD_MS = 500,
    SPAWN_PATIENCE_MS = 5000 /* After the last occurrence: by then it runs, or was skipped. */
};

struct spawn_plan {
    struct tasks occurrences; /* in the arena; SCHEDULED or SKIPPED */
    int64_t cursor_ms;        /* the new cursor */
    int64_t runs, skipped;    /* to add to the task's counts */
    int64_t missed;           /* how many were due and missed, whether they run now or are skipped */
    bool ended;               /* no occurrence is left: the task is COMPLETED */
    bool more;                /* the visit was cut short: visit again at once */
    /* If not 0: all runs that max_runs allows are created; visit the task again at this time, not when the cursor comes
     * near. */
    int64_t look_ms;
};

/* Plans the occurrences with at_ms < until_ms from the cursor on. If the first of them is more than MISSED_MS
 * before now_ms, nobody was there to spawn: all that are before now_ms were missed. */
enum err spawn_plan(const struct task *recurring, const struct recurrence *rule, int64_t now_ms, int64_t until_ms,
                    struct arena *a, struct spawn_plan *ret, struct error *e) must_use;

/* The relation of an existing occurrence to its task's schedule. */
enum spawned {
    SPAWNED_AHEAD,   /* Spawned by the schedule, not fired and not changed: it may be withdrawn and spawned again. */
    SPAWNED_BY_HAND, /* requested by a user: it is not part of the schedule */
    /* It has fired, is final, was changed by a user, waits for a slot after its due time, or was given a slot since. */
    SPAWNED_FOR_GOOD
};
/* An occurrence that holds a slot and was never claimed got it while it waited in line (core/sharing/slot.h): it will
 * run, however late. */
enum spawned spawned_how(const struct task *occurrence, bool holds_slot);

/* Whether an occurrence that is SPAWNED_AHEAD was missed, and must be planned again, if no node was running until
 * shortly after before_ms. With catch_up ALL only if it is too old for the catch-up window by then, or if it is late
 * and its overlap policy would not let it run beside the others or wait for them. */
bool spawned_was_missed(const struct task *occurrence, const struct schedule *of, int64_t before_ms);

/* Where the cursor of a new or edited task starts: its first occurrence at or after from_ms; INT64_MAX if there is
 * none. */
int64_t spawn_first(const struct recurrence *rule, int64_t from_ms);

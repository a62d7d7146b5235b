#pragma once
/* core/spawn.h - which occurrences of a recurring task are to be made now, and where its cursor goes.
 *
 * Pure. What was missed (downtime, pause) is caught up as the task says; what is skipped is counted and becomes one
 * SKIPPED occurrence that tells how many, from when to when, and why. */
#include "core/task.h"

enum { SPAWN_MAX = 200 /* occurrences a visit: what is left is made at the next, at once */ };

struct spawn_plan {
    struct tasks occurrences; /* in the arena; SCHEDULED or SKIPPED */
    int64_t cursor_ms;        /* the new one */
    int64_t runs, skipped;    /* to add to the task's counts */
    bool ended;               /* nothing is left: the task is COMPLETED */
    bool more;                /* the visit was cut short: come again at once */
};

/* Occurrences with at_ms < until_ms from the cursor on. A moment more than a second before now_ms counts as missed. */
enum err spawn_plan(const struct task *recurring, const struct recurrence *rule, int64_t now_ms, int64_t until_ms,
                    struct arena *a, struct spawn_plan *ret, struct error *e) must_use;

/* Where a new or edited task's cursor begins: its first occurrence at or after from_ms; INT64_MAX when there is none. */
int64_t spawn_first(const struct recurrence *rule, int64_t from_ms);

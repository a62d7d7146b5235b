#pragma once
/* core/task/spawn.h - which occurrences of a recurring task are to be made now, and where its cursor goes.
 *
 * Pure. What was missed (downtime, pause) is caught up as the task says; what is skipped is counted and becomes one
 * SKIPPED occurrence that tells how many, from when to when, and why. */
#include "core/task/task.h"

enum {
    SPAWN_MAX = 200,       /* occurrences a visit: what is left is made at the next, at once */
    SPAWN_GRACE_MS = 1000, /* later than that counts as missed */
    SPAWN_LEAD_MS = 500,   /* before one that may stand in for a skipped one: that was due a second earlier, at least */
    SPAWN_PATIENCE_MS = 5000 /* after the last: by then it runs, or was skipped */
};

struct spawn_plan {
    struct tasks occurrences; /* in the arena; SCHEDULED or SKIPPED */
    int64_t cursor_ms;        /* the new one */
    int64_t runs, skipped;    /* to add to the task's counts */
    bool ended;               /* nothing is left: the task is COMPLETED */
    bool more;                /* the visit was cut short: come again at once */
    int64_t look_ms; /* not 0: as many as may run are made: look again then, not when the cursor comes into view */
};

/* Occurrences with at_ms < until_ms from the cursor on. A moment more than SPAWN_GRACE_MS before now_ms counts as missed. */
enum err spawn_plan(const struct task *recurring, const struct recurrence *rule, int64_t now_ms, int64_t until_ms,
                    struct arena *a, struct spawn_plan *ret, struct error *e) must_use;

/* How an occurrence that exists stands to the schedule of its task. */
enum spawned {
    SPAWNED_AHEAD, /* waits as the schedule made it, never fired and untouched: it may be taken back, to be made anew */
    SPAWNED_BY_HAND, /* asked for by a user: the schedule does not know of it */
    SPAWNED_FOR_GOOD /* has fired, is over, was changed by a user, or had its turn and waits for a slot, or was given one since */
};
/* One that holds a slot and was never claimed was given it while it stood in line (core/sharing/slot.h): it will run, late as it may be. */
enum spawned spawned_how(const struct task *occurrence, bool holds_slot);

/* Whether one that waits ahead is to be decided on anew if nobody was running until a while behind before_ms: it was missed; of a
 * task that runs all that it missed, only one that is too old for its window by then, or that would not run beside the others, nor wait
 * for them. */
bool spawned_was_missed(const struct task *occurrence, const struct schedule *of, int64_t before_ms);

/* Where a new or edited task's cursor begins: its first occurrence at or after from_ms; INT64_MAX when there is none. */
int64_t spawn_first(const struct recurrence *rule, int64_t from_ms);

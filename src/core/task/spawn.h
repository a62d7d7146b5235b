#pragma once
/* core/task/spawn.h - spawning: which occurrences of a recurring task are created now, and where its cursor moves.
 *
 * Pure. Missed occurrences (downtime, pause) are caught up according to the task's catch_up mode.
 *
 * The occurrences of a task are a ledger: each time that its rule names has one row, while it is kept. A row is an
 * occurrence that runs, or a SKIPPED one for a run of times: scheduled_ms is the first, cursor_ms the last,
 * skipped_count how many, last_error why (0: the row is about its own time alone). Rows do not overlap. The
 * skipped_count of the task is the sum over its SKIPPED and EXPIRED rows. A row that was moved says so in `extra`. */
#include "core/task/task.h"

enum {
    SPAWN_MAX = 200, /* occurrences in one visit; the rest is created in the next visit, at once */
    /* A task with max_runs is visited this long before an occurrence that may replace a skipped one. The skipped one
     * was due at least one second earlier. */
    SPAWN_LEAD_MS = 500,
    SPAWN_PATIENCE_MS = 5000, /* After the last occurrence: by then it runs, or was skipped. */
    SPAWN_FAR_MS = 30000      /* No occurrence gets its row so long before its time. */
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

/* The times from a cursor on that have rows already, in their order. A change of the task may withdraw an occurrence
 * that waits while later ones have fired or were skipped: the cursor goes back over the rows of these. */
struct spawn_span {
    int64_t first_ms, last_ms; /* scheduled_ms */
};
struct spawn_taken {
    const struct spawn_span *v;
    size_t n;
    int64_t before_ms; /* nothing is known of times from here on; INT64_MAX: v has all */
};

/* Plans the occurrences with at_ms < until_ms from the cursor on, without those that are taken (NULL: none is). If the
 * first of them is more than MISSED_MS before now_ms, nobody was there to spawn: all that are before now_ms were
 * missed. If the task was resumed (updated_ms) at most MISSED_MS ago, that moment takes the place of now_ms. */
enum err spawn_plan(const struct task *recurring, const struct recurrence *rule, const struct spawn_taken *taken,
                    int64_t now_ms, int64_t until_ms, struct arena *a, struct spawn_plan *ret,
                    struct error *e) must_use;

/* Why a time of the rule was not run. */
#define SKIP_REASON_MAP(X)                                                                                             \
    X(WINDOW, "missed for longer than catch_up_window_seconds")                                                        \
    X(ONE_FOR_ALL, "missed; a later one was run for all (catch_up_mode RUN_ONE_NOW)")                                  \
    X(MISSED, "missed (catch_up_mode SKIP_MISSED)")                                                                    \
    X(CALENDAR, "its day is excluded by the calendar")                                                                 \
    X(CALENDAR_MERGED, "moved by the calendar to a time at which another one runs")                                    \
    X(DST_GAP, "its local time does not exist that day")                                                               \
    X(DST_GAP_MERGED, "its local time does not exist that day; one runs for all at the clock change")                  \
    X(DST_COPY, "its local time comes twice that day; the other one runs")                                             \
    X(OVERLAP, "is not over")                                                                                          \
    X(EXPIRED, "")
enum skip_reason {
#define X(id, text) SKIP_##id,
    SKIP_REASON_MAP(X)
#undef X
};
/* Of a SKIPPED or EXPIRED OCCURRENCE. */
const char *skip_reason_name(const struct task *t);
int64_t skip_count(const struct task *t); /* how many times of the rule the row is about */

/* The relation of an existing occurrence to its task's schedule. */
/* What an occurrence has of its task: all that says how it runs, but its overlap policy. Texts are borrowed. */
void spawn_inherit(struct task *occurrence, const struct task *recurring);

enum spawned {
    SPAWNED_AHEAD,   /* Spawned by the schedule, not fired and not changed: it may be withdrawn and spawned again. */
    SPAWNED_BY_HAND, /* requested by a user: it is not part of the schedule; or left out by the rule: it is kept */
    /* It has fired, is final, was changed by a user, waits for a slot after its due time, or was given a slot since. */
    SPAWNED_FOR_GOOD
};
/* An occurrence that holds a slot and was never claimed got it while it waited in line (core/sharing/slot.h): it will
 * run, however late. */
enum spawned spawned_how(const struct task *occurrence, bool holds_slot);

/* The times of its task's schedule that the row of an occurrence is about. False: none for which spawning could make
 * a second row. A user requested the occurrence, or the rule left its times out: their row is the same whenever it is
 * made. */
bool spawned_span(const struct task *occurrence, struct spawn_span *ret);

/* What stays of the row of times that the rule left out, if times from some moment on are taken from it. */
struct spawn_cut {
    struct uuid id;
    int64_t first_ms, last_was_ms, count_was; /* of the row: its scheduled_ms, cursor_ms and skipped_count */
    int64_t last_ms, count;                   /* what stays, up to last_ms; count 0: nothing */
    struct str error;                         /* the last_error of what stays */
};
/* Takes the times at or after before_ms (scheduled_ms) from a row. rule: of the schedule that made the row; its
 * calendar may have changed since. *ret_cuts false: it is no such row, or has no such times; then *ret is not set. */
enum err spawn_cut(const struct task *occurrence, const struct recurrence *rule, int64_t before_ms, struct arena *a,
                   struct spawn_cut *ret, bool *ret_cuts, struct error *e) must_use;

/* Whether an occurrence that is SPAWNED_AHEAD was missed, and must be planned again, if no node was running until
 * shortly after before_ms. With catch_up ALL only if it is too old for the catch-up window by then, or if it is late
 * and its overlap policy would not let it run beside the others or wait for them. */
bool spawned_was_missed(const struct task *occurrence, const struct schedule *of, int64_t before_ms);

/* Where the cursor of a new or edited task starts: the first time of its rule at or after from_ms, also one that the
 * rule leaves out. Only for a rule that fires again. */
int64_t spawn_first_entry(const struct recurrence *rule, int64_t from_ms);
/* The first occurrence that fires at or after from_ms; INT64_MAX if there is none. */
int64_t spawn_first(const struct recurrence *rule, int64_t from_ms);
/* Times before the cursor have rows. If such a time is still far ahead, the clock was set forward and back since: the
 * times until the cursor were decided on then, and do not come again. Returns the cursor in that case, else 0. */
int64_t spawn_decided_until(const struct task *recurring, const struct recurrence *rule, int64_t now_ms);

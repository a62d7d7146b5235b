#pragma once
/* port/store/schedules.h - operations on recurring tasks: OP_RECURRING, OP_SPAWN, OP_CATCH_UP. A part of
 * port/store.h. */
#include "core/sharing/partition.h"
#include "core/task/spawn.h"
#include "port/store/operation.h"

/* OP_RECURRING - reads SCHEDULED recurring tasks with cursor_ms < until_ms.
 *
 *  1. By cursor_ms, then id; at most max.
 *  2. Only tasks behind `after` in that order, whether or not such a task exists. So a page begins where the one before
 *     it ended; with a nil id it begins at a time. Tasks before `after` count nowhere.
 *  3. With `own`, a task of another node's partition is returned only if cursor_ms < help_until_ms. In ret_next_ms it
 *     counts as if its cursor were later by until_ms - help_until_ms. The order stays.
 *  4. If a user changed a returned task (version > 1) and its cursor_ms < updated_ms + taken_ms, the cursor may have
 *     gone back over rows that stayed (OP_PUT 8). ret_taken then has the times from the cursor on that have rows, as
 *     spawned_span gives them. At most TAKEN_MAX occurrences are read, by id; before_ms is where reading ended. Of
 *     other tasks nothing is taken. */
enum { TAKEN_MAX = 1000 };
struct op_recurring {
    struct op op;
    int64_t after_cursor_ms; /* with the next; both 0: from the earliest */
    struct uuid after_id;
    int64_t until_ms;
    size_t max;
    const struct partitions *own; /* NULL: all */
    int64_t help_until_ms;        /* with own; <= until_ms */
    int64_t taken_ms;             /* 0: rule 4 applies to no task */
    struct tasks ret;
    const struct spawn_taken *ret_taken; /* one for each task of ret */
    int64_t
        ret_next_ms; /* the earliest cursor of a SCHEDULED task behind `after` that is not in ret; INT64_MAX: none */
};

/* For stores: whether a task is returned, and with which time it counts if it is not (rule 3). */
bool recurring_gives(const struct op_recurring *op, struct uuid id, int64_t cursor_ms);
int64_t recurring_counts_as(const struct op_recurring *op, struct uuid id, int64_t cursor_ms);

/* For stores: the answer of rule 4 for one task. If taken_rows_begin returns true, the store gives the OCCURRENCEs of
 * the task to taken_rows_add, from the id `from` on, by id, TAKEN_MAX at most. Their id, parent, state, scheduled_ms,
 * due_ms, cursor_ms and skipped_count count. */
struct taken_rows {
    struct arena *arena;
    struct spawn_span *v;
    size_t n, rows;
    struct uuid from, last;
};
bool taken_rows_begin(struct taken_rows *r, const struct op_recurring *op, const struct task *t, struct arena *a);
enum err taken_rows_add(struct taken_rows *r, const struct task *occurrence, struct error *e) must_use;
struct spawn_taken taken_rows_end(const struct taken_rows *r);

/* OP_SPAWN - inserts occurrences and moves the cursor of their recurring task.
 *
 *  1. If the task does not exist, or is not SCHEDULED with the expected version and cursor: ERR_CONFLICT, and nothing
 *     changes.
 *  2. An occurrence that exists already stays as it is.
 *  3. The plan's runs and skipped are added to the task's counts, without the skipped_count of SKIPPED occurrences that
 *     exist already: they were counted before, and the cursor went back since.
 *  4. A task that has ended becomes COMPLETED, with updated_ms and completed_ms now_ms. */
struct op_spawn {
    struct op op;
    struct uuid id;
    int64_t version, cursor_ms; /* expected */
    const struct spawn_plan *plan;
    int64_t now_ms;
};

/* OP_CATCH_UP - takes back occurrences that were spawned ahead and missed because no node was running when they were
 * due. The next spawn decides by the task's catch_up_mode and window, as if they had never been spawned.
 *
 *  1. It visits at most max recurring tasks: SCHEDULED ones behind `after` that have waiting occurrences (SCHEDULED,
 *     BLOCKED or PAUSED), in the order of their ids.
 *  2. Of each, it looks at the occurrences from the latest (by id) back to the first that is SPAWNED_FOR_GOOD
 *     (core/task/spawn.h). Of those that are SPAWNED_AHEAD it deletes all from the earliest on for which
 *     spawned_was_missed, if there is one.
 *  3. As many are subtracted from the task's runs_count (not below 0).
 *  4. The cursor becomes the moment of the earliest deleted one (scheduled_ms and the task's schedule_spread), unless
 *     the cursor is before it. So the cursor never goes back over an occurrence that stays.
 *  5. Repeated, it finds nothing.
 *  6. A deleted occurrence releases its slots, which go to waiting tasks (OP_CLAIM 16). The lanes of these are not
 *     returned: the caller looks at all lanes.
 *  7. Of a CATCH_UP_ALL task with more than CATCH_UP_ALL_MAX occurrences to look at, all stay. */
struct op_catch_up {
    struct op op;
    int64_t before_ms;
    struct uuid after; /* nil: from the first on */
    size_t max;
    size_t ret_withdrawn;
    struct uuid ret_after; /* where to go on; nil: all were visited */
};

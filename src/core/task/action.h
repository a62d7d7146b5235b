#pragma once
/* core/task/action.h - user actions on tasks as pure decisions: from the current row and the action to the new row or a
 * refusal. */
#include "core/task/task.h"

enum action {
    ACTION_CANCEL,
    ACTION_PAUSE,
    ACTION_RESUME,
    ACTION_RUN_NOW,
    ACTION_RETRY,
    ACTION_FORCE_COMPLETE,
    ACTION_DELETE,
    ACTION_ARCHIVE, /* removes it from the dead letters; the caller notes who and why in `resolution` */
};

struct action_plan {
    struct task task; /* the new row: version + 1, updated_ms set; with has_also, the row as it was */
    /* RECURRING: occurrences that were spawned and have not fired are withdrawn (port/store.h, OP_PUT) */
    bool withdraw;
    bool changes; /* false: the task already is in the requested state; nothing to write */
    /* Run-now of a RECURRING task spawns one occurrence with a fresh id. The task itself is not edited: who awaits its
     * recovery, or its success in time, goes on waiting. */
    bool has_also;
    struct task also;
};

/* - rule: the task's recurrence if it is RECURRING, or NULL. No action uses it so far, so a task can be stopped even if
 *   its zone or calendar is gone. On resume the cursor stays, and the spawner catches up by the task's catch_up mode.
 * - force: runs a BLOCKED task. A task that waits for its own previous run starts beside it. A task that waits for the
 *   tasks that it depends on ignores them for good. The limit of a concurrency key still holds.
 * - fresh: a new id for run-now.
 *
 * If the task has an expiry, run-now and retry make it count from now on. A RUNNING task may be cancelled and deleted;
 * its owner aborts it. A task that has not fired yet (task_shown_state) is treated as SCHEDULED: the plan is the row
 * that it becomes once its owner has given it back.
 *
 * Refusals are ERR_CONFLICT; they name the task's state and what to do instead ("is COMPLETED and cannot be cancelled;
 * …"). A deleted task is ERR_NOT_FOUND. */
enum err task_act(const struct task *t, enum action action, bool force, const struct recurrence *rule,
                  struct uuid fresh, int64_t now_ms, struct action_plan *ret, struct error *e) must_use;

const char *action_name(enum action a); /* "run-now" */
bool action_parse(struct str name, enum action *ret);

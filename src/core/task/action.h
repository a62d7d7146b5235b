#pragma once
/* core/task/action.h - what users do to tasks, as pure decisions: the row as it is and a wish in, the new row or a refusal out. */
#include "core/task/task.h"

enum action {
    ACTION_CANCEL,
    ACTION_PAUSE,
    ACTION_RESUME,
    ACTION_RUN_NOW,
    ACTION_RETRY,
    ACTION_FORCE_COMPLETE,
    ACTION_DELETE,
    ACTION_ARCHIVE, /* takes it off the dead letters; who and why is for the caller to note in `resolution` */
};

struct action_plan {
    struct task task; /* the new row: version + 1, updated_ms set */
    bool withdraw;    /* RECURRING: what was spawned and has not fired goes back (port/store.h, OP_PUT) */
    bool changes;     /* false: it is already as wished; nothing to write */
    bool has_also;    /* run-now of a RECURRING task spawns one occurrence of a fresh id */
    struct task also;
};

/* rule is the task's own if it is RECURRING, or NULL: so far no action asks it, so that a task can be stopped whose zone or calendar
 * is gone. On resume the cursor stays where it was, and the spawner catches up as the task says. fresh is a new id for run-now.
 * force runs a BLOCKED task: one that waits for its own previous run goes beside it; the limit of a concurrency key holds all the
 * same. What is run by hand is not too late for it: where it has an expiry, that counts from now on. Refusals are ERR_CONFLICT and say what the task is and what can be done instead ("is COMPLETED and can not be cancelled; …"); a task that was
 * deleted is ERR_NOT_FOUND. A RUNNING task may be cancelled, and deleted; the owner aborts it. One that has not fired yet
 * (task_shown_state) is treated as SCHEDULED: the plan is the row that it becomes when its owner has given it back. */
enum err task_act(const struct task *t, enum action action, bool force, const struct recurrence *rule,
                  struct uuid fresh, int64_t now_ms, struct action_plan *ret, struct error *e) must_use;

const char *action_name(enum action a); /* "run-now" */
bool action_parse(struct str name, enum action *ret);

/* One table, action × state, gives the new state or the reason for a refusal. The functions below it make the other
 * changes. A test checks that the transitions in the table are legal by task_may_become. */
#include "core/task/action.h"

#include <assert.h>

#include "core/sharing/slot.h"

enum { STATES = TASK_EXPIRED + 1, ACTIONS = ACTION_ARCHIVE + 1 };

struct action_cell {
    enum { REFUSED, MOVES, SAME } what;
    enum task_state next; /* MOVES */
    const char *instead;  /* REFUSED: what can be done instead */
};

#define TO(state)                                                                                                      \
    {                                                                                                                  \
        .what = MOVES, .next = TASK_##state                                                                            \
    }
#define IS_SO                                                                                                          \
    {                                                                                                                  \
        .what = SAME                                                                                                   \
    }
#define NO(hint)                                                                                                       \
    {                                                                                                                  \
        .what = REFUSED, .instead = (hint)                                                                             \
    }

#define ANEW       "create a new task"
#define NOT_FAILED "only failed tasks are among the dead letters"

/* clang-format off */
static const struct action_cell cells[ACTIONS][STATES] = {
    [ACTION_CANCEL] = {
        [TASK_SCHEDULED] = TO(CANCELLED), [TASK_BLOCKED] = TO(CANCELLED), [TASK_PAUSED] = TO(CANCELLED),
        [TASK_RUNNING] = TO(CANCELLED),
        [TASK_COMPLETED] = NO("it has run; delete it to take it off the lists"),
        [TASK_FAILED] = NO("it runs no more; delete it to take it off the lists"),
        [TASK_CANCELLED] = IS_SO,
        [TASK_SKIPPED] = NO("it will not run; delete it to take it off the lists"),
        [TASK_EXPIRED] = NO("it will not run; delete it to take it off the lists"),
    },
    [ACTION_PAUSE] = {
        [TASK_SCHEDULED] = TO(PAUSED), [TASK_BLOCKED] = TO(PAUSED), [TASK_PAUSED] = IS_SO,
        [TASK_RUNNING] = NO("wait for it to end, or cancel it"),
        [TASK_COMPLETED] = NO("it has run; " ANEW),
        [TASK_FAILED] = NO("it waits for a retry and runs no more by itself"),
        [TASK_CANCELLED] = NO(ANEW), [TASK_SKIPPED] = NO(ANEW), [TASK_EXPIRED] = NO(ANEW),
    },
    [ACTION_RESUME] = {
        [TASK_SCHEDULED] = IS_SO, [TASK_PAUSED] = TO(SCHEDULED), [TASK_RUNNING] = IS_SO,
        [TASK_BLOCKED] = NO("it goes on when what it waits for is done; run it now with force to not wait"),
        [TASK_COMPLETED] = NO(ANEW), [TASK_FAILED] = NO("retry it"),
        [TASK_CANCELLED] = NO(ANEW), [TASK_SKIPPED] = NO(ANEW), [TASK_EXPIRED] = NO(ANEW),
    },
    [ACTION_RUN_NOW] = {
        [TASK_SCHEDULED] = TO(SCHEDULED), [TASK_PAUSED] = TO(SCHEDULED), [TASK_BLOCKED] = TO(SCHEDULED),
        [TASK_RUNNING] = NO("it runs already; wait for it to end"),
        [TASK_COMPLETED] = NO(ANEW), [TASK_FAILED] = NO("retry it"),
        [TASK_CANCELLED] = NO(ANEW), [TASK_SKIPPED] = NO(ANEW), [TASK_EXPIRED] = NO(ANEW),
    },
    [ACTION_RETRY] = {
        [TASK_SCHEDULED] = NO("it will run at its time; run it now to not wait"),
        [TASK_BLOCKED] = NO("it waits for something; run it now with force to not wait"),
        [TASK_PAUSED] = NO("resume it, or run it now"),
        [TASK_RUNNING] = NO("wait for it to end"),
        [TASK_COMPLETED] = NO(ANEW), [TASK_FAILED] = TO(SCHEDULED),
        [TASK_CANCELLED] = NO(ANEW), [TASK_SKIPPED] = NO(ANEW), [TASK_EXPIRED] = NO(ANEW),
    },
    [ACTION_FORCE_COMPLETE] = {
        [TASK_SCHEDULED] = TO(COMPLETED), [TASK_BLOCKED] = TO(COMPLETED), [TASK_PAUSED] = TO(COMPLETED),
        [TASK_RUNNING] = NO("wait for it to end, or cancel it"),
        [TASK_COMPLETED] = IS_SO, [TASK_FAILED] = TO(COMPLETED),
        [TASK_CANCELLED] = NO("it is over; delete it to take it off the lists"),
        [TASK_SKIPPED] = NO("it is over; delete it to take it off the lists"),
        [TASK_EXPIRED] = NO("it is over; delete it to take it off the lists"),
    },
    [ACTION_DELETE] = { /* a final task keeps its state */
        [TASK_SCHEDULED] = TO(CANCELLED), [TASK_BLOCKED] = TO(CANCELLED), [TASK_PAUSED] = TO(CANCELLED),
        [TASK_RUNNING] = TO(CANCELLED), [TASK_COMPLETED] = TO(COMPLETED), [TASK_FAILED] = TO(FAILED),
        [TASK_CANCELLED] = TO(CANCELLED), [TASK_SKIPPED] = TO(SKIPPED), [TASK_EXPIRED] = TO(EXPIRED),
    },
    [ACTION_ARCHIVE] = {
        [TASK_SCHEDULED] = NO(NOT_FAILED), [TASK_BLOCKED] = NO(NOT_FAILED), [TASK_PAUSED] = NO(NOT_FAILED),
        [TASK_RUNNING] = NO(NOT_FAILED), [TASK_COMPLETED] = NO(NOT_FAILED), [TASK_FAILED] = TO(FAILED),
        [TASK_CANCELLED] = NO(NOT_FAILED), [TASK_SKIPPED] = NO(NOT_FAILED), [TASK_EXPIRED] = NO(NOT_FAILED),
    },
};
/* clang-format on */

static const struct {
    const char *name, *done; /* "run-now", "cannot be run now" */
} words[ACTIONS] = {
    [ACTION_CANCEL] = { "cancel", "cancelled" }, [ACTION_PAUSE] = { "pause", "paused" },
    [ACTION_RESUME] = { "resume", "resumed" },   [ACTION_RUN_NOW] = { "run-now", "run now" },
    [ACTION_RETRY] = { "retry", "retried" },     [ACTION_FORCE_COMPLETE] = { "force-complete", "completed by force" },
    [ACTION_DELETE] = { "delete", "deleted" },   [ACTION_ARCHIVE] = { "archive", "archived" },
};

static const char *action_noun(const struct task *t)
{
    if (t->kind == TASK_RECURRING)
        return "recurring task";
    if (!uuid_is_nil(t->run))
        return "step";
    return t->target == TARGET_WORKFLOW ? "run" : "task";
}

static enum err action_refuse(const struct task *t, enum task_state state, enum action action, const char *instead,
                              struct error *e)
{
    const char *noun = action_noun(t), *anew = strstr(instead, ANEW);
    bool is_run = strcmp(noun, "run") == 0, is_step = strcmp(noun, "step") == 0;
    bool may_retry = state != TASK_COMPLETED && action != ACTION_RETRY;
    if (t->kind == TASK_RECURRING && action == ACTION_RETRY)
        return error_set(e, ERR_CONFLICT, "this is a recurring task and cannot be retried; %s", instead);
    return error_set(e, ERR_CONFLICT, "the %s is %s and cannot be %s; %.*s%s", noun, task_state_name(state),
                     words[action].done, (int)(anew ? anew - instead : (ptrdiff_t)strlen(instead)), instead,
                     !anew     ? ""
                     : is_run  ? may_retry ? "retry it, rerun it, or start a new run" : "rerun it, or start a new run"
                     : is_step ? "rerun its run"
                               : ANEW);
}

static bool action_is_forced_overlap(const struct task *t, enum action action, bool force)
{
    return action == ACTION_RUN_NOW && force && t->waits_for.n && slot_kind_of(t->waits_for) == SLOT_OVERLAP;
}

/* Handles the cases that depend on more than the state. */
static const struct action_cell *action_find_cell(const struct task *t, enum action action, enum task_state state,
                                                  bool force)
{
    static const struct action_cell same = IS_SO;
    static const struct action_cell blocked = NO("it waits for something; use {\"force\": true} to not wait");
    static const struct action_cell parents =
        NO("it waits for the tasks that it depends on; use {\"force\": true} to not wait");
    static const struct action_cell waits_on = TO(BLOCKED);
    static const struct action_cell recurring = NO("retry its failed occurrences, or run it now ('belfry run')");
    static const struct action_cell slot =
        NO("it waits for a free slot and starts by itself; to start it sooner, cancel the task that holds the slot");
    if (action == ACTION_RETRY && t->kind == TASK_RECURRING)
        return &recurring;
    if (action == ACTION_ARCHIVE && t->resolved_ms)
        return &same;
    bool goes_on = action == ACTION_RUN_NOW || action == ACTION_RESUME || action == ACTION_RETRY;
    if (goes_on && state == TASK_BLOCKED && t->waits_for.n && !action_is_forced_overlap(t, action, force))
        return &slot; /* with force it runs beside its own previous run; a key's limit always holds */
    bool waits = t->links & TASK_WAITS;
    if (action == ACTION_RUN_NOW && waits && !force)
        return &parents;
    if (action == ACTION_RUN_NOW && state == TASK_BLOCKED && !force)
        return &blocked;
    if (action == ACTION_RESUME && waits && state == TASK_PAUSED)
        return &waits_on;
    return &cells[action][state];
}

/* Clears the fields that apply only while a task is BLOCKED or FAILED. */
static void action_clear_state_fields(struct task *t)
{
    t->waits_for = t->cause = t->resolution = (struct str){ 0 };
    t->resolved_ms = 0;
}

/* An occurrence outside of the schedule, with an id of its own. It waits for no other run. */
static struct task action_occurrence_now(const struct task *t, struct uuid fresh, int64_t now_ms)
{
    struct task o = *t;
    o.id = fresh;
    o.kind = TASK_OCCURRENCE;
    o.parent = t->id;
    o.state = TASK_SCHEDULED;
    o.scheduled_ms = now_ms;
    task_set_due(&o, now_ms);
    o.version = 1;
    o.fence = o.attempts = o.losses = 0;
    o.claim = (struct uuid){ 0 };
    o.overlap = OVERLAP_ALLOW;
    o.dedupe_key = (struct str){ 0 };
    o.dedupe_window_ms = 0;
    o.dedupe = DEDUPE_RETURN;
    o.schedule = (struct schedule){ 0 };
    o.links = t->links & TASK_KEEPS_OUTPUT;
    o.cursor_ms = o.runs_count = o.skipped_count = o.last_run_ms = 0;
    o.created_ms = o.updated_ms = now_ms;
    o.started_ms = o.completed_ms = 0;
    o.last_error = (struct str){ 0 };
    action_clear_state_fields(&o);
    return o;
}

static void action_set_state(struct task *t, enum task_state next, int64_t now_ms)
{
    if (!task_is_final(next))
        t->completed_ms = 0;
    else if (next != t->state)
        t->completed_ms = now_ms;
    if (next != t->state)
        action_clear_state_fields(t);
    t->state = next;
    t->claim = (struct uuid){ 0 };
    if (next != TASK_BLOCKED && next != TASK_PAUSED)
        t->links &= ~TASK_WAITS;
}

/* An expiry counts from scheduled_ms, which therefore moves to now: otherwise the retry could expire at once. Without
 * an expiry scheduled_ms stays, since it identifies the occurrence. */
static void action_reset_for_retry(struct task *t, int64_t now_ms)
{
    task_set_due(t, now_ms);
    t->attempts = t->losses = 0;
    t->cause = t->resolution = (struct str){ 0 };
    t->resolved_ms = 0;
    if (t->expires_after_ms)
        t->scheduled_ms = now_ms;
    if (t->kind != TASK_OCCURRENCE)
        return;
    t->overlap = OVERLAP_ALLOW; /* requested by hand: a later run must not cause it to be skipped */
    t->runs_count = 0;          /* by hand now: if it had started, it was counted already; never twice */
}

/* Changes the other fields that an action sets. */
static void action_set_fields(struct task *t, enum action action, int64_t now_ms)
{
    switch (action) {
    case ACTION_RUN_NOW:
        if (!(t->links & TASK_AGAIN) || t->expires_after_ms) /* the next attempt of a run is for the same time */
            t->scheduled_ms = now_ms;
        task_set_due(t, now_ms);
        break;
    case ACTION_RESUME:
        if (t->due_ms < now_ms)
            task_put_off(t, now_ms, LATE_PAUSED);
        break;
    case ACTION_RETRY: action_reset_for_retry(t, now_ms); break;
    case ACTION_ARCHIVE: t->resolved_ms = now_ms; break;
    case ACTION_DELETE: t->deleted = true; break;
    case ACTION_CANCEL:
    case ACTION_PAUSE:
    case ACTION_FORCE_COMPLETE: break;
    }
}

enum err task_act(const struct task *t, enum action action, bool force, const struct recurrence *rule,
                  struct uuid fresh, int64_t now_ms, struct action_plan *ret, struct error *e)
{
    (void)rule;
    assert((size_t)action < ACTIONS);
    bool waits = action == ACTION_RUN_NOW && task_awaits_attempt(t, now_ms);
    enum task_state state = waits ? TASK_SCHEDULED : task_shown_state(t, now_ms);
    if (t->deleted && action != ACTION_DELETE)
        return error_set(e, ERR_NOT_FOUND, "the task was deleted");
    const struct action_cell *cell = action_find_cell(t, action, state, force);
    if (cell->what == REFUSED)
        return action_refuse(t, state, action, cell->instead, e);
    struct action_plan plan = { .task = *t, .changes = cell->what == MOVES && !t->deleted };
    bool recurring = t->kind == TASK_RECURRING;
    plan.has_also = plan.changes && recurring && action == ACTION_RUN_NOW;
    if (plan.has_also) {
        plan.also = action_occurrence_now(t, fresh, now_ms);
    } else if (plan.changes) {
        plan.task.version++;
        plan.task.updated_ms = now_ms;
        task_forget_delays(&plan.task);
        if (state == TASK_BLOCKED && action_is_forced_overlap(t, action, force))
            plan.task.overlap = OVERLAP_ALLOW;
        action_set_state(&plan.task, cell->next, now_ms);
        action_set_fields(&plan.task, action, now_ms);
        plan.withdraw = recurring && !task_is_final(t->state); /* resumed: what a pause that was cut short has left */
    }
    *ret = plan;
    return ERR_OK;
}

const char *action_name(enum action a)
{
    assert((size_t)a < ACTIONS);
    return words[a].name;
}

bool action_parse(struct str name, enum action *ret)
{
    for (size_t i = 0; i < ACTIONS; i++) {
        if (str_eq(name, str_from(words[i].name))) {
            *ret = (enum action)i;
            return true;
        }
    }
    return false;
}

#pragma once
/* port/store/tasks.h - operations by which users create and change tasks: OP_INSERT, OP_PUT; and
 * OP_RESEAL. A part of port/store.h. */
#include "core/task/spawn.h"
#include "port/store/dependencies.h"
#include "port/store/operation.h"
#include "port/store/runs.h"

/* OP_INSERT - stores new tasks, all or none.
 *
 *  1. The record of the idempotency key is checked first.
 *  2. If a task with the same id and created_ms exists, the insert is a repeat of it and counts as done, whatever
 *     became of that task since. If created_ms differs: ERR_CONFLICT, field "id".
 *  3. A new task waits for no slot: its waits_for is empty.
 *  Dedupe keys
 *  4. A task with a dedupe key holds it until created_ms + dedupe_window_ms.
 *  5. If another task of the tenant still holds the key at the new task's created_ms: ERR_CONFLICT, field "dedupe_key".
 *     The same holds for two tasks of one operation.
 *  6. takes_over names, for each task, the one holder from which it may take the key. A general permission would let
 *     two inserts that come at once both take it.
 *  7. A deleted or purged task holds no key. An OCCURRENCE takes none: its recurring task has it. A repeated insert
 *     takes nothing anew.
 *  8. The caller asks reader_dedupe first and leaves out tasks that exist. The conflict covers what comes in between.
 *  Limits
 *  9. With a limit, all tasks belong to one tenant. If the tenant then had more than max_pending tasks that are not
 *     final: ERR_LIMIT, field "max_pending". If a RECURRING task is among the new ones and the tenant then had more
 *     than max_recurring such tasks that are not final: ERR_LIMIT, field "max_recurring". Deleted tasks do not count.
 *     Tasks that exist already (rule 2) do not count again.
 *  Calendars
 * 10. A RECURRING task that is not final may name only a calendar in its tenant's catalog: else ERR_INVALID, field
 *     "calendar". The same holds for OP_PUT.
 *  Dependencies
 * 11. A task with parents is SCHEDULED, BLOCKED or SKIPPED by its join (port/store/dependencies.h), at its created_ms.
 *     No parent is a task of the same operation. */
struct op_insert {
    struct op op;
    const struct task *tasks;
    size_t count;
    const struct uuid *takes_over;         /* NULL, or one for each task; nil: from nobody */
    const struct depends_on *depends;      /* NULL, or one for each task */
    const struct definition *definition;   /* NULL, or one that is stored with the tasks (port/store/runs.h) */
    int64_t max_pending, max_recurring;    /* of the tenant; 0: no limit */
    const struct idempotency *idempotency; /* NULL: none */
};

/* OP_PUT - replaces a task's row by a user's change.
 *
 *  Guards, in this order
 *  1. The record of the idempotency key is checked first.
 *  2. If the task does not exist, is deleted, or belongs to another tenant: ERR_NOT_FOUND.
 *  3. If the version is not the expected one: ERR_CONFLICT, field "version".
 *  4. If the state, the fence or, of a RECURRING task, the cursor is not the expected one: ERR_CONFLICT, field "state".
 *  The row
 *  5. The row becomes `task`, claim included, except for the cursor (rules 8, 9) and for what settling and claiming
 *     occurrences write, which may be later than `task`: of last_run_ms the later value stays, and of a RECURRING task
 *     runs_count and skipped_count stay as they are stored (but see rules 10 and 17).
 *  6. `also` is inserted last and as OP_INSERT does it. It is never withdrawn. ERR_CONFLICT, field "id", fails the
 *     whole, and so does max_pending by rule 9 of OP_INSERT. With max_pending, `task` keeps its state, and nothing is
 *     withdrawn.
 *  Withdrawal of occurrences, with `withdraw`, of a RECURRING task
 *  7. Its OCCURRENCEs that are SCHEDULED, BLOCKED or PAUSED and never fired (no attempts, no losses, no started_ms) are
 *     deleted, except those of rule 9. An occurrence that a user retried has fired. If `task` is final, an occurrence
 *     that is due is not deleted but becomes CANCELLED, and so does one that was due before withdraw_from_ms: nobody
 *     makes it again (put_cancels, put_cancel_reason). Its updated_ms and completed_ms are updated_ms of `task`.
 *  8. The cursor becomes the earliest moment among the deleted ones (scheduled_ms and the task's schedule_spread), if
 *     that is earlier than the cursor of `task` and not before withdraw_from_ms. Occurrences before withdraw_from_ms
 *     do not move the cursor.
 *  9. An occurrence whose runs_count is 0 was requested by a user, and no schedule makes it again: it is never deleted.
 *     If `task` is final, it becomes CANCELLED as by rule 7, whenever it is due. If not, it stays as it is
 *     (put_keeps_requested).
 * 10. If `task` is CANCELLED or deleted, OCCURRENCEs that have fired and wait become CANCELLED as by rule 7, except
 *     runs that were opened (TASK_OPENED): nothing of the task starts again (put_ends_fired). The runs_count of each
 *     deleted or cancelled occurrence that never fired is subtracted from the task's (not below 0): it has not run.
 *     That of a cancelled one becomes 0.
 *  Cancelled occurrences
 * 11. If an OCCURRENCE with runs_count 1 that never started (started_ms 0) becomes CANCELLED, its runs_count becomes 0,
 *     and one is subtracted from its parent's (not below 0). If it becomes EXPIRED, one moves to its parent's
 *     skipped_count, too.
 *  Slots
 * 12. The task keeps the slots that it still needs and that outlive its new state (slot_is_kept). Deleted and withdrawn
 *     tasks release all.
 * 13. Then slot_tidy applies: a task that waits for a slot it no longer needs is SCHEDULED.
 * 14. Lines of waiting tasks are served when all else is done. Rules 11 to 14 also hold for `replace` of OP_SETTLE.
 *  Dependencies
 * 15. Edges change, and a task that becomes final arrives at its children, as port/store/dependencies.h says. now_ms is
 *     the updated_ms of `task`.
 *  The answer
 * 16. ret_state is the state that was stored: that of `task` after rules 13 and 15. Other tasks that change with it are
 *     told (port/store/changes.h).
 *  Rows of times that the rule left out
 * 17. Each of `cuts` names a SKIPPED OCCURRENCE of the task, whose last time is last_was_ms. If the task is neither
 *     final nor deleted, and the cursor by rule 8 is after that (and the task's schedule_spread), the row stays:
 *     spawning goes on behind it. Else, if it has the skipped_count count_was, it gets last_ms as cursor_ms, and count
 *     and error as skipped_count and last_error. If count is 0, or the cursor by rule 8 is not
 *     after first_ms (and the task's schedule_spread), it is deleted instead: spawning makes a row of these times
 *     again. The times that it loses are subtracted from the task's skipped_count (not below 0). Other rows stay. */
struct op_put {
    struct op op;
    const struct task *task;
    int64_t version, fence; /* expected, like the next two */
    enum task_state state;
    int64_t cursor_ms; /* of a RECURRING task */
    bool withdraw;
    int64_t withdraw_from_ms;
    const struct spawn_cut *cuts; /* rule 17 */
    size_t cut_count;
    const struct task *also;               /* NULL, or one more task to insert (run-now of a recurring task) */
    int64_t max_pending;                   /* of the tenant, for `also`; 0: no limit */
    const struct depends_change *depends;  /* NULL: its edges stay */
    const struct idempotency *idempotency; /* NULL: none */
    int64_t ret_cursor_ms;                 /* RECURRING: the cursor after the change */
    enum task_state ret_state;             /* rule 16 */
    size_t ret_withdrawn;                  /* occurrences that were deleted or cancelled */
    int64_t ret_cut;                       /* how many times rows lost by rule 17 */
    uint64_t
        ret_unblocked_lanes; /* lanes of tasks that are SCHEDULED again: they got a slot, or their join starts them */
    bool ret_arrivals_left;  /* OP_ARRIVE is needed */
};

/* OP_RESEAL - replaces secrets of tasks and of definitions of workflows by the same secrets, encrypted with another key
 * (port/secrets.h).
 *
 *  1. A task that is not RUNNING and whose target_config is still `was` gets `becomes`. The rest of its row stays,
 *     its version included: to users it is the same task. Deleted tasks are changed, too.
 *  2. Other tasks stay as they are, and so may a task that another transaction is changing. The caller finds them again
 *     later (reader_sealed_page). A RUNNING task is left out because its settlement may write the whole row.
 *  3. A definition whose text is still that of `definition` gets the text `becomes`, and keeps its hash and its time.
 *     Others stay as they are, as by rule 2 (reader_definitions). */
struct resealed {
    struct uuid id;
    struct str was, becomes; /* target_config; not empty */
};
struct definition;
struct resealed_definition {
    const struct definition *definition;
    struct str becomes;
};
struct op_reseal {
    struct op op;
    const struct resealed *v; /* in ascending order of their ids */
    size_t n;
    const struct resealed_definition *definitions; /* in ascending order of tenant and hash */
    size_t definition_count;
    size_t ret_changed; /* of both */
};

/* For stores, so that all answer alike. */
bool task_needs_calendar(const struct task *t); /* RECURRING, names a calendar, neither final nor deleted */
/* OP_PUT 17: whether the cut is made, by the cursor after rule 8. */
bool put_cut_applies(const struct op_put *op, const struct spawn_cut *c);
/* OP_PUT 17: whether the row is deleted; else it is changed. Adds to ret_cut. For a row that is as `cuts` says. */
bool put_cut_deletes(struct op_put *op, const struct spawn_cut *c);
/* OP_PUT 9: occurrences that a user requested stay. */
bool put_keeps_requested(const struct op_put *op);
/* It ended for good: its occurrences are not tried again. */
bool schedule_is_cancelled(const struct task *recurring);
/* OP_PUT 10: occurrences that have fired and wait are cancelled. */
bool put_ends_fired(const struct op_put *op);
/* OP_PUT 7, 9, 10: what becomes of an occurrence that is withdrawn, and why, for people. */
bool put_cancels(const struct op_put *op, const struct task *occurrence);
struct str put_cancel_reason(const struct task *recurring);
enum err limit_reached(const char *field, int64_t limit, struct error *e);
enum err calendar_missing(struct str name, struct error *e);
enum err calendar_used(struct str name, struct error *e);

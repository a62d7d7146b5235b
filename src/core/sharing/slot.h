#pragma once
/* core/sharing/slot.h - concurrency slots: how many tasks may run at once. They implement overlap policies and
 * concurrency keys.
 *
 * A slot is a row with a holder, never a counter.
 * - An OCCURRENCE whose overlap policy is not ALLOW needs the one slot of its recurring task. It holds the slot from
 *   its first claim until it is final, retries and waits included: until then "the previous run is not over". The first
 *   claim may come seconds before its due time.
 * - A task with a concurrency key needs one of that key's slots while it is claimed.
 * - A run of a workflow needs one from its first claim until it is final. The keys of runs are apart from those of
 *   other tasks: a run never waits for its own steps.
 *
 * If a task is due and finds no free slot, slot_decide says what happens: at its due time, never before.
 *
 * The tasks that wait for a key form one line, ordered by due_ms, then id. No task overtakes another: the first in line
 * takes a slot as soon as fewer tasks than its own limit hold the key, then the next one. So if a line has waiting
 * tasks, its first one does not fit now. */
#include "base/buf.h"
#include "core/task/task.h"

enum { SLOT_KEY_MAX = 300, SLOTS_MAX = 2 /* that one task may need */ };

enum slot_kind { SLOT_OVERLAP, SLOT_KEY, SLOT_RUN };

struct slot_need {
    enum slot_kind kind;
    struct str
        key;   /* "o:" and the recurring task's id; or "c:", of a run "w:", the tenant, ':' and the concurrency key */
    int limit; /* of holders, including this task */
    enum overlap policy; /* of a SLOT_KEY always QUEUE_ALL */
    char text[SLOT_KEY_MAX];
};

/* The slots that the task needs, in the order in which they must be taken. The keys point into ret: after a copy of
 * ret, set them again. */
size_t slot_needs(const struct task *t, struct slot_need ret[SLOTS_MAX]);
enum slot_kind slot_kind_of(struct str key);
struct str slot_key_name(struct str key);             /* for people: the recurring task's id, or the concurrency key */
enum late_cause slot_late_cause(enum slot_kind kind); /* what makes a task late that waits for such a slot */

/* What a due task does if all slots of the key are taken and `waiting` other tasks are in its line.
 * - held_ahead: an occurrence that was claimed ahead holds the overlap slot (slot_is_held_ahead). It is a later run, so
 *   there is none to be skipped for or to replace.
 * - promised: the first of the line has policy QUEUE_ALL. It was missed and is caught up on, or its task's policy was
 *   another: it runs, and is not replaced. */
enum slot_answer { SLOT_WAIT, SLOT_SKIP, SLOT_REPLACE };
enum slot_answer slot_decide(const struct slot_need *need, size_t waiting, bool held_ahead, bool promised);

/* Whether the holder of a slot is not due yet and has never fired. */
bool slot_is_held_ahead(const struct task *holder, int64_t now_ms);

/* Whether a task that holds a slot of this kind keeps it in state `next`. */
bool slot_outlives(enum slot_kind kind, enum task_state next);

/* The same for a task that was changed by a user: it may have been deleted, or may no longer need this slot. An
 * occurrence that is held back or put off before it has ever fired does not keep its overlap slot: its run has not
 * begun. */
bool slot_is_kept(const struct task *t, struct str key);

/* Sets waits_for of a task that is about to replace a row which waits for the key `waited_for`. The task may have been
 * derived from an earlier version of that row. It keeps waiting only if it is BLOCKED and still needs that slot.
 * Otherwise waits_for is cleared, and a BLOCKED task becomes SCHEDULED, to be checked again when it is claimed. */
void slot_tidy(struct task *t, struct str waited_for);

/* The text that says why a task was skipped, or replaced by a later one. */
enum { SLOT_REASON_MAX = 80 };
struct str slot_skip_reason(int64_t holder_scheduled_ms, char out[SLOT_REASON_MAX]);
struct str slot_replace_reason(int64_t by_scheduled_ms, char out[SLOT_REASON_MAX]);

/* A set of keys whose lines must be checked once all other changes are made: keys of slots that were released and of
 * tasks that left a line. */
struct slot_keys {
    struct buf text; /* each key followed by a NUL */
};
void slot_keys_init(struct slot_keys *k);
void slot_keys_release(struct slot_keys *k);
void slot_keys_add(struct slot_keys *k, struct str key);
bool slot_keys_next(const struct slot_keys *k, size_t *at, struct str *ret); /* *at: 0 for the first call */

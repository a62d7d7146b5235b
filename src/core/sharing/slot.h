#pragma once
/* core/sharing/slot.h - slots: how many tasks of a kind may run at once (R1.8). Overlap policies and concurrency keys are one thing here.
 *
 * A slot is a row with a holder, never a counter. An OCCURRENCE whose overlap is not ALLOW needs the one slot of its recurring
 * task and holds it from its first claim until it is final, retries and waits included: that is what "the previous run is not
 * over" means. A task with a concurrency key needs one of that key's slots for as long as it is claimed.
 * What a task that finds no slot does is decided here, at its due time and never before.
 *
 * Who waits for a slot stands in one line a key, by due_ms, then id, and nobody overtakes: the first of the line takes the slot
 * as soon as fewer than its own limit hold the key, the next one behind it. So in every line the first does not fit in. */
#include "base/buf.h"
#include "core/task/task.h"

enum { SLOT_KEY_MAX = 300, SLOTS_MAX = 2 /* that one task may need */ };

enum slot_kind { SLOT_OVERLAP, SLOT_KEY };

struct slot_need {
    enum slot_kind kind;
    struct str key;      /* "o:" and the recurring task's id, or "c:", its tenant, ':' and the concurrency key */
    int limit;           /* of holders, itself among them */
    enum overlap policy; /* of a SLOT_KEY: QUEUE_ALL */
    char text[SLOT_KEY_MAX];
};

/* What the task needs, in the order they are to be taken. The keys point into ret: copy it, and they are to be set anew. */
size_t slot_needs(const struct task *t, struct slot_need ret[SLOTS_MAX]);
enum slot_kind slot_kind_of(struct str key);
struct str slot_key_name(struct str key); /* for people: the recurring task's id, or the concurrency key */

/* A task that is due and found the key's slots taken, `waiting` others in its line. */
enum slot_answer { SLOT_WAIT, SLOT_SKIP, SLOT_REPLACE };
enum slot_answer slot_decide(const struct slot_need *need, size_t waiting);

/* Whether a task in this state, that holds such a slot, goes on holding it. */
bool slot_outlives(enum slot_kind kind, enum task_state next);

/* The same for a task as it is now: it may have been deleted, or need that slot no more. */
bool slot_is_kept(const struct task *t, struct str key);

/* For a task that is to replace a row which waits for that key: only who is BLOCKED waits, for what the row waits for (the task may be a
 * change to the row as it was before), and only if it needs that still. Else what was BLOCKED by a slot is SCHEDULED, to be looked at anew
 * when it is claimed. */
void slot_tidy(struct task *t, struct str waited_for);

/* Why a task was skipped, or gave way to a later one. */
enum { SLOT_REASON_MAX = 80 };
struct str slot_skip_reason(int64_t holder_scheduled_ms, char out[SLOT_REASON_MAX]);
struct str slot_replace_reason(int64_t by_scheduled_ms, char out[SLOT_REASON_MAX]);

/* Keys whose lines are to be looked at once all else is done: of slots that were let go of, of tasks that left a line. */
struct slot_keys {
    struct buf text; /* each with a NUL behind it */
};
void slot_keys_init(struct slot_keys *k);
void slot_keys_release(struct slot_keys *k);
void slot_keys_add(struct slot_keys *k, struct str key);
bool slot_keys_next(const struct slot_keys *k, size_t *at, struct str *ret); /* *at: 0 to begin with */

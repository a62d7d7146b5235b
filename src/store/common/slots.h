#pragma once
/* store/common/slots.h - the rules for slots (core/sharing/slot.h), shared by every store that uses SQL: which task
 * gets a slot, which waits, which is skipped or cancelled.
 *
 * All decisions are here. A store provides the primitives that read and change its rows (struct slots_ops), and decides
 * nothing. A holder of a slot is a row of table slots. A waiting task names the slot's key in its own row (waits_for),
 * and an index over these rows is the waiting line. Tasks that need no slot have gates NULL and never come here.
 *
 * If other nodes write to the same store, a primitive that is given a key also locks it: no other node changes the
 * holders or the line of that key until the transaction ends. */
#include "core/sharing/slot.h"
#include "port/store.h"

/* The columns of a task that slots need. */
struct slot_row {
    int64_t rid; /* in a store that numbers its rows; else 0, and id identifies the row */
    struct uuid id;
    int32_t tenant;
    bool deleted;
    enum task_state state;
    int64_t fence, due_ms;
    int64_t lane;  /* the lane's number; set only by slots_ops.first */
    int64_t limit; /* how many may hold the slot that it waits for; set only by slots_ops.first, like the next */
    enum overlap overlap;
    int links; /* enum task_link */
};

struct held_slots {
    size_t n;
    struct str key[SLOTS_MAX]; /* points into text: after a copy of the struct, set it again */
    char text[SLOTS_MAX][SLOT_KEY_MAX];
};
bool slots_have(const struct held_slots *h, struct str key);
bool held_slots_add(struct held_slots *h, struct str key); /* false: not a valid slot key, or too many */

/* Stores embed this. */
struct slots {
    const struct slots_ops *ops;
    struct store *store; /* is told of changes */
};

struct slots_ops {
    /* count: how many tasks hold the key. first: the first task of its line; *ret_found false: the line is empty. */
    enum err (*count)(struct slots *, struct str key, int64_t *ret, struct error *);
    enum err (*first)(struct slots *, struct str key, struct slot_row *ret, bool *ret_found, struct error *);
    /* held: the slots that the task holds. waits_for: the key that its row waits for, in `text`; empty: none. */
    enum err (*held)(struct slots *, const struct uuid *task, struct held_slots *ret, struct error *);
    enum err (*waits_for)(struct slots *, const struct slot_row *, char text[SLOT_KEY_MAX], struct str *ret,
                          struct error *);
    enum err (*hold)(struct slots *, int32_t tenant, const struct uuid *task, struct str key, struct error *);
    enum err (*drop)(struct slots *, const struct uuid *task, struct str key, struct error *);
    /* Change a task's row and the counts of states.
     * - hand: the first task of the line gets the slot and becomes SCHEDULED; *ret_bit is the bit of its lane.
     * - block: the task becomes BLOCKED.
     * - give_up: the task becomes SKIPPED or CANCELLED, at now_ms. */
    enum err (*hand)(struct slots *, const struct slot_row *first, struct str key, uint64_t *ret_bit, struct error *);
    enum err (*block)(struct slots *, const struct slot_row *, const struct slot_need *, int64_t now_ms,
                      struct error *);
    enum err (*give_up)(struct slots *, const struct slot_row *, enum task_state, struct str why, int64_t now_ms,
                        struct error *);
    /* An OCCURRENCE that will not run is subtracted from its parent's runs_count; a skipped one is added to
     * skipped_count. */
    enum err (*uncount)(struct slots *, const struct slot_row *, const struct uuid *parent, bool skipped,
                        struct error *);
    /* The tasks that a replacing task displaces. holders: all holders of the key; the caller frees *ret. other: the
     * first task of the line except `but`. */
    enum err (*holders)(struct slots *, struct str key, struct slot_row **ret, size_t *ret_count, struct error *);
    enum err (*other)(struct slots *, struct str key, const struct slot_row *but, struct slot_row *ret, bool *ret_found,
                      struct error *);
    /* since: the earliest scheduled_ms of a holder. held_ahead: whether slot_is_held_ahead is true of a holder. Both of
     * overlap slots only. */
    enum err (*since)(struct slots *, struct str key, int64_t *ret, struct error *);
    enum err (*held_ahead)(struct slots *, struct str key, int64_t now_ms, bool *ret, struct error *);
};

/* ---- release and hand over ---- */

/* Releases the slots that the task, in its new form `next`, does not keep; NULL: all of them. Adds their keys to
 * `keys`, so that the caller hands them over. */
enum err slots_release(struct slots *s, const struct uuid *task, const struct task *next, struct slot_keys *keys,
                       struct error *e) must_use;
/* Releases the slots that the state `next` does not keep (slot_outlives), and hands them over. */
enum err slots_settle(struct slots *s, const struct uuid *task, enum task_state next, uint64_t *unblocked,
                      struct error *e) must_use;
enum err slots_hand_over(struct slots *s, const struct slot_keys *keys, uint64_t *unblocked, struct error *e) must_use;

/* ---- claims ---- */

/* A task that a claim considers and that needs slots. Its texts are in the store's own arena. */
struct candidate {
    struct slot_row row;
    struct task task; /* only id, tenant, kind, parent, links, due_ms, scheduled_ms, deleted, gates */
    size_t bytes;
    struct slot_need needs[SLOTS_MAX];
    size_t n;
    size_t missing; /* index of the first slot that it cannot have; n: none */
    struct held_slots held;
};

/* Collects what a claim does with tasks that find no slot. */
struct gate {
    struct slots *slots;
    int64_t now_ms;
    /* True: this claim has taken the task, which will be RUNNING with another fence. */
    bool (*is_picked)(struct gate *g, const struct slot_row *r);
    uint64_t unblocked;
    size_t handled;
    struct gated {
        int64_t rid;
        struct uuid id;
    } * gated; /* tasks whose rows changed, each once */
    size_t gated_count, gated_cap;
    struct replaced *replaced;
    size_t replaced_count, replaced_cap;
};
/* The replaced tasks; those that this claim has taken itself have the fences of `taken`. NULL: no room. */
struct replaced *gate_copy_replaced(const struct gate *g, const struct tasks *taken, struct arena *a);
void gate_release(struct gate *g);

/* Finds the first slot that the candidate cannot have. Its row and task are set. */
enum err gate_check(struct gate *g, struct candidate *k, struct error *e) must_use;
/* Takes the first n slots that the candidate needs, except those that it holds already. */
enum err gate_take(struct gate *g, const struct candidate *k, size_t n, struct error *e) must_use;
/* Handles a task that misses a slot at its due time, as OP_CLAIM says: it waits, is skipped, or replaces others. */
enum err gate_handle(struct gate *g, const struct candidate *k, struct error *e) must_use;

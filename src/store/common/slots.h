#pragma once
/* store/common/slots.h - who gets a slot, who waits and who gives way (core/sharing/slot.h), once for every store that speaks SQL.
 *
 * What is decided is decided here. A store says how its rows are read and changed: a handful of primitives, none of which decides
 * anything. A holder is a row of slots; who waits says so in its own row, and an index over those rows is the line. Tasks that need no
 * slot never come here: their gates are NULL.
 *
 * Where other nodes write too, a primitive that is given a key sees to it that nobody else changes who holds it or waits for it until
 * the transaction is over. */
#include "core/sharing/slot.h"
#include "port/store.h"

/* A task's row as far as slots are concerned. */
struct slot_row {
    int64_t rid; /* of a store that numbers its rows; else 0, and the id names it */
    struct uuid id;
    int32_t tenant;
    bool deleted;
    enum task_state state;
    int64_t fence, due_ms;
    int64_t lane;  /* its number, of who is first in a line */
    int64_t limit; /* of holders, for the slot that it waits for; as lane */
};

struct held_slots {
    size_t n;
    struct str key[SLOTS_MAX]; /* in text: copy it, and they are to be set anew */
    char text[SLOTS_MAX][SLOT_KEY_MAX];
};
bool slots_have(const struct held_slots *h, struct str key);
bool held_slots_add(struct held_slots *h, struct str key); /* false: not a slot of ours */

/* Stores embed this. */
struct slots {
    const struct slots_ops *ops;
};

struct slots_ops {
    /* How many hold the key; its line's first, *ret_found false: it has none. */
    enum err (*count)(struct slots *, struct str key, int64_t *ret, struct error *);
    enum err (*first)(struct slots *, struct str key, struct slot_row *ret, bool *ret_found, struct error *);
    /* What the task holds, and the key that its row waits for, in `text`; empty: none. */
    enum err (*held)(struct slots *, const struct uuid *task, struct held_slots *ret, struct error *);
    enum err (*waits_for)(struct slots *, const struct slot_row *, char text[SLOT_KEY_MAX], struct str *ret,
                          struct error *);
    enum err (*hold)(struct slots *, int32_t tenant, const struct uuid *task, struct str key, struct error *);
    enum err (*drop)(struct slots *, const struct uuid *task, struct str key, struct error *);
    /* Rows, with their counts: the line's first takes its slot and is SCHEDULED, *ret_bit is that of its lane; BLOCKED; SKIPPED or
     * CANCELLED at that time. */
    enum err (*hand)(struct slots *, const struct slot_row *first, struct str key, uint64_t *ret_bit, struct error *);
    enum err (*block)(struct slots *, const struct slot_row *, const struct slot_need *, int64_t now_ms,
                      struct error *);
    enum err (*give_up)(struct slots *, const struct slot_row *, enum task_state, struct str why, int64_t now_ms,
                        struct error *);
    /* An OCCURRENCE that will not run: it is taken off its task's runs. */
    enum err (*uncount)(struct slots *, const struct slot_row *, const struct uuid *parent, struct error *);
    /* Who stands in the way of one that replaces others: all that hold the key (the caller frees *ret), and the next in its line
     * besides that one. */
    enum err (*holders)(struct slots *, struct str key, struct slot_row **ret, size_t *ret_count, struct error *);
    enum err (*other)(struct slots *, struct str key, const struct slot_row *but, struct slot_row *ret, bool *ret_found,
                      struct error *);
    /* The earliest scheduled_ms of a holder. */
    enum err (*since)(struct slots *, struct str key, int64_t *ret, struct error *);
};

/* ---- lines ---- */

/* Lets go of what the task, as it is now, keeps no more; NULL: of all. Keys whose lines are to be looked at go to `keys`. */
enum err slots_let_go(struct slots *s, const struct uuid *task, const struct task *next, struct slot_keys *keys,
                      struct error *e) must_use;
/* Lets go of what does not outlive that state, and hands it over. */
enum err slots_settle(struct slots *s, const struct uuid *task, enum task_state next, uint64_t *unblocked,
                      struct error *e) must_use;
enum err slots_hand_over(struct slots *s, const struct slot_keys *keys, uint64_t *unblocked, struct error *e) must_use;

/* ---- claims ---- */

/* A task that is looked at by a claim and needs slots; its texts are in the store's own arena. */
struct candidate {
    struct slot_row row;
    struct task task; /* id, tenant, kind, parent, due_ms, scheduled_ms, deleted and its gates */
    size_t bytes;
    struct slot_need needs[SLOTS_MAX];
    size_t n;
    size_t missing; /* the first that it can not have; n: none */
    struct held_slots held;
};

/* What became of those that found no slot. */
struct gate {
    struct slots *slots;
    int64_t now_ms;
    bool (*is_picked)(struct gate *g, const struct slot_row *r); /* by this claim: it will be RUNNING, fence + 1 */
    uint64_t unblocked;
    size_t dealt_with;
    struct gated {
        int64_t rid;
        struct uuid id;
    } * gated; /* whose rows have changed, each once */
    size_t gated_count, gated_cap;
    struct replaced *replaced;
    size_t replaced_count, replaced_cap;
};
void gate_release(struct gate *g);

/* Which of its slots it can not have: row and task are known. */
enum err gate_look(struct gate *g, struct candidate *k, struct error *e) must_use;
/* The first n that it needs, as far as it does not hold them yet. */
enum err gate_take(struct gate *g, const struct candidate *k, size_t n, struct error *e) must_use;
/* One that misses a slot at its due time, as OP_CLAIM says. */
enum err gate_deal_with(struct gate *g, const struct candidate *k, struct error *e) must_use;

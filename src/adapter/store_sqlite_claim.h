#pragma once
/* adapter/store_sqlite_claim.h - what the two halves of OP_CLAIM share: store_sqlite_claim.c walks the lanes, store_sqlite_gate.c sees to
 * the tasks that need slots. */
#include "adapter/store_sqlite_impl.h"

/* What a claim has done so far. */
struct claiming {
    struct op_claim *op;
    struct arena *arena;
    size_t n, bytes, dealt_with; /* n: picked, the scratch's first */
    bool full;                   /* nothing more may be taken, from this lane or the next */
    uint64_t woke;
    int64_t *gated; /* their rids */
    size_t gated_count, gated_cap;
    struct replaced *replaced;
    size_t replaced_count, replaced_cap;
};

/* A task that needs slots, as far as they are concerned; its texts are in the store's own arena. */
struct candidate {
    int64_t rid;
    size_t bytes;
    struct task task;
    struct slot_need needs[SLOTS_MAX];
    size_t n;
    size_t missing; /* the first that it can not have; n: none */
    struct held_slots held;
};

static inline void claim_add_bytes(struct claiming *c, size_t bytes)
{
    c->bytes += bytes;
    c->full = c->full || c->bytes >= c->op->max_bytes;
}

/* The row where st stands (ST_DUE), and which of its slots it can not have. */
enum err gate_look(struct store_sqlite *s, sqlite3_stmt *st, struct candidate *ret, struct error *e) must_use;
/* The first n that it needs, as far as it does not hold them yet. */
enum err gate_take_slots(struct store_sqlite *s, const struct candidate *k, size_t n, struct error *e) must_use;
/* One that misses a slot at its due time, as OP_CLAIM says. */
enum err gate_deal_with(struct store_sqlite *s, struct claiming *c, const struct candidate *k,
                        struct error *e) must_use;

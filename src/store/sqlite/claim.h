#pragma once
/* store/sqlite/claim.h - what the two halves of OP_CLAIM share: claim.c walks the lanes, slot_gate.c reads
 * and changes the rows of tasks that need slots (store/common/slots.h). */
#include "store/sqlite/internal.h"

/* What a claim has done so far. */
struct claiming {
    struct op_claim *op;
    struct arena *arena;
    size_t n, bytes; /* n: picked, the scratch's first */
    bool full;       /* nothing more may be taken, from this lane or the next */
    struct gate gate;
};

/* The row where st stands (ST_DUE). */
enum err candidate_read(struct store_sqlite *s, sqlite3_stmt *st, struct candidate *ret, struct error *e) must_use;
bool claim_is_picked(struct gate *g, const struct slot_row *r);

#pragma once
/* store/sqlite/claim.h - shared by the two halves of OP_CLAIM: claim.c walks the lanes; slot_gate.c reads and changes
 * the rows of tasks that need slots (store/common/slots.h). */
#include "store/sqlite/internal.h"

/* The progress of a claim. */
struct claiming {
    struct op_claim *op;
    struct arena *arena;
    size_t n, bytes; /* n: tasks taken so far, the first entries of the scratch */
    bool full;       /* nothing more may be taken, from this lane or another */
    struct gate gate;
};

/* Reads the current row of st (ST_DUE). */
enum err sqlite_claim_read_candidate(struct store_sqlite *s, sqlite3_stmt *st, struct candidate *ret,
                                     struct error *e) must_use;
bool sqlite_claim_is_taken(struct gate *g, const struct slot_row *r);

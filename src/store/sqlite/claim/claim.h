#pragma once
/* store/sqlite/claim/claim.h - shared by the operations on claims. OP_CLAIM: claim.c walks the lanes; claim_line.c
 * merges the lanes of a line; sharing/slot_gate.c reads and changes the rows of tasks that need slots
 * (store/common/slots.h). */
#include "store/sqlite/internal.h"

/* The progress of a claim. */
struct claiming {
    struct op_claim *op;
    struct arena *arena;
    size_t n, bytes; /* n: tasks taken so far, the first entries of the scratch */
    bool full;       /* nothing more may be taken, from this line or another */
    struct gate gate;
};

/* A position in a lane: behind this task. */
struct lane_position {
    int64_t due_ms;
    struct uuid id;
};
static const struct lane_position lane_start = { .due_ms = INT64_MIN };

enum claim_fate { FATE_TAKEN, FATE_PASSED_OVER, FATE_HANDLED };

int sqlite_claim_pool(const struct op_claim *op, const struct lane *lane, bool suspects);
/* Whether the current row of st (ST_DUE) may be claimed at this time. */
bool sqlite_claim_may_take(const struct op_claim *op, sqlite3_stmt *st);
/* Checks the current row of st. If the task was handled, rows of the index over due tasks have changed, and st is
 * reset. */
enum err sqlite_claim_check_task(struct store_sqlite *s, struct claiming *c, sqlite3_stmt *st, enum claim_fate *ret,
                                 struct error *e) must_use;

/* Takes at most max tasks of these lanes, in the order of lane_order_ms. */
enum err sqlite_claim_merge(struct store_sqlite *s, struct claiming *c, struct lane_quota *lanes, size_t n, size_t max,
                            struct error *e) must_use;

/* Reads the current row of st (ST_DUE). */
enum err sqlite_claim_read_candidate(struct store_sqlite *s, sqlite3_stmt *st, struct candidate *ret,
                                     struct error *e) must_use;
/* Whether an earlier occurrence of the same recurring task is still to come and needs the overlap slot. */
enum err sqlite_slot_has_earlier(struct store_sqlite *s, const struct task *t, bool *ret, struct error *e) must_use;
bool sqlite_claim_is_taken(struct gate *g, const struct slot_row *r);

/* ---- tasks that left their claims (claimed.c) ---- */

enum { CLAIMS_LEFT_MAX = 16 };

/* Tasks that left their claims, counted by claim: most tasks of an operation come from a few claims. */
struct claims_left {
    struct uuid claim[CLAIMS_LEFT_MAX];
    int64_t count[CLAIMS_LEFT_MAX];
    size_t n, last;
};

/* Counts a task that has left a claim. The counts are written by sqlite_claims_left_write, and earlier if there are too
 * many claims. */
enum err sqlite_claims_left_add(struct store_sqlite *s, struct claims_left *l, struct uuid claim,
                                struct error *e) must_use;
enum err sqlite_claims_left_write(struct store_sqlite *s, struct claims_left *l, struct error *e) must_use;

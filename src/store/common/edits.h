#pragma once
/* store/common/edits.h - the decisions of OP_PUT, OP_CATALOG and OP_CATCH_UP, shared by every store that uses SQL. The
 * stores read and write the rows. */
#include "port/store.h"

/* ---- OP_PUT ---- */

/* The row before the change. */
struct put_guard {
    bool found, deleted;
    int32_t tenant;
    enum task_kind kind;
    enum task_state state;
    int64_t version, fence, cursor_ms, last_run_ms, runs_count, skipped_count;
    int links;
};

/* put_begin resets the results; put_check says whether the change is allowed. */
void put_begin(struct op_put *op);
enum err put_check(const struct op_put *op, const struct put_guard *g, struct error *e) must_use;

bool put_withdraws(const struct op_put *op);
/* Counts one more withdrawn occurrence. *runs sums up the runs_count of all of them. True: it is to be cancelled, not
 * deleted. */
bool put_withdraw(struct op_put *op, const struct task *occurrence, int64_t *runs);

/* The new row, except for slots. */
struct task put_next(const struct op_put *op, const struct put_guard *g, int64_t runs);

/* ---- OP_CATALOG ---- */

/* Whether the entry has the version that the change expects; 0: there is none. */
enum err catalog_check(const struct catalog_change *c, int64_t version, struct error *e) must_use;

/* ---- OP_CATCH_UP ---- */

/* The scan over the occurrences of one recurring task, from the latest back. */
struct catch_up_scan {
    struct uuid id;
    int32_t tenant;
    struct schedule schedule; /* only the members about catching up */
    int64_t before_ms;
    size_t ahead;     /* occurrences found that may be withdrawn */
    size_t n;         /* how many of these to withdraw: the first n found */
    int64_t first_ms; /* scheduled_ms of the earliest of these */
};

enum catch_up_fate {
    CATCH_UP_PASSED, /* continue; this occurrence was requested by hand */
    CATCH_UP_AHEAD,  /* continue; this occurrence may be withdrawn */
    CATCH_UP_END     /* stop: no earlier occurrence can be withdrawn */
};
enum catch_up_fate catch_up_visit(struct catch_up_scan *m, const struct task *occurrence, bool holds_slot);
int64_t catch_up_cursor(const struct catch_up_scan *m); /* an upper bound for the new cursor */

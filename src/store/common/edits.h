#pragma once
/* store/common/edits.h - what OP_PUT and OP_CATCH_UP decide, once for every store that speaks SQL: rows are read and written elsewhere. */
#include "port/store.h"

/* ---- OP_PUT ---- */

/* The row as it is. */
struct put_guard {
    bool found, deleted;
    int32_t tenant;
    enum task_kind kind;
    enum task_state state;
    int64_t version, fence, cursor_ms, last_run_ms;
};

/* Nothing is withdrawn yet; whether it may be done at all. */
void put_begin(struct op_put *op);
enum err put_check(const struct op_put *op, const struct put_guard *g, struct error *e) must_use;

bool put_withdraws(const struct op_put *op);
/* One occurrence more that is withdrawn; *runs is what all of them have counted for. */
void put_withdraw(struct op_put *op, int64_t scheduled_ms, int64_t runs_count, int64_t *runs);

/* What the row becomes, but for slots. */
struct task put_next(const struct op_put *op, const struct put_guard *g, int64_t runs);

/* ---- OP_CATCH_UP ---- */

/* A recurring task whose occurrences are looked at, from the latest back. */
struct missed {
    struct uuid id;
    int32_t tenant;
    struct schedule schedule; /* what there is about catching up in it */
    int64_t before_ms;
    size_t ahead;     /* how many were found that may be taken back */
    size_t n;         /* so many of them are to be, the first that were found */
    int64_t first_ms; /* the earliest of these was for */
};

enum catch_up_fate {
    CATCH_UP_PASSED, /* goes on; it was made by hand */
    CATCH_UP_AHEAD,  /* goes on; it is the newest of those that may be taken back */
    CATCH_UP_END     /* there is nothing to be found behind it */
};
enum catch_up_fate catch_up_look(struct missed *m, const struct task *occurrence, bool holds_slot);
int64_t catch_up_cursor(const struct missed *m); /* no later than that */

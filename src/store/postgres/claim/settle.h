#pragma once
/* store/postgres/claim/settle.h - shared by the two parts of OP_SETTLE: settle.c decides what becomes of the tasks,
 * settle_write.c writes it. */
#include "store/postgres/internal.h"

/* A settlement that is not stale, and its task. */
struct pg_settled {
    struct settlement *given;
    struct settlement *settlement; /* the given one, or a copy that its run or its parent has changed */
    const struct pg_guards *was;
    int64_t lane;      /* of the task afterwards */
    bool leased;       /* the task was leased */
    bool withdrawn;    /* OP_SETTLE 11 */
    int64_t cursor_ms; /* if withdrawn: where the cursor of its parent goes back to */
};

struct pg_settling {
    struct op_settle *op;
    struct join_fold *fold;
    struct pg_settled *v;
    size_t n;
};

enum err pg_settle_apply(struct store_postgres *s, struct pg_settling *t, struct error *e) must_use;

#pragma once
/* core/task/settle_metrics.h - counts what settling made of an attempt: how it ended, by whose fault it failed, and how
 * late a first attempt began. Of all tenants, and by tenant. */
#include "core/task/settle.h"

/* X(id, name). Whose fault a failure is. */
#define FAULT_MAP(X)                                                                                                   \
    /* not reached, too slow, an answer that a retry may change, or a user's worker that did not report in time */     \
    X(TARGET, "target")                                                                                                \
    X(REQUEST, "request") /* the task itself: an answer that no retry changes, or a target that Belfry refuses */      \
    X(BELFRY, "belfry")   /* lost with its process, or an internal error */

enum fault {
#define X(id, name) FAULT_##id,
    FAULT_MAP(X)
#undef X
        FAULTS
};

enum fault fault_of(enum target_kind target, const struct outcome *o);

struct settled_attempt {
    int32_t tenant;
    const struct verdict *verdict;
    enum task_state state; /* that was stored */
    enum fault fault;      /* if it failed */
    const char *trace;     /* the id of its trace, if that is recorded; else NULL */
    enum target_kind target;
};

/* Shows all faults with 0, so that a rate sees the first failure. */
void settle_count_from_zero(struct metrics *m);
/* Tasks of tenant 0 are Belfry's own work, and do not count. */
void settle_count(struct metrics *m, const struct settled_attempt *s);

#pragma once
/* port/planner.h - decides what happens with a claimed task of a workflow: a run, or a step whose call comes from the
 * definition of its run (port/store/runs.h).
 *
 *  - The node submits a plan that names the task. `done` is called exactly once, on the node's thread, before a later
 *    step. A planner may read the store, and takes its time off the node's thread.
 *  - A plan changes nothing. It is made of what is stored: made twice for one claim, it is the same, as long as nobody
 *    has carried it out.
 *  - If rc is not ERR_OK, nothing is known, and the node asks again later. What is wrong with the workflow itself is no
 *    such error: the plan ends the task as FAILED.
 *  - All results live in the plan's arena. */
#include "core/task/settle.h"
#include "port/store/runs.h"

enum plan_kind {
    PLAN_CALL,  /* a worker runs it, with these fields */
    PLAN_END,   /* it ends with this outcome */
    PLAN_OPEN,  /* it is opened: OP_OPEN, page by page */
    PLAN_AWAIT, /* OP_AWAIT */
    PLAN_STOP,  /* OP_STOP for one or more runs, until nothing is left that waits; then a new plan is made */
};

struct plan {
    const struct task *task; /* RUNNING under the claim; borrowed until done */
    int64_t now_ms;

    enum err rc;
    struct error error;
    struct arena arena; /* the submitter inits and releases it */
    enum plan_kind kind;
    struct str target_config, payload; /* CALL */
    /* CALL: they are stored, and the task waits once more, with them in its row: a worker leases it, or every attempt
     * is to get the same bytes although more may be known later. */
    bool keeps;
    struct outcome outcome; /* END */
    struct op_open open;    /* OPEN: all rows of it; the submitter makes pages of it */
    struct run_row begin;   /* what open.begin points to */
    struct {
        struct str signal;
        size_t seen;
        int64_t timeout_ms;
    } await;
    struct {
        struct uuid run;
        const struct uuid *others; /* runs that are stopped after it */
        size_t other_count;
        enum run_stop stop; /* RUN_GOES_ON: only what is left is closed (RUN_CLOSE) */
        struct str why;
        bool has_range;
        int64_t from, to;
    } stop;

    void (*done)(struct plan *p);
    void *context;
    struct list link; /* the planner's */
};

struct planner {
    const struct planner_ops *ops;
};

struct planner_ops {
    void (*submit)(struct planner *, struct plan *);
};

static inline void planner_submit(struct planner *p, struct plan *plan)
{
    p->ops->submit(p, plan);
}

/* Whether a claimed task needs a plan before anything else. */
static inline bool task_needs_plan(const struct task *t)
{
    return t->target == TARGET_WORKFLOW || t->links & TASK_PLANNED;
}

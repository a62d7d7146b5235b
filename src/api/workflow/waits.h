#pragma once
/* api/workflow/waits.h - what a task of a workflow is, and what it waits for, in the names of its definition: for
 * explanations. A pool thread that owns the request. */
#include "api/workflow/run.h"

/* A run, or the place of a step in one. Texts are in the request's arena. */
struct run_place {
    bool is_run, is_step; /* neither: the task is no part of a workflow, and the rest is empty */
    struct uuid run;      /* itself, if it is a run */
    struct str run_name;  /* may be empty */
    struct str step;      /* is_step: its name; empty: its run is gone */
    struct str subject;   /* "step 'ship' of the run 'order 7'" */
    struct str error;     /* is_step: its last error, with names of steps */
    struct str signal;    /* it awaits this signal; else empty */
    int64_t approvals;    /* of the signal: needed, and received */
    int64_t received;
    int64_t max_concurrent; /* an item of a map with this limit; else 0 */
};

enum { RUN_ERROR_TEXT = DEPENDENCY_REASON_MAX + STEP_NAME_MAX };
/* The last error of a step. The store names the task that a step was skipped for by its id; here it is named as a step.
 */
struct str run_step_error(const struct dag *d, const struct task *t, char text[RUN_ERROR_TEXT]);

/* The deadline that will stop the task, the earliest of its run and of the runs around that; 0: none, or the run is
 * being stopped or undone. */
enum err run_deadline_read(struct request *q, struct reader *r, const struct task *t, int64_t *ret,
                           struct error *e) must_use;

enum err run_place_read(struct request *q, struct reader *r, const struct task *t, struct run_place *ret,
                        struct error *e) must_use;

/* Writes what holds the task, which has TASK_WAITS: "2 of 3 steps: 'a' (RUNNING), 'b' (not started)". */
enum err run_write_waits(struct request *q, struct reader *r, const struct task *t, struct buf *out,
                         struct error *e) must_use;

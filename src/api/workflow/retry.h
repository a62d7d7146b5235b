#pragma once
/* api/workflow/retry.h - runs that are retried or run again: whether they can be, and the rows that they become. A pool
 * thread that owns the request. */
#include "api/workflow/run.h"

/* `extra` of the task: the user's fields of `of`, which is the same task or one that is run again, and more members,
 * without braces. */
enum err run_add_extra(struct request *q, struct task *t, const struct task *of, struct str more,
                       struct error *e) must_use;
/* The row of a run that is retried. more: members of its `extra` for the planner, without braces. */
enum err run_make_retry(struct request *q, const struct workflow_run *run, struct str more, struct task *t,
                        struct error *e) must_use;
/* Whether the run of that row can be retried. ERR_CONFLICT: it cannot, or not any more. */
enum err run_check_retry(struct request *q, struct reader *r, const struct task *t, struct error *e) must_use;

/* Refuses a request on a run that waits for its next attempt, and names the request that starts that. */
enum err run_refuse_waiting(struct request *q, struct reader *r, const struct task *run, const char *what,
                            struct error *e);

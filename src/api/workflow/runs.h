#pragma once
/* api/workflow/runs.h - what the creation of runs shares with that of tasks. */
#include "api/task/pause_body.h"
#include "api/workflow/run.h"
#include "core/task/action.h"

/* Answers with a run that is created (201) or changed (200), or was found by its dedupe_key. The thread that owns the
 * request. */
void workflows_answer_new(struct request *q, const struct task *t, int status);
void workflows_answer_found(struct request *q, const struct task *t);

/* stop.c: cancels, pauses or resumes an open run, whose row was read. A pool thread. */
enum handled workflows_stop(struct request *q, struct reader *r, enum action action, bool compensate,
                            const struct pause_body *pause);
/* retry.c: `extra` of the task: the user's fields of `of`, which is the same task or one that is run again, and more
 * members, without braces. */
enum err run_add_extra(struct request *q, struct task *t, const struct task *of, struct str more,
                       struct error *e) must_use;
/* retry.c: the row of a run that is retried. more: members of its `extra` for the planner, without braces. */
enum err run_make_retry(struct request *q, const struct workflow_run *run, struct str more, struct task *t,
                        struct error *e) must_use;
/* retry.c: whether the run of that row can be retried. ERR_CONFLICT: it cannot, or not any more. */
enum err run_check_retry(struct request *q, struct reader *r, const struct task *t, struct error *e) must_use;
/* edit.c: an action on the task in the path. pause: of ACTION_PAUSE; else empty. */
enum handled edit_act(struct request *q, struct reader *r, enum action action, bool compensate,
                      const struct pause_body *pause);
/* edit.c: the body of a pause, which the audit row notes. */
enum err edit_read_pause(struct request *q, const struct json_doc *doc, struct pause_body *ret,
                         struct error *e) must_use;

/* tasks.c: the end of a create, once q->tasks, q->depends and q->definition are set and the limits were asked. */
route_handler tasks_create_now;
/* "idempotency_key" in the body replaces the header. False: the request is answered. */
bool tasks_take_body_key(struct request *q, const struct json_doc *doc);

#pragma once
/* api/workflow/runs.h - answers to the creation of a run, which is that of a task, and to a change of it. The thread
 * that owns the request. */
#include "api/server/request.h"

/* Answers with a run that is created (201) or changed (200), or was found by its dedupe_key. */
void workflows_answer_new(struct request *q, const struct task *t, int status);
void workflows_answer_found(struct request *q, const struct task *t);

#pragma once
/* api/forecast/due_task.h - upcoming of a task that is due and has not started: what holds it, which only the node
 * knows. */
#include "api/server/internal.h"

/* Whether the node is to be asked: it is due, and may wait for its start. */
bool due_task_may_wait(const struct task *t, int64_t now_ms);
/* The answer of GET /v1/tasks/{id}/upcoming. from_ms: fires before it are left out, unless their time is not known. */
enum handled due_task_answer(struct request *q, struct reader *r, const struct task *t, int64_t from_ms);

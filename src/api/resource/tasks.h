#pragma once
/* api/resource/tasks.h - what the creation and the view of tasks share with other requests: batches, runs and steps. */
#include "api/server/request.h"
#include "base/json/json.h"

/* "idempotency_key" in the body replaces the header. False: the request is answered. The thread that owns the
 * request. */
bool tasks_take_body_key(struct request *q, const struct json_doc *doc);

/* The end of a create, once q->tasks, q->depends and q->definition are set and the limits were asked. */
route_handler tasks_create_now;

/* `done` of an operation that creates tasks: counts and nudges them and answers. The writer's thread. */
void tasks_on_created(struct op *op);

/* Makes the answer to a create again, if the record has only the brief form of the task. q's body is that of the first
 * request. False: the record has the answer itself. */
bool tasks_answer_again(struct request *q, const struct idempotency *stored);

/* Answers with the step in q->id. A pool thread. */
struct run_step_shown;
enum handled tasks_show_step(struct request *q, struct reader *r, const struct run_step_shown *shown);

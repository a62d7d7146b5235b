#pragma once
/* api/resource/recall.h - asks the owner of a claimed task to give it back, and waits for the answer at most so long.
 *
 * The request may be gone before the owner answers, so what is wished is copied and a late answer changes nothing here. */
#include "api/server/request.h"

/* Called once, on any thread. Not `known`: its owner does not have it yet, or did not say in time; the result is
 * RECALL_RUNNING then. */
typedef void recall_then(struct request *q, enum recall_result result, bool known);

/* False: nobody can be asked, or the wish is too large to copy; `then` is not called. */
bool recall_ask(struct request *q, const struct recall_order *recall_request, int64_t wait_ms,
                recall_then *then) must_use;

/* Of a task that another node gave back before it fired, the time that it had when that node had claimed it: it was put off so that there
 * is time for this change. Of one that has run since, or was changed, nothing. */
void task_undo_delay(struct task *t, const struct task *claimed);

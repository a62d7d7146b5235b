#pragma once
/* api/resource/recall.h - asks the owner of a claimed task to give it back, and waits for the answer for a limited
 * time.
 *
 * The request may be gone before the owner answers. So the recall order is copied, and a late answer has no effect
 * here. */
#include "api/server/request.h"

/* Called once, on any thread, which owns q from then on. known is false if the owner does not have the claim yet or did
 * not answer in time; the result is then RECALL_RUNNING. */
typedef void recall_then(struct request *q, enum recall_result result, bool known);

/* The thread that owns the request; passes q on. False: the setup has no `recall`, the time is up, or the order is too
 * large to copy; then `then` is not called and q stays with the caller. */
bool recall_ask(struct request *q, const struct recall_order *order, int64_t wait_ms, recall_then *then) must_use;

/* If another node gave the task back before it fired, restores the due time that it had in `claimed`: the node had
 * postponed it to leave time for this change. Does nothing if the task has run or was changed since. Any thread. */
void task_undo_delay(struct task *t, const struct task *claimed);

#pragma once
/* api/resource/recall.h - asks the owner of a claimed task to give it back, and waits for the answer for a limited
 * time.
 *
 * The request may be gone before the owner answers. So the recall order is copied, and a late answer has no effect
 * here. */
#include "api/server/request.h"

/* Called once, on any thread, which owns q from then on. known is false if the owner does not have the claim yet or did
 * not answer in time; the result is then RECALL_RUNNING. If the owner has taken the task back and the store does not
 * say so within recall_stall_ms, known is false and the result is RECALL_DONE: the task does not fire as it was, and
 * becomes what was asked for as soon as the store answers. With RECALL_DONE, q->became is the state that the task has
 * then: not that of order->replace, if its run or its recurring task was called off meanwhile. */
typedef void recall_then(struct request *q, enum recall_result result, bool known);

/* The thread that owns the request; passes q on. False: the setup has no `recall`, the time is up, or the order is too
 * large to copy; then `then` is not called and q stays with the caller. */
bool recall_ask(struct request *q, const struct recall_order *order, int64_t wait_ms, recall_then *then) must_use;

/* The same without waiting: the owner gives the task back, or with order->abort ends it, when it can. Any thread. */
void recall_tell(struct request *q, const struct recall_order *order);

/* From here on the request asks what comes of the orders that it tells and that have `lasts` and `tells`. The first max
 * of them are numbered from 0 on, for recall_is_sure. The thread that owns the request. */
struct recall_group;
void recall_group_begin(struct request *q, size_t max);
void recall_group_leave(struct recall_group *g); /* the request has ended, or begins another; NULL is fine */

/* Whether the task of the order is taken back, has started, or does not start under its claim after recall_sure_in_ms.
 * False: it may start at any time, or its owner has not answered. */
bool recall_is_sure(const struct request *q, size_t at);
bool recall_is_answered(const struct request *q); /* all owners have answered, whatever they know */
int64_t recall_sure_in_ms(const struct request *q);

/* How long its owner has to give a claimed task back: recall_ms. If the task is not due yet, it has not fired, and a
 * slow answer means that the store is slow: then it has until recall_ms after the due time, and recall_stall_ms more
 * than recall_ms at most. Any thread. */
int64_t recall_wait_ms(const struct request *q, const struct task *claimed);

/* If another node gave the task back before it fired, restores the due time that it had in `claimed`: the node had
 * postponed it to leave time for this change. Does nothing if the task has run or was changed since. Any thread. */
void task_undo_delay(struct task *t, const struct task *claimed);

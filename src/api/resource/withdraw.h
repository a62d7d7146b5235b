#pragma once
/* api/resource/withdraw.h - takes back the occurrences of a recurring task that were claimed when a user changed it.
 *
 * The store withdraws what waits; what is claimed a moment before its time is its owner's, and would fire as it was, after the
 * change was acknowledged. So between the change and its answer each of them is recalled: one that the changed task still
 * wants is scheduled anew as the task is now, any other is over. What has fired already goes on. */
#include "api/server/request.h"

/* parent: as it was written; it lives as long as the request. Ends in request_answer. q is not the caller's any more. */
enum handled withdraw_claimed(struct request *q, const struct task *parent);

/* The same, and goes on with `then` on an API thread. */
enum handled withdraw_claimed_then(struct request *q, const struct task *parent, route_handler *then);

#pragma once
/* api/resource/withdraw_occurrences.h - takes back the occurrences of a recurring task that are claimed when a
 * user changes the task.
 *
 * The store withdraws occurrences that wait. An occurrence that was claimed before its time belongs to the owner of the
 * claim, and would fire unchanged after the change was acknowledged. So before the answer each of them is recalled. If
 * the changed task still has this occurrence, it is scheduled again with the new fields; if not, it is withdrawn as
 * well. Occurrences that have fired already go on, and so do those that a user requested while the task is paused. */
#include "api/server/request.h"

/* parent: the task as it was written; it lives as long as the request. from_ms: as withdraw_from_ms of OP_PUT. Ends
 * with request_answer. The thread that owns the request; passes q on. */
enum handled withdraw_claimed(struct request *q, const struct task *parent, int64_t from_ms);

/* For a change of the schedule or of its calendar, and for its end: sets the cuts of *op (OP_PUT 17), so that no row of
 * skipped times reaches past now or past the new cursor. was: the task before the change; op->task: after it. The rows
 * and the cuts are in the arena. */
enum err withdraw_cuts(struct request *q, struct reader *r, const struct task *was, struct arena *a, struct op_put *op,
                       struct error *e) must_use;

/* The same as withdraw_claimed, but continues with `then` on a pool thread. */
enum handled withdraw_claimed_then(struct request *q, const struct task *parent, int64_t from_ms, route_handler *then);

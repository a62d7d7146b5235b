#pragma once
/* node/pending_op.h - one store operation at a time, and the steady time before which the next one is not sent.
 *
 * A module that sends operations of one kind to the store embeds a pending_op and follows this course:
 *
 *     if (pending_op_may_send(&x->pending, now))
 *         pending_op_send(&x->pending, x->setup.writer, &x->op.op, ARENA);
 *     return pending_op_wake(&x->pending, now);
 *
 * and in the operation's `done`, after it has read the results: pending_op_end, and pending_op_wait if the next
 * operation has to wait (after a failure, or between two polls).
 *
 * A module that sends something else than a store operation (a request to a queue) sets in_flight itself. */
#include "core/time/moment.h"
#include "port/store.h"

struct pending_op {
    bool in_flight;
    int64_t next_at_ms; /* steady; INT64_MAX: not until the module sets it */
};

bool pending_op_may_send(const struct pending_op *p, struct moment now);

/* Gives the operation an arena for its results, of at most that many bytes, and submits it. It may be done at once. */
void pending_op_send(struct pending_op *p, struct writer *w, struct op *op, size_t arena_max);

/* The operation was answered, and its results have been read: their arena is released. */
void pending_op_end(struct pending_op *p, struct op *op);

void pending_op_wait(struct pending_op *p, struct moment now, int64_t ms); /* before the next one is sent */

/* When to step the module again, as wall time; INT64_MAX while an operation is in flight: its answer comes first. */
int64_t pending_op_wake(const struct pending_op *p, struct moment now);

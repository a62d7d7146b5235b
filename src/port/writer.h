#pragma once
/* port/writer.h - carries operations to a store.
 *
 * A writer takes operations from any thread and gathers them into transactions. OP_FRONT operations go before the
 * others (port/store/operation_table.h); operations of one urgency keep their order. op->done is called after the
 * commit or the failure: on the writer's own thread, or on the loop that stands between the writer and the
 * submitter. */
#include "port/store/operation.h"

struct writer {
    const struct writer_ops *ops;
};

struct writer_ops {
    void (*submit)(struct writer *, struct op *op);
};

static inline void writer_submit(struct writer *w, struct op *op)
{
    w->ops->submit(w, op);
}

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
    /* NULL: this writer has no pairs. */
    void (*submit_pair)(struct writer *, struct op *first, struct op *second);
};

static inline void writer_submit(struct writer *w, struct op *op)
{
    w->ops->submit(w, op);
}

static inline bool writer_has_pairs(const struct writer *w)
{
    return w->ops->submit_pair != NULL;
}

/* Two operations of one urgency: the second is applied right after the first, in the same transaction if that has room
 * and does not fail. So the second sees what the first has written. */
static inline void writer_submit_pair(struct writer *w, struct op *first, struct op *second)
{
    w->ops->submit_pair(w, first, second);
}

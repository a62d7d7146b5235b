#include "node/pending_op.h"

#include <assert.h>

bool pending_op_may_send(const struct pending_op *p, struct moment now)
{
    return !p->in_flight && p->next_at_ms <= now.steady_ms;
}

void pending_op_send(struct pending_op *p, struct writer *w, struct op *op, size_t arena_max)
{
    assert(!p->in_flight);
    arena_init(&op->arena, arena_max);
    p->in_flight = true;
    writer_submit(w, op);
}

void pending_op_end(struct pending_op *p, struct op *op)
{
    assert(p->in_flight);
    p->in_flight = false;
    arena_release(&op->arena);
}

void pending_op_wait(struct pending_op *p, struct moment now, int64_t ms)
{
    p->next_at_ms = now.steady_ms + ms;
}

int64_t pending_op_wake(const struct pending_op *p, struct moment now)
{
    return p->in_flight ? INT64_MAX : moment_wall_at(now, p->next_at_ms);
}

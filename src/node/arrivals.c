#include "node/arrivals.h"

#include <stdlib.h>

#include "base/log.h"

enum { ARRIVE_ARENA = 4096 };

struct arrivals {
    struct arrivals_setup setup;
    struct pending_op pending;
    struct op_arrive op;
    struct moment now;
    bool asked; /* since the operation in flight was sent */
};

struct arrivals *arrivals_new(const struct arrivals_setup *setup)
{
    struct arrivals *a = xnew(*a);
    a->setup = *setup;
    return a;
}

void arrivals_free(struct arrivals *a)
{
    free(a);
}

/* When to ask again if nothing happens: other nodes may have left something. */
static int64_t arrivals_pause_ms(const struct arrivals *a)
{
    const struct op_arrive *op = &a->op;
    if (op->op.rc)
        return ARRIVALS_FAILED_MS;
    if (a->asked || (op->ret_more && op->ret_applied))
        return 0;
    return op->ret_more ? ARRIVALS_RETRY_MS : ARRIVALS_ASK_MS;
}

static void arrivals_on_answer(struct op *op)
{
    struct arrivals *a = op->context;
    bool sleeps = !op->rc && !a->op.ret_more && !a->asked && !a->setup.shared;
    uint64_t unblocked = op->rc ? 0 : a->op.ret_unblocked_lanes;
    int64_t pause_ms = arrivals_pause_ms(a);
    if (op->rc)
        log_warn("arrivals_failed", kv_err(&op->error));
    pending_op_end(&a->pending, op);
    if (sleeps)
        a->pending.next_at_ms = INT64_MAX;
    else
        pending_op_wait(&a->pending, a->now, pause_ms);
    if (unblocked)
        a->setup.unblocked(a->setup.context, unblocked);
}

void arrivals_ask(struct arrivals *a)
{
    a->asked = true;
    if (!a->pending.in_flight)
        a->pending.next_at_ms = 0;
}

int64_t arrivals_step(struct arrivals *a, struct moment now, bool may_ask)
{
    a->now = now;
    if (!may_ask)
        return INT64_MAX;
    if (pending_op_may_send(&a->pending, now)) {
        a->asked = false;
        a->op = (struct op_arrive){ .op = { .kind = OP_ARRIVE, .done = arrivals_on_answer, .context = a },
                                    .now_ms = now.wall_ms };
        pending_op_send(&a->pending, a->setup.writer, &a->op.op, ARRIVE_ARENA);
    }
    return pending_op_wake(&a->pending, now);
}

bool arrivals_is_idle(const struct arrivals *a)
{
    return !a->pending.in_flight;
}

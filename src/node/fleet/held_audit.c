#include "node/fleet/held_audit.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/pending_op.h"

enum { HELD_AUDIT_BATCH = 1000, HELD_AUDIT_EACH_MS = 1000, HELD_AUDIT_ARENA = 4096 };

struct held_audit {
    struct held_audit_setup setup;
    struct op_running op;
    struct fenced_id ids[HELD_AUDIT_BATCH];
    bool running[HELD_AUDIT_BATCH];
    struct pending_op pending;
    bool stopped;
    struct moment now;
};

struct held_audit *held_audit_new(const struct held_audit_setup *setup)
{
    struct held_audit *h = xnew(*h);
    h->setup = *setup;
    return h;
}

void held_audit_free(struct held_audit *h)
{
    assert(!h || !h->pending.in_flight);
    free(h);
}

/* If the operation failed, the next one asks about the same tasks again. A full batch is followed by the next at
 * once. */
static void held_audit_on_answer(struct op *op)
{
    struct held_audit *h = op->context;
    pending_op_end(&h->pending, op);
    if (op->rc) {
        log_warn("held_audit_failed", kv_err(&op->error));
        return;
    }
    for (size_t i = 0; i < h->op.n; i++)
        if (!h->running[i])
            scheduler_on_settled(h->setup.scheduler, h->ids[i].id, h->ids[i].fence, NULL);
    if (h->op.n == HELD_AUDIT_BATCH)
        pending_op_wait(&h->pending, h->now, 0);
}

int64_t held_audit_step(struct held_audit *h, struct moment now)
{
    h->now = now;
    if (h->stopped)
        return INT64_MAX;
    if (!pending_op_may_send(&h->pending, now))
        return pending_op_wake(&h->pending, now);
    pending_op_wait(&h->pending, now, HELD_AUDIT_EACH_MS);
    size_t n = scheduler_queued_since(h->setup.scheduler, now.steady_ms - HELD_AUDIT_MS, h->ids, HELD_AUDIT_BATCH);
    if (n) {
        h->op = (struct op_running){ .op = { .kind = OP_RUNNING, .done = held_audit_on_answer, .context = h },
                                     .v = h->ids,
                                     .n = n,
                                     .ret = h->running };
        pending_op_send(&h->pending, h->setup.writer, &h->op.op, HELD_AUDIT_ARENA);
    }
    return pending_op_wake(&h->pending, now);
}

void held_audit_stop(struct held_audit *h)
{
    h->stopped = true;
}

bool held_audit_is_idle(const struct held_audit *h)
{
    return !h->pending.in_flight;
}

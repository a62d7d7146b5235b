/* One operation is in flight, with the first `sent` of the claims that wait. */
#include "node/fleet/handoff.h"

#include <assert.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "node/pending_op.h"

enum { HANDOFF_BATCH = 1000, HANDOFF_RETRY_MS = 200, HANDOFF_ARENA = 4096 };

struct handed_claim {
    struct uuid claim;
    uint64_t epoch;
};

struct handoff {
    struct handoff_setup setup;
    struct op_handoff op;
    struct uuid sent_claims[HANDOFF_BATCH]; /* the operation's arguments, like the next */
    uint64_t sent_epochs[HANDOFF_BATCH];
    struct handed_claim *v; /* not recorded yet */
    size_t n, cap, sent;
    struct pending_op pending;
    struct moment now;
};

struct handoff *handoff_new(const struct handoff_setup *setup)
{
    struct handoff *h = xnew(*h);
    h->setup = *setup;
    return h;
}

void handoff_free(struct handoff *h)
{
    if (!h)
        return;
    assert(!h->pending.in_flight);
    free(h->v);
    free(h);
}

void handoff_claim(struct handoff *h, struct uuid claim, uint64_t epoch)
{
    if (h->n == h->cap) {
        h->cap = max_of(h->cap * 2, (size_t)64);
        h->v = xrealloc(h->v, h->cap * sizeof *h->v);
    }
    h->v[h->n++] = (struct handed_claim){ claim, epoch };
}

static void handoff_on_recorded(struct op *op)
{
    struct handoff *h = op->context;
    pending_op_end(&h->pending, op);
    if (op->rc == ERR_CONFLICT)
        h->setup.refused(h->setup.context);
    if (op->rc) {
        log_warn("handoff_failed", kv_err(&op->error), kv_i64("claims", (int64_t)h->sent));
        pending_op_wait(&h->pending, h->now, HANDOFF_RETRY_MS);
        return;
    }
    h->n -= h->sent;
    memmove(h->v, h->v + h->sent, h->n * sizeof *h->v);
    h->sent = 0;
}

static void handoff_send(struct handoff *h)
{
    failpoint("before_handoff");
    h->sent = min_of(h->n, (size_t)HANDOFF_BATCH);
    for (size_t i = 0; i < h->sent; i++) {
        h->sent_claims[i] = h->v[i].claim;
        h->sent_epochs[i] = h->v[i].epoch;
    }
    h->op = (struct op_handoff){ .op = { .kind = OP_HANDOFF, .done = handoff_on_recorded, .context = h },
                                 .node = *h->setup.node,
                                 .claims = h->sent_claims,
                                 .epochs = h->sent_epochs,
                                 .n = h->sent };
    pending_op_send(&h->pending, h->setup.writer, &h->op.op, HANDOFF_ARENA);
}

int64_t handoff_step(struct handoff *h, struct moment now)
{
    h->now = now;
    if (!h->n)
        return INT64_MAX;
    if (!pending_op_may_send(&h->pending, now))
        return pending_op_wake(&h->pending, now);
    handoff_send(h);
    return INT64_MAX;
}

void handoff_forget(struct handoff *h)
{
    h->n = h->sent = 0;
}

bool handoff_is_idle(const struct handoff *h)
{
    return !h->pending.in_flight && h->n == 0;
}

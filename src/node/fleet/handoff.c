/* One operation is in flight, with the first `sent` of those that wait. */
#include "node/fleet/handoff.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum { BATCH = 1000, RETRY_MS = 200, ERRORS_ARENA = 4096 };

struct handoff {
    struct handoff_setup setup;
    struct op_handoff op;
    struct uuid asked[BATCH]; /* the operation's, like the next */
    uint64_t epochs[BATCH];
    struct handed {
        struct uuid claim;
        uint64_t epoch;
    } * v;
    size_t n, cap, sent;
    bool in_flight;
    struct moment now;
    int64_t retry_at_ms; /* steady */
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
    assert(!h->in_flight);
    free(h->v);
    free(h);
}

void handoff_claim(struct handoff *h, struct uuid claim, uint64_t epoch)
{
    if (h->n == h->cap) {
        h->cap = max_of(h->cap * 2, (size_t)64);
        h->v = xrealloc(h->v, h->cap * sizeof *h->v);
    }
    h->v[h->n++] = (struct handed){ claim, epoch };
}

static void done(struct op *op)
{
    struct handoff *h = op->context;
    h->in_flight = false;
    arena_release(&op->arena);
    if (op->rc == ERR_CONFLICT)
        h->setup.refused(h->setup.context);
    if (op->rc) {
        log_warn("hand_failed", kv_err(&op->error), kv_i64("claims", (int64_t)h->sent));
        h->retry_at_ms = h->now.steady_ms + RETRY_MS;
        return;
    }
    h->n -= h->sent;
    memmove(h->v, h->v + h->sent, h->n * sizeof *h->v);
    h->sent = 0;
}

int64_t handoff_step(struct handoff *h, struct moment now)
{
    h->now = now;
    if (h->in_flight || !h->n)
        return INT64_MAX;
    if (h->retry_at_ms > now.steady_ms)
        return moment_wall_at(now, h->retry_at_ms);
    h->sent = min_of(h->n, (size_t)BATCH);
    for (size_t i = 0; i < h->sent; i++) {
        h->asked[i] = h->v[i].claim;
        h->epochs[i] = h->v[i].epoch;
    }
    h->op = (struct op_handoff){ .op = { .kind = OP_HANDOFF, .done = done, .context = h },
                                 .node = *h->setup.node,
                                 .claims = h->asked,
                                 .epochs = h->epochs,
                                 .n = h->sent };
    arena_init(&h->op.op.arena, ERRORS_ARENA);
    h->in_flight = true;
    writer_submit(h->setup.writer, &h->op.op);
    return INT64_MAX;
}

void handoff_forget(struct handoff *h)
{
    h->n = h->sent = 0;
}

bool handoff_is_idle(const struct handoff *h)
{
    return !h->in_flight && h->n == 0;
}

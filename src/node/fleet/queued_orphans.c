#include "node/fleet/queued_orphans.h"

#include <stdlib.h>

#include "base/log.h"

enum { HANDOFF_ARENA = 4096 };

void queued_orphans_init(struct queued_orphans *q, const struct queued_orphans_setup *setup)
{
    *q = (struct queued_orphans){ .setup = *setup };
}

/* ---- what the queue has ---- */

static void queued_orphans_answer(struct queued_orphans *q, const struct io_request *e)
{
    if (log_first_failure(&q->failed, e->rc))
        log_warn("queue_known_failed", kv_err(&e->error), kv_i64("tasks", (int64_t)q->n));
    q->setup.answered(q->setup.context, e->rc == ERR_OK);
}

static void queued_orphans_on_state(struct io_request *e)
{
    struct queued_orphans *q = e->context;
    if (!e->rc && q->state.ret.epoch != q->epoch)
        e->rc = queue_is_another(&e->error);
    queued_orphans_answer(q, e);
}

/* If the queue was wiped before the answer, workers that run the tasks have not made them known again yet. */
static void queued_orphans_on_known(struct io_request *e)
{
    struct queued_orphans *q = e->context;
    if (e->rc) {
        queued_orphans_answer(q, e);
        return;
    }
    q->state = (struct io_stats){ .io_request = { .kind = IO_STATS, .done = queued_orphans_on_state, .context = q } };
    async_io_submit(q->setup.async_io, &q->state.io_request);
}

void queued_orphans_ask(struct queued_orphans *q, const struct tasks *tasks, uint64_t epoch)
{
    q->epoch = epoch;
    q->n = tasks->n;
    q->ids = xcalloc(q->n, sizeof *q->ids);
    q->answer = xcalloc(q->n, sizeof *q->answer);
    q->claims = xcalloc(q->n, sizeof *q->claims);
    q->epochs = xcalloc(q->n, sizeof *q->epochs);
    for (size_t i = 0; i < q->n; i++)
        q->ids[i] = (struct fenced_id){ tasks->v[i].id, tasks->v[i].fence };
    q->known = (struct io_known){ .io_request = { .kind = IO_KNOWN, .done = queued_orphans_on_known, .context = q },
                                  .v = q->ids,
                                  .n = q->n,
                                  .ret = q->answer };
    async_io_submit(q->setup.async_io, &q->known.io_request);
}

bool queued_orphans_has(const struct queued_orphans *q, size_t i)
{
    return q->answer[i];
}

/* ---- hand-off ---- */

/* Tasks of one claim mostly stand together. To name a claim twice is harmless. */
void queued_orphans_add_claim(struct queued_orphans *q, struct uuid claim)
{
    if (q->claim_count && uuid_eq(q->claims[q->claim_count - 1], claim))
        return;
    q->epochs[q->claim_count] = q->epoch;
    q->claims[q->claim_count++] = claim;
}

static void queued_orphans_on_handed_off(struct op *op)
{
    struct queued_orphans *q = op->context;
    if (op->rc)
        log_warn("handoff_failed", kv_err(&op->error), kv_i64("claims", (int64_t)q->claim_count));
    arena_release(&op->arena);
    q->setup.handed_off(q->setup.context, &q->op);
}

bool queued_orphans_hand_off(struct queued_orphans *q, struct uuid node)
{
    if (!q->claim_count)
        return false;
    q->op = (struct op_handoff){ .op = { .kind = OP_HANDOFF, .done = queued_orphans_on_handed_off, .context = q },
                                 .node = node,
                                 .claims = q->claims,
                                 .epochs = q->epochs,
                                 .n = q->claim_count,
                                 .orphaned = true };
    arena_init(&q->op.op.arena, HANDOFF_ARENA);
    writer_submit(q->setup.writer, &q->op.op);
    return true;
}

void queued_orphans_release(struct queued_orphans *q)
{
    free(q->ids);
    free(q->answer);
    free(q->claims);
    free(q->epochs);
    q->ids = NULL;
    q->answer = NULL;
    q->claims = NULL;
    q->epochs = NULL;
    q->n = q->claim_count = 0;
}

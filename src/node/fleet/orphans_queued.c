#include "node/fleet/orphans_queued.h"

#include <stdlib.h>

#include "base/log.h"

enum { ORPHANS_QUEUED_RETRY_MS = 500, HANDOFF_ARENA = 4096 };

struct orphans_queued {
    struct reaper reaper;
    struct orphans orphans;
    struct io_known known;
    struct fenced_id *ids; /* of the batch: those that may have fired, like the next two; n of them */
    size_t *at;            /* their places in the batch */
    bool *answer;
    size_t n;
    struct uuid *claims; /* to be handed off */
    size_t claim_count;
    struct op_handoff hand;
    bool failed; /* the last question to the queue, and that was logged */
};

static struct orphans_queued *orphans_queued_of(struct reaper *r)
{
    return container_of(r, struct orphans_queued, reaper);
}

static void orphans_queued_wait(struct orphans_queued *q)
{
    q->reaper.ask_at_ms = q->reaper.now.steady_ms + ORPHANS_QUEUED_RETRY_MS;
}

/* ---- what the queue knows ---- */

static void orphans_queued_on_known(struct io_request *e)
{
    struct orphans_queued *q = e->context;
    if (log_first_failure(&q->failed, e->rc))
        log_warn("orphans_wait_for_queue", kv_err(&e->error), kv_i64("tasks", (int64_t)q->n));
    if (e->rc)
        orphans_queued_wait(q);
    reaper_found(&q->reaper, e->rc ? 0 : q->orphans.ask.ret.n);
}

static void orphans_queued_ask_known(struct orphans_queued *q)
{
    q->known = (struct io_known){ .io_request = { .kind = IO_KNOWN, .done = orphans_queued_on_known, .context = q },
                                  .v = q->ids,
                                  .n = q->n,
                                  .ret = q->answer };
    async_io_submit(q->reaper.setup.async_io, &q->known.io_request);
}

static void orphans_queued_found(struct reaper *r)
{
    struct orphans_queued *q = orphans_queued_of(r);
    const struct tasks *found = &q->orphans.ask.ret;
    q->ids = xcalloc(found->n, sizeof *q->ids);
    q->at = xcalloc(found->n, sizeof *q->at);
    q->answer = xcalloc(found->n, sizeof *q->answer);
    for (size_t i = 0; i < found->n; i++) {
        if (!orphans_may_have_fired(&q->orphans, i))
            continue;
        q->ids[q->n] = (struct fenced_id){ found->v[i].id, found->v[i].fence };
        q->at[q->n++] = i;
    }
    if (q->n) {
        orphans_queued_ask_known(q);
        return;
    }
    if (orphans_are_full(&q->orphans))
        orphans_queued_wait(q); /* for recovery, which settles these */
    else
        (void)orphans_rest(&q->orphans);
    reaper_found(r, 0);
}

static void orphans_queued_ask(struct reaper *r)
{
    orphans_ask(&orphans_queued_of(r)->orphans);
}

/* ---- verdicts and hand-off ---- */

/* Tasks of one claim mostly stand together. */
static void orphans_queued_hand_off(struct orphans_queued *q, struct uuid claim)
{
    if (!q->claim_count || !uuid_eq(q->claims[q->claim_count - 1], claim))
        q->claims[q->claim_count++] = claim;
}

static void orphans_queued_decide(struct reaper *r)
{
    struct orphans_queued *q = orphans_queued_of(r);
    const struct tasks *found = &q->orphans.ask.ret;
    bool full = orphans_are_full(&q->orphans);
    size_t known = 0, left = orphans_left_behind(&q->orphans);
    for (size_t i = 0; i < q->n; i++) {
        q->answer[i] = q->answer[i] && r->setup.async_io->push_again;
        known += q->answer[i];
    }
    bool hands_off = known && (!full || known >= found->n / 2);
    q->claims = xcalloc(q->n, sizeof *q->claims);
    for (size_t i = 0; i < q->n; i++) {
        if (q->answer[i] && hands_off)
            orphans_queued_hand_off(q, found->v[q->at[i]].claim);
        else if (!q->answer[i] && left)
            left--;
        else if (!q->answer[i])
            orphans_settle(&q->orphans, q->at[i], !full && q->n - known == 1);
    }
    if (!r->n && !q->claim_count)
        orphans_queued_wait(q); /* recovery has to settle others first */
}

static void orphans_queued_on_settled(struct reaper *r, size_t i)
{
    orphans_on_settled(&orphans_queued_of(r)->orphans, i);
}

static void orphans_queued_on_handed_off(struct op *op)
{
    struct orphans_queued *q = op->context;
    if (op->rc) {
        log_warn("handoff_failed", kv_err(&op->error), kv_i64("claims", (int64_t)q->claim_count));
        orphans_queued_wait(q);
    } else {
        log_info("orphans_handed_off", kv_i64("claims", (int64_t)q->claim_count));
    }
    arena_release(&op->arena);
    reaper_acknowledged(&q->reaper);
}

static void orphans_queued_acknowledge(struct reaper *r)
{
    struct orphans_queued *q = orphans_queued_of(r);
    if (!q->claim_count) {
        reaper_acknowledged(r);
        return;
    }
    q->hand = (struct op_handoff){
        .op = { .kind = OP_HANDOFF, .done = orphans_queued_on_handed_off, .context = q },
        .node = q->orphans.node,
        .claims = q->claims,
        .n = q->claim_count,
        .orphaned = true,
    };
    arena_init(&q->hand.op.arena, HANDOFF_ARENA);
    writer_submit(r->setup.writer, &q->hand.op);
}

static void orphans_queued_on_batch_over(struct reaper *r)
{
    struct orphans_queued *q = orphans_queued_of(r);
    orphans_on_batch_over(&q->orphans);
    free(q->ids);
    free(q->at);
    free(q->answer);
    free(q->claims);
    q->ids = NULL;
    q->at = NULL;
    q->answer = NULL;
    q->claims = NULL;
    q->n = q->claim_count = 0;
}

static const struct reaper_source orphans_queued_source = {
    .name = "orphans_queued",
    .ask = orphans_queued_ask,
    .barrier = true,
    .decide = orphans_queued_decide,
    .settled = orphans_queued_on_settled,
    .acknowledge = orphans_queued_acknowledge,
    .batch_over = orphans_queued_on_batch_over,
};

/* ---- public functions ---- */

struct orphans_queued *orphans_queued_new(const struct reaper_setup *reaper, const struct orphans_setup *orphans)
{
    struct orphans_queued *q = xnew(*q);
    reaper_init(&q->reaper, &orphans_queued_source, reaper);
    orphans_init(&q->orphans, &q->reaper, orphans_queued_found, orphans);
    return q;
}

void orphans_queued_free(struct orphans_queued *q)
{
    if (!q)
        return;
    reaper_release(&q->reaper);
    free(q);
}

int64_t orphans_queued_step(struct orphans_queued *q, struct moment now, int64_t behind_ms)
{
    return reaper_step(&q->reaper, now, behind_ms, true);
}

void orphans_queued_begin(struct orphans_queued *q, struct uuid node, struct moment now)
{
    q->orphans.node = node;
    orphans_queued_look_again(q, now);
}

void orphans_queued_look_again(struct orphans_queued *q, struct moment now)
{
    orphans_look_again(&q->orphans, now);
}

void orphans_queued_stop(struct orphans_queued *q)
{
    reaper_stop(&q->reaper);
}

bool orphans_queued_is_idle(const struct orphans_queued *q)
{
    return reaper_is_idle(&q->reaper);
}

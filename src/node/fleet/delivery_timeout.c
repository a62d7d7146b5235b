/* One question is under way at a time, from asking to the acknowledgement. An acknowledged batch is followed by the
 * next question at once: there may be more. */
#include "node/fleet/delivery_timeout.h"

#include <stdlib.h>

#include "base/log.h"

enum { DELIVERY_TIMEOUT_ARENA = 64 << 20 };

struct delivery_timeout {
    struct reaper reaper;
    struct io_timed_out ask;
    struct io_ids ack;
    struct fenced_id *ids; /* of the batch: one for each delivery */
    bool failed;           /* the last question, and that was logged */
};

static struct delivery_timeout *delivery_timeout_of(struct reaper *r)
{
    return container_of(r, struct delivery_timeout, reaper);
}

static void delivery_timeout_on_answer(struct io_request *e)
{
    struct delivery_timeout *d = e->context;
    if (log_first_failure(&d->failed, e->rc))
        log_warn("timed_out_failed", kv_err(&e->error));
    reaper_found(&d->reaper, e->rc ? 0 : d->ask.ret.n);
}

static void delivery_timeout_ask(struct reaper *r)
{
    struct delivery_timeout *d = delivery_timeout_of(r);
    r->ask_at_ms = r->now.steady_ms + DELIVERY_TIMEOUT_ASK_MS;
    d->ask =
        (struct io_timed_out){ .io_request = { .kind = IO_TIMED_OUT, .done = delivery_timeout_on_answer, .context = d },
                               .now_ms = r->now.wall_ms };
    arena_init(&d->ask.arena, DELIVERY_TIMEOUT_ARENA);
    async_io_submit(r->setup.async_io, &d->ask.io_request);
}

/* A delivery whose contents the queue has lost is acknowledged and not settled: the queue does not know it any more,
 * and reconcile settles it as the store has it. */
static void delivery_timeout_decide(struct reaper *r)
{
    struct delivery_timeout *d = delivery_timeout_of(r);
    const struct delivery_timeouts *found = &d->ask.ret;
    d->ids = xcalloc(found->n, sizeof *d->ids);
    for (size_t i = 0; i < found->n; i++) {
        const struct timed_out_delivery *x = &found->v[i];
        d->ids[i] = (struct fenced_id){ x->task.id, x->task.fence };
        if (uuid_is_nil(x->task.claim))
            continue;
        reaper_add(r, lost_verdict_settle(&x->task, (struct lost){ x->fired, x->alone }, reaper_verdict_ms(r),
                                          &r->random, &r->arena, reaper_next_event(r)));
    }
    log_info("deliveries_timed_out", kv_i64("deliveries", (int64_t)found->n),
             kv_i64("contents_lost", (int64_t)(found->n - r->n)));
}

/* If it failed, the queue reports the deliveries again, and their fences refuse a second settlement. */
static void delivery_timeout_on_acknowledged(struct io_request *e)
{
    struct delivery_timeout *d = e->context;
    if (e->rc)
        log_warn("ack_failed", kv_err(&e->error), kv_i64("deliveries", (int64_t)d->ack.n));
    else
        d->reaper.ask_at_ms = d->reaper.now.steady_ms;
    reaper_acknowledged(&d->reaper);
}

static void delivery_timeout_acknowledge(struct reaper *r)
{
    struct delivery_timeout *d = delivery_timeout_of(r);
    d->ack = (struct io_ids){ .io_request = { .kind = IO_ACK, .done = delivery_timeout_on_acknowledged, .context = d },
                              .v = d->ids,
                              .n = r->found };
    async_io_submit(r->setup.async_io, &d->ack.io_request);
}

static void delivery_timeout_on_batch_over(struct reaper *r)
{
    struct delivery_timeout *d = delivery_timeout_of(r);
    arena_release(&d->ask.arena);
    free(d->ids);
    d->ids = NULL;
}

static const struct reaper_source delivery_timeout_source = {
    .name = "delivery_timeout",
    .ask = delivery_timeout_ask,
    .barrier = true,
    .decide = delivery_timeout_decide,
    .acknowledge = delivery_timeout_acknowledge,
    .batch_over = delivery_timeout_on_batch_over,
};

/* ---- public functions ---- */

struct delivery_timeout *delivery_timeout_new(const struct reaper_setup *setup)
{
    struct delivery_timeout *d = xnew(*d);
    reaper_init(&d->reaper, &delivery_timeout_source, setup);
    return d;
}

void delivery_timeout_free(struct delivery_timeout *d)
{
    if (!d)
        return;
    reaper_release(&d->reaper);
    free(d);
}

int64_t delivery_timeout_step(struct delivery_timeout *d, struct moment now, int64_t behind_ms)
{
    return reaper_step(&d->reaper, now, behind_ms, true);
}

void delivery_timeout_stop(struct delivery_timeout *d)
{
    reaper_stop(&d->reaper);
}

bool delivery_timeout_is_idle(const struct delivery_timeout *d)
{
    return reaper_is_idle(&d->reaper);
}

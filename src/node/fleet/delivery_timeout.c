/* One question is under way at a time, from asking to the acknowledgement. What came is looked at in the next step, which knows what time
 * it is. A full answer is followed by the next question at once.
 *
 * Between the answer and the verdict lies a mark in the events (node/fleet/event_barrier.h): while it has not passed, some of what lapsed may have ended, and
 * not be lost at all. If that can not be told, what came is left: the queue reports it again. */
#include "node/fleet/delivery_timeout.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/fleet/event_barrier.h"

enum { ARENA = 64 << 20 };

struct lapse_watch {
    struct delivery_timeout_setup setup;
    struct prng random;
    struct io_timed_out ask;
    struct event_barrier_wait mark; /* behind what has come */
    struct io_ids ack;
    struct ends ends;
    struct arena arena; /* of what is settled, like the next three */
    struct event *events;
    struct settlement *settlements;
    struct fenced_id *ids;
    size_t n;
    bool asking, acking, stopped, failed;
    struct moment now;
    int64_t behind_ms;
    int64_t ask_at_ms; /* steady */
};

static void forget(struct lapse_watch *l)
{
    arena_release(&l->ask.arena);
    arena_release(&l->arena);
    l->n = 0;
}

static void acknowledged(struct io_request *e)
{
    struct lapse_watch *l = e->context;
    l->acking = false;
    if (e->rc) /* it is reported again, and refused by its fence */
        log_warn("ack_failed", kv_err(&e->error), kv_i64("lapses", (int64_t)l->n));
    else
        l->ask_at_ms = l->now.steady_ms; /* there may be more */
    forget(l);
}

static void settled(void *context, const struct event *e, const struct settlement *s)
{
    struct lapse_watch *l = context;
    l->setup.settled(l->setup.context, e, s);
}

static void unblocked(void *context, uint64_t lanes)
{
    struct lapse_watch *l = context;
    l->setup.unblocked(l->setup.context, lanes);
}

static void all_settled(void *context)
{
    struct lapse_watch *l = context;
    l->setup.batch_settled(l->setup.context);
    l->acking = true;
    l->ack =
        (struct io_ids){ .io_request = { .kind = IO_ACK, .done = acknowledged, .context = l }, .v = l->ids, .n = l->n };
    async_io_submit(l->setup.async_io, &l->ack.io_request);
}

struct lapse_watch *delivery_timeout_new(const struct delivery_timeout_setup *setup)
{
    struct lapse_watch *l = xnew(*l);
    l->setup = *setup;
    prng_init(&l->random, setup->seed);
    l->mark.async_io = setup->async_io;
    l->ends.setup = (struct settle_retry_setup){ .writer = setup->writer,
                                                 .metrics = setup->metrics,
                                                 .settled = settled,
                                                 .unblocked = unblocked,
                                                 .done = all_settled,
                                                 .context = l };
    return l;
}

void delivery_timeout_free(struct lapse_watch *l)
{
    if (!l)
        return;
    assert(delivery_timeout_is_idle(l));
    forget(l);
    free(l);
}

static void asked(struct io_request *e)
{
    struct lapse_watch *l = e->context;
    l->asking = false;
    if (e->rc && !l->failed)
        log_warn("lapsed_failed", kv_err(&e->error));
    l->failed = e->rc != ERR_OK;
    if (e->rc == ERR_OK && l->ask.ret.n > 0 && !l->stopped)
        event_barrier_begin(&l->mark, l->now);
    else
        arena_release(&l->ask.arena);
}

static void ask(struct lapse_watch *l)
{
    l->ask_at_ms = l->now.steady_ms + DELIVERY_TIMEOUT_ASK_MS;
    l->asking = true;
    l->ask = (struct io_timed_out){ .io_request = { .kind = IO_TIMED_OUT, .done = asked, .context = l },
                                    .now_ms = l->now.wall_ms };
    arena_init(&l->ask.arena, ARENA);
    async_io_submit(l->setup.async_io, &l->ask.io_request);
}

/* ---- the verdict ---- */

static void judge(struct lapse_watch *l)
{
    const struct delivery_timeouts *found = &l->ask.ret;
    arena_init(&l->arena, ARENA);
    l->n = found->n;
    l->events = arena_alloc(&l->arena, l->n * sizeof *l->events);
    l->settlements = arena_alloc(&l->arena, l->n * sizeof *l->settlements);
    l->ids = arena_alloc(&l->arena, l->n * sizeof *l->ids);
    if (!l->events || !l->settlements || !l->ids) { /* more than the queue may report at once */
        forget(l);
        return;
    }
    size_t whole = 0;
    for (size_t i = 0; i < l->n; i++) {
        const struct lapse *x = &found->v[i];
        l->ids[i] = (struct fenced_id){ x->task.id, x->task.fence };
        if (uuid_is_nil(x->task.claim))
            continue; /* acknowledged, the queue knows nothing of it, and who compares settles it as the store has it */
        l->settlements[whole] =
            lost_verdict_settle(&x->task, (struct lost){ x->fired, x->alone }, l->now.wall_ms + l->behind_ms,
                                &l->random, &l->arena, &l->events[whole]);
        whole++;
    }
    log_info("lapsed", kv_i64("deliveries", (int64_t)l->n), kv_i64("contents_lost", (int64_t)(l->n - whole)));
    if (whole)
        settle_retry_submit(&l->ends, l->events, l->settlements, whole, l->now);
    else
        all_settled(l);
}

/* Left to others, or to another answer. */
static void leave(struct lapse_watch *l)
{
    event_barrier_leave(&l->mark);
    if (l->mark.state == EVENT_BARRIER_NONE)
        forget(l);
}

static int64_t go_on(struct lapse_watch *l)
{
    int64_t wake = event_barrier_step(&l->mark, l->now);
    if (l->mark.state == EVENT_BARRIER_PASSED) {
        l->mark.state = EVENT_BARRIER_NONE;
        judge(l);
    } else if (l->mark.state == EVENT_BARRIER_FAILED) {
        log_warn("lapses_wait", kv_err(&l->mark.error), kv_i64("deliveries", (int64_t)l->ask.ret.n));
        leave(l);
    }
    return wake;
}

int64_t delivery_timeout_step(struct lapse_watch *l, struct moment now, int64_t behind_ms)
{
    l->now = now;
    l->behind_ms = behind_ms;
    int64_t wake = min_of(settle_retry_step(&l->ends, now), go_on(l));
    if (!l->stopped && delivery_timeout_is_idle(l) && l->ask_at_ms <= now.steady_ms)
        ask(l);
    return l->stopped || !delivery_timeout_is_idle(l) ? wake : min_of(wake, moment_wall_at(now, l->ask_at_ms));
}

void delivery_timeout_stop(struct lapse_watch *l)
{
    l->stopped = true;
    if (l->mark.state != EVENT_BARRIER_NONE)
        leave(l);
}

bool delivery_timeout_is_idle(const struct lapse_watch *l)
{
    return !l->asking && l->mark.state == EVENT_BARRIER_NONE && !l->acking && settle_retry_is_idle(&l->ends);
}

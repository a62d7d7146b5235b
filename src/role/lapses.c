/* One question is under way at a time, from asking to the acknowledgement. What came is looked at in the next step, which knows what time
 * it is. A full answer is followed by the next question at once. */
#include "role/lapses.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum { ARENA = 64 << 20 };

struct lapse_watch {
    struct lapses_setup setup;
    struct prng random;
    struct errand_lapsed ask;
    struct errand_ids ack;
    struct ends ends;
    struct arena arena; /* of what is settled, like the next three */
    struct event *events;
    struct settlement *settlements;
    struct delivery_id *ids;
    size_t n;
    bool asking, arrived, acking, stopped, failed;
    int64_t now_ms, behind_ms, ask_at_ms;
};

static void forget(struct lapse_watch *l)
{
    arena_release(&l->ask.arena);
    arena_release(&l->arena);
    l->n = 0;
}

static void acknowledged(struct errand *e)
{
    struct lapse_watch *l = e->context;
    l->acking = false;
    if (e->rc) /* it is reported again, and refused by its fence */
        log_warn("ack_failed", kv_err(&e->error), kv_i64("lapses", (int64_t)l->n));
    else
        l->ask_at_ms = l->now_ms; /* there may be more */
    forget(l);
}

static void settled(void *context, const struct event *e, const struct settlement *s)
{
    struct lapse_watch *l = context;
    l->setup.settled(l->setup.context, e, s);
}

static void woke(void *context, uint64_t lanes)
{
    struct lapse_watch *l = context;
    l->setup.woke(l->setup.context, lanes);
}

static void all_settled(void *context)
{
    struct lapse_watch *l = context;
    l->setup.batch_settled(l->setup.context);
    l->acking = true;
    l->ack = (struct errand_ids){ .errand = { .kind = ERRAND_ACK, .done = acknowledged, .context = l },
                                  .v = l->ids,
                                  .n = l->n };
    courier_submit(l->setup.courier, &l->ack.errand);
}

struct lapse_watch *lapses_new(const struct lapses_setup *setup)
{
    struct lapse_watch *l = xnew(*l);
    l->setup = *setup;
    prng_init(&l->random, setup->seed);
    l->ends.setup = (struct ends_setup){ .writer = setup->writer,
                                         .metrics = setup->metrics,
                                         .settled = settled,
                                         .woke = woke,
                                         .done = all_settled,
                                         .context = l };
    return l;
}

void lapses_free(struct lapse_watch *l)
{
    assert(!l || lapses_is_idle(l));
    free(l);
}

static void asked(struct errand *e)
{
    struct lapse_watch *l = e->context;
    l->asking = false;
    if (e->rc && !l->failed)
        log_warn("lapsed_failed", kv_err(&e->error));
    l->failed = e->rc != ERR_OK;
    l->arrived = e->rc == ERR_OK && l->ask.ret.n > 0;
    if (!l->arrived)
        arena_release(&l->ask.arena);
}

static void ask(struct lapse_watch *l)
{
    l->ask_at_ms = l->now_ms + LAPSES_ASK_MS;
    l->asking = true;
    l->ask =
        (struct errand_lapsed){ .errand = { .kind = ERRAND_LAPSED, .done = asked, .context = l }, .now_ms = l->now_ms };
    arena_init(&l->ask.arena, ARENA);
    courier_submit(l->setup.courier, &l->ask.errand);
}

static void judge(struct lapse_watch *l)
{
    const struct lapses *found = &l->ask.ret;
    l->arrived = false;
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
        l->ids[i] = (struct delivery_id){ x->task.id, x->task.fence };
        if (uuid_is_nil(x->task.claim))
            continue; /* acknowledged, the queue knows nothing of it, and who compares settles it as the store has it */
        l->settlements[whole] = lost_settle(&x->task, (struct lost){ x->fired, x->alone }, l->now_ms + l->behind_ms,
                                            &l->random, &l->arena, &l->events[whole]);
        whole++;
    }
    log_info("lapsed", kv_i64("deliveries", (int64_t)l->n), kv_i64("contents_lost", (int64_t)(l->n - whole)));
    if (whole)
        ends_submit(&l->ends, l->events, l->settlements, whole, l->now_ms);
    else
        all_settled(l);
}

int64_t lapses_step(struct lapse_watch *l, int64_t now_ms, int64_t behind_ms)
{
    if (now_ms < l->now_ms)
        l->ask_at_ms = now_ms;
    l->now_ms = now_ms;
    l->behind_ms = behind_ms;
    int64_t wake = ends_step(&l->ends, now_ms);
    if (l->arrived)
        judge(l);
    if (!l->stopped && lapses_is_idle(l) && l->ask_at_ms <= now_ms)
        ask(l);
    return l->stopped || !lapses_is_idle(l) ? wake : min_of(wake, l->ask_at_ms);
}

void lapses_stop(struct lapse_watch *l)
{
    l->stopped = true;
}

bool lapses_is_idle(const struct lapse_watch *l)
{
    return !l->asking && !l->arrived && !l->acking && ends_is_idle(&l->ends);
}

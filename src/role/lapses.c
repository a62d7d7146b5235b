/* One question is under way at a time, from asking to the acknowledgement. What came is looked at in the next step, which knows what time
 * it is. A full answer is followed by the next question at once.
 *
 * Between the answer and the verdict lies a mark in the events: while it has not passed, some of what lapsed may have ended, and not be
 * lost at all. As long as that can not be told, because events are away, nothing is settled: nor can anything end meanwhile. */
#include "role/lapses.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum {
    ARENA = 64 << 20,
    PASSED_MS = 50,      /* between two questions whether the mark has passed */
    MARK_AGAIN_MS = 200, /* after one that failed */
};

enum phase { REST, MARK, PASSED, JUDGE };

struct lapse_watch {
    struct lapses_setup setup;
    struct prng random;
    struct errand_lapsed ask;
    struct errand_mark mark;
    struct errand_ids ack;
    struct ends ends;
    struct arena arena; /* of what is settled, like the next three */
    struct event *events;
    struct settlement *settlements;
    struct delivery_id *ids;
    size_t n;
    enum phase phase; /* of what has come */
    bool asking, marking, acking, stopped, failed, mark_failed;
    int64_t now_ms, behind_ms, ask_at_ms, mark_at_ms;
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
    l->mark_at_ms = l->now_ms;
    if (e->rc == ERR_OK && l->ask.ret.n > 0 && !l->stopped)
        l->phase = MARK;
    else
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

/* ---- what may have ended ---- */

/* To others: the queue reports it again. */
static void leave(struct lapse_watch *l)
{
    l->phase = REST;
    forget(l);
}

static void asked_events(struct errand *e)
{
    struct lapse_watch *l = e->context;
    l->marking = false;
    l->mark_at_ms = l->now_ms + (e->rc ? MARK_AGAIN_MS : PASSED_MS);
    if (e->rc && !l->mark_failed)
        log_warn("lapses_wait", kv_err(&e->error), kv_i64("deliveries", (int64_t)l->ask.ret.n));
    l->mark_failed = e->rc != ERR_OK;
    if (l->stopped) {
        leave(l);
    } else if (!e->rc && l->phase == MARK) {
        l->phase = PASSED;
        l->mark_at_ms = l->now_ms;
    } else if (!e->rc && l->mark.ret_passed) {
        l->phase = JUDGE;
    }
}

static void ask_events(struct lapse_watch *l)
{
    l->marking = true;
    l->mark.errand =
        (struct errand){ .kind = l->phase == MARK ? ERRAND_MARK : ERRAND_PASSED, .done = asked_events, .context = l };
    courier_submit(l->setup.courier, &l->mark.errand);
}

/* ---- the verdict ---- */

static void judge(struct lapse_watch *l)
{
    const struct lapses *found = &l->ask.ret;
    l->phase = REST;
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

static void go_on(struct lapse_watch *l)
{
    bool waits = l->phase == MARK || l->phase == PASSED;
    if (waits && !l->marking && l->mark_at_ms <= l->now_ms)
        ask_events(l);
    if (l->phase == JUDGE)
        judge(l);
}

static int64_t next_ms(const struct lapse_watch *l)
{
    if (l->stopped || l->marking)
        return INT64_MAX;
    return l->phase != REST ? l->mark_at_ms : lapses_is_idle(l) ? l->ask_at_ms : INT64_MAX;
}

int64_t lapses_step(struct lapse_watch *l, int64_t now_ms, int64_t behind_ms)
{
    if (now_ms < l->now_ms)
        l->ask_at_ms = l->mark_at_ms = now_ms;
    l->now_ms = now_ms;
    l->behind_ms = behind_ms;
    int64_t wake = ends_step(&l->ends, now_ms);
    go_on(l);
    if (!l->stopped && lapses_is_idle(l) && l->ask_at_ms <= now_ms)
        ask(l);
    return min_of(wake, next_ms(l));
}

void lapses_stop(struct lapse_watch *l)
{
    l->stopped = true;
    if (l->phase != REST && !l->marking)
        leave(l);
}

bool lapses_is_idle(const struct lapse_watch *l)
{
    return !l->asking && l->phase == REST && !l->acking && ends_is_idle(&l->ends);
}

#pragma once
/* tests/support/manual_async_io.h - a courier by hand: errands wait until the test carries or refuses them. Behind it are a queue and events
 * in memory that other processes could share. */
#include "check.h"
#include "events/memory/events_memory.h"
#include "port/async_io.h"
#include "queue/memory/queue_memory.h"

struct hand_courier {
    struct courier base;
    struct queue *queue;
    struct events *events;
    struct list errands;
    int64_t now_ms; /* the queue's clock */
    uint64_t epoch; /* that a look and a push show */
};

static inline void hand_submit(struct courier *c, struct errand *e)
{
    list_push(&container_of(c, struct hand_courier, base)->errands, &e->link);
}

static inline size_t hand_depth(struct courier *c)
{
    (void)c;
    return 0;
}

static inline void hand_courier_init(struct hand_courier *h)
{
    static const struct courier_ops ops = { hand_submit, hand_depth, hand_depth };
    *h = (struct hand_courier){ .base = { .ops = &ops, .push_again = true },
                                .queue = queue_memory_new(),
                                .events = events_memory_new(),
                                .epoch = 1 };
    list_init(&h->errands);
}

static inline void hand_courier_release(struct hand_courier *h)
{
    queue_free(h->queue);
    events_free(h->events);
}

static inline struct errand *find_errand(struct hand_courier *h, enum errand_kind kind)
{
    list_each (&h->errands, link)
        if (container_of(link, struct errand, link)->kind == kind)
            return container_of(link, struct errand, link);
    return NULL;
}

static inline struct errand *next_errand(struct hand_courier *h, enum errand_kind kind)
{
    struct errand *e = find_errand(h, kind);
    if (!e)
        fail_msg("no errand %d was submitted", kind);
    list_remove(&e->link);
    return e;
}

static inline void run_push(struct hand_courier *h, const struct courier_ports *ports, struct errand_push *x)
{
    uint64_t wanted = x->epoch;
    x->epoch = 0;
    if (wanted && wanted != h->epoch)
        x->errand.rc = queue_is_another(&x->errand.error);
    else
        errand_run(ports, &x->errand);
    x->ret.epoch = h->epoch;
}

/* One that does not take again what it has can not tell what that is, either: it has all that was pushed since it was wiped, or
 * nobody knows when. */
static inline void run_known(struct hand_courier *h, const struct courier_ports *ports, struct errand_known *x)
{
    errand_run(ports, &x->errand);
    for (size_t i = 0; !h->base.push_again && i < x->n; i++)
        x->ret[i] = x->ret[i] || !x->epochs[i] || x->epochs[i] == h->epoch;
}

/* Where it goes, without an answer. */
static inline void run_errand(struct hand_courier *h, struct errand *e)
{
    struct courier_ports ports = { .queue = h->queue, .take = h->queue, .publish = h->events, .poll = h->events };
    if (e->kind == ERRAND_TAKE)
        container_of(e, struct errand_take, errand)->ask.now_ms = h->now_ms;
    if (e->kind == ERRAND_RENEW)
        container_of(e, struct errand_renew, errand)->by.now_ms = h->now_ms;
    if (e->kind == ERRAND_LAPSED)
        container_of(e, struct errand_lapsed, errand)->now_ms = h->now_ms;
    if (e->kind == ERRAND_PUSH)
        run_push(h, &ports, container_of(e, struct errand_push, errand));
    else if (e->kind == ERRAND_KNOWN)
        run_known(h, &ports, container_of(e, struct errand_known, errand));
    else
        errand_run(&ports, e);
    if (e->kind == ERRAND_LOOK)
        container_of(e, struct errand_look, errand)->ret.epoch = h->epoch;
}

static inline void carry(struct hand_courier *h, enum errand_kind kind)
{
    struct errand *e = next_errand(h, kind);
    run_errand(h, e);
    e->done(e);
}

static inline void refuse(struct hand_courier *h, enum errand_kind kind, bool unsure)
{
    struct errand *e = next_errand(h, kind);
    e->rc = error_set(&e->error, ERR_UNAVAILABLE, "down");
    if (kind == ERRAND_PUSH)
        container_of(e, struct errand_push, errand)->ret = (struct pushed){ .unsure = unsure };
    e->done(e);
}

/* All that is there, but takes and polls: who waits for something goes on waiting. Whether there was any. */
static inline bool carry_all(struct hand_courier *h)
{
    bool some = false;
    list_each (&h->errands, link) {
        struct errand *e = container_of(link, struct errand, link);
        if (e->kind == ERRAND_TAKE || e->kind == ERRAND_POLL)
            continue;
        list_remove(link);
        run_errand(h, e);
        e->done(e);
        some = true;
    }
    return some;
}

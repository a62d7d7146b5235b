#pragma once
/* tests/support/manual_async_io.h - an async_io that the test controls: requests wait until the test runs or fails
 * them. It uses a queue and events in memory as if other processes shared them. */
#include "check.h"
#include "events/memory/events_memory.h"
#include "port/async_io.h"
#include "queue/memory/queue_memory.h"

struct manual_async_io {
    struct async_io base;
    struct queue *queue;
    struct events *events;
    struct list io_requests;
    int64_t now_ms; /* the queue's clock */
    bool hears;     /* its takes have heard_ms, as over a network */
    uint64_t epoch; /* the epoch that stats and push return */
};

static inline void hand_submit(struct async_io *c, struct io_request *e)
{
    list_push(&container_of(c, struct manual_async_io, base)->io_requests, &e->link);
}

static inline size_t hand_depth(struct async_io *c)
{
    (void)c;
    return 0;
}

static inline void manual_async_io_init(struct manual_async_io *h)
{
    static const struct async_io_ops ops = { hand_submit, hand_depth, hand_depth };
    *h = (struct manual_async_io){ .base = { .ops = &ops, .push_again = true },
                                   .queue = queue_memory_new(),
                                   .events = events_memory_new(),
                                   .epoch = 1 };
    list_init(&h->io_requests);
}

static inline void manual_async_io_release(struct manual_async_io *h)
{
    queue_free(h->queue);
    events_free(h->events);
}

static inline struct io_request *find_io_request(struct manual_async_io *h, enum io_kind kind)
{
    list_each (&h->io_requests, link)
        if (container_of(link, struct io_request, link)->kind == kind)
            return container_of(link, struct io_request, link);
    return NULL;
}

static inline struct io_request *next_io_request(struct manual_async_io *h, enum io_kind kind)
{
    struct io_request *e = find_io_request(h, kind);
    if (!e)
        fail_msg("no request %d was submitted", kind);
    list_remove(&e->link);
    return e;
}

static inline void run_push(struct manual_async_io *h, const struct async_io_ports *ports, struct io_push *x)
{
    uint64_t wanted = x->epoch;
    x->epoch = 0;
    if (wanted && wanted != h->epoch)
        x->io_request.rc = queue_is_another(&x->io_request.error);
    else
        io_run(ports, &x->io_request);
    x->ret.epoch = h->epoch;
}

/* A queue that refuses to take a task again cannot tell which tasks it has, either: it has every task that was pushed
 * since it was last wiped, or it is unknown when that was. */
static inline void run_known(struct manual_async_io *h, const struct async_io_ports *ports, struct io_known *x)
{
    io_run(ports, &x->io_request);
    for (size_t i = 0; !h->base.push_again && i < x->n; i++)
        x->ret[i] = x->ret[i] || !x->epochs || !x->epochs[i] || x->epochs[i] == h->epoch;
}

/* Runs the request on its port, without calling `done`. */
static inline void run_io_request(struct manual_async_io *h, struct io_request *e)
{
    struct async_io_ports ports = { .queue = h->queue, .take = h->queue, .publish = h->events, .poll = h->events };
    if (e->kind == IO_TAKE)
        container_of(e, struct io_take, io_request)->ask.now_ms = h->now_ms;
    if (e->kind == IO_RENEW)
        container_of(e, struct io_renew, io_request)->by.now_ms = h->now_ms;
    if (e->kind == IO_TIMED_OUT)
        container_of(e, struct io_timed_out, io_request)->now_ms = h->now_ms;
    if (e->kind == IO_PUSH)
        run_push(h, &ports, container_of(e, struct io_push, io_request));
    else if (e->kind == IO_KNOWN)
        run_known(h, &ports, container_of(e, struct io_known, io_request));
    else
        io_run(&ports, e);
    if (e->kind == IO_TAKE && h->hears)
        container_of(e, struct io_take, io_request)->ret.heard_ms = h->now_ms;
    if (e->kind == IO_STATS)
        container_of(e, struct io_stats, io_request)->ret.epoch = h->epoch;
}

static inline void carry(struct manual_async_io *h, enum io_kind kind)
{
    struct io_request *e = next_io_request(h, kind);
    run_io_request(h, e);
    e->done(e);
}

static inline void refuse(struct manual_async_io *h, enum io_kind kind, bool unsure)
{
    struct io_request *e = next_io_request(h, kind);
    e->rc = error_set(&e->error, ERR_UNAVAILABLE, "down");
    if (kind == IO_PUSH)
        container_of(e, struct io_push, io_request)->ret = (struct pushed){ .unsure = unsure };
    e->done(e);
}

/* Runs all waiting requests except takes and polls, which keep waiting. Returns whether there was any. */
static inline bool carry_all(struct manual_async_io *h)
{
    bool some = false;
    list_each (&h->io_requests, link) {
        struct io_request *e = container_of(link, struct io_request, link);
        if (e->kind == IO_TAKE || e->kind == IO_POLL)
            continue;
        list_remove(link);
        run_io_request(h, e);
        e->done(e);
        some = true;
    }
    return some;
}

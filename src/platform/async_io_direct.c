/* A request is done before submit returns, so the submitter may keep it on its stack. */
#include "platform/async_io_direct.h"

#include <stdlib.h>

#include "base/mem.h"

struct async_io_direct {
    struct async_io base;
    struct async_io_ports ports;
};

static struct async_io_direct *async_io_direct_of(struct async_io *c)
{
    return container_of(c, struct async_io_direct, base);
}

static void async_io_direct_submit(struct async_io *base, struct io_request *request)
{
    io_run(&async_io_direct_of(base)->ports, request);
    request->done(request);
}

static size_t async_io_direct_queue_depth(struct async_io *base)
{
    return async_io_direct_of(base)->ports.take ? queue_depth(async_io_direct_of(base)->ports.take) : 0;
}

static size_t async_io_direct_events_depth(struct async_io *base)
{
    return async_io_direct_of(base)->ports.poll ? events_depth(async_io_direct_of(base)->ports.poll) : 0;
}

struct async_io *async_io_direct_new(const struct async_io_ports *ports)
{
    static const struct async_io_ops ops = { async_io_direct_submit, async_io_direct_queue_depth,
                                             async_io_direct_events_depth };
    struct async_io_direct *c = xnew(*c);
    c->base =
        (struct async_io){ .ops = &ops, .at_once = true, .push_again = ports->queue && ports->queue->ops->push_again };
    c->ports = *ports;
    return &c->base;
}

void async_io_direct_free(struct async_io *c)
{
    if (c)
        free(async_io_direct_of(c));
}

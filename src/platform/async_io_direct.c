/* Done before submit returns: whoever submits may keep the errand on its stack, and no time passes. */
#include "platform/async_io_direct.h"

#include <stdlib.h>

#include "base/mem.h"

struct async_io_direct {
    struct async_io base;
    struct async_io_ports ports;
};

static struct async_io_direct *self(struct async_io *c)
{
    return container_of(c, struct async_io_direct, base);
}

static void submit(struct async_io *base, struct io_request *e)
{
    io_run(&self(base)->ports, e);
    e->done(e);
}

static size_t depth_of_queue(struct async_io *base)
{
    return self(base)->ports.take ? queue_depth(self(base)->ports.take) : 0;
}

static size_t depth_of_events(struct async_io *base)
{
    return self(base)->ports.poll ? events_depth(self(base)->ports.poll) : 0;
}

struct async_io *async_io_direct_new(const struct async_io_ports *ports)
{
    static const struct async_io_ops ops = { submit, depth_of_queue, depth_of_events };
    struct async_io_direct *c = xnew(*c);
    c->base =
        (struct async_io){ .ops = &ops, .at_once = true, .push_again = ports->queue && ports->queue->ops->push_again };
    c->ports = *ports;
    return &c->base;
}

void async_io_direct_free(struct async_io *c)
{
    if (c)
        free(self(c));
}

/* Done before submit returns: whoever submits may keep the errand on its stack, and no time passes. */
#include "platform/async_io_direct.h"

#include <stdlib.h>

#include "base/mem.h"

struct courier_direct {
    struct courier base;
    struct courier_ports ports;
};

static struct courier_direct *self(struct courier *c)
{
    return container_of(c, struct courier_direct, base);
}

static void submit(struct courier *base, struct errand *e)
{
    errand_run(&self(base)->ports, e);
    e->done(e);
}

static size_t depth_of_queue(struct courier *base)
{
    return self(base)->ports.take ? queue_depth(self(base)->ports.take) : 0;
}

static size_t depth_of_events(struct courier *base)
{
    return self(base)->ports.poll ? events_depth(self(base)->ports.poll) : 0;
}

struct courier *courier_direct_new(const struct courier_ports *ports)
{
    static const struct courier_ops ops = { submit, depth_of_queue, depth_of_events };
    struct courier_direct *c = xnew(*c);
    c->base =
        (struct courier){ .ops = &ops, .at_once = true, .push_again = ports->queue && ports->queue->ops->push_again };
    c->ports = *ports;
    return &c->base;
}

void courier_direct_free(struct courier *c)
{
    if (c)
        free(self(c));
}

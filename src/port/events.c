#include "port/events.h"

#include <assert.h>

enum err events_publish(struct events *ev, const struct event *v, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        assert(v[i].kind == EVENT_WORKER || v[i].task.fence > 0);
    return n == 0 ? ERR_OK : ev->ops->publish(ev, v, n, e);
}

enum err events_poll(struct events *ev, size_t max, int64_t wait_ms, struct arena *a, struct event_list *ret,
                     struct error *e)
{
    assert(max > 0 && max <= EVENTS_MAX);
    enum err rc = ev->ops->poll(ev, max, wait_ms, a, ret, e);
    assert(rc != ERR_OK || ret->n <= max);
    return rc;
}

enum err events_ack(struct events *ev, const uint64_t *sequences, size_t n, struct error *e)
{
    return n == 0 ? ERR_OK : ev->ops->ack(ev, sequences, n, e);
}

enum err events_reset(struct events *ev, struct error *e)
{
    return ev->ops->reset(ev, e);
}

enum err events_barrier(struct events *ev, struct events_barrier *ret, struct error *e)
{
    return ev->ops->barrier(ev, ret, e);
}

enum err events_barrier_passed(struct events *ev, const struct events_barrier *m, bool *ret, struct error *e)
{
    return ev->ops->barrier_passed(ev, m, ret, e);
}

size_t events_depth(struct events *ev)
{
    return ev->ops->depth(ev);
}

void events_free(struct events *ev)
{
    if (ev)
        ev->ops->free(ev);
}

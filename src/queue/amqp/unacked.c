/* Unacknowledged deliveries of each channel, in the order of arrival. One acknowledgement can cover all deliveries
 * up to it, which is much cheaper for the broker than one for each. */
#include <stdlib.h>

#include "queue/amqp/internal.h"

void unacked_list_init(struct queue_hub *hub)
{
    for (size_t c = 0; c <= RABBIT_CHANNELS; c++)
        list_init(&hub->unacked_list[c].unsettled);
}

void unacked_list_clear(struct queue_hub *hub)
{
    for (size_t c = 0; c <= RABBIT_CHANNELS; c++) {
        struct list *link;
        while ((link = list_pop(&hub->unacked_list[c].unsettled)))
            free(container_of(link, struct unacked_delivery, link));
        hub->unacked_list[c].done = false;
    }
}

struct unacked_delivery *unacked_new(struct queue_hub *hub, uint16_t channel, uint64_t tag)
{
    struct unacked_delivery *p = xnew(*p);
    p->channel = channel;
    p->tag = tag;
    list_push(&hub->unacked_list[channel].unsettled, &p->link);
    return p;
}

void unacked_done(struct queue_hub *hub, struct unacked_delivery *p)
{
    p->done = hub->unacked_list[p->channel].done = true;
}

static uint64_t unacked_remove(struct unacked_delivery *p)
{
    uint64_t tag = p->tag;
    list_remove(&p->link);
    free(p);
    return tag;
}

enum err unacked_reject(struct queue_hub *hub, struct unacked_delivery *p, bool requeue, struct error *e)
{
    uint16_t channel = p->channel;
    return rabbit_reject(&hub->link, channel, unacked_remove(p), requeue, e);
}

/* Acknowledges the finished ones at the front at once, the others one by one. If the link breaks, its closed hook
 * clears the list. */
static enum err unacked_ack_channel(struct queue_hub *hub, uint16_t channel, struct error *e)
{
    struct list *unsettled = &hub->unacked_list[channel].unsettled;
    uint64_t last = 0;
    while (!list_empty(unsettled) && container_of(unsettled->next, struct unacked_delivery, link)->done)
        last = unacked_remove(container_of(unsettled->next, struct unacked_delivery, link));
    if (last && rabbit_ack(&hub->link, channel, last, true, e))
        return e->code;
    list_each (unsettled, link) {
        struct unacked_delivery *p = container_of(link, struct unacked_delivery, link);
        if (p->done && rabbit_ack(&hub->link, channel, unacked_remove(p), false, e))
            return e->code;
    }
    return ERR_OK;
}

enum err unacked_ack_done(struct queue_hub *hub, struct error *e)
{
    enum err rc = ERR_OK;
    rabbit_cork(&hub->link, true);
    for (uint16_t c = 1; !rc && c <= RABBIT_CHANNELS; c++)
        if (hub->unacked_list[c].done) {
            hub->unacked_list[c].done = false;
            rc = unacked_ack_channel(hub, c, e);
        }
    rabbit_cork(&hub->link, false);
    return rc;
}

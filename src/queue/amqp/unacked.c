/* What came by a channel and is not settled, in the order it came: an acknowledgement may stand for all up to it, which costs a broker far
 * less than one for each. */
#include <stdlib.h>

#include "queue/amqp/internal.h"

void parcels_init(struct queue_hub *hub)
{
    for (size_t c = 0; c <= RABBIT_CHANNELS; c++)
        list_init(&hub->parcels[c].unsettled);
}

void parcels_forget(struct queue_hub *hub)
{
    for (size_t c = 0; c <= RABBIT_CHANNELS; c++) {
        struct list *link;
        while ((link = list_pop(&hub->parcels[c].unsettled)))
            free(container_of(link, struct parcel, link));
        hub->parcels[c].done = false;
    }
}

struct parcel *parcel_new(struct queue_hub *hub, uint16_t channel, uint64_t tag)
{
    struct parcel *p = xnew(*p);
    p->channel = channel;
    p->tag = tag;
    list_push(&hub->parcels[channel].unsettled, &p->link);
    return p;
}

void parcel_done(struct queue_hub *hub, struct parcel *p)
{
    p->done = hub->parcels[p->channel].done = true;
}

static uint64_t forget(struct parcel *p)
{
    uint64_t tag = p->tag;
    list_remove(&p->link);
    free(p);
    return tag;
}

enum err parcel_reject(struct queue_hub *hub, struct parcel *p, bool requeue, struct error *e)
{
    uint16_t channel = p->channel;
    return rabbit_reject(&hub->link, channel, forget(p), requeue, e);
}

/* Those at the front in one piece, the others each for itself. A link that breaks forgets them all. */
static enum err ack_channel(struct queue_hub *hub, uint16_t channel, struct error *e)
{
    struct list *unsettled = &hub->parcels[channel].unsettled;
    uint64_t last = 0;
    while (!list_empty(unsettled) && container_of(unsettled->next, struct parcel, link)->done)
        last = forget(container_of(unsettled->next, struct parcel, link));
    if (last && rabbit_ack(&hub->link, channel, last, true, e))
        return e->code;
    list_each (unsettled, link) {
        struct parcel *p = container_of(link, struct parcel, link);
        if (p->done && rabbit_ack(&hub->link, channel, forget(p), false, e))
            return e->code;
    }
    return ERR_OK;
}

enum err parcels_ack_done(struct queue_hub *hub, struct error *e)
{
    enum err rc = ERR_OK;
    rabbit_cork(&hub->link, true);
    for (uint16_t c = 1; !rc && c <= RABBIT_CHANNELS; c++)
        if (hub->parcels[c].done) {
            hub->parcels[c].done = false;
            rc = ack_channel(hub, c, e);
        }
    rabbit_cork(&hub->link, false);
    return rc;
}

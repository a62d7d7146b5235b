/* The epoch: the first that was written into the catalogue, so that it is lost only with everything else.
 *
 * Both links read it for themselves, and anew whenever they are opened: no connection outlives a wipe, so what one has read holds for all that
 * is confirmed by it. What the other link has read may be of a broker that came later. */
#include <stdio.h>

#include "platform/clock_system.h"
#include "queue/amqp/internal.h"

enum {
    READ_MS =
        500, /* one that takes longer is taken for missing. Should it come after all, the one that was added counts for nothing */
    CLAIM_OLD_MS =
        10000, /* who asks whether a queue knows something asks about what was pushed longer ago (port/async_io.h) */
};

#define RECORD_EPOCH "epoch"

bool epoch_is(const struct rabbit_message *m, uint64_t *ret)
{
    int64_t number;
    if (strcmp(m->type, RECORD_EPOCH) != 0 || !str_to_i64(buf_str(&m->body), 1, INT64_MAX, &number))
        return false;
    *ret = (uint64_t)number;
    return true;
}

static enum err add_epoch(struct queue_hub *hub, struct error *e)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)clock_wall_us(clock_system()));
    return catalogue_write(hub, RECORD_EPOCH, str_from(text), e);
}

/* The catalogue is read as it comes; hooks note what it says. */
static enum err await_epoch(struct rabbit_link *l, const uint64_t *epoch, struct error *e)
{
    int64_t end = rabbit_now_ms() + READ_MS;
    for (int64_t left = READ_MS; !*epoch && left > 0; left = end - rabbit_now_ms())
        if (rabbit_pump(l, left, e))
            return e->code;
    return ERR_OK;
}

static enum err unreadable(const struct queue_hub *hub, struct error *e)
{
    return error_set(e, ERR_UNAVAILABLE, "RabbitMQ: '%s' can not be read", hub->routes_name);
}

/* ---- of the link that takes ---- */

void epoch_heard(struct queue_hub *hub, uint64_t epoch)
{
    if (hub->epoch)
        return;
    hub->epoch = epoch;
    if (hub->epoch_before && hub->epoch_before != epoch)
        hub->epoch_lost_ms = rabbit_now_ms();
    hub->epoch_before = epoch;
}

enum err epoch_read(struct queue_hub *hub, struct error *e)
{
    for (int tries = 0; tries < 2; tries++) {
        if (await_epoch(&hub->link, &hub->epoch, e))
            return e->code;
        if (hub->epoch)
            return ERR_OK;
        hub_unlock(hub);
        pthread_mutex_lock(&hub->push_lock);
        enum err rc = rabbit_connect_to_publish(&hub->push, e) || add_epoch(hub, e) ? e->code : ERR_OK;
        pthread_mutex_unlock(&hub->push_lock);
        hub_lock(hub);
        if (rc)
            return rc;
    }
    return unreadable(hub, e);
}

/* What was pushed in another epoch is lost, but what is with a worker of this process. Of what nobody knows the epoch, a node that was
 * older than that has handed it over, only who saw it change can tell, and not when it was pushed; but nobody asks about what is
 * younger than CLAIM_OLD_MS, or, in that time, about what was pushed after the change. */
enum err queue_amqp_known(struct queue *q, const struct fenced_id *v, const uint64_t *epochs, size_t n, bool *ret,
                          struct error *e)
{
    struct queue_hub *hub = hub_of(q);
    hub_lock(hub);
    enum err rc = rabbit_connect(&hub->link, e) || epoch_read(hub, e) ? e->code : ERR_OK;
    bool lost = hub->epoch_lost_ms && rabbit_now_ms() - hub->epoch_lost_ms < CLAIM_OLD_MS;
    for (size_t i = 0; !rc && i < n; i++) {
        bool is_there = epochs && epochs[i] ? epochs[i] == hub->epoch : !lost;
        ret[i] = is_there || map_get(&hub->delivered, delivery_bytes(&v[i]));
    }
    hub_unlock(hub);
    return rc;
}

/* ---- of the link that publishes ---- */

/* Before anything is published by it: a broker short of memory would not hear that we read. */
enum err push_epoch_begin(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    hub->push_epoch = 0;
    return rabbit_open_channel(l, CHANNEL_NEWS, false, e) || rabbit_qos(l, CHANNEL_NEWS, NEWS_PREFETCH, e) ||
                   rabbit_consume_stream(l, CHANNEL_NEWS, hub->routes_name, CONSUMER_CATALOGUE, e)
               ? e->code
               : ERR_OK;
}

/* The rest of the catalogue is of no use here. A link that is broken is seen by who reads on. */
void push_epoch_heard(struct queue_hub *hub, const struct rabbit_message *m)
{
    struct error e = { 0 };
    amqp_channel_close_t enough = { .reply_code = AMQP_REPLY_SUCCESS };
    if (hub->push_epoch)
        return; /* it was on its way */
    if (epoch_is(m, &hub->push_epoch))
        (void)!rabbit_send(&hub->push, CHANNEL_NEWS, AMQP_CHANNEL_CLOSE_METHOD, &enough, &e);
    else
        (void)!rabbit_ack(&hub->push, CHANNEL_NEWS, m->tag, false, &e);
}

enum err push_epoch_read(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    for (int tries = 0; tries < 2 && !hub->push_epoch; tries++)
        if ((tries && add_epoch(hub, e)) || await_epoch(l, &hub->push_epoch, e))
            return e->code;
    if (hub->push_epoch)
        return ERR_OK;
    unreadable(hub, e);
    rabbit_drop(l, e); /* the next one reads from the beginning */
    return e->code;
}

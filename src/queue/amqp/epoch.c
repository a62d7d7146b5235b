/* The epoch of the queue: the first epoch record in the catalogue. It is lost only together with everything else.
 *
 * Both links read it separately, and again whenever they connect. No connection survives a wipe of the broker, so
 * the epoch that a connection has read is valid for everything that it confirms. The other link's epoch may belong
 * to a later state of the broker. */
#include <stdio.h>

#include "platform/clock_system.h"
#include "queue/amqp/internal.h"

enum {
    /* a record that takes longer counts as missing; if it arrives after all, it is the first one, and the added one is
     * ignored */
    READ_MS = 500,
    CLAIM_OLD_MS = 10000, /* queue_known is asked only about older pushes (RECONCILE_MS in node/fleet/reconcile.h) */
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

static enum err epoch_add(struct queue_hub *hub, struct error *e)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)clock_wall_us(clock_system()));
    return catalogue_write(hub, RECORD_EPOCH, str_from(text), e);
}

/* Reads records of the catalogue until the hooks have set *epoch, or for READ_MS. */
static enum err epoch_await(struct rabbit_link *l, const uint64_t *epoch, struct error *e)
{
    int64_t end = rabbit_now_ms() + READ_MS;
    for (int64_t left = READ_MS; !*epoch && left > 0; left = end - rabbit_now_ms())
        if (rabbit_pump(l, left, e))
            return e->code;
    return ERR_OK;
}

static enum err epoch_unreadable(const struct queue_hub *hub, struct error *e)
{
    return error_set(e, ERR_UNAVAILABLE, "RabbitMQ: '%s' cannot be read", hub->routes_name);
}

/* ---- epoch of the link that takes ---- */

void epoch_on_record(struct queue_hub *hub, uint64_t epoch)
{
    if (hub->epoch)
        return;
    hub->epoch = epoch;
    if (hub->last_epoch && hub->last_epoch != epoch)
        hub->epoch_lost_ms = rabbit_now_ms();
    hub->last_epoch = epoch;
}

enum err epoch_read(struct queue_hub *hub, struct error *e)
{
    for (int tries = 0; tries < 2; tries++) {
        if (epoch_await(&hub->link, &hub->epoch, e))
            return e->code;
        if (hub->epoch)
            return ERR_OK;
        hub_unlock(hub);
        pthread_mutex_lock(&hub->push_lock);
        enum err rc = rabbit_connect_to_publish(&hub->push, e) || epoch_add(hub, e) ? e->code : ERR_OK;
        pthread_mutex_unlock(&hub->push_lock);
        hub_lock(hub);
        if (rc)
            return rc;
    }
    return epoch_unreadable(hub, e);
}

/* A task pushed in another epoch is lost, unless a worker of this process has it. If the epoch of a push is unknown
 * (an older version of Belfry pushed it), the answer depends on whether this process saw the epoch change. It cannot
 * tell whether the push was before the change. But queue_known is never asked about pushes younger than
 * CLAIM_OLD_MS; so for CLAIM_OLD_MS after a change, all that it is asked about was pushed before the change. */
bool epoch_may_have(const struct queue_hub *hub, const struct fenced_id *id, uint64_t pushed_in)
{
    bool lost = hub->epoch_lost_ms && rabbit_now_ms() - hub->epoch_lost_ms < CLAIM_OLD_MS;
    bool is_there = pushed_in ? pushed_in == hub->epoch : !lost;
    return is_there || map_get(&hub->delivered, fenced_id_key(id));
}

enum err queue_amqp_known(struct queue *q, const struct fenced_id *v, const uint64_t *epochs, size_t n, bool *ret,
                          struct error *e)
{
    struct queue_hub *hub = hub_of(q);
    hub_lock(hub);
    enum err rc = rabbit_connect(&hub->link, e) || epoch_read(hub, e) ? e->code : ERR_OK;
    for (size_t i = 0; !rc && i < n; i++)
        ret[i] = epoch_may_have(hub, &v[i], epochs ? epochs[i] : 0);
    hub_unlock(hub);
    return rc;
}

/* ---- epoch of the link that publishes ---- */

/* Must run before the first publish: a broker that is short of memory no longer reads from a connection that has
 * published. */
enum err push_epoch_begin(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    hub->push_epoch = 0;
    return rabbit_open_channel(l, CHANNEL_CONSUME, false, e) || rabbit_qos(l, CHANNEL_CONSUME, CONSUME_PREFETCH, e) ||
                   rabbit_consume_stream(l, CHANNEL_CONSUME, hub->routes_name, CONSUMER_CATALOGUE, e)
               ? e->code
               : ERR_OK;
}

/* Closes the channel after the epoch: the rest of the catalogue is not needed here. If the link is broken, the next
 * read reports it. */
void push_epoch_on_record(struct queue_hub *hub, const struct rabbit_message *m)
{
    struct error e = { 0 };
    amqp_channel_close_t enough = { .reply_code = AMQP_REPLY_SUCCESS };
    if (hub->push_epoch)
        return; /* sent before the channel was closed */
    if (epoch_is(m, &hub->push_epoch))
        (void)!rabbit_send(&hub->push, CHANNEL_CONSUME, AMQP_CHANNEL_CLOSE_METHOD, &enough, &e);
    else
        (void)!rabbit_ack(&hub->push, CHANNEL_CONSUME, m->tag, false, &e);
}

enum err push_epoch_read(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    for (int tries = 0; tries < 2 && !hub->push_epoch; tries++)
        if ((tries && epoch_add(hub, e)) || epoch_await(l, &hub->push_epoch, e))
            return e->code;
    if (hub->push_epoch)
        return ERR_OK;
    epoch_unreadable(hub, e);
    rabbit_drop(l, e); /* the next connection reads from the beginning */
    return e->code;
}

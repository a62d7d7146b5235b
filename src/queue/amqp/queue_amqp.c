/* Handles, the hooks of both links, acknowledging and counting. push.c pushes, take.c takes, delivery_timeout.c
 * reports delivery timeouts, epoch.c reads the epoch. */
#include <sys/eventfd.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/target/message.h"
#include "platform/clock_system.h"
#include "queue/amqp/internal.h"

enum {
    TIMEOUT_MARGIN_MS = 60000, /* the broker checks its timeout once a minute, and its time starts before the task's */
};

/* ---- links ---- */

static struct queue_hub *queue_amqp_hub_of_link(struct rabbit_link *l)
{
    return l->owner;
}

static struct received *received_new(struct rabbit_link *l, struct rabbit_message *m)
{
    struct received *h = xnew(*h);
    h->unacked_delivery = unacked_new(queue_amqp_hub_of_link(l), m->channel, m->tag);
    h->generation = l->generation;
    h->redelivered = m->redelivered;
    h->fired = m->fired;
    memcpy(h->reason, m->reason, sizeof h->reason);
    memcpy(h->order, m->message_id, sizeof h->order);
    h->body = m->body;
    m->body = (struct buf){ 0 };
    return h;
}

static void queue_amqp_on_notice(struct queue_hub *hub, struct rabbit_message *m)
{
    if (strcmp(m->consumer, CONSUMER_CATALOGUE) == 0) {
        struct error e = { 0 };
        catalogue_on_record(hub, m);
        if (rabbit_ack(&hub->link, CHANNEL_CONSUME, m->tag, false, &e))
            return; /* the next read reports a broken link */
    } else if (strcmp(m->consumer, CONSUMER_CONTROL) == 0) {
        control_on_message(hub, m);
    } else {
        hub->has_news = true; /* a wakeup */
    }
}

/* Sorts by push order: channels answer in any order. */
static void queue_amqp_insert_in_order(struct list *inbox, struct received *h)
{
    struct list *before = inbox;
    while (before->prev != inbox && strcmp(container_of(before->prev, struct received, link)->order, h->order) > 0)
        before = before->prev;
    list_insert_before(before, &h->link);
}

static void queue_amqp_on_message(struct rabbit_link *l, struct rabbit_message *m)
{
    struct queue_hub *hub = queue_amqp_hub_of_link(l);
    if (m->channel == CHANNEL_CONSUME)
        queue_amqp_on_notice(hub, m);
    else if (m->channel == CHANNEL_TIMED_OUT)
        list_push(&hub->timed_out_inbox, &received_new(l, m)->link);
    else
        queue_amqp_insert_in_order(&hub->inbox, received_new(l, m));
}

static void queue_amqp_clear_outstanding(struct map *m)
{
    map_each (m, slot)
        free(slot->value);
    map_release(m);
    map_init(m, HASH_STABLE);
}

static void queue_amqp_on_closed(struct rabbit_link *l)
{
    struct queue_hub *hub = queue_amqp_hub_of_link(l);
    unacked_list_clear(hub);
    hub->get_channels = 0;
    queue_amqp_clear_outstanding(&hub->delivered);
    queue_amqp_clear_outstanding(&hub->delivery_timeouts);
    received_free_all(&hub->inbox);
    received_free_all(&hub->timed_out_inbox);
    hub->aborts.n = hub->wanted.n = 0;
    hub->epoch = 0;
    for (size_t i = 0; i < hub->routes.n; i++)
        hub->routes.v[i]->catalogued = hub->routes.v[i]->wakeup_subscribed = false;
}

/* Declares what both links need. */
static enum err queue_amqp_declare_all(struct queue_hub *hub, struct rabbit_link *l, struct error *e)
{
    return rabbit_open_channel(l, CHANNEL_CALLS, false, e) ||
                   rabbit_declare(l, CHANNEL_CALLS, hub->timed_out_name, RABBIT_KEPT, NULL, e) ||
                   rabbit_declare(l, CHANNEL_CALLS, hub->dead_name, RABBIT_KEPT, NULL, e) ||
                   rabbit_declare(l, CHANNEL_CALLS, hub->routes_name, RABBIT_STREAM, NULL, e) ||
                   rabbit_declare_fanout(l, CHANNEL_CALLS, hub->control_name, e)
               ? e->code
               : ERR_OK;
}

static enum err queue_amqp_on_opened(struct rabbit_link *l, struct error *e)
{
    struct queue_hub *hub = queue_amqp_hub_of_link(l);
    if (queue_amqp_declare_all(hub, l, e) || rabbit_open_channels(l, CHANNEL_CONSUME, 1, e) ||
        rabbit_open_channels(l, CHANNEL_TIMED_OUT, 1, e) || rabbit_qos(l, CHANNEL_CONSUME, CONSUME_PREFETCH, e))
        return e->code;
    return rabbit_consume_stream(l, CHANNEL_CONSUME, hub->routes_name, CONSUMER_CATALOGUE, e);
}

static enum err queue_amqp_on_push_opened(struct rabbit_link *l, struct error *e)
{
    if (queue_amqp_declare_all(queue_amqp_hub_of_link(l), l, e) || push_epoch_begin(queue_amqp_hub_of_link(l), e) ||
        rabbit_open_publisher(l, e))
        return e->code;
    l->channels[1].vital = true;
    return ERR_OK;
}

static void queue_amqp_on_push_message(struct rabbit_link *l, struct rabbit_message *m)
{
    push_epoch_on_record(queue_amqp_hub_of_link(l), m); /* the only consumer of this link */
}

static const struct rabbit_hooks take_hooks = { queue_amqp_on_opened, queue_amqp_on_message, queue_amqp_on_closed };
static const struct rabbit_hooks push_hooks = { queue_amqp_on_push_opened, queue_amqp_on_push_message, NULL };

/* ---- acknowledging ---- */

static void queue_amqp_mark_acked(struct queue_hub *hub, struct map *of, const struct fenced_id *id)
{
    struct outstanding *d = map_remove(of, fenced_id_key(id));
    if (d)
        unacked_done(hub, d->unacked_delivery);
    free(d);
}

static enum err queue_amqp_ack(struct queue *q, const struct fenced_id *v, size_t n, struct error *e)
{
    struct queue_hub *hub = hub_of(q);
    enum err rc = ERR_OK;
    hub_lock(hub);
    /* If the link broke, the broker has taken its deliveries back: nothing to acknowledge. */
    if (hub->link.state && rabbit_pump(&hub->link, 0, e) == ERR_OK) {
        for (size_t i = 0; i < n; i++) {
            queue_amqp_mark_acked(hub, &hub->delivered, &v[i]);
            queue_amqp_mark_acked(hub, &hub->delivery_timeouts, &v[i]);
        }
        rc = unacked_ack_done(hub, e);
    }
    hub_unlock(hub);
    return rc;
}

/* A delivery belongs to the worker as long as its connection lives. Renewing keeps the connection alive. */
static enum err queue_amqp_renew(struct queue *q, const struct task *const *running, size_t n, const struct take *by,
                                 struct error *e)
{
    (void)running, (void)n, (void)by;
    struct queue_hub *hub = hub_of(q);
    hub_lock(hub);
    enum err rc = rabbit_connect(&hub->link, e);
    hub_unlock(hub);
    return rc;
}

/* AMQP cannot remove a certain message from a queue, so nothing can be recalled. */
static enum err queue_amqp_recall(struct queue *q, struct fenced_id d, bool *ret_recalled, struct error *e)
{
    (void)q, (void)d, (void)e;
    *ret_recalled = false;
    return ERR_OK;
}

/* ---- counting ---- */

static enum err queue_amqp_count_waiting(struct queue_hub *hub, int64_t *ret, struct error *e)
{
    const uint32_t *ready;
    if (!hub->routes.n) /* without routes: make some call, to check that the broker answers */
        return rabbit_declare(&hub->link, CHANNEL_CALLS, hub->timed_out_name, RABBIT_KEPT, NULL, e);
    if (routes_count(hub, hub->routes.v, hub->routes.n, &ready, e))
        return e->code;
    *ret = 0;
    for (size_t i = 0; i < hub->routes.n; i++)
        *ret += ready[i];
    return ERR_OK;
}

static enum err queue_amqp_stats(struct queue *q, struct queue_state *ret, struct error *e)
{
    struct queue_hub *hub = hub_of(q);
    int64_t limit_ms = hub->url.consumer_timeout_ms, waiting = 0;
    hub_lock(hub);
    enum err rc = rabbit_connect(&hub->link, e) || epoch_read(hub, e) || queue_amqp_count_waiting(hub, &waiting, e)
                      ? e->code
                      : ERR_OK;
    if (!rc)
        *ret = (struct queue_state){ .waiting = waiting,
                                     .delivered = -1,
                                     .epoch = hub->epoch,
                                     .timeout_max_ms =
                                         limit_ms ? max_of(limit_ms - TIMEOUT_MARGIN_MS, limit_ms / 2) : INT64_MAX };
    hub_unlock(hub);
    return rc;
}

static size_t queue_amqp_depth(struct queue *q)
{
    (void)q; /* only the broker knows; see queue_amqp_stats */
    return 0;
}

/* ---- handles ---- */

/* Rejects received messages that were not handed out: they count as never started. */
static void queue_amqp_reject_inbox(struct queue_hub *hub)
{
    struct error e = { 0 };
    while (hub->link.state && !list_empty(&hub->inbox)) {
        struct received *h = container_of(hub->inbox.next, struct received, link);
        struct unacked_delivery *p = h->unacked_delivery;
        list_remove(&h->link);
        received_free(h);
        if (unacked_reject(hub, p, false, &e))
            return;
    }
}

static void queue_amqp_hub_free(struct queue_hub *hub)
{
    queue_amqp_reject_inbox(hub);
    rabbit_link_release(&hub->link);
    rabbit_link_release(&hub->push);
    queue_amqp_on_closed(&hub->link);
    map_release(&hub->delivered);
    map_release(&hub->delivery_timeouts);
    routes_release(&hub->routes);
    routes_release(&hub->pushed);
    new_queue_guard_release(hub);
    rabbit_url_release(&hub->url);
    buf_release(&hub->text);
    free(hub->aborts.v);
    free(hub->wanted.v);
    close(hub->wake_fd);
    pthread_mutex_destroy(&hub->lock);
    pthread_mutex_destroy(&hub->push_lock);
    free(hub);
}

static void queue_amqp_free(struct queue *q)
{
    struct queue_hub *hub = hub_of(q);
    free(container_of(q, struct queue_amqp, base));
    hub_lock(hub);
    bool last = --hub->handles == 0;
    hub_unlock(hub);
    if (last)
        queue_amqp_hub_free(hub);
}

static struct queue *queue_amqp_handle_new(struct queue_hub *hub)
{
    static const struct queue_ops ops = {
        .push = queue_amqp_push,
        .take = queue_amqp_take,
        .renew = queue_amqp_renew,
        .ack = queue_amqp_ack,
        .timed_out_deliveries = queue_amqp_timed_out,
        .recall = queue_amqp_recall,
        .abort = queue_amqp_abort,
        .want_back = queue_amqp_want_back,
        .unblock = queue_amqp_unblock,
        .known = queue_amqp_known,
        .stats = queue_amqp_stats,
        .depth = queue_amqp_depth,
        .free = queue_amqp_free,
    };
    struct queue_amqp *q = xnew(*q);
    q->base.ops = &ops;
    q->hub = hub;
    hub_lock(hub);
    hub->handles++;
    hub_unlock(hub);
    return &q->base;
}

struct queue *queue_amqp_twin(struct queue *q)
{
    return queue_amqp_handle_new(hub_of(q));
}

enum err queue_amqp_open(struct str url, const struct queue_names *names, struct queue **ret, struct error *e)
{
    struct rabbit_url parsed;
    if (rabbit_url_open(url, &parsed, e))
        return e->code;
    struct queue_hub *hub = xnew(*hub);
    hub->url = parsed;
    hub->names = names;
    rabbit_name(&hub->url, hub->routes_name, "routes");
    rabbit_name(&hub->url, hub->timed_out_name, "lapsed");
    rabbit_name(&hub->url, hub->dead_name, "dead");
    rabbit_name(&hub->url, hub->control_name, "control");
    rabbit_link_init(&hub->link, &hub->url, &take_hooks, hub);
    rabbit_link_init(&hub->push, &hub->url, &push_hooks, hub);
    routes_init(&hub->routes);
    routes_init(&hub->pushed);
    unacked_list_init(hub);
    new_queue_guard_init(hub);
    map_init(&hub->delivered, HASH_STABLE);
    map_init(&hub->delivery_timeouts, HASH_STABLE);
    list_init(&hub->inbox);
    list_init(&hub->timed_out_inbox);
    buf_init(&hub->text, TASK_TEXT_MAX);
    pthread_mutex_init(&hub->lock, NULL);
    pthread_mutex_init(&hub->push_lock, NULL);
    hub->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert(hub->wake_fd >= 0);
    *ret = queue_amqp_handle_new(hub);
    return ERR_OK;
}

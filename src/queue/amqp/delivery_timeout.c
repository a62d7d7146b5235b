/* Reports delivery timeouts. Deliveries that came back from workers wait in a queue of their own until they are
 * settled. The process that reports a delivery timeout keeps it unacknowledged for TIMED_OUT_AGAIN_MS. If the
 * process dies, the broker delivers it to the next one that asks. */
#include <stdlib.h>

#include "core/target/message.h"
#include "queue/amqp/internal.h"

enum { DELIVERY_TIMEOUT_MAX = 1000 }; /* for each call */

/* Returns reported delivery timeouts that were not acknowledged in time to their queue. */
static enum err queue_amqp_requeue_unsettled(struct queue_hub *hub, struct error *e)
{
    for (bool more = true; more;) {
        more = false;
        map_each (&hub->delivery_timeouts, slot) {
            struct outstanding *d = slot->value;
            if (rabbit_now_ms() - d->since_ms < TIMED_OUT_AGAIN_MS)
                continue;
            struct unacked_delivery *p = d->unacked_delivery;
            map_remove(&hub->delivery_timeouts, fenced_id_key(&d->id));
            free(d);
            if (unacked_reject(hub, p, true, e))
                return e->code;
            more = true; /* the map has changed: iterate again */
            break;
        }
    }
    return ERR_OK;
}

static enum err queue_amqp_get_timed_out(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->link;
    uint32_t ready = 0;
    if (rabbit_declare(l, CHANNEL_CALLS, hub->timed_out_name, RABBIT_KEPT, &ready, e))
        return e->code;
    size_t n = min_of(ready, DELIVERY_TIMEOUT_MAX);
    rabbit_calls_begin(l, CHANNEL_TIMED_OUT);
    for (size_t i = 0; i < n; i++)
        if (rabbit_send_get(l, CHANNEL_TIMED_OUT, hub->timed_out_name, e))
            return e->code;
    return rabbit_await_replies(l, CHANNEL_TIMED_OUT, n, e);
}

struct timed_out_report {
    struct queue_hub *hub;
    struct arena *arena;
    struct delivery_timeouts found;
    size_t cap;
};

static bool timed_out_report_grow(struct timed_out_report *r)
{
    if (r->found.n < r->cap)
        return true;
    struct timed_out_delivery *bigger = arena_alloc(r->arena, (r->cap * 2 + 4) * sizeof *bigger);
    if (!bigger)
        return false;
    if (r->found.n)
        memcpy(bigger, r->found.v, r->found.n * sizeof *bigger);
    r->found.v = bigger;
    r->cap = r->cap * 2 + 4;
    return true;
}

/* A rejected task never started at the worker. One that its queue took away from a worker may have, as may one that
 * was moved here with the header `fired`. */
static bool timed_out_has_fired(const struct received *h)
{
    return h->reason[0] ? strcmp(h->reason, "rejected") != 0 : h->fired;
}

/* A worker that loses its connection while it moves a task may move it twice. Then one report covers both copies. */
static enum err timed_out_report_add(struct timed_out_report *r, const struct received *h, const struct task *t,
                                     struct error *e)
{
    struct outstanding *d = xnew(*d);
    *d = (struct outstanding){ .id = { t->id, t->fence },
                               .unacked_delivery = h->unacked_delivery,
                               .since_ms = rabbit_now_ms() };
    if (map_get(&r->hub->delivery_timeouts, fenced_id_key(&d->id))) {
        free(d);
        unacked_done(r->hub, h->unacked_delivery);
        return unacked_ack_done(r->hub, e);
    }
    map_put(&r->hub->delivery_timeouts, fenced_id_key(&d->id), d);
    /* a suspect is delivered alone, to a worker that runs nothing else */
    r->found.v[r->found.n++] = (struct timed_out_delivery){ *t, .fired = timed_out_has_fired(h),
                                                            .alone = task_is_suspect(t) && timed_out_has_fired(h) };
    return ERR_OK;
}

/* ERR_LIMIT: the arena has no room for even one. */
static enum err timed_out_report_fill(struct timed_out_report *r, struct list *unreadable, struct error *e)
{
    struct list *inbox = &r->hub->timed_out_inbox;
    while (!list_empty(inbox)) {
        struct received *h = container_of(inbox->next, struct received, link);
        struct task t;
        struct str tenant;
        struct error own = { 0 };
        struct arena_mark mark = arena_mark(r->arena);
        enum err rc = h->body.full ? ERR_CORRUPT : message_read_task(r->arena, buf_str(&h->body), &t, &tenant, &own);
        if (rc == ERR_LIMIT || (!rc && !timed_out_report_grow(r))) {
            arena_rewind(r->arena, mark);
            return r->found.n ? ERR_OK
                              : error_set(e, ERR_LIMIT, "the next delivery is larger than the memory set aside for it");
        }
        list_remove(&h->link);
        if (rc) {
            list_push(unreadable, &h->link);
            continue;
        }
        rc = timed_out_report_add(r, h, &t, e);
        received_free(h);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

/* Unreadable messages are moved to the dead-letter queue, for inspection by an operator. */
enum err queue_amqp_timed_out(struct queue *q, int64_t now_ms, struct arena *a, struct delivery_timeouts *ret,
                              struct error *e)
{
    (void)now_ms; /* uses the steady clock */
    struct queue_hub *hub = hub_of(q);
    struct timed_out_report r = { .hub = hub, .arena = a };
    struct list unreadable;
    list_init(&unreadable);
    hub_lock(hub);
    enum err rc = rabbit_connect(&hub->link, e) || queue_amqp_requeue_unsettled(hub, e) ? e->code : ERR_OK;
    if (!rc && list_empty(&hub->timed_out_inbox))
        rc = queue_amqp_get_timed_out(hub, e);
    if (!rc)
        rc = timed_out_report_fill(&r, &unreadable, e);
    hub_unlock(hub);
    struct error own = { 0 };
    if (!list_empty(&unreadable) && received_move(hub, &unreadable, hub->dead_name, false, &own) && !rc &&
        r.found.n == 0) {
        *e = own;
        rc = own.code;
    }
    received_free_all(&unreadable);
    if (rc)
        return rc;
    queue_amqp_publish_time(hub);
    new_queue_guard_check(hub);
    *ret = r.found;
    return ERR_OK;
}

static enum err received_publish(struct queue_hub *hub, struct list *from, const char *to, bool fired, struct error *e)
{
    if (rabbit_connect_to_publish(&hub->push, e))
        return e->code;
    rabbit_publish_begin(&hub->push);
    list_each (from, link) {
        const struct received *h = container_of(link, struct received, link);
        const struct rabbit_envelope message = {
            .key = str_from(to), .body = buf_str(&h->body), .type = "task", .mandatory = true, .fired = fired
        };
        if (rabbit_publish(&hub->push, &message, e))
            return e->code;
    }
    return rabbit_publish_end(&hub->push, e);
}

/* If publishing fails, the messages are requeued, and delivered to the next consumer that asks. */
enum err received_move(struct queue_hub *hub, struct list *from, const char *to, bool fired, struct error *e)
{
    pthread_mutex_lock(&hub->push_lock);
    enum err rc = received_publish(hub, from, to, fired, e);
    pthread_mutex_unlock(&hub->push_lock);
    hub_lock(hub);
    list_each (from, link) {
        const struct received *h = container_of(link, struct received, link);
        if (h->generation != hub->link.generation || !hub->link.state)
            break; /* all came by the same connection, and returned to their queues with it */
        if (!rc)
            unacked_done(hub, h->unacked_delivery);
        else if (unacked_reject(hub, h->unacked_delivery, true, e))
            break;
    }
    if (!rc && hub->link.state)
        rc = unacked_ack_done(hub, e);
    hub_unlock(hub);
    return rc;
}

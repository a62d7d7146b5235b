/* What came back from workers lies in a queue of its own until somebody has settled it. Whoever reports a lapse holds it, unacknowledged, for
 * TIMED_OUT_AGAIN_MS; if he is gone the broker gives it to the next who asks. */
#include <stdlib.h>

#include "core/target/message.h"
#include "queue/amqp/internal.h"

enum { DELIVERY_TIMEOUT_MAX = 1000 }; /* a call */

/* Those that nobody acknowledged go back to where they came from. */
static enum err requeue_old(struct queue_hub *hub, struct error *e)
{
    for (bool more = true; more;) {
        more = false;
        map_each (&hub->delivery_timeouts, slot) {
            struct outstanding *d = slot->value;
            if (rabbit_now_ms() - d->since_ms < TIMED_OUT_AGAIN_MS)
                continue;
            struct unacked_delivery *p = d->unacked_delivery;
            map_remove(&hub->delivery_timeouts, delivery_bytes(&d->id));
            free(d);
            if (unacked_reject(hub, p, true, e))
                return e->code;
            more = true; /* the map has changed: begin anew */
            break;
        }
    }
    return ERR_OK;
}

static enum err fetch(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->link;
    uint32_t ready = 0;
    if (rabbit_declare(l, CHANNEL_ASK, hub->timed_out_name, RABBIT_KEPT, &ready, e))
        return e->code;
    size_t n = min_of(ready, DELIVERY_TIMEOUT_MAX);
    rabbit_calls_begin(l, CHANNEL_TIMED_OUT);
    for (size_t i = 0; i < n; i++)
        if (rabbit_send_get(l, CHANNEL_TIMED_OUT, hub->timed_out_name, e))
            return e->code;
    return rabbit_await_replies(l, CHANNEL_TIMED_OUT, n, e);
}

struct report {
    struct queue_hub *hub;
    struct arena *arena;
    struct delivery_timeouts found;
    size_t cap;
};

static bool grow(struct report *r)
{
    if (r->found.n < r->cap)
        return true;
    struct lapse *bigger = arena_alloc(r->arena, (r->cap * 2 + 4) * sizeof *bigger);
    if (!bigger)
        return false;
    if (r->found.n)
        memcpy(bigger, r->found.v, r->found.n * sizeof *bigger);
    r->found.v = bigger;
    r->cap = r->cap * 2 + 4;
    return true;
}

/* What a worker rejected never began there; what its queue took away from one, or what was moved here, may have. */
static bool has_fired(const struct held *h)
{
    return h->reason[0] ? strcmp(h->reason, "rejected") != 0 : h->fired;
}

/* One that was moved here twice, by a worker that was cut off in between, is here twice: one report is enough for both. */
static enum err add(struct report *r, const struct held *h, const struct task *t, struct error *e)
{
    struct outstanding *d = xnew(*d);
    *d = (struct outstanding){ .id = { t->id, t->fence },
                               .unacked_delivery = h->unacked_delivery,
                               .since_ms = rabbit_now_ms() };
    if (map_get(&r->hub->delivery_timeouts, delivery_bytes(&d->id))) {
        free(d);
        unacked_done(r->hub, h->unacked_delivery);
        return unacked_ack_done(r->hub, e);
    }
    map_put(&r->hub->delivery_timeouts, delivery_bytes(&d->id), d);
    /* A suspect was given only to who ran nothing else, and nothing with it. */
    r->found.v[r->found.n++] = (struct lapse){ *t, .fired = has_fired(h), .alone = task_is_suspect(t) && has_fired(h) };
    return ERR_OK;
}

/* ERR_LIMIT: not even one fits. */
static enum err report(struct report *r, struct list *unreadable, struct error *e)
{
    struct list *inbox = &r->hub->timed_out_inbox;
    while (!list_empty(inbox)) {
        struct held *h = container_of(inbox->next, struct held, link);
        struct task t;
        struct str tenant;
        struct error own = { 0 };
        struct arena_mark mark = arena_mark(r->arena);
        enum err rc = h->body.full ? ERR_CORRUPT : message_read_task(r->arena, buf_str(&h->body), &t, &tenant, &own);
        if (rc == ERR_LIMIT || (!rc && !grow(r))) {
            arena_rewind(r->arena, mark);
            return r->found.n ? ERR_OK
                              : error_set(e, ERR_LIMIT, "the next lapse is larger than the memory set aside for it");
        }
        list_remove(&h->link);
        if (rc) {
            list_push(unreadable, &h->link);
            continue;
        }
        rc = add(r, h, &t, e);
        held_free(h);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

/* What nobody can read is kept where people may look at it. */
enum err queue_amqp_timed_out(struct queue *q, int64_t now_ms, struct arena *a, struct delivery_timeouts *ret,
                              struct error *e)
{
    (void)now_ms; /* ours is the clock here */
    struct queue_hub *hub = hub_of(q);
    struct report r = { .hub = hub, .arena = a };
    struct list unreadable;
    list_init(&unreadable);
    hub_lock(hub);
    enum err rc = rabbit_connect(&hub->link, e) || requeue_old(hub, e) ? e->code : ERR_OK;
    if (!rc && list_empty(&hub->timed_out_inbox))
        rc = fetch(hub, e);
    if (!rc)
        rc = report(&r, &unreadable, e);
    hub_unlock(hub);
    struct error own = { 0 };
    if (!list_empty(&unreadable) && held_move(hub, &unreadable, hub->dead_name, false, &own) && !rc && r.found.n == 0) {
        *e = own;
        rc = own.code;
    }
    held_free_all(&unreadable);
    if (rc)
        return rc;
    tell_time(hub);
    new_queue_guard_look(hub);
    *ret = r.found;
    return ERR_OK;
}

static enum err publish_held(struct queue_hub *hub, struct list *from, const char *to, bool fired, struct error *e)
{
    if (rabbit_connect_to_publish(&hub->push, e))
        return e->code;
    rabbit_publish_begin(&hub->push);
    list_each (from, link) {
        const struct held *h = container_of(link, struct held, link);
        const struct rabbit_envelope letter = {
            .key = str_from(to), .body = buf_str(&h->body), .type = "task", .mandatory = true, .fired = fired
        };
        if (rabbit_publish(&hub->push, &letter, e))
            return e->code;
    }
    return rabbit_publish_end(&hub->push, e);
}

/* If that can not be done they go back, and come again to whoever asks next. */
enum err held_move(struct queue_hub *hub, struct list *from, const char *to, bool fired, struct error *e)
{
    pthread_mutex_lock(&hub->push_lock);
    enum err rc = publish_held(hub, from, to, fired, e);
    pthread_mutex_unlock(&hub->push_lock);
    hub_lock(hub);
    list_each (from, link) {
        const struct held *h = container_of(link, struct held, link);
        if (h->generation != hub->link.generation || !hub->link.state)
            break; /* they all came by the same, and lapse with it */
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

/* What was pushed to queues that the broker may still forget.
 *
 * RabbitMQ 3.10 confirms what it has on its disk, but writes down half a second later, in a file of its own, that a new quorum queue is there.
 * Should it crash before that, the queue begins anew, empty, and nobody is told. So whoever pushed to a queue that may be that new keeps a copy
 * until the broker has answered once when the queue was old enough; and when the connection broke before, looks whether the broker is
 * still the same: a queue of our own, its life, has one message, which is not kept over a restart. If it is not, the copies are
 * moved to the lapsed: nobody can tell whether they are lost, so they are returned, under a higher fence; what must not run twice is lost. */
#include <stdlib.h>
#include <unistd.h>

#include "queue/amqp/internal.h"

struct copy {
    struct list link;
    uint64_t generation; /* of the link that publishes */
    int64_t until_ms;
    bool once;      /* it must not run twice */
    bool confirmed; /* else whoever pushes it knows best what became of it */
    size_t n;
    char text[];
};

static void copy_free(struct copy *c)
{
    list_remove(&c->link);
    free(c);
}

void new_queue_guard_init(struct queue_hub *hub)
{
    list_init(&hub->new_queue_guard);
    rabbit_name(&hub->url, hub->life_name, "life.%d.%p.%lld", (int)getpid(), (void *)hub, (long long)rabbit_now_ms());
}

void new_queue_guard_release(struct queue_hub *hub)
{
    list_each (&hub->new_queue_guard, link)
        copy_free(container_of(link, struct copy, link));
}

/* ---- copies ---- */

void new_queue_guard_keep(struct queue_hub *hub, struct route *r, struct str text, bool once)
{
    struct rabbit_link *l = &hub->push;
    if (r->new_until_ms && l->confirms.latest_ms >= r->new_until_ms)
        r->new_until_ms = 0;
    if (!r->new_until_ms)
        return;
    struct copy *c = xmalloc(sizeof *c + text.n);
    *c = (struct copy){ .generation = l->generation, .until_ms = r->new_until_ms, .once = once, .n = text.n };
    memcpy(c->text, text.p, text.n);
    list_push(&hub->new_queue_guard, &c->link);
    hub->new_queue_guard_open = true;
}

void new_queue_guard_pushed(struct queue_hub *hub, bool confirmed)
{
    if (!hub->new_queue_guard_open)
        return;
    hub->new_queue_guard_open = false;
    list_each (&hub->new_queue_guard, link) {
        struct copy *c = container_of(link, struct copy, link);
        if (confirmed)
            c->confirmed = true;
        else if (!c->confirmed)
            copy_free(c);
    }
}

/* ---- whether it is the same broker ---- */

/* Before anything is pushed to a queue that may be new. */
static enum err begin_life(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    if (hub->life == l->generation)
        return ERR_OK;
    const struct rabbit_envelope letter = { .key = str_from(hub->life_name), .transient = true, .mandatory = true };
    if (rabbit_declare(l, CHANNEL_ASK, hub->life_name, RABBIT_LIFE, NULL, e))
        return e->code;
    rabbit_publish_begin(l);
    if (rabbit_publish(l, &letter, e) || rabbit_publish_end(l, e))
        return e->code;
    hub->life = l->generation;
    return ERR_OK;
}

enum err new_queue_guard_route(struct queue_hub *hub, struct route *r, bool is_new, struct error *e)
{
    if (hub->push.classic || (!is_new && !r->new_until_ms))
        return ERR_OK;
    r->new_until_ms = rabbit_now_ms() + NEW_QUEUE_MS;
    return begin_life(hub, e);
}

static enum err lives_on(struct queue_hub *hub, bool *ret, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    rabbit_calls_begin(l, CHANNEL_ASK);
    if (rabbit_send_count(l, CHANNEL_ASK, hub->life_name, e))
        return e->code;
    enum err rc = rabbit_await_replies(l, CHANNEL_ASK, 1, e);
    if (rc == ERR_NOT_FOUND) {
        *ret = false;
        return rabbit_open_channel(l, CHANNEL_ASK, false, e);
    }
    *ret = rc == ERR_OK && l->channels[CHANNEL_ASK].ready[0] > 0;
    return rc;
}

/* ---- what becomes of them ---- */

static enum err move_old(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    rabbit_publish_begin(l);
    list_each (&hub->new_queue_guard, link) {
        const struct copy *c = container_of(link, struct copy, link);
        const struct rabbit_envelope letter = { .key = str_from(hub->timed_out_name),
                                                .body = { c->text, c->n },
                                                .type = "task",
                                                .mandatory = true,
                                                .fired = c->once };
        if (c->generation != l->generation && rabbit_publish(l, &letter, e))
            return e->code;
    }
    return rabbit_publish_end(l, e);
}

static bool any_old(const struct queue_hub *hub)
{
    list_each (&hub->new_queue_guard, link)
        if (container_of(link, struct copy, link)->generation != hub->push.generation)
            return true;
    return false;
}

enum err new_queue_guard_settle(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    bool lives = true, old = any_old(hub);
    if (old && (lives_on(hub, &lives, e) || (!lives && move_old(hub, e))))
        return e->code;
    list_each (&hub->new_queue_guard, link) {
        struct copy *c = container_of(link, struct copy, link);
        if (c->generation != l->generation && lives)
            c->generation = l->generation;
        if (c->generation != l->generation || c->until_ms <= l->confirms.latest_ms)
            copy_free(c);
    }
    return ERR_OK;
}

/* Though nobody pushes. If it fails, it is tried again with the next. */
void new_queue_guard_look(struct queue_hub *hub)
{
    struct error ignored = { 0 };
    pthread_mutex_lock(&hub->push_lock);
    if (!list_empty(&hub->new_queue_guard) && rabbit_connect_to_publish(&hub->push, &ignored) == ERR_OK)
        (void)!new_queue_guard_settle(hub, &ignored);
    pthread_mutex_unlock(&hub->push_lock);
}

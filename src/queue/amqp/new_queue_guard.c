/* Protects tasks that were pushed to a queue that is so new that a crash can lose it.
 *
 * RabbitMQ 3.10 confirms a message when it is on disk, but records the existence of a new quorum queue half a second
 * later, in another file. If the broker crashes before that, the queue starts empty, and no client is told.
 * Therefore a process that pushes to a new queue keeps copies of the tasks, until the broker has confirmed a message
 * NEW_QUEUE_MS after the queue was declared. If the connection breaks before that, the process checks whether the
 * broker has restarted: it has put one transient message into a queue of its own (`life`), and a restart loses it.
 * If the broker has restarted, the copies are moved to the queue of timed out deliveries. Whether the originals are
 * lost is unknown, so the tasks are returned and run under a higher fence; tasks that must not run twice end as
 * lost. */
#include <stdlib.h>
#include <unistd.h>

#include "queue/amqp/internal.h"

struct new_queue_copy {
    struct list link;
    uint64_t generation; /* of the `push` connection */
    int64_t until_ms;
    bool once;      /* AT_MOST_ONCE: it must not run twice */
    bool confirmed; /* false: the push that is running decides what happens to the task */
    size_t n;
    char text[];
};

static void new_queue_copy_free(struct new_queue_copy *c)
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
        new_queue_copy_free(container_of(link, struct new_queue_copy, link));
}

/* ---- copies ---- */

void new_queue_guard_add_copy(struct queue_hub *hub, struct route *r, struct str text, bool once)
{
    struct rabbit_link *l = &hub->push;
    if (r->new_until_ms && l->confirms.latest_ms >= r->new_until_ms)
        r->new_until_ms = 0;
    if (!r->new_until_ms)
        return;
    struct new_queue_copy *c = xmalloc(sizeof *c + text.n);
    *c = (struct new_queue_copy){ .generation = l->generation, .until_ms = r->new_until_ms, .once = once, .n = text.n };
    memcpy(c->text, text.p, text.n);
    list_push(&hub->new_queue_guard, &c->link);
    hub->new_queue_guard_unconfirmed = true;
}

void new_queue_guard_push_ended(struct queue_hub *hub, bool confirmed)
{
    if (!hub->new_queue_guard_unconfirmed)
        return;
    hub->new_queue_guard_unconfirmed = false;
    list_each (&hub->new_queue_guard, link) {
        struct new_queue_copy *c = container_of(link, struct new_queue_copy, link);
        if (confirmed)
            c->confirmed = true;
        else if (!c->confirmed)
            new_queue_copy_free(c);
    }
}

/* ---- has the broker restarted? ---- */

/* Publishes the message that a restart loses. Must precede the first push to a new queue. */
static enum err new_queue_guard_publish_life(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    if (hub->life_generation == l->generation)
        return ERR_OK;
    const struct rabbit_envelope message = { .key = str_from(hub->life_name), .transient = true, .mandatory = true };
    if (rabbit_declare(l, CHANNEL_CALLS, hub->life_name, RABBIT_LIFE, NULL, e))
        return e->code;
    rabbit_publish_begin(l);
    if (rabbit_publish(l, &message, e) || rabbit_publish_end(l, e))
        return e->code;
    hub->life_generation = l->generation;
    return ERR_OK;
}

enum err new_queue_guard_route(struct queue_hub *hub, struct route *r, bool is_new, struct error *e)
{
    if (hub->push.classic || (!is_new && !r->new_until_ms))
        return ERR_OK;
    r->new_until_ms = rabbit_now_ms() + NEW_QUEUE_MS;
    return new_queue_guard_publish_life(hub, e);
}

static enum err new_queue_guard_same_broker(struct queue_hub *hub, bool *ret, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    rabbit_calls_begin(l, CHANNEL_CALLS);
    if (rabbit_send_count(l, CHANNEL_CALLS, hub->life_name, e))
        return e->code;
    enum err rc = rabbit_await_replies(l, CHANNEL_CALLS, 1, e);
    if (rc == ERR_NOT_FOUND) {
        *ret = false;
        return rabbit_open_channel(l, CHANNEL_CALLS, false, e);
    }
    *ret = rc == ERR_OK && l->channels[CHANNEL_CALLS].ready[0] > 0;
    return rc;
}

/* ---- deciding about copies ---- */

static enum err new_queue_guard_move_copies(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    rabbit_publish_begin(l);
    list_each (&hub->new_queue_guard, link) {
        const struct new_queue_copy *c = container_of(link, struct new_queue_copy, link);
        const struct rabbit_envelope message = { .key = str_from(hub->timed_out_name),
                                                 .body = { c->text, c->n },
                                                 .type = "task",
                                                 .mandatory = true,
                                                 .fired = c->once };
        if (c->generation != l->generation && rabbit_publish(l, &message, e))
            return e->code;
    }
    return rabbit_publish_end(l, e);
}

static bool new_queue_guard_has_old_copies(const struct queue_hub *hub)
{
    list_each (&hub->new_queue_guard, link)
        if (container_of(link, struct new_queue_copy, link)->generation != hub->push.generation)
            return true;
    return false;
}

enum err new_queue_guard_resolve(struct queue_hub *hub, struct error *e)
{
    struct rabbit_link *l = &hub->push;
    bool same_broker = true, old = new_queue_guard_has_old_copies(hub);
    if (old &&
        (new_queue_guard_same_broker(hub, &same_broker, e) || (!same_broker && new_queue_guard_move_copies(hub, e))))
        return e->code;
    list_each (&hub->new_queue_guard, link) {
        struct new_queue_copy *c = container_of(link, struct new_queue_copy, link);
        if (c->generation != l->generation && same_broker)
            c->generation = l->generation;
        if (c->generation != l->generation || c->until_ms <= l->confirms.latest_ms)
            new_queue_copy_free(c);
    }
    return ERR_OK;
}

/* Called regularly, for processes that do not push at the moment. If it fails, the next call tries again. */
void new_queue_guard_check(struct queue_hub *hub)
{
    struct error ignored = { 0 };
    pthread_mutex_lock(&hub->push_lock);
    if (!list_empty(&hub->new_queue_guard) && rabbit_connect_to_publish(&hub->push, &ignored) == ERR_OK)
        (void)!new_queue_guard_resolve(hub, &ignored);
    pthread_mutex_unlock(&hub->push_lock);
}

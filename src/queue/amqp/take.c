/* Takes tasks for a worker. It counts the waiting tasks of the routes that it serves, then gets exactly as many as
 * it has room for, higher classes first. A task that does not fit never leaves its queue, so nothing has to go back.
 * If nothing waits, the worker consumes the wakeup queues of its routes (RABBIT_WAKEUP): publishers send wakeups,
 * and each wakes one worker. If a wakeup is lost, the task waits until the next take, which counts again.
 *
 * A delivery is in `inbox` from its arrival until it is handed out, then in `delivered` until it is acknowledged. If
 * the connection closes, both are cleared: the broker has moved the deliveries to the queue of timed out deliveries. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/target/message.h"
#include "platform/clock_system.h"
#include "queue/amqp/internal.h"

/* Limits a round, so that the tasks that arrived run while more are fetched. */
enum { ROUND_MAX = 4 * GET_CHANNELS };

/* The progress of one take: what it has, and what it still wants. */
struct take_progress {
    struct queue_hub *hub;
    const struct take *ask;
    struct arena *arena;
    struct taken got;
    size_t cap;
    struct class_slots places;    /* tasks still wanted */
    int64_t cpu_milli, memory_mb; /* room that is left; -1: no limit */
    bool alone;                   /* the worker runs nothing, and this take has nothing yet */
    bool full;                    /* the arena has no room */
};

void received_free(struct received *h)
{
    buf_release(&h->body);
    free(h);
}

void received_free_all(struct list *l)
{
    struct list *link;
    while ((link = list_pop(l)))
        received_free(container_of(link, struct received, link));
}

/* ---- control messages ---- */

static void delivery_requests_add(struct delivery_requests *r, struct fenced_id id)
{
    if (r->n == r->cap) {
        r->cap = r->cap * 2 + 8;
        r->v = xrealloc(r->v, r->cap * sizeof *r->v);
    }
    r->v[r->n++] = id;
}

static struct fenced_id *tombstones_find(struct tombstones *t, struct fenced_id id)
{
    for (size_t i = 0; i < min_of(t->next, TOMBSTONES); i++)
        if (memcmp(&t->v[i], &id, sizeof id) == 0)
            return &t->v[i];
    return NULL;
}

/* Nodes repeat an abort until the task has ended: that must not push out those of others. */
static void tombstones_add(struct tombstones *t, struct fenced_id id)
{
    if (!tombstones_find(t, id))
        t->v[t->next++ % TOMBSTONES] = id;
}

static bool tombstones_remove(struct tombstones *t, struct fenced_id id)
{
    struct fenced_id *found = tombstones_find(t, id);
    if (found)
        *found = (struct fenced_id){ 0 };
    return found != NULL;
}

static void queue_amqp_on_abort(struct queue_hub *hub, struct fenced_id id, bool wanted)
{
    struct outstanding *d = map_get(&hub->delivered, fenced_id_key(&id));
    if (!d) {
        tombstones_add(wanted ? &hub->wanted_early : &hub->aborted_early, id);
    } else if (!d->aborted) {
        d->aborted = !wanted;
        delivery_requests_add(wanted ? &hub->wanted : &hub->aborts, id);
        hub->has_news = true;
    }
}

static int64_t queue_amqp_steady_us(void)
{
    return clock_steady_ns(clock_system()) / 1000;
}

/* The time of the control nodes in microseconds since 1970; 0: unknown. */
static int64_t queue_amqp_now_us(const struct queue_hub *hub)
{
    int64_t clock_offset_us = INT64_MIN;
    for (size_t i = 0; i < min_of(hub->time_count, TIMES); i++)
        clock_offset_us = max_of(clock_offset_us, hub->clock_offset_us[i]);
    return hub->time_count ? queue_amqp_steady_us() + clock_offset_us : 0;
}

/* An abort, or a task that is wanted back: "<task> <fence>". The time: microseconds since 1970. */
void control_on_message(struct queue_hub *hub, const struct rabbit_message *m)
{
    struct str rest = buf_str(&m->body), task, fence;
    struct fenced_id id = { 0 };
    int64_t us;
    bool wanted = strcmp(m->type, CONTROL_WANT_BACK) == 0;
    if (strcmp(m->type, "time") == 0 && str_to_i64(rest, 1, INT64_MAX, &us))
        hub->clock_offset_us[hub->time_count++ % TIMES] = us - queue_amqp_steady_us();
    else if ((wanted || strcmp(m->type, CONTROL_ABORT) == 0) && str_cut(&rest, ' ', &task) &&
             str_cut(&rest, ' ', &fence) && uuid_parse(task, &id.id) && str_to_i64(fence, 1, INT64_MAX, &id.fence))
        queue_amqp_on_abort(hub, id, wanted);
}

/* Tells the worker what users have asked for before the task came. */
static void queue_amqp_remove_tombstone(struct queue_hub *hub, struct fenced_id id)
{
    bool aborted = tombstones_remove(&hub->aborted_early, id), wanted = tombstones_remove(&hub->wanted_early, id);
    if (aborted || wanted)
        queue_amqp_on_abort(hub, id, !aborted);
}

/* Starts to consume control messages, by an exclusive queue. */
static enum err queue_amqp_subscribe_control(struct queue_hub *hub, const struct take *t, struct error *e)
{
    struct rabbit_link *l = &hub->link;
    char name[RABBIT_NAME], worker[UUID_TEXT + 1];
    if (hub->control_generation == l->generation)
        return ERR_OK;
    uuid_format(t->worker, worker);
    /* The generation is part of the name, because the queue of a broken connection may exist for a while. */
    rabbit_name(&hub->url, name, "worker.%s.%d.%p.%llu", worker, (int)getpid(), (void *)hub,
                (unsigned long long)l->generation);
    if (rabbit_declare(l, CHANNEL_CONSUME, name, RABBIT_EXCLUSIVE, NULL, e) ||
        rabbit_bind(l, CHANNEL_CONSUME, name, hub->control_name, e) ||
        rabbit_consume(l, CHANNEL_CONSUME, name, CONSUMER_CONTROL, true, e))
        return e->code;
    hub->control_generation = l->generation;
    return ERR_OK;
}

/* ---- wakeups ---- */

/* Asks for no replies: a wakeup is only a hint, and a late one does no harm. */
static enum err queue_amqp_subscribe_wakeup(struct rabbit_link *l, struct route *r, struct error *e)
{
    if (r->wakeup_subscribed)
        return ERR_OK;
    amqp_basic_consume_t c = {
        .queue = rabbit_text(r->wakeup), .consumer_tag = rabbit_text(r->wakeup), .no_ack = 1, .nowait = 1
    };
    r->wakeup_subscribed = true;
    return rabbit_send_declare_wakeup(l, CHANNEL_CONSUME, r->wakeup, false, e) ||
                   rabbit_send(l, CHANNEL_CONSUME, AMQP_BASIC_CONSUME_METHOD, &c, e)
               ? e->code
               : ERR_OK;
}

static enum err queue_amqp_unsubscribe_wakeup(struct rabbit_link *l, struct route *r, struct error *e)
{
    amqp_basic_cancel_t c = { .consumer_tag = rabbit_text(r->wakeup), .nowait = 1 };
    if (r->wakeup_subscribed && rabbit_send(l, CHANNEL_CONSUME, AMQP_BASIC_CANCEL_METHOD, &c, e))
        return e->code;
    r->wakeup_subscribed = false;
    return ERR_OK;
}

static enum err queue_amqp_unsubscribe_wakeups(struct queue_hub *hub, struct error *e)
{
    for (size_t i = 0; i < hub->routes.n; i++)
        if (queue_amqp_unsubscribe_wakeup(&hub->link, hub->routes.v[i], e))
            return e->code;
    return ERR_OK;
}

/* ---- received messages ---- */

static bool queue_amqp_has_room(const struct take_progress *w, int64_t cpu_milli, int64_t memory_mb)
{
    return (w->cpu_milli < 0 || cpu_milli <= w->cpu_milli) && (w->memory_mb < 0 || memory_mb <= w->memory_mb);
}

static void queue_amqp_use_room(struct take_progress *w, const struct task *t)
{
    class_slots_take(&w->places, priority_class_of(t->priority), 1);
    if (task_is_suspect(t))
        w->places = (struct class_slots){ 0 }; /* a suspect is delivered alone */
    w->alone = false;
    if (w->cpu_milli >= 0)
        w->cpu_milli -= t->cpu_milli;
    if (w->memory_mb >= 0)
        w->memory_mb -= t->memory_mb;
}

static bool queue_amqp_grow_tasks(struct take_progress *w)
{
    if (w->got.tasks.n < w->cap)
        return true;
    size_t cap = min_of(w->ask->max, w->cap * 2 + 16);
    struct task *bigger = arena_alloc(w->arena, cap * sizeof *bigger);
    if (!bigger)
        return false;
    if (w->got.tasks.n)
        memcpy(bigger, w->got.tasks.v, w->got.tasks.n * sizeof *bigger);
    w->got.tasks.v = bigger;
    w->cap = cap;
    return true;
}

static void queue_amqp_hand_out(struct take_progress *w, const struct received *h, const struct task *t)
{
    struct outstanding *d = xnew(*d);
    *d = (struct outstanding){ .id = { t->id, t->fence }, .unacked_delivery = h->unacked_delivery };
    map_put(&w->hub->delivered, fenced_id_key(&d->id), d);
    w->got.tasks.v[w->got.tasks.n++] = *t;
    queue_amqp_use_room(w, t);
    queue_amqp_remove_tombstone(w->hub, d->id);
}

/* What happens to a received message. */
enum message_fate {
    FATE_HANDED_OUT,
    FATE_KEPT, /* no room in the arena: first in the next take */
    /* counts as never started: it was fetched by an earlier take and does not fit now, or it is unreadable */
    FATE_REJECTED,
    FATE_DUPLICATE, /* the same delivery is here already */
};

static enum message_fate queue_amqp_decide(struct take_progress *w, const struct received *h)
{
    struct task t;
    struct str tenant;
    struct error e = { 0 };
    struct arena_mark mark = arena_mark(w->arena);
    enum err rc = h->body.full ? ERR_CORRUPT : message_read_task(w->arena, buf_str(&h->body), &t, &tenant, &e);
    if (rc == ERR_LIMIT || (!rc && !queue_amqp_grow_tasks(w))) {
        arena_rewind(w->arena, mark);
        w->full = true;
        return FATE_KEPT;
    }
    struct fenced_id id = { 0 };
    if (!rc)
        id = (struct fenced_id){ t.id, t.fence };
    enum message_fate fate = rc                                                ? FATE_REJECTED
                             : map_get(&w->hub->delivered, fenced_id_key(&id)) ? FATE_DUPLICATE
                             : !class_slots_for(&w->places, priority_class_of(t.priority)) ||
                                     (task_is_suspect(&t) && !w->alone) ||
                                     !queue_amqp_has_room(w, t.cpu_milli, t.memory_mb)
                                 ? FATE_REJECTED
                                 : FATE_HANDED_OUT;
    if (fate == FATE_HANDED_OUT)
        queue_amqp_hand_out(w, h, &t);
    return fate;
}

/* A quorum queue never redelivers a task. So a redelivered message is from a classic queue; the caller moves
 * `redelivered` to the queue of timed out deliveries. */
static enum err queue_amqp_hand_out_inbox(struct take_progress *w, struct list *redelivered, struct error *e)
{
    struct queue_hub *hub = w->hub;
    while (!list_empty(&hub->inbox)) {
        struct received *h = container_of(hub->inbox.next, struct received, link);
        if (h->redelivered) {
            list_remove(&h->link);
            list_push(redelivered, &h->link);
            continue;
        }
        enum message_fate fate = queue_amqp_decide(w, h);
        if (fate == FATE_KEPT)
            return ERR_OK;
        list_remove(&h->link);
        struct unacked_delivery *p = h->unacked_delivery;
        received_free(h);
        if (fate == FATE_REJECTED && unacked_reject(hub, p, false, e))
            return e->code;
        if (fate == FATE_DUPLICATE) {
            unacked_done(hub, p);
            if (unacked_ack_done(hub, e))
                return e->code;
        }
    }
    return ERR_OK;
}

/* ---- getting ---- */

static enum priority_class queue_amqp_class_of(const struct route *r)
{
    return priority_class_of(r->facts.priority_max);
}

static enum err queue_amqp_wants_route(const struct take_progress *w, const struct route *r, bool *ret, struct error *e)
{
    if (route_serves(&r->facts, w->ask->filter, ret, e))
        return e->code;
    *ret = *ret && (!r->facts.suspect || w->alone) && class_slots_for(&w->places, queue_amqp_class_of(r)) &&
           queue_amqp_has_room(w, r->facts.cpu_milli, r->facts.memory_mb);
    return ERR_OK;
}

/* All routes that the worker serves and has room for, higher priorities first. Routes of one priority rotate. */
static enum err queue_amqp_find_routes(struct take_progress *w, struct route ***ret, size_t *ret_count, struct error *e)
{
    struct route_set *all = &w->hub->routes;
    struct route **v = xcalloc(all->n + 1, sizeof(struct route *));
    size_t n = 0;
    for (int priority = PRIORITY_MAX; priority >= PRIORITY_MIN; priority--)
        for (size_t i = 0; i < all->n; i++) {
            struct route *r = all->v[(i + w->hub->turn) % all->n];
            bool wanted = false;
            if (r->facts.priority_max != priority)
                continue;
            if (queue_amqp_wants_route(w, r, &wanted, e)) {
                free(v);
                return e->code;
            }
            if (wanted)
                v[n++] = r;
        }
    w->hub->turn++;
    *ret = v;
    *ret_count = n;
    return ERR_OK;
}

/* How many tasks of a route fit into the room that is left; at most max. */
static size_t queue_amqp_how_many_fit(const struct take_progress *w, const struct route *r, size_t max)
{
    max = min_of(max, class_slots_for(&w->places, queue_amqp_class_of(r)));
    if (w->cpu_milli >= 0 && r->facts.cpu_milli > 0)
        max = min_of(max, (size_t)(w->cpu_milli / r->facts.cpu_milli));
    if (w->memory_mb >= 0 && r->facts.memory_mb > 0)
        max = min_of(max, (size_t)(w->memory_mb / r->facts.memory_mb));
    return max;
}

/* Sets get_count of each route. If the worker runs nothing and a suspect waits: that suspect alone. Otherwise the
 * room is filled from the first route to the last. */
static void queue_amqp_share_out(struct take_progress *w, struct route *const *v, size_t n, const uint32_t *ready)
{
    struct take_progress left = *w;
    left.places = class_slots_limit(&w->places, ROUND_MAX);
    for (size_t i = 0; i < n; i++)
        v[i]->get_count = 0;
    for (size_t i = 0; w->alone && i < n; i++)
        if (v[i]->facts.suspect && ready[i]) {
            v[i]->get_count = 1;
            return;
        }
    for (size_t i = 0; i < n && left.places.free; i++) {
        if (v[i]->facts.suspect)
            continue;
        v[i]->get_count = queue_amqp_how_many_fit(&left, v[i], ready[i]);
        class_slots_take(&left.places, queue_amqp_class_of(v[i]), v[i]->get_count);
        if (left.cpu_milli >= 0)
            left.cpu_milli -= (int64_t)v[i]->get_count * v[i]->facts.cpu_milli;
        if (left.memory_mb >= 0)
            left.memory_mb -= (int64_t)v[i]->get_count * v[i]->facts.memory_mb;
    }
}

static enum err queue_amqp_get_from(struct take_progress *w, struct route *const *v, size_t n, struct error *e)
{
    const uint32_t *ready;
    if (routes_count(w->hub, v, n, &ready, e))
        return e->code;
    queue_amqp_share_out(w, v, n, ready);
    return routes_get_messages(w->hub, v, n, e);
}

/* Subscribes to the wakeups of these routes and of no others: a wakeup goes to one worker, which must have room. */
static enum err queue_amqp_subscribe_to(struct queue_hub *hub, struct route *const *v, size_t n, struct error *e)
{
    for (size_t i = 0; i < hub->routes.n; i++)
        hub->routes.v[i]->wanted = false;
    for (size_t i = 0; i < n; i++)
        v[i]->wanted = true;
    for (size_t i = 0; i < hub->routes.n; i++) {
        struct route *r = hub->routes.v[i];
        if (r->wanted ? queue_amqp_subscribe_wakeup(&hub->link, r, e) : queue_amqp_unsubscribe_wakeup(&hub->link, r, e))
            return e->code;
    }
    return ERR_OK;
}

/* One round: gets what waits; if nothing does and the worker waits, subscribes to wakeups. */
static enum err queue_amqp_get_once(struct take_progress *w, bool waits, struct error *e)
{
    struct route **v = NULL;
    size_t n = 0;
    if (queue_amqp_find_routes(w, &v, &n, e))
        return e->code;
    w->hub->has_news = false;
    enum err rc = queue_amqp_get_from(w, v, n, e);
    if (!rc && waits && list_empty(&w->hub->inbox))
        rc = queue_amqp_subscribe_to(w->hub, v, n, e);
    free(v);
    return rc;
}

/* ---- waiting ---- */

/* Nothing has come that ends a wait, over the connection on which it began: another one brings no notices yet. */
static bool queue_amqp_goes_on_waiting(const struct queue_hub *hub, uint64_t generation)
{
    return hub->link.generation == generation && !hub->has_news && !hub->unblocked && list_empty(&hub->inbox);
}

/* Waits until a wakeup, an abort or a new route arrives or the take is unblocked, at most until until_ms. */
static enum err queue_amqp_wait_for_notice(struct take_progress *w, int64_t until_ms, struct error *e)
{
    struct queue_hub *hub = w->hub;
    uint64_t generation = hub->link.generation;
    while (queue_amqp_goes_on_waiting(hub, generation) && rabbit_now_ms() < until_ms) {
        if (rabbit_pump(&hub->link, 0, e))
            return e->code;
        if (queue_amqp_goes_on_waiting(hub, generation))
            hub_wait(hub, until_ms - rabbit_now_ms());
        if (!hub->link.state)
            return error_set(e, ERR_UNAVAILABLE, "%s", hub->link.why.text);
    }
    return ERR_OK;
}

/* If the arena has no room, they are returned by the next take, and this one has not heard of them. */
static void queue_amqp_take_requests(struct take_progress *w, struct delivery_requests *r, struct fenced_id **ret,
                                     size_t *ret_count)
{
    struct fenced_id *copy = r->n ? arena_alloc(w->arena, r->n * sizeof *copy) : NULL;
    w->got.unheard = w->got.unheard || (r->n && !copy);
    if (!copy)
        return;
    memcpy(copy, r->v, r->n * sizeof *copy);
    *ret = copy;
    *ret_count = r->n;
    r->n = 0;
}

/* What was sent while there was no connection did not come. */
static void queue_amqp_note_heard(struct take_progress *w)
{
    struct queue_hub *hub = w->hub;
    w->got.unheard = hub->heard_generation != hub->link.generation;
    hub->heard_generation = hub->link.generation;
    queue_amqp_take_requests(w, &hub->aborts, &w->got.aborts, &w->got.abort_count);
    queue_amqp_take_requests(w, &hub->wanted, &w->got.wanted, &w->got.wanted_count);
}

static enum err queue_amqp_take_some(struct take_progress *w, struct list *redelivered, struct error *e)
{
    struct queue_hub *hub = w->hub;
    int64_t until_ms = rabbit_now_ms() + w->ask->wait_ms;
    if (rabbit_connect(&hub->link, e))
        return e->code;
    for (bool first = true;; first = false) {
        /* Another thread may have connected again while this one waited. basic.qos as a barrier: its reply follows all
         * messages that the broker has sent on the channel, so earlier aborts are known. */
        if (queue_amqp_subscribe_control(hub, w->ask, e))
            return e->code;
        w->got.heard_ms = rabbit_now_ms();
        if (rabbit_qos(&hub->link, CHANNEL_CONSUME, CONSUME_PREFETCH, e) ||
            queue_amqp_hand_out_inbox(w, redelivered, e))
            return e->code;
        bool over = hub->aborts.n || hub->wanted.n || hub->unblocked || rabbit_now_ms() >= until_ms;
        if (w->got.tasks.n || w->full || !list_empty(redelivered) || (over && !first))
            break;
        if (w->ask->max && queue_amqp_get_once(w, w->ask->wait_ms > 0, e))
            return e->code;
        if (list_empty(&hub->inbox) && !over && queue_amqp_wait_for_notice(w, until_ms, e))
            return e->code;
    }
    hub->unblocked = false;
    queue_amqp_note_heard(w);
    w->got.queue_us = queue_amqp_now_us(hub);
    bool idle = w->got.tasks.n == 0 && w->ask->max; /* an idle worker takes again at once: stay subscribed */
    return idle ? ERR_OK : queue_amqp_unsubscribe_wakeups(hub, e);
}

enum err queue_amqp_unblock(struct queue *q, struct uuid worker, struct error *e)
{
    (void)worker, (void)e; /* the handles of a worker share a hub with no other worker */
    struct queue_hub *hub = hub_of(q);
    hub_lock(hub);
    hub->unblocked = true;
    hub_unlock(hub);
    return ERR_OK;
}

/* Something that the worker must get: no later take has it. */
static bool queue_amqp_has_result(const struct taken *got)
{
    return got->tasks.n || got->abort_count || got->wanted_count;
}

/* The take fails, so the worker does not learn that it has not heard of everything: the next one says it. */
static void queue_amqp_forget_heard(struct queue_hub *hub)
{
    hub_lock(hub);
    hub->heard_generation = 0;
    hub_unlock(hub);
}

enum err queue_amqp_take(struct queue *q, const struct take *t, struct arena *a, struct taken *ret, struct error *e)
{
    struct queue_hub *hub = hub_of(q);
    struct take_progress w = { .hub = hub,
                               .ask = t,
                               .arena = a,
                               .places = queue_places(t),
                               .cpu_milli = t->cpu_milli,
                               .memory_mb = t->memory_mb,
                               .alone = t->alone };
    struct list redelivered;
    list_init(&redelivered);
    hub_lock(hub);
    enum err rc = queue_amqp_take_some(&w, &redelivered, e);
    hub_unlock(hub);
    struct error own = { 0 };
    if (!list_empty(&redelivered) && received_move(hub, &redelivered, hub->timed_out_name, true, &own) && !rc &&
        !queue_amqp_has_result(&w.got)) { /* else a later take moves them */
        *e = own;
        rc = own.code;
    }
    received_free_all(&redelivered);
    /* If the link broke after tasks were handed out, they time out by themselves. */
    if (!rc && w.full && !queue_amqp_has_result(&w.got))
        rc = error_set(e, ERR_LIMIT, "the next delivery is larger than the memory set aside for it");
    if (!rc)
        *ret = w.got;
    else if (w.got.unheard)
        queue_amqp_forget_heard(hub);
    return rc;
}

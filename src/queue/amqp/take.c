/* A worker asks the queues that it serves how many wait there, then for exactly as many as it wants, the higher classes first: what it has
 * no room for never leaves its queue, so nothing has to go back. Where nothing waits, it listens to bells (RABBIT_WAKEUP): whoever pushes rings
 * them, and each wakes one worker. A bell that nobody heard costs a delay of at most a take: the next one asks again.
 *
 * A delivery is in `inbox` from when it came until it is handed out, then in `delivered` until it is acknowledged. Both are empty when the
 * connection is gone: the broker has moved all of it to the lapsed then. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/target/message.h"
#include "platform/clock_system.h"
#include "queue/amqp/internal.h"

/* A round is short, so that what came runs while more is asked for. */
enum { ROUND_MAX = 4 * GET_CHANNELS };

/* What is still wanted. */
struct recall_request {
    struct queue_hub *hub;
    const struct take *ask;
    struct arena *arena;
    struct taken got;
    size_t cap;
    size_t max;                   /* how many more */
    int64_t cpu_milli, memory_mb; /* for which there is room; -1: any */
    bool alone;                   /* nothing runs there, and nothing is on its way */
    bool full;                    /* the arena */
};

void held_free(struct held *h)
{
    buf_release(&h->body);
    free(h);
}

void held_free_all(struct list *l)
{
    struct list *link;
    while ((link = list_pop(l)))
        held_free(container_of(link, struct held, link));
}

/* ---- what all workers are told ---- */

static void note_abort(struct queue_hub *hub, struct fenced_id id)
{
    if (hub->abort_count == hub->abort_cap) {
        hub->abort_cap = hub->abort_cap * 2 + 8;
        hub->aborts = xrealloc(hub->aborts, hub->abort_cap * sizeof *hub->aborts);
    }
    hub->aborts[hub->abort_count++] = id;
}

static void abort_asked(struct queue_hub *hub, struct fenced_id id)
{
    struct outstanding *d = map_get(&hub->delivered, delivery_bytes(&id));
    if (!d) {
        hub->tombstones[hub->tombstone_next++ % TOMBSTONES] = id;
    } else if (!d->aborted) {
        d->aborted = true;
        note_abort(hub, id);
        hub->rung = true;
    }
}

static int64_t steady_us(void)
{
    return clock_steady_ns(clock_system()) / 1000;
}

/* 0: nobody has told. */
static int64_t queue_us(const struct queue_hub *hub)
{
    int64_t ahead_us = INT64_MIN;
    for (size_t i = 0; i < min_of(hub->time_count, TIMES); i++)
        ahead_us = max_of(ahead_us, hub->ahead_us[i]);
    return hub->time_count ? steady_us() + ahead_us : 0;
}

/* An abort: "<task> <fence>". The time: microseconds since 1970. */
void control_heard(struct queue_hub *hub, const struct rabbit_message *m)
{
    struct str rest = buf_str(&m->body), task, fence;
    struct fenced_id id = { 0 };
    int64_t us;
    if (strcmp(m->type, "time") == 0 && str_to_i64(rest, 1, INT64_MAX, &us))
        hub->ahead_us[hub->time_count++ % TIMES] = us - steady_us();
    else if (strcmp(m->type, "abort") == 0 && str_cut(&rest, ' ', &task) && str_cut(&rest, ' ', &fence) &&
             uuid_parse(task, &id.id) && str_to_i64(fence, 1, INT64_MAX, &id.fence))
        abort_asked(hub, id);
}

static bool has_tombstone(struct queue_hub *hub, struct fenced_id id)
{
    for (size_t i = 0; i < min_of(hub->tombstone_next, TOMBSTONES); i++)
        if (memcmp(&hub->tombstones[i], &id, sizeof id) == 0) {
            hub->tombstones[i] = (struct fenced_id){ 0 };
            return true;
        }
    return false;
}

/* From now on, by a queue of our own. */
static enum err listen_to_control(struct queue_hub *hub, const struct take *t, struct error *e)
{
    struct rabbit_link *l = &hub->link;
    char name[RABBIT_NAME], worker[UUID_TEXT + 1];
    if (hub->listening == l->generation)
        return ERR_OK;
    uuid_format(t->worker, worker);
    /* The one of a connection that broke may be there for a while. */
    rabbit_name(&hub->url, name, "worker.%s.%d.%p.%llu", worker, (int)getpid(), (void *)hub,
                (unsigned long long)l->generation);
    if (rabbit_declare(l, CHANNEL_NEWS, name, RABBIT_EXCLUSIVE, NULL, e) ||
        rabbit_bind(l, CHANNEL_NEWS, name, hub->control_name, e) ||
        rabbit_consume(l, CHANNEL_NEWS, name, CONSUMER_CONTROL, true, e))
        return e->code;
    hub->listening = l->generation;
    return ERR_OK;
}

/* ---- bells ---- */

/* None of this is answered: what a bell says is only a hint, and one that comes late does no harm. */
static enum err subscribe_wakeup(struct rabbit_link *l, struct route *r, struct error *e)
{
    if (r->ringing)
        return ERR_OK;
    amqp_basic_consume_t c = {
        .queue = rabbit_text(r->wakeup), .consumer_tag = rabbit_text(r->wakeup), .no_ack = 1, .nowait = 1
    };
    r->ringing = true;
    return rabbit_send_declare_wakeup(l, CHANNEL_NEWS, r->wakeup, false, e) ||
                   rabbit_send(l, CHANNEL_NEWS, AMQP_BASIC_CONSUME_METHOD, &c, e)
               ? e->code
               : ERR_OK;
}

static enum err unsubscribe_wakeups(struct queue_hub *hub, struct error *e)
{
    for (size_t i = 0; i < hub->routes.n; i++) {
        struct route *r = hub->routes.v[i];
        amqp_basic_cancel_t c = { .consumer_tag = rabbit_text(r->wakeup), .nowait = 1 };
        if (r->ringing && rabbit_send(&hub->link, CHANNEL_NEWS, AMQP_BASIC_CANCEL_METHOD, &c, e))
            return e->code;
        r->ringing = false;
    }
    return ERR_OK;
}

/* ---- what came ---- */

static bool has_room(const struct recall_request *w, int64_t cpu_milli, int64_t memory_mb)
{
    return (w->cpu_milli < 0 || cpu_milli <= w->cpu_milli) && (w->memory_mb < 0 || memory_mb <= w->memory_mb);
}

static void use_room(struct recall_request *w, const struct task *t)
{
    w->max = task_is_suspect(t) ? 0 : w->max - 1; /* nothing comes with a suspect */
    w->alone = false;
    if (w->cpu_milli >= 0)
        w->cpu_milli -= t->cpu_milli;
    if (w->memory_mb >= 0)
        w->memory_mb -= t->memory_mb;
}

static bool grow(struct recall_request *w)
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

static void hand_out(struct recall_request *w, const struct held *h, const struct task *t)
{
    struct outstanding *d = xnew(*d);
    *d = (struct outstanding){ .id = { t->id, t->fence }, .unacked_delivery = h->unacked_delivery };
    map_put(&w->hub->delivered, delivery_bytes(&d->id), d);
    w->got.tasks.v[w->got.tasks.n++] = *t;
    use_room(w, t);
    if (has_tombstone(w->hub, d->id))
        abort_asked(w->hub, d->id);
}

/* What is done with a message that came. */
enum fate {
    FATE_HANDED,
    FATE_KEPT, /* the arena is full: it is the first next time */
    FATE_GIVEN_BACK, /* as one that never began: it was asked for by an earlier call, and does not fit now; or it can not be read */
    FATE_TWICE, /* it is here already */
};

static enum fate consider(struct recall_request *w, const struct held *h)
{
    struct task t;
    struct str tenant;
    struct error e = { 0 };
    struct arena_mark mark = arena_mark(w->arena);
    enum err rc = h->body.full ? ERR_CORRUPT : message_read_task(w->arena, buf_str(&h->body), &t, &tenant, &e);
    if (rc == ERR_LIMIT || (!rc && !grow(w))) {
        arena_rewind(w->arena, mark);
        w->full = true;
        return FATE_KEPT;
    }
    struct fenced_id id = { 0 };
    if (!rc)
        id = (struct fenced_id){ t.id, t.fence };
    enum fate fate = rc                                                 ? FATE_GIVEN_BACK
                     : map_get(&w->hub->delivered, delivery_bytes(&id)) ? FATE_TWICE
                     : w->max == 0 || (task_is_suspect(&t) && !w->alone) || !has_room(w, t.cpu_milli, t.memory_mb)
                         ? FATE_GIVEN_BACK
                         : FATE_HANDED;
    if (fate == FATE_HANDED)
        hand_out(w, h, &t);
    return fate;
}

/* A quorum queue itself gives to nobody what somebody had: then this is another kind, and `again` is moved to the lapsed. */
static enum err hand_out_inbox(struct recall_request *w, struct list *again, struct error *e)
{
    struct queue_hub *hub = w->hub;
    while (!list_empty(&hub->inbox)) {
        struct held *h = container_of(hub->inbox.next, struct held, link);
        if (h->redelivered) {
            list_remove(&h->link);
            list_push(again, &h->link);
            continue;
        }
        enum fate fate = consider(w, h);
        if (fate == FATE_KEPT)
            return ERR_OK;
        list_remove(&h->link);
        struct unacked_delivery *p = h->unacked_delivery;
        held_free(h);
        if (fate == FATE_GIVEN_BACK && unacked_reject(hub, p, false, e))
            return e->code;
        if (fate == FATE_TWICE) {
            unacked_done(hub, p);
            if (unacked_ack_done(hub, e))
                return e->code;
        }
    }
    return ERR_OK;
}

/* ---- asking ---- */

static enum err is_wanted(const struct recall_request *w, const struct route *r, bool *ret, struct error *e)
{
    if (route_serves(&r->facts, w->ask->filter, ret, e))
        return e->code;
    *ret = *ret && (!r->facts.suspect || w->alone) && has_room(w, r->facts.cpu_milli, r->facts.memory_mb);
    return ERR_OK;
}

/* All that are wanted, by class; from class to class they take turns. */
static enum err find_wanted(struct recall_request *w, struct route ***ret, size_t *ret_count, struct error *e)
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
            if (is_wanted(w, r, &wanted, e)) {
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

/* How many of a route fit into what is left. */
static size_t how_many_fit(const struct recall_request *w, const struct route *r, size_t max)
{
    if (w->cpu_milli >= 0 && r->facts.cpu_milli > 0)
        max = min_of(max, (size_t)(w->cpu_milli / r->facts.cpu_milli));
    if (w->memory_mb >= 0 && r->facts.memory_mb > 0)
        max = min_of(max, (size_t)(w->memory_mb / r->facts.memory_mb));
    return max;
}

/* Shares out what is wanted, over what waits: a suspect alone if there is one, else one class after the other. */
static void share_out(struct recall_request *w, struct route *const *v, size_t n, const uint32_t *ready)
{
    struct recall_request left = *w;
    left.max = min_of(left.max, ROUND_MAX);
    for (size_t i = 0; i < n; i++)
        v[i]->asked = 0;
    for (size_t i = 0; w->alone && i < n; i++)
        if (v[i]->facts.suspect && ready[i]) {
            v[i]->asked = 1;
            return;
        }
    for (size_t i = 0; i < n && left.max; i++) {
        if (v[i]->facts.suspect)
            continue;
        v[i]->asked = how_many_fit(&left, v[i], min_of(left.max, ready[i]));
        left.max -= v[i]->asked;
        if (left.cpu_milli >= 0)
            left.cpu_milli -= (int64_t)v[i]->asked * v[i]->facts.cpu_milli;
        if (left.memory_mb >= 0)
            left.memory_mb -= (int64_t)v[i]->asked * v[i]->facts.memory_mb;
    }
}

static enum err ask_routes(struct recall_request *w, struct route *const *v, size_t n, struct error *e)
{
    const uint32_t *ready;
    if (routes_count(w->hub, v, n, &ready, e))
        return e->code;
    share_out(w, v, n, ready);
    return routes_get_asked(w->hub, v, n, e);
}

/* One round: what waits is asked for, or its bells are heard from now on. */
static enum err ask_once(struct recall_request *w, bool waits, struct error *e)
{
    struct route **v = NULL;
    size_t n = 0;
    if (find_wanted(w, &v, &n, e))
        return e->code;
    w->hub->rung = false;
    enum err rc = ask_routes(w, v, n, e);
    for (size_t i = 0; !rc && waits && list_empty(&w->hub->inbox) && i < n; i++)
        rc = subscribe_wakeup(&w->hub->link, v[i], e);
    free(v);
    return rc;
}

/* ---- waiting ---- */

/* Until a bell rings, an abort or a new route is told of, or the time is over. */
static enum err wait_for_news(struct recall_request *w, int64_t until_ms, struct error *e)
{
    struct queue_hub *hub = w->hub;
    while (!hub->rung && list_empty(&hub->inbox) && rabbit_now_ms() < until_ms) {
        if (rabbit_pump(&hub->link, 0, e))
            return e->code;
        if (!hub->rung && list_empty(&hub->inbox))
            hub_wait(hub, until_ms - rabbit_now_ms());
        if (!hub->link.state)
            return error_set(e, ERR_UNAVAILABLE, "%s", hub->link.why.text);
    }
    return ERR_OK;
}

/* If the arena has no room for them, they come with the next take. */
static void take_aborts(struct recall_request *w)
{
    struct queue_hub *hub = w->hub;
    struct fenced_id *copy = hub->abort_count ? arena_alloc(w->arena, hub->abort_count * sizeof *copy) : NULL;
    if (!copy)
        return;
    memcpy(copy, hub->aborts, hub->abort_count * sizeof *copy);
    w->got.aborts = copy;
    w->got.abort_count = hub->abort_count;
    hub->abort_count = 0;
}

static enum err take_some(struct recall_request *w, struct list *again, struct error *e)
{
    struct queue_hub *hub = w->hub;
    int64_t until_ms = rabbit_now_ms() + w->ask->wait_ms;
    if (rabbit_connect(&hub->link, e) || listen_to_control(hub, w->ask, e))
        return e->code;
    for (bool first = true;; first = false) {
        /* The answer comes behind all that the channel was told before: what was asked to be aborted by now is known then. */
        if (rabbit_qos(&hub->link, CHANNEL_NEWS, NEWS_PREFETCH, e) || hand_out_inbox(w, again, e))
            return e->code;
        bool over = hub->abort_count || rabbit_now_ms() >= until_ms;
        if (w->got.tasks.n || w->full || !list_empty(again) || (over && !first))
            break;
        if (w->ask->max && ask_once(w, w->ask->wait_ms > 0, e))
            return e->code;
        if (list_empty(&hub->inbox) && !over && wait_for_news(w, until_ms, e))
            return e->code;
    }
    take_aborts(w);
    w->got.queue_us = queue_us(hub);
    bool idle = w->got.tasks.n == 0 && w->ask->max; /* it will ask again at once, as it did now */
    return idle ? ERR_OK : unsubscribe_wakeups(hub, e);
}

enum err queue_amqp_take(struct queue *q, const struct take *t, struct arena *a, struct taken *ret, struct error *e)
{
    struct queue_hub *hub = hub_of(q);
    struct recall_request w = { .hub = hub,
                                .ask = t,
                                .arena = a,
                                .max = t->max,
                                .cpu_milli = t->cpu_milli,
                                .memory_mb = t->memory_mb,
                                .alone = t->alone };
    struct list again;
    list_init(&again);
    hub_lock(hub);
    enum err rc = take_some(&w, &again, e);
    hub_unlock(hub);
    if (!list_empty(&again) && held_move(hub, &again, hub->timed_out_name, true, e))
        rc = e->code;
    held_free_all(&again);
    /* What was handed out before the link broke lapses by itself. */
    if (!rc && w.full && w.got.tasks.n == 0)
        rc = error_set(e, ERR_LIMIT, "the next delivery is larger than the memory set aside for it");
    if (!rc)
        *ret = w.got;
    return rc;
}

/* A control node's way to the queue, the events and the lease of its fleet. The courier's threads see the fleet's ports and the book, which any
 * thread may ask; what they bring is seen by the loop, and what the API tells of it is a copy under a lock. */
#include <stdlib.h>

#include "base/log.h"
#include "server/server_internal.h"

enum { WATCH_MS = 500, NAME_ARENA = 1 << 16 };

/* On the thread that pushes, alone. */
static struct str tenant_name(const struct queue_names *names, int32_t number)
{
    union {
        const struct queue_names *in;
        struct catalog_cache_names *out;
    } mine = { names }; /* the answer lives with who was asked */
    struct catalog_cache_names *n = mine.out;
    struct tenant_rules rules;
    arena_reset(&n->arena);
    return catalog_cache_tenant(n->catalog, number, &n->arena, &rules) ? rules.name : S("");
}

enum err server_open_fleet(struct server *a, struct error *e)
{
    struct server_fleet *f = &a->fleet;
    if (!a->setup.fleet)
        return ERR_OK;
    f->names = (struct catalog_cache_names){ .base = { tenant_name }, .catalog = a->catalog };
    arena_init(&f->names.arena, NAME_ARENA);
    pthread_mutex_init(&f->lock, NULL);
    f->there = true;
    struct fleet_setup setup = { .urls = a->setup.fleet,
                                 .names = &f->names.base,
                                 .filter = a->setup.roles & NODE_WORKER ? &f->filter : NULL,
                                 .polls = a->setup.roles & NODE_UPDATER };
    f->filter = (struct queue_filter){ .priority_max = PRIORITY_MAX };
    struct async_io_threads_setup async_io = { .loop = a->loop, .open = fleet_hand_over, .context = &f->fleet };
    if (fleet_open(&setup, &f->fleet, e))
        return e->code;
    memcpy(async_io.wanted, f->fleet.wanted, sizeof async_io.wanted);
    if (async_io_threads_new(&async_io, &f->async_io, e))
        return e->code;
    f->watch.async_io = f->async_io;
    return ERR_OK;
}

/* Before those whose errands it carries. */
void server_close_async_io(struct server *a)
{
    async_io_threads_free(take(a->fleet.async_io));
}

void server_close_fleet(struct server *a)
{
    if (!a->fleet.there)
        return;
    fleet_release(&a->fleet.fleet);
    arena_release(&a->fleet.names.arena);
    pthread_mutex_destroy(&a->fleet.lock);
}

/* ---- how the queue is ---- */

/* On the loop, after a step. */
void server_see_queue(struct server *a)
{
    struct server_fleet *f = &a->fleet;
    struct queue_state state;
    if (!f->there || !node_queue_state(a->node, &state))
        return;
    pthread_mutex_lock(&f->lock);
    f->state = state;
    f->known = true;
    pthread_mutex_unlock(&f->lock);
    metric_set(a->metrics, METRIC_QUEUE_DEPTH, (double)max_of(state.waiting, (int64_t)0));
}

static void on_watch(uv_timer_t *timer)
{
    struct server *a = timer->data;
    fleet_watch_look(&a->fleet.watch);
}

static void tell(void *context, const struct fenced_id *settled, size_t n)
{
    struct server *a = context;
    store_tell(a->store, settled, n);
}

/* Where others write to the store too, somebody looks for lanes all the time. */
static void read_lanes(void *context)
{
    struct server *a = context;
    struct error e;
    if (!store_is_shared(a->store) && server_know_lanes(a, &e))
        log_warn("lanes_failed", kv_err(&e));
}

void server_join_fleet(struct server *a, struct node_setup *setup)
{
    struct server_fleet *f = &a->fleet;
    if (!f->there)
        return;
    setup->own = setup->async_io;
    setup->async_io = f->async_io;
    setup->fleet = true;
    setup->fallback = a->setup.falls_back;
    setup->waiting = a->setup.queue_waiting;
    setup->lease = f->fleet.wanted[ASYNC_IO_LEASE];
    setup->filter = &f->filter;
    setup->notify_settled = tell;
    setup->read_lanes = read_lanes;
}

void server_watch_fleet(struct server *a)
{
    if (!a->fleet.there)
        return;
    uv_timer_init(loop_uv(a->loop), &a->fleet.timer);
    a->fleet.timer.data = a;
    uv_timer_start(&a->fleet.timer, on_watch, WATCH_MS, WATCH_MS);
}

void server_unwatch_fleet(struct server *a)
{
    if (a->fleet.there)
        uv_close((uv_handle_t *)&a->fleet.timer, NULL);
}

static struct queue_state state_of(struct server_fleet *f, bool *ret_known)
{
    pthread_mutex_lock(&f->lock);
    struct queue_state s = f->state;
    *ret_known = f->known;
    pthread_mutex_unlock(&f->lock);
    return s;
}

int64_t server_queue_timeout_max(void *context)
{
    struct server *a = context;
    bool known;
    struct queue_state s = state_of(&a->fleet, &known);
    return known && s.timeout_max_ms < INT64_MAX ? s.timeout_max_ms : 0;
}

static void kv_if_known(struct jw *w, const char *name, bool known, int64_t value)
{
    jw_key(w, name);
    if (known && value >= 0)
        jw_i64(w, value);
    else
        jw_null(w);
}

void server_write_fleet(struct server *a, int64_t now_ms, struct jw *w)
{
    if (!a->fleet.there)
        return;
    bool known;
    struct queue_state s = state_of(&a->fleet, &known);
    char epoch[24];
    snprintf(epoch, sizeof epoch, "%llx", (unsigned long long)s.epoch);
    jw_key(w, "queue");
    jw_object(w);
    kv_if_known(w, "waiting", known, s.waiting);
    kv_if_known(w, "delivered", known, s.delivered);
    jw_kv_cstr(w, "epoch", known ? epoch : NULL);
    fleet_watch_write(a->fleet.async_io, ASYNC_IO_QUEUE, now_ms, w);
    jw_object_end(w);
    jw_key(w, "events");
    jw_object(w);
    fleet_watch_write(a->fleet.async_io, ASYNC_IO_POLL, now_ms, w);
    jw_object_end(w);
}

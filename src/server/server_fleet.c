/* Connects a control node to the queue, the events and the lease of its fleet.
 *
 * The I/O threads use the fleet's ports and the catalog cache, which is safe for any thread. Their results are
 * delivered on the loop. API threads see a copy of the queue's state, under a lock. */
#include "server/server_internal.h"

#include <stdlib.h>

#include "base/log.h"

enum { WATCH_MS = 500, NAME_ARENA = 1 << 16, SIGNING_TEXT = 1 << 16 };

static struct catalog_cache_names *server_fleet_names(const struct queue_names *names)
{
    union {
        const struct queue_names *in;
        struct catalog_cache_names *out;
    } mine = { names }; /* the port passes it as const; the memory in it is ours to change */
    return mine.out;
}

/* Only the I/O thread that pushes to the queue calls this: the result lives in an arena without a lock. */
static struct str server_fleet_tenant_name(const struct queue_names *names, int32_t number)
{
    struct catalog_cache_names *n = server_fleet_names(names);
    struct tenant_rules rules;
    arena_reset(&n->arena);
    return catalog_cache_tenant(n->catalog, number, &n->arena, &rules) ? rules.name : S("");
}

/* Likewise. A key that does not fit becomes a text that no worker can read: the task fails, and is not sent without its
 * signature. */
static struct str server_fleet_signing(const struct queue_names *names, const struct task *t)
{
    cleanup_with(arena_release) struct arena scratch;
    struct catalog_cache_names *n = server_fleet_names(names);
    char host[TARGET_HOST_MAX];
    struct signing_key key;
    struct error e;
    struct jw w;
    bool calls = t->target == TARGET_HTTP || t->target == TARGET_MESSAGE;
    arena_init(&scratch, SIGNING_TEXT);
    if (!calls || !catalog_cache_has_signing_keys(n->catalog))
        return S("");
    enum err rc = catalog_cache_signing_key(n->catalog, t->tenant, signing_host(t, host), &scratch, &key, &e);
    if (rc)
        return rc == ERR_NOT_FOUND ? S("") : S("{}");
    buf_reset(&n->signing);
    jw_init(&w, &n->signing);
    signing_key_write(&w, &key);
    return n->signing.full ? S("{}") : buf_str(&n->signing);
}

enum err server_open_fleet(struct server *a, struct error *e)
{
    struct server_fleet *f = &a->fleet;
    if (!a->setup.fleet)
        return ERR_OK;
    f->names = (struct catalog_cache_names){ .base = { server_fleet_tenant_name, server_fleet_signing },
                                             .catalog = a->catalog };
    arena_init(&f->names.arena, NAME_ARENA);
    buf_init(&f->names.signing, SIGNING_TEXT);
    pthread_mutex_init(&f->lock, NULL);
    f->enabled = true;
    struct fleet_setup setup = { .urls = a->setup.fleet,
                                 .names = &f->names.base,
                                 .filter = a->setup.roles & NODE_WORKER ? &f->filter : NULL,
                                 .polls = a->setup.roles & NODE_UPDATER };
    f->filter = (struct queue_filter){ .priority_max = PRIORITY_MAX };
    if (fleet_open(&setup, &f->fleet, e) || fleet_start_threads(&f->fleet, a->loop, &f->async_io, e))
        return e->code;
    f->watch.async_io = f->async_io;
    return ERR_OK;
}

void server_close_fleet_io(struct server *a)
{
    async_io_threads_free(take(a->fleet.async_io));
}

void server_close_fleet(struct server *a)
{
    if (!a->fleet.enabled)
        return;
    fleet_release(&a->fleet.fleet);
    arena_release(&a->fleet.names.arena);
    buf_release(&a->fleet.names.signing);
    pthread_mutex_destroy(&a->fleet.lock);
}

/* ---- state of the queue ---- */

void server_update_queue_state(struct server *a)
{
    struct server_fleet *f = &a->fleet;
    struct queue_state state;
    if (!f->enabled || !node_queue_state(a->node, &state))
        return;
    pthread_mutex_lock(&f->lock);
    f->state = state;
    f->state_known = true;
    pthread_mutex_unlock(&f->lock);
    metric_set(a->metrics, METRIC_QUEUE_WAITING, (double)max_of(state.waiting, (int64_t)0));
}

static void server_fleet_on_timer(uv_timer_t *timer)
{
    struct server *a = timer->data;
    fleet_watch_check(&a->fleet.watch);
}

static void server_fleet_on_settled(void *context, const struct fenced_id *settled, size_t n)
{
    struct server *a = context;
    store_notify_settled(a->store, settled, n);
}

/* For a shared store, the catalog watcher reads the lanes. */
static void server_fleet_reload_lanes(void *context)
{
    struct server *a = context;
    struct error e;
    if (!store_is_shared(a->store) && server_load_lanes(a, &e))
        log_warn("lanes_failed", kv_err(&e));
}

void server_fleet_set_up_node(struct server *a, struct node_setup *setup)
{
    struct server_fleet *f = &a->fleet;
    if (!f->enabled)
        return;
    setup->own = setup->async_io;
    setup->async_io = f->async_io;
    setup->fleet = true;
    setup->fallback = a->setup.falls_back;
    setup->waiting = a->setup.queue_waiting;
    setup->lease = f->fleet.wanted[ASYNC_IO_LEASE];
    setup->filter = &f->filter;
    setup->notify_settled = server_fleet_on_settled;
    setup->read_lanes = server_fleet_reload_lanes;
}

void server_start_fleet_watch(struct server *a)
{
    if (!a->fleet.enabled)
        return;
    uv_timer_init(loop_uv(a->loop), &a->fleet.timer);
    a->fleet.timer.data = a;
    uv_timer_start(&a->fleet.timer, server_fleet_on_timer, WATCH_MS, WATCH_MS);
}

void server_stop_fleet_watch(struct server *a)
{
    if (a->fleet.enabled)
        uv_close((uv_handle_t *)&a->fleet.timer, NULL);
}

static struct queue_state server_fleet_state(struct server_fleet *f, bool *ret_known)
{
    pthread_mutex_lock(&f->lock);
    struct queue_state s = f->state;
    *ret_known = f->state_known;
    pthread_mutex_unlock(&f->lock);
    return s;
}

int64_t server_queue_timeout_max(void *context)
{
    struct server *a = context;
    bool known;
    struct queue_state s = server_fleet_state(&a->fleet, &known);
    return known && s.timeout_max_ms < INT64_MAX ? s.timeout_max_ms : 0;
}

static void server_fleet_kv_if_known(struct jw *w, const char *name, bool known, int64_t value)
{
    jw_key(w, name);
    if (known && value >= 0)
        jw_i64(w, value);
    else
        jw_null(w);
}

int64_t server_backend_lost_ms(struct server *a)
{
    int64_t down_ms = 0;
    for (size_t i = 0; a->fleet.enabled && i < FLEET_BACKENDS; i++)
        down_ms = max_of(down_ms, fleet_watch_down_ms(a->fleet.async_io, (enum fleet_backend)i));
    return down_ms ? clock_wall_ms(a->setup.clock) - down_ms : 0;
}

void server_write_fleet_metrics(struct server *a, struct buf *out)
{
    buf_text(out, "# HELP belfry_backend_down 1 if this node cannot reach a server of its fleet\n"
                  "# TYPE belfry_backend_down gauge\n");
    for (size_t i = 0; a->fleet.enabled && i < FLEET_BACKENDS; i++)
        buf_printf(out, "belfry_backend_down{backend=\"%s\"} %d\n", fleet_backend_names[i],
                   fleet_watch_down_ms(a->fleet.async_io, (enum fleet_backend)i) > 0);
}

void server_write_fleet_status(struct server *a, int64_t now_ms, struct jw *w)
{
    if (!a->fleet.enabled)
        return;
    bool known;
    struct queue_state s = server_fleet_state(&a->fleet, &known);
    char epoch[24];
    snprintf(epoch, sizeof epoch, "%llx", (unsigned long long)s.epoch);
    jw_key(w, "queue");
    jw_object(w);
    server_fleet_kv_if_known(w, "waiting", known, s.waiting);
    server_fleet_kv_if_known(w, "delivered", known, s.delivered);
    jw_kv_cstr(w, "epoch", known ? epoch : NULL);
    fleet_watch_write(a->fleet.async_io, ASYNC_IO_QUEUE, now_ms, w);
    jw_object_end(w);
    jw_key(w, "events");
    jw_object(w);
    fleet_watch_write(a->fleet.async_io, ASYNC_IO_POLL, now_ms, w);
    jw_object_end(w);
}

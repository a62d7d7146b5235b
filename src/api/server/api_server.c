/* Owns the HTTP server and the threads. */
#include "api/server/api_server.h"

#include <assert.h>
#include <stdlib.h>

#include "api/auth/session_keys.h"
#include "api/resource/jobs.h"
#include "api/server/audit.h"
#include "api/server/exchange.h"
#include "api/server/internal.h"
#include "base/log.h"
#include "port/crypto.h"

enum {
    STOP_MS = 5000,
    ADMIN_CONNECTIONS = 64,
    ADMIN_BYTES = 64 << 20, /* of bodies, and the same of answers */
};

static struct api_limits api_server_with_defaults(struct api_limits l)
{
#define DEFAULT(field, value) l.field = l.field ? l.field : (value)
    DEFAULT(api_threads, 2);
    DEFAULT(recall_ms, 500);
    DEFAULT(recall_stall_ms, 10000);
#undef DEFAULT
    return l;
}

/* ---- runs ---- */

bool api_server_begin_run(struct api_server *s)
{
    pthread_mutex_lock(&s->lock);
    bool open = !s->closed;
    s->running += open;
    pthread_mutex_unlock(&s->lock);
    return open;
}

void api_server_end_run(struct api_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->running--;
    if (s->running == 0)
        pthread_cond_signal(&s->idle);
    pthread_mutex_unlock(&s->lock);
}

/* ---- start and stop ---- */

static void api_server_on_job(struct list *job, struct reader *r)
{
    struct request *q = container_of(job, struct request, link);
    cleanup_with(log_request_leave) struct log_request before = request_log_enter(q);
    request_time(q, &q->timing.queue_ns);
    if (q->next(q, r) == HANDLED_LATER)
        return;
    request_time(q, &q->timing.store_ns);
    request_finish(q, ANSWER_MAX);
    request_answer(q);
}

static enum err api_server_listen(struct api_listener *l, const char *address, struct http_limits limits,
                                  struct error *e)
{
    struct http_server_setup setup = {
        .listen = address,
        .option = l == &l->server->admin ? "api.admin_listen" : NULL,
        .tls = l->server->setup.tls,
        .clock = l->server->setup.clock,
        .metrics = l->server->setup.metrics,
        .handler = &exchange_handler,
        .context = l,
        .limits = limits,
    };
    return http_server_new(&setup, &l->http, e);
}

/* One thread and one reader are enough for operators and monitoring. */
static enum err api_server_listen_admin(struct api_server *s, struct error *e)
{
    struct http_limits limits = s->limits.http;
    if (!s->setup.admin_listen)
        return ERR_OK;
    limits.threads = 1;
    limits.connections = limits.connections_per_address = ADMIN_CONNECTIONS;
    limits.body_total = limits.answer_total = ADMIN_BYTES;
    enum err rc = thread_pool_new(s->setup.store, 1, api_server_on_job, &s->admin.pool, e);
    return rc ? rc : api_server_listen(&s->admin, s->setup.admin_listen, limits, e);
}

void api_server_measure(struct api_server *s)
{
    struct http_levels levels = http_server_levels(s->main.http);
    metric_set(s->setup.metrics, METRIC_HTTP_CONNECTIONS, (double)levels.connections);
    metric_set(s->setup.metrics, METRIC_HTTP_BODY_BYTES, (double)levels.body_bytes);
    metric_set(s->setup.metrics, METRIC_HTTP_ANSWER_BYTES, (double)levels.answer_bytes);
    metric_set(s->setup.metrics, METRIC_EVENT_STREAMS, (double)live_stream_count(s->live));
}

static struct api_server *api_server_alloc(const struct api_setup *setup)
{
    struct api_server *s = xnew(*s);
    s->setup = *setup;
    s->main.server = s->admin.server = s;
    s->limits = api_server_with_defaults(setup->limits);
    list_init(&s->jobs);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->idle, NULL);
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    uuid_gen_init(&s->ids, seed);
    inflight_keys_init(&s->inflight_keys);
    tenant_limits_init(&s->tenant_limits);
    uncertain_writes_init(&s->uncertain_writes);
    openapi_init(&s->openapi);
    key_failures_init(&s->key_failures, setup->clock, setup->metrics);
    peer_buckets_init(&s->logins, LOGINS_BURST / 60.0, LOGINS_BURST, LOGINS_ADDRESSES);
    s->key_minute.fire = audit_on_key_minute;
    s->auth = auth_new(setup->pepper, setup->clock);
    s->own_definitions = setup->definitions ? NULL : definition_cache_new(DEFINITION_CACHE_BYTES, setup->secrets);
    s->definitions = setup->definitions ? setup->definitions : s->own_definitions;
    crypto_hmac_sha256(setup->pepper, S("sealed texts"), s->seal_key);
    return s;
}

enum err api_server_new(const struct api_setup *setup, struct api_server **ret, struct error *e)
{
    assert(setup->store && setup->writer && setup->clock && setup->zones && setup->metrics);
    struct api_server *s = api_server_alloc(setup);
    assert(s->limits.api_threads >= 2); /* one may run slow requests */
    enum err rc = thread_pool_new(setup->store, s->limits.api_threads, api_server_on_job, &s->main.pool, e);
    if (rc == ERR_OK)
        rc = thread_pool_new(setup->store, 1, api_server_on_job, &s->probes, e);
    if (rc == ERR_OK) {
        s->timers = timers_new(setup->clock);
        s->live = live_new(s);
        rc = jobs_begin(s, e);
    }
    if (rc == ERR_OK)
        rc = api_server_listen(&s->main, setup->listen, s->limits.http, e);
    if (rc == ERR_OK)
        rc = api_server_listen_admin(s, e);
    if (rc) {
        api_server_free(s);
        return rc;
    }
    *ret = s;
    return ERR_OK;
}

uint16_t api_server_port(const struct api_server *s)
{
    return http_server_port(s->main.http);
}

uint16_t api_server_admin_port(const struct api_server *s)
{
    return s->admin.http ? http_server_port(s->admin.http) : 0;
}

struct api_server_stop_timer {
    struct timer timer;
    struct api_server *server;
    bool over; /* under the server's lock */
};

static void api_server_on_stop_timeout(struct timer *timer)
{
    struct api_server_stop_timer *t = container_of(timer, struct api_server_stop_timer, timer);
    pthread_mutex_lock(&t->server->lock);
    t->over = true;
    pthread_cond_signal(&t->server->idle);
    pthread_mutex_unlock(&t->server->lock);
}

/* A request that waits for its answer gets it, however long that takes: its connection cannot be closed. A client
 * that is slow to send or to read gets STOP_MS. */
static void api_server_wait_until_idle(struct api_server *s)
{
    struct api_server_stop_timer limit = { .timer = { .fire = api_server_on_stop_timeout }, .server = s };
    timers_add(s->timers, &limit.timer, STOP_MS);
    pthread_mutex_lock(&s->lock);
    while (s->running > 0 || (s->busy > 0 && !limit.over))
        pthread_cond_wait(&s->idle, &s->lock);
    s->closed = true;
    bool over = limit.over;
    pthread_mutex_unlock(&s->lock);
    if (!over && !timers_cancel(s->timers, &limit.timer)) { /* the timer fires at this moment: wait for it */
        pthread_mutex_lock(&s->lock);
        while (!limit.over)
            pthread_cond_wait(&s->idle, &s->lock);
        pthread_mutex_unlock(&s->lock);
    }
}

void api_server_clear_key_cache(struct api_server *s)
{
    auth_cache_set_stale(s->auth);
    api_server_check_again(s);
}

void api_server_check_again(struct api_server *s)
{
    auth_check_again(s->auth);
    live_on_keys_changed(s->live);
    if (s->setup.check_leases)
        s->setup.check_leases(s->setup.context);
}

struct live *api_server_live(struct api_server *s)
{
    return s->live;
}

void api_server_stop(struct api_server *s)
{
    if (s->stopped)
        return;
    s->stopped = true;
    if (s->live)
        live_stop(s->live); /* first: readers go to another node at once */
    struct api_listener *const listeners[] = { &s->main, &s->admin };
    for (size_t i = 0; i < array_count(listeners); i++)
        if (listeners[i]->http)
            http_server_quiesce(listeners[i]->http);
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_mutex_unlock(&s->lock);
    audit_record_refused_keys(s);
    if (s->main.http || s->admin.http)
        api_server_wait_until_idle(s);
    for (size_t i = 0; i < array_count(listeners); i++) {
        http_server_free(take(listeners[i]->http));
        thread_pool_free(take(listeners[i]->pool));
    }
    thread_pool_free(take(s->probes));
    timers_free(take(s->timers));
    jobs_release(s);
}

void api_server_free(struct api_server *s)
{
    if (!s)
        return;
    api_server_stop(s);
    inflight_keys_release(&s->inflight_keys);
    tenant_limits_release(&s->tenant_limits);
    uncertain_writes_release(&s->uncertain_writes);
    live_free(s->live);
    definition_cache_free(s->own_definitions);
    auth_free(s->auth);
    openapi_release(&s->openapi);
    key_failures_release(&s->key_failures);
    peer_buckets_release(&s->logins);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

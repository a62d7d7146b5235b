/* Owns the HTTP server and the threads. */
#include "api/server/api_server.h"

#include <assert.h>
#include <stdlib.h>

#include "api/resource/jobs.h"
#include "api/server/exchange.h"
#include "api/server/internal.h"
#include "base/log.h"
#include "port/crypto.h"

enum { STOP_MS = 5000 };

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

static enum err api_server_start_http(struct api_server *s, struct error *e)
{
    struct http_server_setup setup = {
        .listen = s->setup.listen,
        .tls = s->setup.tls,
        .clock = s->setup.clock,
        .metrics = s->setup.metrics,
        .handler = &exchange_handler,
        .context = s,
        .limits = s->limits.http,
    };
    return http_server_new(&setup, &s->http, e);
}

void api_server_measure(struct api_server *s)
{
    struct http_levels levels = http_server_levels(s->http);
    metric_set(s->setup.metrics, METRIC_HTTP_CONNECTIONS, (double)levels.connections);
    metric_set(s->setup.metrics, METRIC_HTTP_BODY_BYTES, (double)levels.body_bytes);
    metric_set(s->setup.metrics, METRIC_HTTP_ANSWER_BYTES, (double)levels.answer_bytes);
}

static void api_server_on_job(struct list *job, struct reader *r)
{
    struct request *q = container_of(job, struct request, link);
    if (q->next(q, r) == HANDLED_DONE)
        request_answer(q);
}

static struct api_server *api_server_alloc(const struct api_setup *setup)
{
    struct api_server *s = xnew(*s);
    s->setup = *setup;
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
    s->auth = auth_new(setup->pepper, setup->clock);
    s->own_definitions = setup->definitions ? NULL : definition_cache_new(DEFINITION_CACHE_BYTES);
    s->definitions = setup->definitions ? setup->definitions : s->own_definitions;
    crypto_hmac_sha256(setup->pepper, S("sealed texts"), s->seal_key);
    return s;
}

enum err api_server_new(const struct api_setup *setup, struct api_server **ret, struct error *e)
{
    assert(setup->store && setup->writer && setup->clock && setup->zones && setup->metrics);
    struct api_server *s = api_server_alloc(setup);
    enum err rc = pool_new(setup->store, s->limits.api_threads, api_server_on_job, &s->pool, e);
    if (rc == ERR_OK) {
        s->timers = timers_new(setup->clock);
        rc = jobs_begin(s, e);
    }
    if (rc == ERR_OK)
        rc = api_server_start_http(s, e);
    if (rc) {
        api_server_free(s);
        return rc;
    }
    *ret = s;
    return ERR_OK;
}

uint16_t api_server_port(const struct api_server *s)
{
    return http_server_port(s->http);
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
    auth_cache_clear(s->auth);
}

void api_server_stop(struct api_server *s)
{
    if (s->stopped)
        return;
    s->stopped = true;
    if (s->http) {
        http_server_quiesce(s->http);
        pthread_mutex_lock(&s->lock);
        s->stopping = true;
        pthread_mutex_unlock(&s->lock);
        api_server_wait_until_idle(s);
        http_server_free(take(s->http));
    }
    pool_free(take(s->pool));
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
    definition_cache_free(s->own_definitions);
    auth_free(s->auth);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

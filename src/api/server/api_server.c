/* Owns the daemon and the threads. */
#include "api/server/api_server.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/resource/jobs.h"
#include "api/server/exchange.h"
#include "api/server/internal.h"
#include "api/server/listen.h"
#include "base/log.h"
#include "port/crypto.h"

enum { CONNECTION_MEMORY = 32 * 1024 /* cleared after each request */, STOP_MS = 5000, LIBRARY_TEXT = 200 };

static struct http_limits api_server_with_defaults(struct http_limits l)
{
#define DEFAULT(field, value) l.field = l.field ? l.field : (value)
    DEFAULT(api_threads, 2);
    DEFAULT(http_threads, 1);
    DEFAULT(connections, 4096);
    DEFAULT(connections_per_address, 1024);
    DEFAULT(header_ms, 10000);
    DEFAULT(body_ms, 30000);
    DEFAULT(idle_ms, 60000);
    DEFAULT(recall_ms, 500);
    DEFAULT(recall_stall_ms, 10000);
    DEFAULT(body_total, (size_t)512 << 20);
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

/* ---- listening ---- */

/* Before 1.0, libmicrohttpd answers twice if it finds the Host header missing. So it is told to be lenient, and
 * exchange.c checks the header. */
static int api_server_mhd_strictness(void)
{
    return MHD_get_version()[0] == '0' ? 0 : 1;
}

/* Messages of libmicrohttpd: requests that it answers itself, and why it closes connections. It does not say which
 * connection. */
__attribute__((format(printf, 2, 0))) static void api_server_on_library_log(void *context, const char *format,
                                                                            va_list args)
{
    (void)context;
    char text[LIBRARY_TEXT];
    if (!log_wants(LOG_DEBUG))
        return;
    vsnprintf(text, sizeof text, format, args);
    log_debug("http_library", kv_str("says", str_sub(str_from(text), 0, str_find(str_from(text), '\n', 0))));
}

static enum err api_server_start_daemon(struct api_server *s, struct error *e)
{
    int fd = -1;
    if (listen_socket_open(s->setup.listen, &fd, e))
        return e->code;
    s->port = listen_socket_port(fd);
    struct MHD_OptionItem more[] = { { MHD_OPTION_END, 0, NULL }, { MHD_OPTION_END, 0, NULL } };
    if (s->limits.http_threads > 1)
        more[0] = (struct MHD_OptionItem){ MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)s->limits.http_threads, NULL };
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, exchange_on_access,
        s, MHD_OPTION_EXTERNAL_LOGGER, api_server_on_library_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)s->limits.connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)s->limits.connections_per_address, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(s->limits.idle_ms / 1000 + 1), MHD_OPTION_STRICT_FOR_CLIENT, api_server_mhd_strictness(),
        MHD_OPTION_URI_LOG_CALLBACK, exchange_on_uri, s, MHD_OPTION_NOTIFY_COMPLETED, exchange_on_completed, s,
        MHD_OPTION_NOTIFY_CONNECTION, connection_on_notify, s, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    if (s->daemon)
        return ERR_OK;
    close(fd);
    return error_set(e, ERR_UNAVAILABLE, "libmicrohttpd could not start the HTTP server on '%s'", s->setup.listen);
}

/* ---- start and stop ---- */

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
    s->listen_fd = -1;
    s->sweep.fire = connections_on_sweep;
    list_init(&s->connections);
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
        rc = api_server_start_daemon(s, e);
    if (rc) {
        api_server_free(s);
        return rc;
    }
    *ret = s;
    return ERR_OK;
}

uint16_t api_server_port(const struct api_server *s)
{
    return s->port;
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

/* A request that waits for its answer gets it, however long that takes: a suspended connection cannot be closed. A
 * client that is slow to send or to read gets STOP_MS. */
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
    if (s->daemon) {
        s->listen_fd = MHD_quiesce_daemon(s->daemon);
        pthread_mutex_lock(&s->lock);
        s->stopping = true;
        pthread_mutex_unlock(&s->lock);
        api_server_wait_until_idle(s);
        MHD_stop_daemon(s->daemon);
        s->daemon = NULL;
    }
    pool_free(take(s->pool));
    timers_free(take(s->timers));
    jobs_release(s);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
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

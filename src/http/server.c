/* Each thread owns its loop, its listening socket and its connections. Other threads reach it through an inbox:
 * requests to go on with (http_resume), streams that were written to, and the wishes to accept no more connections and
 * to stop. */
#include "http/server.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/date.h"
#include "http/internal.h"
#include "http/listen.h"

enum {
    THREADS_MAX = 4,
    ACCEPTS_AT_ONCE = 64,
    SWEEP_MIN_MS = 10,
    SWEEP_MAX_MS = 1000,
    EVICT_PERCENT = 90,
    LINE_REST = 64, /* method and version */
    /* How much of an answer the kernel accepts before the client can receive it. By default that is megabytes for each
     * connection, which nothing counts. */
    UNSENT_BYTES = 128 * 1024
};

static struct http_limits http_server_with_defaults(struct http_limits l)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
#define DEFAULT(field, value) l.field = l.field ? l.field : (value)
    DEFAULT(threads, (size_t)max_of(min_of(processors, (long)THREADS_MAX), 1L));
    DEFAULT(connections, 4096);
    DEFAULT(connections_per_address, 1024);
    DEFAULT(uri_max, 8 * 1024);
    DEFAULT(headers_max, 16 * 1024);
    DEFAULT(field_max, HTTP_FIELDS_MAX);
    DEFAULT(handshake_ms, 10000);
    DEFAULT(header_ms, 10000);
    DEFAULT(body_ms, 30000);
    DEFAULT(idle_ms, 60000);
    DEFAULT(idle_unknown_ms, min_of(l.idle_ms, (int64_t)5000));
    DEFAULT(linger_ms, 2000);
    DEFAULT(body_total, (size_t)512 << 20);
    DEFAULT(answer_total, (size_t)256 << 20);
    DEFAULT(reader_rate, 1024);
    DEFAULT(reader_ms, 10000);
    DEFAULT(streams, max_of(l.connections / 2, (size_t)1));
    DEFAULT(stream_bytes, 64 * 1024);
    DEFAULT(keep_alive_ms, 15000);
#undef DEFAULT
    return l;
}

void http_server_count_close(struct http_server *s, enum http_close why)
{
    static const char *const names[] = {
#define X(id, name) [HTTP_CLOSE_##id] = name,
        HTTP_CLOSE_MAP(X)
#undef X
            NULL
    };
    if (s->setup.metrics)
        metric_add_labelled(s->setup.metrics, METRIC_HTTP_CLOSED, names, why, 1);
}

/* ---- time ---- */

int64_t http_thread_now_ns(const struct http_thread *t)
{
    return clock_steady_ns(t->server->setup.clock);
}

const char *http_thread_date(struct http_thread *t)
{
    static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    static const char months[][4] = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"
    };
    int64_t second = floor_div(clock_wall_ms(t->server->setup.clock), 1000);
    if (second == t->date_s)
        return t->date;
    t->date_s = second;
    struct civil c = civil_of(second);
    snprintf(t->date, sizeof t->date, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[weekday_of(day_of_second(second))],
             c.date.day, months[c.date.month - 1], c.date.year, c.hour, c.minute, c.second);
    return t->date;
}

/* ---- slow clients and too many of them ---- */

static bool http_server_is_crowded(struct http_server *s)
{
    return atomic_load(&s->connections) * 100 > s->limits.connections * EVICT_PERCENT;
}

static void http_thread_listen(struct http_thread *t);

static void http_thread_on_sweep(uv_timer_t *timer)
{
    struct http_thread *t = timer->data;
    connections_sweep(t);
    while (http_server_is_crowded(t->server) && connections_evict(t, false))
        continue;
    if (!t->is_listening && !t->is_quiesced)
        http_thread_listen(t); /* descriptors were used up */
    if (t->connection_count == 0) {
        uv_timer_stop(&t->sweep);
        t->is_sweeping = false;
    }
}

void http_thread_start_sweep(struct http_thread *t)
{
    const struct http_limits *l = &t->server->limits;
    if (t->is_sweeping)
        return;
    const int64_t limits[] = { l->handshake_ms,    l->header_ms, l->body_ms,   l->idle_ms,
                               l->idle_unknown_ms, l->linger_ms, l->reader_ms, l->keep_alive_ms };
    int64_t least = SWEEP_MAX_MS * 4;
    for (size_t i = 0; i < array_count(limits); i++)
        least = min_of(least, limits[i]);
    uint64_t every_ms = (uint64_t)max_of(least / 4, (int64_t)SWEEP_MIN_MS);
    t->is_sweeping = true;
    uv_timer_start(&t->sweep, http_thread_on_sweep, every_ms, every_ms);
}

/* ---- new connections ---- */

static void http_thread_admit(struct http_thread *t, int fd, const union peer *peer)
{
    struct http_server *s = t->server;
    int one = 1, unsent = UNSENT_BYTES;
    if (http_server_is_crowded(s))
        (void)connections_evict(t, atomic_load(&s->connections) >= s->limits.connections);
    bool has_room = atomic_fetch_add(&s->connections, 1) < s->limits.connections;
    if (has_room && peers_add(&s->peers, peer)) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
        connection_start(t, fd, peer);
        return;
    }
    atomic_fetch_sub(&s->connections, 1);
    http_server_count_close(s, has_room ? HTTP_CLOSE_ADDRESS : HTTP_CLOSE_LIMIT);
    close(fd);
}

static void http_thread_accept(struct http_thread *t, int max)
{
    for (int i = 0; i < max; i++) {
        union peer peer;
        socklen_t size = sizeof peer;
        int fd = accept4(t->listen_fd, &peer.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            http_thread_admit(t, fd, &peer);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            (void)connections_evict(t, true);
            uv_poll_stop(&t->listener); /* until the next sweep: the socket stays readable */
            t->is_listening = false;
            http_thread_start_sweep(t);
        }
        return;
    }
}

static void http_thread_on_listener(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    http_thread_accept(poll->data, ACCEPTS_AT_ONCE);
}

static void http_thread_listen(struct http_thread *t)
{
    t->is_listening = true;
    uv_poll_start(&t->listener, UV_READABLE, http_thread_on_listener);
}

/* Those that the kernel has accepted are served; later ones are refused by it. Streams would never end: they end now.
 */
static void http_thread_quiesce(struct http_thread *t)
{
    if (t->is_quiesced)
        return;
    http_thread_accept(t, SOMAXCONN);
    t->is_quiesced = true;
    t->is_listening = false;
    uv_close((uv_handle_t *)&t->listener, NULL);
    close(t->listen_fd);
    connections_end_streams(t);
}

/* ---- the inbox ---- */

static void http_thread_close_all(struct http_thread *t)
{
    http_thread_quiesce(t);
    for (enum connection_state s = 0; s < STATE_CLOSED; s++)
        for (int is_known = 0; is_known < 2; is_known++)
            while (!list_empty(&t->states[s][is_known]))
                connection_close(container_of(t->states[s][is_known].next, struct connection, link));
    uv_close((uv_handle_t *)&t->wake, NULL);
    uv_close((uv_handle_t *)&t->sweep, NULL);
}

static void http_thread_on_wakeup(uv_async_t *async)
{
    struct http_thread *t = async->data;
    struct list resumed, streams;
    list_init(&resumed);
    list_init(&streams);
    pthread_mutex_lock(&t->lock);
    list_append(&resumed, &t->resumed);
    list_append(&streams, &t->streams);
    bool quiescing = t->quiescing, stopping = t->stopping;
    pthread_mutex_unlock(&t->lock);
    if (quiescing)
        http_thread_quiesce(t);
    while (!list_empty(&resumed))
        connection_resume(container_of(list_pop(&resumed), struct connection, resumed));
    while (!list_empty(&streams))
        connection_resume_stream(container_of(list_pop(&streams), struct http_stream, link));
    if (stopping)
        http_thread_close_all(t);
}

void http_resume(struct http_exchange *x, enum http_next next)
{
    struct connection *c = container_of(x, struct connection, exchange);
    struct http_thread *t = c->thread;
    assert(next != HTTP_WAIT);
    pthread_mutex_lock(&t->lock);
    c->next = next;
    list_push(&t->resumed, &c->resumed);
    uv_async_send(&t->wake); /* under the lock: once the request is answered, the server may be freed */
    pthread_mutex_unlock(&t->lock);
}

static void http_thread_tell(struct http_thread *t, bool stopping)
{
    pthread_mutex_lock(&t->lock);
    t->quiescing = true;
    t->stopping = stopping;
    uv_async_send(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

/* ---- start and stop ---- */

static void *http_thread_run(void *argument)
{
    struct http_thread *t = argument;
    thread_owner_take(&t->owner);
    uv_run(&t->uv, UV_RUN_DEFAULT);
    return NULL;
}

static void http_thread_init(struct http_thread *t, struct http_server *s, int listen_fd)
{
    t->server = s;
    t->listen_fd = listen_fd;
    t->date_s = INT64_MIN;
    for (enum connection_state i = 0; i < STATE_COUNT; i++) {
        list_init(&t->states[i][false]);
        list_init(&t->states[i][true]);
    }
    list_init(&t->resumed);
    list_init(&t->streams);
    pthread_mutex_init(&t->lock, NULL);
    int rc = uv_loop_init(&t->uv);
    assert(rc == 0);
    uv_async_init(&t->uv, &t->wake, http_thread_on_wakeup);
    uv_timer_init(&t->uv, &t->sweep);
    uv_poll_init(&t->uv, &t->listener, listen_fd);
    t->wake.data = t->sweep.data = t->listener.data = t;
    http_thread_listen(t);
}

enum err http_server_new(const struct http_server_setup *setup, struct http_server **ret, struct error *e)
{
    struct http_limits limits = http_server_with_defaults(setup->limits);
    int *fds = xcalloc(limits.threads, sizeof *fds);
    enum err rc =
        listen_sockets_open(setup->listen, setup->option ? setup->option : "--listen", limits.threads, fds, e);
    if (rc) {
        free(fds);
        return rc;
    }
    struct http_server *s = xnew(*s);
    s->setup = *setup;
    s->limits = limits;
    s->parse = (struct http_parse_limits){ limits.uri_max + LINE_REST, limits.headers_max, limits.field_max };
    s->port = listen_socket_port(fds[0]);
    peers_init(&s->peers, limits.connections_per_address);
    budget_init(&s->bodies, limits.body_total);
    budget_init(&s->answers, limits.answer_total);
    budget_init(&s->streams, limits.streams);
    s->threads = xcalloc(limits.threads, sizeof *s->threads);
    s->thread_count = limits.threads;
    for (size_t i = 0; i < s->thread_count; i++)
        http_thread_init(&s->threads[i], s, fds[i]);
    free(fds);
    *ret = s; /* before a handler runs */
    for (size_t i = 0; i < s->thread_count; i++) {
        int failed = pthread_create(&s->threads[i].thread, NULL, http_thread_run, &s->threads[i]);
        assert(!failed);
    }
    return ERR_OK;
}

uint16_t http_server_port(const struct http_server *s)
{
    return s->port;
}

void http_server_quiesce(struct http_server *s)
{
    for (size_t i = 0; i < s->thread_count; i++)
        http_thread_tell(&s->threads[i], false);
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->thread_count; i++)
        http_thread_tell(&s->threads[i], true);
    for (size_t i = 0; i < s->thread_count; i++) {
        struct http_thread *t = &s->threads[i];
        pthread_join(t->thread, NULL);
        int rc = uv_loop_close(&t->uv);
        assert(rc == 0);
        pthread_mutex_destroy(&t->lock);
    }
    peers_release(&s->peers);
    budget_release(&s->bodies);
    budget_release(&s->answers);
    budget_release(&s->streams);
    free(s->threads);
    free(s);
}

struct http_levels http_server_levels(const struct http_server *s)
{
    return (struct http_levels){ atomic_load(&s->connections), atomic_load(&s->bodies.total),
                                 atomic_load(&s->answers.total), atomic_load(&s->streams.total) };
}

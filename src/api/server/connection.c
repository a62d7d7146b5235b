/* Who is connected, and since when in which phase. A client that is slower than the limits allow has its socket shut down by the
 * sweep; the daemon notices and ends the connection. What the library could not read as a request it answers itself, in its own
 * words, or not at all: such a connection ends in a phase in which it should have gone on, and that is what is logged. */
#include <assert.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "api/server/exchange.h"
#include "api/server/internal.h"
#include "base/log.h"

enum { NS_PER_MS = 1000000, PEER_TEXT = 80 };

static const char *const phase_names[] = {
    [CONNECTION_NEW] = "request line", [CONNECTION_IDLE] = "request line", [CONNECTION_HEAD] = "headers",
    [CONNECTION_BODY] = "body",        [CONNECTION_ANSWER] = "answer",
};

/* ---- what is told, to those who log at debug ---- */

static const char *peer_text(const struct connection *c, char out[PEER_TEXT])
{
    char host[NI_MAXHOST], port[8];
    bool v6 = c->peer.any.sa_family == AF_INET6;
    if (getnameinfo(&c->peer.any, v6 ? sizeof c->peer.v6 : sizeof c->peer.v4, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return "unknown";
    snprintf(out, PEER_TEXT, v6 ? "[%.60s]:%s" : "%.60s:%s", host, port);
    return out;
}

/* Bytes that came over the connection so far; its end counts as one. */
static uint64_t bytes_heard(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

static void tell_unreadable(struct connection *c)
{
    char peer[PEER_TEXT];
    if (!log_wants(LOG_DEBUG) || c->is_told)
        return;
    c->is_told = true;
    log_debug("request_unreadable", kv_cstr("peer", peer_text(c, peer)), kv_cstr("at", phase_names[c->phase]));
}

static void tell_too_slow(struct connection *c)
{
    char peer[PEER_TEXT];
    if (!log_wants(LOG_DEBUG) || c->is_told)
        return;
    c->is_told = true;
    log_debug("client_too_slow", kv_cstr("peer", peer_text(c, peer)), kv_cstr("at", phase_names[c->phase]));
}

/* ---- phases ---- */

static void enter(struct connection *c, enum connection_phase phase, int64_t now_ns)
{
    c->phase = phase;
    c->since_ns = now_ns;
}

void connection_enter(struct api_server *s, struct connection *c, enum connection_phase phase)
{
    int64_t now_ns = clock_steady_ns(s->setup.clock);
    pthread_mutex_lock(&s->lock);
    enter(c, phase, now_ns);
    pthread_mutex_unlock(&s->lock);
}

void connection_rest(struct api_server *s, struct connection *c)
{
    int64_t now_ns = clock_steady_ns(s->setup.clock);
    pthread_mutex_lock(&s->lock);
    if (c->phase == CONNECTION_HEAD || c->phase == CONNECTION_BODY)
        tell_unreadable(c);
    enter(c, CONNECTION_IDLE, now_ns);
    if (log_wants(LOG_DEBUG))
        c->heard_bytes = bytes_heard(c->fd);
    pthread_mutex_unlock(&s->lock);
}

/* ---- slow ones ---- */

static int64_t limit_ms(const struct http_limits *l, enum connection_phase phase)
{
    switch (phase) {
    case CONNECTION_NEW:
    case CONNECTION_HEAD: return l->header_ms;
    case CONNECTION_BODY: return l->body_ms;
    case CONNECTION_IDLE: return l->idle_ms;
    case CONNECTION_ANSWER: break;
    }
    return 10 * l->idle_ms; /* a large answer over a thin line takes its time */
}

static int64_t sweep_ms(const struct http_limits *l)
{
    int64_t least = min_of(l->header_ms, min_of(l->body_ms, l->idle_ms));
    return min_of(max_of(least / 4, (int64_t)10), (int64_t)1000);
}

void connections_sweep(struct timer *timer)
{
    struct api_server *s = container_of(timer, struct api_server, sweep);
    int64_t now_ns = clock_steady_ns(s->setup.clock);
    pthread_mutex_lock(&s->lock);
    list_each (&s->connections, link) {
        struct connection *c = container_of(link, struct connection, link);
        if (now_ns - c->since_ns < limit_ms(&s->limits, c->phase) * NS_PER_MS)
            continue;
        if (c->phase == CONNECTION_IDLE)
            c->is_told = true; /* nothing was expected of it */
        tell_too_slow(c);
        shutdown(c->fd, SHUT_RDWR);
    }
    s->sweeping = !list_empty(&s->connections);
    if (s->sweeping)
        timers_add(s->timers, &s->sweep, sweep_ms(&s->limits));
    pthread_mutex_unlock(&s->lock);
}

/* ---- beginning and end ---- */

static void *start(struct api_server *s, struct MHD_Connection *connection)
{
    struct connection *c = xnew(*c);
    c->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    c->since_ns = clock_steady_ns(s->setup.clock);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (info->client_addr->sa_family == AF_INET6)
        memcpy(&c->peer, info->client_addr, sizeof c->peer.v6);
    else
        memcpy(&c->peer, info->client_addr, sizeof c->peer.v4);
    pthread_mutex_lock(&s->lock);
    list_push(&s->connections, &c->link);
    if (!s->sweeping)
        timers_add(s->timers, &s->sweep, sweep_ms(&s->limits));
    s->sweeping = true;
    pthread_mutex_unlock(&s->lock);
    return c;
}

/* Between requests only the number of bytes tells one that was refused, or broke off in its first line, from none. */
static void end(struct api_server *s, struct connection *c)
{
    pthread_mutex_lock(&s->lock); /* the sweep must not see a descriptor that is closed */
    list_remove(&c->link);
    bool between = c->phase == CONNECTION_NEW || c->phase == CONNECTION_IDLE;
    if (between && log_wants(LOG_DEBUG) && bytes_heard(c->fd) > c->heard_bytes + 1)
        tell_unreadable(c);
    pthread_mutex_unlock(&s->lock);
    free(c);
}

void connections_notify(void *server, struct MHD_Connection *connection, void **context,
                        enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *context = start(server, connection);
    else
        end(server, *context);
}

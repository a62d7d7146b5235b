/* The open connections, and the phase that each is in. If a client is slower than the limits allow, the sweep shuts
 * down its socket; libmicrohttpd notices and ends the connection.
 *
 * If libmicrohttpd cannot parse a request, it answers by itself or closes the connection, and does not call us. Such a
 * connection ends in a phase in which it should have gone on. That is how an unreadable request is detected and
 * logged. */
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
/* TCP_CLOSE and TCP_CLOSE_WAIT of netinet/tcp.h, which cannot be included beside linux/tcp.h. */
enum { PEER_RESET = 7, PEER_CLOSED = 8 };

static const char *const phase_names[] = {
    [CONNECTION_NEW] = "request line", [CONNECTION_IDLE] = "request line", [CONNECTION_HEAD] = "headers",
    [CONNECTION_BODY] = "body",        [CONNECTION_ANSWER] = "answer",
};

/* ---- log events, at debug level ---- */

static const char *connection_peer_text(const struct connection *c, char out[PEER_TEXT])
{
    char host[NI_MAXHOST], port[8];
    bool v6 = c->peer.any.sa_family == AF_INET6;
    if (getnameinfo(&c->peer.any, v6 ? sizeof c->peer.v6 : sizeof c->peer.v4, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return "unknown";
    snprintf(out, PEER_TEXT, v6 ? "[%.60s]:%s" : "%.60s:%s", host, port);
    return out;
}

/* Bytes received over the connection so far. The end of the stream counts as one byte. */
static uint64_t connection_received_bytes(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

bool connection_peer_is_gone(const struct connection *c)
{
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    return getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           (info.tcpi_state == PEER_CLOSED || info.tcpi_state == PEER_RESET);
}

static void connection_log_unreadable(struct connection *c)
{
    char peer[PEER_TEXT];
    if (!log_wants(LOG_DEBUG) || c->is_logged)
        return;
    c->is_logged = true;
    log_debug("request_unreadable", kv_cstr("peer", connection_peer_text(c, peer)),
              kv_cstr("at", phase_names[c->phase]));
}

static void connection_log_too_slow(struct connection *c)
{
    char peer[PEER_TEXT];
    if (!log_wants(LOG_DEBUG) || c->is_logged)
        return;
    c->is_logged = true;
    log_debug("client_too_slow", kv_cstr("peer", connection_peer_text(c, peer)), kv_cstr("at", phase_names[c->phase]));
}

/* ---- phases ---- */

static void connection_set_phase_locked(struct connection *c, enum connection_phase phase, int64_t now_ns)
{
    c->phase = phase;
    c->since_ns = now_ns;
}

void connection_set_phase(struct api_server *s, struct connection *c, enum connection_phase phase)
{
    int64_t now_ns = clock_steady_ns(s->setup.clock);
    pthread_mutex_lock(&s->lock);
    connection_set_phase_locked(c, phase, now_ns);
    pthread_mutex_unlock(&s->lock);
}

void connection_on_request_end(struct api_server *s, struct connection *c)
{
    int64_t now_ns = clock_steady_ns(s->setup.clock);
    pthread_mutex_lock(&s->lock);
    if (c->phase == CONNECTION_HEAD || c->phase == CONNECTION_BODY)
        connection_log_unreadable(c);
    connection_set_phase_locked(c, CONNECTION_IDLE, now_ns);
    if (log_wants(LOG_DEBUG))
        c->received_bytes = connection_received_bytes(c->fd);
    pthread_mutex_unlock(&s->lock);
}

/* ---- slow clients ---- */

static int64_t connection_limit_ms(const struct http_limits *l, enum connection_phase phase)
{
    switch (phase) {
    case CONNECTION_NEW:
    case CONNECTION_HEAD: return l->header_ms;
    case CONNECTION_BODY: return l->body_ms;
    case CONNECTION_IDLE: return l->idle_ms;
    case CONNECTION_ANSWER: break;
    }
    return 10 * l->idle_ms; /* a large answer over a slow line takes long */
}

static int64_t connection_sweep_ms(const struct http_limits *l)
{
    int64_t least = min_of(l->header_ms, min_of(l->body_ms, l->idle_ms));
    return min_of(max_of(least / 4, (int64_t)10), (int64_t)1000);
}

void connections_on_sweep(struct timer *timer)
{
    struct api_server *s = container_of(timer, struct api_server, sweep);
    assert_owned(timers_thread(s->timers));
    int64_t now_ns = clock_steady_ns(s->setup.clock);
    pthread_mutex_lock(&s->lock);
    list_each (&s->connections, link) {
        struct connection *c = container_of(link, struct connection, link);
        if (now_ns - c->since_ns < connection_limit_ms(&s->limits, c->phase) * NS_PER_MS)
            continue;
        if (c->phase == CONNECTION_IDLE)
            c->is_logged = true; /* closing an idle connection is normal: not logged */
        connection_log_too_slow(c);
        shutdown(c->fd, SHUT_RDWR);
    }
    s->sweeping = !list_empty(&s->connections);
    if (s->sweeping)
        timers_add(s->timers, &s->sweep, connection_sweep_ms(&s->limits));
    pthread_mutex_unlock(&s->lock);
}

/* ---- connections start and end ---- */

static void *connection_start(struct api_server *s, struct MHD_Connection *connection)
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
        timers_add(s->timers, &s->sweep, connection_sweep_ms(&s->limits));
    s->sweeping = true;
    pthread_mutex_unlock(&s->lock);
    return c;
}

/* Between requests there is no request to look at. If bytes arrived since the last request, libmicrohttpd refused a
 * request or the client broke off in the request line. */
static void connection_end(struct api_server *s, struct connection *c)
{
    pthread_mutex_lock(&s->lock); /* the sweep must not use a descriptor that is closed */
    list_remove(&c->link);
    bool between = c->phase == CONNECTION_NEW || c->phase == CONNECTION_IDLE;
    if (between && log_wants(LOG_DEBUG) && connection_received_bytes(c->fd) > c->received_bytes + 1)
        connection_log_unreadable(c);
    pthread_mutex_unlock(&s->lock);
    free(c);
}

void connection_on_notify(void *server, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *context = connection_start(server, connection);
    else
        connection_end(server, *context);
}

/* The socket is non-blocking until it is connected and TLS is agreed on. Then it blocks, with a timeout that the kernel
 * keeps: a call costs one write and one read. */
#include "broker/redis/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

enum { READ_MAX = 16384, SEND_MS = 1500, KEEPALIVE_S = 15 };

static const char redis_no_answer[] = "no answer in time";

/* ---- opening ---- */

struct redis_opening {
    const struct redis_link_setup *setup;
    char *why;
};

__attribute__((format(printf, 2, 3))) static bool redis_open_failed(const struct redis_opening *o, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(o->why, REDIS_WHY_MAX, fmt, args);
    va_end(args);
    return false;
}

/* Waits until the socket is ready. */
static bool redis_open_wait(const struct redis_opening *o, int fd, short events, int64_t end_ms)
{
    for (;;) {
        int64_t left = end_ms - clock_steady_ms(o->setup->clock);
        struct pollfd p = { .fd = fd, .events = events };
        int n = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (n > 0)
            return true;
        if (n == 0)
            return redis_open_failed(o, "%s", redis_no_answer);
        if (errno != EINTR)
            return redis_open_failed(o, "%s", strerror(errno));
    }
}

static bool redis_open_connect(const struct redis_opening *o, int fd, const struct sockaddr *to, socklen_t size,
                               int64_t end_ms)
{
    int error = 0;
    socklen_t n = sizeof error;
    if (connect(fd, to, size) == 0)
        return true;
    if (errno != EINPROGRESS)
        return redis_open_failed(o, "%s", strerror(errno));
    if (!redis_open_wait(o, fd, POLLOUT, end_ms))
        return false;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) || error)
        return redis_open_failed(o, "%s", strerror(error ? error : errno));
    return true;
}

/* Returns the connected socket, or -1. */
static int redis_open_address(const struct redis_opening *o, const struct sockaddr *to, socklen_t size, int64_t end_ms)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        (void)redis_open_failed(o, "%s", strerror(errno));
        return -1;
    }
    if (redis_open_connect(o, fd, to, size, end_ms))
        return fd;
    (void)close(fd);
    return -1;
}

static int redis_open_unix(const struct redis_opening *o)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    if (strlen(o->setup->host->name) >= sizeof to.sun_path || o->setup->address_allowed) {
        (void)redis_open_failed(o, o->setup->address_allowed ? "address is not allowed" : "the path is too long");
        return -1;
    }
    snprintf(to.sun_path, sizeof to.sun_path, "%s", o->setup->host->name);
    return redis_open_address(o, (const struct sockaddr *)&to, sizeof to, o->setup->end_ms);
}

/* Returns how many addresses there are; 0 if one of them is not allowed. */
static int64_t redis_open_check_addresses(const struct redis_opening *o, const struct addrinfo *all)
{
    int64_t n = 0;
    for (const struct addrinfo *i = all; i; i = i->ai_next, n++)
        if (o->setup->address_allowed && !o->setup->address_allowed(o->setup->context, i->ai_addr)) {
            (void)redis_open_failed(o, "address is not allowed");
            return 0;
        }
    return n;
}

/* Tries the addresses of a name one after the other; each gets its share of the time. */
static int redis_open_tcp(const struct redis_opening *o)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
    char port[8];
    snprintf(port, sizeof port, "%d", o->setup->host->port);
    int rc = getaddrinfo(o->setup->host->name, port, &hints, &all), fd = -1;
    if (rc) {
        (void)redis_open_failed(o, "%s", gai_strerror(rc));
        return -1;
    }
    int64_t left = redis_open_check_addresses(o, all);
    for (const struct addrinfo *i = all; fd < 0 && left > 0; i = i->ai_next, left--) {
        int64_t now_ms = clock_steady_ms(o->setup->clock);
        fd = redis_open_address(o, i->ai_addr, i->ai_addrlen, now_ms + (o->setup->end_ms - now_ms) / left);
    }
    freeaddrinfo(all);
    return fd;
}

static void redis_link_set_options(const struct redis_link *l)
{
    int on = 1, idle = KEEPALIVE_S, interval = KEEPALIVE_S / 3, probes = 3;
    struct timeval limit = { SEND_MS / 1000, SEND_MS % 1000 * 1000 };
    (void)setsockopt(l->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (!l->host.port)
        return;
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(l->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static bool redis_open_tls(const struct redis_opening *o, struct redis_link *l)
{
    struct error e = { 0 };
    if (tls_session_new(o->setup->tls, l->fd, l->host.name, &l->tls, &e))
        return redis_open_failed(o, "%s%s%s", e.field, e.field[0] ? " " : "", e.text);
    for (;;)
        switch (tls_session_handshake(l->tls)) {
        case TLS_OK: return true;
        case TLS_AGAIN:
            if (!redis_open_wait(o, l->fd, tls_session_wants(l->tls), o->setup->end_ms))
                return false;
            break;
        case TLS_CLOSED: return redis_open_failed(o, "the server closed the connection");
        case TLS_FAILED: return redis_open_failed(o, "%s", tls_session_error(l->tls));
        }
}

struct redis_link *redis_link_open(const struct redis_link_setup *setup, char why[REDIS_WHY_MAX])
{
    struct redis_opening o = { setup, why };
    int fd = setup->host->port ? redis_open_tcp(&o) : redis_open_unix(&o);
    if (fd < 0)
        return NULL;
    struct redis_link *l = xnew(*l);
    *l = (struct redis_link){ .fd = fd, .host = *setup->host, .reader = redisReaderCreate() };
    if (!l->reader || (setup->tls && !redis_open_tls(&o, l)) || fcntl(fd, F_SETFL, 0)) {
        redis_link_free(l);
        return NULL;
    }
    redis_link_set_options(l);
    return l;
}

void redis_link_free(struct redis_link *l)
{
    if (!l)
        return;
    tls_session_free(l->tls);
    if (l->reader)
        redisReaderFree(l->reader);
    (void)close(l->fd);
    free(l);
}

/* ---- commands and replies ---- */

void redis_link_set_timeout(struct redis_link *l, int64_t ms)
{
    struct timeval limit = { ms / 1000, ms % 1000 * 1000 };
    if (l->timeout_ms != ms && setsockopt(l->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0)
        l->timeout_ms = ms;
}

static bool redis_link_failed(struct redis_link *l, const char *why)
{
    snprintf(l->why, sizeof l->why, "%s", why);
    return false;
}

static bool redis_link_socket_failed(struct redis_link *l, int error)
{
    return redis_link_failed(l, error == EAGAIN ? redis_no_answer : strerror(error));
}

static bool redis_link_tls_failed(struct redis_link *l, enum tls_result result)
{
    return redis_link_failed(l, result == TLS_AGAIN    ? redis_no_answer
                                : result == TLS_CLOSED ? "Server closed the connection"
                                                       : tls_session_error(l->tls));
}

/* Sends a part of the bytes. */
static bool redis_link_send_some(struct redis_link *l, struct str bytes, size_t *ret_n)
{
    if (l->tls) {
        enum tls_result result = tls_session_write(l->tls, bytes, ret_n);
        return result == TLS_OK || redis_link_tls_failed(l, result);
    }
    ssize_t n;
    do
        n = send(l->fd, bytes.p, bytes.n, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return redis_link_socket_failed(l, errno);
    *ret_n = (size_t)n;
    return true;
}

bool redis_link_send(struct redis_link *l, struct str bytes)
{
    for (size_t n; bytes.n; bytes = str_sub(bytes, n, bytes.n))
        if (!redis_link_send_some(l, bytes, &n))
            return false;
    return true;
}

static bool redis_link_read(struct redis_link *l, char to[READ_MAX], size_t *ret_n)
{
    if (l->tls) {
        enum tls_result result = tls_session_read(l->tls, to, READ_MAX, ret_n);
        return result == TLS_OK || redis_link_tls_failed(l, result);
    }
    ssize_t n;
    do
        n = recv(l->fd, to, READ_MAX, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return redis_link_socket_failed(l, errno);
    if (n == 0)
        return redis_link_failed(l, "Server closed the connection");
    *ret_n = (size_t)n;
    return true;
}

redisReply *redis_link_receive(struct redis_link *l)
{
    char bytes[READ_MAX];
    for (;;) {
        void *reply = NULL;
        size_t n;
        if (redisReaderGetReply(l->reader, &reply) != REDIS_OK) {
            (void)redis_link_failed(l, l->reader->errstr);
            return NULL;
        }
        if (reply)
            return reply;
        if (!redis_link_read(l, bytes, &n))
            return NULL;
        if (redisReaderFeed(l->reader, bytes, n) != REDIS_OK) {
            (void)redis_link_failed(l, l->reader->errstr);
            return NULL;
        }
    }
}

bool redis_link_is_idle(const struct redis_link *l)
{
    struct pollfd p = { .fd = l->fd, .events = POLLIN };
    return poll(&p, 1, 0) == 0;
}

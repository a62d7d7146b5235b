#include "bench/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/tls_client.h"

enum {
    REQUEST_MAX = 32 << 20,
    ANSWER_MAX = 64 << 20,
    EVENTS = 64,
    WAIT_MS = 30000,
    IDLE_MS =
        2000, /* then a connection is opened anew: the server closes one after 5 s, perhaps while it is written to */
    READ_SIZE = 64 * 1024,
    NS_PER_MS = 1000000
};

struct load_connection {
    int fd;
    struct tls_session *tls; /* NULL: plain */
    struct buf out, in;
    size_t sent;
    size_t length;   /* of the answer; 0 until its headers are complete */
    uint32_t events; /* registered with epoll */
    bool busy;       /* a request has no answer yet */
    size_t request;
    int64_t sent_ns, used_ns; /* used: opened, or answered */
};

struct load_state {
    struct load *load;
    struct load_connection *v;
    int epoll;
    size_t next, open; /* requests sent so far; those without an answer yet */
    int64_t begun_ns;
    char *chunk; /* READ_SIZE bytes; on the stack they would be cleared for each call */
};

static bool load_connect(struct load_connection *c, uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0)
        return false;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return true;
}

/* While the socket blocks. After it, it does not: a read of TLS may have to wait for the rest of a record. */
static enum err load_greet(struct load_connection *c, const struct load *l, struct error *e)
{
    const struct tls_client_files files = { .cacert = l->cacert };
    enum err rc = tls_session_new(&files, c->fd, "127.0.0.1", &c->tls, e);
    if (rc)
        return rc;
    if (tls_session_handshake(c->tls) != TLS_OK)
        return error_set(e, ERR_UNAVAILABLE, "%s", tls_session_error(c->tls));
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    return ERR_OK;
}

static ssize_t load_tls_result(enum tls_result result, size_t n)
{
    errno = result == TLS_AGAIN ? EAGAIN : EIO;
    return result == TLS_OK ? (ssize_t)n : result == TLS_CLOSED ? 0 : -1;
}

static ssize_t load_write(struct load_connection *c, struct str bytes)
{
    size_t n = 0;
    if (!c->tls)
        return send(c->fd, bytes.p, bytes.n, MSG_DONTWAIT | MSG_NOSIGNAL);
    enum tls_result result = tls_session_write(c->tls, bytes, &n);
    return load_tls_result(result, n);
}

static ssize_t load_read(struct load_connection *c, char *to)
{
    size_t n = 0;
    if (!c->tls)
        return recv(c->fd, to, READ_SIZE, MSG_DONTWAIT);
    enum tls_result result = tls_session_read(c->tls, to, READ_SIZE, &n);
    return load_tls_result(result, n);
}

static void load_set_events(struct load_state *r, struct load_connection *c, uint32_t events)
{
    struct epoll_event ev = { .events = events, .data.ptr = c };
    if (events != c->events)
        epoll_ctl(r->epoll, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &ev);
    c->events = events;
}

static void load_close(struct load_connection *c)
{
    tls_session_free(c->tls);
    if (c->fd >= 0)
        close(c->fd);
    c->tls = NULL;
    c->fd = -1;
    c->events = 0;
}

static enum err load_open(struct load_state *r, struct load_connection *c, struct error *e)
{
    load_close(c);
    if (!load_connect(c, r->load->port))
        return error_set(e, ERR_UNAVAILABLE, "connect to port %u: %s", r->load->port, strerror(errno));
    enum err rc = r->load->cacert ? load_greet(c, r->load, e) : ERR_OK;
    if (rc)
        return rc;
    load_set_events(r, c, EPOLLIN);
    c->used_ns = clock_steady_ns(r->load->clock);
    return ERR_OK;
}

static bool load_send(struct load_state *r, struct load_connection *c)
{
    while (c->sent < c->out.n) {
        ssize_t n = load_write(c, str_sub(buf_str(&c->out), c->sent, c->out.n));
        if (n < 0 && errno == EAGAIN) {
            load_set_events(r, c, EPOLLIN | EPOLLOUT);
            return true;
        }
        if (n < 0)
            return false;
        c->sent += (size_t)n;
    }
    load_set_events(r, c, EPOLLIN);
    return true;
}

/* When the next request is to be sent, in nanoseconds from now; 0: at once. */
static int64_t load_next_in_ns(const struct load_state *r)
{
    if (!r->load->every_us)
        return 0;
    int64_t at_ns = r->begun_ns + (int64_t)r->next * r->load->every_us * 1000;
    return max_of(at_ns - clock_steady_ns(r->load->clock), (int64_t)0);
}

static bool load_start_request(struct load_state *r, struct load_connection *c)
{
    c->busy = r->next < r->load->requests && load_next_in_ns(r) == 0;
    if (!c->busy)
        return true;
    buf_reset(&c->out);
    buf_reset(&c->in);
    c->sent = c->length = 0;
    c->request = r->next++;
    r->load->make(r->load->context, c->request, &c->out);
    r->open++;
    if (clock_steady_ns(r->load->clock) - c->used_ns > (int64_t)IDLE_MS * NS_PER_MS && load_open(r, c, NULL))
        return false;
    c->sent_ns = clock_steady_ns(r->load->clock);
    return load_send(r, c);
}

/* In turn, so that none is idle for long. */
static bool load_start_idle(struct load_state *r)
{
    for (size_t i = 0, first = r->next; i < r->load->connections; i++) {
        struct load_connection *c = &r->v[(first + i) % r->load->connections];
        if (!c->busy && !load_start_request(r, c))
            return false;
    }
    return true;
}

/* Length of the whole answer; 0 until its headers are complete. */
static size_t load_answer_length(const struct buf *in)
{
    const char *end = in->n ? strstr(in->p, "\r\n\r\n") : NULL;
    if (!end)
        return 0;
    const char *length = strcasestr(in->p, "\r\ncontent-length:");
    size_t head = (size_t)(end - in->p) + 4;
    return length && length < end ? head + strtoull(length + 17, NULL, 10) : head;
}

static void load_count_answer(struct load *l, const struct load_connection *c)
{
    const struct buf *in = &c->in;
    bool ok = in->n > 9 && in->p[9] == '2';
    if (l->answer) {
        buf_reset(l->answer);
        buf_add(l->answer, buf_str(in));
    }
    if (l->on_answer)
        l->on_answer(l->context, &(struct load_answer){ .request = c->request,
                                                        .sent_ns = c->sent_ns,
                                                        .received_ns = clock_steady_ns(l->clock),
                                                        .ok = ok,
                                                        .text = buf_str(in) });
    if (ok) {
        l->ok++;
        return;
    }
    if (l->refused++ == 0)
        snprintf(l->first_refusal, sizeof l->first_refusal, "%s", in->p);
}

static bool load_receive(struct load_state *r, struct load_connection *c)
{
    do { /* TLS may have received more records than one call reads, and epoll does not tell of them */
        ssize_t n = load_read(c, r->chunk);
        if (n < 0)
            return errno == EAGAIN;
        if (n == 0)
            return false;
        buf_add(&c->in, (struct str){ r->chunk, (size_t)n });
        c->length = c->length ? c->length : load_answer_length(&c->in);
    } while (c->tls && !c->in.full && (c->length == 0 || c->in.n < c->length));
    if (c->length == 0 || c->in.n < c->length)
        return !c->in.full;
    load_count_answer(r->load, c);
    c->used_ns = clock_steady_ns(r->load->clock);
    r->open--;
    return load_start_request(r, c);
}

/* At most until the next request is to be sent, if a connection is free for it. */
static int load_wait_ms(const struct load_state *r)
{
    if (r->next == r->load->requests || r->open == r->load->connections)
        return WAIT_MS;
    return (int)min_of((load_next_in_ns(r) + NS_PER_MS - 1) / NS_PER_MS, (int64_t)WAIT_MS);
}

static enum err load_loop(struct load_state *r, struct error *e)
{
    struct epoll_event events[EVENTS];
    while (r->open > 0 || r->next < r->load->requests) {
        int wait_ms = load_wait_ms(r), n = epoll_wait(r->epoll, events, EVENTS, wait_ms);
        if (n < 0 || (n == 0 && wait_ms == WAIT_MS))
            return error_set(e, ERR_UNAVAILABLE, "no answer for %d s", WAIT_MS / 1000);
        for (int i = 0; i < n; i++) {
            struct load_connection *c = events[i].data.ptr;
            bool was_busy = c->busy, fine = !(events[i].events & EPOLLOUT) || load_send(r, c);
            if (fine && events[i].events & EPOLLIN)
                fine = load_receive(r, c);
            if (!fine && !was_busy)
                fine = load_open(r, c, NULL) == ERR_OK; /* it was idle for too long */
            if (!fine)
                return error_set(e, ERR_UNAVAILABLE, "the server closed a connection");
        }
        if (r->load->every_us && !load_start_idle(r))
            return error_set(e, ERR_UNAVAILABLE, "send: %s", strerror(errno));
    }
    return ERR_OK;
}

static enum err load_run_connections(struct load_state *r, struct error *e)
{
    for (size_t i = 0; i < r->load->connections; i++) {
        struct load_connection *c = &r->v[i];
        buf_init(&c->out, REQUEST_MAX);
        buf_init(&c->in, ANSWER_MAX);
        if (load_open(r, c, e))
            return e->code;
    }
    r->begun_ns = clock_steady_ns(r->load->clock);
    if (!load_start_idle(r))
        return error_set(e, ERR_UNAVAILABLE, "send: %s", strerror(errno));
    enum err rc = load_loop(r, e);
    r->load->took_us = (clock_steady_ns(r->load->clock) - r->begun_ns) / 1000;
    return rc;
}

enum err load_run(struct load *l, struct error *e)
{
    struct load_state r = { .load = l,
                            .v = xcalloc(l->connections, sizeof *r.v),
                            .epoll = epoll_create1(EPOLL_CLOEXEC) };
    r.chunk = xmalloc(READ_SIZE);
    for (size_t i = 0; i < l->connections; i++)
        r.v[i].fd = -1;
    l->ok = l->refused = 0;
    enum err rc = load_run_connections(&r, e);
    for (size_t i = 0; i < l->connections; i++) {
        load_close(&r.v[i]);
        buf_release(&r.v[i].out);
        buf_release(&r.v[i].in);
    }
    close(r.epoll);
    free(r.chunk);
    free(r.v);
    return rc;
}

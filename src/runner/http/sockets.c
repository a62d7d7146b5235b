/* libcurl's sockets stand in an epoll set of our own, and the loop polls that one descriptor. libuv would cost two system
 * calls each time libcurl changes its mind about a socket; here a socket stays in the set between calls, and a
 * call over a connection that is open costs none. Once it speaks with nobody listening (the peer closed it) it is taken out;
 * libcurl notices by itself when it wants to use it.
 *
 * Connections are counted here, because libcurl counts those of one tenant only. Where one more would be too many, the one
 * that has been idle for longest is shut down, whosever it is: its caller finds it dead and closes it before its next use. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/http/internal.h"

enum { EVENTS_MAX = 256 };

struct socket {
    int fd;
    uint8_t wanted, told; /* what libcurl wants, and what epoll was told: CURL_POLL_*; 0: nothing, not in the set */
    struct caller *caller;
    struct host *host;         /* NULL: shut down, and counted no more */
    struct list link, of_host; /* in the lists of idle ones */
};

struct poller {
    int epoll_fd;
    struct socket **sockets; /* by descriptor */
    size_t socket_cap;
    size_t open, open_max; /* connections that count */
    size_t host_open_max;
    struct list idle;    /* sockets that nobody uses now, oldest first */
    struct list touched; /* callers that libcurl has worked on */
    uv_poll_t poll;
};

/* ---- what epoll knows ---- */

static uint32_t epoll_mask(int what)
{
    return (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
}

static void tell(struct poller *p, struct socket *s, int what)
{
    if (s->told == what)
        return;
    struct epoll_event ev = { .events = epoll_mask(what), .data.fd = s->fd };
    int op = what == 0 ? EPOLL_CTL_DEL : s->told == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(p->epoll_fd, op, s->fd, &ev) != 0 && errno == ENOENT && what != 0)
        (void)epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, s->fd, &ev);
    s->told = (uint8_t)what;
}

/* ---- sockets, and how many there may be ---- */

static struct socket *socket_at(struct poller *p, int fd)
{
    if ((size_t)fd >= p->socket_cap) {
        size_t cap = max_of(p->socket_cap * 2, (size_t)fd + 64);
        p->sockets = xrealloc(p->sockets, cap * sizeof *p->sockets);
        for (size_t i = p->socket_cap; i < cap; i++)
            p->sockets[i] = NULL;
        p->socket_cap = cap;
    }
    if (!p->sockets[fd]) {
        p->sockets[fd] = xnew(*p->sockets[fd]);
        p->sockets[fd]->fd = fd;
    }
    return p->sockets[fd];
}

static void leave_idle(struct socket *s)
{
    if (!list_linked(&s->link))
        return;
    list_remove(&s->link);
    list_remove(&s->of_host);
}

static void uncount(struct poller *p, struct socket *s)
{
    if (!s->host)
        return;
    s->host->sockets--;
    p->open--;
    s->host = NULL;
}

static void shut_idle(struct poller *p, struct socket *s)
{
    leave_idle(s);
    uncount(p, s);
    shutdown(s->fd, SHUT_RDWR);
}

static long own_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = { 0 };
    socklen_t n = sizeof a;
    if (getsockname(fd, &a.any, &n))
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

void poller_shut(struct poller *p, const struct caller *who, struct host *h, long port)
{
    list_each (&h->idle, link) {
        struct socket *s = container_of(link, struct socket, of_host);
        if (s->caller != who || own_port(s->fd) != port)
            continue;
        shut_idle(p, s);
        return;
    }
}

/* For one more connection to the host. If none is idle, each is in use by a call, and those have a limit of their own. */
static void make_room(struct poller *p, const struct host *h)
{
    if (h->sockets >= p->host_open_max && !list_empty(&h->idle))
        shut_idle(p, container_of(h->idle.next, struct socket, of_host));
    if (p->open >= p->open_max && !list_empty(&p->idle))
        shut_idle(p, container_of(p->idle.next, struct socket, link));
}

int poller_open(struct poller *p, struct call *c, const struct curl_sockaddr *to)
{
    make_room(p, c->host);
    int fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    struct socket *s = socket_at(p, fd);
    leave_idle(s); /* should libcurl have closed that descriptor behind our back */
    uncount(p, s);
    *s = (struct socket){ .fd = fd, .caller = c->caller, .host = c->host };
    c->host->sockets++;
    p->open++;
    return fd;
}

static int on_close(void *context, curl_socket_t fd)
{
    struct poller *p = context;
    struct socket *s = socket_at(p, fd);
    leave_idle(s);
    uncount(p, s);
    p->sockets[fd] = NULL; /* closing it takes it out of the set */
    free(s);
    return close(fd);
}

/* ---- what libcurl wants, and what happens ---- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *socket_context)
{
    (void)easy;
    (void)socket_context;
    struct caller *caller = context;
    struct poller *p = caller->runner->poller;
    struct socket *s = socket_at(p, fd);
    if (what != CURL_POLL_REMOVE) {
        leave_idle(s);
        s->caller = caller;
        s->wanted = (uint8_t)what;
        tell(p, s, what);
        return 0;
    }
    s->wanted = 0;
    if (s->told & CURL_POLL_OUT)
        tell(p, s, CURL_POLL_IN);
    if (s->host && !list_linked(&s->link)) {
        list_push(&p->idle, &s->link);
        list_push(&s->host->idle, &s->of_host);
    }
    return 0;
}

static void on_event(struct poller *p, int fd, uint32_t events)
{
    struct socket *s = p->sockets[fd];
    if (!s)
        return; /* closed a moment ago */
    if (s->wanted == 0) {
        tell(p, s, 0);
        return;
    }
    int mask = (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    int running;
    struct caller *caller = s->caller; /* the socket may be gone after the next line */
    curl_multi_socket_action(caller->multi, fd, mask, &running);
    if (!list_linked(&caller->touched))
        list_push(&p->touched, &caller->touched);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct poller *p = poll->data;
    struct epoll_event ev[EVENTS_MAX];
    int n = epoll_wait(p->epoll_fd, ev, EVENTS_MAX, 0);
    for (int i = 0; i < n; i++)
        on_event(p, ev[i].data.fd, ev[i].events);
    for (struct list *l; (l = list_pop(&p->touched));)
        caller_reap(container_of(l, struct caller, touched));
}

void poller_watch(struct caller *caller)
{
    curl_multi_setopt(caller->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(caller->multi, CURLMOPT_SOCKETDATA, caller);
}

void poller_attach(struct poller *p, CURL *easy)
{
    /* A socket outlives the call that opened it, the poller outlives the socket. */
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, p);
}

/* ---- birth and death ---- */

struct poller *poller_new(uv_loop_t *loop, const struct runner_http_setup *setup)
{
    struct poller *p = xnew(*p);
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->epoll_fd < 0 || uv_poll_init(loop, &p->poll, p->epoll_fd)) {
        if (p->epoll_fd >= 0)
            close(p->epoll_fd);
        free(p);
        return NULL;
    }
    p->open_max = setup->in_flight_max;
    p->host_open_max = setup->host_connections_max;
    list_init(&p->idle);
    list_init(&p->touched);
    p->poll.data = p;
    uv_poll_start(&p->poll, UV_READABLE, on_poll);
    uv_unref((uv_handle_t *)&p->poll);
    return p;
}

static void on_closed(uv_handle_t *h)
{
    struct poller *p = h->data;
    close(p->epoll_fd);
    for (size_t i = 0; i < p->socket_cap; i++)
        free(p->sockets[i]);
    free(p->sockets);
    free(p);
}

void poller_free(struct poller *p)
{
    if (p)
        uv_close((uv_handle_t *)&p->poll, on_closed);
}

void poller_hold(struct poller *p, bool busy)
{
    if (busy)
        uv_ref((uv_handle_t *)&p->poll);
    else
        uv_unref((uv_handle_t *)&p->poll);
}

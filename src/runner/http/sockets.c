/* libcurl's sockets are in an epoll set of our own, and the libuv loop polls that one descriptor. libuv would need two
 * system calls for each change of a socket's events. Here a socket stays registered between calls, so a call on an open
 * connection needs none. If an idle socket becomes readable (the peer closed it), it leaves the set; libcurl notices at
 * its next use.
 *
 * Connections are counted here, because libcurl counts each tenant separately. If a new connection would exceed a
 * limit, the connection that has been idle longest is shut down, whichever tenant owns it. Its libcurl handle finds it
 * closed and drops it before the next use. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/http/internal.h"

enum { EVENTS_MAX = 256 };

struct http_socket {
    int fd;
    /* Events that libcurl wants, and events registered with epoll: CURL_POLL_*; 0: none, not in the set. */
    uint8_t wanted, registered;
    struct http_tenant *tenant;
    struct http_host *host;    /* NULL: shut down and no longer counted */
    struct list link, of_host; /* in the poller's and the host's `idle` */
};

struct http_poller {
    int epoll_fd;
    struct http_socket **sockets; /* indexed by descriptor */
    size_t socket_cap;
    size_t open, open_max; /* counted connections */
    size_t host_open_max;
    struct list idle;    /* idle sockets, oldest first */
    struct list touched; /* tenants whose calls may have finished */
    uv_poll_t poll;
};

/* ---- the epoll set ---- */

static uint32_t http_poller_epoll_mask(int what)
{
    return (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
}

static void http_poller_set_epoll(struct http_poller *p, struct http_socket *s, int what)
{
    if (s->registered == what)
        return;
    struct epoll_event ev = { .events = http_poller_epoll_mask(what), .data.fd = s->fd };
    int op = what == 0 ? EPOLL_CTL_DEL : s->registered == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(p->epoll_fd, op, s->fd, &ev) != 0 && errno == ENOENT && what != 0)
        (void)epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, s->fd, &ev);
    s->registered = (uint8_t)what;
}

/* ---- sockets and their limits ---- */

static struct http_socket *http_poller_socket_at(struct http_poller *p, int fd)
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

static void http_poller_leave_idle(struct http_socket *s)
{
    if (!list_linked(&s->link))
        return;
    list_remove(&s->link);
    list_remove(&s->of_host);
}

static void http_poller_uncount(struct http_poller *p, struct http_socket *s)
{
    if (!s->host)
        return;
    s->host->sockets--;
    p->open--;
    s->host = NULL;
}

static void http_poller_shut_idle(struct http_poller *p, struct http_socket *s)
{
    http_poller_leave_idle(s);
    http_poller_uncount(p, s);
    shutdown(s->fd, SHUT_RDWR);
}

static long http_poller_local_port(int fd)
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

void http_poller_shut_socket(struct http_poller *p, const struct http_tenant *tenant, struct http_host *h, long port)
{
    list_each (&h->idle, link) {
        struct http_socket *s = container_of(link, struct http_socket, of_host);
        if (s->tenant != tenant || http_poller_local_port(s->fd) != port)
            continue;
        http_poller_shut_idle(p, s);
        return;
    }
}

/* Makes room for one more connection to the host. If no connection is idle, all are used by calls, which have their own
 * limit. */
static void http_poller_make_room(struct http_poller *p, const struct http_host *h)
{
    if (h->sockets >= p->host_open_max && !list_empty(&h->idle))
        http_poller_shut_idle(p, container_of(h->idle.next, struct http_socket, of_host));
    if (p->open >= p->open_max && !list_empty(&p->idle))
        http_poller_shut_idle(p, container_of(p->idle.next, struct http_socket, link));
}

int http_poller_open_socket(struct http_poller *p, struct http_call *c, const struct curl_sockaddr *to)
{
    http_poller_make_room(p, c->host);
    int fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    if (fd < 0) {
        c->lacks_file = errno == EMFILE || errno == ENFILE;
        return CURL_SOCKET_BAD;
    }
    struct http_socket *s = http_poller_socket_at(p, fd);
    http_poller_leave_idle(s); /* in case libcurl closed this descriptor without telling us */
    http_poller_uncount(p, s);
    *s = (struct http_socket){ .fd = fd, .tenant = c->tenant, .host = c->host };
    c->host->sockets++;
    p->open++;
    return fd;
}

static int http_poller_on_close_socket(void *context, curl_socket_t fd)
{
    struct http_poller *p = context;
    struct http_socket *s = http_poller_socket_at(p, fd);
    http_poller_leave_idle(s);
    http_poller_uncount(p, s);
    p->sockets[fd] = NULL; /* close(2) also removes it from the epoll set */
    free(s);
    return close(fd);
}

/* ---- events ---- */

static int http_poller_on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *socket_context)
{
    (void)easy;
    (void)socket_context;
    struct http_tenant *tenant = context;
    struct http_poller *p = tenant->runner->poller;
    struct http_socket *s = http_poller_socket_at(p, fd);
    if (what != CURL_POLL_REMOVE) {
        http_poller_leave_idle(s);
        s->tenant = tenant;
        s->wanted = (uint8_t)what;
        http_poller_set_epoll(p, s, what);
        return 0;
    }
    s->wanted = 0;
    if (s->registered & CURL_POLL_OUT)
        http_poller_set_epoll(p, s, CURL_POLL_IN);
    if (s->host && !list_linked(&s->link)) {
        list_push(&p->idle, &s->link);
        list_push(&s->host->idle, &s->of_host);
    }
    return 0;
}

static void http_poller_on_event(struct http_poller *p, int fd, uint32_t events)
{
    struct http_socket *s = p->sockets[fd];
    if (!s)
        return; /* closed by an earlier event */
    if (s->wanted == 0) {
        http_poller_set_epoll(p, s, 0);
        return;
    }
    int mask = (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    int running;
    struct http_tenant *tenant = s->tenant; /* the next call may free the socket */
    curl_multi_socket_action(tenant->multi, fd, mask, &running);
    if (!list_linked(&tenant->touched))
        list_push(&p->touched, &tenant->touched);
}

static void http_poller_on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct http_poller *p = poll->data;
    struct epoll_event ev[EVENTS_MAX];
    int n = epoll_wait(p->epoll_fd, ev, EVENTS_MAX, 0);
    for (int i = 0; i < n; i++)
        http_poller_on_event(p, ev[i].data.fd, ev[i].events);
    for (struct list *l; (l = list_pop(&p->touched));)
        http_tenant_reap(container_of(l, struct http_tenant, touched));
}

void http_poller_watch(struct http_tenant *tenant)
{
    curl_multi_setopt(tenant->multi, CURLMOPT_SOCKETFUNCTION, http_poller_on_socket);
    curl_multi_setopt(tenant->multi, CURLMOPT_SOCKETDATA, tenant);
}

void http_poller_attach(struct http_poller *p, CURL *easy)
{
    /* The context is the poller: a socket outlives the call that opened it, and the poller outlives the socket. */
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, http_poller_on_close_socket);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, p);
}

/* ---- construction and destruction ---- */

struct http_poller *http_poller_new(uv_loop_t *loop, const struct runner_http_setup *setup)
{
    struct http_poller *p = xnew(*p);
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
    uv_poll_start(&p->poll, UV_READABLE, http_poller_on_poll);
    uv_unref((uv_handle_t *)&p->poll);
    return p;
}

static void http_poller_on_closed(uv_handle_t *h)
{
    struct http_poller *p = h->data;
    close(p->epoll_fd);
    for (size_t i = 0; i < p->socket_cap; i++)
        free(p->sockets[i]);
    free(p->sockets);
    free(p);
}

void http_poller_free(struct http_poller *p)
{
    if (p)
        uv_close((uv_handle_t *)&p->poll, http_poller_on_closed);
}

void http_poller_keep_loop_alive(struct http_poller *p, bool busy)
{
    if (busy)
        uv_ref((uv_handle_t *)&p->poll);
    else
        uv_unref((uv_handle_t *)&p->poll);
}

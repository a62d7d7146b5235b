/* libcurl's sockets stand in an epoll set of our own, and the loop polls that one descriptor. libuv would cost two system
 * calls each time libcurl changes its mind about a socket; here a socket stays in the set between calls, and a
 * call over a connection that is open costs none. Once it speaks with nobody listening (the peer closed it) it is taken out;
 * libcurl notices by itself when it wants to use it. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "adapter/runner_http_impl.h"

enum { EVENTS_MAX = 256 };

/* By descriptor: what libcurl wants, and what epoll was told (both CURL_POLL_*; 0: nothing, not in the set). */
struct socket_state {
    uint8_t wanted, told;
};

struct poller {
    CURLM *multi;
    int epoll_fd;
    struct socket_state *sockets;
    size_t socket_cap;
    uv_poll_t poll;
    uv_timer_t timer;
    int handles_open;
};

static uint32_t epoll_mask(int what)
{
    return (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
}

static struct socket_state *socket_at(struct poller *p, int fd)
{
    if ((size_t)fd >= p->socket_cap) {
        size_t cap = max_of(p->socket_cap * 2, (size_t)fd + 64);
        p->sockets = xrealloc(p->sockets, cap * sizeof *p->sockets);
        memset(p->sockets + p->socket_cap, 0, (cap - p->socket_cap) * sizeof *p->sockets);
        p->socket_cap = cap;
    }
    return &p->sockets[fd];
}

static void tell(struct poller *p, int fd, int what)
{
    struct socket_state *s = socket_at(p, fd);
    if (s->told == what)
        return;
    struct epoll_event ev = { .events = epoll_mask(what), .data.fd = fd };
    int op = what == 0 ? EPOLL_CTL_DEL : s->told == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(p->epoll_fd, op, fd, &ev) != 0 && errno == ENOENT && what != 0)
        (void)epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
    s->told = (uint8_t)what;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *socket_context)
{
    (void)easy;
    (void)socket_context;
    struct poller *p = context;
    struct socket_state *s = socket_at(p, fd);
    if (what == CURL_POLL_REMOVE) {
        s->wanted = 0;
        if (s->told & CURL_POLL_OUT)
            tell(p, fd, CURL_POLL_IN);
    } else {
        s->wanted = (uint8_t)what;
        tell(p, fd, what);
    }
    return 0;
}

static int on_close(void *context, curl_socket_t fd)
{
    struct poller *p = context;
    *socket_at(p, fd) = (struct socket_state){ 0 }; /* closing it takes it out of the set */
    return close(fd);
}

static void reap(struct poller *p)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(p->multi, &left));) {
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode code = m->data.result;
        CURL *easy = m->easy_handle;
        struct call *c = NULL;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&c);
        curl_multi_remove_handle(p->multi, easy);
        runner_http_finished(c, code);
    }
}

static void on_timer(uv_timer_t *t)
{
    struct poller *p = t->data;
    int running;
    curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    reap(p);
}

static int set_timer(CURLM *multi, long timeout_ms, void *context)
{
    (void)multi;
    struct poller *p = context;
    if (timeout_ms < 0)
        uv_timer_stop(&p->timer);
    else
        uv_timer_start(&p->timer, on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

static void on_event(struct poller *p, int fd, uint32_t events)
{
    if (socket_at(p, fd)->wanted == 0) {
        tell(p, fd, 0);
        return;
    }
    int mask = (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    int running;
    curl_multi_socket_action(p->multi, fd, mask, &running);
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
    reap(p);
}

struct poller *poller_new(uv_loop_t *loop, const struct runner_http_setup *setup)
{
    struct poller *p = xnew(*p);
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    p->multi = curl_multi_init();
    if (p->epoll_fd < 0 || !p->multi || uv_poll_init(loop, &p->poll, p->epoll_fd)) {
        curl_multi_cleanup(p->multi);
        if (p->epoll_fd >= 0)
            close(p->epoll_fd);
        free(p);
        return NULL;
    }
    uv_timer_init(loop, &p->timer);
    p->poll.data = p->timer.data = p;
    p->handles_open = 2;
    uv_poll_start(&p->poll, UV_READABLE, on_poll);
    uv_unref((uv_handle_t *)&p->poll);
    uv_unref((uv_handle_t *)&p->timer);
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, (long)setup->in_flight_max);
    return p;
}

static void on_closed(uv_handle_t *h)
{
    struct poller *p = h->data;
    if (--p->handles_open > 0)
        return;
    close(p->epoll_fd);
    free(p->sockets);
    free(p);
}

void poller_free(struct poller *p)
{
    if (!p)
        return;
    curl_multi_cleanup(p->multi);
    uv_close((uv_handle_t *)&p->poll, on_closed);
    uv_close((uv_handle_t *)&p->timer, on_closed);
}

void poller_hold(struct poller *p, bool busy)
{
    if (busy)
        uv_ref((uv_handle_t *)&p->poll);
    else
        uv_unref((uv_handle_t *)&p->poll);
}

bool poller_add(struct poller *p, struct call *c)
{
    return curl_multi_add_handle(p->multi, c->easy) == CURLM_OK;
}

void poller_remove(struct poller *p, struct call *c)
{
    curl_multi_remove_handle(p->multi, c->easy);
}

void poller_attach(struct poller *p, CURL *easy)
{
    /* A socket outlives the call that opened it, the poller outlives the socket. */
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, p);
}

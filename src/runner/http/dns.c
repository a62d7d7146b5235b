/* c-ares on the loop: a poll handle for each of its sockets, one timer for its retries. */
#include <ares.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "runner/http/internal.h"

enum { TRY_MS = 2000, TRIES = 3, IDLE_CHECK_MS = 1000 };

struct name_socket {
    struct list link;
    struct names *names;
    ares_socket_t fd;
    uv_poll_t poll;
};

struct names {
    uv_loop_t *loop;
    ares_channel channel;
    struct list sockets;
    uv_timer_t timer;
    size_t lookups; /* under way */
    int handles_open;
    bool closing;
};

struct query {
    struct names *names;
    lookup_done *done;
    void *context;
};

static void let_go(struct names *n)
{
    if (--n->handles_open == 0)
        free(n);
}

static void on_timer(uv_timer_t *t);

/* After each step of c-ares: its timer runs while a lookup does. */
static void rearm(struct names *n)
{
    if (n->closing)
        return;
    struct timeval most = { .tv_sec = IDLE_CHECK_MS / 1000 }, left;
    struct timeval *tv = ares_timeout(n->channel, &most, &left);
    if (n->lookups == 0)
        uv_timer_stop(&n->timer);
    else
        uv_timer_start(&n->timer, on_timer, (uint64_t)(tv->tv_sec * 1000 + tv->tv_usec / 1000 + 1), 0);
}

static void on_timer(uv_timer_t *t)
{
    struct names *n = t->data;
    ares_process_fd(n->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    rearm(n);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct name_socket *s = poll->data;
    struct names *n = s->names;
    ares_socket_t in = status < 0 || events & UV_READABLE ? s->fd : ARES_SOCKET_BAD;
    ares_socket_t out = status < 0 || events & UV_WRITABLE ? s->fd : ARES_SOCKET_BAD;
    ares_process_fd(n->channel, in, out);
    rearm(n);
}

static void on_socket_closed(uv_handle_t *h)
{
    struct name_socket *s = h->data;
    struct names *n = s->names;
    free(s);
    let_go(n);
}

static struct name_socket *socket_of(struct names *n, ares_socket_t fd)
{
    list_each (&n->sockets, link) {
        struct name_socket *s = container_of(link, struct name_socket, link);
        if (s->fd == fd)
            return s;
    }
    return NULL;
}

static void drop_socket(struct name_socket *s)
{
    list_remove(&s->link);
    uv_poll_stop(&s->poll);
    uv_close((uv_handle_t *)&s->poll, on_socket_closed);
}

static void on_state(void *context, ares_socket_t fd, int readable, int writable)
{
    struct names *n = context;
    struct name_socket *s = socket_of(n, fd);
    if (!readable && !writable) {
        if (s)
            drop_socket(s);
        return;
    }
    if (!s) {
        s = xnew(*s);
        s->names = n;
        s->fd = fd;
        if (uv_poll_init(n->loop, &s->poll, fd)) {
            free(s); /* c-ares will time out */
            return;
        }
        s->poll.data = s;
        n->handles_open++;
        list_push(&n->sockets, &s->link);
    }
    uv_poll_start(&s->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0), on_readable);
}

struct names *names_new(uv_loop_t *loop, const char *servers, struct error *e)
{
    struct names *n = xnew(*n);
    n->loop = loop;
    list_init(&n->sockets);
    struct ares_options o = { .timeout = TRY_MS, .tries = TRIES, .sock_state_cb = on_state, .sock_state_cb_data = n };
    int rc = ares_init_options(&n->channel, &o, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
    if (rc == ARES_SUCCESS && servers && (rc = ares_set_servers_ports_csv(n->channel, servers)) != ARES_SUCCESS)
        ares_destroy(n->channel);
    if (rc != ARES_SUCCESS) {
        (void)error_set(e, ERR_UNAVAILABLE, "name lookup: %s", ares_strerror(rc));
        free(n);
        return NULL;
    }
    uv_timer_init(loop, &n->timer);
    uv_unref((uv_handle_t *)&n->timer);
    n->timer.data = n;
    n->handles_open = 1;
    return n;
}

static void on_timer_closed(uv_handle_t *h)
{
    let_go(h->data);
}

void names_free(struct names *n)
{
    if (!n)
        return;
    n->closing = true;
    ares_destroy(n->channel);
    list_each (&n->sockets, link)
        drop_socket(container_of(link, struct name_socket, link));
    uv_close((uv_handle_t *)&n->timer, on_timer_closed);
}

static const char *why_not(int status)
{
    switch (status) {
    case ARES_ENOTFOUND:
    case ARES_ENODATA:
    case ARES_EBADNAME: return "host name not found";
    case ARES_ETIMEOUT: return "name server did not answer";
    default: return "host name could not be looked up";
    }
}

static void on_answer(void *context, int status, int timeouts, struct ares_addrinfo *found)
{
    (void)timeouts;
    struct query *q = context;
    struct lookup l = { .why = why_not(status), .ttl_s = INT32_MAX };
    if (status == ARES_SUCCESS) {
        for (struct ares_addrinfo_node *a = found->nodes; a && l.count < array_count(l.addresses); a = a->ai_next) {
            l.addresses[l.count++] = a->ai_addr;
            l.ttl_s = min_of(l.ttl_s, a->ai_ttl);
        }
    }
    q->names->lookups--;
    q->done(q->context, &l);
    free(q);
    ares_freeaddrinfo(found);
}

void names_lookup(struct names *n, const char *name, lookup_done *done, void *context)
{
    struct query *q = xnew(*q);
    *q = (struct query){ .names = n, .done = done, .context = context };
    n->lookups++;
    struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC };
    ares_getaddrinfo(n->channel, name, NULL, &hints, on_answer, q);
    rearm(n);
}

/* c-ares on the libuv loop: a poll handle for each of its sockets, and one timer for its retries. */
#include <ares.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/http/internal.h"

enum { TRY_MS = 2000, TRIES = 3, IDLE_CHECK_MS = 1000, TTL_MIN_S = 5, TTL_MAX_S = 60 };

struct http_dns_socket {
    struct list link;
    struct http_dns *dns;
    ares_socket_t fd;
    uv_poll_t poll;
};

struct http_dns {
    uv_loop_t *loop;
    ares_channel channel;
    struct list sockets;
    uv_timer_t timer;
    size_t lookups; /* pending */
    int handles_open;
    bool closing;
};

struct http_dns_query {
    struct http_dns *dns;
    http_dns_done *done;
    void *context;
};

static void http_dns_unref(struct http_dns *n)
{
    if (--n->handles_open == 0)
        free(n);
}

static void http_dns_on_timer(uv_timer_t *t);

/* Called after each step of c-ares: runs its timer while a lookup is pending. */
static void http_dns_arm_timer(struct http_dns *n)
{
    if (n->closing)
        return;
    struct timeval most = { .tv_sec = IDLE_CHECK_MS / 1000 }, left;
    struct timeval *tv = ares_timeout(n->channel, &most, &left);
    if (n->lookups == 0)
        uv_timer_stop(&n->timer);
    else
        uv_timer_start(&n->timer, http_dns_on_timer, (uint64_t)(tv->tv_sec * 1000 + tv->tv_usec / 1000 + 1), 0);
}

static void http_dns_on_timer(uv_timer_t *t)
{
    struct http_dns *n = t->data;
    ares_process_fd(n->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    http_dns_arm_timer(n);
}

static void http_dns_on_io(uv_poll_t *poll, int status, int events)
{
    struct http_dns_socket *s = poll->data;
    struct http_dns *n = s->dns;
    ares_socket_t in = status < 0 || events & UV_READABLE ? s->fd : ARES_SOCKET_BAD;
    ares_socket_t out = status < 0 || events & UV_WRITABLE ? s->fd : ARES_SOCKET_BAD;
    ares_process_fd(n->channel, in, out);
    http_dns_arm_timer(n);
}

static void http_dns_on_socket_closed(uv_handle_t *h)
{
    struct http_dns_socket *s = h->data;
    struct http_dns *n = s->dns;
    free(s);
    http_dns_unref(n);
}

static struct http_dns_socket *http_dns_find_socket(struct http_dns *n, ares_socket_t fd)
{
    list_each (&n->sockets, link) {
        struct http_dns_socket *s = container_of(link, struct http_dns_socket, link);
        if (s->fd == fd)
            return s;
    }
    return NULL;
}

static void http_dns_drop_socket(struct http_dns_socket *s)
{
    list_remove(&s->link);
    uv_poll_stop(&s->poll);
    uv_close((uv_handle_t *)&s->poll, http_dns_on_socket_closed);
}

static void http_dns_on_socket_state(void *context, ares_socket_t fd, int readable, int writable)
{
    struct http_dns *n = context;
    struct http_dns_socket *s = http_dns_find_socket(n, fd);
    if (!readable && !writable) {
        if (s)
            http_dns_drop_socket(s);
        return;
    }
    if (!s) {
        s = xnew(*s);
        s->dns = n;
        s->fd = fd;
        if (uv_poll_init(n->loop, &s->poll, fd)) {
            free(s); /* c-ares reports a timeout */
            return;
        }
        s->poll.data = s;
        n->handles_open++;
        list_push(&n->sockets, &s->link);
    }
    uv_poll_start(&s->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0), http_dns_on_io);
}

struct http_dns *http_dns_new(uv_loop_t *loop, const char *servers, struct error *e)
{
    struct http_dns *n = xnew(*n);
    n->loop = loop;
    list_init(&n->sockets);
    struct ares_options o = {
        .timeout = TRY_MS, .tries = TRIES, .sock_state_cb = http_dns_on_socket_state, .sock_state_cb_data = n
    };
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

static void http_dns_on_timer_closed(uv_handle_t *h)
{
    http_dns_unref(h->data);
}

void http_dns_free(struct http_dns *n)
{
    if (!n)
        return;
    n->closing = true;
    ares_destroy(n->channel);
    list_each (&n->sockets, link)
        http_dns_drop_socket(container_of(link, struct http_dns_socket, link));
    uv_close((uv_handle_t *)&n->timer, http_dns_on_timer_closed);
}

static const char *http_dns_error_text(int status)
{
    switch (status) {
    case ARES_ENOTFOUND:
    case ARES_ENODATA:
    case ARES_EBADNAME: return GUARD_NOT_FOUND;
    case ARES_ETIMEOUT: return "name server did not answer";
    default: return "host name could not be looked up";
    }
}

/* c-ares does not say so: without a descriptor it reads neither /etc/hosts nor answers. */
static bool http_dns_lacks_file(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    return fd < 0 && (errno == EMFILE || errno == ENFILE);
}

static void http_dns_on_answer(void *context, int status, int timeouts, struct ares_addrinfo *found)
{
    (void)timeouts;
    struct http_dns_query *q = context;
    struct http_lookup l = { .why = http_dns_error_text(status), .ttl_s = TTL_MAX_S };
    if (status == ARES_SUCCESS) {
        for (struct ares_addrinfo_node *a = found->nodes; a && l.count < array_count(l.addresses); a = a->ai_next) {
            l.addresses[l.count++] = a->ai_addr;
            l.ttl_s = min_of(l.ttl_s, a->ai_ttl);
        }
    }
    l.ttl_s = max_of(l.ttl_s, TTL_MIN_S);
    l.lacks_file = l.count == 0 && http_dns_lacks_file();
    q->dns->lookups--;
    q->done(q->context, &l);
    free(q);
    ares_freeaddrinfo(found);
}

void http_dns_lookup(struct http_dns *n, const char *name, http_dns_done *done, void *context)
{
    struct http_dns_query *q = xnew(*q);
    *q = (struct http_dns_query){ .dns = n, .done = done, .context = context };
    n->lookups++;
    struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC };
    ares_getaddrinfo(n->channel, name, NULL, &hints, http_dns_on_answer, q);
    http_dns_arm_timer(n);
}

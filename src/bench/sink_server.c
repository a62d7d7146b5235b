/* All connections read into one shared buffer, and requests are handled in place. Only an incomplete request is
 * copied to the buffer of its connection. Log lines are collected and written once for each round of epoll. */
#include "bench/sink_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/heap.h"
#include "base/json/jsonw.h"
#include "base/list.h"
#include "base/map.h"
#include "core/target/address.h"

enum {
    EVENTS_MAX = 256,
    READ_MAX = 64 << 10,
    OUT_HIGH = 64 << 10,
    LOG_MAX = 64 << 20,
    IDS_MAX = 200000,
    ANSWER_MAX = 128
};

struct sink_connection {
    struct list link;
    int fd;
    struct buf in, out;
    struct heap_node due; /* in `delayed` while an answer is delayed */
    int due_status;
    bool wants_write, close_after;
};

struct sink_seen_id {
    int64_t count;
    char id[];
};

struct sink {
    struct sink_setup setup;
    int listen_fd, epoll_fd;
    struct list connections;
    struct heap delayed; /* connections, by the time of their answer in ns */
    struct map ids;      /* number of calls by webhook-id, for fail_first */
    struct buf log;
    uint64_t count;
    char scratch[READ_MAX];
};

/* ---- log of calls ---- */

static void sink_log_number(struct jw *w, const char *name, struct str text)
{
    int64_t v;
    if (str_to_i64(text, INT64_MIN, INT64_MAX, &v))
        jw_kv_i64(w, name, v);
    else
        jw_kv_cstr(w, name, NULL);
}

/* Cuts the next header line off. */
static bool sink_cut_header(struct str *headers, struct str *ret)
{
    if (!str_cut(headers, '\n', ret) || ret->n < 2)
        return false;
    *ret = str_sub(*ret, 0, ret->n - 1); /* the CR */
    return true;
}

static void sink_log_headers(struct jw *w, struct str headers)
{
    struct str line;
    jw_key(w, "headers");
    jw_array(w);
    while (sink_cut_header(&headers, &line))
        jw_str(w, line);
    jw_array_end(w);
}

static void sink_log_call(struct sink *s, const struct sink_request *r, struct str body, int64_t received_us,
                          int status)
{
    struct jw w;
    jw_init(&w, &s->log);
    jw_object(&w);
    jw_kv_i64(&w, "received_us", received_us);
    jw_kv_str(&w, "method", r->method);
    jw_kv_str(&w, "path", r->path);
    jw_kv_str(&w, "webhook_id", r->webhook_id);
    jw_kv_str(&w, "task_id", r->task_id);
    sink_log_number(&w, "attempt", r->attempt);
    sink_log_number(&w, "fence", r->fence);
    jw_kv_str(&w, "scheduled_at", r->scheduled_at);
    jw_kv_i64(&w, "status", status);
    jw_kv_str(&w, "body", str_utf8_cut(body, SINK_BODY_SHOWN));
    if (s->setup.shows_headers)
        sink_log_headers(&w, r->headers);
    jw_object_end(&w);
    buf_char(&s->log, '\n');
}

static void sink_show_headers(struct str headers, struct buf *out)
{
    struct str line;
    while (sink_cut_header(&headers, &line)) {
        buf_text(out, "\n     ");
        json_escape(out, line);
    }
}

static void sink_show_call(struct sink *s, const struct sink_request *r, struct str body, int status)
{
    cleanup_with(buf_release) struct buf line;
    buf_init(&line, 4096 + 6 * SINK_HEAD_MAX); /* an escaped byte has 6 */
    buf_printf(&line, "%d  " STR_FMT " ", status, STR_ARG(r->method));
    json_escape(&line, str_utf8_cut(r->path, SINK_BODY_SHOWN));
    if (r->attempt.n)
        buf_printf(&line, "  attempt " STR_FMT, STR_ARG(r->attempt));
    buf_text(&line, "  ");
    json_escape(&line, str_utf8_cut(body, 80));
    if (s->setup.shows_headers)
        sink_show_headers(r->headers, &line);
    fprintf(s->setup.shown, "%s\n", buf_cstr(&line));
    fflush(s->setup.shown);
}

static enum err sink_flush_log(struct sink *s, struct error *e)
{
    for (size_t at = 0; at < s->log.n;) {
        ssize_t n = write(s->setup.log_fd, s->log.p + at, s->log.n - at);
        if (n < 0 && errno != EINTR)
            return error_set(e, ERR_UNAVAILABLE, "cannot write the log: %s", strerror(errno));
        at += n > 0 ? (size_t)n : 0;
    }
    buf_reset(&s->log);
    return ERR_OK;
}

/* Number of calls with this id, including this one. If there are too many ids, all counts start again. */
static int64_t sink_count_id(struct sink *s, struct str id)
{
    struct sink_seen_id *seen = map_get(&s->ids, id);
    if (!seen) {
        if (s->ids.n >= IDS_MAX) {
            map_each (&s->ids, slot)
                free(slot->value);
            struct hash_key key = s->ids.key;
            map_release(&s->ids);
            map_init(&s->ids, key);
        }
        seen = xcalloc(1, sizeof *seen + id.n + 1);
        memcpy(seen->id, id.p ? id.p : "", id.n);
        map_put(&s->ids, (struct str){ seen->id, id.n }, seen);
    }
    return ++seen->count;
}

/* ---- answers ---- */

static const char *sink_reason_phrase(int status)
{
    return status < 300 ? "OK" : status < 400 ? "Elsewhere" : status < 500 ? "Refused" : "Failed";
}

static void sink_answer(struct sink *s, struct sink_connection *c, int status)
{
    const char *body = status == 204 || status == 304 ? "" : status < 300 ? "ok\n" : "no\n";
    buf_printf(&c->out, "HTTP/1.1 %d %s\r\nContent-Length: %zu\r\n%s\r\n%s", status, sink_reason_phrase(status),
               strlen(body), c->close_after ? "Connection: close\r\n" : "", body);
    s->count++;
}

static void sink_handle_request(struct sink *s, struct sink_connection *c, const struct sink_request *r,
                                struct str body, int64_t received_us)
{
    struct sink_behaviour b = s->setup.behaviour;
    sink_parse_path(r->path, &b);
    if (b.fail_first > 0 && sink_count_id(s, r->webhook_id) <= b.fail_first)
        b.status = 500;
    c->close_after |= !r->keep_alive;
    if (s->setup.log_fd >= 0)
        sink_log_call(s, r, body, received_us, (int)b.status);
    if (s->setup.shown)
        sink_show_call(s, r, body, (int)b.status);
    if (b.delay_ms == 0) {
        sink_answer(s, c, (int)b.status);
        return;
    }
    c->due_status = (int)b.status;
    heap_push(&s->delayed, &c->due, clock_steady_ns(s->setup.clock) + b.delay_ms * 1000000);
}

/* Handles every complete request in the text; returns the number of bytes used. */
static size_t sink_handle_requests(struct sink *s, struct sink_connection *c, struct str text, int64_t received_us)
{
    size_t at = 0;
    while (at < text.n && !c->due.at && !c->close_after && c->out.n < OUT_HIGH) {
        struct str rest = str_sub(text, at, text.n);
        struct sink_request r;
        enum sink_parse got = sink_parse(rest, &r);
        if (got == SINK_BAD) {
            c->close_after = true;
            sink_answer(s, c, 400);
        }
        if (got != SINK_DONE || rest.n < r.head_bytes + r.body_bytes)
            break;
        size_t end = r.head_bytes + r.body_bytes;
        sink_handle_request(s, c, &r, str_sub(rest, r.head_bytes, end), received_us);
        at += end;
    }
    return at;
}

/* ---- connections ---- */

static void sink_connection_free(struct sink *s, struct sink_connection *c)
{
    if (c->due.at)
        heap_remove(&s->delayed, &c->due);
    list_remove(&c->link);
    close(c->fd);
    buf_release(&c->in);
    buf_release(&c->out);
    free(c);
}

/* False: the caller must close the connection. */
static bool sink_send(struct sink *s, struct sink_connection *c)
{
    ssize_t n = c->out.n ? send(c->fd, c->out.p, c->out.n, MSG_NOSIGNAL) : 0;
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return false;
    size_t left = c->out.n - (n > 0 ? (size_t)n : 0);
    if (n > 0 && left)
        memmove(c->out.p, c->out.p + n, left);
    buf_cut(&c->out, left);
    if (c->wants_write != (left > 0)) {
        c->wants_write = left > 0;
        struct epoll_event ev = { .events = EPOLLIN | (left ? EPOLLOUT : 0u), .data.ptr = c };
        (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
    }
    return left > 0 || !c->close_after || c->due.at;
}

/* Handles the complete requests and stores the rest. */
static size_t sink_consume(struct sink *s, struct sink_connection *c, struct str text)
{
    int64_t now_us = clock_wall_us(s->setup.clock);
    bool kept = c->in.n > 0;
    if (kept) {
        buf_add(&c->in, text);
        if (c->in.full)
            return 0;
        text = buf_str(&c->in);
    }
    size_t used = sink_handle_requests(s, c, text, now_us);
    struct str rest = str_sub(text, used, text.n);
    if (kept) {
        memmove(c->in.p, c->in.p + used, rest.n);
        buf_cut(&c->in, rest.n);
    } else {
        buf_add(&c->in, rest);
    }
    return used;
}

/* False: the caller must close the connection. Repeats while all answers could be sent: no epoll event would come
 * for input that is already in the buffer. */
static bool sink_feed(struct sink *s, struct sink_connection *c, struct str text)
{
    size_t used = sink_consume(s, c, text);
    bool open = !c->in.full && sink_send(s, c);
    while (open && used && c->in.n && !c->out.n) {
        used = sink_consume(s, c, S(""));
        open = sink_send(s, c);
    }
    return open;
}

static bool sink_on_connection(struct sink *s, struct sink_connection *c, uint32_t events)
{
    if (events & EPOLLOUT && (!sink_send(s, c) || (c->in.n && !sink_feed(s, c, S("")))))
        return false;
    if (!(events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
        return true;
    ssize_t n = recv(c->fd, s->scratch, sizeof s->scratch, 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    return n > 0 && sink_feed(s, c, (struct str){ s->scratch, (size_t)n });
}

static void sink_accept_all(struct sink *s)
{
    for (int fd; (fd = accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        struct sink_connection *c = xnew(*c);
        c->fd = fd;
        buf_init(&c->in, SINK_HEAD_MAX + SINK_BODY_MAX + READ_MAX);
        buf_init(&c->out, OUT_HIGH + ANSWER_MAX);
        list_push(&s->connections, &c->link);
        struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };
        if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0)
            sink_connection_free(s, c);
    }
}

static void sink_answer_delayed(struct sink *s)
{
    int64_t now_ns = s->delayed.n ? clock_steady_ns(s->setup.clock) : 0;
    while (s->delayed.n && heap_peek(&s->delayed)->key <= now_ns) {
        struct sink_connection *c = container_of(heap_pop(&s->delayed), struct sink_connection, due);
        sink_answer(s, c, c->due_status);
        if (!sink_send(s, c) || (c->in.n && !sink_feed(s, c, S(""))))
            sink_connection_free(s, c);
    }
}

/* ---- the server ---- */

/* Time until the next delayed answer, rounded up, so that an answer is never early. */
static int sink_wait_ms(const struct sink *s)
{
    if (!s->delayed.n)
        return -1;
    int64_t left_ns = heap_peek(&s->delayed)->key - clock_steady_ns(s->setup.clock);
    return left_ns <= 0 ? 0 : (int)((left_ns + 999999) / 1000000);
}

enum err sink_run(struct sink *s, struct error *e)
{
    struct epoll_event ev[EVENTS_MAX];
    for (;;) {
        int n = epoll_wait(s->epoll_fd, ev, EVENTS_MAX, sink_wait_ms(s));
        for (int i = 0; i < n; i++) {
            if (ev[i].data.ptr == &s->setup.stop_fd)
                return sink_flush_log(s, e);
            if (ev[i].data.ptr == s)
                sink_accept_all(s);
            else if (!sink_on_connection(s, ev[i].data.ptr, ev[i].events))
                sink_connection_free(s, ev[i].data.ptr);
        }
        sink_answer_delayed(s);
        if (sink_flush_log(s, e))
            return e->code;
    }
}

static bool sink_parse_listen(struct str text, struct sockaddr_storage *ret, socklen_t *ret_n)
{
    size_t colon = text.n;
    while (colon > 0 && text.p[colon - 1] != ':')
        colon--;
    int64_t port;
    if (colon < 2 || !str_to_i64(str_sub(text, colon, text.n), 0, 65535, &port))
        return false;
    struct str host = str_sub(text, 0, colon - 1);
    bool bracketed = host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    struct address a;
    if (!address_parse(bracketed ? str_sub(host, 1, host.n - 1) : host, &a) || a.is_v6 != bracketed)
        return false;
    memset(ret, 0, sizeof *ret);
    if (a.is_v6) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
        *v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
        memcpy(&v6->sin6_addr, a.b, 16);
    } else {
        struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
        *v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
        memcpy(&v4->sin_addr, a.b, 4);
    }
    *ret_n = a.is_v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    return true;
}

static bool sink_epoll_add(struct sink *s, int fd, void *tag)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.ptr = tag };
    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static bool sink_listen(struct sink *s, const struct sockaddr_storage *at, socklen_t n)
{
    s->listen_fd = socket(at->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    setsockopt(s->listen_fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
    return bind(s->listen_fd, (const struct sockaddr *)at, n) == 0 && listen(s->listen_fd, 4096) == 0 &&
           sink_epoll_add(s, s->listen_fd, s) &&
           (s->setup.stop_fd < 0 || sink_epoll_add(s, s->setup.stop_fd, &s->setup.stop_fd));
}

enum err sink_open(const struct sink_setup *setup, struct sink **ret, struct error *e)
{
    struct sockaddr_storage at;
    socklen_t n;
    if (!sink_parse_listen(setup->listen, &at, &n))
        return error_field(e, "--listen", "must be an address and a port, such as 127.0.0.1:8089 or [::1]:0");
    struct sink *s = xnew(*s);
    s->setup = *setup;
    list_init(&s->connections);
    heap_init(&s->delayed);
    map_init(&s->ids, HASH_STABLE);
    buf_init(&s->log, LOG_MAX);
    if (!sink_listen(s, &at, n)) {
        enum err rc =
            error_set(e, ERR_UNAVAILABLE, "cannot listen on " STR_FMT ": %s", STR_ARG(setup->listen), strerror(errno));
        sink_free(s);
        return rc;
    }
    *ret = s;
    return ERR_OK;
}

void sink_free(struct sink *s)
{
    if (!s)
        return;
    list_each (&s->connections, link)
        sink_connection_free(s, container_of(link, struct sink_connection, link));
    map_each (&s->ids, slot)
        free(slot->value);
    map_release(&s->ids);
    heap_release(&s->delayed);
    buf_release(&s->log);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    free(s);
}

void sink_address(const struct sink *s, char out[SINK_ADDRESS_TEXT])
{
    struct sockaddr_storage at = { 0 };
    socklen_t n = sizeof at;
    char host[INET6_ADDRSTRLEN] = "";
    (void)getsockname(s->listen_fd, (struct sockaddr *)&at, &n);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&at;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&at;
    bool is_v6 = at.ss_family == AF_INET6;
    (void)inet_ntop(at.ss_family, is_v6 ? (const void *)&v6->sin6_addr : &v4->sin_addr, host, sizeof host);
    snprintf(out, SINK_ADDRESS_TEXT, is_v6 ? "[%s]:%d" : "%s:%d", host, ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
}

uint64_t sink_count(const struct sink *s)
{
    return s->count;
}

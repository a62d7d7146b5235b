#pragma once
/* tests/support/stub_server.h - an HTTP server with scripted responses, and a name server, both on the test's loop.
 *
 * The path of a request selects the response (stub_server_answers); the test reads the requests that arrived. */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "base/buf.h"
#include "bench/sink_parse.h"

struct stub_server {
    uv_loop_t *loop;
    uv_tcp_t server;
    uv_udp_t names;
    int port, names_port;
    char last[8192]; /* the latest request, headers and body */
    int requests, connections, open, open_max, queries;
};

struct peer {
    uv_tcp_t tcp;
    uv_timer_t hold;
    struct stub_server *server;
    struct buf in;
    uv_write_t write;
    struct buf out;
    bool close_after;
    int handles;
};

static inline void peer_closed(uv_handle_t *h)
{
    struct peer *p = h->data;
    if (--p->handles > 0)
        return;
    p->server->open--;
    buf_release(&p->in);
    buf_release(&p->out);
    free(p);
}

static inline void peer_close(struct peer *p)
{
    if (uv_is_closing((uv_handle_t *)&p->tcp))
        return;
    uv_close((uv_handle_t *)&p->tcp, peer_closed);
    uv_close((uv_handle_t *)&p->hold, peer_closed);
}

static inline void peer_wrote(uv_write_t *w, int status)
{
    struct peer *p = w->data;
    if (status < 0 || p->close_after)
        peer_close(p);
}

static inline void peer_send(struct peer *p)
{
    uv_buf_t b = uv_buf_init(p->out.p, (unsigned)p->out.n);
    p->write.data = p;
    if (uv_write(&p->write, (uv_stream_t *)&p->tcp, &b, 1, peer_wrote))
        peer_close(p);
}

static inline void peer_held(uv_timer_t *t)
{
    struct peer *p = t->data;
    buf_reset(&p->out);
    buf_text(&p->out, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    peer_send(p);
}

static const struct {
    const char *path, *answer;
    bool close;
    size_t padding; /* bytes after it */
} stub_server_answers[] = {
    { "/ok", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone", false, 0 },
    { "/created", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", false, 0 },
    { "/empty", "HTTP/1.1 204 No Content\r\n\r\n", false, 0 },
    { "/redirect", "HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n", false, 0 },
    { "/teapot", "HTTP/1.1 418 No\r\nContent-Length: 5\r\n\r\nshort", false, 0 },
    { "/busy", "HTTP/1.1 503 Busy\r\nretry-after:  7 \r\nContent-Length: 0\r\n\r\n", false, 0 },
    { "/busy-date", "HTTP/1.1 429 Busy\r\nRetry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\nContent-Length: 0\r\n\r\n",
      false, 0 },
    { "/busy-odd", "HTTP/1.1 503 Busy\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n", false, 0 },
    { "/half", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", true, 0 },
    { "/garbage", "this is no HTTP\r\n\r\n", true, 0 },
    { "/close", "", true, 0 },
    { "/long", "HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n", false, 40000 },
    { "/endless", "HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n", false, 3000000 },
    { "/endless-no", "HTTP/1.1 500 No\r\nContent-Length: 9000000\r\n\r\n", false, 3000000 },
    { "/heads", "HTTP/1.1 200 OK\r\n", false, 0 },
};

static inline void peer_answer(struct peer *p, struct str path)
{
    buf_reset(&p->out);
    if (str_starts(path, S("/silent")))
        return;
    if (str_starts(path, S("/hold"))) {
        uv_timer_start(&p->hold, peer_held, 5, 0);
        return;
    }
    for (size_t i = 0; i < array_count(stub_server_answers); i++) {
        if (!str_eq(path, str_from(stub_server_answers[i].path)))
            continue;
        buf_text(&p->out, stub_server_answers[i].answer);
        for (size_t n = 0; n < stub_server_answers[i].padding; n++)
            buf_char(&p->out, 'x');
        p->close_after = stub_server_answers[i].close;
    }
    for (int i = 0; i < 4000 && str_eq(path, S("/heads")); i++)
        buf_text(&p->out, "X-Header: and one more of these\r\n");
    if (p->out.n == 0) {
        peer_close(p);
        return;
    }
    peer_send(p);
}

static inline void peer_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    struct peer *p = s->data;
    if (n > 0)
        buf_add(&p->in, (struct str){ b->base, (size_t)n });
    free(b->base);
    if (n < 0) {
        peer_close(p);
        return;
    }
    if (p->in.n && p->in.p[0] == 0x16) { /* a TLS ClientHello */
        peer_close(p);
        return;
    }
    struct sink_request r;
    enum sink_parse got = sink_parse(buf_str(&p->in), &r);
    if (got == SINK_BAD)
        peer_close(p);
    if (got != SINK_DONE || p->in.n < r.head_bytes + r.body_bytes)
        return;
    p->server->requests++;
    snprintf(p->server->last, sizeof p->server->last, "%s", buf_cstr(&p->in));
    char path[256];
    snprintf(path, sizeof path, STR_FMT, STR_ARG(r.path));
    buf_reset(&p->in);
    peer_answer(p, str_from(path));
}

static inline void peer_alloc(uv_handle_t *h, size_t size, uv_buf_t *b)
{
    (void)h;
    *b = uv_buf_init(xmalloc(size), (unsigned)size);
}

static inline void stub_server_accept(uv_stream_t *server, int status)
{
    (void)status;
    struct stub_server *t = server->data;
    struct peer *p = xnew(*p);
    p->server = t;
    p->handles = 2;
    buf_init(&p->in, 4 << 20);
    buf_init(&p->out, 8 << 20);
    uv_tcp_init(t->loop, &p->tcp);
    uv_timer_init(t->loop, &p->hold);
    p->tcp.data = p->hold.data = p;
    uv_unref((uv_handle_t *)&p->tcp);
    uv_accept(server, (uv_stream_t *)&p->tcp);
    uv_read_start((uv_stream_t *)&p->tcp, peer_alloc, peer_read);
    t->connections++;
    t->open++;
    t->open_max = max_of(t->open_max, t->open);
}

/* ---- the name server ---- */

static const struct {
    const char *name;
    uint8_t v4[2][4]; /* 0.0.0.0: no address */
    int rcode;
} stub_server_names[] = {
    { "ok.test", { { 127, 0, 0, 1 } }, 0 },
    { "mixed.test", { { 10, 0, 0, 1 }, { 127, 0, 0, 1 } }, 0 },
    { "private.test", { { 10, 0, 0, 1 } }, 0 },
    { "nothing.test", { { 0 } }, 0 },
    { "broken.test", { { 0 } }, 2 },
};

/* Reads the question's name as text; returns where the question ends. */
static inline size_t names_question(const uint8_t *p, size_t n, char out[256])
{
    size_t at = 12, len = 0;
    while (at < n && p[at] && len + p[at] + 1u < 256) {
        if (len)
            out[len++] = '.';
        memcpy(out + len, p + at + 1, p[at]);
        len += p[at];
        at += p[at] + 1u;
    }
    out[len] = '\0';
    return at + 5;
}

static inline void names_read(uv_udp_t *u, ssize_t n, const uv_buf_t *b, const struct sockaddr *from, unsigned flags)
{
    (void)flags;
    struct stub_server *t = u->data;
    uint8_t *p = (uint8_t *)b->base, out[512] = { 0 };
    char name[256];
    if (n > 12 && from) {
        size_t end = names_question(p, (size_t)n, name), size = end;
        bool wants_v4 = p[end - 3] == 1;
        t->queries++;
        memcpy(out, p, end);
        out[2] = 0x81;
        out[3] = 0x83; /* no such name */
        out[6] = out[7] = out[8] = out[9] = out[10] = out[11] = 0;
        for (size_t i = 0; i < array_count(stub_server_names); i++) {
            if (strcasecmp(name, stub_server_names[i].name) != 0)
                continue;
            out[3] = (uint8_t)(0x80 | stub_server_names[i].rcode);
            for (int a = 0; a < 2 && wants_v4 && stub_server_names[i].v4[a][0]; a++, out[7]++) {
                static const uint8_t record[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4 };
                memcpy(out + size, record, sizeof record);
                memcpy(out + size + sizeof record, stub_server_names[i].v4[a], 4);
                size += sizeof record + 4;
            }
        }
        uv_buf_t answer = uv_buf_init((char *)out, (unsigned)size);
        if (!str_starts(str_from(name), S("mute")))
            uv_udp_try_send(u, &answer, 1, from);
    }
    free(b->base);
}

static inline int stub_server_port_of(const struct sockaddr_storage *a)
{
    const uint8_t *port = (const uint8_t *)a + 2;
    return port[0] << 8 | port[1];
}

static inline void stub_server_open(struct stub_server *t, uv_loop_t *loop)
{
    *t = (struct stub_server){ .loop = loop };
    struct sockaddr_in any;
    struct sockaddr_storage got;
    uv_ip4_addr("127.0.0.1", 0, &any);
    uv_tcp_init(loop, &t->server);
    uv_udp_init(loop, &t->names);
    t->server.data = t->names.data = t;
    uv_tcp_bind(&t->server, (struct sockaddr *)&any, 0);
    uv_listen((uv_stream_t *)&t->server, 512, stub_server_accept);
    uv_udp_bind(&t->names, (struct sockaddr *)&any, 0);
    uv_udp_recv_start(&t->names, peer_alloc, names_read);
    uv_unref((uv_handle_t *)&t->server);
    uv_unref((uv_handle_t *)&t->names);
    uv_tcp_getsockname(&t->server, (struct sockaddr *)&got, &(int){ sizeof got });
    t->port = stub_server_port_of(&got);
    uv_udp_getsockname(&t->names, (struct sockaddr *)&got, &(int){ sizeof got });
    t->names_port = stub_server_port_of(&got);
}

/* Called after the runner is freed: its connections end, and then this side of each. */
static inline void stub_server_close(struct stub_server *t)
{
    while (t->open > 0)
        uv_run(t->loop, UV_RUN_NOWAIT);
    uv_close((uv_handle_t *)&t->server, NULL);
    uv_close((uv_handle_t *)&t->names, NULL);
    uv_run(t->loop, UV_RUN_DEFAULT);
}

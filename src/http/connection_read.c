/* Reads requests. When is a refusal sent, if it is known from the head alone? Closing a socket with unread bytes resets
 * the connection, and the client may never see the answer. So the body is read and dropped first. The refusal is sent
 * at once only if the client waits before it sends the body (Expect), or if the body is too long to read. Then the
 * connection closes, but lingers, so that the client can read the answer. */
#include <stdio.h>
#include <stdlib.h>

#include "http/internal.h"

enum {
    IN_FIRST = 4096,           /* most requests fit */
    DROP_MAX = 32 << 20,       /* a longer body is not read to its end only to drop it */
    COUNTED_MIN = 16 * 1024,   /* smaller bodies are not counted: the number of connections limits them */
    LINGER_BYTES_MAX = 1 << 20 /* what a client may still send after its last answer */
};

/* ---- receiving ---- */

static void connection_reserve_in(struct connection *c, size_t more)
{
    if (c->in_cap - c->in_n >= more)
        return;
    size_t cap = max_of(c->in_cap, (size_t)IN_FIRST);
    while (cap - c->in_n < more)
        cap *= 2;
    c->in = xrealloc(c->in, cap);
    c->in_cap = cap;
}

void connection_begin_next(struct connection *c)
{
    c->in_n -= c->in_used;
    memmove(c->in, c->in + c->in_used, c->in_n);
    c->in_used = 0;
    if (c->in_n == 0 && c->in_cap > IN_FIRST) {
        free(take(c->in));
        c->in_cap = 0;
    }
    if (c->behind.n) {
        connection_reserve_in(c, c->behind.n);
        memcpy(c->in + c->in_n, c->behind.p, c->behind.n);
        c->in_n += c->behind.n;
        buf_release(&c->behind);
        buf_init(&c->behind, SCRATCH_BYTES);
    }
    http_parser_init(&c->parser, &c->thread->server->parse);
    connection_enter(c, c->in_n ? STATE_HEAD : STATE_IDLE);
}

/* How many bytes have come. 0: the connection waits for more, or is lost; its state has changed accordingly. */
static size_t connection_receive(struct connection *c, char *out, size_t size)
{
    ssize_t n = c->transport.ops->receive(&c->transport, out, size);
    if (n == TRANSPORT_LATER)
        connection_want_again(c);
    else if (n <= 0)
        connection_on_lost(c);
    return n > 0 ? (size_t)n : 0;
}

void connection_read_head(struct connection *c)
{
    connection_reserve_in(c, IN_FIRST / 4);
    size_t n = connection_receive(c, c->in + c->in_n, c->in_cap - c->in_n);
    if (!n)
        return;
    c->in_n += n;
    if (c->state != STATE_HEAD)
        connection_enter(c, STATE_HEAD);
    connection_run(c);
}

/* What still comes after the last answer is dropped. */
void connection_read_rest(struct connection *c)
{
    struct http_thread *t = c->thread;
    ssize_t n = c->transport.ops->receive(&c->transport, t->scratch, sizeof t->scratch);
    if (n == TRANSPORT_LATER) {
        connection_want_again(c);
        return;
    }
    c->body_seen += n > 0 ? (uint64_t)n : 0;
    if (n <= 0 || c->body_seen > LINGER_BYTES_MAX)
        connection_close(c);
}

/* ---- bodies ---- */

static void connection_refuse_body(struct connection *c, enum http_refusal why)
{
    struct http_server *s = c->thread->server;
    s->setup.handler->on_body_refused(s->setup.context, &c->exchange, why);
    budget_give_back(&s->bodies, c->exchange.owner, c->body_counted);
    c->body_counted = 0;
    buf_release(&c->exchange.body);
    c->body_dropped = true;
}

static void connection_add_body(struct connection *c, struct str data)
{
    struct http_exchange *x = &c->exchange;
    c->body_seen += data.n;
    if (c->body_dropped)
        return;
    if (c->body_seen > x->body_max) {
        connection_refuse_body(c, HTTP_BODY_TOO_LARGE);
        return;
    }
    size_t uncounted = (size_t)c->body_seen - c->body_counted;
    if (uncounted > COUNTED_MIN) {
        if (!budget_take(&c->thread->server->bodies, x->owner, uncounted)) {
            connection_refuse_body(c, HTTP_BODY_NO_ROOM);
            return;
        }
        c->body_counted += uncounted;
    }
    buf_add(&x->body, data);
}

/* Reads the body in *piece and moves it to behind the body. */
static void connection_eat_body(struct connection *c, struct str *piece)
{
    struct str data;
    enum http_chunk got = HTTP_CHUNK_MORE;
    if (c->parser.is_chunked) {
        while ((got = http_chunks_read(&c->chunks, piece, &data)) == HTTP_CHUNK_DATA)
            connection_add_body(c, data);
        c->body_ended = got == HTTP_CHUNK_END;
        return;
    }
    size_t n = (size_t)min_of((uint64_t)piece->n, c->parser.length - c->body_seen);
    connection_add_body(c, str_sub(*piece, 0, n));
    *piece = str_sub(*piece, n, piece->n);
    c->body_ended = c->body_seen == c->parser.length;
}

void connection_read_body(struct connection *c)
{
    struct http_thread *t = c->thread;
    uint64_t left = c->parser.is_chunked ? sizeof t->scratch : c->parser.length - c->body_seen;
    size_t want = (size_t)min_of(left, (uint64_t)sizeof t->scratch);
    size_t n = connection_receive(c, t->scratch, want);
    if (!n)
        return;
    struct str piece = { t->scratch, n };
    connection_eat_body(c, &piece);
    if (c->body_ended)
        buf_add(&c->behind, piece); /* the next request */
    connection_run(c);
}

bool connection_step_body(struct connection *c)
{
    const struct http_server *s = c->thread->server;
    struct str piece = { c->in + c->in_used, c->in_n - c->in_used };
    if (!c->body_ended) {
        connection_eat_body(c, &piece);
        c->in_used = c->in_n - piece.n;
    }
    if (c->chunks.bad != HTTP_BAD_NONE) {
        connection_log_unreadable(c, http_bad_text(c->chunks.bad));
        connection_refuse(c, http_bad_status(c->chunks.bad), http_bad_text(c->chunks.bad));
        return true;
    }
    bool is_endless = c->body_dropped && c->body_seen > DROP_MAX;
    if (!c->body_ended && !is_endless) {
        connection_want(c, UV_READABLE);
        return false;
    }
    c->close_after |= !c->body_ended;
    if (c->body_dropped)
        connection_answer(c);
    else
        connection_follow(c, s->setup.handler->on_body(s->setup.context, &c->exchange));
    return true;
}

/* ---- heads ---- */

static void connection_say_continue(struct connection *c)
{
    static char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec piece = { text, strlen(text) };
    bool waits = c->parser.expects_continue && http_has_body(&c->parser) && c->in_used == c->in_n;
    if (!waits)
        return;
    /* Nothing else is being sent, so there is room for it, unless the client does not read. A part of it, or TLS that
     * holds it back, would garble the answer. */
    if (c->transport.ops->send(&c->transport, &piece, 1) != (ssize_t)piece.iov_len)
        connection_close(c);
}

void connection_follow(struct connection *c, enum http_next next)
{
    if (next == HTTP_WAIT) {
        connection_enter(c, STATE_HANDLING);
    } else if (next == HTTP_READ) {
        buf_init(&c->exchange.body, max_of(c->exchange.body_max, (size_t)1));
        connection_enter(c, STATE_BODY);
        connection_say_continue(c);
    } else if (c->body_ended) {
        connection_answer(c);
    } else if (c->parser.expects_continue || c->parser.length > DROP_MAX) {
        c->close_after = true;
        connection_answer(c);
    } else {
        c->body_dropped = true;
        connection_enter(c, STATE_BODY);
    }
}

static void connection_open_exchange(struct connection *c)
{
    struct str text = { c->in, c->parser.bytes };
    c->exchange = (struct http_exchange){ .head = &c->parser,
                                          .text = text,
                                          .method = http_span_str(c->parser.method, text),
                                          .target = http_span_str(c->parser.target, text),
                                          .client = c->client };
    c->is_open = true;
    c->in_used = c->parser.bytes;
    c->chunks = (struct http_chunks){ 0 };
    c->body_seen = 0;
    c->body_dropped = false;
    c->body_ended = !http_has_body(&c->parser);
    c->close_after = !http_keeps_alive(&c->parser);
}

static void connection_refuse_head(struct connection *c)
{
    const struct http_parse_limits *l = c->parser.limits;
    enum http_bad bad = c->parser.bad;
    size_t max = bad == HTTP_BAD_LINE_LONG ? l->line_max : bad == HTTP_BAD_HEADERS_LONG ? l->headers_max : 0;
    char text[200];
    if (max)
        snprintf(text, sizeof text, "%s; at most %zu KiB are allowed", http_bad_text(bad), max / 1024);
    else
        snprintf(text, sizeof text, "%s", http_bad_text(bad));
    connection_log_unreadable(c, text);
    connection_refuse(c, http_bad_status(bad), text);
}

bool connection_step_head(struct connection *c)
{
    const struct http_server *s = c->thread->server;
    enum http_parse got = http_parse_head(&c->parser, (struct str){ c->in, c->in_n });
    if (got == HTTP_PARSE_MORE) {
        connection_want(c, UV_READABLE);
        return false;
    }
    if (got == HTTP_PARSE_BAD) {
        connection_refuse_head(c);
        return true;
    }
    connection_open_exchange(c);
    connection_follow(c, s->setup.handler->on_head(s->setup.context, &c->exchange));
    return true;
}

/* Sends answers: the first line and our headers, the handler's headers and the body are three pieces of one write, so
 * that the body is not copied. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/internal.h"

enum { COUNTED_MIN = 16 * 1024 /* smaller answers are not counted: the number of connections limits them */ };

static const struct {
    int status;
    const char *text;
} reasons[] = {
    { 200, "OK" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 204, "No Content" },
    { 302, "Found" },
    { 304, "Not Modified" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 409, "Conflict" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 417, "Expectation Failed" },
    { 421, "Misdirected Request" },
    { 422, "Unprocessable Content" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 503, "Service Unavailable" },
    { 505, "HTTP Version Not Supported" },
};

static const char *reason_of(int status)
{
    for (size_t i = 0; i < array_count(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "Other";
}

void http_answer_add(struct http_answer *a, const char *name, const char *value)
{
    if (!value || !value[0])
        return;
    buf_text(a->fields, name);
    buf_add(a->fields, S(": "));
    buf_text(a->fields, value);
    buf_add(a->fields, S("\r\n"));
}

void http_answer_set_body(struct http_answer *a, struct buf *body)
{
    bool has_slack = body->n > COUNTED_MIN && body->cap - body->n > body->n / 8; /* it may have to wait for long */
    a->body_bytes = body->n;
    a->body = buf_take(body);
    if (has_slack)
        a->body = xrealloc(a->body, a->body_bytes);
}

/* ---- the head ---- */

static void connection_write_begin(struct connection *c, const struct http_answer *a)
{
    char length[48] = "";
    bool has_length = a->status != 204 && a->status != 304 && !c->stream;
    const char *keep = c->close_after ? "Connection: close\r\n" : c->parser.is_old ? "Connection: keep-alive\r\n" : "";
    if (has_length)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", a->body_bytes);
    else if (c->stream && !c->parser.is_old)
        snprintf(length, sizeof length, "Transfer-Encoding: chunked\r\n");
    int n = snprintf(c->begin, sizeof c->begin, "HTTP/1.1 %d %s\r\nDate: %s\r\n%s%s", a->status, reason_of(a->status),
                     http_thread_date(c->thread), length, keep);
    assert(n > 0 && (size_t)n < sizeof c->begin);
    c->begin_n = (size_t)n;
}

static void connection_send(struct connection *c, struct http_answer *a)
{
    bool is_head = str_eq(c->exchange.method, S("HEAD"));
    c->close_after |= a->close || c->thread->is_quiesced;
    if (c->stream)
        connection_begin_stream(c);
    connection_write_begin(c, a);
    buf_add(&c->fields, S("\r\n"));
    c->body = a->body;
    c->body_n = is_head ? 0 : a->body_bytes;
    c->sent = c->measured_sent = 0;
    connection_enter(c, STATE_WRITING);
    c->measured_ns = c->since_ns;
}

/* Takes what is not counted yet. */
static bool connection_count_answer(struct connection *c, size_t bytes)
{
    size_t uncounted = bytes > COUNTED_MIN && bytes > c->answer_counted ? bytes - c->answer_counted : 0;
    if (uncounted && !budget_take(&c->thread->server->answers, c->exchange.owner, uncounted))
        return false;
    c->answer_counted += uncounted;
    return true;
}

bool http_reserve_answer(struct http_exchange *x, size_t bytes)
{
    return connection_count_answer(container_of(x, struct connection, exchange), bytes);
}

void connection_answer(struct connection *c)
{
    struct http_server *s = c->thread->server;
    struct http_answer a = { .fields = &c->fields };
    buf_reset(&c->fields);
    s->setup.handler->on_answer(s->setup.context, &c->exchange, &a);
    if (c->stream) {
        free(take(a.body));
        a.body_bytes = 0;
    }
    if (!connection_count_answer(c, a.body_bytes)) {
        free(a.body);
        a = (struct http_answer){ .fields = &c->fields, .close = a.close };
        buf_reset(&c->fields);
        s->setup.handler->on_refuse(s->setup.context, 503, HTTP_NO_ROOM_FOR_ANSWER, &a);
    }
    connection_send(c, &a);
}

void connection_refuse(struct connection *c, int status, const char *text)
{
    const struct http_server *s = c->thread->server;
    struct http_answer a = { .fields = &c->fields, .close = true };
    buf_reset(&c->fields);
    s->setup.handler->on_refuse(s->setup.context, status, text, &a);
    connection_send(c, &a);
}

/* ---- writing ---- */

/* The answer was sent. The next request may have been received already. */
static void connection_finish(struct connection *c)
{
    if (connection_continue_stream(c))
        return;
    connection_end_exchange(c);
    connection_want(c, UV_READABLE);
    if (c->close_after) {
        c->transport.ops->end(&c->transport);
        c->body_seen = 0;
        connection_enter(c, STATE_LINGERING);
        return;
    }
    connection_begin_next(c);
}

/* The pieces that are not sent yet. */
static size_t connection_pieces(struct connection *c, struct iovec out[3])
{
    const struct iovec all[] = { { c->begin, c->begin_n }, { c->fields.p, c->fields.n }, { c->body, c->body_n } };
    size_t skip = c->sent, n = 0;
    for (size_t i = 0; i < array_count(all); i++) {
        size_t done = min_of(skip, all[i].iov_len);
        skip -= done;
        if (all[i].iov_len > done)
            out[n++] = (struct iovec){ (char *)all[i].iov_base + done, all[i].iov_len - done };
    }
    return n;
}

bool connection_step_write(struct connection *c)
{
    struct iovec pieces[3];
    size_t count = connection_pieces(c, pieces);
    ssize_t n = c->transport.ops->send(&c->transport, pieces, count);
    if (n == TRANSPORT_LATER) {
        connection_want_again(c);
        return false;
    }
    if (n < 0) {
        connection_close(c);
        return false;
    }
    c->sent += (size_t)n;
    if (c->sent == c->begin_n + c->fields.n + c->body_n)
        connection_finish(c);
    return true;
}

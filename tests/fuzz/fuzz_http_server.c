/* A connection from its first byte to its end, against a server whose handler does all that a handler may do. The first
 * bytes of the input say where it is split. Whatever comes: the answers are well formed and in order, nothing follows the
 * last one, every request that the handler has seen ends, and the server closes when the client has closed. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "http/stream.h"
#include "platform/clock_system.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Atomic size_t heads, ends, streams, stream_ends;

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* ---- the handler: the second character of the path says what it does ---- */

static char wish_of(const struct http_exchange *x)
{
    return x->target.n > 1 ? x->target.p[1] : 'a';
}

static enum http_next on_head(void *context, struct http_exchange *x)
{
    (void)context;
    heads++;
    x->body_max = 64;
    switch (wish_of(x)) {
    case 'n': return HTTP_ANSWER;
    case 'r': http_resume(x, HTTP_READ); return HTTP_WAIT;
    case 'w': http_resume(x, HTTP_ANSWER); return HTTP_WAIT;
    default: return HTTP_READ;
    }
}

static enum http_next on_body(void *context, struct http_exchange *x)
{
    (void)context;
    require(x->body.n <= x->body_max && !x->body.full);
    if (wish_of(x) != 'b')
        return HTTP_ANSWER;
    http_resume(x, HTTP_ANSWER);
    return HTTP_WAIT;
}

static void on_body_refused(void *context, struct http_exchange *x, enum http_refusal why)
{
    (void)context;
    (void)x;
    require(why == HTTP_BODY_TOO_LARGE);
}

/* ---- streams: s is written and ended at once, t is filled and ended when there is room, u ends with its client ---- */

struct source {
    struct http_stream *stream;
    char wish;
};

static void source_on_room(void *context)
{
    struct source *o = context;
    require(http_stream_write(o->stream, S("/")) == HTTP_STREAM_TAKEN);
    http_stream_end(o->stream);
    require(http_stream_write(o->stream, S("/")) == HTTP_STREAM_ENDED);
}

static void source_on_ended(void *context)
{
    struct source *o = context;
    require(http_stream_write(o->stream, S("/")) == HTTP_STREAM_ENDED);
    http_stream_unref(o->stream);
    free(o);
    stream_ends++;
}

static void source_begin(struct http_exchange *x)
{
    struct source *o = xnew(*o);
    struct http_stream_setup setup = { .context = o, .on_room = source_on_room, .on_ended = source_on_ended };
    o->wish = wish_of(x);
    o->stream = http_stream_open(x, &setup);
    require(o->stream);
    streams++;
    require(http_stream_write(o->stream, str_sub(x->target, 0, min_of(x->target.n, (size_t)50))) == HTTP_STREAM_TAKEN);
    while (o->wish == 't' && http_stream_write(o->stream, S("////////")) == HTTP_STREAM_TAKEN)
        continue;
    if (o->wish == 's')
        http_stream_end(o->stream);
}

static void on_answer(void *context, struct http_exchange *x, struct http_answer *ret)
{
    (void)context;
    if (wish_of(x) >= 's' && wish_of(x) <= 'u') {
        ret->status = 200;
        source_begin(x);
        return;
    }
    struct buf body;
    buf_init(&body, 4096);
    buf_add(&body, str_sub(x->target, 0, min_of(x->target.n, (size_t)100)));
    for (size_t i = 0; i < x->head->field_count; i++) /* the views are still valid */
        buf_add(&body, str_sub(http_span_str(x->head->fields[i].value, x->text), 0, 0));
    ret->status = wish_of(x) == '4' ? 204 : 200;
    ret->close = wish_of(x) == 'c';
    if (ret->status == 200)
        http_answer_set_body(ret, &body);
    buf_release(&body);
}

static void on_end(void *context, struct http_exchange *x)
{
    (void)context;
    (void)x;
    ends++;
}

static void on_refuse(void *context, int status, const char *text, struct http_answer *ret)
{
    (void)context;
    (void)text;
    ret->status = status;
}

/* ---- the client ---- */

static struct http_server *server_once(void)
{
    static const struct http_handler handler = {
        on_head, on_body, on_body_refused, on_answer, on_end, on_refuse, NULL
    };
    static struct http_server *server;
    struct http_server_setup setup = { .listen = "127.0.0.1:0",
                                       .clock = clock_system(),
                                       .handler = &handler,
                                       .limits = {
                                           .threads = 1, .headers_max = 1024, .uri_max = 1024, .stream_bytes = 64 } };
    struct error e;
    if (!server)
        require(http_server_new(&setup, &server, &e) == ERR_OK);
    return server;
}

/* Each thousand connections have another source address: a closed one keeps its port for a minute. */
static int client_socket(void)
{
    static uint32_t count;
    struct sockaddr_in from = { .sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + count++ / 1000 % 60000) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof from) == 0);
    return fd;
}

/* What follows the body of a stream. If the client has closed before the end of the stream, the body is cut. */
static struct str require_chunks(struct str text)
{
    for (;;) {
        char *end;
        const char *line = memmem(text.p, text.n, "\r\n", 2);
        if (!line)
            return S("");
        size_t size = strtoul(text.p, &end, 16), used = (size_t)(line - text.p) + 2;
        require(end == line && size <= 64);
        require(size == 0 || used + size >= text.n || text.p[used] == '/');
        text = str_sub(text, min_of(used + size + 2, text.n), text.n);
        if (size == 0)
            return text;
    }
}

static void require_answers(struct str text, size_t seen)
{
    size_t count = 0;
    bool closed = false;
    while (text.n) {
        const char *end = memmem(text.p, text.n, "\r\n\r\n", 4);
        require(end && !closed && str_starts(text, S("HTTP/1.1 ")));
        struct str head = str_sub(text, 0, (size_t)(end - text.p) + 4);
        const char *length = memmem(head.p, head.n, "Content-Length: ", 16);
        bool interim = str_starts(text, S("HTTP/1.1 100 "));
        closed = memmem(head.p, head.n, "Connection: close\r\n", 19);
        size_t body = length ? strtoul(length + 16, NULL, 10) : 0;
        count += !interim;
        text = str_sub(text, head.n, text.n);
        if (memmem(head.p, head.n, "\r\nTransfer-Encoding: chunked\r\n", 30)) {
            if (!str_starts(text, S("HTTP/"))) /* else it was HEAD */
                text = require_chunks(text);
            continue;
        }
        if (!length && closed && str_starts(text, S("/")))
            return;                               /* a stream for HTTP/1.0 */
        if (text.n && str_starts(text, S("/"))) { /* the answer to HEAD has a length but no body */
            require(body <= text.n);
            text = str_sub(text, body, text.n);
        }
    }
    require(count <= seen + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { SPLITS = 4 };
    static char got[(1 << 20) + 1]; /* with a NUL for strtoul */
    if (size < SPLITS || size > 8192)
        return 0;
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(http_server_port(server_once())),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    size_t before = heads, at = SPLITS, n = 0;
    int fd = client_socket();
    /* a fuzzer has a timer, whose signal may interrupt a call */
    if (connect(fd, (struct sockaddr *)&to, sizeof to))
        require(errno == EINTR && poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, 1000) == 1);
    for (size_t i = 0; i <= SPLITS && at < size; i++) {
        size_t piece = i < SPLITS ? min_of((size_t)data[i] + 1, size - at) : size - at;
        if (send(fd, data + at, piece, MSG_NOSIGNAL) < 0)
            break;
        at += piece;
    }
    shutdown(fd, SHUT_WR);
    for (ssize_t k;
         n < sizeof got - 1 && ((k = recv(fd, got + n, sizeof got - 1 - n, 0)) > 0 || (k < 0 && errno == EINTR));)
        n += (size_t)max_of(k, 0);
    close(fd);
    got[n] = '\0';
    require_answers((struct str){ got, n }, heads - before);
    while (ends != heads || streams != stream_ends) /* the connection may be closed a moment later */
        usleep(10);
    return 0;
}

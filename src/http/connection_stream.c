/* Streams on their connection. What was written since the last piece is sent as one chunk: its size is in c->begin, and
 * its bytes are in c->body. The next chunk is made when that one has been sent. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "http/internal.h"

enum { NS_PER_MS = 1000000, CHUNK_END = 2, LAST_CHUNK = 5 };

/* The kernel holds bytes for the client too. Without a limit, that may be megabytes for each client. */
void connection_begin_stream(struct connection *c)
{
    int bytes = (int)min_of(c->stream->max, (size_t)(1 << 20));
    setsockopt(c->transport.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    c->close_after |= c->parser.is_old;
    c->stream_is_last = false;
}

/* Makes the next piece of what was written. False: nothing was, and the stream goes on. */
static bool connection_take_piece(struct connection *c)
{
    struct http_stream *s = c->stream;
    bool is_chunked = !c->parser.is_old;
    struct buf piece;
    pthread_mutex_lock(&s->lock);
    piece = s->waiting;
    buf_init(&s->waiting, s->max);
    s->sending = piece.n;
    c->stream_is_last = s->is_ending;
    pthread_mutex_unlock(&s->lock);
    if (!piece.n && !c->stream_is_last)
        return false;
    c->begin_n = 0;
    buf_reset(&c->fields);
    if (is_chunked && piece.n) {
        c->begin_n = (size_t)snprintf(c->begin, sizeof c->begin, "%zx\r\n", piece.n);
        piece.max += CHUNK_END + LAST_CHUNK;
        buf_add(&piece, S("\r\n"));
    }
    if (is_chunked && c->stream_is_last) {
        piece.max += LAST_CHUNK;
        buf_add(&piece, S("0\r\n\r\n"));
    }
    c->body_n = piece.n;
    c->body = buf_take(&piece);
    return true;
}

bool connection_step_stream(struct connection *c)
{
    if (!connection_take_piece(c)) {
        connection_want(c, UV_DISCONNECT);
        return false;
    }
    c->sent = c->measured_sent = 0;
    connection_enter(c, STATE_SENDING);
    c->measured_ns = c->since_ns;
    return true;
}

/* The head or a piece was sent. */
bool connection_continue_stream(struct connection *c)
{
    struct http_stream *s = c->stream;
    if (!s || c->stream_is_last || str_eq(c->exchange.method, S("HEAD")))
        return false;
    free(take(c->body));
    c->body_n = 0;
    pthread_mutex_lock(&s->lock);
    s->sending = 0;
    bool has_room = s->wants_room && s->waiting.n == 0;
    s->wants_room &= !has_room;
    pthread_mutex_unlock(&s->lock);
    connection_enter(c, STATE_STREAMING);
    if (has_room && s->setup.on_room)
        s->setup.on_room(s->setup.context);
    return true;
}

void connection_resume_stream(struct http_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_queued = false;
    struct connection *c = s->connection;
    pthread_mutex_unlock(&s->lock);
    if (c->state == STATE_STREAMING) /* else it is looked at when the piece before it was sent */
        connection_run(c);
}

void connection_drop_stream(struct connection *c)
{
    struct http_stream *s = take(c->stream);
    struct http_thread *t = c->thread;
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->connection = NULL;
    pthread_mutex_lock(&t->lock);
    if (list_linked(&s->link))
        list_remove(&s->link);
    pthread_mutex_unlock(&t->lock);
    buf_release(&s->waiting);
    buf_init(&s->waiting, s->max);
    pthread_mutex_unlock(&s->lock);
    budget_give_back(&t->server->streams, c->exchange.owner, 1);
    s->setup.on_ended(s->setup.context);
    http_stream_unref(s);
}

/* ---- all streams of a thread ---- */

static void connection_say_quiet(struct connection *c)
{
    struct http_stream *s = c->stream;
    struct buf out;
    buf_init(&out, s->max);
    if (s->setup.on_quiet)
        s->setup.on_quiet(s->setup.context, &out);
    (void)http_stream_write(s, buf_str(&out)); /* nothing waits, so it fits */
    buf_release(&out);
    connection_enter(c, STATE_STREAMING); /* at the end of the list, even if nothing was written */
    connection_run(c);
}

void connections_keep_streams_alive(struct http_thread *t, bool is_known, int64_t now_ns)
{
    struct list *streams = &t->states[STATE_STREAMING][is_known];
    while (!list_empty(streams)) {
        struct connection *c = container_of(streams->next, struct connection, link);
        if (now_ns - c->since_ns < t->server->limits.keep_alive_ms * NS_PER_MS)
            return;
        connection_say_quiet(c);
    }
}

void connections_end_streams(struct http_thread *t)
{
    static const enum connection_state states[] = { STATE_WRITING, STATE_SENDING, STATE_STREAMING };
    for (size_t i = 0; i < array_count(states); i++)
        for (int is_known = 0; is_known < 2; is_known++)
            list_each (&t->states[states[i]][is_known], link) {
                struct connection *c = container_of(link, struct connection, link);
                if (!c->stream)
                    continue;
                http_stream_end(c->stream);
                c->close_after = true;
                connection_run(c);
            }
}

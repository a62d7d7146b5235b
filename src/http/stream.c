/* The part of a stream that all threads see. Its lock is taken before the lock of the thread's inbox. While
 * `connection` is set, the connection and its thread exist. */
#include "http/stream.h"

#include <assert.h>
#include <stdlib.h>

#include "http/internal.h"

struct http_stream *http_stream_open(struct http_exchange *x, const struct http_stream_setup *setup)
{
    struct connection *c = container_of(x, struct connection, exchange);
    struct http_server *server = c->thread->server;
    assert_owned(&c->thread->owner);
    assert(!c->stream && setup->on_ended);
    if (c->thread->is_quiesced || !budget_take(&server->streams, x->owner, 1))
        return NULL;
    struct http_stream *s = xnew(*s);
    s->setup = *setup;
    s->max = server->limits.stream_bytes;
    s->connection = c;
    atomic_init(&s->refs, 2); /* the connection's and the caller's */
    pthread_mutex_init(&s->lock, NULL);
    buf_init(&s->waiting, s->max);
    c->stream = s;
    return s;
}

/* Under the lock. */
static void http_stream_tell_thread(struct http_stream *s)
{
    struct http_thread *t = s->connection->thread;
    if (s->is_queued)
        return;
    s->is_queued = true;
    pthread_mutex_lock(&t->lock);
    list_push(&t->streams, &s->link);
    uv_async_send(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

enum http_stream_result http_stream_write(struct http_stream *s, struct str data)
{
    enum http_stream_result result = HTTP_STREAM_TAKEN;
    pthread_mutex_lock(&s->lock);
    size_t held = s->waiting.n + s->sending;
    if (!s->connection || s->is_ending) {
        result = HTTP_STREAM_ENDED;
    } else if (data.n > s->max - min_of(held, s->max)) {
        result = HTTP_STREAM_FULL;
        s->wants_room = true;
    } else if (data.n) {
        buf_add(&s->waiting, data);
        http_stream_tell_thread(s);
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

void http_stream_end(struct http_stream *s)
{
    pthread_mutex_lock(&s->lock);
    if (s->connection && !s->is_ending) {
        s->is_ending = true;
        http_stream_tell_thread(s);
    }
    pthread_mutex_unlock(&s->lock);
}

void http_stream_unref(struct http_stream *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) > 1)
        return;
    assert(!s->connection);
    buf_release(&s->waiting);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

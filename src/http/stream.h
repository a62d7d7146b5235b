#pragma once
/* http/stream.h - an answer whose body is not known in advance, such as server-sent events.
 *
 * The handler opens a stream in on_answer. From then on, any thread may write to it. The body is sent in chunks. A
 * client of HTTP/1.0 gets no chunks: its body ends with the connection.
 *
 * A stream holds at most stream_bytes (server.h) that the socket has not accepted. If a write does not fit, nothing of
 * it is taken, and the result says so. Then the source can fold: when there is room again (on_room), it writes only the
 * newest state. So a slow reader costs a fixed amount of memory.
 *
 * A stream ends
 * - when the source ends it;
 * - when the client closes the connection, or its sending side;
 * - when bytes wait, and the client reads more slowly than reader_rate;
 * - when the server is quiesced: the client gets the last chunk.
 *
 * No time limit applies to a stream for which no bytes wait. */
#include "http/server.h"

struct http_stream;

/* Called on the thread of the connection. Each of them but on_ended may write to the stream or end it. */
struct http_stream_setup {
    void *context;
    void (*on_room)(void *context); /* a write did not fit, and now all bytes have been sent. NULL: not told */
    /* Nothing was sent for keep_alive_ms. Adds bytes that the client ignores, so that proxies keep the connection.
     * NULL: there are none. */
    void (*on_quiet)(void *context, struct buf *out);
    void (*on_ended)(void *context); /* once, as the last call. Later writes give HTTP_STREAM_ENDED */
};

enum http_stream_result { HTTP_STREAM_TAKEN, HTTP_STREAM_FULL, HTTP_STREAM_ENDED };

/* In on_answer only: the answer is a stream, and its body is ignored. The caller gets a reference. NULL: there are too
 * many streams, in total or of x->owner, or the server is quiesced. Then no function of the setup is called. */
struct http_stream *http_stream_open(struct http_exchange *x, const struct http_stream_setup *setup) must_use;

/* Any thread that has a reference. The stream may have ended. */
enum http_stream_result http_stream_write(struct http_stream *s, struct str data);
void http_stream_end(struct http_stream *s);   /* after what was written */
void http_stream_unref(struct http_stream *s); /* does not end it; NULL is fine */

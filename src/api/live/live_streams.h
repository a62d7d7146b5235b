#pragma once
/* api/live/live_streams.h - the streams of live events, for the HTTP side of the API. */
#include "http/server.h"

struct live_stream;

/* In on_answer: from now on, the stream belongs to the connection. False: there are too many, or the server stops; the
 * stream is gone. The HTTP thread of the request. */
bool live_stream_open(struct live_stream *s, struct http_exchange *x) must_use;

/* The request ended before its stream was opened. Any thread; NULL is fine. */
void live_stream_cancel(struct live_stream *s);

#pragma once
/* cli/event_stream.h - reads server-sent events (the HTML standard), as the bytes come. Pure. */
#include "base/buf.h"

struct event_stream {
    /* Called for each event. False: the rest is not wanted. */
    bool (*on_event)(void *context, struct str name, struct str data);
    void *context;
    struct buf last_id; /* of the latest event that had one; survives a new connection */
    int64_t retry_ms;   /* after which pause the server wants the next connection; 0: it did not say */

    struct buf line, name, data, id; /* of the event that is being read */
    bool has_id, has_data, is_stopped;
};

void event_stream_init(struct event_stream *s);
void event_stream_release(struct event_stream *s);
void event_stream_begin(struct event_stream *s); /* a new connection: half an event of the last one is dropped */
/* False: on_event has said so, or a line is too long. */
bool event_stream_feed(struct event_stream *s, struct str bytes) must_use;

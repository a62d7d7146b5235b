#pragma once
/* events/redis/internal.h - the state and helpers that the files of the events on Redis share. */
#include "base/json/jsonw.h"
#include "base/map.h"
#include "broker/redis/connection.h"
#include "events/redis/events_redis.h"

enum { STREAMS = 16 };

/* The id of a stream entry: a time in milliseconds and a counter. */
struct stream_id {
    uint64_t ms, number;
};

struct place {
    uint64_t stream;
    struct stream_id id;
};

/* An event that was polled and not acknowledged. */
struct polled {
    uint64_t sequence;
    struct place place;
    bool may_repeat; /* polled before a reset: may be handed out once more */
};

struct stream {
    bool owned, closing; /* closing: to be released once all polled events of it are acknowledged */
    struct stream_id read;
    size_t out; /* events polled and not acknowledged */
};

struct events_redis {
    struct events base;
    struct redis_conn conn;
    struct buf message;
    char updater[UUID_TEXT + 1];
    char run_id[REDIS_RUN_MAX]; /* run id of the server that the streams were read from */
    uint64_t connect_count;     /* conn.connect_count at that time */
    struct stream streams[STREAMS];
    size_t owned, first; /* first: the stream that the next XREAD begins with */
    struct map by_sequence, by_place;
    uint64_t last;                     /* the last sequence assigned */
    int64_t renew_at_ms, reread_at_ms; /* when to renew ownership; when to read the streams from the start again */
};

static inline struct events_redis *events_redis_of(struct events *ev)
{
    return container_of(ev, struct events_redis, base);
}

static inline bool stream_id_less(struct stream_id a, struct stream_id b)
{
    return a.ms < b.ms || (a.ms == b.ms && a.number < b.number);
}

bool events_redis_parse_id(struct str text, struct stream_id *ret); /* parses "1770710400000-0" */
void events_redis_arg_stream(struct redis_conn *c, size_t stream);
enum err events_redis_await_replies(struct redis_conn *c, size_t n, struct error *e) must_use;
void events_redis_clear_polled(struct events_redis *ev);

enum err events_redis_poll(struct events *base, size_t max, int64_t wait_ms, struct arena *a, struct event_list *ret,
                           struct error *e) must_use;
enum err events_redis_ack(struct events *base, const uint64_t *sequences, size_t n, struct error *e) must_use;
enum err events_redis_reset(struct events *base, struct error *e) must_use;
void events_redis_leave(struct events_redis *ev);

/* Events on Redis: STREAMS streams. The hash of a task's id selects its stream, so all events of a task are in one
 * stream.
 *
 * A stream holds the events that are not acknowledged: an ack deletes the entry. Each stream is read by one updater
 * at a time. The updater owns the stream for OWN_MS and renews that with its polls (events_redis.lua). So a task's
 * events come in order and to one updater at a time. If the updater dies, another owns the stream after OWN_MS and
 * reads it from its start. Therefore no consumer group and no claiming of single entries is needed.
 *
 * An updater remembers which events it has polled (`polled`) and how far it has read each stream. If it loses a
 * stream, it drops that. A failover can restore an older state of a stream, with reused ids. Therefore the streams
 * are read from their start from time to time, and events that were polled already are skipped. */
#include <stdio.h>
#include <stdlib.h>

#include "events/redis/internal.h"
#include "port/crypto.h"
#include "port/event_message.h"

enum { PUBLISH_BYTES = 4 << 20 };

/* ---- publishing ---- */

static size_t events_redis_stream_of(const struct event *event)
{
    const struct uuid *about = event->kind == EVENT_WORKER ? &event->worker.id : &event->task.id;
    return hash_bytes(HASH_STABLE, uuid_bytes(about)) % STREAMS;
}

void events_redis_arg_stream(struct redis_conn *c, size_t stream)
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, ":e:%zu", stream);
    redis_arg_key(c, suffix);
}

static void events_redis_append(struct events_redis *ev, const struct event *event)
{
    struct jw w;
    buf_reset(&ev->message);
    jw_init(&w, &ev->message);
    event_write(&w, event);
    redis_command_begin(&ev->conn);
    redis_arg_text(&ev->conn, "XADD");
    events_redis_arg_stream(&ev->conn, events_redis_stream_of(event));
    redis_arg_text(&ev->conn, "*");
    redis_arg_text(&ev->conn, "e");
    redis_arg_str(&ev->conn, buf_str(&ev->message));
    redis_command_end(&ev->conn);
}

/* Reads n replies and drops them. */
enum err events_redis_await_replies(struct redis_conn *c, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        cleanup_with(redis_reply_free) redisReply *reply = NULL;
        if (redis_reply_next(c, 0, &reply, e))
            return e->code;
    }
    return ERR_OK;
}

static enum err events_redis_publish(struct events *base, const struct event *v, size_t n, struct error *e)
{
    struct events_redis *ev = events_redis_of(base);
    if (redis_connect(&ev->conn, e))
        return e->code;
    for (size_t done = 0; done < n;) {
        size_t from = done;
        for (; done < n && ev->conn.out.n < PUBLISH_BYTES; done++)
            events_redis_append(ev, &v[done]);
        if (events_redis_await_replies(&ev->conn, done - from, e))
            return e->code;
    }
    return ERR_OK;
}

/* ---- barriers ---- */

struct events_redis_position {
    struct stream_id last[STREAMS];
};
_Static_assert(sizeof(struct events_redis_position) <= sizeof(struct events_barrier),
               "a mark has room for all streams");

/* Reads the id of the first or last entry of each stream; `otherwise` for an empty stream. */
static enum err events_redis_read_ends(struct events_redis *ev, const char *verb, const char *from, const char *to,
                                       struct stream_id otherwise, struct stream_id ret[STREAMS], struct error *e)
{
    if (redis_connect(&ev->conn, e))
        return e->code;
    for (size_t i = 0; i < STREAMS; i++) {
        redis_command_begin(&ev->conn);
        redis_arg_text(&ev->conn, verb);
        events_redis_arg_stream(&ev->conn, i);
        redis_arg_text(&ev->conn, from);
        redis_arg_text(&ev->conn, to);
        redis_arg_text(&ev->conn, "COUNT");
        redis_arg_text(&ev->conn, "1");
        redis_command_end(&ev->conn);
    }
    for (size_t i = 0; i < STREAMS; i++) {
        cleanup_with(redis_reply_free) redisReply *reply = NULL;
        if (redis_reply_next(&ev->conn, 0, &reply, e))
            return e->code;
        ret[i] = otherwise;
        if (reply_count(reply) && (reply_count(reply->element[0]) == 0 ||
                                   !events_redis_parse_id(reply_str(reply->element[0]->element[0]), &ret[i])))
            return redis_unexpected_reply(e, verb);
    }
    return ERR_OK;
}

static enum err events_redis_barrier(struct events *base, struct events_barrier *ret, struct error *e)
{
    struct events_redis_position m = { 0 };
    if (events_redis_read_ends(events_redis_of(base), "XREVRANGE", "+", "-", (struct stream_id){ 0 }, m.last, e))
        return e->code;
    *ret = (struct events_barrier){ 0 };
    memcpy(ret->bytes, &m, sizeof m);
    return ERR_OK;
}

static enum err events_redis_barrier_passed(struct events *base, const struct events_barrier *barrier, bool *ret,
                                            struct error *e)
{
    struct events_redis_position m;
    struct stream_id first[STREAMS];
    memcpy(&m, barrier->bytes, sizeof m);
    if (events_redis_read_ends(events_redis_of(base), "XRANGE", "-", "+", (struct stream_id){ UINT64_MAX, UINT64_MAX },
                               first, e))
        return e->code;
    bool all = true;
    for (size_t i = 0; i < STREAMS; i++)
        all = all && stream_id_less(m.last[i], first[i]);
    *ret = all;
    return ERR_OK;
}

/* ---- opening and closing ---- */

static size_t events_redis_depth(struct events *base)
{
    return events_redis_of(base)->by_sequence.n;
}

static void events_redis_free(struct events *base)
{
    struct events_redis *ev = events_redis_of(base);
    events_redis_leave(ev);
    events_redis_clear_polled(ev);
    map_release(&ev->by_sequence);
    map_release(&ev->by_place);
    redis_conn_release(&ev->conn);
    buf_release(&ev->message);
    free(ev);
}

enum err events_redis_open(const struct redis_setup *setup, struct events **ret, struct error *e)
{
    static const struct events_ops ops = { events_redis_publish, events_redis_poll,    events_redis_ack,
                                           events_redis_reset,   events_redis_barrier, events_redis_barrier_passed,
                                           events_redis_depth,   events_redis_free };
    struct events_redis *ev = xnew(*ev);
    ev->base.ops = &ops;
    if (redis_conn_init(&ev->conn, setup, redis_script_text("events_redis.lua"), e)) {
        free(ev);
        return e->code;
    }
    struct uuid_gen ids;
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    uuid_gen_init(&ids, seed);
    uuid_format(uuid_next(&ids, clock_wall_ms(setup->clock)), ev->updater);
    buf_init(&ev->message, EVENT_TEXT_MAX);
    map_init(&ev->by_sequence, HASH_STABLE);
    map_init(&ev->by_place, HASH_STABLE);
    *ret = &ev->base;
    return ERR_OK;
}

/* Events on Redis, as an updater uses them: owning streams, reading them, acknowledging. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "events/redis/internal.h"
#include "port/event_message.h"

enum { OWN_MS = 4000, OWN_AGAIN_MS = 1000, READ_AGAIN_MS = 5000, ACK_CALL = 1000 };

/* ---- polled events ---- */

bool events_redis_parse_id(struct str text, struct stream_id *ret)
{
    struct str ms;
    int64_t a, b;
    if (!str_cut(&text, '-', &ms) || !str_to_i64(ms, 0, INT64_MAX, &a) || !str_to_i64(text, 0, INT64_MAX, &b))
        return false;
    *ret = (struct stream_id){ (uint64_t)a, (uint64_t)b };
    return true;
}

static struct str events_redis_place_bytes(const struct place *p)
{
    _Static_assert(sizeof *p == 24, "no gap in what is hashed");
    return (struct str){ (const char *)p, sizeof *p };
}

static struct str events_redis_sequence_bytes(const uint64_t *sequence)
{
    return (struct str){ (const char *)sequence, sizeof *sequence };
}

static void events_redis_remove_polled(struct events_redis *ev, struct polled *p)
{
    map_remove(&ev->by_sequence, events_redis_sequence_bytes(&p->sequence));
    map_remove(&ev->by_place, events_redis_place_bytes(&p->place));
    ev->streams[p->place.stream].out--;
    free(p);
}

static void events_redis_add_polled(struct events_redis *ev, const struct place *place)
{
    struct polled *p = xnew(*p);
    *p = (struct polled){ ++ev->last, *place, false };
    map_put(&ev->by_sequence, events_redis_sequence_bytes(&p->sequence), p);
    map_put(&ev->by_place, events_redis_place_bytes(&p->place), p);
    ev->streams[place->stream].out++;
}

void events_redis_clear_polled(struct events_redis *ev)
{
    map_each (&ev->by_sequence, slot)
        free(slot->value);
    map_release(&ev->by_sequence);
    map_release(&ev->by_place);
    map_init(&ev->by_sequence, HASH_STABLE);
    map_init(&ev->by_place, HASH_STABLE);
    for (size_t i = 0; i < STREAMS; i++)
        ev->streams[i].out = 0;
}

static void events_redis_clear_stream(struct events_redis *ev, size_t stream)
{
    size_t n = 0, out = ev->streams[stream].out;
    struct polled **v = xcalloc(out + 1, sizeof *v);
    map_each (&ev->by_sequence, slot)
        if (((struct polled *)slot->value)->place.stream == stream && n < out)
            v[n++] = slot->value;
    for (size_t i = 0; i < n; i++)
        events_redis_remove_polled(ev, v[i]);
    free(v);
}

/* ---- ownership of streams ---- */

static void events_redis_own_call_begin(struct events_redis *ev, const char *verb)
{
    redis_command_begin(&ev->conn);
    redis_arg_text(&ev->conn, verb);
    redis_arg_text(&ev->conn, ev->updater);
}

static enum err events_redis_release_streams(struct events_redis *ev, const size_t *v, size_t n, struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    events_redis_own_call_begin(ev, "leave");
    for (size_t i = 0; i < n; i++)
        redis_arg_i64(&ev->conn, (int64_t)v[i]);
    return redis_run_script(&ev->conn, ":e", &reply, e);
}

/* A newly owned stream is read from its start. The polled events of a lost stream are dropped: its new owner reads
 * them. */
static void events_redis_set_owned(struct events_redis *ev, const bool has[STREAMS])
{
    ev->owned = 0;
    for (size_t i = 0; i < STREAMS; i++) {
        struct stream *s = &ev->streams[i];
        if (!has[i] && s->owned)
            events_redis_clear_stream(ev, i);
        if (has[i] != s->owned)
            *s = (struct stream){ .owned = has[i], .out = s->out };
        ev->owned += has[i];
    }
}

/* Releases the streams beyond this updater's share: at once, or when all polled events of it are acknowledged. */
static enum err events_redis_release_surplus(struct events_redis *ev, size_t share, struct error *e)
{
    size_t leaving[STREAMS], n = 0, keep = 0;
    for (size_t i = 0; i < STREAMS; i++) {
        struct stream *s = &ev->streams[i];
        if (!s->owned || keep++ < share) {
            s->closing = false;
            continue;
        }
        s->closing = s->out > 0;
        if (!s->closing)
            leaving[n++] = i;
    }
    if (n == 0)
        return ERR_OK;
    if (events_redis_release_streams(ev, leaving, n, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        ev->streams[leaving[i]] = (struct stream){ 0 };
    ev->owned -= n;
    return ERR_OK;
}

static enum err events_redis_own_streams(struct events_redis *ev, struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    bool has[STREAMS] = { 0 };
    int64_t share, number;
    events_redis_own_call_begin(ev, "own");
    redis_arg_i64(&ev->conn, OWN_MS);
    redis_arg_i64(&ev->conn, STREAMS);
    if (redis_run_script(&ev->conn, ":e", &reply, e))
        return e->code;
    if (reply_count(reply) != 2 || !reply_i64(reply->element[0], &share) || share < 1)
        return redis_unexpected_reply(e, "own");
    for (size_t i = 0; i < reply_count(reply->element[1]); i++) {
        if (!reply_i64(reply->element[1]->element[i], &number) || number < 0 || number >= STREAMS)
            return redis_unexpected_reply(e, "own");
        has[number] = true;
    }
    events_redis_set_owned(ev, has);
    ev->renew_at_ms = clock_steady_ms(ev->conn.clock) + OWN_AGAIN_MS;
    return events_redis_release_surplus(ev, (size_t)share, e);
}

static void events_redis_read_from_start(struct events_redis *ev)
{
    for (size_t i = 0; i < STREAMS; i++)
        ev->streams[i].read = (struct stream_id){ 0 };
    ev->reread_at_ms = clock_steady_ms(ev->conn.clock) + READ_AGAIN_MS;
}

/* Connects, and catches up with changes. Another server, or a restarted one, may reuse ids: the polled events are
 * dropped, and come again. */
static enum err events_redis_refresh(struct events_redis *ev, struct error *e)
{
    if (redis_connect(&ev->conn, e))
        return e->code;
    int64_t now_ms = clock_steady_ms(ev->conn.clock);
    if (strcmp(ev->run_id, ev->conn.run_id) != 0) {
        events_redis_clear_polled(ev);
        memcpy(ev->run_id, ev->conn.run_id, sizeof ev->run_id);
    }
    if (ev->connect_count != ev->conn.connect_count) {
        ev->connect_count = ev->conn.connect_count;
        ev->renew_at_ms = now_ms;
        events_redis_read_from_start(ev);
    }
    if (now_ms >= ev->reread_at_ms)
        events_redis_read_from_start(ev);
    return now_ms >= ev->renew_at_ms ? events_redis_own_streams(ev, e) : ERR_OK;
}

void events_redis_leave(struct events_redis *ev)
{
    size_t mine[STREAMS], n = 0;
    struct error ignored;
    for (size_t i = 0; i < STREAMS; i++)
        if (ev->streams[i].owned)
            mine[n++] = i;
    if (!ev->conn.link || ev->conn.pending_replies || !ev->run_id[0])
        return; /* not connected: ownership expires by itself */
    if (n == 0 || events_redis_release_streams(ev, mine, n, &ignored) == ERR_OK)
        (void)!events_redis_release_streams(ev, NULL, 0, &ignored);
}

/* ---- reading ---- */

struct reading {
    struct arena *arena;
    struct event_list found;
    size_t max, cap;
    bool full; /* the arena has no room, or max is reached */
    struct place unreadable[64];
    size_t unreadable_count;
    struct error why; /* why the event was not read */
};

static bool events_redis_is_read(const struct stream *s)
{
    return s->owned && !s->closing;
}

/* XREAD COUNT n [BLOCK ms] STREAMS … ids …; false: there is no stream to read. */
static bool events_redis_send_xread(struct events_redis *ev, size_t max, int64_t block_ms)
{
    size_t v[STREAMS], n = 0;
    for (size_t i = 0; i < STREAMS; i++)
        if (events_redis_is_read(&ev->streams[(ev->first + i) % STREAMS]))
            v[n++] = (ev->first + i) % STREAMS;
    if (n == 0)
        return false;
    ev->first = (v[0] + 1) % STREAMS;
    redis_command_begin(&ev->conn);
    redis_arg_text(&ev->conn, "XREAD");
    redis_arg_text(&ev->conn, "COUNT");
    redis_arg_i64(&ev->conn, (int64_t)((max + n - 1) / n));
    if (block_ms > 0) {
        redis_arg_text(&ev->conn, "BLOCK");
        redis_arg_i64(&ev->conn, block_ms);
    }
    redis_arg_text(&ev->conn, "STREAMS");
    for (size_t i = 0; i < n; i++)
        events_redis_arg_stream(&ev->conn, v[i]);
    for (size_t i = 0; i < n; i++) {
        char id[48];
        const struct stream_id *read = &ev->streams[v[i]].read;
        snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)read->ms, (unsigned long long)read->number);
        redis_arg_text(&ev->conn, id);
    }
    redis_command_end(&ev->conn);
    return true;
}

/* Whether the event was not polled yet, or may be polled again. */
static bool events_redis_is_wanted(const struct events_redis *ev, const struct place *place)
{
    const struct polled *p = map_get(&ev->by_place, events_redis_place_bytes(place));
    return !p || p->may_repeat;
}

static uint64_t events_redis_hand_out(struct events_redis *ev, const struct place *place)
{
    struct polled *p = map_get(&ev->by_place, events_redis_place_bytes(place));
    if (!p) {
        events_redis_add_polled(ev, place);
        return ev->last;
    }
    p->may_repeat = false;
    return p->sequence;
}

static enum err events_redis_read_one(struct events_redis *ev, struct reading *r, const struct place *place,
                                      struct str text)
{
    if (r->found.n == r->max)
        return ERR_LIMIT;
    if (!r->found.v) {
        r->found.v = arena_alloc(r->arena, r->max * sizeof *r->found.v);
        if (!r->found.v)
            return error_set(&r->why, ERR_LIMIT, "the events are more than the memory set aside for them");
    }
    struct arena_mark before = arena_mark(r->arena);
    struct event event;
    enum err rc = event_read(r->arena, text, &event, &r->why);
    if (rc == ERR_OK) {
        event.sequence = events_redis_hand_out(ev, place);
        r->found.v[r->found.n++] = event;
        return ERR_OK;
    }
    arena_rewind(r->arena, before);
    return rc;
}

/* An entry is an id and a list of fields; the field `e` holds the event. */
static struct str events_redis_entry_text(const redisReply *entry)
{
    if (reply_count(entry) != 2 || reply_count(entry->element[1]) != 2 ||
        !str_eq(reply_str(entry->element[1]->element[0]), S("e")))
        return S("");
    return reply_str(entry->element[1]->element[1]);
}

/* Skips an unreadable event for good: no later reader could read it either. */
static bool events_redis_skip(struct reading *r, const struct place *place)
{
    if (r->unreadable_count == array_count(r->unreadable))
        return false;
    log_warn("event_unreadable", kv_u64("stream", place->stream), kv_u64("id_ms", place->id.ms), kv_err(&r->why));
    r->unreadable[r->unreadable_count++] = *place;
    return true;
}

static void events_redis_read_stream(struct events_redis *ev, struct reading *r, size_t stream,
                                     const redisReply *entries)
{
    struct place place = { .stream = stream };
    for (size_t i = 0; i < reply_count(entries) && !r->full; i++) {
        const redisReply *entry = entries->element[i];
        if (reply_count(entry) == 0 || !events_redis_parse_id(reply_str(entry->element[0]), &place.id))
            return;
        if (events_redis_is_wanted(ev, &place)) {
            enum err rc = events_redis_read_one(ev, r, &place, events_redis_entry_text(entry));
            r->full = rc == ERR_LIMIT || (rc && !events_redis_skip(r, &place));
            if (r->full)
                return;
        }
        ev->streams[stream].read = place.id;
    }
}

/* Reads the stream number behind the last colon of a key. */
static bool events_redis_read_key(struct str key, size_t *ret)
{
    size_t from = key.n;
    int64_t number;
    while (from > 0 && key.p[from - 1] != ':')
        from--;
    if (!str_to_i64(str_sub(key, from, key.n), 0, STREAMS - 1, &number))
        return false;
    *ret = (size_t)number;
    return true;
}

static void events_redis_delete_entry(struct events_redis *ev, const struct place *place)
{
    char id[48];
    redis_command_begin(&ev->conn);
    redis_arg_text(&ev->conn, "XDEL");
    events_redis_arg_stream(&ev->conn, place->stream);
    snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)place->id.ms, (unsigned long long)place->id.number);
    redis_arg_text(&ev->conn, id);
    redis_command_end(&ev->conn);
}

static void events_redis_delete_unreadable(struct events_redis *ev, struct reading *r)
{
    struct error ignored; /* if this fails, the next read skips them again */
    for (size_t i = 0; i < r->unreadable_count; i++)
        events_redis_delete_entry(ev, &r->unreadable[i]);
    (void)!events_redis_await_replies(&ev->conn, r->unreadable_count, &ignored);
    r->unreadable_count = 0;
}

/* Reads the reply of one XREAD. *ret_entries: number of entries, skipped ones included. */
static enum err events_redis_read_once(struct events_redis *ev, struct reading *r, int64_t block_ms,
                                       size_t *ret_entries, struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    *ret_entries = 0;
    if (redis_reply_next(&ev->conn, block_ms, &reply, e))
        return e->code;
    for (size_t i = 0; i < reply_count(reply); i++) {
        const redisReply *one = reply->element[i];
        size_t stream;
        if (reply_count(one) != 2 || !events_redis_read_key(reply_str(one->element[0]), &stream))
            return redis_unexpected_reply(e, "XREAD");
        *ret_entries += reply_count(one->element[1]);
        events_redis_read_stream(ev, r, stream, one->element[1]);
    }
    events_redis_delete_unreadable(ev, r);
    return ERR_OK;
}

static void events_redis_sleep(int64_t ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

enum err events_redis_poll(struct events *base, size_t max, int64_t wait_ms, struct arena *a, struct event_list *ret,
                           struct error *e)
{
    struct events_redis *ev = events_redis_of(base);
    struct reading r = { .arena = a, .max = max };
    struct clock *clock = ev->conn.clock;
    int64_t end_ms = clock_steady_ms(clock) + wait_ms;
    for (;;) {
        if (events_redis_refresh(ev, e))
            return e->code;
        int64_t left = max_of(end_ms - clock_steady_ms(clock), (int64_t)0);
        int64_t block_ms = min_of(left, max_of(ev->renew_at_ms - clock_steady_ms(clock), (int64_t)1));
        size_t entries = 0;
        if (events_redis_send_xread(ev, max, block_ms)) {
            if (events_redis_read_once(ev, &r, block_ms, &entries, e))
                return e->code;
        } else if (left) {
            events_redis_sleep(block_ms); /* all streams are owned by other updaters */
        }
        if (r.found.n || r.full || (entries == 0 && left == 0))
            break;
    }
    if (r.found.n == 0 && r.full && r.why.code == ERR_LIMIT)
        return *e = r.why, e->code;
    *ret = r.found;
    return ERR_OK;
}

/* ---- acknowledging ---- */

static void events_redis_forget_polled(struct events_redis *ev, const uint64_t *sequences, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct polled *p = map_get(&ev->by_sequence, events_redis_sequence_bytes(&sequences[i]));
        if (p)
            events_redis_remove_polled(ev, p);
    }
}

/* Nobody repeats an acknowledgement that failed: its events come again, to this updater or to the next owner of their
 * stream. A stream that is to be released would wait for them for ever. */
static enum err events_redis_ack_failed(struct events_redis *ev, const uint64_t *sequences, size_t n, enum err rc)
{
    events_redis_forget_polled(ev, sequences, n);
    events_redis_read_from_start(ev);
    return rc;
}

enum err events_redis_ack(struct events *base, const uint64_t *sequences, size_t n, struct error *e)
{
    struct events_redis *ev = events_redis_of(base);
    if (redis_connect(&ev->conn, e))
        return events_redis_ack_failed(ev, sequences, n, e->code);
    for (size_t done = 0; done < n;) {
        size_t from = done, pending_replies = 0;
        for (; done < n && pending_replies < ACK_CALL; done++) {
            const struct polled *p = map_get(&ev->by_sequence, events_redis_sequence_bytes(&sequences[done]));
            if (!p)
                continue;
            events_redis_delete_entry(ev, &p->place);
            pending_replies++;
        }
        if (events_redis_await_replies(&ev->conn, pending_replies, e))
            return events_redis_ack_failed(ev, sequences + from, n - from, e->code);
        events_redis_forget_polled(ev, sequences + from, done - from);
    }
    return ERR_OK;
}

enum err events_redis_reset(struct events *base, struct error *e)
{
    (void)e;
    struct events_redis *ev = events_redis_of(base);
    map_each (&ev->by_sequence, slot)
        ((struct polled *)slot->value)->may_repeat = true;
    events_redis_read_from_start(ev);
    return ERR_OK;
}

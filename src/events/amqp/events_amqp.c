/* Events on RabbitMQ: one queue that delivers to one updater at a time (x-single-active-consumer). So the events of
 * each task stay in order, and the other updaters stand by. If the active updater is gone, its unacknowledged events
 * go to the next one, in order.
 *
 * An event barrier is a message in the same queue. The active updater answers it when all events before it are
 * acknowledged. If the updater dies before that, it has not acknowledged the barrier, and the next updater answers
 * it.
 *
 * Events are in `entries` from their arrival until they are acknowledged, in the order of arrival. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "broker/amqp/declare.h"
#include "events/amqp/events_amqp.h"
#include "platform/clock_system.h"
#include "port/event_message.h"

enum {
    CHANNEL_MAIN = 1, /* deliveries on the link `poll`, publishing on the link `publish` */
    CHANNEL_CALLS = 2,
    CHANNEL_ANSWERS = 3, /* of the link `publish`: replies to barriers */
    PREFETCH = 1000,
    TAG_BITS = 40,     /* the low bits of a sequence are the delivery tag, the high bits the connection's generation */
    BARRIERS_MAX = 64, /* barriers that can be pending */
};
#define CONSUMER_EVENTS  "events"
#define CONSUMER_ANSWERS "answers"
#define TYPE_EVENT       "event"
#define TYPE_MARK        "mark"
#define TYPE_PASSED      "passed"

struct entry {
    struct list link;
    uint64_t sequence, tag;
    bool polled, acked, is_barrier;
    char barrier_id[RABBIT_WORD], reply_to[RABBIT_NAME];
    struct buf body;
};

struct pending_barrier {
    char id[UUID_TEXT + 1];
    uint64_t generation; /* of the connection that published it */
    bool passed;
};

struct events_amqp {
    struct events base;
    struct rabbit_url url;
    char id[UUID_TEXT + 1];
    char queue[RABBIT_NAME], dead[RABBIT_NAME], answers[RABBIT_NAME];
    struct rabbit_link poll, publish; /* each connects when it is needed */
    struct list entries;
    struct map by_sequence;
    struct pending_barrier barriers[BARRIERS_MAX];
    size_t barrier_next;
    struct uuid_gen ids;
    struct buf text;
};

static struct events_amqp *events_amqp_of(struct events *ev)
{
    return container_of(ev, struct events_amqp, base);
}

static struct str events_amqp_key(const uint64_t *sequence)
{
    return (struct str){ (const char *)sequence, sizeof *sequence };
}

/* ---- connections and deliveries ---- */

static void events_amqp_entry_free(struct events_amqp *ev, struct entry *entry)
{
    map_remove(&ev->by_sequence, events_amqp_key(&entry->sequence));
    list_remove(&entry->link);
    buf_release(&entry->body);
    free(entry);
}

static void events_amqp_on_event(struct rabbit_link *l, struct rabbit_message *m)
{
    struct events_amqp *ev = l->owner;
    struct entry *entry = xnew(*entry);
    entry->tag = m->tag;
    entry->sequence = l->generation << TAG_BITS | m->tag;
    entry->is_barrier = strcmp(m->type, TYPE_MARK) == 0;
    memcpy(entry->barrier_id, m->message_id, sizeof entry->barrier_id);
    memcpy(entry->reply_to, m->reply_to, sizeof entry->reply_to);
    entry->body = m->body;
    m->body = (struct buf){ 0 };
    list_push(&ev->entries, &entry->link);
    map_put(&ev->by_sequence, events_amqp_key(&entry->sequence), entry);
}

/* The broker delivers unacknowledged events again. */
static void events_amqp_on_poll_closed(struct rabbit_link *l)
{
    struct events_amqp *ev = l->owner;
    while (!list_empty(&ev->entries))
        events_amqp_entry_free(ev, container_of(ev->entries.next, struct entry, link));
}

static enum err events_amqp_declare_all(struct events_amqp *ev, struct rabbit_link *l, struct error *e)
{
    return rabbit_open_channel(l, CHANNEL_CALLS, false, e) ||
                   rabbit_declare(l, CHANNEL_CALLS, ev->dead, RABBIT_KEPT, NULL, e) ||
                   rabbit_declare(l, CHANNEL_CALLS, ev->queue, RABBIT_ORDERED, NULL, e)
               ? e->code
               : ERR_OK;
}

static enum err events_amqp_on_poll_opened(struct rabbit_link *l, struct error *e)
{
    struct events_amqp *ev = l->owner;
    if (events_amqp_declare_all(ev, l, e) || rabbit_open_channel(l, CHANNEL_MAIN, false, e) ||
        rabbit_qos(l, CHANNEL_MAIN, PREFETCH, e))
        return e->code;
    l->channels[CHANNEL_MAIN].vital = true;
    return rabbit_consume(l, CHANNEL_MAIN, ev->queue, CONSUMER_EVENTS, false, e);
}

static struct pending_barrier *events_amqp_find_barrier(struct events_amqp *ev, const char *id)
{
    for (size_t i = 0; i < BARRIERS_MAX; i++)
        if (strcmp(ev->barriers[i].id, id) == 0)
            return &ev->barriers[i];
    return NULL;
}

static void events_amqp_on_answer(struct rabbit_link *l, struct rabbit_message *m)
{
    struct pending_barrier *b = events_amqp_find_barrier(l->owner, m->message_id);
    if (b && strcmp(m->type, TYPE_PASSED) == 0)
        b->passed = true;
}

static enum err events_amqp_on_publish_opened(struct rabbit_link *l, struct error *e)
{
    struct events_amqp *ev = l->owner;
    /* The generation is part of the name, because the queue of a broken connection may exist for a while. */
    rabbit_name(&ev->url, ev->answers, "answers.%s.%llu", ev->id, (unsigned long long)l->generation);
    if (events_amqp_declare_all(ev, l, e) || rabbit_open_channel(l, CHANNEL_ANSWERS, false, e) ||
        rabbit_declare(l, CHANNEL_ANSWERS, ev->answers, RABBIT_EXCLUSIVE, NULL, e) ||
        rabbit_consume(l, CHANNEL_ANSWERS, ev->answers, CONSUMER_ANSWERS, true, e) || rabbit_open_publisher(l, e))
        return e->code; /* the publisher is last: it may be blocked, and then no call is answered */
    l->channels[CHANNEL_MAIN].vital = l->channels[CHANNEL_ANSWERS].vital = true;
    return ERR_OK;
}

static const struct rabbit_hooks poll_hooks = { events_amqp_on_poll_opened, events_amqp_on_event,
                                                events_amqp_on_poll_closed };
static const struct rabbit_hooks publish_hooks = { events_amqp_on_publish_opened, events_amqp_on_answer, NULL };

/* ---- publishing ---- */

/* If the queue was deleted, closes the connection, so that the next one declares it. */
static enum err events_amqp_end_publish(struct events_amqp *ev, struct error *e)
{
    enum err rc = rabbit_publish_end(&ev->publish, e);
    if (rc == ERR_NOT_FOUND) {
        rc = e->code = ERR_UNAVAILABLE;
        rabbit_drop(&ev->publish, e);
    }
    return rc;
}

static enum err events_amqp_publish_one(struct events_amqp *ev, const struct event *event, struct error *e)
{
    struct jw w;
    buf_reset(&ev->text);
    jw_init(&w, &ev->text);
    event_write(&w, event);
    if (ev->text.full)
        return error_set(e, ERR_LIMIT, "an event is larger than %d MiB", EVENT_TEXT_MAX >> 20);
    const struct rabbit_envelope message = {
        .key = str_from(ev->queue), .body = buf_str(&ev->text), .type = TYPE_EVENT, .mandatory = true
    };
    return rabbit_publish(&ev->publish, &message, e);
}

static enum err events_amqp_publish(struct events *base, const struct event *v, size_t n, struct error *e)
{
    struct events_amqp *ev = events_amqp_of(base);
    if (rabbit_connect_to_publish(&ev->publish, e))
        return e->code;
    enum err rc = ERR_OK;
    rabbit_publish_begin(&ev->publish);
    rabbit_cork(&ev->publish, true);
    for (size_t i = 0; !rc && i < n; i++)
        rc = events_amqp_publish_one(ev, &v[i], e);
    rabbit_cork(&ev->publish, false);
    return rc ? rc : events_amqp_end_publish(ev, e);
}

/* ---- barriers ---- */

static enum err events_amqp_publish_barrier(struct events_amqp *ev, struct pending_barrier *m, struct error *e)
{
    const struct rabbit_envelope message = {
        .key = str_from(ev->queue), .type = TYPE_MARK, .message_id = m->id, .reply_to = ev->answers, .mandatory = true
    };
    rabbit_publish_begin(&ev->publish);
    if (rabbit_publish(&ev->publish, &message, e) || events_amqp_end_publish(ev, e))
        return e->code;
    m->generation = ev->publish.generation;
    return ERR_OK;
}

static struct pending_barrier *events_amqp_new_barrier(struct events_amqp *ev, const char *id)
{
    struct pending_barrier *m = &ev->barriers[ev->barrier_next++ % BARRIERS_MAX];
    *m = (struct pending_barrier){ 0 };
    snprintf(m->id, sizeof m->id, "%s", id);
    return m;
}

/* If no event waits and no updater consumes, every event is acknowledged: the barrier is passed, and no updater
 * would answer it. */
static enum err events_amqp_barrier(struct events *base, struct events_barrier *ret, struct error *e)
{
    struct events_amqp *ev = events_amqp_of(base);
    uint32_t ready = 0;
    char id[UUID_TEXT + 1];
    if (rabbit_connect_to_publish(&ev->publish, e) ||
        rabbit_declare(&ev->publish, CHANNEL_CALLS, ev->queue, RABBIT_ORDERED, &ready, e))
        return e->code;
    uuid_format(uuid_next(&ev->ids, clock_wall_ms(clock_system())), id);
    struct pending_barrier *m = events_amqp_new_barrier(ev, id);
    m->passed = ready == 0 && ev->publish.channels[CHANNEL_CALLS].consumers[0] == 0;
    if (!m->passed && events_amqp_publish_barrier(ev, m, e))
        return e->code;
    memset(ret->bytes, 0, sizeof ret->bytes);
    ret->bytes[0] = m->passed;
    memcpy(ret->bytes + 1, id, sizeof id);
    return ERR_OK;
}

/* If the connection that published the barrier is gone, the reply cannot arrive: the barrier is published again. It
 * is then later in the queue, so it still implies that all earlier events are acknowledged. */
static enum err events_amqp_barrier_passed(struct events *base, const struct events_barrier *barrier, bool *ret,
                                           struct error *e)
{
    struct events_amqp *ev = events_amqp_of(base);
    char id[UUID_TEXT + 1];
    memcpy(id, barrier->bytes + 1, sizeof id);
    id[UUID_TEXT] = '\0';
    if (barrier->bytes[0]) {
        *ret = true;
        return ERR_OK;
    }
    if (rabbit_connect_to_publish(&ev->publish, e))
        return e->code;
    struct pending_barrier *m = events_amqp_find_barrier(ev, id);
    if (!m)
        m = events_amqp_new_barrier(ev, id);
    if (!m->passed && m->generation != ev->publish.generation && events_amqp_publish_barrier(ev, m, e))
        return e->code;
    *ret = m->passed;
    return ERR_OK;
}

static enum err events_amqp_answer_barrier(struct events_amqp *ev, const struct entry *barrier, struct error *e)
{
    if (rabbit_connect_to_publish(&ev->publish, e))
        return e->code;
    rabbit_publish_begin(&ev->publish);
    const struct rabbit_envelope message = {
        .key = str_from(barrier->reply_to), .type = TYPE_PASSED, .message_id = barrier->barrier_id, .transient = true
    };
    return rabbit_publish(&ev->publish, &message, e) || rabbit_publish_end(&ev->publish, e) ? e->code : ERR_OK;
}

/* ---- polling ---- */

/* Sends acknowledgements: one for all finished entries at the front, barriers included, and one each for the others.
 * A barrier that cannot be answered now stays, and is answered the next time. */
static enum err events_amqp_send_acks(struct events_amqp *ev, struct error *e)
{
    struct error ignored = { 0 };
    uint64_t last = 0;
    while (!list_empty(&ev->entries)) {
        struct entry *entry = container_of(ev->entries.next, struct entry, link);
        if (!entry->acked && !(entry->is_barrier && events_amqp_answer_barrier(ev, entry, &ignored) == ERR_OK))
            break;
        last = entry->tag;
        events_amqp_entry_free(ev, entry);
    }
    if (last && rabbit_ack(&ev->poll, CHANNEL_MAIN, last, true, e))
        return e->code;
    list_each (&ev->entries, link) {
        struct entry *entry = container_of(link, struct entry, link);
        uint64_t tag = entry->tag;
        if (!entry->acked)
            continue;
        events_amqp_entry_free(ev, entry);
        if (rabbit_ack(&ev->poll, CHANNEL_MAIN, tag, false, e))
            return e->code;
    }
    return ERR_OK;
}

static struct entry *events_amqp_first_fresh(struct events_amqp *ev)
{
    list_each (&ev->entries, link) {
        struct entry *entry = container_of(link, struct entry, link);
        if (!entry->polled && !entry->is_barrier)
            return entry;
    }
    return NULL;
}

/* Rejects an unreadable event: it goes to the dead-letter queue. */
static enum err events_amqp_reject_unreadable(struct events_amqp *ev, struct entry *entry, const struct error *why,
                                              struct error *e)
{
    uint64_t tag = entry->tag;
    log_warn("event_unreadable", kv_cstr("queue", ev->queue), kv_cstr("moved_to", ev->dead), kv_err(why));
    events_amqp_entry_free(ev, entry);
    return rabbit_reject(&ev->poll, CHANNEL_MAIN, tag, false, e);
}

/* ERR_LIMIT: the arena has no room. */
static enum err events_amqp_read_one(struct events_amqp *ev, struct entry *entry, struct arena *a,
                                     struct event_list *found, struct error *e)
{
    struct error why = { 0 };
    struct arena_mark before = arena_mark(a);
    enum err rc = entry->body.full ? error_set(&why, ERR_CORRUPT, "it is too large")
                                   : event_read(a, buf_str(&entry->body), &found->v[found->n], &why);
    if (rc) {
        arena_rewind(a, before);
        return rc == ERR_LIMIT ? rc : events_amqp_reject_unreadable(ev, entry, &why, e);
    }
    found->v[found->n++].sequence = entry->sequence;
    entry->polled = true;
    return ERR_OK;
}

static enum err events_amqp_read_fresh(struct events_amqp *ev, size_t max, struct arena *a, struct event_list *found,
                                       bool *ret_full, struct error *e)
{
    list_each (&ev->entries, link) {
        struct entry *entry = container_of(link, struct entry, link);
        if (found->n == max)
            break;
        enum err rc = entry->polled || entry->is_barrier ? ERR_OK : events_amqp_read_one(ev, entry, a, found, e);
        *ret_full = rc == ERR_LIMIT;
        if (rc)
            return *ret_full ? ERR_OK : rc;
    }
    return ERR_OK;
}

static enum err events_amqp_wait_for_one(struct events_amqp *ev, int64_t wait_ms, struct error *e)
{
    int64_t end = rabbit_now_ms() + wait_ms;
    for (int64_t left = wait_ms; !events_amqp_first_fresh(ev) && left > 0; left = end - rabbit_now_ms())
        if (rabbit_pump(&ev->poll, left, e) || events_amqp_send_acks(ev, e)) /* barriers may have arrived */
            return e->code;
    return ERR_OK;
}

static enum err events_amqp_poll(struct events *base, size_t max, int64_t wait_ms, struct arena *a,
                                 struct event_list *ret, struct error *e)
{
    struct events_amqp *ev = events_amqp_of(base);
    bool full = false;
    if (rabbit_connect(&ev->poll, e) || events_amqp_send_acks(ev, e) || events_amqp_wait_for_one(ev, wait_ms, e))
        return e->code;
    struct event_list found = { 0 };
    size_t there = min_of(max, ev->by_sequence.n);
    if (there && !(found.v = arena_alloc(a, there * sizeof *found.v)))
        full = events_amqp_first_fresh(ev) != NULL;
    else if (events_amqp_read_fresh(ev, there, a, &found, &full, e))
        return e->code;
    if (full && found.n == 0)
        return error_set(e, ERR_LIMIT, "the next event is larger than the memory set aside for it");
    *ret = found;
    return ERR_OK;
}

/* The call of rabbit_qos makes the broker send all pending deliveries first, barriers included, so that barriers are
 * answered even if the updater does not poll. */
static enum err events_amqp_ack(struct events *base, const uint64_t *sequences, size_t n, struct error *e)
{
    struct events_amqp *ev = events_amqp_of(base);
    for (size_t i = 0; i < n; i++) {
        struct entry *entry = map_get(&ev->by_sequence, events_amqp_key(&sequences[i]));
        if (entry && !entry->is_barrier)
            entry->acked = true;
    }
    if (!ev->poll.state)
        return ERR_OK; /* events polled on a closed connection come again: nothing to do */
    return rabbit_qos(&ev->poll, CHANNEL_MAIN, PREFETCH, e) || events_amqp_send_acks(ev, e) ? e->code : ERR_OK;
}

static enum err events_amqp_reset(struct events *base, struct error *e)
{
    (void)e;
    list_each (&events_amqp_of(base)->entries, link)
        container_of(link, struct entry, link)->polled = false;
    return ERR_OK;
}

static size_t events_amqp_depth(struct events *base)
{
    return events_amqp_of(base)->by_sequence.n;
}

static void events_amqp_free(struct events *base)
{
    struct events_amqp *ev = events_amqp_of(base);
    rabbit_link_release(&ev->poll);
    rabbit_link_release(&ev->publish);
    map_release(&ev->by_sequence);
    rabbit_url_release(&ev->url);
    buf_release(&ev->text);
    free(ev);
}

enum err events_amqp_open(struct str url, struct events **ret, struct error *e)
{
    static const struct events_ops ops = { events_amqp_publish, events_amqp_poll,    events_amqp_ack,
                                           events_amqp_reset,   events_amqp_barrier, events_amqp_barrier_passed,
                                           events_amqp_depth,   events_amqp_free };
    struct rabbit_url parsed;
    if (rabbit_url_open(url, &parsed, e))
        return e->code;
    struct events_amqp *ev = xnew(*ev);
    ev->base.ops = &ops;
    ev->url = parsed;
    uuid_gen_init(&ev->ids, (uint64_t)clock_steady_ns(clock_system()) ^ (uint64_t)getpid() << 32 ^ (uintptr_t)ev);
    uuid_format(uuid_next(&ev->ids, clock_wall_ms(clock_system())), ev->id);
    rabbit_name(&ev->url, ev->queue, "events");
    rabbit_name(&ev->url, ev->dead, "dead");
    rabbit_link_init(&ev->poll, &ev->url, &poll_hooks, ev);
    rabbit_link_init(&ev->publish, &ev->url, &publish_hooks, ev);
    list_init(&ev->entries);
    map_init(&ev->by_sequence, HASH_STABLE);
    buf_init(&ev->text, EVENT_TEXT_MAX);
    *ret = &ev->base;
    return ERR_OK;
}

/* Events in memory. An event is one allocation, found by its sequence in `entries`. It is in `fresh` until it is
 * polled, then in `polled`, until its ack frees it. Both lists are in the order of sequences, and every polled event
 * is older than every fresh one. */
#include "events/memory/events_memory.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"

struct entry {
    struct list link;
    bool polled;
    struct event event; /* its texts are allocated behind the entry */
};

struct events_memory {
    struct events base;
    struct map entries; /* sequence → struct entry */
    struct list fresh, polled;
    size_t fresh_count;
    uint64_t last_sequence; /* the last sequence assigned */
};

static struct events_memory *events_memory_of(struct events *ev)
{
    return container_of(ev, struct events_memory, base);
}

static struct str events_memory_key(const uint64_t *sequence)
{
    return (struct str){ (const char *)sequence, sizeof *sequence };
}

enum { TEXTS = 17 };

static void events_memory_texts(struct event *event, struct str *ret[TEXTS])
{
    struct outcome *o = &event->outcome;
    struct worker_report *w = &event->worker;
    struct str *const texts[TEXTS] = {
        &event->task.retry.rules,
        &event->task.place,
        &event->task.queue,
        &event->task.name,
        &event->task.trace,
        &o->error,
        &o->output,
        &o->worker,
        &o->trace_id,
        &o->aside,
        &event->host,
        &w->name,
        &w->version,
        &w->kind.queues,
        &w->kind.tenants,
        &w->kind.labels,
        &w->doc,
    };
    memcpy(ret, texts, sizeof texts);
}

static struct entry *events_memory_entry_new(const struct event *event)
{
    struct event copy = *event;
    struct str *texts[TEXTS];
    size_t size = 0;
    events_memory_texts(&copy, texts);
    for (size_t i = 0; i < TEXTS; i++)
        size += str_pack_size(*texts[i]);
    struct entry *entry = xmalloc(sizeof *entry + size);
    char *at = (char *)(entry + 1);
    for (size_t i = 0; i < TEXTS; i++)
        *texts[i] = str_pack(*texts[i], &at);
    entry->polled = false;
    entry->event = copy;
    return entry;
}

static enum err events_memory_publish(struct events *base, const struct event *v, size_t n, struct error *e)
{
    (void)e;
    struct events_memory *ev = events_memory_of(base);
    for (size_t i = 0; i < n; i++) {
        struct entry *entry = events_memory_entry_new(&v[i]);
        entry->event.sequence = ++ev->last_sequence;
        map_put(&ev->entries, events_memory_key(&entry->event.sequence), entry);
        list_push(&ev->fresh, &entry->link);
    }
    ev->fresh_count += n;
    return ERR_OK;
}

static bool events_memory_copy(struct arena *a, const struct event *event, struct event *ret)
{
    struct event copy = *event;
    struct str *texts[TEXTS];
    events_memory_texts(&copy, texts);
    for (size_t i = 0; i < TEXTS; i++)
        if (texts[i]->n && !arena_str(a, *texts[i], texts[i]))
            return false;
    *ret = copy;
    return true;
}

static enum err events_memory_poll(struct events *base, size_t max, int64_t wait_ms, struct arena *a,
                                   struct event_list *ret, struct error *e)
{
    (void)wait_ms; /* the publisher runs on this thread: waiting is useless */
    struct events_memory *ev = events_memory_of(base);
    max = min_of(max, ev->fresh_count);
    struct event_list found = { arena_alloc(a, max * sizeof(struct event)), 0 };
    for (; found.v && found.n < max; found.n++) {
        struct entry *entry = container_of(ev->fresh.next, struct entry, link);
        if (!events_memory_copy(a, &entry->event, &found.v[found.n]))
            break;
        list_remove(&entry->link);
        list_push(&ev->polled, &entry->link);
        entry->polled = true;
    }
    if (max && !found.n)
        return error_set(e, ERR_LIMIT, "the next event is larger than the memory set aside for it");
    ev->fresh_count -= found.n;
    *ret = found;
    return ERR_OK;
}

static enum err events_memory_ack(struct events *base, const uint64_t *sequences, size_t n, struct error *e)
{
    (void)e;
    struct events_memory *ev = events_memory_of(base);
    for (size_t i = 0; i < n; i++) {
        struct entry *entry = map_remove(&ev->entries, events_memory_key(&sequences[i]));
        if (!entry)
            continue;
        ev->fresh_count -= !entry->polled; /* not polled: a reset came between poll and ack */
        list_remove(&entry->link);
        free(entry);
    }
    return ERR_OK;
}

/* Moves polled events back to the front of `fresh`, latest first, so that the order is kept. */
static enum err events_memory_reset(struct events *base, struct error *e)
{
    (void)e;
    struct events_memory *ev = events_memory_of(base);
    while (!list_empty(&ev->polled)) {
        struct entry *entry = container_of(ev->polled.prev, struct entry, link);
        list_remove(&entry->link);
        list_push_front(&ev->fresh, &entry->link);
        entry->polled = false;
        ev->fresh_count++;
    }
    return ERR_OK;
}

static uint64_t events_memory_oldest(const struct events_memory *ev)
{
    const struct list *from = !list_empty(&ev->polled) ? &ev->polled : &ev->fresh;
    return list_empty(from) ? UINT64_MAX : container_of(from->next, struct entry, link)->event.sequence;
}

static enum err events_memory_barrier(struct events *base, struct events_barrier *ret, struct error *e)
{
    (void)e;
    memcpy(ret->bytes, &events_memory_of(base)->last_sequence, sizeof events_memory_of(base)->last_sequence);
    return ERR_OK;
}

static enum err events_memory_barrier_passed(struct events *base, const struct events_barrier *m, bool *ret,
                                             struct error *e)
{
    (void)e;
    uint64_t last_sequence;
    memcpy(&last_sequence, m->bytes, sizeof last_sequence);
    *ret = events_memory_oldest(events_memory_of(base)) > last_sequence;
    return ERR_OK;
}

static size_t events_memory_depth(struct events *base)
{
    return events_memory_of(base)->entries.n;
}

static void events_memory_free(struct events *base)
{
    struct events_memory *ev = events_memory_of(base);
    map_each (&ev->entries, slot)
        free(slot->value);
    map_release(&ev->entries);
    free(ev);
}

struct events *events_memory_new(void)
{
    static const struct events_ops ops = { events_memory_publish, events_memory_poll,    events_memory_ack,
                                           events_memory_reset,   events_memory_barrier, events_memory_barrier_passed,
                                           events_memory_depth,   events_memory_free };
    struct events_memory *ev = xnew(*ev);
    ev->base.ops = &ops;
    map_init(&ev->entries, HASH_STABLE);
    list_init(&ev->fresh);
    list_init(&ev->polled);
    return &ev->base;
}

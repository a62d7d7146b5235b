/* An event is one piece of memory, found by its sequence. It is in `fresh` until it was polled, then in `polled`, until its ack
 * frees it. Both are in the order of sequences, and all that was polled is older than all that was not. */
#include "events/memory/events_memory.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"

struct entry {
    struct list link;
    bool polled;
    struct event event; /* its texts lie behind the entry */
};

struct events_memory {
    struct events base;
    struct map entries; /* sequence → struct entry */
    struct list fresh, polled;
    size_t fresh_count;
    uint64_t last; /* sequence given */
};

static struct events_memory *self(struct events *ev)
{
    return container_of(ev, struct events_memory, base);
}

static struct str bytes_of(const uint64_t *sequence)
{
    return (struct str){ (const char *)sequence, sizeof *sequence };
}

enum { TEXTS = 9 };

static void texts_of(struct event *event, struct str *ret[TEXTS])
{
    struct outcome *o = &event->outcome;
    struct str *const texts[TEXTS] = {
        &event->task.retry.rules, &event->task.place,     &o->error,          &o->output, &o->worker, &o->trace_id,
        &event->worker.name,      &event->worker.version, &event->worker.doc,
    };
    memcpy(ret, texts, sizeof texts);
}

static struct entry *entry_of(const struct event *event)
{
    struct event copy = *event;
    struct str *texts[TEXTS];
    size_t size = 0;
    texts_of(&copy, texts);
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

static enum err publish(struct events *base, const struct event *v, size_t n, struct error *e)
{
    (void)e;
    struct events_memory *ev = self(base);
    for (size_t i = 0; i < n; i++) {
        struct entry *entry = entry_of(&v[i]);
        entry->event.sequence = ++ev->last;
        map_put(&ev->entries, bytes_of(&entry->event.sequence), entry);
        list_push(&ev->fresh, &entry->link);
    }
    ev->fresh_count += n;
    return ERR_OK;
}

static bool event_copy(struct arena *a, const struct event *event, struct event *ret)
{
    struct event copy = *event;
    struct str *texts[TEXTS];
    texts_of(&copy, texts);
    for (size_t i = 0; i < TEXTS; i++)
        if (texts[i]->n && !arena_str(a, *texts[i], texts[i]))
            return false;
    *ret = copy;
    return true;
}

static enum err poll_some(struct events *base, size_t max, int64_t wait_ms, struct arena *a, struct event_list *ret,
                          struct error *e)
{
    (void)wait_ms; /* whoever publishes is on this thread */
    struct events_memory *ev = self(base);
    max = min_of(max, ev->fresh_count);
    struct event_list found = { arena_alloc(a, max * sizeof(struct event)), 0 };
    for (; found.v && found.n < max; found.n++) {
        struct entry *entry = container_of(ev->fresh.next, struct entry, link);
        if (!event_copy(a, &entry->event, &found.v[found.n]))
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

static enum err ack(struct events *base, const uint64_t *sequences, size_t n, struct error *e)
{
    (void)e;
    struct events_memory *ev = self(base);
    for (size_t i = 0; i < n; i++) {
        struct entry *entry = map_remove(&ev->entries, bytes_of(&sequences[i]));
        if (!entry)
            continue;
        ev->fresh_count -= !entry->polled; /* polled before a reset, acknowledged after it */
        list_remove(&entry->link);
        free(entry);
    }
    return ERR_OK;
}

/* What was polled goes back in front of the rest, the latest of it first, so that the order stays. */
static enum err reset(struct events *base, struct error *e)
{
    (void)e;
    struct events_memory *ev = self(base);
    while (!list_empty(&ev->polled)) {
        struct entry *entry = container_of(ev->polled.prev, struct entry, link);
        list_remove(&entry->link);
        list_push_front(&ev->fresh, &entry->link);
        entry->polled = false;
        ev->fresh_count++;
    }
    return ERR_OK;
}

static uint64_t oldest(const struct events_memory *ev)
{
    const struct list *from = !list_empty(&ev->polled) ? &ev->polled : &ev->fresh;
    return list_empty(from) ? UINT64_MAX : container_of(from->next, struct entry, link)->event.sequence;
}

static enum err mark(struct events *base, struct events_barrier *ret, struct error *e)
{
    (void)e;
    memcpy(ret->bytes, &self(base)->last, sizeof self(base)->last);
    return ERR_OK;
}

static enum err passed(struct events *base, const struct events_barrier *m, bool *ret, struct error *e)
{
    (void)e;
    uint64_t last;
    memcpy(&last, m->bytes, sizeof last);
    *ret = oldest(self(base)) > last;
    return ERR_OK;
}

static size_t depth(struct events *base)
{
    return self(base)->entries.n;
}

static void free_events(struct events *base)
{
    struct events_memory *ev = self(base);
    map_each (&ev->entries, slot)
        free(slot->value);
    map_release(&ev->entries);
    free(ev);
}

struct events *events_memory_new(void)
{
    static const struct events_ops ops = { publish, poll_some, ack, reset, mark, passed, depth, free_events };
    struct events_memory *ev = xnew(*ev);
    ev->base.ops = &ops;
    map_init(&ev->entries, HASH_STABLE);
    list_init(&ev->fresh);
    list_init(&ev->polled);
    return &ev->base;
}

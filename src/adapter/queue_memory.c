/* A delivery is one piece of memory, found by task and fence. It is in the list while it waits and in the heap, by the end of
 * its timeout, once it was delivered: so it is known exactly as long as it is in one of them. */
#include "adapter/queue_memory.h"

#include <assert.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"

struct entry {
    struct delivery_id id;
    struct list link;        /* among those that wait */
    struct heap_node expiry; /* among those delivered */
    struct task task;        /* its texts lie behind the entry */
};

struct queue_memory {
    struct queue base;
    struct map entries; /* delivery_id → struct entry */
    struct list waiting;
    struct heap delivered;
};

static struct queue_memory *self(struct queue *q)
{
    return container_of(q, struct queue_memory, base);
}

static struct str bytes_of(const struct delivery_id *d)
{
    _Static_assert(sizeof *d == sizeof d->task + sizeof d->fence, "no gap in what is hashed");
    return (struct str){ (const char *)d, sizeof *d };
}

static void drop(struct queue_memory *q, struct entry *entry)
{
    map_remove(&q->entries, bytes_of(&entry->id));
    if (entry->expiry.at)
        heap_remove(&q->delivered, &entry->expiry);
    else
        list_remove(&entry->link);
    free(entry);
}

static void push_one(struct queue_memory *q, const struct task *t)
{
    struct delivery_id id = { t->id, t->fence };
    if (map_get(&q->entries, bytes_of(&id)))
        return;
    struct entry *entry = xmalloc(sizeof *entry + task_text_size(t));
    entry->id = id;
    entry->expiry = (struct heap_node){ 0 };
    entry->task = task_pack(t, (char *)(entry + 1));
    map_put(&q->entries, bytes_of(&entry->id), entry);
    list_push(&q->waiting, &entry->link);
}

static enum err push(struct queue *base, const struct task *tasks, size_t n, struct error *e)
{
    (void)e;
    for (size_t i = 0; i < n; i++)
        push_one(self(base), &tasks[i]);
    return ERR_OK;
}

static enum err full(struct error *e)
{
    return error_set(e, ERR_LIMIT, "the next delivery is larger than the memory set aside for it");
}

static size_t depth(struct queue *base)
{
    return self(base)->entries.n - self(base)->delivered.n;
}

static enum err take_some(struct queue *base, const struct take *t, struct arena *a, struct tasks *ret, struct error *e)
{
    struct queue_memory *q = self(base);
    size_t max = min_of(t->max, depth(base));
    struct tasks taken = { arena_alloc(a, max * sizeof(struct task)), 0 };
    for (; taken.v && taken.n < max; taken.n++) {
        struct entry *entry = container_of(q->waiting.next, struct entry, link);
        if (!task_copy(a, &entry->task, &taken.v[taken.n]))
            break;
        list_remove(&entry->link);
        heap_push(&q->delivered, &entry->expiry, t->now_ms + t->visibility_ms);
    }
    if (max && !taken.n)
        return full(e);
    *ret = taken;
    return ERR_OK;
}

/* The delivery of that name, if a worker has it. */
static struct entry *find_delivered(struct queue_memory *q, const struct delivery_id *d)
{
    struct entry *entry = map_get(&q->entries, bytes_of(d));
    return entry && entry->expiry.at ? entry : NULL;
}

static enum err renew(struct queue *base, const struct delivery_id *v, size_t n, int64_t until_ms, struct error *e)
{
    (void)e;
    struct queue_memory *q = self(base);
    for (size_t i = 0; i < n; i++) {
        struct entry *entry = find_delivered(q, &v[i]);
        if (entry)
            heap_rekey(&q->delivered, &entry->expiry, until_ms);
    }
    return ERR_OK;
}

static enum err ack(struct queue *base, const struct delivery_id *v, size_t n, struct error *e)
{
    (void)e;
    struct queue_memory *q = self(base);
    for (size_t i = 0; i < n; i++) {
        struct entry *entry = find_delivered(q, &v[i]);
        if (entry)
            drop(q, entry);
    }
    return ERR_OK;
}

static struct entry *first_expired(const struct queue_memory *q, int64_t now_ms)
{
    struct heap_node *node = heap_peek(&q->delivered);
    return node && node->key <= now_ms ? container_of(node, struct entry, expiry) : NULL;
}

/* Lapses are rare and few: the array grows as they are found. */
static bool add_task(struct arena *a, struct tasks *to, size_t *cap, const struct task *t)
{
    struct task copy;
    if (to->n == *cap) {
        struct task *bigger = arena_alloc(a, (*cap * 2 + 4) * sizeof *bigger);
        if (!bigger)
            return false;
        if (to->n)
            memcpy(bigger, to->v, to->n * sizeof *bigger);
        to->v = bigger;
        *cap = *cap * 2 + 4;
    }
    if (!task_copy(a, t, &copy))
        return false;
    to->v[to->n++] = copy;
    return true;
}

static enum err lapsed(struct queue *base, int64_t now_ms, struct arena *a, struct tasks *ret, struct error *e)
{
    struct queue_memory *q = self(base);
    struct tasks found = { 0 };
    size_t cap = 0;
    struct entry *entry;
    while ((entry = first_expired(q, now_ms)) && add_task(a, &found, &cap, &entry->task))
        drop(q, entry);
    if (entry && !found.n)
        return full(e);
    *ret = found;
    return ERR_OK;
}

static enum err recall(struct queue *base, struct delivery_id d, bool *ret_recalled, struct error *e)
{
    (void)e;
    struct queue_memory *q = self(base);
    struct entry *entry = map_get(&q->entries, bytes_of(&d));
    *ret_recalled = entry && !entry->expiry.at;
    if (*ret_recalled)
        drop(q, entry);
    return ERR_OK;
}

static void free_queue(struct queue *base)
{
    struct queue_memory *q = self(base);
    map_each (&q->entries, slot)
        free(slot->value);
    map_release(&q->entries);
    heap_release(&q->delivered);
    free(q);
}

struct queue *queue_memory_new(void)
{
    static const struct queue_ops ops = { push, take_some, renew, ack, lapsed, recall, depth, free_queue };
    struct queue_memory *q = xnew(*q);
    q->base.ops = &ops;
    map_init(&q->entries, HASH_STABLE);
    list_init(&q->waiting);
    heap_init(&q->delivered);
    return &q->base;
}

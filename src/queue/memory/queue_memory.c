/* A queue in memory. A delivery is one allocation, found by task and fence in `entries`.
 *  - While it waits, it is in the list of its priority.
 *  - Once delivered, it is in the heap, keyed by the end of its visibility timeout.
 *  - Once timed out, it stays in the heap until it is acknowledged, keyed by when to report it again.
 * So the queue knows a delivery exactly as long as it is in a list or in the heap.
 *
 * Each priority is PRIORITY_AHEAD places ahead of the one below: a high task overtakes low ones, but no task waits
 * forever. */
#include "queue/memory/queue_memory.h"

#include <assert.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"

enum { PRIORITY_AHEAD = 1000, EPOCH = 1 /* never changes: the queue ends with its process */ };

struct entry {
    struct fenced_id id;
    enum { ENTRY_WAITING, ENTRY_DELIVERED, ENTRY_TIMED_OUT } state;
    int64_t place; /* order among all waiting entries */
    /* while it waits: in the list of its priority; after that: in `aborting`, if an abort was requested or it is wanted
     * back */
    struct list link;
    struct heap_node expiry; /* ENTRY_DELIVERED and ENTRY_TIMED_OUT */
    struct uuid worker;      /* the worker that took it */
    bool wanted;             /* in `aborting`: it is wanted back, and nobody asked to abort it */
    struct task task;        /* its texts are allocated behind the entry */
};

struct queue_memory {
    struct queue base;
    const struct queue_names *names;
    struct map entries; /* fenced_id → struct entry */
    struct list waiting[PRIORITIES];
    size_t waiting_count;
    int64_t pushed; /* number of pushes so far: the next place */
    struct heap delivered;
    size_t timed_out_count; /* entries of the heap that timed out */
    struct list aborting;
};

static struct queue_memory *queue_memory_of(struct queue *q)
{
    return container_of(q, struct queue_memory, base);
}

static void queue_memory_stop_waiting(struct queue_memory *q, struct entry *entry)
{
    list_remove(&entry->link);
    q->waiting_count--;
}

static void queue_memory_remove(struct queue_memory *q, struct entry *entry)
{
    map_remove(&q->entries, fenced_id_key(&entry->id));
    if (entry->state == ENTRY_WAITING) {
        queue_memory_stop_waiting(q, entry);
    } else {
        q->timed_out_count -= entry->state == ENTRY_TIMED_OUT;
        heap_remove(&q->delivered, &entry->expiry);
        list_remove(&entry->link);
    }
    free(entry);
}

/* Adds an entry, which is in no list yet. */
static struct entry *queue_memory_add(struct queue_memory *q, const struct task *t)
{
    struct entry *entry = xmalloc(sizeof *entry + task_text_size(t));
    *entry = (struct entry){ .id = { t->id, t->fence }, .task = task_pack(t, (char *)(entry + 1)) };
    list_init(&entry->link);
    map_put(&q->entries, fenced_id_key(&entry->id), entry);
    return entry;
}

static void queue_memory_push_one(struct queue_memory *q, const struct task *t)
{
    struct fenced_id id = { t->id, t->fence };
    if (map_get(&q->entries, fenced_id_key(&id)))
        return;
    struct entry *entry = queue_memory_add(q, t);
    entry->place = q->pushed++ - (int64_t)t->priority * PRIORITY_AHEAD;
    list_push(&q->waiting[t->priority], &entry->link);
    q->waiting_count++;
}

static enum err queue_memory_push(struct queue *base, const struct task *tasks, size_t n, uint64_t epoch,
                                  struct pushed *ret, struct error *e)
{
    ret->epoch = EPOCH;
    if (epoch && epoch != EPOCH)
        return queue_is_another(e);
    for (size_t i = 0; i < n; i++)
        queue_memory_push_one(queue_memory_of(base), &tasks[i]);
    return ERR_OK;
}

static enum err queue_memory_arena_full(struct error *e)
{
    return error_set(e, ERR_LIMIT, "the next delivery is larger than the memory set aside for it");
}

static size_t queue_memory_depth(struct queue *base)
{
    return queue_memory_of(base)->waiting_count;
}

/* ---- taking ---- */

/* The position of a walk over all waiting entries, most urgent first: one cursor for each priority. */
struct waiting_walk {
    struct queue_memory *q;
    struct class_slots places; /* passes over a class that has none left */
    struct list *next[PRIORITIES];
};

static struct waiting_walk waiting_walk_begin(struct queue_memory *q, const struct take *t)
{
    struct waiting_walk w = { .q = q, .places = queue_places(t) };
    for (int i = 0; i < PRIORITIES; i++)
        w.next[i] = q->waiting[i].next;
    return w;
}

static struct entry *waiting_walk_next(struct waiting_walk *w)
{
    struct entry *first = NULL;
    for (int i = PRIORITY_MAX; i >= PRIORITY_MIN && class_slots_for(&w->places, priority_class_of(i)); i--) {
        struct entry *entry = container_of(w->next[i], struct entry, link);
        if (w->next[i] != &w->q->waiting[i] && (!first || entry->place < first->place))
            first = entry;
    }
    if (first) {
        struct list **next = &w->next[first->task.priority];
        *next = (*next)->next;
    }
    return first;
}

static bool queue_memory_may_take(const struct queue_memory *q, const struct take *t, const struct take *room,
                                  const struct tasks *taken, const struct task *task)
{
    return (!task_is_suspect(task) || (t->alone && taken->n == 0)) && queue_has_room(room, task) &&
           queue_lets_through(t->filter, task, queue_tenant(q->names, task->tenant));
}

static void queue_memory_deliver(struct queue_memory *q, struct entry *entry, const struct take *t)
{
    queue_memory_stop_waiting(q, entry);
    entry->state = ENTRY_DELIVERED;
    entry->worker = t->worker;
    heap_push(&q->delivered, &entry->expiry, t->now_ms + t->visibility_ms);
}

static void queue_memory_use_room(struct take *room, const struct task *t)
{
    if (room->cpu_milli >= 0)
        room->cpu_milli -= t->cpu_milli;
    if (room->memory_mb >= 0)
        room->memory_mb -= t->memory_mb;
}

/* False: the arena has no room for the first task. */
static bool queue_memory_take_tasks(struct queue_memory *q, const struct take *t, struct arena *a, struct tasks *ret)
{
    size_t max = min_of(t->max, q->waiting_count);
    struct tasks taken = { arena_alloc(a, max * sizeof(struct task)), 0 };
    struct take room = *t;
    struct waiting_walk walk = waiting_walk_begin(q, t);
    struct entry *entry;
    while (taken.n < max && (entry = waiting_walk_next(&walk))) {
        if (!queue_memory_may_take(q, t, &room, &taken, &entry->task))
            continue;
        if (!taken.v || !task_copy(a, &entry->task, &taken.v[taken.n])) {
            if (taken.n == 0)
                return false;
            break;
        }
        taken.n++;
        class_slots_take(&walk.places, priority_class_of(entry->task.priority), 1);
        queue_memory_use_room(&room, &entry->task);
        queue_memory_deliver(q, entry, t);
        if (task_is_suspect(&entry->task))
            break; /* a suspect is delivered alone */
    }
    *ret = taken;
    return true;
}

/* If the arena has no room, the aborts are returned by the next take. */
static void queue_memory_take_aborts(struct queue_memory *q, const struct take *t, struct arena *a, struct taken *ret)
{
    size_t n = 0;
    list_each (&q->aborting, link)
        n += uuid_eq(container_of(link, struct entry, link)->worker, t->worker);
    ret->aborts = n ? arena_alloc(a, 2 * n * sizeof *ret->aborts) : NULL;
    if (!ret->aborts)
        return;
    ret->wanted = ret->aborts + n;
    list_each (&q->aborting, link) {
        struct entry *entry = container_of(link, struct entry, link);
        if (!uuid_eq(entry->worker, t->worker))
            continue;
        if (entry->wanted)
            ret->wanted[ret->wanted_count++] = entry->id;
        else
            ret->aborts[ret->abort_count++] = entry->id;
        list_remove(link);
    }
}

static enum err queue_memory_take(struct queue *base, const struct take *t, struct arena *a, struct taken *ret,
                                  struct error *e)
{
    struct taken taken = { 0 };
    if (!queue_memory_take_tasks(queue_memory_of(base), t, a, &taken.tasks))
        return queue_memory_arena_full(e);
    queue_memory_take_aborts(queue_memory_of(base), t, a, &taken);
    *ret = taken;
    return ERR_OK;
}

/* ---- delivered entries ---- */

/* The entry, if it is delivered or timed out. */
static struct entry *queue_memory_find_delivered(struct queue_memory *q, const struct fenced_id *d)
{
    struct entry *entry = map_get(&q->entries, fenced_id_key(d));
    return entry && entry->state != ENTRY_WAITING ? entry : NULL;
}

static void queue_memory_renew_one(struct queue_memory *q, const struct task *t, const struct take *by)
{
    struct fenced_id id = { t->id, t->fence };
    struct entry *entry = map_get(&q->entries, fenced_id_key(&id));
    int64_t until_ms = by->now_ms + by->visibility_ms;
    if (!entry) {
        entry = queue_memory_add(q, t);
        entry->state = ENTRY_DELIVERED;
        entry->worker = by->worker;
        heap_push(&q->delivered, &entry->expiry, until_ms);
    } else if (entry->state == ENTRY_DELIVERED) {
        heap_rekey(&q->delivered, &entry->expiry, until_ms);
    }
}

static enum err queue_memory_renew(struct queue *base, const struct task *const *running, size_t n,
                                   const struct take *by, struct error *e)
{
    (void)e;
    for (size_t i = 0; i < n; i++)
        queue_memory_renew_one(queue_memory_of(base), running[i], by);
    return ERR_OK;
}

static enum err queue_memory_ack(struct queue *base, const struct fenced_id *v, size_t n, struct error *e)
{
    (void)e;
    struct queue_memory *q = queue_memory_of(base);
    for (size_t i = 0; i < n; i++) {
        struct entry *entry = queue_memory_find_delivered(q, &v[i]);
        if (entry)
            queue_memory_remove(q, entry);
    }
    return ERR_OK;
}

static struct entry *queue_memory_first_expired(const struct queue_memory *q, int64_t now_ms)
{
    struct heap_node *node = heap_peek(&q->delivered);
    return node && node->key <= now_ms ? container_of(node, struct entry, expiry) : NULL;
}

/* Delivery timeouts are rare, so the array grows as they are found. A suspect was delivered alone. */
static bool queue_memory_add_timed_out(struct arena *a, struct delivery_timeouts *to, size_t *cap, const struct task *t)
{
    struct timed_out_delivery found = { .fired = true, .alone = task_is_suspect(t) };
    if (to->n == *cap) {
        struct timed_out_delivery *bigger = arena_alloc(a, (*cap * 2 + 4) * sizeof *bigger);
        if (!bigger)
            return false;
        if (to->n)
            memcpy(bigger, to->v, to->n * sizeof *bigger);
        to->v = bigger;
        *cap = *cap * 2 + 4;
    }
    if (!task_copy(a, t, &found.task))
        return false;
    to->v[to->n++] = found;
    return true;
}

static void queue_memory_mark_timed_out(struct queue_memory *q, struct entry *entry, int64_t now_ms)
{
    q->timed_out_count += entry->state != ENTRY_TIMED_OUT;
    entry->state = ENTRY_TIMED_OUT;
    list_remove(&entry->link); /* too late for an abort */
    heap_rekey(&q->delivered, &entry->expiry, now_ms + TIMED_OUT_AGAIN_MS);
}

static enum err queue_memory_timed_out(struct queue *base, int64_t now_ms, struct arena *a,
                                       struct delivery_timeouts *ret, struct error *e)
{
    struct queue_memory *q = queue_memory_of(base);
    struct delivery_timeouts found = { 0 };
    size_t cap = 0;
    struct entry *entry;
    while ((entry = queue_memory_first_expired(q, now_ms)) && queue_memory_add_timed_out(a, &found, &cap, &entry->task))
        queue_memory_mark_timed_out(q, entry, now_ms);
    if (entry && !found.n)
        return queue_memory_arena_full(e);
    *ret = found;
    return ERR_OK;
}

static enum err queue_memory_recall(struct queue *base, struct fenced_id d, bool *ret_recalled, struct error *e)
{
    (void)e;
    struct queue_memory *q = queue_memory_of(base);
    struct entry *entry = map_get(&q->entries, fenced_id_key(&d));
    *ret_recalled = entry && entry->state == ENTRY_WAITING;
    if (*ret_recalled)
        queue_memory_remove(q, entry);
    return ERR_OK;
}

static enum err queue_memory_abort(struct queue *base, struct fenced_id d, struct error *e)
{
    (void)e;
    struct entry *entry = queue_memory_find_delivered(queue_memory_of(base), &d);
    if (!entry || entry->state != ENTRY_DELIVERED)
        return ERR_OK;
    entry->wanted = false;
    if (!list_linked(&entry->link))
        list_push(&queue_memory_of(base)->aborting, &entry->link);
    return ERR_OK;
}

static enum err queue_memory_want_back(struct queue *base, const struct task *t, uint64_t epoch,
                                       enum want_back_answer *ret, struct error *e)
{
    (void)epoch, (void)e;
    struct queue_memory *q = queue_memory_of(base);
    struct entry *entry = map_get(&q->entries, fenced_id_key(&(struct fenced_id){ t->id, t->fence }));
    *ret = !entry ? WANT_BACK_UNKNOWN : entry->state == ENTRY_WAITING ? WANT_BACK_WAITS : WANT_BACK_TOLD;
    if (!entry || entry->state != ENTRY_DELIVERED || list_linked(&entry->link))
        return ERR_OK;
    entry->wanted = true;
    list_push(&q->aborting, &entry->link);
    return ERR_OK;
}

/* No take waits. */
static enum err queue_memory_unblock(struct queue *base, struct uuid worker, struct error *e)
{
    (void)base, (void)worker, (void)e;
    return ERR_OK;
}

static enum err queue_memory_known(struct queue *base, const struct fenced_id *v, const uint64_t *epochs, size_t n,
                                   bool *ret, struct error *e)
{
    (void)epochs, (void)e;
    for (size_t i = 0; i < n; i++)
        ret[i] = map_get(&queue_memory_of(base)->entries, fenced_id_key(&v[i])) != NULL;
    return ERR_OK;
}

static enum err queue_memory_stats(struct queue *base, struct queue_state *ret, struct error *e)
{
    (void)e;
    *ret = (struct queue_state){ .waiting = (int64_t)queue_memory_depth(base),
                                 .delivered = (int64_t)(queue_memory_of(base)->delivered.n -
                                                        queue_memory_of(base)->timed_out_count),
                                 .epoch = EPOCH,
                                 .timeout_max_ms = INT64_MAX };
    return ERR_OK;
}

static void queue_memory_free(struct queue *base)
{
    struct queue_memory *q = queue_memory_of(base);
    map_each (&q->entries, slot)
        free(slot->value);
    map_release(&q->entries);
    heap_release(&q->delivered);
    free(q);
}

struct queue *queue_memory_new_named(const struct queue_names *names)
{
    static const struct queue_ops ops = {
        .push = queue_memory_push,
        .take = queue_memory_take,
        .renew = queue_memory_renew,
        .ack = queue_memory_ack,
        .timed_out_deliveries = queue_memory_timed_out,
        .recall = queue_memory_recall,
        .abort = queue_memory_abort,
        .want_back = queue_memory_want_back,
        .unblock = queue_memory_unblock,
        .known = queue_memory_known,
        .stats = queue_memory_stats,
        .depth = queue_memory_depth,
        .free = queue_memory_free,
        .push_again = true,
    };
    struct queue_memory *q = xnew(*q);
    q->base.ops = &ops;
    q->names = names;
    map_init(&q->entries, HASH_STABLE);
    for (size_t i = 0; i < PRIORITIES; i++)
        list_init(&q->waiting[i]);
    list_init(&q->aborting);
    heap_init(&q->delivered);
    return &q->base;
}

struct queue *queue_memory_new(void)
{
    return queue_memory_new_named(NULL);
}

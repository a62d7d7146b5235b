/* The ring covers [base, base + WHEEL_SLOTS). Only wheel_expire moves base: to now, if no slot before now holds an
 * entry. Then entries that have come within range move from the heap into the ring. An entry whose time is before base
 * is in base's slot: it is due at once. */
#include "core/time/wheel.h"

#include <assert.h>

#include "base/mem.h"

enum { WORDS = WHEEL_SLOTS / 64 };

void wheel_init(struct wheel *w, int64_t now_ms)
{
    for (size_t i = 0; i < WHEEL_SLOTS; i++)
        list_init(&w->slots[i]);
    for (size_t i = 0; i < WORDS; i++)
        w->used[i] = 0;
    w->base_ms = now_ms;
    w->count = 0;
    heap_init(&w->later);
}

void wheel_release(struct wheel *w)
{
    heap_release(&w->later);
}

static size_t wheel_slot_of(int64_t ms)
{
    return (size_t)((uint64_t)ms % WHEEL_SLOTS);
}

static void wheel_add_to_slot(struct wheel *w, struct wheel_entry *e)
{
    size_t slot = wheel_slot_of(max_of(e->due_ms, w->base_ms));
    list_push(&w->slots[slot], &e->link);
    w->used[slot / 64] |= 1ull << slot % 64;
}

void wheel_add(struct wheel *w, struct wheel_entry *e, int64_t due_ms)
{
    e->due_ms = due_ms;
    e->node.at = 0;
    if (due_ms < w->base_ms + WHEEL_SLOTS)
        wheel_add_to_slot(w, e);
    else
        heap_push(&w->later, &e->node, due_ms);
    w->count++;
}

void wheel_remove(struct wheel *w, struct wheel_entry *e)
{
    assert(w->count > 0);
    if (e->node.at) {
        heap_remove(&w->later, &e->node);
    } else {
        struct list *next = e->link.next;
        list_remove(&e->link);
        if (list_empty(next)) { /* next is the slot's head: the removed entry was its last */
            size_t slot = (size_t)(next - w->slots);
            w->used[slot / 64] &= ~(1ull << slot % 64);
        }
    }
    w->count--;
}

/* Returns the time of the first used slot at or after base; INT64_MAX if the ring is empty. Checks one word of slots at
 * a time, and begins and ends in the word that holds base. */
static int64_t wheel_first_in_ring(const struct wheel *w)
{
    size_t begin = wheel_slot_of(w->base_ms);
    for (size_t i = 0; i <= WORDS; i++) {
        size_t word = (begin / 64 + i) % WORDS;
        uint64_t bits = w->used[word];
        if (i == 0)
            bits &= ~0ull << begin % 64;
        if (i == WORDS)
            bits &= ~(~0ull << begin % 64);
        if (bits) {
            size_t slot = word * 64 + (size_t)__builtin_ctzll(bits);
            return w->base_ms + (int64_t)((slot + WHEEL_SLOTS - begin) % WHEEL_SLOTS);
        }
    }
    return INT64_MAX;
}

static void wheel_move_from_heap(struct wheel *w)
{
    struct heap_node *n;
    while ((n = heap_peek(&w->later)) && n->key < w->base_ms + WHEEL_SLOTS) {
        heap_pop(&w->later);
        wheel_add_to_slot(w, container_of(n, struct wheel_entry, node));
    }
}

struct wheel_entry *wheel_expire(struct wheel *w, int64_t now_ms)
{
    int64_t first = wheel_first_in_ring(w);
    if (first > now_ms && now_ms > w->base_ms) {
        w->base_ms = now_ms;
        wheel_move_from_heap(w);
        first = wheel_first_in_ring(w);
    }
    if (first > now_ms)
        return NULL;
    struct wheel_entry *e = container_of(w->slots[wheel_slot_of(first)].next, struct wheel_entry, link);
    wheel_remove(w, e);
    return e;
}

int64_t wheel_next(const struct wheel *w)
{
    struct heap_node *later = heap_peek(&w->later);
    return min_of(wheel_first_in_ring(w), later ? later->key : INT64_MAX);
}

void wheel_rebase(struct wheel *w, int64_t now_ms)
{
    struct list all;
    list_init(&all);
    for (size_t i = 0; i < WHEEL_SLOTS; i++)
        while (!list_empty(&w->slots[i]))
            list_push(&all, list_pop(&w->slots[i]));
    for (size_t i = 0; i < WORDS; i++)
        w->used[i] = 0;
    struct heap_node *n;
    while ((n = heap_pop(&w->later)))
        list_push(&all, &container_of(n, struct wheel_entry, node)->link);
    w->base_ms = now_ms;
    w->count = 0;
    while (!list_empty(&all)) {
        struct wheel_entry *e = container_of(list_pop(&all), struct wheel_entry, link);
        wheel_add(w, e, e->due_ms);
    }
}

#pragma once
/* core/time/wheel.h - a timer wheel: holds claimed tasks for the last milliseconds before their due time.
 *
 * Entries embed a struct wheel_entry. Insert, remove and expire take constant time for entries that are due within the
 * next four seconds (a ring of one-millisecond slots), and log n for later ones (a heap). */
#include "base/heap.h"
#include "base/list.h"

enum { WHEEL_SLOTS = 4096 };

struct wheel_entry {
    struct list link;      /* in a slot of the ring */
    struct heap_node node; /* or in the heap */
    int64_t due_ms;
};

struct wheel {
    struct list slots[WHEEL_SLOTS]; /* slot due % WHEEL_SLOTS, for base_ms <= due < base_ms + WHEEL_SLOTS */
    uint64_t used[WHEEL_SLOTS / 64];
    int64_t base_ms;
    struct heap later;
    size_t count;
};

void wheel_init(struct wheel *w, int64_t now_ms);
void wheel_release(struct wheel *w);
void wheel_add(struct wheel *w, struct wheel_entry *e, int64_t due_ms); /* if due_ms is past, it is due at once */
void wheel_remove(struct wheel *w, struct wheel_entry *e);
/* an entry that is due, earliest first; NULL: none */
struct wheel_entry *wheel_expire(struct wheel *w, int64_t now_ms);
int64_t wheel_next(const struct wheel *w);          /* earliest due time; INT64_MAX if empty */
void wheel_rebase(struct wheel *w, int64_t now_ms); /* the clock was set back: all entries are sorted in again */

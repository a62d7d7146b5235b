#pragma once
/* core/time/wheel.h - claimed tasks waiting the last milliseconds for their due time.
 *
 * Entries embed a struct wheel_entry. Insert, remove and expiry are constant time for what is due within the next few
 * seconds (a ring of one-millisecond slots), and log n beyond (a heap). */
#include "base/heap.h"
#include "base/list.h"

enum { WHEEL_SLOTS = 4096 };

struct wheel_entry {
    struct list link;      /* in a slot */
    struct heap_node node; /* or beyond the ring */
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
void wheel_add(struct wheel *w, struct wheel_entry *e, int64_t due_ms); /* what is past is due at once */
void wheel_remove(struct wheel *w, struct wheel_entry *e);
struct wheel_entry *wheel_expire(struct wheel *w, int64_t now_ms); /* one that is due; NULL: none. Earliest first */
struct wheel_entry *wheel_take(struct wheel *w);                   /* any one, due or not; NULL: it is empty */
int64_t wheel_next(const struct wheel *w);                         /* earliest due time; INT64_MAX when empty */
void wheel_rebase(struct wheel *w, int64_t now_ms); /* the clock was set back: what has not fired waits anew */

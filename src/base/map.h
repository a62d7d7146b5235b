#pragma once
/* base/map.h - a hash map from bytes to pointers.
 *
 * Open addressing with linear probing and backward-shift deletion: no tombstones, so it never decays. Keys are borrowed
 * and must live as long as their entry (usually inside the value); values are the caller's. */
#include "base/hash.h"

struct map_slot {
    struct str key; /* key.p NULL: free */
    uint64_t hash;
    void *value;
};

struct map {
    struct map_slot *slots;
    size_t n, cap; /* cap is 0 or a power of two */
    struct hash_key key;
};

void map_init(struct map *m, struct hash_key key);
void map_release(struct map *m);
void *map_get(const struct map *m, struct str key);        /* NULL: not there */
void *map_put(struct map *m, struct str key, void *value); /* value not NULL; returns what it replaced (its key too) */
void *map_remove(struct map *m, struct str key);           /* returns what was there */

/* for each entry, in no order: map_each (&m, slot) { … slot->value … } The map must not change meanwhile. */
#define map_each(m, slot)                                                                                              \
    for (struct map_slot *slot = (m)->slots, *slot##_end_ = slot ? slot + (m)->cap : slot; slot != slot##_end_;        \
         slot++)                                                                                                       \
        if (slot->key.p)

#pragma once
/* base/map.h - a hash map from byte strings to pointers.
 *
 * Open addressing with linear probing and backward-shift deletion: there are no tombstones, so deletions do not slow
 * the map down. Keys are borrowed and must live as long as their entry (usually they are part of the value). The caller
 * owns the values. */
#include "base/hash.h"

struct map_slot {
    struct str key; /* key.p is NULL if the slot is free */
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
void *map_get(const struct map *m, struct str key); /* NULL if absent */
void *map_put(struct map *m, struct str key,
              void *value); /* value is not NULL; replaces value and key, returns the old value or NULL */
void *map_remove(struct map *m, struct str key); /* returns the value or NULL */

/* Visits each entry, in no particular order: map_each (&m, slot) { … slot->value … }. The body must not change the
 * map. */
#define map_each(m, slot)                                                                                              \
    for (struct map_slot *slot = (m)->slots, *slot##_end_ = slot ? slot + (m)->cap : slot; slot != slot##_end_;        \
         slot++)                                                                                                       \
        if (slot->key.p)

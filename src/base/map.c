/* An entry is in its home slot (hash & mask) or in a later slot with no free slot in between, so a search ends at the
 * first free slot. Removal restores this invariant: it moves later entries back towards their home slots. */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>

enum { CAP_MIN = 16, LOAD_PERCENT = 70 };

void map_init(struct map *m, struct hash_key key)
{
    *m = (struct map){ .key = key };
}

void map_release(struct map *m)
{
    free(m->slots);
    map_init(m, m->key);
}

/* Returns the slot that holds the key, or else the free slot where it belongs. The map always has a free slot. */
static struct map_slot *map_find_slot(const struct map *m, struct str key, uint64_t hash)
{
    size_t mask = m->cap - 1;
    size_t i = hash & mask;
    while (m->slots[i].key.p && !(m->slots[i].hash == hash && str_eq(m->slots[i].key, key)))
        i = (i + 1) & mask;
    return &m->slots[i];
}

static void map_grow(struct map *m)
{
    struct map bigger = { .n = m->n, .cap = max_of(m->cap * 2, (size_t)CAP_MIN), .key = m->key };
    bigger.slots = xcalloc(bigger.cap, sizeof *bigger.slots);
    map_each (m, slot)
        *map_find_slot(&bigger, slot->key, slot->hash) = *slot;
    free(m->slots);
    *m = bigger;
}

void *map_get(const struct map *m, struct str key)
{
    return m->cap ? map_find_slot(m, key, hash_bytes(m->key, key))->value : NULL;
}

void *map_put(struct map *m, struct str key, void *value)
{
    assert(value);
    if (!key.p)
        key = S(""); /* a NULL key marks a free slot */
    if ((m->n + 1) * 100 > m->cap * LOAD_PERCENT)
        map_grow(m);
    uint64_t hash = hash_bytes(m->key, key);
    struct map_slot *slot = map_find_slot(m, key, hash);
    void *old = slot->value;
    m->n += old == NULL;
    *slot = (struct map_slot){ key, hash, value };
    return old;
}

/* Fills the hole at slot i: moves each later entry of the run into the hole unless its home slot lies after the hole.
 * The entry that moved leaves the next hole. */
static void map_shift_back(struct map *m, size_t i)
{
    size_t mask = m->cap - 1;
    for (size_t j = (i + 1) & mask; m->slots[j].key.p; j = (j + 1) & mask) {
        size_t from_home = (j - m->slots[j].hash) & mask;
        size_t from_hole = (j - i) & mask;
        if (from_home >= from_hole) {
            m->slots[i] = m->slots[j];
            i = j;
        }
    }
    m->slots[i] = (struct map_slot){ 0 };
}

void *map_remove(struct map *m, struct str key)
{
    if (!m->cap)
        return NULL;
    struct map_slot *slot = map_find_slot(m, key, hash_bytes(m->key, key));
    void *old = slot->value;
    if (old) {
        m->n--;
        map_shift_back(m, (size_t)(slot - m->slots));
    }
    return old;
}

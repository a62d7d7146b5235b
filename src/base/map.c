/* An entry stands at its home slot (hash & mask) or behind it with no free slot between: so a search ends at the first
 * free slot. Removing restores this by moving back what stood behind only because the slot was taken. */
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

/* The slot that holds the key, or the free one where it belongs. There is one: the map is never full. */
static struct map_slot *find(const struct map *m, struct str key, uint64_t hash)
{
    size_t mask = m->cap - 1;
    size_t i = hash & mask;
    while (m->slots[i].key.p && !(m->slots[i].hash == hash && str_eq(m->slots[i].key, key)))
        i = (i + 1) & mask;
    return &m->slots[i];
}

static void grow(struct map *m)
{
    struct map bigger = { .n = m->n, .cap = max_of(m->cap * 2, (size_t)CAP_MIN), .key = m->key };
    bigger.slots = xcalloc(bigger.cap, sizeof *bigger.slots);
    map_each (m, slot)
        *find(&bigger, slot->key, slot->hash) = *slot;
    free(m->slots);
    *m = bigger;
}

void *map_get(const struct map *m, struct str key)
{
    return m->cap ? find(m, key, hash_bytes(m->key, key))->value : NULL;
}

void *map_put(struct map *m, struct str key, void *value)
{
    assert(value);
    if (!key.p)
        key = S(""); /* NULL marks a free slot */
    if ((m->n + 1) * 100 > m->cap * LOAD_PERCENT)
        grow(m);
    uint64_t hash = hash_bytes(m->key, key);
    struct map_slot *slot = find(m, key, hash);
    void *old = slot->value;
    m->n += old == NULL;
    *slot = (struct map_slot){ key, hash, value };
    return old;
}

/* Closes the hole at i: each entry behind it moves in unless its home lies behind the hole, and leaves the next one. */
static void shift_back(struct map *m, size_t i)
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
    struct map_slot *slot = find(m, key, hash_bytes(m->key, key));
    void *old = slot->value;
    if (old) {
        m->n--;
        shift_back(m, (size_t)(slot - m->slots));
    }
    return old;
}

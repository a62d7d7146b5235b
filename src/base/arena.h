#pragma once
/* base/arena.h - many small allocations that are freed together, with a cap on their total size.
 *
 * A function puts its results into the arena that its caller passes in. Memory whose size a user controls is always
 * arena memory: when the cap is reached, arena_alloc returns NULL and the caller returns ERR_LIMIT. */
#include "base/str.h"

struct arena_block;

struct arena {
    struct arena_block *block; /* newest first */
    size_t used;               /* within the newest block */
    size_t total;              /* bytes asked for, over all blocks */
    size_t max;
};

void arena_init(struct arena *a, size_t max);
void arena_release(struct arena *a);
void arena_reset(struct arena *a); /* empties the arena; keeps one block for the next use */

/* arena_mark returns the current position. arena_rewind goes back to it: it frees everything allocated after the mark
 * and keeps everything allocated before it. arena_reset invalidates all marks. */
struct arena_mark {
    struct arena_block *block;
    size_t used, total;
};
struct arena_mark arena_mark(const struct arena *a);
void arena_rewind(struct arena *a, struct arena_mark mark);

/* Aligned for any type, not zeroed. Returns NULL if the allocation would exceed the cap. */
void *arena_alloc(struct arena *a, size_t n) must_use;
void *arena_zalloc(struct arena *a, size_t n) must_use;                  /* zeroed */
bool arena_str(struct arena *a, struct str s, struct str *ret) must_use; /* a copy that ends in NUL */

#define arena_new(a, type)          ((type *)arena_zalloc((a), sizeof(type)))
#define arena_array(a, type, count) ((type *)arena_zarray((a), (count), sizeof(type)))
void *arena_zarray(struct arena *a, size_t count, size_t size) must_use;

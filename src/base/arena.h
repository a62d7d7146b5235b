#pragma once
/* base/arena.h - many small allocations freed at once, with a cap on their sum.
 *
 * Results of a call live in the arena its caller passed in. Memory sized by a user is always arena memory: when the
 * cap is reached arena_alloc gives NULL and the caller returns ERR_LIMIT. */
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
void arena_reset(struct arena *a); /* empties it, keeping one block for the next use */

/* Where it stands; and back to there: what was allocated since is gone, what was there before stays. A mark is of no use after a reset. */
struct arena_mark {
    struct arena_block *block;
    size_t used, total;
};
struct arena_mark arena_mark(const struct arena *a);
void arena_rewind(struct arena *a, struct arena_mark mark);

/* Aligned for any type, not zeroed. NULL when the cap would be passed. */
void *arena_alloc(struct arena *a, size_t n) must_use;
void *arena_zalloc(struct arena *a, size_t n) must_use;                  /* zeroed */
bool arena_str(struct arena *a, struct str s, struct str *ret) must_use; /* a copy, NUL behind it for C callees */

#define arena_new(a, type)          ((type *)arena_zalloc((a), sizeof(type)))
#define arena_array(a, type, count) ((type *)arena_zarray((a), (count), sizeof(type)))
void *arena_zarray(struct arena *a, size_t count, size_t size) must_use;

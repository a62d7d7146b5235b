/* Blocks double in size from 4 KiB to 1 MiB. An allocation larger than the next block gets a block of its own size.
 * `total` counts the bytes that were requested (rounded up to the alignment), so the cap does not depend on how full
 * the blocks are. */
#include "base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>

enum { BLOCK_MIN = 4096, BLOCK_MAX = 1 << 20 };

struct arena_block {
    struct arena_block *older;
    size_t size;
    alignas(max_align_t) unsigned char data[];
};

void arena_init(struct arena *a, size_t max)
{
    assert(max > 0 && max < SIZE_MAX / 2); /* rounding up cannot overflow */
    *a = (struct arena){ .max = max };
}

static void arena_free_blocks(struct arena_block *b)
{
    while (b) {
        struct arena_block *older = b->older;
        free(b);
        b = older;
    }
}

void arena_release(struct arena *a)
{
    arena_free_blocks(a->block);
    *a = (struct arena){ .max = a->max };
}

void arena_reset(struct arena *a)
{
    if (a->block) {
        arena_free_blocks(a->block->older);
        a->block->older = NULL;
    }
    a->used = a->total = 0;
}

struct arena_mark arena_mark(const struct arena *a)
{
    return (struct arena_mark){ a->block, a->used, a->total };
}

void arena_rewind(struct arena *a, struct arena_mark mark)
{
    while (a->block != mark.block) {
        struct arena_block *b = a->block;
        assert(b);
        a->block = b->older;
        free(b);
    }
    a->used = mark.used;
    a->total = mark.total;
}

static void arena_add_block(struct arena *a, size_t least)
{
    size_t size = a->block ? min_of(a->block->size * 2, (size_t)BLOCK_MAX) : BLOCK_MIN;
    size = max_of(size, least);
    struct arena_block *b = xmalloc(sizeof *b + size);
    b->older = a->block;
    b->size = size;
    a->block = b;
    a->used = 0;
}

void *arena_alloc(struct arena *a, size_t n)
{
    size_t align = alignof(max_align_t);
    if (n > a->max)
        return NULL;
    n = (n + align - 1) / align * align;
    if (n > a->max - min_of(a->total, a->max))
        return NULL;
    if (!a->block || n > a->block->size - a->used)
        arena_add_block(a, n);
    void *p = a->block->data + a->used;
    a->used += n;
    a->total += n;
    return p;
}

void *arena_zalloc(struct arena *a, size_t n)
{
    void *p = arena_alloc(a, n);
    return p ? memset(p, 0, n) : NULL;
}

void *arena_zarray(struct arena *a, size_t count, size_t size)
{
    size_t n;
    return __builtin_mul_overflow(count, size, &n) ? NULL : arena_zalloc(a, n);
}

bool arena_str(struct arena *a, struct str s, struct str *ret)
{
    char *p = arena_alloc(a, s.n + 1);
    if (!p)
        return false;
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    *ret = (struct str){ p, s.n };
    return true;
}

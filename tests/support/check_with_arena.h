#pragma once
/* tests/support/check_with_arena.h - check.h, and one arena for each test. */
#include "base/arena.h"
#include "check.h"

static struct arena arena;

static inline int arena_set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 20);
    return 0;
}

static inline int arena_tear_down(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

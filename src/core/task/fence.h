#pragma once
/* core/task/fence.h - fences never go back.
 *
 * Each claim of a task has a higher fence than the one before, so that a receiver who keeps the highest one can refuse
 * calls of an attempt that is over. A store that was restored, copied or failed over may have forgotten the latest
 * claims. Then its floor rises above every fence that can have been given out: to the time of that moment in
 * milliseconds, in front of FENCE_CLAIM_BITS bits. A task would have to be claimed two million times a second to get
 * ahead of it. Fences stay below 2^53 until the year 2109, so that JavaScript reads them exactly. */
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

enum {
    FENCE_CLAIM_BITS = 11,
    FENCE_STEP = 1 << 16, /* if the clock was set back: more claims than a task has between two such moments */
};

static inline int64_t fence_after(int64_t fence, int64_t floor)
{
    return max_of(fence, floor) + 1;
}

/* The fence of a new occurrence, before its first claim. If it may have been made before, claimed and withdrawn,
 * somebody may still hold a claim of that row: the fence begins above it, again with the time. */
static inline int64_t fence_begin(bool made_before, int64_t now_ms)
{
    return made_before ? now_ms << FENCE_CLAIM_BITS : 0;
}

/* Nobody has claimed the task yet. */
static inline bool fence_is_unclaimed(int64_t fence)
{
    return fence % (1 << FENCE_CLAIM_BITS) == 0;
}

/* The floor for a store that has gone back; it rises also if the clock was set back. */
static inline int64_t fence_raise_floor(int64_t floor, int64_t now_ms)
{
    return max_of(floor + FENCE_STEP, now_ms << FENCE_CLAIM_BITS);
}

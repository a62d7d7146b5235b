#pragma once
/* core/time/moment.h - the time of one step: wall time and steady time, read together.
 *
 *  - wall_ms: milliseconds since 1970 UTC. Anybody may set the wall clock, forward or back.
 *  - steady_ms: milliseconds since an arbitrary moment. It never goes back and goes on while the machine sleeps.
 *
 * Due times, the times of tasks and the store's times are wall time. Every relative wait (a retry, a poll, a timeout)
 * is steady time, so that setting the wall clock neither ends nor prolongs it. */
#include <stdint.h>

struct moment {
    int64_t wall_ms, steady_ms;
};

/* The wall time at which the steady clock reaches steady_ms if nobody sets the wall clock; INT64_MAX: never. */
static inline int64_t moment_wall_at(struct moment now, int64_t steady_ms)
{
    return steady_ms == INT64_MAX ? INT64_MAX : now.wall_ms + (steady_ms - now.steady_ms);
}

/* The steady time at which the wall clock reaches wall_ms if nobody sets it; INT64_MAX: never. */
static inline int64_t moment_steady_at(struct moment now, int64_t wall_ms)
{
    return wall_ms == INT64_MAX ? INT64_MAX : now.steady_ms + (wall_ms - now.wall_ms);
}

/* The earlier of two times. A function, not min_of: a step that returns one of them is taken once. */
static inline int64_t moment_earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

#pragma once
/* port/clock.h - the only source of time.
 *
 *  - wall: microseconds (or milliseconds) since 1970 UTC; may jump when someone sets the clock;
 *  - steady: nanoseconds since an arbitrary moment; never goes back, goes on while the machine sleeps;
 *  - correct: from now on wall is steady and so much more, because a store that many share shows that time, and behind that time by
 *    behind_us at most. Where others have no say in it, it changes nothing;
 *  - behind: that. It is another with each node and each correction: who adds a time span to wall adds this too, or another node, which
 *    is behind by less, sees the end of the span too early;
 *  - machine: what wall would be had nobody corrected it: what the machine's own timers go by.
 * Roles get a `struct moment` as an argument; only their loops ask a clock, and who must know whether it was stopped just now. A simulated clock
 * stands here in tests. */
#include <stdint.h>

#include "core/time/moment.h"

struct clock {
    const struct clock_ops *ops;
};

struct clock_ops {
    int64_t (*wall_us)(struct clock *);
    int64_t (*steady_ns)(struct clock *);
    void (*correct)(struct clock *, int64_t offset_us, int64_t behind_us); /* NULL: it goes by nobody else's */
    int64_t (*machine_us)(struct clock *);                                 /* NULL: as wall */
    int64_t (*behind_us)(struct clock *);                                  /* NULL: never behind */
};

static inline int64_t clock_wall_us(struct clock *c)
{
    return c->ops->wall_us(c);
}

static inline int64_t clock_wall_ms(struct clock *c)
{
    return c->ops->wall_us(c) / 1000;
}

static inline int64_t clock_steady_ns(struct clock *c)
{
    return c->ops->steady_ns(c);
}

static inline int64_t clock_steady_us(struct clock *c)
{
    return c->ops->steady_ns(c) / 1000;
}

static inline int64_t clock_steady_ms(struct clock *c)
{
    return c->ops->steady_ns(c) / 1000000;
}

/* Wall and steady time, read together. */
static inline struct moment clock_now(struct clock *c)
{
    return (struct moment){ clock_wall_ms(c), clock_steady_ms(c) };
}

static inline void clock_correct(struct clock *c, int64_t offset_us, int64_t behind_us)
{
    if (c->ops->correct)
        c->ops->correct(c, offset_us, behind_us);
}

/* In whole milliseconds, with what those of wall lack. */
static inline int64_t clock_behind_ms(struct clock *c)
{
    int64_t behind_us = c->ops->behind_us ? c->ops->behind_us(c) : 0;
    return behind_us ? (behind_us + 1999) / 1000 : 0;
}

static inline int64_t clock_machine_us(struct clock *c)
{
    return c->ops->machine_us ? c->ops->machine_us(c) : c->ops->wall_us(c);
}

/* How much later wall is than what the machine's own timers go by. */
static inline int64_t clock_ahead_us(struct clock *c)
{
    return c->ops->machine_us ? c->ops->wall_us(c) - c->ops->machine_us(c) : 0;
}

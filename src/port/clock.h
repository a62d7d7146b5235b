#pragma once
/* port/clock.h - the only source of time.
 *
 *  - wall: microseconds (or milliseconds) since 1970 UTC. It may jump if somebody sets the clock.
 *  - steady: nanoseconds since an arbitrary moment. It never goes back and goes on while the machine sleeps.
 *  - correct: sets wall to steady + offset_us from now on. A store that many nodes share shows that time; wall is
 *    behind it by behind_us at most. A clock of a single machine ignores the call.
 *  - behind: that bound. It differs between nodes and corrections. A caller that adds a time span to wall adds this
 *    bound too; else a node that is less behind sees the end of the span too early.
 *  - machine: wall without corrections, which the machine's own timers use.
 * A node gets the time as an argument (struct moment). Only loops read a clock, and code that must know whether the
 * process was stopped a moment ago. Tests use a simulated clock. */
#include <stdint.h>

#include "core/time/moment.h"

struct clock {
    const struct clock_ops *ops;
};

struct clock_ops {
    int64_t (*wall_us)(struct clock *);
    int64_t (*steady_ns)(struct clock *);
    void (*correct)(struct clock *, int64_t offset_us, int64_t behind_us); /* NULL: it takes no corrections */
    int64_t (*machine_us)(struct clock *);                                 /* NULL: the same as wall */
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

/* In whole milliseconds, rounded up together with wall's own rounding. */
static inline int64_t clock_behind_ms(struct clock *c)
{
    int64_t behind_us = c->ops->behind_us ? c->ops->behind_us(c) : 0;
    return behind_us ? (behind_us + 1999) / 1000 : 0;
}

static inline int64_t clock_machine_us(struct clock *c)
{
    return c->ops->machine_us ? c->ops->machine_us(c) : c->ops->wall_us(c);
}

/* By how much wall is ahead of the machine's own timers. */
static inline int64_t clock_ahead_us(struct clock *c)
{
    return c->ops->machine_us ? c->ops->wall_us(c) - c->ops->machine_us(c) : 0;
}

#pragma once
/* port/clock.h - the only source of time.
 *
 *  - wall: microseconds (or milliseconds) since 1970 UTC; may jump when someone sets the clock;
 *  - steady: nanoseconds since an arbitrary moment; never goes back, goes on while the machine sleeps.
 * Roles get `now_ms` as an argument; only their loops ask a clock. A simulated clock stands here in tests. */
#include <stdint.h>

struct clock {
    const struct clock_ops *ops;
};

struct clock_ops {
    int64_t (*wall_us)(struct clock *);
    int64_t (*steady_ns)(struct clock *);
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

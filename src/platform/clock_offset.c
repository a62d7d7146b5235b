#include "platform/clock_offset.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"

enum { MONOTONIC_MAX_US = 1000000 };

struct clock_offset {
    struct clock base;
    struct clock *inner;
    atomic_int_least64_t offset_us; /* INT64_MIN: not corrected yet */
    atomic_int_least64_t behind_us; /* upper bound */
    atomic_int_least64_t shown_us;  /* latest time returned */
};

static struct clock_offset *clock_offset_of(struct clock *c)
{
    return container_of(c, struct clock_offset, base);
}

static int64_t clock_offset_wall_us(struct clock *c)
{
    struct clock_offset *o = clock_offset_of(c);
    int64_t offset_us = atomic_load(&o->offset_us);
    if (offset_us == INT64_MIN)
        return clock_wall_us(o->inner);
    int64_t now_us = clock_steady_us(o->inner) + offset_us;
    int64_t shown_us = atomic_load(&o->shown_us);
    do {
        if (now_us <= shown_us && shown_us - now_us < MONOTONIC_MAX_US)
            return shown_us;
    } while (!atomic_compare_exchange_weak(&o->shown_us, &shown_us, now_us));
    return now_us;
}

static int64_t clock_offset_steady_ns(struct clock *c)
{
    return clock_steady_ns(clock_offset_of(c)->inner);
}

/* In this order: a reader that combines the new time with the old bound computes a deadline that is too late, never too
 * early. */
static void clock_offset_correct(struct clock *c, int64_t offset_us, int64_t behind_us)
{
    atomic_store(&clock_offset_of(c)->offset_us, offset_us);
    atomic_store(&clock_offset_of(c)->behind_us, behind_us);
}

static int64_t behind_us(struct clock *c)
{
    return atomic_load(&clock_offset_of(c)->behind_us);
}

static int64_t clock_offset_machine_us(struct clock *c)
{
    return clock_machine_us(clock_offset_of(c)->inner);
}

struct clock *clock_offset_new(struct clock *inner)
{
    static const struct clock_ops ops = { clock_offset_wall_us, clock_offset_steady_ns, clock_offset_correct,
                                          clock_offset_machine_us, behind_us };
    struct clock_offset *o = xnew(*o);
    o->base.ops = &ops;
    o->inner = inner;
    atomic_init(&o->offset_us, INT64_MIN);
    atomic_init(&o->shown_us, INT64_MIN / 2);
    return &o->base;
}

void clock_offset_free(struct clock *c)
{
    if (c)
        free(clock_offset_of(c));
}

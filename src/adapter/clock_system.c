#include "adapter/clock_system.h"

#include <time.h>

static int64_t wall_ms(struct clock *c)
{
    (void)c;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t steady_ns(struct clock *c)
{
    (void)c;
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct clock *clock_system(void)
{
    static const struct clock_ops ops = { wall_ms, steady_ns };
    static struct clock the_clock = { &ops };
    return &the_clock;
}

#include "adapter/clock_system.h"

#include <time.h>

static int64_t wall_us(struct clock *c)
{
    (void)c;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t steady_ns(struct clock *c)
{
    (void)c;
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_cpu_us(pid_t process)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct clock *clock_system(void)
{
    static const struct clock_ops ops = { wall_us, steady_ns };
    static struct clock the_clock = { &ops };
    return &the_clock;
}

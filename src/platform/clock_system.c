#include "platform/clock_system.h"

#include <errno.h>

static int64_t clock_system_wall_us(struct clock *c)
{
    (void)c;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t clock_system_steady_ns(struct clock *c)
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

void clock_condition_init(pthread_cond_t *c)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct timespec clock_condition_end(int64_t after_us)
{
    enum { US_PER_S = 1000000, NS_PER_US = 1000 };
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t us = now.tv_nsec / NS_PER_US + after_us;
    return (struct timespec){ now.tv_sec + us / US_PER_S, us % US_PER_S * NS_PER_US };
}

bool clock_condition_pause(pthread_cond_t *c, pthread_mutex_t *lock, const bool *stopping, int64_t ms)
{
    struct timespec until = clock_condition_end(ms * 1000);
    pthread_mutex_lock(lock);
    while (!*stopping && pthread_cond_timedwait(c, lock, &until) != ETIMEDOUT)
        ;
    bool stops = *stopping;
    pthread_mutex_unlock(lock);
    return stops;
}

struct clock *clock_system(void)
{
    static const struct clock_ops ops = { .wall_us = clock_system_wall_us, .steady_ns = clock_system_steady_ns };
    static struct clock the_clock = { &ops };
    return &the_clock;
}

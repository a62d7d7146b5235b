/* A wall clock that a test sets, for a program that knows nothing of it: LD_PRELOAD=clock_shim.so.
 *
 * BELFRY_CLOCK_FILE names a file of eight bytes: by how many milliseconds the wall clock is ahead. The test changes it,
 * and all that asks for the time sees the jump; timers of CLOCK_REALTIME go off, as the kernel's do when somebody sets
 * the clock (TFD_TIMER_CANCEL_ON_SET), since whoever armed one has to look at the clock again. Steady clocks stay as
 * they are. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { TIMERS_MAX = 64, LOOK_NS = 1000000, NS_PER_MS = 1000000 };
static const int64_t SECOND_NS = 1000000000;

static atomic_int_least64_t *ahead_ms; /* the file */
static atomic_bool is_wall_timer[TIMERS_MAX];

static int64_t offset_ns(void)
{
    return ahead_ms ? atomic_load(ahead_ms) * NS_PER_MS : 0;
}

static int64_t to_ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * SECOND_NS + t->tv_nsec;
}

static struct timespec from_ns(int64_t ns)
{
    return (struct timespec){ .tv_sec = ns / SECOND_NS, .tv_nsec = ns % SECOND_NS };
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, ret);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *ret = from_ns(to_ns(ret) + offset_ns());
    return rc;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    (void)zone;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    *ret = (struct timeval){ .tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000 };
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (ret)
        *ret = t.tv_sec;
    return t.tv_sec;
}

int timerfd_create(int clock, int flags)
{
    int fd = (int)syscall(SYS_timerfd_create, clock, flags);
    if (fd >= 0 && fd < TIMERS_MAX)
        atomic_store(&is_wall_timer[fd], clock == CLOCK_REALTIME);
    return fd;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
    struct itimerspec real = *when;
    bool is_set = real.it_value.tv_sec || real.it_value.tv_nsec;
    if (is_set && (flags & TFD_TIMER_ABSTIME) && fd < TIMERS_MAX && atomic_load(&is_wall_timer[fd])) {
        int64_t ns = to_ns(&real.it_value) - offset_ns();
        real.it_value = from_ns(ns > 0 ? ns : 1);
    }
    return (int)syscall(SYS_timerfd_settime, fd, flags, &real, old);
}

_Noreturn static void *watch(void *context)
{
    (void)context;
    static const struct timespec look = { .tv_nsec = LOOK_NS };
    static const struct itimerspec at_once = { .it_value = { .tv_nsec = 1 } };
    int64_t seen = atomic_load(ahead_ms);
    for (;; nanosleep(&look, NULL)) {
        int64_t now = atomic_load(ahead_ms);
        for (int fd = 0; now != seen && fd < TIMERS_MAX; fd++)
            if (atomic_load(&is_wall_timer[fd]))
                syscall(SYS_timerfd_settime, fd, 0, &at_once, NULL);
        seen = now;
    }
}

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("BELFRY_CLOCK_FILE");
    int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        abort();
    void *page = mmap(NULL, sizeof *ahead_ms, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        abort();
    close(fd);
    ahead_ms = page;
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch, NULL))
        abort();
}

/* The thread waits on an eventfd with a relative timeout. So it reads no clock but the port's. */
#include "api/server/timers.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"

enum { NS_PER_MS = 1000000 };

struct timers {
    pthread_mutex_t lock;
    struct heap waiting; /* by steady_ns */
    struct clock *clock;
    pthread_t thread;
    struct thread_owner owner;
    int wake_fd;
    bool stopping;
};

static void timers_wake(struct timers *t)
{
    uint64_t one = 1;
    ssize_t n = write(t->wake_fd, &one, sizeof one);
    assert(n == sizeof one || errno == EAGAIN);
}

/* Removes a due timer from the heap, or returns NULL and how long to sleep. */
static struct timer *timers_take_due(struct timers *t, int *ret_sleep_ms)
{
    struct heap_node *first = heap_peek(&t->waiting);
    int64_t left_ns = first ? first->key - clock_steady_ns(t->clock) : -1;
    if (first && left_ns <= 0)
        return container_of(heap_pop(&t->waiting), struct timer, node);
    *ret_sleep_ms = first ? (int)min_of(left_ns / NS_PER_MS + 1, (int64_t)60000) : -1;
    return NULL;
}

static void timers_sleep(struct timers *t, int sleep_ms)
{
    struct pollfd p = { .fd = t->wake_fd, .events = POLLIN };
    uint64_t count;
    if (poll(&p, 1, sleep_ms) > 0) {
        ssize_t n = read(t->wake_fd, &count, sizeof count);
        assert(n == sizeof count || errno == EAGAIN);
    }
}

static void *timers_run(void *argument)
{
    struct timers *t = argument;
    thread_owner_take(&t->owner);
    for (;;) {
        int sleep_ms = 0;
        pthread_mutex_lock(&t->lock);
        bool stopping = t->stopping;
        struct timer *due = stopping ? NULL : timers_take_due(t, &sleep_ms);
        pthread_mutex_unlock(&t->lock);
        if (stopping)
            return NULL;
        if (due)
            due->fire(due);
        else
            timers_sleep(t, sleep_ms);
    }
}

const struct thread_owner *timers_thread(const struct timers *t)
{
    return &t->owner;
}

struct timers *timers_new(struct clock *clock)
{
    struct timers *t = xnew(*t);
    t->clock = clock;
    heap_init(&t->waiting);
    pthread_mutex_init(&t->lock, NULL);
    t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert(t->wake_fd >= 0);
    int failed = pthread_create(&t->thread, NULL, timers_run, t);
    assert(!failed);
    return t;
}

void timers_free(struct timers *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_mutex_unlock(&t->lock);
    timers_wake(t);
    pthread_join(t->thread, NULL);
    heap_release(&t->waiting);
    pthread_mutex_destroy(&t->lock);
    close(t->wake_fd);
    free(t);
}

void timers_add(struct timers *t, struct timer *timer, int64_t after_ms)
{
    assert(after_ms >= 0);
    int64_t at = clock_steady_ns(t->clock) + after_ms * NS_PER_MS;
    pthread_mutex_lock(&t->lock);
    heap_push(&t->waiting, &timer->node, at);
    bool first = heap_peek(&t->waiting) == &timer->node;
    pthread_mutex_unlock(&t->lock);
    if (first)
        timers_wake(t);
}

bool timers_cancel(struct timers *t, struct timer *timer)
{
    pthread_mutex_lock(&t->lock);
    bool waiting = timer->node.at != 0;
    if (waiting)
        heap_remove(&t->waiting, &timer->node);
    pthread_mutex_unlock(&t->lock);
    return waiting;
}

#pragma once
/* api/server/timers.h - one thread, the timer thread, that calls back after a delay: for waits with a time limit. It
 * sleeps while no timer is set. */
#include <stdbool.h>

#include "base/heap.h"
#include "base/thread_owner.h"
#include "port/clock.h"

struct timer {
    struct heap_node node;
    void (*fire)(struct timer *); /* on the timer thread; may add the timer again */
};

struct timers;

/* timers_new and timers_free: the thread that owns the server, never the timer thread. */
struct timers *timers_new(struct clock *clock);
void timers_free(struct timers *t); /* timers that have not fired never fire; NULL is fine */

/* Any thread. */
void timers_add(struct timers *t, struct timer *timer, int64_t after_ms);

/* True: the timer was set and will not fire. False: it has fired or is about to. Any thread. */
bool timers_cancel(struct timers *t, struct timer *timer);

/* The timer thread, for assert_owned in a `fire`. */
const struct thread_owner *timers_thread(const struct timers *t);

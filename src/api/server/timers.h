#pragma once
/* api/server/timers.h - one thread that calls back when a time has passed: for answers that wait at most so long, and for clients
 * that send too slowly. It sleeps when nothing waits. */
#include <stdbool.h>

#include "base/heap.h"
#include "port/clock.h"

struct timer {
    struct heap_node node;
    void (*fire)(struct timer *); /* on the timers' thread; the timer may be added again from there */
};

struct timers;

struct timers *timers_new(struct clock *clock);
void timers_free(struct timers *t); /* what still waits never fires; NULL is fine */
void timers_add(struct timers *t, struct timer *timer, int64_t after_ms);

/* True if it was waiting and will not fire; false if it has fired, or is about to. */
bool timers_cancel(struct timers *t, struct timer *timer);

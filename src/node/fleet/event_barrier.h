#pragma once
/* node/fleet/event_barrier.h - waits until the updaters have applied every event published before a moment.
 *
 * A worker publishes an outcome before it acknowledges the delivery. Whoever settles a delivery that may have ended
 * waits for the barrier first. One barrier at a time. While the events do not answer, they are asked again. After
 * EVENT_BARRIER_PATIENCE_MS the barrier fails and its owner begins anew: a barrier that can never pass, because
 * events were lost, must not hold anybody for ever. */
#include "core/time/moment.h"
#include "port/async_io.h"

enum { EVENT_BARRIER_PATIENCE_MS = 60000 };

enum event_barrier_state { EVENT_BARRIER_NONE, EVENT_BARRIER_WAITS, EVENT_BARRIER_PASSED, EVENT_BARRIER_FAILED };

struct event_barrier_wait {
    struct async_io *async_io; /* set by the owner */
    struct io_barrier io_request;
    enum event_barrier_state state;
    struct error error; /* the last one; EVENT_BARRIER_FAILED: the reason */
    bool is_set;        /* the barrier is among the events */
    bool asking, left, logged;
    struct moment now;
    int64_t begun_ms, ask_at_ms; /* steady */
};

void event_barrier_begin(struct event_barrier_wait *b, struct moment now); /* nothing is under way */

/* While it waits: asks if it is time to; returns when to call again. The state may have changed when it returns. */
int64_t event_barrier_step(struct event_barrier_wait *b, struct moment now);

/* The owner does not wait any more: EVENT_BARRIER_NONE, as soon as nothing is under way. */
void event_barrier_leave(struct event_barrier_wait *b);

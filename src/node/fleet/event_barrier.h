#pragma once
/* node/fleet/event_barrier.h - waits until the updaters have applied all that was published up to a moment, as whoever settles a delivery that may have ended
 * must. One mark at a time. While the events do not answer they are asked again. Patience ends: then whoever waits begins anew, so that a mark
 * which can never pass, because events were lost, keeps nobody for ever. */
#include "core/time/moment.h"
#include "port/async_io.h"

enum { EVENT_BARRIER_PATIENCE_MS = 60000 };

enum event_barrier_state { EVENT_BARRIER_NONE, EVENT_BARRIER_WAITS, EVENT_BARRIER_PASSED, EVENT_BARRIER_FAILED };

struct event_barrier_wait {
    struct async_io *async_io; /* the owner's to set */
    struct io_barrier io_request;
    enum event_barrier_state state;
    struct error error; /* the last; EVENT_BARRIER_FAILED: why */
    bool is_set, asking, left, complained;
    struct moment now;
    int64_t begun_ms, ask_at_ms; /* steady */
};

void event_barrier_begin(struct event_barrier_wait *m, struct moment now); /* nothing is under way */

/* While it waits: asks if it is time to; returns when to call again. The state may have changed when it returns. */
int64_t event_barrier_step(struct event_barrier_wait *m, struct moment now);

/* What it waits for is of no interest any more: EVENT_BARRIER_NONE, as soon as nothing is under way. */
void event_barrier_leave(struct event_barrier_wait *m);

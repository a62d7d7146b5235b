#pragma once
/* node/fleet/event_barrier.h - waits until the updaters have applied all that was published up to a moment, as whoever settles a delivery that may have ended
 * must. One mark at a time. While the events do not answer they are asked again. Patience ends: then whoever waits begins anew, so that a mark
 * which can never pass, because events were lost, keeps nobody for ever. */
#include "port/async_io.h"

enum { MARK_PATIENCE_MS = 60000 };

enum mark_state { MARK_NONE, MARK_WAITS, MARK_PASSED, MARK_FAILED };

struct mark_wait {
    struct courier *courier; /* the owner's to set */
    struct errand_mark errand;
    enum mark_state state;
    struct error error; /* the last; MARK_FAILED: why */
    bool is_set, asking, left, complained;
    int64_t now_ms, begun_ms, ask_at_ms;
};

void mark_begin(struct mark_wait *m, int64_t now_ms); /* nothing is under way */

/* While it waits: asks if it is time to; returns when to call again. The state may have changed when it returns. */
int64_t mark_step(struct mark_wait *m, int64_t now_ms);

/* What it waits for is of no interest any more: MARK_NONE, as soon as nothing is under way. */
void mark_leave(struct mark_wait *m);

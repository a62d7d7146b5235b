#pragma once
/* cli/fleet_watch.h - says when a server of the fleet can not be reached, and when it can again: one line each, however often it is tried. */
#include "adapter/courier_threads.h"
#include "base/jsonw.h"

struct fleet_watch {
    struct courier *courier;
    bool down[COURIER_PLACES]; /* and it was said */
};

void fleet_watch_look(struct fleet_watch *w); /* now and then, on one thread */

/* "queue", or whatever it is: since when it is down, and why; from any thread. */
void fleet_watch_write(struct courier *c, enum courier_place place, int64_t now_ms, struct jw *w);

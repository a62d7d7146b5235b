#pragma once
/* server/fleet_watch.h - says when a server of the fleet can not be reached, and when it can again: one line each, however often it is tried. */
#include "base/json/jsonw.h"
#include "platform/async_io_threads.h"

struct fleet_watch {
    struct async_io *async_io;
    bool down[ASYNC_IO_PLACES]; /* and it was said */
};

void fleet_watch_check(struct fleet_watch *w); /* now and then, on one thread */

/* "queue", or whatever it is: since when it is down, and why; from any thread. */
void fleet_watch_write(struct async_io *c, enum async_io_channel place, int64_t now_ms, struct jw *w);

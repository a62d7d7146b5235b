#pragma once
/* server/fleet_watch.h - logs when a server of the fleet becomes unreachable and when it is back: one line for each
 * change, not for each failed attempt. */
#include "base/json/jsonw.h"
#include "platform/async_io_threads.h"

struct fleet_watch {
    struct async_io *async_io;
    bool down[ASYNC_IO_CHANNELS]; /* as it was last logged */
};

void fleet_watch_check(struct fleet_watch *w); /* call it periodically, on one thread */

/* A server of the fleet may have several channels. */
enum fleet_backend { FLEET_QUEUE, FLEET_EVENTS, FLEET_LEASE };
enum { FLEET_BACKENDS = FLEET_LEASE + 1 };
extern const char *const fleet_backend_names[FLEET_BACKENDS];

/* For how long it cannot be reached, by any of its channels; 0: it can, or it is not used. Any thread. */
int64_t fleet_watch_down_ms(struct async_io *c, enum fleet_backend backend);

/* Writes the JSON members "down_since" and "error" of one channel. Any thread. */
void fleet_watch_write(struct async_io *c, enum async_io_channel channel, int64_t now_ms, struct jw *w);

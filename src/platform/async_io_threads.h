#pragma once
/* platform/async_io_threads.h - runs errands to ports that are a network away: a thread a place, each with a handle of its own.
 *
 * A handle is opened by its thread, when the first errand wants it. Where that fails, the errand fails as the opening did, and so do those
 * that follow within ASYNC_IO_REOPEN_MS: nobody waits for a server that is known not to be there. `done` is called on the loop.
 *
 * Freed, it first lets each thread finish the errand that it runs. What has not begun by then is dropped, and no `done` is called any more:
 * so it goes before those whose errands it carries. */
#include "platform/loop_uv.h"
#include "port/async_io.h"

enum { ASYNC_IO_REOPEN_MS = 500 };

enum async_io_channel { ASYNC_IO_QUEUE, ASYNC_IO_TAKE, ASYNC_IO_PUBLISH, ASYNC_IO_POLL, ASYNC_IO_LEASE };
enum { ASYNC_IO_PLACES = ASYNC_IO_LEASE + 1 };

struct async_io_threads_setup {
    struct loop *loop;
    bool wanted[ASYNC_IO_PLACES]; /* no errand goes to the others */
    /* Sets the one port of `ret` that belongs to the place; on the place's thread. It is freed there too. */
    enum err (*open)(void *context, enum async_io_channel place, struct async_io_ports *ret, struct error *e);
    void *context;
};

enum err async_io_threads_new(const struct async_io_threads_setup *setup, struct async_io **ret,
                              struct error *e) must_use;
void async_io_threads_free(struct async_io *c); /* NULL is fine; on the loop's thread */

/* How it goes at a place; from any thread. Only ERR_UNAVAILABLE counts as being down: other refusals are answers too. */
struct async_io_health {
    bool answered;    /* at least once */
    int64_t down_ms;  /* for how long it has not; 0: the last errand was answered, or there was none */
    struct error why; /* of the last that was not */
};
void async_io_threads_health(struct async_io *c, enum async_io_channel place, struct async_io_health *ret);

#pragma once
/* platform/async_io_threads.h - runs I/O requests against ports that use the network: one thread per channel, each with
 * its own handle of the port.
 *
 * - A channel's thread opens its handle when the first request arrives, and frees it when the channel stops.
 * - If opening fails, the request fails with the same error, and so do all requests of the next ASYNC_IO_REOPEN_MS
 *   milliseconds: no request waits for a server that is known to be down.
 * - The loop's thread submits requests (async_io_submit). `done` is called on the loop's thread.
 * - async_io_threads_free waits for the request that each thread is running, drops the requests that have not started,
 *   and calls no further `done`. Free it before the modules that submit to it. */
#include "platform/loop_uv.h"
#include "port/async_io.h"

enum { ASYNC_IO_REOPEN_MS = 500 };

enum async_io_channel { ASYNC_IO_QUEUE, ASYNC_IO_TAKE, ASYNC_IO_PUBLISH, ASYNC_IO_POLL, ASYNC_IO_LEASE };
enum { ASYNC_IO_CHANNELS = ASYNC_IO_LEASE + 1 };

struct async_io_threads_setup {
    struct loop *loop;
    bool wanted[ASYNC_IO_CHANNELS]; /* channels that have a thread; no request may go to the others */
    bool push_again;                /* of the queue */
    /* Opens the port of the channel and stores it in `ret`. Runs on the channel's thread, which also frees the port. */
    enum err (*open)(void *context, enum async_io_channel channel, struct async_io_ports *ret, struct error *e);
    void *context;
};

enum err async_io_threads_new(const struct async_io_threads_setup *setup, struct async_io **ret,
                              struct error *e) must_use;

/* Call it on the loop's thread, or on any thread after loop_run has returned. NULL is allowed. */
void async_io_threads_free(struct async_io *c);

/* Health of a channel; any thread may ask. Only ERR_UNAVAILABLE counts as down: every other error is an answer of the
 * server. */
struct async_io_health {
    bool answered;    /* the server has answered at least once */
    int64_t down_ms;  /* how long the server has been down; 0: the last request was answered, or there was none */
    struct error why; /* of the last request that was not answered */
};
void async_io_threads_health(struct async_io *c, enum async_io_channel channel, struct async_io_health *ret);

#pragma once
/* platform/async_io_threads.h - runs errands to ports that are a network away: a thread a place, each with a handle of its own.
 *
 * A handle is opened by its thread, when the first errand wants it. Where that fails, the errand fails as the opening did, and so do those
 * that follow within COURIER_REOPEN_MS: nobody waits for a server that is known not to be there. `done` is called on the loop.
 *
 * Freed, it first lets each thread finish the errand that it runs. What has not begun by then is dropped, and no `done` is called any more:
 * so it goes before those whose errands it carries. */
#include "platform/loop_uv.h"
#include "port/async_io.h"

enum { COURIER_REOPEN_MS = 500 };

enum courier_place { COURIER_QUEUE, COURIER_TAKE, COURIER_PUBLISH, COURIER_POLL, COURIER_LEASE };
enum { COURIER_PLACES = COURIER_LEASE + 1 };

struct courier_threads_setup {
    struct loop *loop;
    bool wanted[COURIER_PLACES]; /* no errand goes to the others */
    /* Sets the one port of `ret` that belongs to the place; on the place's thread. It is freed there too. */
    enum err (*open)(void *context, enum courier_place place, struct courier_ports *ret, struct error *e);
    void *context;
};

enum err courier_threads_new(const struct courier_threads_setup *setup, struct courier **ret, struct error *e) must_use;
void courier_threads_free(struct courier *c); /* NULL is fine; on the loop's thread */

/* How it goes at a place; from any thread. Only ERR_UNAVAILABLE counts as being down: other refusals are answers too. */
struct courier_health {
    bool answered;    /* at least once */
    int64_t down_ms;  /* for how long it has not; 0: the last errand was answered, or there was none */
    struct error why; /* of the last that was not */
};
void courier_threads_health(struct courier *c, enum courier_place place, struct courier_health *ret);

#pragma once
/* platform/loop_uv.h - runs a node on a libuv loop.
 *
 * - The thread that calls loop_run is the loop's thread. All callbacks (step, op->done, call->fn) run on it.
 * - The loop waits with a timer finer than a millisecond (timerfd, absolute wall time), so that tasks start at their
 *   due time. If somebody sets the machine's clock, the loop wakes up. If the loop's clock is a corrected one, the
 *   timer is converted to the machine's clock.
 * - Operations complete on the writer's thread; the loop then calls their `done` on the loop's thread.
 * - Other threads reach the node with loop_call, which is the only function here that any thread may call. All others
 *   are for the loop's thread while loop_run runs, and for one thread at a time before and after that. */
#include <uv.h>

#include "base/thread_owner.h"
#include "port/clock.h"
#include "port/store.h"

struct loop;

/* step is called with the current time: after completed operations were delivered, and whenever the loop wakes up. It
 * returns when it wants to be called next, in milliseconds since 1970, or INT64_MAX. */
struct loop_setup {
    struct clock *clock;
    struct writer *writer; /* the batcher's: calls op->done on its own thread */
    int64_t (*step)(void *context, struct moment now);
    void *context;
};

enum err loop_new(const struct loop_setup *setup, struct loop **ret, struct error *e) must_use;
void loop_free(struct loop *l);

uv_loop_t *loop_uv(struct loop *l);

/* For modules that belong to the loop's thread: assert_owned(loop_owner(loop)). Set while loop_run runs. */
const struct thread_owner *loop_owner(const struct loop *l);

/* A writer for modules on the loop's thread: passes operations to setup->writer and calls op->done on the loop's
 * thread. Only the loop's thread submits to it. */
struct writer *loop_writer(struct loop *l);

/* Runs until loop_stop. The calling thread is the loop's thread until it returns. */
void loop_run(struct loop *l);
void loop_stop(struct loop *l); /* loop's thread */

/* Any thread: runs fn on the loop's thread soon, and then step. The struct must stay valid until fn is called. */
struct call {
    void (*fn)(struct call *c);
    void *context;
    struct list link;
};
void loop_call(struct loop *l, struct call *c);
void loop_cancel_call(struct loop *l, struct call *c); /* loop's thread: fn is not called if it has not been yet */

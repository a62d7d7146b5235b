#pragma once
/* platform/loop_uv.h - drives a node on a libuv loop, on a thread of its own or the caller's.
 *
 *  - waits on a timer finer than a millisecond (timerfd, absolute wall time), so that what is due fires on the dot, and is
 *    woken when somebody sets the clock; if its clock is a corrected one, by what the machine's clock will show then;
 *  - operations complete on the writer's thread and are delivered here, on the loop's;
 *  - other threads reach the node by loop_call. */
#include <uv.h>

#include "port/clock.h"
#include "port/store.h"

struct loop;

/* step is called with the time, after completions were delivered and whenever something happened; it answers when it wants
 * to be called again, in milliseconds since 1970, or INT64_MAX. */
struct loop_setup {
    struct clock *clock;
    struct writer *writer; /* the batcher's: completes anywhere */
    int64_t (*step)(void *context, struct moment now);
    void *context;
};

enum err loop_new(const struct loop_setup *setup, struct loop **ret, struct error *e) must_use;
void loop_free(struct loop *l);

uv_loop_t *loop_uv(struct loop *l);
struct writer *loop_writer(struct loop *l); /* for roles: completes on the loop */

/* Runs until loop_stop; the caller's thread becomes the loop's. */
void loop_run(struct loop *l);
void loop_stop(struct loop *l); /* from the loop's thread */

/* From any thread: runs fn on the loop, soon, and steps afterwards. The struct is the caller's until then. */
struct call {
    void (*fn)(struct call *c);
    void *context;
    struct list link;
};
void loop_call(struct loop *l, struct call *c);
void loop_forget(struct loop *l, struct call *c); /* on the loop's thread: it is not called any more, if it was to be */

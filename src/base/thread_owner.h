#pragma once
/* base/thread_owner.h - checks that a module's state is used only by the thread that owns it.
 *
 * A module that belongs to one thread embeds a struct thread_owner. The thread that runs the module calls
 * thread_owner_take, and each entry point calls assert_owned. A call from another thread then ends the process at once,
 * with the source line in the message, instead of corrupting memory at random. If no thread has taken the owner,
 * nothing is checked: a module may be set up on one thread and run on another. */
#include <assert.h>
#include <stdbool.h>

struct thread_owner {
    const void *thread; /* NULL: no thread owns it */
};

void thread_owner_take(struct thread_owner *o); /* the calling thread becomes the owner */
void thread_owner_drop(struct thread_owner *o); /* no thread owns it: another thread may set up or free the module */
bool thread_owner_is_caller(const struct thread_owner *o);

#define assert_owned(owner) assert(thread_owner_is_caller(owner))

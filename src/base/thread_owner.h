#pragma once
/* base/thread_owner.h - checks that state is used by the one thread that owns it.
 *
 * A module that belongs to one thread embeds a thread_owner. The thread that will run it calls thread_owner_take, and
 * each entry point calls assert_owned: a call from another thread ends the process at once, with the place in the
 * message, instead of corrupting state now and then. An owner that nobody has taken is not checked: a module may be
 * set up on one thread and run on another. */
#include <assert.h>
#include <stdbool.h>

struct thread_owner {
    const void *thread; /* NULL: not taken */
};

void thread_owner_take(struct thread_owner *o); /* the calling thread owns it from now on */
void thread_owner_drop(struct thread_owner *o); /* nobody owns it: to be set up or torn down by another thread */
bool thread_owner_is_caller(const struct thread_owner *o);

#define assert_owned(owner) assert(thread_owner_is_caller(owner))

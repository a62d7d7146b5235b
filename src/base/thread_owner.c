#include "base/thread_owner.h"

#include <stddef.h>

/* Each thread has its own copy, so its address identifies the thread. */
static _Thread_local char identity;

void thread_owner_take(struct thread_owner *o)
{
    o->thread = &identity;
}

void thread_owner_drop(struct thread_owner *o)
{
    o->thread = NULL;
}

bool thread_owner_is_caller(const struct thread_owner *o)
{
    return !o->thread || o->thread == &identity;
}

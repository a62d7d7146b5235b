#pragma once
/* queue/memory/queue_memory.h - the queue of a process that runs its own workers.
 *
 * It lives as long as the process and has no lock: all calls come from the one loop that drives scheduler and
 * worker. */
#include "port/queue.h"

struct queue *queue_memory_new(void);

/* For workers with filters that name tenants; names must outlive the queue. */
struct queue *queue_memory_new_named(const struct queue_names *names);

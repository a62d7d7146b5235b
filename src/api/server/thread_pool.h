#pragma once
/* api/server/thread_pool.h - the pool threads of the API. Each has a store reader of its own and runs the next
 * waiting job.
 *
 * The tenants take turns: at its turn, the job of a tenant that has waited for longest runs. So a tenant that sends
 * thousands of requests delays the others by one job each.
 *
 * A job cannot be interrupted, and some run for seconds. Such slow jobs wait in a line of their own, with turns of its
 * own, and at most half of the threads run slow jobs at once. So a quick job never waits for the end of a slow one,
 * whoever sent it. */
#include "base/list.h"
#include "port/store.h"

struct thread_pool;

enum thread_pool_cost {
    THREAD_POOL_QUICK,
    THREAD_POOL_SLOW
}; /* slow: may take 50 ms or longer. A pool of one thread takes none */

/* run is called on a pool thread for each job. It may read from the store, but must not wait for anything else. Call
 * thread_pool_new and thread_pool_free on the thread that owns the server. */
enum err thread_pool_new(struct store *store, size_t threads, void (*run)(struct list *job, struct reader *r),
                         struct thread_pool **ret, struct error *e) must_use;
void thread_pool_submit(struct thread_pool *p, int32_t tenant, enum thread_pool_cost cost,
                        struct list *job);    /* tenant 0: not known yet. Any thread */
void thread_pool_free(struct thread_pool *p); /* runs all waiting jobs, then ends the threads; NULL is fine */

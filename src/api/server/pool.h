#pragma once
/* api/server/pool.h - the pool threads of the API. Each has a store reader of its own and runs the next waiting job.
 *
 * The tenants take turns: at its turn, the job of a tenant that has waited for longest runs. So a tenant that sends
 * thousands of requests delays the others by one job each. */
#include "base/list.h"
#include "port/store.h"

struct pool;

/* run is called on a pool thread for each job. It may read from the store, but must not wait for anything else. Call
 * pool_new and pool_free on the thread that owns the server. */
enum err pool_new(struct store *store, size_t threads, void (*run)(struct list *job, struct reader *r),
                  struct pool **ret, struct error *e) must_use;
void pool_submit(struct pool *p, int32_t tenant, struct list *job); /* tenant 0: not known yet. Any thread */
void pool_free(struct pool *p); /* runs all waiting jobs, then ends the threads; NULL is fine */

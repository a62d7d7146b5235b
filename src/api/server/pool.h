#pragma once
/* api/server/pool.h - the API's threads: each has a reader of its own and takes the next request that waits. */
#include "base/list.h"
#include "port/store.h"

struct pool;

/* run is called on one of the threads for each job; it must not block for long. */
enum err pool_new(struct store *store, size_t threads, void (*run)(struct list *job, struct reader *r),
                  struct pool **ret, struct error *e) must_use;
void pool_submit(struct pool *p, struct list *job);
void pool_free(struct pool *p); /* runs what waits, then ends; NULL is fine */

#pragma once
/* api/catalog/uncertain_writes.h - catalog entries whose write may or may not have been committed, because the store's
 * answer was lost.
 *
 * The client is told to try again. If the write was committed, the second try is answered from the idempotency record,
 * and the catalog cache would never learn of the change. So the next request that has a reader reads these entries from
 * the store and updates the cache. */
#include <pthread.h>
#include <stdatomic.h>

#include "node/catalog_cache.h"
#include "port/store.h"

struct uncertain_writes {
    pthread_mutex_t lock;
    struct uncertain_write *first; /* under the lock */
    atomic_size_t count;
};

/* init and release: the thread that owns the server. add: any thread. */
void uncertain_writes_init(struct uncertain_writes *m);
void uncertain_writes_release(struct uncertain_writes *m);
void uncertain_writes_add(struct uncertain_writes *m, int32_t tenant, enum catalog_kind kind, struct str name);

/* Updates the catalog cache with each entry as it is in the store. True: there was at least one. Entries that could not
 * be read stay for the next call. A pool thread. */
bool uncertain_writes_resolve(struct uncertain_writes *m, struct reader *r, struct catalog_cache *catalog);

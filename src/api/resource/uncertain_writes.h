#pragma once
/* api/resource/uncertain_writes.h - entries of the catalog of which nobody knows whether they were written: the store's answer was lost.
 *
 * The client is told to try again; but if the write did happen, his second try is answered from the record of his key, and the book would
 * never hear of it. So whoever reads the store next looks at what is there and tells the book. */
#include <pthread.h>
#include <stdatomic.h>

#include "node/catalog_cache.h"
#include "port/store.h"

struct uncertain_writes {
    pthread_mutex_t lock;
    struct uncertain_write *first; /* under the lock */
    atomic_size_t count;
};

void uncertain_writes_init(struct uncertain_writes *m);
void uncertain_writes_release(struct uncertain_writes *m);
void uncertain_writes_add(struct uncertain_writes *m, int32_t tenant, enum catalog_kind kind, struct str name);

/* Tells the book what the store says of each; true if there was one. What the store does not answer stays for the next. */
bool uncertain_writes_do(struct uncertain_writes *m, struct reader *r, struct catalog_cache *catalog);

#pragma once
/* model/store_memory.h - a store in memory: the model that every other store is compared with, and the simulator's
 * store.
 *
 * The simplest correct implementation of port/store.h. One mutex guards everything, so readers on any thread see whole
 * transactions. The store must outlive its readers. */
#include "port/store.h"

struct store *store_memory_new(void);

/* A bug for the simulator to find: in every third arrival, in every skip, in every purge. */
enum memory_bug {
    MEMORY_SOUND,
    MEMORY_LOSES_ARRIVALS,
    MEMORY_DOUBLES_ARRIVALS,
    MEMORY_ARRIVES_EARLY,
    MEMORY_KEEPS_SKIPS,
    MEMORY_PURGES_STEPS
};
void store_memory_plant(struct store *s, enum memory_bug bug);
void store_memory_uncount_skip(struct store *s, struct uuid recurring); /* for a planted bug: one time fewer */

#pragma once
/* model/store_memory.h - a store that forgets: the model that every other store is held against, and the simulator's.
 *
 * The simplest correct reading of port/store.h. One mutex stands over everything, so readers on any thread see whole
 * transactions. A store outlives its readers. */
#include "port/store.h"

struct store *store_memory_new(void);

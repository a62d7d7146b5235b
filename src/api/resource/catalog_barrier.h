#pragma once
/* api/resource/catalog_barrier.h - what one node acknowledges, the others heed: a change of the catalog, or a key that is taken away, is answered when every other
 * node that lives goes by it, or when CATALOG_BARRIER_MS are over (docs/decisions/0017). Where no other node writes to the store nothing is
 * waited for. */
#include "api/server/request.h"

enum { CATALOG_BARRIER_MS = 250 };

/* After the commit. then is called once, on any thread, perhaps before it returns; the request must be suspended. */
void catalog_barrier_wait(struct request *q, void (*then)(struct request *q));

#pragma once
/* api/catalog/catalog_barrier.h - waits until every other live node has applied a catalog change or a key revocation,
 * at most CATALOG_BARRIER_MS, so that the answer to the client holds on all nodes. If it does not, the answer says so
 * (docs/decisions/0017-catalog-changes-are-acknowledged-after-all-nodes-apply-them.md). If no other node writes to the
 * store, it does not wait. */
#include "api/server/request.h"

enum { CATALOG_BARRIER_MS = 250 };

/* Call it after the commit, on the thread that owns the request, which must be suspended; passes q on. `then` is called
 * once, on any thread, perhaps before this returns. */
void catalog_barrier_wait(struct request *q, void (*then)(struct request *q));

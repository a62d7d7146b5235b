#pragma once
/* platform/batcher.h - group commit: a writer over any store, on a thread of its own.
 *
 * While one transaction runs, what arrives gathers for the next; a lone operation is applied at once. So a single create is
 * durable before its answer, and a thousand concurrent ones cost one commit.
 *
 *  - Claims, settles and leases go before the rest, but a quarter of each transaction is kept for the rest.
 *  - op->done is called on the batcher's thread, after the commit or the failure. It may free the operation and may submit
 *    others; it must not block, because every writer waits behind it.
 *  - A batch that fails as a whole is split until the culprit stands alone. ERR_UNAVAILABLE is nobody's fault: everything
 *    in the batch gets it at once, and whoever submitted decides when to try again. */
#include "base/metrics.h"
#include "port/clock.h"
#include "port/store.h"

struct batcher;

/* All three are borrowed and must outlive it. */
struct batcher *batcher_new(struct store *s, struct metrics *m, struct clock *c);
struct writer *batcher_writer(struct batcher *b); /* for any thread */

/* Tells of users' changes (OP_PUT) that let somebody go on who waited for a slot: their ret_unblocked_lanes, or UINT64_MAX when the answer was
 * lost. On the batcher's thread, after the commit. Before anything is submitted. */
void batcher_watch(struct batcher *b, void (*unblocked)(void *context, uint64_t lanes), void *context);

/* Applies everything that was submitted, and what its done callbacks submit in turn, then ends the thread. Not to be called
 * from done. NULL is fine. */
void batcher_free(struct batcher *b);

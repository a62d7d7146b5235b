#pragma once
/* platform/batcher.h - group commit: a writer over any store, on a thread of its own.
 *
 * While one transaction runs, operations that arrive gather for the next; a lone operation is applied at once. So a
 * single create is durable before its answer, and a thousand concurrent ones cost one commit.
 *
 *  - OP_FRONT operations (port/store/operation_table.h) go before the rest, but a quarter of each transaction is kept
 *    for the rest.
 *  - While other tenants write too, large inserts give way to them: a single create waits for one of them at most, and
 *    they have half of the time.
 *  - op->done is called on the batcher's thread, after the commit or the failure. It may free the operation and may
 *    submit others. It must not block, because every writer waits behind it.
 *  - If a batch fails as a whole, it is split until the culprit stands alone. ERR_UNAVAILABLE is no operation's fault:
 *    the whole batch gets it at once, and each submitter decides when to try again. */
#include "base/metrics.h"
#include "port/clock.h"
#include "port/store.h"

struct batcher;

/* All three are borrowed and must outlive the batcher. */
struct batcher *batcher_new(struct store *s, struct metrics *m, struct clock *c);
struct writer *batcher_writer(struct batcher *b); /* for any thread */

/* Reports users' changes (OP_PUT) that gave a slot to a waiting task: their ret_unblocked_lanes, or UINT64_MAX if the
 * answer was lost. The callback runs on the batcher's thread, after the commit. Call this before anything is
 * submitted. */
void batcher_watch(struct batcher *b, void (*unblocked)(void *context, uint64_t lanes), void *context);

/* Applies everything that was submitted, and what the `done` callbacks submit in turn, then ends the thread. Must not
 * be called from `done`. NULL is fine. */
void batcher_free(struct batcher *b);

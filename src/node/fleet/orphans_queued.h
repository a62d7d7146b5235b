#pragma once
/* node/fleet/orphans_queued.h - claims of dead nodes that the fleet's queue may have.
 *
 * A node hands a claim off to the queue when all its tasks were pushed (node/fleet/handoff.h). If it dies before that,
 * some of them wait in the queue or run at a worker. This source of node/reaper/reaper.h takes care of the tasks of
 * dead nodes that may have fired; node/cluster/recovery.h returns the others, which need not wait for the queue.
 *  1. It asks the queue which of them it knows, then waits for an event barrier: an outcome may have been published.
 *  2. Those that the queue does not know are settled as lost: the dead node may have run them itself.
 *  3. The claims of those that it knows are handed off in the dead node's place (OP_HANDOFF 4). They go on.
 * While the queue or the events do not answer, these tasks wait. A queue that cannot look tasks up says nothing of
 * tasks that were not handed off: then all are settled as lost.
 *
 * A claim may hold more tasks than a batch. So a full batch, unless half of it is in the queue, hands nothing off: its
 * other tasks are settled first. If a claim is handed off with tasks that the queue does not know, reconcile finds
 * them. */
#include "node/reaper/orphans.h"

struct orphans_queued;

struct orphans_queued *orphans_queued_new(const struct reaper_setup *reaper, const struct orphans_setup *orphans);
void orphans_queued_free(struct orphans_queued *q); /* idle; NULL is fine */

int64_t orphans_queued_step(struct orphans_queued *q, struct moment now, int64_t behind_ms); /* when to call again */
void orphans_queued_begin(struct orphans_queued *q, struct uuid node, struct moment now);    /* joined, under that id */
void orphans_queued_look_again(struct orphans_queued *q, struct moment now); /* a node was marked dead */
void orphans_queued_stop(struct orphans_queued *q);
bool orphans_queued_is_idle(const struct orphans_queued *q);

#pragma once
/* node/cluster/recovery.h - settles claims of nodes that are dead: earlier lives of this process, and other nodes.
 *
 * A source of node/reaper/reaper.h. A task that may have fired is lost, a task that cannot have fired is returned. In a
 * fleet the queue may have the former: node/fleet/orphans_queued.h takes care of them.
 * Nothing is claimed until the first recovery is over. Several nodes may recover at once: fences decide which of them
 * settles a claim, and a node that dies halfway leaves the rest to the others.
 *
 * Recovery also finds the poison task: a suspect is failed if, twice in a row, nothing else was running when its
 * process died. That can be told only when all orphaned claims have been seen, and it must still be known if this
 * node dies before that. So the claims that may have fired are never settled down to a single one. */
#include "node/reaper/orphans.h"

struct recovery_setup {
    struct reaper_setup reaper;
    struct orphans_setup orphans;
    bool in_fleet; /* what may have fired is left to node/fleet/orphans_queued.h */
};

struct recovery;

struct recovery *recovery_new(const struct recovery_setup *setup); /* waits for recovery_begin */
void recovery_free(struct recovery *r);                            /* idle; NULL is fine */

int64_t recovery_step(struct recovery *r, struct moment now);                 /* when to call again */
void recovery_begin(struct recovery *r, struct uuid node, struct moment now); /* this node has joined, under that id */
void recovery_look_again(struct recovery *r, struct moment now);              /* a node was marked dead */
void recovery_stop(struct recovery *r);                                       /* begins no more batches */
bool recovery_is_over(const struct recovery *r);                              /* at least once since recovery_begin */
bool recovery_found_suspects(const struct recovery *r);                       /* suspects that will run again */
bool recovery_is_idle(const struct recovery *r);

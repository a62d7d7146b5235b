#pragma once
/* node/cluster/recovery.h - settles what nodes had claimed when they died: earlier lives of this process, and others.
 *
 * What may have fired is lost, what cannot have is returned. It also finds the poison task (DESIGN §7): a suspect is failed if twice
 * in a row nothing else was running when its process died. Once may be chance: many things kill processes. Whether that was so is known in the end, and must still be known if we die before: so
 * whatever can not have been alone is not settled down to one. Nothing is claimed until the first recovery is over. Where several nodes
 * live, more than one may be at it: fences decide, and whoever dies halfway leaves the rest to the others. */
#include "base/metrics.h"
#include "core/time/moment.h"
#include "port/store.h"

struct recovery_setup {
    struct writer *writer;
    struct metrics *metrics;
    uint64_t seed;
    void (*nudge)(void *context, const struct task *t); /* as it may be now */
    void (*unblocked)(void *context, uint64_t unblocked);
    void *context;
};

struct recovery;

struct recovery *recovery_new(const struct recovery_setup *setup); /* waits to begin */
void recovery_free(struct recovery *r);                            /* nothing is in flight; NULL is fine */

int64_t recovery_step(struct recovery *r, struct moment now); /* when it wants to be called again */
void recovery_begin(struct recovery *r, struct uuid node,
                    struct moment now);                          /* this node has joined, again perhaps: look for all */
void recovery_look_again(struct recovery *r, struct moment now); /* somebody has died */
void recovery_stop(struct recovery *r);                          /* ask for no more */
bool recovery_is_over(const struct recovery *r);                 /* the first since it began */
bool recovery_found_suspects(const struct recovery *r);          /* that will run again */
bool recovery_in_flight(const struct recovery *r);

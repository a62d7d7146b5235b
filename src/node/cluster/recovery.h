#pragma once
/* node/cluster/recovery.h - settles claims of nodes that are dead: earlier lives of this process, and other nodes.
 *
 * A source of node/reaper/reaper.h. A task that may have fired is lost, a task that cannot have fired is returned.
 * Nothing is claimed until the first recovery is over. Several nodes may recover at once: fences decide which of them
 * settles a claim, and a node that dies halfway leaves the rest to the others.
 *
 * In a fleet whose queue can look tasks up, the tasks that may have fired come last:
 *  1. The queue is asked which of them it knows, once it is steady: workers have had time to make known what they run.
 *  2. After an event barrier (an outcome may have been published) those that it does not know are lost: they may have
 *     run in the dead node itself.
 *  3. The claims of the others are handed off in the dead node's place (node/fleet/queued_orphans.h). They go on.
 * Claims do not wait for this: while the queue or the events do not answer, only these tasks wait. If the queue is down
 * and this node runs due tasks itself, they do not wait either: they are lost, as without a queue.
 *
 * Recovery also finds the poison task: a suspect is failed if, twice in a row, nothing else was running when its
 * process died. That can be told only when all orphaned claims have been seen, and it must still be known if this
 * node dies before that. So the claims that may have fired are never settled down to a single one. */
#include "node/reaper/reaper.h"

enum queue_view {
    QUEUE_VIEW_WAIT, /* it does not answer, or has not been in its epoch for long enough */
    QUEUE_VIEW_DOWN, /* it is down, and due tasks run in this process meanwhile (queue.fallback) */
    QUEUE_VIEW_STEADY,
};

struct recovery_setup {
    struct reaper_setup reaper;
    /* Wall: when the process before this one last fired a task; INT64_MAX: not known, or there are other nodes. */
    int64_t last_fired_ms;
    void (*nudge)(void *context, const struct task *t); /* a task that is SCHEDULED again, as it is now */
    void (*settled)(void *context, const struct event *e, const struct settlement *s); /* each */
    /* In a fleet whose queue can look tasks up; else NULL. ret_epoch: in which the queue is, if it may be asked. */
    enum queue_view (*view_queue)(void *context, uint64_t *ret_epoch);
    void (*refused)(void *context); /* the store says that this node is dead */
    void *context;
};

struct recovery;

struct recovery *recovery_new(const struct recovery_setup *setup); /* waits for recovery_begin */
void recovery_free(struct recovery *r);                            /* idle; NULL is fine */

int64_t recovery_step(struct recovery *r, struct moment now);                 /* when to call again */
void recovery_begin(struct recovery *r, struct uuid node, struct moment now); /* this node has joined, under that id */
void recovery_on_death(struct recovery *r, struct moment now);                /* this node has marked another dead */
void recovery_look_again(struct recovery *r, struct moment now); /* a dead node has claims, perhaps known here */
void recovery_stop(struct recovery *r);                          /* begins no more batches */
bool recovery_is_over(
    const struct recovery *r); /* at least once since recovery_begin, but for tasks the queue may have */
bool recovery_found_suspects(const struct recovery *r); /* suspects that will run again */
bool recovery_is_idle(const struct recovery *r);

#pragma once
/* node/reaper/orphans.h - reads the tasks of claims whose node is dead (OP_ORPHANS), and tells which of them may have
 * fired.
 *
 * For two sources of node/reaper/reaper.h, which share these claims between them: node/cluster/recovery.h and
 * node/fleet/orphans_queued.h. */
#include "node/reaper/reaper.h"

struct orphans_setup {
    /* Wall: when the process before this one last fired a task; INT64_MAX: not known, or there are other nodes. */
    int64_t last_fired_ms;
    void (*nudge)(void *context, const struct task *t); /* a task that is SCHEDULED again, as it is now */
    void (*settled)(void *context, const struct event *e, const struct settlement *s); /* each */
    void *context;
};

/* A source embeds it. */
struct orphans {
    struct orphans_setup setup;
    struct reaper *reaper;           /* the source's */
    void (*found)(struct reaper *r); /* the answer is in `ask`; not called after an error. It ends with reaper_found */
    struct op_orphans ask;           /* its arena holds the tasks of the batch */
    const struct task **tasks;       /* of the batch: those that are being settled */
    size_t max, total;               /* total: settled since the last rest */
    struct uuid node;                /* this node's id: its own claims are not orphaned */
    bool again;                      /* a node was marked dead since the last question */
    bool suspects;                   /* suspects among those that will run again */
};

void orphans_init(struct orphans *o, struct reaper *reaper, void (*found)(struct reaper *r),
                  const struct orphans_setup *setup);

/* The source's next question is due now: a node was marked dead. */
void orphans_look_again(struct orphans *o, struct moment now);
void orphans_ask(struct orphans *o);
bool orphans_are_full(const struct orphans *o); /* there may be more than were read */

/* Of task i: a task that is due after everything that its node has fired cannot have fired, nor can one that is not due
 * yet. */
bool orphans_may_have_fired(const struct orphans *o, size_t i);

/* Whether a task that may have fired was alone can be told only from an answer that was not full. Of a full one, that
 * many claims that may have fired are left for later: if this node dies before that, the next one must not find a task
 * alone that was not. */
size_t orphans_left_behind(const struct orphans *o);

/* In `decide`: the verdict on task i. alone: nothing else ran where it ran. */
void orphans_settle(struct orphans *o, size_t i, bool alone);
void orphans_on_settled(struct orphans *o, size_t i); /* the source's `settled` */
void orphans_on_batch_over(struct orphans *o);

/* Nothing is left: no question is due until the next call of orphans_look_again. False: there was one since the last
 * question. */
bool orphans_rest(struct orphans *o);

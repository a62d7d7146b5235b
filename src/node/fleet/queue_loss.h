#pragma once
/* node/fleet/queue_loss.h - settles claims that the fleet's queue has forgotten and no worker runs, a batch at a time.
 *
 * A source of node/reaper/reaper.h which reconcile.h gives its batches. A task that may simply run once more is claimed
 * anew in place (scheduler_retake), which costs half of returning and claiming it. The rest is returned, or lost if it
 * must not run twice. */
#include "node/reaper/reaper.h"
#include "node/scheduler/scheduler.h"

enum { QUEUE_LOSS_BATCH = 2000 };

struct queue_loss_task {
    struct settle_facts facts;
    bool retake; /* it may simply run once more */
};

struct queue_loss_setup {
    struct reaper_setup reaper;        /* without batch_settled: see batch_over */
    struct scheduler *scheduler;       /* NULL: every claim is settled */
    void (*batch_over)(void *context); /* a batch is settled, or was left */
    void *batch_context;
};

struct queue_loss {
    struct reaper reaper;
    struct queue_loss_setup setup;
    const struct queue_loss_task *v; /* the batch, like the next two; reaper.found of them */
    bool *taken;                     /* which were claimed anew */
    struct fenced_id *ids;           /* that are to be claimed anew */
};

void queue_loss_init(struct queue_loss *q, const struct queue_loss_setup *setup);

/* Copies what settling a task needs; false: there is no room in the arena. */
bool queue_loss_note(const struct queue_loss *q, const struct task *t, struct arena *a,
                     struct queue_loss_task *ret) must_use;

/* At most QUEUE_LOSS_BATCH claims, borrowed until batch_over. Nothing is under way, and it was not stopped. */
void queue_loss_settle(struct queue_loss *q, const struct queue_loss_task *v, size_t n);
int64_t queue_loss_step(struct queue_loss *q, struct moment now, int64_t behind_ms); /* when to call again */
void queue_loss_stop(struct queue_loss *q); /* a batch that is not being settled is left to other nodes */
bool queue_loss_is_idle(const struct queue_loss *q);

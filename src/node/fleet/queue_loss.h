#pragma once
/* node/fleet/queue_loss.h - sees to tasks that a queue has forgotten and nobody runs, a batch at a time. What may simply run once more is claimed anew
 * in place (scheduler_retake), which costs half of returning and claiming it; the rest is returned, or lost if it must not run twice. */
#include "node/scheduler/scheduler.h"
#include "node/updater/settle_retry.h"

enum { QUEUE_LOSS_BATCH = 2000 };

struct queue_loss_task {
    struct settle_facts facts;
    bool retake; /* it may simply run once more */
};

struct queue_loss_setup {
    struct scheduler *scheduler;    /* NULL: all of it is settled */
    struct settle_retry_setup ends; /* whom to tell of what is settled; `done` is after a batch */
    uint64_t seed;
};

struct missing {
    struct queue_loss_setup setup;
    struct prng random;
    struct ends ends;
    const struct queue_loss_task *v; /* of the batch under way, like the next five */
    size_t n;
    struct fenced_id *names; /* that are asked for */
    struct arena verdicts;
    struct event *events;
    struct settlement *settlements;
    bool retaking, given_up;
    struct moment now;
    int64_t behind_ms;
};

void queue_loss_init(struct missing *m, const struct queue_loss_setup *setup);
struct outcome queue_loss_outcome(enum delivery delivery);

/* What is kept of one; false: there is no room in the arena. */
bool queue_loss_note(const struct missing *m, const struct task *t, struct arena *a,
                     struct queue_loss_task *ret) must_use;

/* At most QUEUE_LOSS_BATCH, borrowed until done. Nothing is under way. */
void queue_loss_settle(struct missing *m, const struct queue_loss_task *v, size_t n, struct moment now,
                       int64_t behind_ms);
int64_t queue_loss_step(struct missing *m, struct moment now, int64_t behind_ms); /* when to call again */
void queue_loss_give_up(struct missing *m);                                       /* what waits is left to others */
bool queue_loss_is_idle(const struct missing *m);

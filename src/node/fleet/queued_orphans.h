#pragma once
/* node/fleet/queued_orphans.h - for node/cluster/recovery.h: which tasks of dead nodes the fleet's queue has.
 *
 * A node hands a claim off to the queue when all its tasks were pushed (node/fleet/handoff.h). If it dies before that,
 * some of them wait in the queue or run at a worker. Their claims are handed off in the dead node's place
 * (OP_HANDOFF 4), and they go on. Only of a queue that can look tasks up (async_io.push_again). */
#include "port/async_io.h"
#include "port/store.h"

struct queued_orphans_setup {
    struct async_io *async_io;
    struct writer *writer;
    void (*answered)(void *context, bool ok); /* after queued_orphans_ask */
    void (*handed_off)(void *context, const struct op_handoff *op);
    void *context;
};

/* One question or operation is under way at a time. */
struct queued_orphans {
    struct queued_orphans_setup setup;
    struct io_known known;
    struct io_stats state; /* read behind the answer */
    uint64_t epoch;
    struct fenced_id *ids; /* of the batch, like the next four: n of them */
    bool *answer;
    struct uuid *claims; /* to be handed off */
    uint64_t *epochs;    /* of these claims: the queue's */
    size_t n, claim_count;
    struct op_handoff op;
    bool failed; /* the last question, and that was logged */
};

void queued_orphans_init(struct queued_orphans *q, const struct queued_orphans_setup *setup);

/* Asks about the tasks of a batch. The answer counts only if the queue is in this epoch before and after it. */
void queued_orphans_ask(struct queued_orphans *q, const struct tasks *tasks, uint64_t epoch);
bool queued_orphans_has(const struct queued_orphans *q, size_t i); /* after the answer: task i of the batch */
void queued_orphans_add_claim(struct queued_orphans *q, struct uuid claim);

/* Hands off the claims that were added; `node` is this node. False: there is none. */
bool queued_orphans_hand_off(struct queued_orphans *q, struct uuid node);
void queued_orphans_release(struct queued_orphans *q); /* the batch is over */

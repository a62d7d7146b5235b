#pragma once
/* node/fleet/handoff.h - writes down which claims a queue has, whole (OP_HANDOFF): from then on they are the queue's, and this node's death
 * repeats nothing of them. Many at once, and again until the store has it. */
#include "core/time/moment.h"
#include "port/store.h"

struct handoff_setup {
    struct writer *writer;
    const struct uuid *node;        /* it may change: see handoff_forget */
    void (*refused)(void *context); /* the store says that this node is dead */
    void *context;
};

struct handoff;

struct handoff *handoff_new(const struct handoff_setup *setup);
void handoff_free(struct handoff *h);                                     /* nothing is in flight; NULL is fine */
void handoff_claim(struct handoff *h, struct uuid claim, uint64_t epoch); /* of the queue; 0: not known */
int64_t handoff_step(struct handoff *h, struct moment now);               /* when to call again */
void handoff_forget(struct handoff *h);                                   /* they were another node's */
bool handoff_is_idle(const struct handoff *h);                            /* all are written down */

#pragma once
/* node/fleet/handoff.h - writes down which claims a queue has, whole (OP_HAND): from then on they are the queue's, and this node's death
 * repeats nothing of them. Many at once, and again until the store has it. */
#include "port/store.h"

struct handover_setup {
    struct writer *writer;
    const struct uuid *node;        /* it may change: see handover_forget */
    void (*refused)(void *context); /* the store says that this node is dead */
    void *context;
};

struct handover;

struct handover *handover_new(const struct handover_setup *setup);
void handover_free(struct handover *h);                                     /* nothing is in flight; NULL is fine */
void handover_claim(struct handover *h, struct uuid claim, uint64_t epoch); /* of the queue; 0: not known */
int64_t handover_step(struct handover *h, int64_t now_ms);                  /* when to call again */
void handover_forget(struct handover *h);                                   /* they were another node's */
bool handover_is_idle(const struct handover *h);                            /* all are written down */

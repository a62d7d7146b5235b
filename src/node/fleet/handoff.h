#pragma once
/* node/fleet/handoff.h - records in the store which claims the fleet's queue has, whole (OP_HANDOFF).
 *
 * From then on these claims are the queue's: if this node dies, none of their tasks is repeated. Many claims go in one
 * operation, which is sent again until the store has it. */
#include "core/time/moment.h"
#include "port/store.h"

struct handoff_setup {
    struct writer *writer;
    const struct uuid *node;        /* this node's id. It changes when the node rejoins: see handoff_forget */
    void (*refused)(void *context); /* the store says that this node is dead */
    void *context;
};

struct handoff;

struct handoff *handoff_new(const struct handoff_setup *setup);
void handoff_free(struct handoff *h); /* nothing is in flight; NULL is fine */

/* Adds a claim. epoch: of the queue, when the claim was pushed first; 0: not known. */
void handoff_claim(struct handoff *h, struct uuid claim, uint64_t epoch);
int64_t handoff_step(struct handoff *h, struct moment now); /* when to call again */
void handoff_forget(struct handoff *h);                     /* drops all claims: they were made under another node id */
bool handoff_is_idle(const struct handoff *h);              /* every claim is recorded */

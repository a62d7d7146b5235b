#pragma once
/* node/arrivals.h - drives OP_ARRIVE: tells tasks that wait for others of those that have ended.
 *
 * The operation that ends a task tells its children itself, as far as its transaction allows. The rest is left in the
 * store (port/store/dependencies.h, rule 11). This module applies it: at the start of the node, whenever an operation
 * of this process says that something is left, and on a shared store every ARRIVALS_ASK_MS, for nodes that died in
 * between.
 *
 * The loop's thread calls all functions. */
#include "node/pending_op.h"

enum { ARRIVALS_ASK_MS = 5000, ARRIVALS_RETRY_MS = 20, ARRIVALS_FAILED_MS = 1000 };

struct arrivals_setup {
    struct writer *writer;
    bool shared; /* other nodes use the store too */
    void (*unblocked)(void *context, uint64_t lanes);
    void *context;
};

struct arrivals;

struct arrivals *arrivals_new(const struct arrivals_setup *setup);
void arrivals_free(struct arrivals *a); /* idle; NULL is fine */
/* Returns when to call again. may_ask: the node has joined and is not draining. */
int64_t arrivals_step(struct arrivals *a, struct moment now, bool may_ask);
void arrivals_ask(struct arrivals *a); /* something is left in the store, or may be */
bool arrivals_is_idle(const struct arrivals *a);

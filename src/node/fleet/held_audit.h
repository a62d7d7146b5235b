#pragma once
/* node/fleet/held_audit.h - should nobody have told this node that a task which the queue has was settled by another: every few seconds it asks
 * the store which of those that it has held for longer are RUNNING still (OP_RUNNING), and lets go of the others. */
#include "node/scheduler/scheduler.h"

enum { HOLDING_ASK_MS = 5000 };

struct holding_setup {
    struct writer *writer;
    struct scheduler *scheduler;
};

struct holding;

struct holding *holding_new(const struct holding_setup *setup);
void holding_free(struct holding *h); /* nothing is in flight; NULL is fine */
int64_t holding_step(struct holding *h, int64_t now_ms);
void holding_stop(struct holding *h);
bool holding_is_idle(const struct holding *h);

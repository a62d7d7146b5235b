#pragma once
/* node/fleet/held_audit.h - should nobody have told this node that a task which the queue has was settled by another: every few seconds it asks
 * the store which of those that it has held for longer are RUNNING still (OP_RUNNING), and lets go of the others. */
#include "node/scheduler/scheduler.h"

enum { HELD_AUDIT_MS = 5000 };

struct held_audit_setup {
    struct writer *writer;
    struct scheduler *scheduler;
};

struct held_audit;

struct held_audit *held_audit_new(const struct held_audit_setup *setup);
void held_audit_free(struct held_audit *h); /* nothing is in flight; NULL is fine */
int64_t held_audit_step(struct held_audit *h, struct moment now);
void held_audit_stop(struct held_audit *h);
bool held_audit_is_idle(const struct held_audit *h);

#pragma once
/* node/fleet/held_audit.h - re-checks in the store which pushed tasks are still RUNNING, and releases the others.
 *
 * Another node may settle a task that this node has pushed to the fleet's queue. Its notification can be lost, and the
 * task would count here for ever. So each pushed task is asked about every HELD_AUDIT_MS (OP_RUNNING). */
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
void held_audit_stop(struct held_audit *h); /* sends no more operations */
bool held_audit_is_idle(const struct held_audit *h);

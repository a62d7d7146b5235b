#pragma once
/* node/fleet/delivery_timeout.h - settles deliveries that timed out in the fleet's queue: their worker went silent.
 *
 * A source of node/reaper/reaper.h: the queue is asked every DELIVERY_TIMEOUT_ASK_MS. The deliveries are acknowledged
 * after their transaction; if this node dies before that, the queue reports them to another one. A worker publishes
 * an outcome before it acknowledges the delivery, so a delivery that timed out may have ended: an event barrier lies
 * between the queue's answer and the verdicts. */
#include "node/reaper/reaper.h"

enum { DELIVERY_TIMEOUT_ASK_MS = 500 };

struct delivery_timeout;

struct delivery_timeout *delivery_timeout_new(const struct reaper_setup *setup);
void delivery_timeout_free(struct delivery_timeout *d); /* idle; NULL is fine */

/* Returns when to call again. behind_ms: as updater_step's. */
int64_t delivery_timeout_step(struct delivery_timeout *d, struct moment now, int64_t behind_ms);
void delivery_timeout_stop(struct delivery_timeout *d); /* asks no more */
bool delivery_timeout_is_idle(const struct delivery_timeout *d);

#pragma once
/* node/updater/lost_verdict.h - what becomes of a task whose claim ended without an outcome.
 *
 * What may have fired is lost, what cannot have is returned. A suspect is failed as a poison task if twice in a row nothing else was
 * running where it ran (DESIGN §7). Once may be chance: many things kill processes. The first time is written down with the task. */
#include "port/events.h"
#include "port/store.h"

struct lost {
    bool fired; /* it may have */
    bool alone; /* then: and nothing else ran there */
};

/* ret: as if somebody had reported it. Texts are borrowed from the task, or in the arena. */
struct settlement lost_verdict_settle(const struct task *t, struct lost how, int64_t now_ms, struct prng *random,
                                      struct arena *a, struct event *ret);

#pragma once
/* node/reaper/lost_verdict.h - the verdict on a task whose claim ended without an outcome.
 *
 *  - A task that may have fired is lost, a task that cannot have fired is returned.
 *  - A suspect is failed as a poison task if, twice in a row, nothing else was running where it ran. Once may be
 *    chance: many things kill processes. The first time is recorded in the task's last_error. */
#include "port/events.h"
#include "port/store.h"

struct lost {
    bool fired; /* it may have fired */
    bool alone; /* with fired: nothing else was running there */
};

/* ret: the event, as if a worker had reported it. Texts are borrowed from the task, or in the arena. */
struct settlement lost_verdict_settle(const struct task *t, struct lost how, int64_t now_ms, struct prng *random,
                                      struct arena *a, struct event *ret);

#pragma once
/* core/task/late.h - when a start counts as late, and what made it late.
 *
 * A user waits for a moment: the requested time of a first attempt, the due time of a retry (task_awaited_ms). The
 * delay of an attempt is its start minus that moment. docs/DELIVERY.md has the table for users. */
#include <stdint.h>

#include "base/metrics.h"

enum {
    LATE_MS = 100, /* an attempt with a smaller delay is on time and has no cause */
    /* The one limit beyond which Belfry counts as not running. An occurrence that is later than this when the spawner
     * finds it was missed: its catch-up mode decides. The same holds for a process that was stopped and continued, a
     * clock that was set forward and a task that is resumed. */
    MISSED_MS = 2500,
};

/* X(id, for people). If several causes come together, the latest one that is known counts. */
#define LATE_CAUSE_MAP(X)                                                                                              \
    X(NONE, "")                                                                                                        \
    X(DOWN, "no node was running, or the node or worker that had it died or left")                                     \
    X(PAUSED, "the task or its queue was paused")                                                                      \
    X(CREATED, "it was created or moved after its time")                                                               \
    X(SPREAD, "spread_seconds")                                                                                        \
    X(SLOT, "its previous run was not over")                                                                           \
    X(LIMIT, "a limit of its queue or tenant")                                                                         \
    X(BREAKER, "a circuit breaker was open")                                                                           \
    X(RETRY_AFTER, "its host had sent Retry-After")                                                                    \
    X(HOST, "its host had as many calls as one host gets")                                                             \
    X(ROOM, "no worker had a free slot")                                                                               \
    X(BACKLOG, "nothing held it: it waited for its turn")                                                              \
    X(KEY, "no slot of its concurrency key was free")

enum late_cause {
#define X(id, text) LATE_##id,
    LATE_CAUSE_MAP(X)
#undef X
};
enum { LATE_CAUSES = LATE_KEY + 1 };

extern const char *const late_cause_names[LATE_CAUSES + 1]; /* "NONE", "DOWN" …; NULL at the end */

/* The cause of an attempt with that delay. known: what is known to have held it; NONE: nothing is. */
enum late_cause late_cause_of(int64_t delay_ms, enum late_cause known);
/* Adds an attempt to the metrics of delays and causes. */
void late_measure(struct metrics *m, int64_t awaited_ms, int64_t started_us, enum late_cause known);

#pragma once
/* core/sharing/pools.h - which workers of a fleet can run the tasks of a lane, and what the others lack.
 *
 * Workers of one kind, which serve the same tasks and have the same resources, form a group. All groups that can run a
 * lane's tasks together are the lane's pool: what is claimed of the lane is bounded by the places of these workers
 * alone, so a pool without a free place holds up no other. */
#include "core/task/task.h"

/* The label of workers that have not told which labels they have: they count as having every label. */
#define WORKER_LABELS_UNKNOWN "*"

struct worker_kind {
    struct str queues;              /* names, sorted, separated by commas; empty: all */
    struct str tenants;             /* the same */
    struct str labels;              /* the same; empty: none */
    int priority_min, priority_max; /* which it serves */
    int64_t cpu_milli, memory_mb;   /* of one worker; -1: no limit */
};
/* A worker that has told nothing of itself. */
#define WORKER_KIND_UNKNOWN                                                                                            \
    ((struct worker_kind){                                                                                             \
        .labels = S(WORKER_LABELS_UNKNOWN), .priority_max = PRIORITY_MAX, .cpu_milli = -1, .memory_mb = -1 })

struct worker_group {
    struct worker_kind kind;
    int64_t slots, workers; /* of all workers together; how many these are */
};

struct worker_groups {
    struct worker_group *v;
    size_t n;
};

int worker_kind_compare(const struct worker_kind *a, const struct worker_kind *b); /* for sorting; 0: the same */

/* Whether the workers of a group can run the tasks of a lane; tenant: its name. */
bool worker_group_serves(const struct worker_group *g, const struct lane *lane, struct str tenant);
/* How many tasks of such a lane they run at once. */
int64_t worker_group_places(const struct worker_group *g, const struct lane *lane);

/* If no group serves a lane: what the nearest one lacks, the one that fails only at the last of these needs. */
enum pool_need {
    POOL_WORKER, /* there is no worker at all */
    POOL_QUEUE,
    POOL_TENANT,
    POOL_PRIORITY,
    POOL_LABEL,
    POOL_CPU,
    POOL_MEMORY,
    POOL_NOTHING, /* a group serves it */
};

enum { POOL_MISSING_TEXT = 120, POOL_REASON_TEXT = 400 };

struct pool_shortage {
    enum pool_need need;
    char missing[POOL_MISSING_TEXT]; /* "label gpu", "queue mail", "cpu 4": for metrics and logs */
    char reason[POOL_REASON_TEXT];   /* "no worker has the label gpu": a sentence for people, without its full stop */
};

struct pool_shortage pool_shortage_of(const struct worker_groups *all, const struct lane *lane, struct str tenant);

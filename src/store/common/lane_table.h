#pragma once
/* store/common/lane_table.h - the table `lanes` in memory: by key for those who write, by number for those who read rows. Lanes are never
 * deleted, so that what was once read stays true; how they get here is each store's own. */
#include "base/map.h"
#include "core/task/task.h"

enum {
    POOL_DISPATCHED,
    POOL_LEASED,         /* WORKER: claimed by a lease and by nobody else */
    POOL_SUSPECT,        /* dispatched, but a few at a time */
    POOL_LEASED_SUSPECT, /* the same of what is leased */
    POOL_NEVER,          /* WORKFLOW: never claimed */
};
int task_pool(const struct task *t);
int pool_of_suspects(int pool, bool suspect); /* that belongs to one of a task's: for what is a suspect, or is none */
static inline bool pool_is_leased(int pool)
{
    return pool == POOL_LEASED || pool == POOL_LEASED_SUSPECT;
}

enum { LANE_QUEUE_MAX = 1024 };

struct lane_row {
    int64_t number;
    struct lane lane;
    int pool;
    struct str key; /* in the map; what follows holds it, and the queue's name at its end */
    char bytes[];
};

struct store_lanes {
    struct map by_key;
    struct lane_row **by_number; /* [number - 1]; NULL: none that is known */
    size_t top, cap;             /* the highest number; room */
};

void store_lanes_forget(struct store_lanes *l);  /* read anew at the next use */
void store_lanes_release(struct store_lanes *l); /* a zeroed one is fine */

/* number >= 1, and a queue's name of at most LANE_QUEUE_MAX bytes. One that is known already stays. */
void store_lanes_keep(struct store_lanes *l, int64_t number, struct lane lane, int pool);
const struct lane_row *store_lanes_find(const struct store_lanes *l, struct lane lane, int pool); /* NULL: none */
const struct lane_row *store_lanes_at(const struct store_lanes *l, int64_t number);               /* NULL: none */

#pragma once
/* store/common/lane_table.h - the table `lanes` in memory: by key for writers, by number for readers of rows. Lanes are
 * never deleted, so a lane that was read once stays valid. Each store fills the table in its own way. */
#include "base/map.h"
#include "port/store/reader.h"

enum {
    POOL_DISPATCHED,
    POOL_LEASED,         /* target WORKER: claimed only by a lease */
    POOL_SUSPECT,        /* as POOL_DISPATCHED, but for suspects: claimed a few at a time */
    POOL_LEASED_SUSPECT, /* as POOL_LEASED, but for suspects */
    POOL_NEVER,          /* target WORKFLOW: never claimed */
    POOL_LATE,           /* as POOL_DISPATCHED, for tasks that are not claimed ahead (struct lane, `late`) */
    POOL_LATE_SUSPECT,   /* as POOL_SUSPECT, for such tasks */
};
int task_pool(const struct task *t);
int pool_of_suspects(int pool, bool suspect); /* the pool beside `pool` for suspects, or for other tasks */
int lane_pool(const struct lane *lane, bool leased, bool suspect); /* the pool in which tasks of a lane are */
int pool_of_late(int pool);                                        /* the pool beside `pool` for late tasks */
bool pool_is_late(int pool);
static inline bool pool_is_leased(int pool)
{
    return pool == POOL_LEASED || pool == POOL_LEASED_SUSPECT;
}

enum { LANE_TEXT_MAX = 1024 }; /* bytes of each of a lane's texts */

struct lane_row {
    int64_t number;
    struct lane lane; /* its texts point into bytes */
    int pool;
    struct str key; /* the map's key, which points into bytes */
    char bytes[];
};

struct store_lanes {
    struct map by_key;
    struct lane_row **by_number; /* [number - 1]; NULL: unknown */
    size_t top, cap;             /* the highest number; allocated entries */
};

void store_lanes_clear(struct store_lanes *l);   /* empties it: lanes are read again when they are used */
void store_lanes_release(struct store_lanes *l); /* a zeroed one is fine */

/* False: no task has such a lane; a row of `lanes` that has is damaged. */
bool lane_fits(const struct lane *lane);

/* number >= 1; lane_fits. A known lane stays as it is. */
void store_lanes_add(struct store_lanes *l, int64_t number, struct lane lane, int pool);
const struct lane_row *store_lanes_find(const struct store_lanes *l, struct lane lane, int pool); /* NULL: none */
const struct lane_row *store_lanes_at(const struct store_lanes *l, int64_t number);               /* NULL: none */

/* The inverse of lane_order_ms. */
int64_t lane_due_ms(const struct lane *lane, int64_t order_ms);

/* The lane of a task of that lane after it was put aside for that host (empty: as it was). A leased task stays. */
struct lane lane_put_aside(const struct lane_row *row, struct str host);

/* Every known lane whose tasks a node claims, each once, in the arena (reader_lanes). False: the arena is full. */
/* The queues of all lanes of a tenant, each once. False: the arena is full. */
bool store_lanes_queues(const struct store_lanes *l, int32_t tenant, struct arena *a, struct used_queues *ret);
bool store_lanes_list(const struct store_lanes *l, struct arena *a, struct lane **ret, size_t *ret_count) must_use;

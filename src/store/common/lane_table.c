#include "store/common/lane_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int task_pool(const struct task *t)
{
    int pool = t->target == TARGET_WORKFLOW ? POOL_NEVER : t->target == TARGET_WORKER ? POOL_LEASED : POOL_DISPATCHED;
    return pool_of_suspects(pool, task_is_suspect(t));
}

int pool_of_suspects(int pool, bool suspect)
{
    switch (pool) {
    case POOL_DISPATCHED:
    case POOL_SUSPECT: return suspect ? POOL_SUSPECT : POOL_DISPATCHED;
    case POOL_LEASED:
    case POOL_LEASED_SUSPECT: return suspect ? POOL_LEASED_SUSPECT : POOL_LEASED;
    default: return pool;
    }
}

enum { KEY_HEAD = 6 };

/* The key: tenant, class, pool, then the queue's name. */
static struct str store_lanes_key(struct lane lane, int pool, char out[KEY_HEAD + LANE_QUEUE_MAX])
{
    assert(lane.queue.n <= LANE_QUEUE_MAX);
    memcpy(out, &lane.tenant, sizeof lane.tenant);
    out[4] = (char)lane.class_;
    out[5] = (char)pool;
    if (lane.queue.n)
        memcpy(out + KEY_HEAD, lane.queue.p, lane.queue.n);
    return (struct str){ out, KEY_HEAD + lane.queue.n };
}

void store_lanes_clear(struct store_lanes *l)
{
    for (size_t i = 0; i < l->top; i++)
        free(l->by_number[i]);
    l->top = 0;
    map_release(&l->by_key);
}

void store_lanes_release(struct store_lanes *l)
{
    store_lanes_clear(l);
    free(l->by_number);
    *l = (struct store_lanes){ 0 };
}

static void store_lanes_make_room(struct store_lanes *l, size_t number)
{
    if (number > l->cap) {
        l->cap = max_of(number * 2, (size_t)64);
        l->by_number = xrealloc(l->by_number, l->cap * sizeof *l->by_number);
    }
    while (l->top < number)
        l->by_number[l->top++] = NULL;
}

void store_lanes_add(struct store_lanes *l, int64_t number, struct lane lane, int pool)
{
    char bytes[KEY_HEAD + LANE_QUEUE_MAX];
    struct str key = store_lanes_key(lane, pool, bytes);
    assert(number >= 1);
    store_lanes_make_room(l, (size_t)number);
    if (l->by_number[number - 1])
        return;
    struct lane_row *row = xcalloc(1, sizeof *row + key.n);
    memcpy(row->bytes, key.p, key.n);
    row->key = (struct str){ row->bytes, key.n };
    row->number = number;
    row->lane = lane;
    row->lane.queue = str_sub(row->key, KEY_HEAD, key.n);
    row->pool = pool;
    l->by_number[number - 1] = row;
    (void)map_put(&l->by_key, row->key, row);
}

const struct lane_row *store_lanes_find(const struct store_lanes *l, struct lane lane, int pool)
{
    char bytes[KEY_HEAD + LANE_QUEUE_MAX];
    return map_get(&l->by_key, store_lanes_key(lane, pool, bytes));
}

const struct lane_row *store_lanes_at(const struct store_lanes *l, int64_t number)
{
    return number < 1 || number > (int64_t)l->top ? NULL : l->by_number[number - 1];
}

#include "store/common/lane_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int task_pool(const struct task *t)
{
    struct lane lane = task_lane(t);
    return lane_pool(&lane, task_is_leased(t), task_is_suspect(t));
}

int lane_pool(const struct lane *lane, bool leased, bool suspect)
{
    return pool_of_suspects(leased ? POOL_LEASED : lane->late ? POOL_LATE : POOL_DISPATCHED, suspect);
}

int pool_of_late(int pool)
{
    return pool == POOL_DISPATCHED ? POOL_LATE : pool == POOL_SUSPECT ? POOL_LATE_SUSPECT : pool;
}

bool pool_is_late(int pool)
{
    return pool == POOL_LATE || pool == POOL_LATE_SUSPECT;
}

int pool_of_suspects(int pool, bool suspect)
{
    switch (pool) {
    case POOL_DISPATCHED:
    case POOL_SUSPECT: return suspect ? POOL_SUSPECT : POOL_DISPATCHED;
    case POOL_LEASED:
    case POOL_LEASED_SUSPECT: return suspect ? POOL_LEASED_SUSPECT : POOL_LEASED;
    case POOL_LATE:
    case POOL_LATE_SUSPECT: return suspect ? POOL_LATE_SUSPECT : POOL_LATE;
    default: return pool;
    }
}

/* The key: the numbers, the lengths of the first two texts, then the texts. Equal lanes have equal bytes. */
enum { KEY_NUMBERS = 26, KEY_MAX = KEY_NUMBERS + 3 * LANE_TEXT_MAX };

static char *lane_key_add(char *at, const void *p, size_t n)
{
    if (n)
        memcpy(at, p, n);
    return at + n;
}

static struct str lane_key(const struct lane *lane, int pool, char out[KEY_MAX])
{
    assert(lane_fits(lane));
    uint8_t small[] = { (uint8_t)lane->priority, (uint8_t)pool };
    uint16_t lengths[] = { (uint16_t)lane->queue.n, (uint16_t)lane->requires.n };
    char *at = lane_key_add(out, &lane->tenant, sizeof lane->tenant);
    at = lane_key_add(at, small, sizeof small);
    at = lane_key_add(at, lengths, sizeof lengths);
    at = lane_key_add(at, &lane->cpu_milli, sizeof lane->cpu_milli);
    at = lane_key_add(at, &lane->memory_mb, sizeof lane->memory_mb);
    assert(at == out + KEY_NUMBERS);
    at = lane_key_add(at, lane->queue.p, lane->queue.n);
    at = lane_key_add(at, lane->requires.p, lane->requires.n);
    at = lane_key_add(at, lane->host.p, lane->host.n);
    return (struct str){ out, (size_t)(at - out) };
}

bool lane_fits(const struct lane *lane)
{
    return lane->priority >= PRIORITY_MIN && lane->priority <= PRIORITY_MAX && lane->queue.n <= LANE_TEXT_MAX &&
           lane->requires.n <= LANE_TEXT_MAX && lane->host.n <= LANE_TEXT_MAX;
}

int64_t lane_due_ms(const struct lane *lane, int64_t order_ms)
{
    int64_t ahead_ms = (int64_t)lane->priority * AGEING_MS;
    return order_ms == INT64_MIN || order_ms > INT64_MAX - ahead_ms ? order_ms : order_ms + ahead_ms;
}

struct lane lane_put_aside(const struct lane_row *row, struct str host)
{
    struct lane lane = row->lane;
    if (host.n && !pool_is_leased(row->pool))
        lane.host = host;
    return lane;
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

static struct lane_row *lane_row_new(int64_t number, const struct lane *lane, int pool, struct str key)
{
    struct lane_row *row = xcalloc(1, sizeof *row + key.n);
    size_t requires = KEY_NUMBERS + lane->queue.n, host = requires + lane->requires.n;
    memcpy(row->bytes, key.p, key.n);
    row->key = (struct str){ row->bytes, key.n };
    row->number = number;
    row->lane = *lane;
    row->lane.queue = str_sub(row->key, KEY_NUMBERS, requires);
    row->lane.requires = str_sub(row->key, requires, host);
    row->lane.host = str_sub(row->key, host, key.n);
    row->lane.late = pool_is_late(pool);
    row->pool = pool;
    return row;
}

void store_lanes_add(struct store_lanes *l, int64_t number, struct lane lane, int pool)
{
    char bytes[KEY_MAX];
    assert(number >= 1);
    store_lanes_make_room(l, (size_t)number);
    if (l->by_number[number - 1])
        return;
    struct lane_row *row = lane_row_new(number, &lane, pool, lane_key(&lane, pool, bytes));
    l->by_number[number - 1] = row;
    (void)map_put(&l->by_key, row->key, row);
}

const struct lane_row *store_lanes_find(const struct store_lanes *l, struct lane lane, int pool)
{
    char bytes[KEY_MAX];
    return map_get(&l->by_key, lane_key(&lane, pool, bytes));
}

const struct lane_row *store_lanes_at(const struct store_lanes *l, int64_t number)
{
    return number < 1 || number > (int64_t)l->top ? NULL : l->by_number[number - 1];
}

/* Suspects have lanes of their own, but callers see one lane for both. */
static bool store_lanes_is_shown(const struct store_lanes *l, const struct lane_row *row)
{
    if (!row || pool_is_leased(row->pool) || row->pool == POOL_NEVER)
        return false;
    int usual = pool_of_suspects(row->pool, false);
    return row->pool == usual || !store_lanes_find(l, row->lane, usual);
}

bool store_lanes_queues(const struct store_lanes *l, int32_t tenant, struct arena *a, struct used_queues *ret)
{
    struct used_queues names = { .v = arena_array(a, struct str, l->top) };
    if (!names.v)
        return false;
    for (size_t i = 0; i < l->top; i++) {
        const struct lane_row *row = l->by_number[i];
        bool known = !row || row->lane.tenant != tenant || row->lane.queue.n == 0; /* of control work */
        for (size_t k = 0; !known && k < names.n; k++)
            known = str_eq(names.v[k], row->lane.queue);
        if (!known && !arena_str(a, row->lane.queue, &names.v[names.n++]))
            return false;
    }
    *ret = names;
    return true;
}

bool store_lanes_list(const struct store_lanes *l, struct arena *a, struct lane **ret, size_t *ret_count)
{
    struct lane *v = arena_array(a, struct lane, l->top);
    size_t n = 0;
    if (!v)
        return false;
    for (size_t i = 0; i < l->top; i++) {
        if (!store_lanes_is_shown(l, l->by_number[i]))
            continue;
        struct lane *lane = &v[n++];
        *lane = l->by_number[i]->lane;
        if (!arena_str(a, lane->queue, &lane->queue) || !arena_str(a, lane->requires, &lane->requires) ||
            !arena_str(a, lane->host, &lane->host))
            return false;
    }
    *ret = v;
    *ret_count = n;
    return true;
}

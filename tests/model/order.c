#include "model/order.h"

#include <assert.h>
#include <stdlib.h>

void order_init(struct order *o)
{
    *o = (struct order){ 0 };
}

void order_release(struct order *o)
{
    free(o->v);
    order_init(o);
}

size_t order_count(const struct order *o)
{
    return o->to - o->from;
}

struct order_entry *order_at(const struct order *o, size_t i)
{
    assert(i < order_count(o));
    return &o->v[o->from + i];
}

static bool order_entry_is_before(const struct order_entry *e, int64_t key, struct uuid id)
{
    return e->key != key ? e->key < key : uuid_cmp(e->id, id) < 0;
}

size_t order_find(const struct order *o, int64_t key, struct uuid id)
{
    size_t low = 0, high = order_count(o);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (order_entry_is_before(order_at(o, middle), key, id))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool order_is_at(const struct order *o, size_t i, int64_t key, struct uuid id)
{
    return i < order_count(o) && order_at(o, i)->key == key && uuid_eq(order_at(o, i)->id, id);
}

void *order_get(const struct order *o, int64_t key, struct uuid id)
{
    size_t i = order_find(o, key, id);
    return order_is_at(o, i, key, id) ? order_at(o, i)->value : NULL;
}

/* Makes room for at least one entry at each end. */
static void order_make_room(struct order *o)
{
    if (o->from > 0 && o->to < o->cap)
        return;
    size_t n = order_count(o);
    struct order bigger = { .cap = n * 2 + 16 };
    bigger.from = (bigger.cap - n) / 2;
    bigger.to = bigger.from + n;
    bigger.v = xmalloc(bigger.cap * sizeof *bigger.v);
    if (n)
        memcpy(bigger.v + bigger.from, o->v + o->from, n * sizeof *o->v);
    free(o->v);
    *o = bigger;
}

void order_add(struct order *o, int64_t key, struct uuid id, void *value)
{
    size_t i = order_find(o, key, id), n = order_count(o);
    assert(!order_is_at(o, i, key, id));
    order_make_room(o);
    struct order_entry *first = o->v + o->from;
    if (i < n / 2) {
        memmove(first - 1, first, i * sizeof *first);
        o->from--;
    } else {
        memmove(first + i + 1, first + i, (n - i) * sizeof *first);
        o->to++;
    }
    *order_at(o, i) = (struct order_entry){ key, id, value };
}

void order_remove(struct order *o, int64_t key, struct uuid id)
{
    size_t i = order_find(o, key, id), n = order_count(o);
    assert(order_is_at(o, i, key, id));
    struct order_entry *first = o->v + o->from;
    if (i < n / 2) {
        memmove(first + 1, first, i * sizeof *first);
        o->from++;
    } else {
        memmove(first + i, first + i + 1, (n - i - 1) * sizeof *first);
        o->to--;
    }
}

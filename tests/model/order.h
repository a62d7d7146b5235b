#pragma once
/* model/order.h - entries sorted by a number, then by id.
 *
 * A sorted array with free space at both ends. To add or remove an entry near an end (the earliest due time, the newest
 * id) moves only the few entries between it and that end. Elsewhere it moves up to half of the array, which is fast
 * enough for tens of thousands of rows. */
#include "base/uuid.h"

struct order_entry {
    int64_t key;
    struct uuid id;
    void *value;
};

struct order {
    struct order_entry *v;
    size_t from, to, cap;
};

void order_init(struct order *o);
void order_release(struct order *o);
size_t order_count(const struct order *o);
struct order_entry *order_at(const struct order *o, size_t i);
size_t order_find(const struct order *o, int64_t key, struct uuid id);     /* number of entries before it */
void *order_get(const struct order *o, int64_t key, struct uuid id);       /* NULL: none */
void order_add(struct order *o, int64_t key, struct uuid id, void *value); /* it must not exist yet */
void order_remove(struct order *o, int64_t key, struct uuid id);           /* it must exist */

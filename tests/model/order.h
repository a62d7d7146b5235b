#pragma once
/* model/order.h - things in the order of a number, then of an id.
 *
 * A sorted array with room at both ends: what is near an end (the earliest due, the newest id) goes in and out at the cost of
 * its few neighbours there, anything else at that of moving half the array, which tens of thousands of rows do not feel. */
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
size_t order_find(const struct order *o, int64_t key, struct uuid id);     /* how many stand before it */
void *order_get(const struct order *o, int64_t key, struct uuid id);       /* NULL: not there */
void order_add(struct order *o, int64_t key, struct uuid id, void *value); /* it is not there yet */
void order_remove(struct order *o, int64_t key, struct uuid id);           /* it is there */

#pragma once
/* base/heap.h - an intrusive min-heap: reads the smallest member in O(1), removes any member in O(log n).
 *
 * Members embed a struct heap_node; the heap owns only its array. Members with equal keys leave in the order in which
 * they were pushed. */
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    int64_t key;
    uint64_t order; /* among equal keys */
    size_t at;      /* 1-based index in the array; 0: in no heap */
};

struct heap {
    struct heap_node **v;
    size_t n, cap;
    uint64_t next_order;
};

void heap_init(struct heap *h);
void heap_release(struct heap *h); /* does not access the nodes: they may be freed already */
void heap_push(struct heap *h, struct heap_node *node, int64_t key);  /* the node must be in no heap */
struct heap_node *heap_peek(const struct heap *h);                    /* NULL when empty */
struct heap_node *heap_pop(struct heap *h);                           /* NULL when empty */
void heap_remove(struct heap *h, struct heap_node *node);             /* the node must be in this heap */
void heap_rekey(struct heap *h, struct heap_node *node, int64_t key); /* the same as remove, then push */

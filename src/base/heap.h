#pragma once
/* base/heap.h - an intrusive min-heap: the smallest at once, any member removed in log n.
 *
 * Members embed a struct heap_node; the heap owns only its array. Equal keys come out in the order they went in. */
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    int64_t key;
    uint64_t order; /* among equal keys */
    size_t at;      /* 1-based place in the array; 0: in no heap */
};

struct heap {
    struct heap_node **v;
    size_t n, cap;
    uint64_t next_order;
};

void heap_init(struct heap *h);
void heap_release(struct heap *h); /* nodes still in it are not touched: they may be gone already */
void heap_push(struct heap *h, struct heap_node *node, int64_t key);  /* the node is in no heap */
struct heap_node *heap_peek(const struct heap *h);                    /* NULL when empty */
struct heap_node *heap_pop(struct heap *h);                           /* NULL when empty */
void heap_remove(struct heap *h, struct heap_node *node);             /* the node is in this heap */
void heap_rekey(struct heap *h, struct heap_node *node, int64_t key); /* as if removed and pushed again */

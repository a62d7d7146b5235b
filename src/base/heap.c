/* A binary heap in an array. Indexes start at 1, as node->at does: the parent of i is i / 2. A node that moves is
 * stored only at its final index; until then the other nodes shift into the gap that it left. */
#include "base/heap.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"

void heap_init(struct heap *h)
{
    *h = (struct heap){ 0 };
}

void heap_release(struct heap *h)
{
    free(h->v);
    heap_init(h);
}

static bool heap_before(const struct heap_node *a, const struct heap_node *b)
{
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static void heap_place(struct heap *h, size_t at, struct heap_node *node)
{
    h->v[at - 1] = node;
    node->at = at;
}

static void heap_sift_up(struct heap *h, size_t at, struct heap_node *node)
{
    for (; at > 1 && heap_before(node, h->v[at / 2 - 1]); at /= 2)
        heap_place(h, at, h->v[at / 2 - 1]);
    heap_place(h, at, node);
}

static void heap_sift_down(struct heap *h, size_t at, struct heap_node *node)
{
    for (size_t child; (child = 2 * at) <= h->n; at = child) {
        if (child < h->n && heap_before(h->v[child], h->v[child - 1]))
            child++;
        if (!heap_before(h->v[child - 1], node))
            break;
        heap_place(h, at, h->v[child - 1]);
    }
    heap_place(h, at, node);
}

/* Places node, starting at the free index `at`, up or down as its key requires. */
static void heap_place_from(struct heap *h, size_t at, struct heap_node *node)
{
    if (at > 1 && heap_before(node, h->v[at / 2 - 1]))
        heap_sift_up(h, at, node);
    else
        heap_sift_down(h, at, node);
}

static void heap_check_member(const struct heap *h, const struct heap_node *node)
{
    assert(node->at >= 1 && node->at <= h->n && h->v[node->at - 1] == node);
}

void heap_push(struct heap *h, struct heap_node *node, int64_t key)
{
    assert(node->at == 0);
    if (h->n == h->cap) {
        h->cap = max_of(h->cap * 2, (size_t)16);
        h->v = xrealloc(h->v, h->cap * sizeof *h->v);
    }
    node->key = key;
    node->order = h->next_order++;
    heap_sift_up(h, ++h->n, node);
}

struct heap_node *heap_peek(const struct heap *h)
{
    return h->n ? h->v[0] : NULL;
}

struct heap_node *heap_pop(struct heap *h)
{
    struct heap_node *least = heap_peek(h);
    if (least)
        heap_remove(h, least);
    return least;
}

void heap_remove(struct heap *h, struct heap_node *node)
{
    heap_check_member(h, node);
    size_t at = node->at;
    struct heap_node *last = h->v[--h->n];
    if (last != node)
        heap_place_from(h, at, last);
    node->at = 0;
}

void heap_rekey(struct heap *h, struct heap_node *node, int64_t key)
{
    heap_check_member(h, node);
    node->key = key;
    node->order = h->next_order++;
    heap_place_from(h, node->at, node);
}

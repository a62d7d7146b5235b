/* Stride scheduling on a tree. Each node has a pass: the tasks it got so far, divided by its weight. A pick goes from
 * the root to the child with the lowest pass, level by level, and raises the passes on its way. The picks of a round
 * only raise the planned passes; fair_took raises the real ones by the number of tasks that were taken.
 *
 * A node's floor is the lowest pass among its children that have more tasks due and are not stopped by a cap. A child
 * that enters a round starts at the floor at least, so idle or capped time is not saved up. The floor is never above
 * the pass of a child that still waits for its turn, so such a child loses nothing, even if claims keep cutting it off.
 *
 * A pass grows by UNIT for each task at weight 1. At 100,000 tasks a second 64 bits last for five years. */
#include "core/sharing/fair.h"

#include <assert.h>
#include <stdlib.h>

#include "base/map.h"

enum { UNIT = 1 << 20, PICKS_A_LINE = 16, QUEUE_KEY_MAX = sizeof(struct fair_key) + 1024 };

static const uint64_t class_shares[CLASSES] = { [CLASS_LOW] = 10, [CLASS_NORMAL] = 30, [CLASS_HIGH] = 60 };

struct fair_pool {
    struct fair_node node, classes[CLASSES];
    int64_t number;
    size_t tenants;
};

/* A tenant of a pool has a node in each class that one of its lines may count in. So has a queue. */
struct fair_tenant {
    struct fair_node in_class[CLASSES];
    struct fair_pool *pool;
    struct fair_key key;
    size_t queues;
};

struct fair_queue {
    struct fair_node in_class[CLASSES];
    struct fair_tenant *tenant;
    size_t lines, key_size;
    char key[]; /* struct fair_key, then the queue's name */
};

struct fair {
    struct fair_node root;
    struct map pools, tenants, queues;
    struct fair_node **heaps; /* space for all children of all nodes of a round */
    size_t heaps_cap;
};

struct fair *fair_new(void)
{
    struct fair *f = xnew(*f);
    map_init(&f->pools, HASH_STABLE);
    map_init(&f->tenants, HASH_STABLE);
    map_init(&f->queues, HASH_STABLE);
    f->root.weight = 1;
    return f;
}

void fair_free(struct fair *f)
{
    if (!f)
        return;
    assert(f->pools.n == 0);
    map_release(&f->pools);
    map_release(&f->tenants);
    map_release(&f->queues);
    free(f->heaps);
    free(f);
}

/* ---- lines ---- */

static struct str fair_pool_key(const int64_t *number)
{
    return (struct str){ (const char *)number, sizeof *number };
}

static struct fair_pool *fair_pool_of(struct fair *f, int64_t number)
{
    struct fair_pool *p = map_get(&f->pools, fair_pool_key(&number));
    if (p)
        return p;
    p = xnew(*p);
    p->number = number;
    p->node = (struct fair_node){ .parent = &f->root, .weight = 1, .rank = number };
    for (int c = 0; c < CLASSES; c++)
        p->classes[c] = (struct fair_node){ .parent = &p->node, .weight = class_shares[c], .rank = -c };
    map_put(&f->pools, fair_pool_key(&p->number), p);
    return p;
}

static struct str fair_tenant_key(const struct fair_key *key)
{
    return (struct str){ (const char *)key, sizeof *key };
}

static struct fair_tenant *fair_tenant_of(struct fair *f, struct fair_key key)
{
    struct fair_tenant *t = map_get(&f->tenants, fair_tenant_key(&key));
    if (t)
        return t;
    t = xnew(*t);
    t->key = key;
    t->pool = fair_pool_of(f, key.pool);
    t->pool->tenants++;
    for (int c = 0; c < CLASSES; c++)
        t->in_class[c] = (struct fair_node){ .parent = &t->pool->classes[c], .weight = 1, .rank = key.tenant };
    map_put(&f->tenants, fair_tenant_key(&t->key), t);
    return t;
}

static struct fair_queue *fair_queue_of(struct fair *f, struct fair_key of, struct str name)
{
    char bytes[QUEUE_KEY_MAX];
    assert(sizeof of + name.n <= sizeof bytes);
    memcpy(bytes, &of, sizeof of);
    if (name.n)
        memcpy(bytes + sizeof of, name.p, name.n);
    struct str key = { bytes, sizeof of + name.n };
    struct fair_queue *q = map_get(&f->queues, key);
    if (q)
        return q;
    q = xcalloc(1, sizeof *q + key.n);
    memcpy(q->key, key.p, key.n);
    q->key_size = key.n;
    q->tenant = fair_tenant_of(f, of);
    q->tenant->queues++;
    for (int c = 0; c < CLASSES; c++)
        q->in_class[c] = (struct fair_node){ .parent = &q->tenant->in_class[c],
                                             .weight = 1,
                                             .name = { q->key + sizeof of, name.n } };
    map_put(&f->queues, (struct str){ q->key, q->key_size }, q);
    return q;
}

void fair_add(struct fair *f, struct fair_line *l, struct fair_key of, struct str queue, enum priority_class class_,
              int64_t rank)
{
    *l = (struct fair_line){ .class_ = class_, .queue = fair_queue_of(f, of, queue) };
    /* an aged line of a lower class comes after those of the class that it joined */
    l->node.rank = rank - (int64_t)class_ * (INT64_MAX / CLASSES / 2);
    l->node.weight = 1;
    l->queue->lines++;
}

static void fair_remove_tenant(struct fair *f, struct fair_tenant *t)
{
    struct fair_pool *p = t->pool;
    map_remove(&f->tenants, fair_tenant_key(&t->key));
    free(t);
    if (--p->tenants)
        return;
    map_remove(&f->pools, fair_pool_key(&p->number));
    free(p);
}

void fair_remove(struct fair *f, struct fair_line *l)
{
    struct fair_queue *q = l->queue;
    struct fair_tenant *t = q->tenant;
    *l = (struct fair_line){ 0 };
    if (--q->lines)
        return;
    map_remove(&f->queues, (struct str){ q->key, q->key_size });
    free(q);
    if (--t->queues == 0)
        fair_remove_tenant(f, t);
}

/* ---- classes and ageing ---- */

enum priority_class fair_draw(struct prng *random)
{
    uint64_t at = prng_below(random, class_shares[CLASS_LOW] + class_shares[CLASS_NORMAL] + class_shares[CLASS_HIGH]);
    enum priority_class c = CLASS_HIGH;
    for (; at >= class_shares[c]; c--)
        at -= class_shares[c];
    return c;
}

enum priority_class fair_class(enum priority_class class_, int priority, int64_t waited_ms)
{
    static const int lowest[CLASSES] = { [CLASS_LOW] = 0, [CLASS_NORMAL] = 4, [CLASS_HIGH] = 7 };
    int64_t aged = priority < 0 ? lowest[class_] : priority;
    aged += max_of(waited_ms, (int64_t)0) / AGEING_MS;
    return priority_class_of((int)min_of(aged, (int64_t)PRIORITY_MAX));
}

/* ---- order of the nodes ---- */

static int fair_compare_names(struct str a, struct str b)
{
    size_t n = min_of(a.n, b.n);
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* Equal passes are ordered by what the nodes stand for, never by the order of the asks. */
static bool fair_node_is_before(const struct fair_node *a, const struct fair_node *b)
{
    if (a->planned != b->planned)
        return a->planned < b->planned;
    return a->rank != b->rank ? a->rank < b->rank : fair_compare_names(a->name, b->name) < 0;
}

static void fair_heap_sift_down(struct fair_node *parent, size_t at)
{
    struct fair_node **v = parent->heap, *node = v[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= parent->ready)
            break;
        if (child + 1 < parent->ready && fair_node_is_before(v[child + 1], v[child]))
            child++;
        if (!fair_node_is_before(v[child], node))
            break;
        v[at] = v[child];
        at = child;
    }
    v[at] = node;
}

/* ---- the tree of a round ---- */

/* What the caps from the given one on allow. */
static int64_t fair_caps_left(const struct fair_round *r, const struct fair_ask *a, size_t from)
{
    int64_t most = FAIR_ROOM_MAX;
    for (size_t i = 0; i < FAIR_CAPS; i++) {
        if (a->caps[i] < (int)from)
            continue;
        assert((size_t)a->caps[i] < r->cap_count);
        most = min_of(most, r->caps[a->caps[i]]);
    }
    return max_of(most, (int64_t)0);
}

/* A node under another parent than in its last round is new there: it starts at the floor. */
static void fair_node_enter(struct fair_node *node, struct fair_node *parent)
{
    if (node->parent != parent || node->pass < parent->floor)
        node->pass = parent->floor;
    node->parent = parent;
    node->planned = node->pass;
    node->lowest_held = UINT64_MAX;
    node->highest_pass = 0;
    node->is_in = true;
    node->held = false;
    node->heap = NULL;
    node->count = node->ready = 0;
}

/* Enters the parents first; at most five levels. */
static void fair_node_enter_with_parents(struct fair_node *node, struct fair_node *parent)
{
    if (!parent->is_in)
        fair_node_enter_with_parents(parent, parent->parent);
    fair_node_enter(node, parent);
    parent->count++;
}

/* Adds a node to its parent's heap. The heap gets its space when its first child comes. */
static void fair_heap_add(struct fair *f, size_t *used, struct fair_node *node)
{
    struct fair_node *parent = node->parent;
    if (!parent->heap) {
        parent->heap = f->heaps + *used;
        *used += parent->count;
        if (parent->parent)
            fair_heap_add(f, used, parent);
    }
    parent->heap[parent->ready++] = node;
}

static void fair_heap_order(struct fair_node *parent)
{
    for (size_t at = parent->ready / 2; at-- > 0;)
        fair_heap_sift_down(parent, at);
}

static void fair_heaps_order(struct fair_node *node)
{
    fair_heap_order(node);
    for (size_t i = 0; i < node->count; i++)
        if (node->heap[i]->heap)
            fair_heaps_order(node->heap[i]);
}

/* Returns the number of lines that take part in the round. */
static size_t fair_open_lines(struct fair_round *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct fair_ask *a = &r->asks[i];
        struct fair_node *node = &a->line->node;
        bool due = a->next_due_ms <= r->until_ms;
        assert(a->weight > 0);
        a->counted = fair_class(a->line->class_, a->priority, r->now_ms - a->next_due_ms);
        a->quota = 0;
        a->capped = due && fair_caps_left(r, a, r->room_caps) == 0;
        a->open = due && !a->capped;
        if (!a->open)
            continue;
        node->ask = a;
        struct fair_node *queue = &a->line->queue->in_class[a->counted];
        queue->weight = (uint64_t)a->weight;
        fair_node_enter_with_parents(node, queue);
        n++;
    }
    return n;
}

static void fair_build_heaps(struct fair *f, struct fair_round *r, size_t lines)
{
    size_t nodes = 5 * lines, used = 0; /* no level of the tree has more nodes than there are lines */
    if (nodes > f->heaps_cap) {
        f->heaps_cap = 2 * nodes;
        f->heaps = xrealloc(f->heaps, f->heaps_cap * sizeof(struct fair_node *));
    }
    for (size_t i = 0; i < r->n; i++)
        if (r->asks[i].open)
            fair_heap_add(f, &used, &r->asks[i].line->node);
    fair_heaps_order(&f->root);
}

/* ---- picking ---- */

static void fair_raise_planned(struct fair_node *node, uint64_t n)
{
    for (; node->parent; node = node->parent) {
        node->planned += n * UNIT / node->weight;
        fair_heap_sift_down(node->parent, 0);
    }
}

/* The line can take no more. Removes it from its heap, and each parent that has no other child left. */
static void fair_heap_drop(struct fair_node *node)
{
    for (; node->parent; node = node->parent) {
        struct fair_node *parent = node->parent;
        struct fair_node *last = parent->heap[--parent->ready];
        parent->heap[parent->ready] = node;
        parent->heap[0] = last;
        if (parent->ready) {
            fair_heap_sift_down(parent, 0);
            return;
        }
    }
}

/* Picks several tasks at a time if there is much room, so that the cost of a round grows with its lines and not with
 * its tasks. If a line gets ahead by that, the next round makes up for it. */
static void fair_plan_quotas(struct fair *f, struct fair_round *r, size_t lines)
{
    size_t quantum = lines == 1 ? r->room : max_of(r->room / (PICKS_A_LINE * lines), (size_t)1);
    for (size_t left = r->room; left && f->root.ready;) {
        struct fair_node *node = &f->root;
        while (!node->ask)
            node = node->heap[0];
        struct fair_ask *a = node->ask;
        size_t n = min_of(min_of(quantum, left), (size_t)fair_caps_left(r, a, 0));
        if (!n) {
            fair_heap_drop(node);
            continue;
        }
        a->quota += n;
        left -= n;
        for (size_t i = 0; i < FAIR_CAPS; i++)
            if (a->caps[i] >= 0)
                r->caps[a->caps[i]] -= (int64_t)n;
        fair_raise_planned(node, n);
    }
}

static void fair_enter_root(struct fair *f)
{
    f->root.is_in = true;
    f->root.heap = NULL;
    f->root.count = f->root.ready = 0;
    f->root.lowest_held = UINT64_MAX;
    f->root.highest_pass = 0;
}

static void fair_leave(struct fair *f, const struct fair_round *r)
{
    for (size_t i = 0; i < r->n; i++)
        for (struct fair_node *node = &r->asks[i].line->node; r->asks[i].open && node; node = node->parent)
            node->is_in = false;
    f->root.is_in = false;
}

void fair_share(struct fair *f, struct fair_round *r)
{
    assert(r->room <= FAIR_ROOM_MAX);
    fair_enter_root(f);
    size_t lines = fair_open_lines(r);
    if (lines) {
        fair_build_heaps(f, r, lines);
        fair_plan_quotas(f, r, lines);
    }
    for (size_t i = 0; i < r->n; i++) {
        struct fair_ask *a = &r->asks[i];
        a->capped |= a->open && fair_caps_left(r, a, r->room_caps) == 0;
    }
    fair_leave(f, r);
}

/* ---- accounting after a claim ---- */

static void fair_charge_taken(const struct fair_round *r, const struct fair_ask *a)
{
    bool held = !a->capped && a->next_due_ms <= r->until_ms;
    assert(a->taken <= a->quota);
    for (struct fair_node *node = &a->line->node; node->parent; node = node->parent) {
        node->pass += a->taken * UNIT / node->weight;
        node->held |= held;
    }
}

static void fair_sum_up_children(const struct fair_ask *a)
{
    for (struct fair_node *node = &a->line->node; node->parent; node = node->parent) {
        struct fair_node *parent = node->parent;
        parent->highest_pass = max_of(parent->highest_pass, node->pass);
        if (node->held)
            parent->lowest_held = min_of(parent->lowest_held, node->pass);
    }
}

/* If no child waits, the floor rises to the highest pass: no child is owed anything. */
static void fair_raise_floors(const struct fair_ask *a)
{
    for (struct fair_node *node = a->line->node.parent; node; node = node->parent) {
        uint64_t floor = node->lowest_held == UINT64_MAX ? node->highest_pass : node->lowest_held;
        node->floor = max_of(node->floor, floor);
    }
}

/* Other rounds may have been shared since: the nodes enter anew. */
void fair_took(struct fair *f, const struct fair_round *r)
{
    fair_enter_root(f);
    for (size_t i = 0; i < r->n; i++)
        if (r->asks[i].open)
            fair_node_enter_with_parents(&r->asks[i].line->node, &r->asks[i].line->queue->in_class[r->asks[i].counted]);
    for (size_t i = 0; i < r->n; i++)
        if (r->asks[i].open)
            fair_charge_taken(r, &r->asks[i]);
    for (size_t i = 0; i < r->n; i++)
        if (r->asks[i].open)
            fair_sum_up_children(&r->asks[i]);
    for (size_t i = 0; i < r->n; i++)
        if (r->asks[i].open)
            fair_raise_floors(&r->asks[i]);
    fair_leave(f, r);
}

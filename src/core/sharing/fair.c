/* Stride scheduling on a tree. Each node has a pass: what it got over its weight. A pick goes from the root to the child with the least
 * pass, level by level, and raises the passes on its way. The picks of a round are only planned; fair_took raises the real passes
 * by what was taken.
 *
 * A node's floor is where its children stand that have something due and are not stopped by a cap. A child that comes (back)
 * into a round starts at the floor at least: neither idle nor capped time is saved up. It is never above a child that
 * waits for its turn, so nobody loses what is due to it: not even one that a claim keeps cutting off.
 *
 * Passes count UNIT a task of weight 1: at 100,000 tasks a second they last for five years. */
#include "core/sharing/fair.h"

#include <assert.h>
#include <stdlib.h>

#include "base/map.h"

enum { UNIT = 1 << 20, CLASSES = 3, PICKS_A_LANE = 16 };

static const uint64_t class_shares[CLASSES] = { [CLASS_LOW] = 10, [CLASS_NORMAL] = 30, [CLASS_HIGH] = 60 };

/* A tenant has a place in each class that one of its lanes may count in. */
struct fair_tenant {
    struct fair_node in_class[CLASSES];
    int32_t number;
    size_t lanes;
};

struct fair {
    struct fair_node root, classes[CLASSES];
    struct map tenants;
    struct fair_node **heaps; /* room for all children of all nodes of a round */
    size_t heaps_cap;
};

struct fair *fair_new(void)
{
    struct fair *f = xnew(*f);
    map_init(&f->tenants, HASH_STABLE);
    f->root.weight = 1;
    for (int c = 0; c < CLASSES; c++)
        f->classes[c] = (struct fair_node){ .parent = &f->root, .weight = class_shares[c], .rank = -c };
    return f;
}

void fair_free(struct fair *f)
{
    if (!f)
        return;
    assert(f->tenants.n == 0);
    map_release(&f->tenants);
    free(f->heaps);
    free(f);
}

/* ---- lanes ---- */

static struct str tenant_key(const int32_t *number)
{
    return (struct str){ (const char *)number, sizeof *number };
}

static struct fair_tenant *tenant_of(struct fair *f, int32_t number)
{
    struct fair_tenant *t = map_get(&f->tenants, tenant_key(&number));
    if (t)
        return t;
    t = xnew(*t);
    t->number = number;
    for (int c = 0; c < CLASSES; c++)
        t->in_class[c] = (struct fair_node){ .parent = &f->classes[c], .weight = 1, .rank = number };
    map_put(&f->tenants, tenant_key(&t->number), t);
    return t;
}

void fair_add(struct fair *f, struct fair_lane *l, struct lane lane)
{
    *l = (struct fair_lane){ .lane = lane, .tenant = tenant_of(f, lane.tenant) };
    l->tenant->lanes++;
}

void fair_remove(struct fair *f, struct fair_lane *l)
{
    struct fair_tenant *t = l->tenant;
    if (--t->lanes == 0) {
        map_remove(&f->tenants, tenant_key(&t->number));
        free(t);
    }
    *l = (struct fair_lane){ 0 };
}

/* ---- ageing ---- */

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

/* ---- who is before whom ---- */

static int compare_lanes(const struct fair_lane *a, const struct fair_lane *b)
{
    size_t n = min_of(a->lane.queue.n, b->lane.queue.n);
    int order = n ? memcmp(a->lane.queue.p, b->lane.queue.p, n) : 0;
    if (order)
        return order;
    if (a->lane.queue.n != b->lane.queue.n)
        return a->lane.queue.n < b->lane.queue.n ? -1 : 1;
    return (int)b->lane.class_ - (int)a->lane.class_; /* a low one that has aged stands behind those it joined */
}

/* Among equals by who they are, never by the order of the asks. */
static bool is_before(const struct fair_node *a, const struct fair_node *b)
{
    if (a->planned != b->planned)
        return a->planned < b->planned;
    return a->ask ? compare_lanes(a->ask->lane, b->ask->lane) < 0 : a->rank < b->rank;
}

static void sift_down(struct fair_node *parent, size_t at)
{
    struct fair_node **v = parent->heap, *node = v[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= parent->ready)
            break;
        if (child + 1 < parent->ready && is_before(v[child + 1], v[child]))
            child++;
        if (!is_before(v[child], node))
            break;
        v[at] = v[child];
        at = child;
    }
    v[at] = node;
}

/* ---- the tree of a round ---- */

static int64_t allowed(const struct fair_round *r, const struct fair_ask *a)
{
    int64_t most = FAIR_ROOM_MAX;
    for (size_t i = 0; i < FAIR_CAPS; i++) {
        if (a->caps[i] < 0)
            continue;
        assert((size_t)a->caps[i] < r->cap_count);
        most = min_of(most, r->caps[a->caps[i]]);
    }
    return max_of(most, (int64_t)0);
}

/* Under another parent than last time it is new there. */
static void enter(struct fair_node *node, struct fair_node *parent)
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

/* Parents first; at most three levels. */
static void bring_in(struct fair_node *node, struct fair_node *parent)
{
    if (!parent->is_in)
        bring_in(parent, parent->parent);
    enter(node, parent);
    parent->count++;
}

/* Into its parent's heap, which gets its room when its first child comes. */
static void put_in_heap(struct fair *f, size_t *used, struct fair_node *node)
{
    struct fair_node *parent = node->parent;
    if (!parent->heap) {
        parent->heap = f->heaps + *used;
        *used += parent->count;
        if (parent->parent)
            put_in_heap(f, used, parent);
    }
    parent->heap[parent->ready++] = node;
}

static void order_heap(struct fair_node *parent)
{
    for (size_t at = parent->ready / 2; at-- > 0;)
        sift_down(parent, at);
}

static void order_heaps(struct fair *f)
{
    order_heap(&f->root);
    for (size_t c = 0; c < f->root.count; c++) {
        struct fair_node *class_ = f->root.heap[c];
        order_heap(class_);
        for (size_t t = 0; t < class_->count; t++)
            order_heap(class_->heap[t]);
    }
}

/* Returns how many lanes are in it. */
static size_t open_lanes(struct fair_round *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct fair_ask *a = &r->asks[i];
        struct fair_node *node = &a->lane->node;
        bool due = a->next_due_ms <= r->until_ms;
        assert(a->weight > 0);
        a->counted = fair_class(a->lane->lane.class_, a->priority, r->now_ms - a->next_due_ms);
        a->quota = 0;
        a->capped = due && allowed(r, a) == 0;
        a->open = due && !a->capped;
        if (!a->open)
            continue;
        node->ask = a;
        node->weight = (uint64_t)a->weight;
        bring_in(node, &a->lane->tenant->in_class[a->counted]);
        n++;
    }
    return n;
}

static void grow_tree(struct fair *f, struct fair_round *r, size_t lanes)
{
    size_t nodes = 2 * lanes + CLASSES, used = 0; /* no more tenants than lanes */
    if (nodes > f->heaps_cap) {
        f->heaps_cap = 2 * nodes;
        f->heaps = xrealloc(f->heaps, f->heaps_cap * sizeof(struct fair_node *));
    }
    for (size_t i = 0; i < r->n; i++)
        if (r->asks[i].open)
            put_in_heap(f, &used, &r->asks[i].lane->node);
    order_heaps(f);
}

/* ---- picking ---- */

static void raise_plan(struct fair_node *node, uint64_t n)
{
    for (; node->parent; node = node->parent) {
        node->planned += n * UNIT / node->weight;
        sift_down(node->parent, 0);
    }
}

/* It can take no more, and so do those above it that it was the last of. */
static void drop(struct fair_node *node)
{
    for (; node->parent; node = node->parent) {
        struct fair_node *parent = node->parent;
        struct fair_node *last = parent->heap[--parent->ready];
        parent->heap[parent->ready] = node;
        parent->heap[0] = last;
        if (parent->ready) {
            sift_down(parent, 0);
            return;
        }
    }
}

/* A few at a time when there is much room, so that a round costs by its lanes and not by its tasks: what that lets a lane get ahead is
 * made up for by the next round. */
static void plan(struct fair *f, struct fair_round *r, size_t lanes)
{
    size_t quantum = lanes == 1 ? r->room : max_of(r->room / (PICKS_A_LANE * lanes), (size_t)1);
    for (size_t left = r->room; left && f->root.ready;) {
        struct fair_node *node = &f->root;
        while (!node->ask)
            node = node->heap[0];
        struct fair_ask *a = node->ask;
        size_t n = min_of(min_of(quantum, left), (size_t)allowed(r, a));
        if (!n) {
            drop(node);
            continue;
        }
        a->quota += n;
        left -= n;
        for (size_t i = 0; i < FAIR_CAPS; i++)
            if (a->caps[i] >= 0)
                r->caps[a->caps[i]] -= (int64_t)n;
        raise_plan(node, n);
    }
}

void fair_share(struct fair *f, struct fair_round *r)
{
    assert(r->room <= FAIR_ROOM_MAX);
    f->root.is_in = true;
    f->root.heap = NULL;
    f->root.count = f->root.ready = 0;
    f->root.lowest_held = UINT64_MAX;
    f->root.highest_pass = 0;
    size_t lanes = open_lanes(r);
    if (lanes) {
        grow_tree(f, r, lanes);
        plan(f, r, lanes);
    }
    for (size_t i = 0; i < r->n; i++) {
        struct fair_ask *a = &r->asks[i];
        a->capped |= a->open && allowed(r, a) == 0;
        for (struct fair_node *node = &a->lane->node; a->open && node; node = node->parent)
            node->is_in = false;
    }
    f->root.is_in = false;
}

/* ---- afterwards ---- */

static void charge(const struct fair_round *r, const struct fair_ask *a)
{
    bool held = !a->capped && a->next_due_ms <= r->until_ms;
    assert(a->taken <= a->quota);
    for (struct fair_node *node = &a->lane->node; node->parent; node = node->parent) {
        node->pass += a->taken * UNIT / node->weight;
        node->held |= held;
    }
}

static void look_at_children(const struct fair_ask *a)
{
    for (struct fair_node *node = &a->lane->node; node->parent; node = node->parent) {
        struct fair_node *parent = node->parent;
        parent->highest_pass = max_of(parent->highest_pass, node->pass);
        if (node->held)
            parent->lowest_held = min_of(parent->lowest_held, node->pass);
    }
}

/* If nobody waits any more, nobody is owed anything. */
static void raise_watermarks(const struct fair_ask *a)
{
    for (struct fair_node *node = a->lane->node.parent; node; node = node->parent) {
        uint64_t floor = node->lowest_held == UINT64_MAX ? node->highest_pass : node->lowest_held;
        node->floor = max_of(node->floor, floor);
    }
}

void fair_took(struct fair *f, const struct fair_round *r)
{
    assert(!f->root.is_in);
    for (size_t i = 0; i < r->n; i++)
        if (r->asks[i].open)
            charge(r, &r->asks[i]);
    for (size_t i = 0; i < r->n; i++)
        if (r->asks[i].open)
            look_at_children(&r->asks[i]);
    for (size_t i = 0; i < r->n; i++)
        if (r->asks[i].open)
            raise_watermarks(&r->asks[i]);
}

/* Each lane belongs to a pool: the workers that can run its tasks, told apart by the groups of workers that these are
 * (core/sharing/pools.h). Lanes of one pool share its places, and no lane has places in two pools.
 *
 *  - Lanes that need CPU or memory have pools of their own for each need: of their tasks, fewer run at once.
 *  - A lane whose tasks nobody can run is in the pool `nobody`. It has no places: what is due there stays in the store.
 *  - A fleet's pool has places for the tasks that its workers run and for some that wait in the queue, so that a worker
 *    with a free slot finds one. The queue gives tasks of a higher class first. So a class may always have one task
 *    there, even if tasks of lower classes wait in all places.
 *  - Without a fleet there is one pool: the slots of this node.
 *  - Control work of workflows, in lanes without a queue, is in the pool `control`: it needs no worker and no slot.
 *
 * When the workers change, lanes change pools, with all that is held or ready of them. Not while a round is open: it
 * refers to lines. */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/scheduler/lanes_internal.h"

enum {
    WORKERS_ARENA = 4 << 20,
    RATE_MS = 250,     /* how long the tasks that end are counted */
    WAITING_MAX = 100, /* how many tasks may wait because tasks end fast, if half of the slots are fewer */
    LOOK_MS = 5000,    /* between two looks at tasks that wait for a worker */
    LOOK_MAX = 256,    /* lanes at a time */
    CONTROL_PLACES = 256,
};

/* ---- pools ---- */

static struct pool_entry *lanes_add_pool(struct lanes *l, const uint32_t *groups, size_t n, const struct lane *needs)
{
    struct pool_entry *p = xcalloc(1, sizeof *p + n * sizeof *groups);
    p->number = ++l->last_pool;
    p->group_count = n;
    if (n)
        memcpy(p->groups, groups, n * sizeof *groups);
    p->needs = (struct lane){ .cpu_milli = needs->cpu_milli, .memory_mb = needs->memory_mb };
    list_push(&l->pools, &p->link);
    return p;
}

static void lanes_free_pool(struct pool_entry *p)
{
    list_remove(&p->link);
    for (int c = 0; c < CLASSES; c++)
        heap_release(&p->due[c]);
    free(p);
}

void lanes_pools_init(struct lanes *l)
{
    static const struct lane none = { 0 };
    list_init(&l->pools);
    map_init(&l->pool_tenants, HASH_STABLE);
    map_init(&l->missing, HASH_STABLE);
    arena_init(&l->workers_arena, WORKERS_ARENA);
    struct pool_entry *here = lanes_add_pool(l, NULL, 0, &none);
    here->slots = here->places = l->setup.slots;
    l->look_ms = INT64_MAX;
    l->nobody = lanes_add_pool(l, NULL, 0, &none);
    l->nobody->nobody = true;
    l->control = lanes_add_pool(l, NULL, 0, &none);
    l->control->slots = l->control->places = CONTROL_PLACES;
}

void lanes_pools_release(struct lanes *l)
{
    list_each (&l->pools, link)
        lanes_free_pool(container_of(link, struct pool_entry, link));
    map_each (&l->missing, slot)
        free(slot->value);
    assert(l->pool_tenants.n == 0);
    map_release(&l->pool_tenants);
    map_release(&l->missing);
    arena_release(&l->workers_arena);
    free(l->numbers);
}

static struct pool_entry *lanes_first_pool(const struct lanes *l)
{
    return container_of(l->pools.next, struct pool_entry, link);
}

/* The tenant's name is needed only if workers have filters by tenant. */
static struct str lanes_tenant_name(struct lanes *l, struct tenant_entry *t)
{
    lanes_read_tenant(l, t);
    return t->name ? str_from(t->name) : S("");
}

static struct pool_entry *lanes_find_pool(const struct lanes *l, const uint32_t *groups, size_t n,
                                          const struct lane *needs)
{
    list_each (&l->pools, link) {
        struct pool_entry *p = container_of(link, struct pool_entry, link);
        if (!p->nobody && p->group_count == n && memcmp(p->groups, groups, n * sizeof *groups) == 0 &&
            p->needs.cpu_milli == needs->cpu_milli && p->needs.memory_mb == needs->memory_mb)
            return p;
    }
    return NULL;
}

static void lanes_size_pool(const struct lanes *l, struct pool_entry *p);

struct pool_entry *lanes_pool_for(struct lanes *l, const struct lane_entry *e)
{
    if (!e->lane.queue.n)
        return l->control;
    if (!l->fleet)
        return lanes_first_pool(l);
    struct str tenant = lanes_tenant_name(l, e->queue->tenant);
    uint32_t *groups = xcalloc(l->workers.n + 1, sizeof *groups);
    size_t n = 0;
    for (size_t i = 0; i < l->workers.n; i++)
        if (worker_group_serves(&l->workers.v[i], &e->lane, tenant))
            groups[n++] = l->numbers[i];
    struct pool_entry *p = n ? lanes_find_pool(l, groups, n, &e->lane) : l->nobody;
    if (!p) {
        p = lanes_add_pool(l, groups, n, &e->lane);
        lanes_size_pool(l, p);
    }
    free(groups);
    return p;
}

/* ---- places ---- */

static bool lanes_pool_has_group(const struct pool_entry *p, uint32_t number)
{
    for (size_t i = 0; i < p->group_count; i++)
        if (p->groups[i] == number)
            return true;
    return false;
}

/* This node's part of the workers' slots, and of what may wait for them. */
static void lanes_size_pool(const struct lanes *l, struct pool_entry *p)
{
    if (p->nobody || p == l->control || !l->fleet)
        return;
    const struct lanes_workers *w = &l->terms;
    p->slots = p->workers = 0;
    for (size_t i = 0; i < l->workers.n; i++) {
        if (!lanes_pool_has_group(p, l->numbers[i]))
            continue;
        p->slots += (size_t)worker_group_places(&l->workers.v[i], &p->needs);
        p->workers += (size_t)l->workers.v[i].workers;
    }
    p->queues = !w->here;
    size_t waiting = w->here ? 0 : w->waiting ? w->waiting : p->slots / 2;
    p->places = max_of((p->slots + waiting) / w->nodes, (size_t)1);
    if (p->queues && !w->waiting)
        p->places += max_of(p->waiting, waiting / w->nodes) - waiting / w->nodes;
}

/* If tasks end fast, more of them wait in the queue: a worker is not to be idle until the next one comes. */
void lanes_measure_rates(struct lanes *l, int64_t steady_ms)
{
    int64_t passed_ms = steady_ms - l->rates_ms;
    if (!l->fleet || passed_ms < RATE_MS)
        return;
    l->rates_ms = steady_ms;
    list_each (&l->pools, link) {
        struct pool_entry *p = container_of(link, struct pool_entry, link);
        p->waiting = (size_t)min_of((int64_t)(2 * p->ended) * RATE_MS / passed_ms, (int64_t)WAITING_MAX);
        p->ended = 0;
        lanes_size_pool(l, p);
    }
}

/* Tasks that the queue of a fleet has do not count while this process runs tasks itself: nobody reaches them. */
static size_t lanes_pool_running(const struct lanes *l, const struct pool_entry *p, int c)
{
    return l->fleet && l->terms.here ? p->held[c] - p->queued[c] : p->held[c];
}

void lanes_set_parked(struct lanes *l, size_t parked)
{
    l->parked = parked;
}

void lanes_pool_room(const struct lanes *l, const struct pool_entry *p, size_t ret[CLASSES])
{
    size_t running[CLASSES], above = 0, parked = l->fleet && !l->terms.here ? 0 : l->parked;
    for (int c = 0; c < CLASSES; c++)
        running[c] = lanes_pool_running(l, p, c);
    struct class_slots room = class_slots_of(p->places + parked, running);
    for (int c = CLASS_HIGH; c >= CLASS_LOW; c--) {
        above += running[c];
        ret[c] = class_slots_for(&room, (enum priority_class)c);
        if (p->nobody || (p->queues && c != CLASS_LOW && above == 0))
            ret[c] = max_of(ret[c], (size_t)1);
    }
}

bool lanes_pool_has_room(const struct lanes *l, const struct pool_entry *p)
{
    size_t room[CLASSES];
    if (!p->lanes || p->nobody)
        return false;
    lanes_pool_room(l, p, room);
    return room[CLASS_HIGH] > 0;
}

size_t lanes_room(const struct lanes *l)
{
    size_t sum = 0, room[CLASSES];
    list_each (&l->pools, link) {
        const struct pool_entry *p = container_of(link, struct pool_entry, link);
        lanes_pool_room(l, p, room);
        sum += p->lanes && !p->nobody ? room[CLASS_HIGH] : 0;
    }
    return sum;
}

/* Lanes without a worker need none: they are closed, and looked at now and then. */
bool lanes_has_room(const struct lanes *l)
{
    bool without_worker = l->look_ms != INT64_MAX;
    for (int c = 0; c < CLASSES; c++)
        without_worker = without_worker || l->nobody->due[c].n;
    if (without_worker)
        return true;
    list_each (&l->pools, link)
        if (lanes_pool_has_room(l, container_of(link, struct pool_entry, link)))
            return true;
    return false;
}

struct lanes_places lanes_places(const struct lanes *l)
{
    struct lanes_places sum = { 0 };
    list_each (&l->pools, link) {
        const struct pool_entry *p = container_of(link, struct pool_entry, link);
        if (p == l->control)
            continue;
        sum.all += p->lanes || !l->fleet ? p->places : 0; /* in a fleet, the first pool is empty */
        for (int c = 0; c < CLASSES; c++)
            sum.taken += p->held[c];
    }
    return sum;
}

void lanes_on_queued(struct lanes *l, struct lane_entry *e, bool queued)
{
    size_t *of_pool = &e->line->pool->queued[lane_class(e)];
    (void)l;
    assert(queued || (e->queued > 0 && *of_pool > 0));
    e->queued = queued ? e->queued + 1 : e->queued - 1;
    *of_pool = queued ? *of_pool + 1 : *of_pool - 1;
}

/* ---- tenants of a pool ---- */

static struct str lanes_pool_tenant_key(const struct fair_key *key)
{
    return (struct str){ (const char *)key, sizeof *key };
}

struct pool_tenant *lanes_pool_tenant(struct lanes *l, struct pool_entry *pool, struct tenant_entry *t)
{
    struct fair_key key = { pool->number, t->number };
    struct pool_tenant *x = map_get(&l->pool_tenants, lanes_pool_tenant_key(&key));
    if (!x) {
        x = xnew(*x);
        *x = (struct pool_tenant){ .pool = pool, .tenant = t, .key = key };
        map_put(&l->pool_tenants, lanes_pool_tenant_key(&x->key), x);
    }
    x->lines++;
    return x;
}

void lanes_pool_tenant_unref(struct lanes *l, struct pool_tenant *t)
{
    if (--t->lines)
        return;
    map_remove(&l->pool_tenants, lanes_pool_tenant_key(&t->key));
    free(t);
}

int64_t lanes_tenant_share(const struct lanes *l, const struct pool_tenant *t)
{
    if (!l->setup.catalog || catalog_cache_tenant_count(l->setup.catalog) < 2)
        return INT64_MAX;
    return max_of((int64_t)(t->pool->places * TENANT_SLOTS_PERCENT / 100), (int64_t)1);
}

/* ---- what is missing ---- */

struct pool_shortage lanes_shortage(struct lanes *l, const struct lane_entry *e)
{
    if (!e->line->pool->nobody)
        return (struct pool_shortage){ .need = POOL_NOTHING };
    return pool_shortage_of(&l->workers, &e->lane, lanes_tenant_name(l, e->queue->tenant));
}

static void lanes_forget_missing(struct lanes *l, struct lane_entry *e)
{
    struct missing_entry *m = e->missing;
    e->missing = NULL;
    if (!m || --m->lanes)
        return;
    map_remove(&l->missing, str_from(m->shortage.missing));
    free(m);
}

/* Its tasks are due, and nobody can run them. */
static void lanes_tell_missing(struct lanes *l, struct lane_entry *e)
{
    struct pool_shortage s = lanes_shortage(l, e);
    struct missing_entry *m = map_get(&l->missing, str_from(s.missing));
    if (m && e->missing == m)
        return;
    if (!m) {
        m = xnew(*m);
        m->shortage = s;
        map_put(&l->missing, str_from(m->shortage.missing), m);
        log_warn("no_worker", kv_cstr("missing", s.missing), kv_cstr("reason", s.reason),
                 kv_str("queue", e->lane.queue), kv_i64("tenant", e->lane.tenant));
    }
    m->lanes++;
    lanes_forget_missing(l, e);
    e->missing = m;
    l->look_ms = min_of(l->look_ms, l->now_ms + LOOK_MS);
}

static void lanes_round_look_at(struct lanes *l, struct lanes_round *r, struct lane_entry *e)
{
    lane_set_place(l, e, LANE_ASKED);
    lane_plan_ahead(l, e);
    e->heard_ms = e->heard_suspect_ms = INT64_MAX;
    r->v[r->n].lane = e->lane;
    r->entries[r->n++] = e;
}

/* Lanes in which something may be due. Their gates are closed if they are paused. */
static void lanes_look_at_due(struct lanes *l, struct lanes_round *r, int64_t now_ms)
{
    struct heap_node *node;
    for (int c = 0; c < CLASSES; c++)
        while (r->n < LOOK_MAX && (node = heap_peek(&l->nobody->due[c])) && node->key <= now_ms + l->window_ms) {
            struct lane_entry *e = container_of(node, struct lane_entry, at);
            struct lane_hold hold = lanes_nobody_allows(l, e->line, now_ms).hold;
            if (hold.gate == LANE_NO_WORKER)
                lanes_round_look_at(l, r, e);
            else
                lane_close(l, e, hold.gate, hold.until_ms);
        }
}

/* Lanes in which something was due: users may have cancelled it. */
static void lanes_look_at_told(struct lanes *l, struct lanes_round *r, int64_t now_ms)
{
    if (l->look_ms > now_ms)
        return;
    l->look_ms = l->missing.n ? now_ms + LOOK_MS : INT64_MAX;
    for (size_t i = 0; i < l->n && r->n < LOOK_MAX; i++) {
        struct lane_entry *e = l->v[l->look_at++ % l->n];
        if (e->missing && e->place == LANE_CLOSED && e->gate == LANE_NO_WORKER)
            lanes_round_look_at(l, r, e);
    }
}

bool lanes_ask_missing(struct lanes *l, int64_t now_ms, struct lanes_round *r)
{
    lanes_round_make(r, LOOK_MAX, 1);
    lanes_look_at_due(l, r, now_ms);
    lanes_look_at_told(l, r, now_ms);
    r->missing = r->n > 0;
    r->max = 1;
    if (!r->n)
        lanes_round_end(r);
    return r->missing;
}

bool lanes_is_to_look(const struct lanes *l, int64_t now_ms)
{
    bool look = l->look_ms <= now_ms;
    for (int c = 0; c < CLASSES; c++) {
        const struct heap_node *due = heap_peek(&l->nobody->due[c]);
        look = look || (due && due->key <= now_ms + l->window_ms);
    }
    return look;
}

void lanes_missing_answered(struct lanes *l, struct lane_entry *e, int64_t until_ms)
{
    if (e->next_due_ms > until_ms) {
        lanes_forget_missing(l, e);
        return;
    }
    lane_close(l, e, LANE_NO_WORKER, INT64_MAX);
    lanes_tell_missing(l, e);
}

void lanes_each_missing(const struct lanes *l, void (*see)(void *context, const struct pool_shortage *s, size_t lanes),
                        void *context)
{
    map_each (&l->missing, slot) {
        const struct missing_entry *m = slot->value;
        see(context, &m->shortage, m->lanes);
    }
}

void lanes_each_tenant(const struct lanes *l, void (*see)(void *context, int32_t tenant, size_t running), void *context)
{
    map_each (&l->tenants, slot) {
        const struct tenant_entry *t = slot->value;
        if (t->held + t->leased)
            see(context, t->number, t->held + t->leased);
    }
}

/* ---- the workers change ---- */

static int lanes_compare_groups(const void *a, const void *b)
{
    return worker_kind_compare(&((const struct worker_group *)a)->kind, &((const struct worker_group *)b)->kind);
}

/* A sorted copy; false: it does not fit. Then the workers stay as they were. */
static bool lanes_copy_groups(struct arena *a, const struct worker_groups *all, struct worker_groups *ret)
{
    *ret = (struct worker_groups){ arena_array(a, struct worker_group, all->n), all->n };
    for (size_t i = 0; ret->v && i < all->n; i++) {
        struct worker_group *g = &ret->v[i];
        *g = all->v[i];
        if (!arena_str(a, g->kind.queues, &g->kind.queues) || !arena_str(a, g->kind.tenants, &g->kind.tenants) ||
            !arena_str(a, g->kind.labels, &g->kind.labels))
            return false;
    }
    if (ret->v && all->n)
        qsort(ret->v, ret->n, sizeof *ret->v, lanes_compare_groups);
    return ret->v != NULL;
}

static bool lanes_is_as_before(const struct lanes *l, const struct worker_groups *all, const struct lanes_workers *w)
{
    const struct lanes_workers *was = &l->terms;
    bool same = l->fleet && was->nodes == w->nodes && was->waiting == w->waiting && was->here == w->here &&
                all->n == l->workers.n;
    for (size_t i = 0; same && i < all->n; i++)
        same = lanes_compare_groups(&all->v[i], &l->workers.v[i]) == 0 && all->v[i].slots == l->workers.v[i].slots &&
               all->v[i].workers == l->workers.v[i].workers;
    return same;
}

/* Groups that were there keep their number. Returns whether all are the same as before. */
static bool lanes_number_groups(struct lanes *l, const struct worker_groups *all, uint32_t *ret)
{
    bool same = l->fleet && all->n == l->workers.n;
    for (size_t i = 0, at = 0; i < all->n; i++) {
        while (at < l->workers.n && lanes_compare_groups(&l->workers.v[at], &all->v[i]) < 0)
            at++;
        bool there = at < l->workers.n && lanes_compare_groups(&l->workers.v[at], &all->v[i]) == 0;
        ret[i] = there ? l->numbers[at] : ++l->last_number;
        same = same && there;
    }
    return same;
}

/* Moves the lanes to their pools. Those that were closed for want of a worker are open. */
static void lanes_regroup(struct lanes *l)
{
    l->regroup = false;
    for (size_t i = 0; i < l->n; i++) {
        struct lane_entry *e = l->v[i];
        struct pool_entry *p = lanes_pool_for(l, e);
        if (p != e->line->pool) {
            enum lane_place place = e->place;
            lane_set_place(l, e, LANE_IDLE);
            lane_leave_line(l, e);
            lane_join_line(l, e, p);
            if (place != LANE_IDLE)
                lane_open(l, e);
        }
        if (!p->nobody)
            lanes_forget_missing(l, e);
        else if (e->missing)
            lanes_tell_missing(l, e);
    }
    list_each (&l->pools, link) {
        struct pool_entry *p = container_of(link, struct pool_entry, link);
        lanes_size_pool(l, p);
        if (!p->lanes && !p->nobody && p != l->control && link != l->pools.next)
            lanes_free_pool(p);
    }
}

static void lanes_keep_workers(struct lanes *l, const struct lanes_workers *w, struct arena *a,
                               const struct worker_groups *all)
{
    uint32_t *numbers = xcalloc(all->n + 1, sizeof *numbers);
    l->regroup = !lanes_number_groups(l, all, numbers) || l->regroup;
    arena_release(&l->workers_arena);
    free(l->numbers);
    l->workers_arena = *a;
    l->workers = *all;
    l->numbers = numbers;
    l->terms = *w;
    l->terms.groups = *all;
    l->fleet = true;
    list_each (&l->pools, link)
        lanes_size_pool(l, container_of(link, struct pool_entry, link));
}

void lanes_set_workers(struct lanes *l, const struct lanes_workers *w)
{
    struct arena a;
    struct worker_groups all;
    assert(w->nodes > 0);
    arena_init(&a, WORKERS_ARENA);
    bool fits = lanes_copy_groups(&a, &w->groups, &all);
    if (!fits)
        log_warn("too_many_worker_groups", kv_i64("groups", (int64_t)w->groups.n));
    if (!fits || lanes_is_as_before(l, &all, w)) {
        arena_release(&a);
        return;
    }
    lanes_keep_workers(l, w, &a, &all);
    lanes_rules_changed(l); /* a tenant's share of the places changes; regroups */
    l->setup.slots = lanes_places(l).all;
}

void lanes_regroup_if_due(struct lanes *l)
{
    if (!l->regroup || l->open)
        return;
    lanes_regroup(l);
    l->setup.slots = lanes_places(l).all;
}

void lanes_round_is_over(struct lanes *l)
{
    l->open = false;
    list_each (&l->pools, link)
        container_of(link, struct pool_entry, link)->open_due = 0;
    lanes_regroup_if_due(l);
}

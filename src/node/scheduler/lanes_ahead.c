/* Claims ahead: tasks that are due within the next seconds are claimed before they need a place. When such a task is
 * due, it is ready: it waits in its lane's heap until a round grants it a place, as if it were still in the store.
 *
 * A lane with something due is not claimed ahead: its tasks come by the rounds of due tasks, so that a backlog stays in
 * the store. Nor is a lane whose tasks no worker can run or a breaker holds, or whose tasks are late
 * (core/task/task.h), and on a shared store a queue or tenant with limits: their shares come from the store at the due
 * time. Nor is control work: a signal, a pause or the end of a run changes what waits in the store. */
#include "node/scheduler/lanes_internal.h"

enum { DEFER_MS = 250, TENANT_PERCENT = 80 };

void lanes_set_ahead(struct lanes *l, int64_t ahead_ms)
{
    if (l->ahead_ms == ahead_ms)
        return;
    l->ahead_ms = ahead_ms;
    for (size_t i = 0; i < l->n; i++)
        lane_plan_ahead(l, l->v[i]);
}

/* Claims come when a quarter of the window has passed: a few large ones. */
void lane_plan_ahead(struct lanes *l, struct lane_entry *e)
{
    bool open = e->place == LANE_DUE || (e->place == LANE_CLOSED && e->gate == LANE_NONE);
    const struct pool_entry *pool = e->line->pool;
    if (!l->ahead_ms || !open || e->lane.late || pool->nobody || pool == l->control || lane_waits_for_breaker(e) ||
        e->own_ms == INT64_MAX || e->next_due_ms <= l->now_ms)
        lanes_heap_remove(&l->soon, &e->soon);
    else
        lanes_heap_put(&l->soon, &e->soon, max_of(e->own_ms - l->ahead_ms / 4 * 3, e->defer_ms));
}

void lane_defer_ahead(struct lane_entry *e, int64_t now_ms)
{
    e->defer_ms = now_ms + DEFER_MS;
}

int64_t lanes_next_ahead_ms(const struct lanes *l)
{
    const struct heap_node *node = heap_peek(&l->soon);
    return node ? node->key : INT64_MAX;
}

/* ---- rounds ---- */

static int64_t lanes_left_of(int64_t limit, size_t used)
{
    return limit > 0 ? max_of(limit - (int64_t)used, (int64_t)0) : INT64_MAX;
}

/* What the limits of the queue let start within the window, less what is claimed ahead already. */
static struct allowance lanes_queue_allows_ahead(struct lanes *l, struct queue_entry *q, int64_t now_ms)
{
    int64_t burst;
    lanes_read_queue(l, q);
    double rate = lanes_rate(q, now_ms, &burst);
    if (queue_is_paused(&q->rules, now_ms) || (l->shares && (rate > 0 || q->rules.concurrent)))
        return (struct allowance){ 0 };
    int64_t by_rate = rate > 0 ? burst + (int64_t)(rate * (double)l->ahead_ms / 1000) : 0;
    return (struct allowance){ min_of(lanes_left_of(by_rate, q->ahead), lanes_left_of(q->rules.concurrent, q->ahead)),
                               { 0 } };
}

static struct allowance lanes_tenant_allows_ahead(struct lanes *l, struct tenant_entry *t, size_t room)
{
    lanes_read_tenant(l, t);
    if (t->rules.disabled || (l->shares && t->rules.max_running))
        return (struct allowance){ 0 };
    bool alone = !l->setup.catalog || catalog_cache_tenant_count(l->setup.catalog) < 2;
    int64_t share = alone ? INT64_MAX : max_of((int64_t)(room * TENANT_PERCENT / 100), (int64_t)1);
    return (struct allowance){ min_of(share, lanes_left_of(t->rules.max_running, t->ahead)), { 0 } };
}

static size_t lanes_find_soon(struct lanes *l, int64_t now_ms)
{
    struct heap_node *node;
    size_t n = 0;
    while ((node = heap_peek(&l->soon)) && node->key <= now_ms) {
        struct lane_entry *e = container_of(node, struct lane_entry, soon);
        heap_remove(&l->soon, node);
        if (e->next_due_ms > now_ms)
            lanes_remember_found(l, n++, e);
    }
    return n;
}

/* Whether something of a higher priority is due in the lane's line. It is first, so nothing of this lane may be ready
 * before it. */
static bool lane_is_behind_others(const struct lane_entry *e, int64_t now_ms)
{
    list_each (&e->line->lanes, link) {
        const struct lane_entry *other = container_of(link, struct lane_entry, of_line);
        if (other->lane.priority > e->lane.priority && other->next_due_ms <= now_ms)
            return true;
    }
    return false;
}

/* Adds the lane, or leaves it alone for a while. */
static void lanes_round_add_soon(struct lanes *l, struct lanes_round *r, struct lane_entry *e, size_t room,
                                 int64_t now_ms)
{
    struct queue_entry *q = e->queue;
    struct tenant_entry *t = q->tenant;
    struct allowance of_queue = lanes_queue_allows_ahead(l, q, now_ms),
                     of_tenant = lanes_tenant_allows_ahead(l, t, room);
    if (of_queue.n == 0 || of_tenant.n == 0 || lane_is_behind_others(e, now_ms)) {
        lane_defer_ahead(e, now_ms);
        lane_plan_ahead(l, e);
        return;
    }
    struct fair_ask *ask = lanes_round_ask_of(l, r, e->line);
    ask->caps[ASK_QUEUE] = lanes_round_cap(l, r, &q->round, &q->cap, of_queue, room);
    ask->caps[ASK_TENANT] = lanes_round_cap(l, r, &t->round, &t->cap, of_tenant, room);
    lanes_round_add_lane(l, r, e);
}

static int64_t lanes_first_own_ms(const struct lanes *l, size_t n)
{
    int64_t first_ms = INT64_MAX;
    for (size_t i = 0; i < n; i++)
        first_ms = min_of(first_ms, l->found[i]->own_ms);
    return first_ms;
}

/* No turns are taken: a place is given when a task is due. */
bool lanes_ask_ahead(struct lanes *l, size_t room, struct moment now, int64_t until_ms, int64_t span_ms,
                     struct lanes_round *r)
{
    *r = (struct lanes_round){ .ahead = true };
    l->round++;
    l->now_ms = now.wall_ms;
    size_t n = lanes_find_soon(l, now.wall_ms);
    if (n == 0)
        return false;
    until_ms = min_of(until_ms, max_of(lanes_first_own_ms(l, n), now.wall_ms) + span_ms);
    lanes_round_make(r, n, n);
    r->max = r->fair.room = min_of(room, (size_t)FAIR_ROOM_MAX);
    r->fair.now_ms = now.wall_ms;
    r->fair.until_ms = r->until_ms = until_ms;
    for (size_t i = 0; i < n; i++) {
        if (l->found[i]->own_ms <= until_ms)
            lanes_round_add_soon(l, r, l->found[i], room, now.wall_ms);
        else
            lane_plan_ahead(l, l->found[i]); /* for the next claim */
    }
    if (r->fair.n)
        fair_share(l->fair, &r->fair);
    lanes_round_make_lines(l, r);
    bool asks = r->n > 0;
    if (!asks)
        lanes_round_end(r);
    l->open = l->open || asks;
    return asks;
}

void lanes_on_claimed_ahead(struct lanes *l, struct lane_entry *e)
{
    (void)l;
    e->queue->ahead++;
    e->queue->tenant->ahead++;
}

void lanes_on_ahead_over(struct lanes *l, struct lane_entry *e)
{
    (void)l;
    e->queue->ahead--;
    e->queue->tenant->ahead--;
}

/* ---- ready tasks ---- */

size_t lanes_ready_count(const struct lanes *l)
{
    return l->ready_count;
}

int64_t lanes_next_ready_ms(const struct lanes *l)
{
    return l->ready_count ? l->ready_ms : INT64_MAX;
}

bool lanes_anybody_waits(const struct lanes *l, const struct lane_entry *e, int64_t now_ms)
{
    const struct pool_entry *p = e->line->pool;
    (void)l;
    for (int c = 0; c < CLASSES; c++) {
        const struct heap_node *due = heap_peek(&p->due[c]);
        if (due && due->key <= now_ms)
            return true;
    }
    return p->ready || p->open_due;
}

bool lanes_may_run(struct lanes *l, struct lane_entry *e, int64_t now_ms)
{
    size_t room[CLASSES];
    lanes_pool_room(l, e->line->pool, room);
    return room[lane_class(e)] > 0 && lanes_hold_of(l, e, now_ms).gate == LANE_NONE;
}

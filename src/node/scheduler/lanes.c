/* Invariants:
 *  - A lane's next_due_ms is never later than the earliest due time in it, as far as this node was told.
 *  - A lane with a next_due_ms is DUE (in a heap by that time), CLOSED (in a heap by the time at which the gate may
 *    open, or in none if an event opens it) or ASKED (in the open round). A lane without one is IDLE.
 *  - A queue or tenant that closes lanes until an event has `waits` set, and reopens its lanes when the event
 *    happens.
 *  - A round's quotas stay within what queues and tenants may still run, so limits hold whatever the store gives. */
#include "node/scheduler/lanes_internal.h"

#include <assert.h>
#include <stdlib.h>

enum { KEY_MAX = sizeof(int32_t) + 2 * CATALOG_NAME_MAX }; /* queues have names of at most CATALOG_NAME_MAX */
enum { EXPECTED_LANES_MAX = 16 }; /* a task's children are looked for in so many lanes of its queue */

struct lanes *lanes_new(const struct lanes_setup *setup)
{
    struct lanes *l = xnew(*l);
    l->setup = *setup;
    l->fair = fair_new();
    map_init(&l->queues, HASH_STABLE);
    map_init(&l->tenants, HASH_STABLE);
    for (size_t i = 0; i < UNBLOCKED_LANE_BITS; i++)
        list_init(&l->by_bit[i]);
    list_init(&l->ready);
    map_init(&l->hosts, HASH_STABLE);
    lanes_pools_init(l);
    l->generation = 1;
    l->ready_ms = INT64_MAX;
    if (setup->writer)
        l->shares = limit_shares_new(&(struct limit_shares_setup){
            .writer = setup->writer, .node = setup->node, .changed = lanes_share_changed, .context = l });
    return l;
}

static void lanes_free_line(struct lanes *l, struct line_entry *line)
{
    fair_remove(l->fair, &line->fair);
    lanes_pool_tenant_unref(l, line->tenant);
    list_remove(&line->of_queue);
    list_remove(&line->of_host);
    free(line);
}

static void lanes_free_queue(struct lanes *l, struct queue_entry *q)
{
    list_each (&q->lines, link)
        lanes_free_line(l, container_of(link, struct line_entry, of_queue));
    free(q);
}

static void lanes_free_tenant(struct tenant_entry *t)
{
    free(t->name);
    free(t);
}

void lanes_free(struct lanes *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++) {
        heap_release(&l->v[i]->ready);
        free(l->v[i]);
    }
    map_each (&l->queues, slot)
        lanes_free_queue(l, slot->value);
    map_each (&l->tenants, slot)
        lanes_free_tenant(slot->value);
    lanes_pools_release(l);
    lanes_hosts_release(l);
    map_release(&l->queues);
    map_release(&l->tenants);
    heap_release(&l->closed);
    heap_release(&l->suspects);
    heap_release(&l->soon);
    for (size_t i = 0; i < CLASSES; i++)
        heap_release(&l->heads[i]);
    fair_free(l->fair);
    limit_shares_free(l->shares);
    free(l->found);
    free(l->v);
    free(l);
}

/* ---- known tenants, queues and lanes ---- */

static struct tenant_entry *lanes_add_tenant(struct lanes *l, int32_t number)
{
    struct tenant_entry *t = map_get(&l->tenants, (struct str){ (const char *)&number, sizeof number });
    if (t)
        return t;
    t = xnew(*t);
    t->number = number;
    list_init(&t->queues);
    map_put(&l->tenants, (struct str){ (const char *)&t->number, sizeof t->number }, t);
    return t;
}

static struct str lanes_queue_key(int32_t tenant, struct str name, char out[KEY_MAX])
{
    assert(name.n <= KEY_MAX - sizeof tenant);
    memcpy(out, &tenant, sizeof tenant);
    memcpy(out + sizeof tenant, name.p, name.n);
    return (struct str){ out, sizeof tenant + name.n };
}

static struct queue_entry *lanes_find_queue(const struct lanes *l, struct lane lane)
{
    char key[KEY_MAX];
    return map_get(&l->queues, lanes_queue_key(lane.tenant, lane.queue, key));
}

static struct queue_entry *lanes_add_queue(struct lanes *l, struct lane lane)
{
    struct queue_entry *q = lanes_find_queue(l, lane);
    if (q)
        return q;
    q = xcalloc(1, sizeof *q + KEY_MAX);
    struct str key = lanes_queue_key(lane.tenant, lane.queue, q->key);
    q->name = (struct str){ q->key + sizeof lane.tenant, lane.queue.n };
    q->tenant = lanes_add_tenant(l, lane.tenant);
    q->rules = QUEUE_RULES_DEFAULT;
    list_init(&q->lanes);
    list_init(&q->lines);
    list_push(&q->tenant->queues, &q->of_tenant);
    map_put(&l->queues, key, q);
    return q;
}

static bool lanes_is_plain(const struct lane *lane)
{
    return !lane->requires.n && !lane->cpu_milli && !lane->memory_mb && !lane->host.n && !lane->late;
}

static struct lane_entry *lanes_find_lane(const struct queue_entry *q, const struct lane *lane)
{
    if (!q || lanes_is_plain(lane))
        return q ? q->plain[lane->priority] : NULL;
    list_each (&q->lanes, link) {
        struct lane_entry *e = container_of(link, struct lane_entry, of_queue);
        if (lane_eq(&e->lane, lane))
            return e;
    }
    return NULL;
}

struct lane_entry *lanes_get(const struct lanes *l, struct lane lane)
{
    return lanes_find_lane(lanes_find_queue(l, lane), &lane);
}

static struct line_entry *lanes_add_line(struct lanes *l, struct queue_entry *q, const struct lane *lane,
                                         struct pool_entry *pool, int64_t rank)
{
    struct line_entry *line = xnew(*line);
    line->queue = q;
    line->pool = pool;
    line->tenant = lanes_pool_tenant(l, pool, q->tenant);
    line->class_ = priority_class_of(lane->priority);
    line->like = lane;
    list_init(&line->lanes);
    list_init(&line->of_host);
    if (lane->host.n) {
        line->host = lanes_add_host(l, q->tenant->number, lane->host);
        list_push(&line->host->lines, &line->of_host);
    }
    list_push(&q->lines, &line->of_queue);
    fair_add(l->fair, &line->fair, (struct fair_key){ pool->number, q->tenant->number }, q->name, line->class_, rank);
    return line;
}

static struct line_entry *lanes_line_of(struct lanes *l, struct queue_entry *q, const struct lane *lane,
                                        struct pool_entry *pool)
{
    enum priority_class class_ = priority_class_of(lane->priority);
    int64_t rank = 0;
    list_each (&q->lines, link) {
        struct line_entry *line = container_of(link, struct line_entry, of_queue);
        struct lane other = *line->like;
        other.priority = lane->priority;
        if (line->pool == pool && line->class_ == class_ && lane_eq(&other, lane))
            return line;
        rank++;
    }
    return lanes_add_line(l, q, lane, pool, rank);
}

static void line_add_ready(struct lanes *l, struct line_entry *line, size_t n)
{
    if (n && !line->ready)
        list_push(&l->ready, &line->with_ready);
    line->ready += n;
    line->pool->ready += n;
}

static void line_remove_ready(struct line_entry *line, size_t n)
{
    line->ready -= n;
    line->pool->ready -= n;
    if (n && !line->ready)
        list_remove(&line->with_ready);
}

void lane_join_line(struct lanes *l, struct lane_entry *e, struct pool_entry *pool)
{
    struct line_entry *line = e->line = lanes_line_of(l, e->queue, &e->lane, pool);
    list_push(&line->lanes, &e->of_line);
    line->held += e->held;
    if (line->host)
        line->host->held += e->held;
    line->tenant->held += e->held;
    pool->held[lane_class(e)] += e->held;
    pool->queued[lane_class(e)] += e->queued;
    pool->lanes++;
    line_add_ready(l, line, e->ready.n);
}

void lane_leave_line(struct lanes *l, struct lane_entry *e)
{
    struct line_entry *line = e->line;
    list_remove(&e->of_line);
    line->held -= e->held;
    if (line->host)
        line->host->held -= e->held;
    line->tenant->held -= e->held;
    line->pool->held[lane_class(e)] -= e->held;
    line->pool->queued[lane_class(e)] -= e->queued;
    line->pool->lanes--;
    line_remove_ready(line, e->ready.n);
    e->line = NULL;
    if (list_empty(&line->lanes))
        lanes_free_line(l, line);
}

void lanes_ready_add(struct lanes *l, struct lane_entry *e, struct heap_node *ready, int64_t due_ms)
{
    heap_push(&e->ready, ready, lane_order_ms(&e->lane, due_ms));
    line_add_ready(l, e->line, 1);
    l->ready_count++;
}

void lanes_ready_remove(struct lanes *l, struct lane_entry *e, struct heap_node *ready)
{
    heap_remove(&e->ready, ready);
    line_remove_ready(e->line, 1);
    l->ready_count--;
}

static struct lane_entry *lanes_add_lane(struct lanes *l, struct queue_entry *q, const struct lane *lane)
{
    struct lane_entry *e = xcalloc(1, sizeof *e + lane->requires.n + lane->host.n + 2);
    char *at = e->texts;
    e->lane = *lane;
    e->lane.queue = q->name;
    e->lane.requires = str_pack(lane->requires, &at);
    e->lane.host = str_pack(lane->host, &at);
    e->queue = q;
    heap_init(&e->ready);
    lane_join_line(l, e, lanes_pool_for(l, e));
    e->next_due_ms = e->own_ms = e->suspect_ms = e->heard_ms = e->heard_suspect_ms = INT64_MAX;
    list_push(&q->lanes, &e->of_queue);
    list_push(&l->by_bit[__builtin_ctzll(lane_bit(e->lane))], &e->of_bit);
    if (lanes_is_plain(lane))
        q->plain[lane->priority] = e;
    return e;
}

struct lane_entry *lanes_know(struct lanes *l, struct lane lane)
{
    struct queue_entry *q = lanes_add_queue(l, lane);
    struct lane_entry *e = lanes_find_lane(q, &lane);
    if (e)
        return e;
    e = lanes_add_lane(l, q, &lane);
    if (l->n == l->cap) {
        l->cap = max_of(l->cap * 2, (size_t)16);
        l->v = xrealloc(l->v, l->cap * sizeof(struct lane_entry *));
    }
    return l->v[l->n++] = e;
}

struct lane_entry *lanes_after(struct lanes *l, struct lane_entry *e, struct str aside, bool recalled)
{
    struct lane lane = e->lane;
    if (!aside.n && !recalled)
        return e;
    lane.host = aside.n ? aside : lane.host;
    lane.late = lane.late || recalled;
    return lanes_know(l, lane);
}

struct lane_entry *lanes_of_queue(const struct lanes *l, int32_t tenant, struct str queue)
{
    const struct queue_entry *q = lanes_find_queue(l, (struct lane){ .tenant = tenant, .queue = queue });
    return q ? container_of(q->lanes.next, struct lane_entry, of_queue) : NULL; /* it has one at least */
}

size_t lanes_count(const struct lanes *l)
{
    return l->n;
}

/* ---- the place of a lane: idle, due, closed or asked ---- */

void lanes_heap_put(struct heap *h, struct heap_node *node, int64_t key)
{
    if (node->at)
        heap_rekey(h, node, key);
    else
        heap_push(h, node, key);
}

void lanes_heap_remove(struct heap *h, struct heap_node *node)
{
    if (node->at)
        heap_remove(h, node);
}

static bool lanes_is_closed_on_purpose(enum lane_gate gate)
{
    return gate == LANE_PAUSED || gate == LANE_TENANT_DISABLED;
}

static void lanes_show_head(struct lanes *l, struct lane_entry *e)
{
    struct heap *h = &l->heads[lane_class(e)];
    if (e->next_due_ms == INT64_MAX || lanes_is_closed_on_purpose(e->gate))
        lanes_heap_remove(h, &e->head);
    else
        lanes_heap_put(h, &e->head, e->next_due_ms);
}

void lane_set_place(struct lanes *l, struct lane_entry *e, enum lane_place place)
{
    if (place != LANE_DUE && e->place == LANE_DUE)
        lanes_heap_remove(&e->line->pool->due[lane_class(e)], &e->at);
    if (e->place == LANE_CLOSED && place != LANE_CLOSED)
        lanes_heap_remove(&l->closed, &e->at);
    e->place = place;
}

/* The gate that closed it opens, or another one takes its place. */
static void lane_note_gate(struct lanes *l, struct lane_entry *e)
{
    enum { IN_A_ROW_MS = 1000 };
    bool follows = e->long_gate != LANE_NONE && e->closed_ms - e->last_open_ms < IN_A_ROW_MS;
    if (!follows || l->now_ms - e->closed_ms >= e->long_until_ms - e->long_from_ms) {
        e->long_gate = e->gate;
        e->long_from_ms = e->closed_ms;
        e->long_until_ms = l->now_ms;
    }
    e->last_gate = e->gate;
    e->last_open_ms = l->now_ms;
    e->gate = LANE_NONE;
}

void lane_open(struct lanes *l, struct lane_entry *e)
{
    if (e->gate != LANE_NONE)
        lane_note_gate(l, e);
    e->look_ms = 0;
    lane_set_place(l, e, e->next_due_ms == INT64_MAX ? LANE_IDLE : LANE_DUE);
    if (e->place == LANE_DUE)
        lanes_heap_put(&e->line->pool->due[lane_class(e)], &e->at, e->next_due_ms);
    lanes_show_head(l, e);
    lane_plan_ahead(l, e);
}

void lane_close(struct lanes *l, struct lane_entry *e, enum lane_gate gate, int64_t until_ms)
{
    lane_set_place(l, e, LANE_CLOSED);
    if (e->gate != gate) {
        if (e->gate != LANE_NONE)
            lane_note_gate(l, e);
        e->gate = gate;
        e->closed_ms = l->now_ms;
    }
    e->look_ms = gate == LANE_NONE ? until_ms : 0;
    if (until_ms == INT64_MAX)
        lanes_heap_remove(&l->closed, &e->at);
    else
        lanes_heap_put(&l->closed, &e->at, until_ms);
    lanes_show_head(l, e);
    lane_plan_ahead(l, e);
}

enum late_cause lane_gate_cause(enum lane_gate gate)
{
    static const enum late_cause causes[] = {
        [LANE_NONE] = LATE_NONE,          [LANE_PAUSED] = LATE_PAUSED,          [LANE_RATE] = LATE_LIMIT,
        [LANE_CONCURRENCY] = LATE_LIMIT,  [LANE_TENANT_DISABLED] = LATE_PAUSED, [LANE_TENANT_LIMIT] = LATE_LIMIT,
        [LANE_TENANT_SHARE] = LATE_LIMIT, [LANE_HOST_BUSY] = LATE_HOST,         [LANE_NO_WORKER] = LATE_ROOM,
        [LANE_BREAKER] = LATE_BREAKER,
    };
    return causes[gate];
}

static enum late_cause lane_latest_cause(const struct lanes *l, const struct lane_entry *e, int64_t due_ms)
{
    if (e->gate != LANE_NONE || (e->last_gate != LANE_NONE && due_ms <= e->last_open_ms))
        return lane_gate_cause(e->gate != LANE_NONE ? e->gate : e->last_gate);
    const struct pool_entry *p = e->line->pool;
    size_t room[CLASSES];
    lanes_pool_room(l, p, room);
    return room[lane_class(e)] == 0 || due_ms <= p->full_ms[lane_class(e)] ? LATE_ROOM : LATE_NONE;
}

/* After a pause, a queue starts its backlog by and by: if the pause was longer, it made these tasks late. */
enum late_cause lanes_late_cause(const struct lanes *l, const struct lane_entry *e, int64_t due_ms,
                                 enum late_cause known)
{
    enum late_cause latest = known ? known : lane_latest_cause(l, e, due_ms);
    int64_t held_ms = e->long_until_ms - max_of(e->long_from_ms, due_ms);
    bool counts = latest && e->long_gate != LANE_NONE && held_ms > l->now_ms - e->long_until_ms;
    return counts ? lane_gate_cause(e->long_gate) : latest;
}

void lanes_reopen_queue(struct lanes *l, struct queue_entry *q)
{
    q->waits = false;
    list_each (&q->lanes, link) {
        struct lane_entry *e = container_of(link, struct lane_entry, of_queue);
        if (e->place == LANE_CLOSED && !e->look_ms)
            lane_open(l, e);
    }
}

void lanes_reopen_line(struct lanes *l, struct line_entry *line)
{
    line->waits = false;
    list_each (&line->lanes, link) {
        struct lane_entry *e = container_of(link, struct lane_entry, of_line);
        if (e->place == LANE_CLOSED && !e->look_ms)
            lane_open(l, e);
    }
}

void lanes_reopen_tenant(struct lanes *l, struct tenant_entry *t)
{
    t->waits = false;
    list_each (&t->queues, link)
        lanes_reopen_queue(l, container_of(link, struct queue_entry, of_tenant));
}

void lane_suspect_due(struct lanes *l, struct lane_entry *e, int64_t due_ms)
{
    e->suspect_ms = due_ms;
    if (due_ms == INT64_MAX)
        lanes_heap_remove(&l->suspects, &e->suspect);
    else
        lanes_heap_put(&l->suspects, &e->suspect, due_ms);
}

void lanes_due(struct lanes *l, struct lane_entry *e, int64_t due_ms, bool suspect)
{
    if (suspect) {
        e->heard_suspect_ms = min_of(e->heard_suspect_ms, due_ms);
        if (due_ms < e->suspect_ms)
            lane_suspect_due(l, e, due_ms);
        return;
    }
    if (e->place == LANE_ASKED) {
        e->heard_ms = min_of(e->heard_ms, due_ms);
        return;
    }
    e->next_due_ms = min_of(e->next_due_ms, due_ms);
    e->own_ms = min_of(e->own_ms, due_ms);
    if (e->place != LANE_CLOSED)
        lane_open(l, e);
    else if (e->look_ms && due_ms - l->window_ms < e->look_ms)
        lane_close(l, e, LANE_NONE, due_ms - l->window_ms);
    else
        lanes_show_head(l, e);
    lane_plan_ahead(l, e);
}

static void lanes_bits_due(struct lanes *l, uint64_t unblocked, int64_t now_ms, bool asked_too)
{
    for (; unblocked; unblocked &= unblocked - 1)
        list_each (&l->by_bit[__builtin_ctzll(unblocked)], link) {
            struct lane_entry *e = container_of(link, struct lane_entry, of_bit);
            if (asked_too || e->place != LANE_ASKED)
                lanes_due(l, e, now_ms, false);
        }
}

void lanes_on_unblocked(struct lanes *l, uint64_t unblocked, int64_t now_ms)
{
    lanes_bits_due(l, unblocked, now_ms, true);
}

void lanes_on_unblocked_before_claim(struct lanes *l, uint64_t unblocked, int64_t now_ms)
{
    lanes_bits_due(l, unblocked, now_ms, false);
}

/* Lanes of one queue and priority have one bit: a host's, and those of late tasks. */
void lanes_expect_children(struct lanes *l, struct lane_entry *e, int64_t now_ms)
{
    struct lane lane = { .tenant = e->lane.tenant, .priority = e->lane.priority, .queue = S("") };
    struct lane_entry *control = lanes_get(l, lane);
    int n = 0;
    lanes_due(l, e, now_ms, false);
    if (control)
        lanes_due(l, control, now_ms, false);
    list_each (&l->by_bit[__builtin_ctzll(lane_bit(e->lane))], link)
        if (n++ < EXPECTED_LANES_MAX)
            lanes_due(l, container_of(link, struct lane_entry, of_bit), now_ms, false);
}

void lanes_each_used(const struct lanes *l, void (*see)(void *context, const struct lane *lane), void *context)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct lane_entry *e = l->v[i];
        if (e->held || e->ready.n || e->next_due_ms != INT64_MAX || e->suspect_ms != INT64_MAX)
            see(context, &e->lane);
    }
}

void lanes_all_due(struct lanes *l, int64_t now_ms)
{
    for (size_t i = 0; i < l->n; i++)
        lanes_due(l, l->v[i], now_ms, false);
}

void lanes_rules_changed(struct lanes *l)
{
    l->generation++;
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i]->place == LANE_CLOSED)
            lane_open(l, l->v[i]);
    map_each (&l->queues, slot)
        ((struct queue_entry *)slot->value)->waits = false;
    map_each (&l->tenants, slot) {
        struct tenant_entry *t = slot->value;
        t->waits = false;
        if (l->fleet && !t->name) { /* workers are told apart by the names of tenants */
            lanes_read_tenant(l, t);
            l->regroup = l->regroup || t->name;
        }
    }
    lanes_regroup_if_due(l);
    if (l->shares)
        lanes_read_limits(l);
}

void lanes_set_time(struct lanes *l, struct moment now)
{
    l->now_ms = now.wall_ms;
    if (l->shares)
        limit_shares_set_time(l->shares, now);
}

int64_t lanes_step(struct lanes *l, struct moment now, bool claiming)
{
    lanes_measure_rates(l, now.steady_ms);
    return l->shares ? limit_shares_step(l->shares, now, !claiming) : INT64_MAX;
}

bool lanes_is_idle(const struct lanes *l)
{
    return !l->shares || limit_shares_is_idle(l->shares);
}

void lanes_set_window(struct lanes *l, int64_t window_ms)
{
    l->window_ms = window_ms;
}

int64_t lanes_next_suspect_ms(const struct lanes *l)
{
    const struct heap_node *suspect = heap_peek(&l->suspects);
    return suspect ? suspect->key : INT64_MAX;
}

/* The earliest due time in lanes of the pool for which there is room. */
static int64_t lanes_pool_next_ms(const struct lanes *l, const struct pool_entry *p)
{
    int64_t due_ms = INT64_MAX;
    size_t room[CLASSES];
    lanes_pool_room(l, p, room);
    for (int c = 0; c < CLASSES; c++) {
        const struct heap_node *due = room[c] ? heap_peek(&p->due[c]) : NULL;
        due_ms = due ? min_of(due_ms, due->key) : due_ms;
    }
    return due_ms;
}

int64_t lanes_next_ms(const struct lanes *l, enum lanes_wanted wanted)
{
    const struct heap_node *closed = heap_peek(&l->closed);
    int64_t due_ms = min_of(closed ? closed->key : INT64_MAX, l->look_ms), suspect_ms = lanes_next_suspect_ms(l);
    list_each (&l->pools, link) {
        int64_t next_ms = lanes_pool_next_ms(l, container_of(link, struct pool_entry, link));
        due_ms = min_of(due_ms, next_ms == INT64_MAX ? next_ms : next_ms - l->window_ms);
    }
    return wanted == LANES_DUE ? due_ms : wanted == LANES_SUSPECT ? suspect_ms : min_of(due_ms, suspect_ms);
}

int64_t lanes_oldest_ms(const struct lanes *l, enum priority_class class_)
{
    const struct heap_node *head = heap_peek(&l->heads[class_]);
    return head ? head->key : INT64_MAX;
}

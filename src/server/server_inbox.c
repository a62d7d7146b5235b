/* Notifications are collected under a lock, and one loop call delivers them: many writes cost one call.
 *
 * A nudge is the notification that tasks were written: the earliest due time of each lane is kept, and the scheduler
 * claims from that lane in time. */
#include "server/server_internal.h"

#include <assert.h>
#include <stdlib.h>

#include "api/live/live.h"

enum { NUDGES_MIN = 16, LANES_ARENA = 16 << 20 };
static const size_t SETTLED_MAX = 100000;

/* Adds the due time of t to a nudge of the same lane. False: it is another lane. */
static bool inbox_merge_nudge(struct inbox_nudge *item, const struct task *t)
{
    struct task *known = &item->task;
    bool recurring = t->kind == TASK_RECURRING;
    if ((known->kind == TASK_RECURRING) != recurring || known->state != t->state)
        return false;
    if (recurring) {
        known->cursor_ms = min_of(known->cursor_ms, t->cursor_ms);
        known->expires_after_ms = max_of(known->expires_after_ms, t->expires_after_ms);
        return true;
    }
    struct lane of_known = task_lane(known), of_task = task_lane(t);
    if ((known->target == TARGET_WORKER) != (t->target == TARGET_WORKER) ||
        task_is_suspect(known) != task_is_suspect(t) || !lane_eq(&of_known, &of_task))
        return false;
    known->due_ms = min_of(known->due_ms, t->due_ms);
    known->expires_after_ms = max_of(known->expires_after_ms, t->expires_after_ms);
    return true;
}

static struct inbox_nudge *inbox_new_nudge(struct server_inbox *n)
{
    if (n->nudge_count == n->nudge_cap) {
        size_t cap = max_of(n->nudge_cap * 2, (size_t)NUDGES_MIN);
        n->nudges = xrealloc(n->nudges, cap * sizeof *n->nudges);
        memset(n->nudges + n->nudge_cap, 0, (cap - n->nudge_cap) * sizeof *n->nudges);
        n->nudge_cap = cap;
    }
    return &n->nudges[n->nudge_count++];
}

static void inbox_add_nudge(struct server_inbox *n, const struct task *t)
{
    for (size_t i = n->nudge_count; i > 0; i--)
        if (inbox_merge_nudge(&n->nudges[i - 1], t))
            return;
    struct inbox_nudge *item = inbox_new_nudge(n);
    size_t size = str_pack_size(t->queue) + str_pack_size(t->requires) + str_pack_size(t->aside);
    item->texts = xrealloc(item->texts, size + 1);
    char *at = item->texts;
    item->task = (struct task){ .kind = t->kind,
                                .state = t->state,
                                .target = t->target,
                                .links = t->links, /* control work has a lane of its own */
                                .tenant = t->tenant,
                                .priority = t->priority,
                                .losses = t->losses,
                                .due_ms = t->due_ms,
                                .cursor_ms = t->cursor_ms,
                                .expires_after_ms = t->expires_after_ms, /* whether it has one */
                                .cpu_milli = t->cpu_milli,
                                .memory_mb = t->memory_mb,
                                .recalled = task_is_late(t), /* its lane is late, for whatever reason */
                                .queue = str_pack(t->queue, &at),
                                .requires = str_pack(t->requires, &at),
                                .aside = str_pack(t->aside, &at) };
}

static void inbox_free_nudges(struct server_inbox *n)
{
    for (size_t i = 0; i < n->nudge_cap; i++)
        free(n->nudges[i].texts);
    free(n->nudges);
}

/* A draining node ignores notices: it hands back every task that it holds, and takes no new ones. */
static void inbox_apply_notices(struct server *a, const struct server_inbox *n)
{
    const struct store_notice *e = &n->notice;
    if (a->draining)
        return;
    if (n->catalog_reading || n->catalog_read)
        node_await_rules(a->node, n->catalog_reading && !n->catalog_read);
    if (e->due)
        node_on_due(a->node, e->due_ms);
    if (e->recall_requested)
        node_on_recall_request(a->node);
    if (e->given_back)
        node_on_recall_returned(a->node);
    if (e->nodes)
        node_on_nodes_changed(a->node);
    if (n->breakers_read)
        node_follow_breakers(a->node, n->breakers.v, n->breakers.n);
    node_know_lanes(a->node, n->lanes, n->lane_count);
    if (n->settled_count)
        node_on_settled_elsewhere(a->node, n->settled, n->settled_count);
}

/* After the breakers that were read, which may be older. */
static void inbox_close_breakers(struct server *a, struct server_inbox *n)
{
    for (size_t i = 0; i < n->closed_count && !a->draining; i++)
        node_on_breaker_closed(a->node, n->closed[i].tenant, (struct str){ n->closed[i].host, n->closed[i].host_n });
    n->closed_count = 0;
    n->breakers_read = false;
}

/* Loop thread: delivers everything in the inbox to the node. */
static void inbox_on_call(struct call *c)
{
    struct server *a = c->context;
    struct server_inbox *n = &a->inbox;
    assert_owned(&a->loop_thread);
    pthread_mutex_lock(&n->lock);
    n->call_pending = false;
    for (size_t i = 0; i < n->nudge_count && !a->draining; i++)
        node_nudge(a->node, &n->nudges[i].task, 1);
    n->nudge_count = 0;
    if (n->unblocked_lanes && !a->draining)
        node_on_lanes_unblocked(a->node, n->unblocked_lanes);
    if (n->catalog_changed && !a->draining) {
        node_rules_changed(a->node);
        server_note_loopback(a);
    }
    inbox_apply_notices(a, n);
    inbox_close_breakers(a, n);
    uint64_t barrier = n->applied_barrier;
    n->applied_barrier = 0;
    n->unblocked_lanes = 0;
    n->catalog_changed = n->catalog_reading = n->catalog_read = false;
    n->check_leases = false; /* the step that follows every call does it */
    n->notice = (struct store_notice){ 0 };
    n->lane_count = n->settled_count = 0;
    pthread_mutex_unlock(&n->lock);
    if (barrier)
        store_catalog_applied(a->store, barrier);
}

/* Under the lock: whether the caller must submit the loop call. Marks it as pending then. */
static bool inbox_needs_call(struct server_inbox *n)
{
    const struct store_notice *e = &n->notice;
    bool others = n->settled_count || e->due || e->recall_requested || e->given_back || e->nodes || n->lane_count ||
                  n->catalog_reading || n->catalog_read || n->breakers_read || n->closed_count;
    bool post = !n->call_pending &&
                (n->nudge_count > 0 || n->unblocked_lanes || n->catalog_changed || n->check_leases || others);
    n->call_pending = n->call_pending || post;
    return post;
}

/* Unlocks, and submits the loop call if the inbox has something to deliver. */
static void inbox_unlock(struct server *a)
{
    bool post = inbox_needs_call(&a->inbox);
    pthread_mutex_unlock(&a->inbox.lock);
    if (post)
        loop_call(a->loop, &a->inbox.call);
}

void server_on_lanes_unblocked(void *context, uint64_t lanes)
{
    struct server *a = context;
    pthread_mutex_lock(&a->inbox.lock);
    a->inbox.unblocked_lanes |= lanes;
    inbox_unlock(a);
}

void server_on_catalog_changed(void *context)
{
    struct server *a = context;
    pthread_mutex_lock(&a->inbox.lock);
    a->inbox.catalog_changed = true;
    inbox_unlock(a);
    if (a->http)
        api_server_check_again(a->http); /* the tenant may be disabled */
}

void server_check_leases(void *context)
{
    struct server *a = context;
    pthread_mutex_lock(&a->inbox.lock);
    a->inbox.check_leases = true;
    inbox_unlock(a);
}

void server_on_breaker_closed(void *context, int32_t tenant, struct str host)
{
    struct server *a = context;
    struct server_inbox *n = &a->inbox;
    pthread_mutex_lock(&n->lock);
    if (n->closed_count == n->closed_cap) {
        n->closed_cap = n->closed_cap * 2 + 4;
        n->closed = xrealloc(n->closed, n->closed_cap * sizeof *n->closed);
    }
    struct inbox_breaker *b = &n->closed[n->closed_count++];
    *b = (struct inbox_breaker){ .tenant = tenant, .host_n = min_of(host.n, sizeof b->host) };
    memcpy(b->host, host.p, b->host_n);
    inbox_unlock(a);
}

void server_on_tasks_written(void *context, const struct task *tasks, size_t count)
{
    struct server *a = context;
    struct server_inbox *n = &a->inbox;
    pthread_mutex_lock(&n->lock);
    for (size_t i = 0; i < count; i++)
        if (tasks[i].state == TASK_SCHEDULED || (tasks[i].expires_after_ms && !task_is_final(tasks[i].state)))
            inbox_add_nudge(n, &tasks[i]);
    inbox_unlock(a);
}

/* ---- notices of other nodes ---- */

/* Under the lock. Beyond SETTLED_MAX, ids are dropped: the node re-checks the tasks that it holds now and then. */
static void inbox_add_settled(struct server_inbox *n, const struct store_notice *notice)
{
    size_t count = min_of(notice->settled_count, SETTLED_MAX - n->settled_count);
    if (n->settled_count + count > n->settled_cap) {
        n->settled_cap = max_of(2 * n->settled_cap, n->settled_count + count);
        n->settled = xrealloc(n->settled, n->settled_cap * sizeof *n->settled);
    }
    if (count)
        memcpy(n->settled + n->settled_count, notice->settled, count * sizeof *n->settled);
    n->settled_count += count;
}

/* A thread of the store. */
static void inbox_on_store_notice(struct store_watch *w, const struct store_notice *notice)
{
    struct server *a = container_of(w, struct server, watch);
    struct store_notice *sum = &a->inbox.notice;
    if (notice->broadcast.n) {
        if (a->http)
            live_on_line(api_server_live(a->http), notice->broadcast);
        return;
    }
    bool all = notice->all;
    int64_t due_ms = all ? clock_wall_ms(a->setup.clock) : notice->due_ms;
    pthread_mutex_lock(&a->inbox.lock);
    if (all || notice->due)
        sum->due_ms = sum->due ? min_of(sum->due_ms, due_ms) : due_ms;
    sum->due = sum->due || all || notice->due;
    sum->recall_requested = sum->recall_requested || all || notice->recall_requested;
    sum->given_back = sum->given_back || all || notice->given_back;
    sum->nodes = sum->nodes || all || notice->nodes;
    a->inbox.catalog_reading = a->inbox.catalog_reading || all || notice->catalog;
    a->inbox.catalog_read = a->inbox.catalog_read && !notice->catalog; /* that read did not include this change */
    inbox_add_settled(&a->inbox, notice);
    inbox_unlock(a);
    if ((all || notice->catalog) && a->http)
        api_server_clear_key_cache(a->http);
    /* After the keys: once the watcher has read the catalog, the node acknowledges both. */
    if (all || notice->lanes || notice->catalog)
        catalog_watcher_notify(a->watcher, all || notice->lanes, all || notice->catalog, notice->catalog_change);
}

/* The catalog watcher's thread. */
static void inbox_on_lanes_read(void *context, const struct lane *lanes, size_t n)
{
    struct server *a = context;
    struct server_inbox *inbox = &a->inbox;
    pthread_mutex_lock(&inbox->lock);
    arena_reset(&inbox->lanes_arena);
    inbox->lanes = arena_array(&inbox->lanes_arena, struct lane, n);
    inbox->lane_count = 0;
    for (size_t i = 0; inbox->lanes && i < n; i++) {
        struct lane *to = &inbox->lanes[inbox->lane_count];
        *to = lanes[i];
        inbox->lane_count += arena_str(&inbox->lanes_arena, lanes[i].queue, &to->queue) &&
                             arena_str(&inbox->lanes_arena, lanes[i].requires, &to->requires) &&
                             arena_str(&inbox->lanes_arena, lanes[i].host, &to->host);
    }
    inbox_unlock(a);
}

/* The catalog watcher's thread. */
static void inbox_on_breakers_read(void *context, const struct breaker_rows *rows)
{
    struct server *a = context;
    struct server_inbox *inbox = &a->inbox;
    pthread_mutex_lock(&inbox->lock);
    arena_reset(&inbox->breakers_arena);
    struct breaker_row *v = arena_array(&inbox->breakers_arena, struct breaker_row, rows->n + 1);
    bool fits = v != NULL;
    for (size_t i = 0; fits && i < rows->n; i++) {
        v[i] = rows->v[i];
        fits = arena_str(&inbox->breakers_arena, v[i].host, &v[i].host) &&
               arena_str(&inbox->breakers_arena, v[i].reason, &v[i].reason);
    }
    inbox->breakers = (struct breaker_rows){ v, rows->n };
    inbox->breakers_read = fits;
    inbox_unlock(a);
}

/* The catalog watcher's thread. */
static void inbox_on_catalog_read(void *context, bool changed, uint64_t barrier)
{
    struct server *a = context;
    if (changed && a->http)
        api_server_check_again(a->http); /* before the node acknowledges it: a tenant may be disabled */
    pthread_mutex_lock(&a->inbox.lock);
    a->inbox.applied_barrier = max_of(a->inbox.applied_barrier, barrier);
    a->inbox.catalog_changed = a->inbox.catalog_changed || changed;
    a->inbox.catalog_read = true;
    inbox_unlock(a);
}

enum err server_start_store_watch(struct server *a, struct error *e)
{
    struct catalog_watcher_setup setup = { .store = a->store,
                                           .catalog = a->catalog,
                                           .on_lanes = inbox_on_lanes_read,
                                           .on_breakers = inbox_on_breakers_read,
                                           .on_catalog = inbox_on_catalog_read,
                                           .context = a };
    if (!store_is_shared(a->store))
        return ERR_OK;
    if (catalog_watcher_new(&setup, &a->watcher, e))
        return e->code;
    a->watch = (struct store_watch){ .on_notice = inbox_on_store_notice, .node = node_status(a->node).id };
    store_watch(a->store, &a->watch);
    return ERR_OK;
}

void server_stop_store_watch(struct server *a)
{
    if (!a->watcher)
        return;
    store_watch(a->store, NULL);
    catalog_watcher_free(take(a->watcher));
}

void server_inbox_init(struct server *a)
{
    pthread_mutex_init(&a->inbox.lock, NULL);
    a->inbox.call = (struct call){ .fn = inbox_on_call, .context = a };
    arena_init(&a->inbox.lanes_arena, LANES_ARENA);
    arena_init(&a->inbox.breakers_arena, LANES_ARENA);
}

void server_inbox_release(struct server *a)
{
    pthread_mutex_destroy(&a->inbox.lock);
    arena_release(&a->inbox.lanes_arena);
    arena_release(&a->inbox.breakers_arena);
    free(a->inbox.closed);
    inbox_free_nudges(&a->inbox);
    free(a->inbox.settled);
}

/* What happened elsewhere is gathered under a lock, and one call takes it to the loop: many writes are one call. */
#include <assert.h>
#include <stdlib.h>

#include "server/server_internal.h"

enum { NEWS_MIN = 16, LANES_ARENA = 16 << 20 };
static const size_t SETTLED_MAX = 100000;

/* The earliest time that matters of each lane among tasks written since the loop last looked. Many writes are one call. */
static bool joins(struct news_item *item, const struct task *t)
{
    struct task *known = &item->task;
    known->queue.p = item->queue; /* items move when there are more of them */
    bool recurring = t->kind == TASK_RECURRING;
    if ((known->kind == TASK_RECURRING) != recurring)
        return false;
    if (recurring) {
        known->cursor_ms = min_of(known->cursor_ms, t->cursor_ms);
        return true;
    }
    if (known->tenant != t->tenant || task_is_suspect(known) != task_is_suspect(t) ||
        priority_class_of(known->priority) != priority_class_of(t->priority) || !str_eq(known->queue, t->queue))
        return false;
    known->due_ms = min_of(known->due_ms, t->due_ms);
    return true;
}

static void add_news(struct news *n, const struct task *t)
{
    for (size_t i = n->n; i > 0; i--)
        if (joins(&n->v[i - 1], t))
            return;
    if (n->n == n->cap) {
        n->cap = max_of(n->cap * 2, (size_t)NEWS_MIN);
        n->v = xrealloc(n->v, n->cap * sizeof *n->v);
    }
    struct news_item *item = &n->v[n->n++];
    assert(t->queue.n <= sizeof item->queue);
    memcpy(item->queue, t->queue.p, t->queue.n);
    item->task = (struct task){ .kind = t->kind,
                                .state = t->state,
                                .tenant = t->tenant,
                                .priority = t->priority,
                                .losses = t->losses,
                                .due_ms = t->due_ms,
                                .cursor_ms = t->cursor_ms,
                                .queue.n = t->queue.n };
}

/* A node that drains gives back what it holds, in any case, and wants nothing new. */
static void hear_of_others(struct server *a, const struct news *n)
{
    const struct store_notice *e = &n->elsewhere;
    if (a->draining)
        return;
    if (n->reading || n->read)
        node_await_rules(a->node, n->reading && !n->read);
    if (e->due)
        node_on_due(a->node, e->due_ms);
    if (e->recall_requested)
        node_on_recall_request(a->node);
    if (e->given_back)
        node_on_recall_returned(a->node);
    if (e->nodes)
        node_on_nodes_changed(a->node);
    node_know_lanes(a->node, n->lanes, n->lane_count);
    if (n->settled_count)
        node_on_settled_elsewhere(a->node, n->settled, n->settled_count);
}

static void hear_news(struct call *c)
{
    struct server *a = c->context;
    struct news *n = &a->news;
    pthread_mutex_lock(&n->lock);
    n->posted = false;
    for (size_t i = 0; i < n->n && !a->draining; i++) {
        n->v[i].task.queue.p = n->v[i].queue;
        node_nudge(a->node, &n->v[i].task, 1);
    }
    n->n = 0;
    if (n->unblocked && !a->draining)
        node_on_lanes_unblocked(a->node, n->unblocked);
    if (n->rules && !a->draining)
        node_rules_changed(a->node);
    hear_of_others(a, n);
    uint64_t heeded = n->heeded;
    n->heeded = 0;
    n->unblocked = 0;
    n->rules = n->reading = n->read = false;
    n->elsewhere = (struct store_notice){ 0 };
    n->lane_count = n->settled_count = 0;
    pthread_mutex_unlock(&n->lock);
    if (heeded)
        store_catalog_applied(a->store, heeded);
}

/* Under the lock: whether the call is to be made. */
static bool is_to_be_posted(struct news *n)
{
    const struct store_notice *e = &n->elsewhere;
    bool others = n->settled_count || e->due || e->recall_requested || e->given_back || e->nodes || n->lane_count ||
                  n->reading || n->read;
    bool post = !n->posted && (n->n > 0 || n->unblocked || n->rules || others);
    n->posted = n->posted || post;
    return post;
}

/* Takes the lock off, and the call is made if there is something to say. */
static void unlock(struct server *a)
{
    bool post = is_to_be_posted(&a->news);
    pthread_mutex_unlock(&a->news.lock);
    if (post)
        loop_call(a->loop, &a->news.call);
}

void server_on_lanes_unblocked(void *context, uint64_t lanes)
{
    struct server *a = context;
    pthread_mutex_lock(&a->news.lock);
    a->news.unblocked |= lanes;
    unlock(a);
}

void server_rules_changed(struct server *a)
{
    pthread_mutex_lock(&a->news.lock);
    a->news.rules = true;
    unlock(a);
}

void server_nudge(struct server *a, const struct task *tasks, size_t count)
{
    struct news *n = &a->news;
    pthread_mutex_lock(&n->lock);
    for (size_t i = 0; i < count; i++)
        if (tasks[i].state == TASK_SCHEDULED)
            add_news(n, &tasks[i]);
    unlock(a);
}

/* ---- what other nodes do ---- */

/* Under the lock. Those that are too many are found by who looks after what it holds. */
static void add_settled(struct news *n, const struct store_notice *news)
{
    size_t count = min_of(news->settled_count, SETTLED_MAX - n->settled_count);
    if (n->settled_count + count > n->settled_cap) {
        n->settled_cap = max_of(2 * n->settled_cap, n->settled_count + count);
        n->settled = xrealloc(n->settled, n->settled_cap * sizeof *n->settled);
    }
    if (count)
        memcpy(n->settled + n->settled_count, news->settled, count * sizeof *n->settled);
    n->settled_count += count;
}

/* On a thread of the store's. */
static void heard(struct store_watch *w, const struct store_notice *news)
{
    struct server *a = container_of(w, struct server, watch);
    struct store_notice *e = &a->news.elsewhere;
    bool all = news->all;
    int64_t due_ms = all ? clock_wall_ms(a->setup.clock) : news->due_ms;
    pthread_mutex_lock(&a->news.lock);
    if (all || news->due)
        e->due_ms = e->due ? min_of(e->due_ms, due_ms) : due_ms;
    e->due = e->due || all || news->due;
    e->recall_requested = e->recall_requested || all || news->recall_requested;
    e->given_back = e->given_back || all || news->given_back;
    e->nodes = e->nodes || all || news->nodes;
    a->news.reading = a->news.reading || all || news->catalog;
    a->news.read = a->news.read && !news->catalog; /* not what is said now */
    add_settled(&a->news, news);
    unlock(a);
    if ((all || news->catalog) && a->http)
        api_server_forget_keys(a->http);
    if (all || news->lanes || news->catalog) /* behind the keys: when it has read, all of it is heeded */
        watcher_heard(a->watcher, all || news->lanes, all || news->catalog, news->heard);
}

/* The next two on the watcher's. */
static void lanes_read(void *context, const struct lane *lanes, size_t n)
{
    struct server *a = context;
    struct news *news = &a->news;
    pthread_mutex_lock(&news->lock);
    arena_reset(&news->lanes_arena);
    news->lanes = arena_array(&news->lanes_arena, struct lane, n);
    news->lane_count = 0;
    for (size_t i = 0; news->lanes && i < n; i++) {
        struct lane *to = &news->lanes[news->lane_count++];
        *to = lanes[i];
        if (!arena_str(&news->lanes_arena, lanes[i].queue, &to->queue))
            news->lane_count--;
    }
    unlock(a);
}

static void catalog_read(void *context, bool changed, uint64_t heard)
{
    struct server *a = context;
    pthread_mutex_lock(&a->news.lock);
    a->news.heeded = max_of(a->news.heeded, heard);
    a->news.rules = a->news.rules || changed;
    a->news.read = true;
    unlock(a);
}

enum err server_watch(struct server *a, struct error *e)
{
    struct watcher_setup setup = {
        .store = a->store, .catalog = a->catalog, .on_lanes = lanes_read, .on_catalog = catalog_read, .context = a
    };
    if (!store_is_shared(a->store))
        return ERR_OK;
    if (watcher_new(&setup, &a->watcher, e))
        return e->code;
    a->watch = (struct store_watch){ .heard = heard, .node = node_status(a->node).id };
    store_watch(a->store, &a->watch);
    return ERR_OK;
}

void server_unwatch(struct server *a)
{
    if (!a->watcher)
        return;
    store_watch(a->store, NULL);
    watcher_free(take(a->watcher));
}

void server_news_init(struct server *a)
{
    pthread_mutex_init(&a->news.lock, NULL);
    a->news.call = (struct call){ .fn = hear_news, .context = a };
    arena_init(&a->news.lanes_arena, LANES_ARENA);
}

void server_news_release(struct server *a)
{
    pthread_mutex_destroy(&a->news.lock);
    arena_release(&a->news.lanes_arena);
    free(a->news.v);
    free(a->news.settled);
}

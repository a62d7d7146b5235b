#include "server/catalog_watcher.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/thread_owner.h"
#include "platform/clock_system.h"

enum {
    LANES_ARENA = 16 << 20,
    PAGE_ARENA = 32 << 20,
    PAGE_ENTRIES = 200, /* if they fit into PAGE_ARENA; otherwise 1 */
    LANES_EVERY_US = 1000000,
    CATALOG_EVERY = 10, /* reads of the lanes */
    TRIES_MAX = 8,
};

struct catalog_watcher {
    struct catalog_watcher_setup setup;
    struct reader *reader;
    pthread_t thread;
    struct thread_owner owner; /* the watcher's thread: it uses the reader */
    pthread_mutex_t lock;      /* guards everything below */
    pthread_cond_t wakeup;
    bool lanes, catalog, stopping; /* what to read */
    uint64_t barrier;
};

/* ---- reading the catalog ---- */

static void catalog_watcher_on_unreadable(const struct catalog_entry *entry, const struct error *e)
{
    log_error("catalog_unreadable", kv_str("name", entry->name), kv_i64("tenant", entry->tenant), kv_err(e));
}

struct catalog_walk {
    struct catalog_cache *catalog;
    struct reader *reader;
    struct catalog_filter filter;
    char name[CATALOG_NAME_MAX]; /* the last entry of the page before */
    int tries;
};

/* An entry has up to CATALOG_DOC_MAX bytes. If a page of entries does not fit into the arena, a page of one entry
 * does. */
static enum err catalog_watcher_read_page(struct catalog_walk *w, struct arena *a, struct catalog_page *ret,
                                          struct error *e)
{
    w->filter.limit = PAGE_ENTRIES;
    enum err rc = reader_catalog_list(w->reader, &w->filter, a, ret, e);
    if (rc != ERR_LIMIT)
        return rc;
    arena_reset(a);
    w->filter.limit = 1;
    return reader_catalog_list(w->reader, &w->filter, a, ret, e);
}

static void catalog_walk_advance(struct catalog_walk *w, const struct catalog_entry *last)
{
    memcpy(w->name, last->name.p, last->name.n);
    w->filter.after = (struct str){ w->name, last->name.n };
    w->filter.after_tenant = last->tenant;
    w->tries = 0;
}

/* Reads one page into the cache. If the cache changed meanwhile, the same page is read again, at most TRIES_MAX
 * times: constant changes must not keep this walk from ending, and the next walk repairs what it missed. *ret_more:
 * call again. */
static enum err catalog_walk_page(struct catalog_walk *w, bool *ret_more, struct error *e)
{
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, PAGE_ARENA);
    struct catalog_page page = { 0 };
    uint64_t generation = catalog_cache_generation(w->catalog);
    if (catalog_watcher_read_page(w, &arena, &page, e))
        return e->code;
    struct catalog_cache_page p = {
        .kind = w->filter.kind, .after_tenant = w->filter.after_tenant, .after = w->filter.after, .page = &page
    };
    bool followed =
        catalog_cache_follow(w->catalog, &p, generation, catalog_watcher_on_unreadable) || ++w->tries == TRIES_MAX;
    *ret_more = !followed || page.more;
    if (followed && page.entries.n)
        catalog_walk_advance(w, &page.entries.v[page.entries.n - 1]);
    return ERR_OK;
}

enum err catalog_watcher_fill(struct catalog_cache *catalog, struct reader *r, struct error *e)
{
    static const enum catalog_kind kinds[] = { CATALOG_TENANT, CATALOG_QUEUE, CATALOG_CALENDAR, CATALOG_NOTIFICATION,
                                               CATALOG_SIGNING_KEY };
    for (size_t i = 0; i < array_count(kinds); i++) {
        struct catalog_walk w = { .catalog = catalog,
                                  .reader = r,
                                  .filter = { .kind = kinds[i], .all_tenants = true } };
        for (bool more = true; more;)
            if (catalog_walk_page(&w, &more, e))
                return e->code;
    }
    return ERR_OK;
}

/* ---- reading breakers ---- */

enum err catalog_watcher_read_breakers(struct reader *r, struct arena *a, struct breaker_rows *ret, struct error *e)
{
    struct breaker_filter f = { .all_tenants = true, .limit = LIST_MAX };
    struct breaker_rows all = { 0 }, page;
    do {
        page = (struct breaker_rows){ 0 };
        if (reader_breakers(r, &f, a, &page, e))
            return e->code;
        struct breaker_row *v = arena_array(a, struct breaker_row, all.n + page.n + 1);
        if (!v)
            return error_set(e, ERR_LIMIT, "there are too many circuit breakers");
        if (all.n)
            memcpy(v, all.v, all.n * sizeof *v);
        if (page.n)
            memcpy(v + all.n, page.v, page.n * sizeof *v);
        all = (struct breaker_rows){ v, all.n + page.n };
        f.before = all.n ? all.v[all.n - 1].id : f.before;
    } while (page.n == LIST_MAX && all.n < CATALOG_WATCHER_BREAKERS);
    *ret = all;
    return ERR_OK;
}

/* ---- the thread ---- */

static bool catalog_watcher_open_reader(struct catalog_watcher *w, struct error *e)
{
    return w->reader || store_reader(w->setup.store, &w->reader, e) == ERR_OK;
}

static void catalog_watcher_reload_catalog(struct catalog_watcher *w, uint64_t barrier)
{
    struct error e;
    assert_owned(&w->owner);
    uint64_t before = catalog_cache_generation(w->setup.catalog);
    bool failed = !catalog_watcher_open_reader(w, &e) || catalog_watcher_fill(w->setup.catalog, w->reader, &e);
    if (failed)
        log_debug("catalog_not_read", kv_err(&e)); /* writers log an unavailable store at a higher level */
    w->setup.on_catalog(w->setup.context, catalog_cache_generation(w->setup.catalog) != before, failed ? 0 : barrier);
}

static void catalog_watcher_reload_lanes(struct catalog_watcher *w)
{
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, LANES_ARENA);
    struct lane *lanes = NULL;
    struct error e;
    size_t n = 0;
    assert_owned(&w->owner);
    if (!catalog_watcher_open_reader(w, &e) || reader_lanes(w->reader, &arena, &lanes, &n, &e))
        log_debug("lanes_not_read", kv_err(&e));
    else
        w->setup.on_lanes(w->setup.context, lanes, n);
}

static void catalog_watcher_reload_breakers(struct catalog_watcher *w)
{
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, LANES_ARENA);
    struct breaker_rows rows = { 0 };
    struct error e;
    assert_owned(&w->owner);
    if (!catalog_watcher_open_reader(w, &e) || catalog_watcher_read_breakers(w->reader, &arena, &rows, &e))
        log_debug("breakers_not_read", kv_err(&e));
    else
        w->setup.on_breakers(w->setup.context, &rows);
}

/* Under the lock. Waits until there is something to read; false: LANES_EVERY_US have passed without a notice. */
static bool catalog_watcher_wait(struct catalog_watcher *w)
{
    struct timespec until = clock_condition_end(LANES_EVERY_US);
    while (!w->lanes && !w->catalog && !w->stopping)
        if (pthread_cond_timedwait(&w->wakeup, &w->lock, &until) == ETIMEDOUT)
            return false;
    return true;
}

static void *catalog_watcher_thread(void *context)
{
    struct catalog_watcher *w = context;
    int quiet = 0; /* waits without a notice since the catalog was read */
    thread_owner_take(&w->owner);
    pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        bool notified = catalog_watcher_wait(w);
        quiet += !notified;
        bool lanes = w->lanes || !notified, catalog = w->catalog || quiet == CATALOG_EVERY;
        w->lanes = w->catalog = false;
        quiet = catalog ? 0 : quiet;
        uint64_t barrier = w->barrier; /* taken before the read: the read covers it */
        pthread_mutex_unlock(&w->lock);
        if (catalog)
            catalog_watcher_reload_catalog(w, barrier);
        if (lanes) {
            catalog_watcher_reload_breakers(w);
            catalog_watcher_reload_lanes(w);
        }
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void catalog_watcher_notify(struct catalog_watcher *w, bool lanes, bool catalog, uint64_t barrier)
{
    pthread_mutex_lock(&w->lock);
    w->lanes = w->lanes || lanes;
    w->catalog = w->catalog || catalog;
    w->barrier = max_of(w->barrier, barrier);
    pthread_cond_signal(&w->wakeup);
    pthread_mutex_unlock(&w->lock);
}

enum err catalog_watcher_new(const struct catalog_watcher_setup *setup, struct catalog_watcher **ret, struct error *e)
{
    struct catalog_watcher *w = xnew(*w);
    w->setup = *setup;
    pthread_mutex_init(&w->lock, NULL);
    clock_condition_init(&w->wakeup);
    int why = pthread_create(&w->thread, NULL, catalog_watcher_thread, w);
    if (why) {
        free(w);
        return error_set(e, ERR_UNAVAILABLE, "cannot start a thread: %s", strerror(why));
    }
    *ret = w;
    return ERR_OK;
}

void catalog_watcher_free(struct catalog_watcher *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->wakeup);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    reader_free(w->reader);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wakeup);
    free(w);
}

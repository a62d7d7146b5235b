#pragma once
/* server/catalog_watcher.h - reads the catalog, the lanes and the circuit breakers again when another node has changed
 * them.
 *
 * A store notice (port/store.h) says that there is something to read. Reading would block the loop, so this module
 * has a thread and a reader of its own. Covers lost notices: it reads the lanes and breakers every 1 s and the catalog
 * every 10 s anyway. */
#include "node/catalog_cache.h"
#include "port/clock.h"
#include "port/store.h"

struct catalog_watcher_setup {
    struct store *store;
    struct catalog_cache *catalog;
    /* Called on the watcher's thread. on_lanes gets all lanes in the store, valid for the call. on_catalog says that
     * the catalog was read, or could not be; `barrier` is the highest one that this read covers, 0 if it failed. */
    void (*on_lanes)(void *context, const struct lane *lanes, size_t n);
    void (*on_breakers)(void *context, const struct breaker_rows *rows); /* all in the store, before the lanes */
    void (*on_catalog)(void *context, bool changed, uint64_t barrier);
    void *context;
};

struct catalog_watcher;

/* Reads the whole catalog into the catalog cache, once. Entries that cannot be decoded are logged and skipped. Any
 * thread. */
enum err catalog_watcher_fill(struct catalog_cache *catalog, struct reader *r, struct error *e) must_use;

/* All circuit breakers in the store, CATALOG_WATCHER_BREAKERS at most. Any thread. */
enum { CATALOG_WATCHER_BREAKERS = 10000 };
enum err catalog_watcher_read_breakers(struct reader *r, struct arena *a, struct breaker_rows *ret,
                                       struct error *e) must_use;

enum err catalog_watcher_new(const struct catalog_watcher_setup *setup, struct catalog_watcher **ret,
                             struct error *e) must_use;
void catalog_watcher_free(struct catalog_watcher *w); /* afterwards no callback runs; NULL is fine */

/* Asks the thread to read the lanes, the catalog, or both. barrier: store_notice.catalog_change, or 0. Any thread; does
 * not block. */
void catalog_watcher_notify(struct catalog_watcher *w, bool lanes, bool catalog, uint64_t barrier);

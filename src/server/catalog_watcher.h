#pragma once
/* server/catalog_watcher.h - keeps up with what other nodes do to the store: lanes that are new, and the catalog.
 *
 * News say that there is something to read (port/store.h); the loop has no time for reading, so there is a thread with a reader of its own.
 * Should news be lost, it looks by itself from time to time. */
#include "node/catalog_cache.h"
#include "port/clock.h"
#include "port/store.h"

struct catalog_watcher_setup {
    struct store *store;
    struct catalog_cache *catalog;
    /* On the watcher's thread: the lanes that there are, which are there until it returns; the catalog was read, or could not be. */
    void (*on_lanes)(void *context, const struct lane *lanes, size_t n);
    void (*on_catalog)(void *context, bool changed,
                       uint64_t heard); /* heard: as far as it was read, of watcher_heard's; 0: it was not */
    void *context;
};

struct catalog_watcher;

/* Reads the catalog into the book, once; entries that it can not read are logged and left out. */
enum err catalog_watcher_fill(struct catalog_cache *catalog, struct reader *r, struct error *e) must_use;

enum err catalog_watcher_new(const struct catalog_watcher_setup *setup, struct catalog_watcher **ret,
                             struct error *e) must_use;
void catalog_watcher_free(struct catalog_watcher *w); /* when it returns nothing is told any more; NULL is fine */

/* From any thread. heard: what the news of the catalog came with, 0 if with nothing. */
void catalog_watcher_notify(struct catalog_watcher *w, bool lanes, bool catalog, uint64_t heard);

#pragma once
/* api/catalog/catalog_update.h - changes an entry of the catalog (a queue, a calendar, a tenant, a setting):
 * 1. Reads the current entry.
 * 2. `make`, a function of the resource, decides what the entry becomes and writes the answer.
 * 3. The writer stores it if the entry is still the one that was read. If not, all starts again, up to 8 times.
 * 4. After the commit: updates the catalog cache, tells the node, waits until the other nodes have applied the change
 *    (catalog_barrier.h), and answers.
 *
 * All functions run on a pool thread that owns the request. */
#include "api/server/request.h"

enum { CATALOG_UPDATE_MAX = 2 };

struct catalog_update {
    enum catalog_kind kind;
    int32_t tenant;
    struct str name;
    const char *what; /* "queue", for sentences */
    /* Decides what the entry becomes: fills in `entry.doc` or `remove` of v[0], adds v[1] if a second entry changes
     * with it, and writes the answer. Called again from the start if another change came first. */
    enum err (*make)(struct request *q, struct reader *r, struct catalog_update *c, struct error *e);
    enum handled (*then)(struct request *q); /* called after the commit in place of the answer; may be NULL */

    struct catalog_entry current; /* the entry that was read; `exists` says whether there was one */
    bool exists;
    struct catalog_change v[CATALOG_UPDATE_MAX];
    size_t n;
    struct catalog_cache_item *item; /* v[0], parsed before it is written */
    struct buf *doc;                 /* for make: see catalog_update_set_doc */
    /* What a repeated request is answered, if the answer has a secret that must not be stored; empty: the same. */
    struct str stored_answer;
    int tries;
};

/* Starts an update. c is copied. The name need not be the one in the path. May pass q on. */
enum handled catalog_update_begin(struct request *q, struct reader *r, struct catalog_update c);

/* Makes the document that `make` wrote into c->doc the document of v[0]. */
enum err catalog_update_set_doc(struct request *q, struct catalog_update *c, struct error *e) must_use;

/* ERR_NOT_FOUND, "there is no such queue". */
enum err catalog_update_not_found(const struct catalog_update *c, struct error *e);

#pragma once
/* api/resource/change.h - a change of the catalog (queues, calendars, tenants): what is there is read, its resource says what it becomes, the
 * writer puts it there if it still is what was read; else all is done again from the start, a few times. After the commit the book
 * knows it, who decides by it is told, and once other nodes heed it the answer goes out. */
#include "api/server/request.h"
#include "base/json/json.h"

enum { CHANGES_MAX = 2 };

struct change {
    enum catalog_kind kind;
    int32_t tenant;
    struct str name;
    const char *what; /* "queue", for sentences */
    /* Says what is to become of it: fills `entry.doc` or `remove` of v[0], adds v[1] if something else goes with it, and writes the
     * answer. Called again, from the start, when another was faster. */
    enum err (*make)(struct request *q, struct reader *r, struct change *c, struct error *e);
    enum handled (*then)(struct request *q); /* after the commit, in place of the answer; may be NULL */

    struct catalog_entry current; /* what was read; `exists` says whether there was one */
    bool exists;
    struct catalog_change v[CHANGES_MAX];
    size_t n;
    struct catalog_cache_item *item; /* v[0], parsed before it is written */
    struct buf *doc;                 /* for make: see change_set_doc */
    int tries;
};

/* c is copied. The name need not be that of the path. */
enum handled change_begin(struct request *q, struct reader *r, struct change c);

/* The doc that make has written into c->doc becomes v[0]'s. */
enum err change_set_doc(struct request *q, struct change *c, struct error *e) must_use;

/* ERR_NOT_FOUND, "there is no such queue". */
enum err change_missing(const struct change *c, struct error *e);

/* The body as a JSON object; empty: {}. */
enum err request_object(struct request *q, struct json_doc *ret, struct error *e) must_use;

/* Refuses parameters that a route does not have. False: the answer is there. */
bool request_takes_no_query(struct request *q);

/* All entries of a kind, in the request's arena. */
enum err catalog_all(struct request *q, struct reader *r, enum catalog_kind kind, int32_t tenant,
                     struct catalog_entries *ret, struct error *e) must_use;

/* For lists of named things: ?limit= and ?cursor=, the name that the page before ended with. */
struct name_page {
    int64_t limit;
    struct str after;
};
bool name_page_read(struct request *q, struct name_page *ret); /* false: the answer is there */

/* version, created_at and updated_at, as an entry's view shows them. */
void entry_members(struct jw *w, const struct catalog_entry *entry);

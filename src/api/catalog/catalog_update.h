#pragma once
/* api/catalog/catalog_update.h - changes an entry of the catalog (queues, calendars, tenants):
 * 1. Reads the current entry.
 * 2. `make`, a function of the resource, decides what the entry becomes and writes the answer.
 * 3. The writer stores it if the entry is still the one that was read. If not, all starts again, up to 8 times.
 * 4. After the commit: updates the catalog cache, tells the node, waits until the other nodes have applied the change
 *    (catalog_barrier.h), and answers.
 *
 * All functions run on a pool thread that owns the request. */
#include "api/server/request.h"
#include "base/json/json.h"

enum { CHANGES_MAX = 2 };

struct change {
    enum catalog_kind kind;
    int32_t tenant;
    struct str name;
    const char *what; /* "queue", for sentences */
    /* Decides what the entry becomes: fills in `entry.doc` or `remove` of v[0], adds v[1] if a second entry changes
     * with it, and writes the answer. Called again from the start if another change came first. */
    enum err (*make)(struct request *q, struct reader *r, struct change *c, struct error *e);
    enum handled (*then)(struct request *q); /* called after the commit in place of the answer; may be NULL */

    struct catalog_entry current; /* the entry that was read; `exists` says whether there was one */
    bool exists;
    struct catalog_change v[CHANGES_MAX];
    size_t n;
    struct catalog_cache_item *item; /* v[0], parsed before it is written */
    struct buf *doc;                 /* for make: see change_set_doc */
    /* What a repeated request is answered, if the answer has a secret that must not be stored; empty: the same. */
    struct str stored_answer;
    int tries;
};

/* Starts a change. c is copied. The name need not be the one in the path. May pass q on. */
enum handled change_begin(struct request *q, struct reader *r, struct change c);

/* Makes the document that `make` wrote into c->doc the document of v[0]. */
enum err change_set_doc(struct request *q, struct change *c, struct error *e) must_use;

/* ERR_NOT_FOUND, "there is no such queue". */
enum err change_not_found(const struct change *c, struct error *e);

/* The body as a JSON object; an empty body is {}. */
enum err request_read_object(struct request *q, struct json_doc *ret, struct error *e) must_use;
enum err request_check_no_body(struct request *q, struct error *e) must_use; /* nothing, or {} */

/* For routes without query parameters: refuses any parameter. False: the request is answered. */
bool request_check_no_query(struct request *q);

/* All entries of a kind, in the request's arena. */
enum err catalog_read_all(struct request *q, struct reader *r, enum catalog_kind kind, int32_t tenant,
                          struct catalog_entries *ret, struct error *e) must_use;

/* The name of an entry that has an id for a name, in the request's arena; empty if that is full. */
struct str catalog_id_name(struct request *q, struct uuid id);

/* Parameters of lists ordered by name: ?limit= and ?cursor=. */
struct name_page {
    int64_t limit;
    struct str cursor;
    struct str after; /* the cursor's: the last name of the previous page */
};
bool name_page_read(struct request *q, struct name_page *ret); /* false: the request is answered */

/* Answers a page of the tenant's entries of a kind, by name, as the array `member`. `write` writes one entry as an
 * object. */
typedef enum err (*catalog_write_fn)(struct request *q, struct jw *w, const struct catalog_entry *entry,
                                     struct error *e);
enum handled catalog_list_answer(struct request *q, struct reader *r, enum catalog_kind kind, const char *member,
                                 catalog_write_fn write);
/* The same for a route that has read its query itself. `write` may leave out entries, by writing nothing: the page is
 * filled with the next ones. A request looks at CATALOG_LIST_MAX entries at most; then the page is short. */
enum handled catalog_page_answer(struct request *q, struct reader *r, const struct name_page *page,
                                 enum catalog_kind kind, const char *member, catalog_write_fn write);

/* Answers one entry of the tenant, with its ETag. what: "queue", for sentences. */
enum handled catalog_get_answer(struct request *q, struct reader *r, enum catalog_kind kind, struct str name,
                                const char *what, catalog_write_fn write);

/* Writes version, created_at and updated_at of an entry. */
void catalog_entry_members(struct jw *w, const struct catalog_entry *entry);

/* The name of the API key that sent the request; if it has no name, its id. */
enum err change_key_name(struct request *q, struct reader *r, struct str *ret, struct error *e) must_use;
/* The same of the id of a key, or of any other sender: if it is no key of the tenant, the text itself. *ret_key: the id
 * of the key; empty: it is none. */
enum err change_sender(struct request *q, struct reader *r, struct str sender, struct str *ret_name,
                       struct str *ret_key, struct error *e) must_use;
enum err change_sender_name(struct request *q, struct reader *r, struct str sender, struct str *ret,
                            struct error *e) must_use;

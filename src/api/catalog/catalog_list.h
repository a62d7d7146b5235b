#pragma once
/* api/catalog/catalog_list.h - reads entries of the catalog and answers with them: one, a page by name, all of a kind.
 * A pool thread that owns the request. */
#include "api/server/request.h"

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

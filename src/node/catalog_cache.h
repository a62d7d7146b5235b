#pragma once
/* node/catalog_cache.h - what the catalog says, parsed and at hand for those who decide: queue rules, tenants, calendars.
 *
 * Filled at the start from the store and kept current by whoever changes the catalog (book_put after the commit), and, if other nodes do,
 * by whoever hears of it (book_follow). Of two versions of an entry the later one stays, whoever comes first. Any thread may call. What it gives out is the caller's own: a copy, or a reference of a calendar that stays as it was. */
#include "core/sharing/queue_rules.h"
#include "core/sharing/tenant_rules.h"
#include "core/time/calendar.h"
#include "port/catalog.h"

struct book;

struct book *book_new(void);
void book_free(struct book *b); /* NULL is fine */

/* A new or changed entry; kinds that it does not keep are passed over. An entry that it can not read is refused, and the one before stays. */
enum err book_put(struct book *b, const struct catalog_entry *entry, struct error *e) must_use;

/* The same in two steps, for who has no time to parse when it is to be kept: a calendar may have thousands of dates. *ret is NULL for a
 * kind that it does not keep; keeping takes it over, whatever comes of it. */
struct book_item;
enum err book_read(const struct catalog_entry *entry, struct book_item **ret, struct error *e) must_use;
enum err book_keep(struct book *b, struct book_item *item, struct error *e) must_use; /* NULL is fine */
void book_item_free(struct book_item *item); /* one that is not kept after all */
void book_remove(struct book *b, int32_t tenant, enum catalog_kind kind, struct str name);

/* What other nodes have changed. A page of the store's entries of one kind, by tenant and name: all that there are behind `after`, up to
 * its last one, or to the end if there is no more. What differs is put in, what is not there is taken out; one that it can not read
 * is told of and stays as it was. False: the book was changed here since it had that generation, and the page may be older than that: read
 * it again. */
struct book_page {
    enum catalog_kind kind;
    int32_t after_tenant;
    struct str after; /* empty: from the first on */
    const struct catalog_page *page;
};
bool book_follow(struct book *b, const struct book_page *p, uint64_t generation,
                 void (*unreadable)(const struct catalog_entry *entry, const struct error *e)) must_use;

/* Rises with every change: who keeps something made from it notices. */
uint64_t book_generation(const struct book *b);

/* Defaults where there is none. The texts of *ret are copied into the arena; a NULL arena leaves them out. */
struct queue_rules book_queue(const struct book *b, int32_t tenant, struct str queue, struct arena *a);
bool book_tenant(const struct book *b, int32_t number, struct arena *a, struct tenant_rules *ret);
bool book_tenant_named(const struct book *b, struct str name, struct arena *a, struct tenant_rules *ret);
size_t book_tenant_count(const struct book *b); /* `default` among them */

/* ERR_NOT_FOUND, field "calendar", names those that there are when there is none of that name. */
enum err book_calendar(struct book *b, int32_t tenant, struct str name, const struct calendar **ret,
                       struct error *e) must_use;
void book_calendar_unref(const struct calendar *c); /* NULL is fine */

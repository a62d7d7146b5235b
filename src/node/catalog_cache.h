#pragma once
/* node/catalog_cache.h - what the catalog says, parsed and at hand for those who decide: queue rules, tenants, calendars.
 *
 * Filled at the start from the store and kept current by whoever changes the catalog (catalog_cache_put after the commit), and, if other nodes do,
 * by whoever hears of it (catalog_cache_follow). Of two versions of an entry the later one stays, whoever comes first. Any thread may call. What it gives out is the caller's own: a copy, or a reference of a calendar that stays as it was. */
#include "core/sharing/queue_rules.h"
#include "core/sharing/tenant_rules.h"
#include "core/time/calendar.h"
#include "port/catalog.h"

struct catalog_cache;

struct catalog_cache *catalog_cache_new(void);
void catalog_cache_free(struct catalog_cache *b); /* NULL is fine */

/* A new or changed entry; kinds that it does not keep are passed over. An entry that it can not read is refused, and the one before stays. */
enum err catalog_cache_put(struct catalog_cache *b, const struct catalog_entry *entry, struct error *e) must_use;

/* The same in two steps, for who has no time to parse when it is to be kept: a calendar may have thousands of dates. *ret is NULL for a
 * kind that it does not keep; keeping takes it over, whatever comes of it. */
struct catalog_cache_item;
enum err catalog_cache_read(const struct catalog_entry *entry, struct catalog_cache_item **ret,
                            struct error *e) must_use;
enum err catalog_cache_keep(struct catalog_cache *b, struct catalog_cache_item *item,
                            struct error *e) must_use;         /* NULL is fine */
void catalog_cache_item_free(struct catalog_cache_item *item); /* one that is not kept after all */
void catalog_cache_remove(struct catalog_cache *b, int32_t tenant, enum catalog_kind kind, struct str name);

/* What other nodes have changed. A page of the store's entries of one kind, by tenant and name: all that there are behind `after`, up to
 * its last one, or to the end if there is no more. What differs is put in, what is not there is taken out; one that it can not read
 * is told of and stays as it was. False: the book was changed here since it had that generation, and the page may be older than that: read
 * it again. */
struct catalog_cache_page {
    enum catalog_kind kind;
    int32_t after_tenant;
    struct str after; /* empty: from the first on */
    const struct catalog_page *page;
};
bool catalog_cache_follow(struct catalog_cache *b, const struct catalog_cache_page *p, uint64_t generation,
                          void (*unreadable)(const struct catalog_entry *entry, const struct error *e)) must_use;

/* Rises with every change: who keeps something made from it notices. */
uint64_t catalog_cache_generation(const struct catalog_cache *b);

/* Defaults where there is none. The texts of *ret are copied into the arena; a NULL arena leaves them out. */
struct queue_rules catalog_cache_queue(const struct catalog_cache *b, int32_t tenant, struct str queue,
                                       struct arena *a);
bool catalog_cache_tenant(const struct catalog_cache *b, int32_t number, struct arena *a, struct tenant_rules *ret);
bool catalog_cache_tenant_named(const struct catalog_cache *b, struct str name, struct arena *a,
                                struct tenant_rules *ret);
size_t catalog_cache_tenant_count(const struct catalog_cache *b); /* `default` among them */

/* ERR_NOT_FOUND, field "calendar", names those that there are when there is none of that name. */
enum err catalog_cache_calendar(struct catalog_cache *b, int32_t tenant, struct str name, const struct calendar **ret,
                                struct error *e) must_use;
void catalog_cache_calendar_unref(const struct calendar *c); /* NULL is fine */

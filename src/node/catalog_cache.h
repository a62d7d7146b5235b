#pragma once
/* node/catalog_cache.h - the catalog in memory, parsed: queue rules, tenants, calendars, and which happenings the
 * notification settings of a tenant want, and signing keys, whose secrets stay encrypted.
 *
 * It is filled from the store at the start. A process that changes the catalog calls catalog_cache_put after the
 * commit; changes of other nodes come in by catalog_cache_follow. Of two versions of an entry the later one stays,
 * whichever comes first. Any thread may call. Results belong to the caller: a copy, or a reference to a calendar that
 * does not change. */
#include "core/sharing/queue_rules.h"
#include "core/sharing/tenant_rules.h"
#include "core/target/signing_key.h"
#include "core/time/calendar.h"
#include "port/catalog.h"

struct catalog_cache;

struct catalog_cache *catalog_cache_new(void);
void catalog_cache_free(struct catalog_cache *b); /* NULL is fine */

/* A new or changed entry; kinds that are not cached are ignored. An entry that cannot be parsed is refused, and the
 * old one stays. */
enum err catalog_cache_put(struct catalog_cache *b, const struct catalog_entry *entry, struct error *e) must_use;

/* The same in two steps, so that parsing happens outside a critical section: a calendar may have thousands of dates.
 * *ret is NULL for a kind that is not cached. catalog_cache_keep takes the item over, whatever it returns. */
struct catalog_cache_item;
enum err catalog_cache_read(const struct catalog_entry *entry, struct catalog_cache_item **ret,
                            struct error *e) must_use;
/* NULL is fine. */
enum err catalog_cache_keep(struct catalog_cache *b, struct catalog_cache_item *item, struct error *e) must_use;
void catalog_cache_item_free(struct catalog_cache_item *item); /* an item that is not kept after all */
void catalog_cache_remove(struct catalog_cache *b, int32_t tenant, enum catalog_kind kind, struct str name);

/* Applies changes of other nodes: a page of the store's entries of one kind, by tenant and name. It has every entry
 * behind `after`, up to its last one, or to the end if there are no more. Entries that differ are put in, entries
 * that the page does not have are removed. An entry that cannot be parsed is reported and stays as it was. False:
 * the cache was changed here since it had that generation, and the page may be older: read it again. */
struct catalog_cache_page {
    enum catalog_kind kind;
    int32_t after_tenant;
    struct str after; /* empty: from the first entry on */
    const struct catalog_page *page;
};
bool catalog_cache_follow(struct catalog_cache *b, const struct catalog_cache_page *p, uint64_t generation,
                          void (*unreadable)(const struct catalog_entry *entry, const struct error *e)) must_use;

/* Rises with every change, for callers that keep something derived from the cache. */
uint64_t catalog_cache_generation(const struct catalog_cache *b);

/* Defaults if there is no such entry. The texts of *ret are copied into the arena; a NULL arena leaves them out. */
struct queue_rules catalog_cache_queue(const struct catalog_cache *b, int32_t tenant, struct str queue,
                                       struct arena *a);
bool catalog_cache_tenant(const struct catalog_cache *b, int32_t number, struct arena *a, struct tenant_rules *ret);
bool catalog_cache_tenant_named(const struct catalog_cache *b, struct str name, struct arena *a,
                                struct tenant_rules *ret);
size_t catalog_cache_tenant_count(const struct catalog_cache *b); /* including `default` */

/* What the settings of a tenant want to be told of: bits 1 << enum hit_kind. Tenant 0: those of any tenant; that is
 * fast. */
unsigned catalog_cache_wants(const struct catalog_cache *b, int32_t tenant);

/* Whether the tenant has a notification setting with this id or name. */
bool catalog_cache_has_setting(const struct catalog_cache *b, int32_t tenant, struct str id_or_name);
/* The key that signs what a tenant sends to a host: the one for the host, else the one with the longest "*.…" that
 * fits, else the tenant's default. ERR_NOT_FOUND: there is none. ERR_LIMIT: the arena is full. */
enum err catalog_cache_signing_key(const struct catalog_cache *b, int32_t tenant, struct str host, struct arena *a,
                                   struct signing_key *ret, struct error *e) must_use;
bool catalog_cache_has_signing_keys(const struct catalog_cache *b); /* of any tenant; no lock */
/* The same by its id. */
enum err catalog_cache_signing_key_of(const struct catalog_cache *b, int32_t tenant, struct uuid id, struct arena *a,
                                      struct signing_key *ret, struct error *e) must_use;

/* ERR_NOT_FOUND, field "calendar", names the calendars that there are. */
enum err catalog_cache_calendar(struct catalog_cache *b, int32_t tenant, struct str name, const struct calendar **ret,
                                struct error *e) must_use;
void catalog_cache_calendar_unref(const struct calendar *c); /* NULL is fine */

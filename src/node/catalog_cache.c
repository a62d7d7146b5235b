/* One lock over maps: many threads read, few write, and the lock is held only for a look-up and a copy. A calendar is
 * handed out by reference, because it may have thousands of dates. An entry is parsed before the lock is taken; if
 * that fails, nothing changes. The lock and the maps are behind a pointer, so that readers can use a const cache. */
#include "node/catalog_cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"
#include "base/sentence.h"
#include "core/notify/setting.h"
#include "core/time/calendar_json.h"
#include "port/crypto.h"

enum {
    DEFAULT_NUMBER = 1, /* the tenant `default` */
    ITEM_ARENA_MAX = 16 << 20,
    KEY_MAX = 1 + sizeof(int32_t) + CATALOG_NAME_MAX,
    NAMES_TOLD = 8,
};

/* One parsed entry; its texts are in its arena. */
struct catalog_cache_item {
    enum catalog_kind kind;
    int32_t tenant;
    struct str key, name;
    int64_t version, created_ms;
    struct arena arena;
    struct queue_rules queue;
    struct tenant_rules rules;
    struct calendar calendar;
    unsigned wants;   /* of a notification setting, like the next */
    struct str label; /* its name; `name` is its id */
    struct signing_key signing;
    struct list link; /* of a signing key: in the list of its tenant */
    atomic_int users; /* of a calendar: the cache, and callers that hold a reference */
};

/* How many settings of a tenant want a kind. */
struct catalog_cache_wanted {
    int32_t tenant;
    size_t counts[HIT_KINDS];
};

/* The signing keys of a tenant. */
struct catalog_cache_signers {
    int32_t tenant;
    struct list items; /* struct catalog_cache_item */
};

struct pages {
    pthread_rwlock_t lock;
    struct map items;                /* kind, tenant and name → struct catalog_cache_item */
    struct map numbers;              /* a tenant's number → its item, which `items` owns */
    struct map wanted;               /* a tenant's number → struct catalog_cache_wanted */
    size_t wanted_counts[HIT_KINDS]; /* of all tenants */
    atomic_uint wants;
    struct map signers;         /* a tenant's number → struct catalog_cache_signers */
    atomic_size_t signer_count; /* keys of all tenants */
};

struct catalog_cache {
    struct pages *pages;
    _Atomic uint64_t generation;
};

/* ---- keys ---- */

static struct str catalog_cache_key(int32_t tenant, enum catalog_kind kind, struct str name, char out[KEY_MAX])
{
    assert(name.n <= CATALOG_NAME_MAX);
    out[0] = (char)kind;
    memcpy(out + 1, &tenant, sizeof tenant);
    if (name.n)
        memcpy(out + 1 + sizeof tenant, name.p, name.n);
    return (struct str){ out, 1 + sizeof tenant + name.n };
}

static struct str catalog_cache_number_key(const int32_t *number)
{
    return (struct str){ (const char *)number, sizeof *number };
}

static struct catalog_cache_item *catalog_cache_find(const struct pages *p, int32_t tenant, enum catalog_kind kind,
                                                     struct str name)
{
    char key[KEY_MAX];
    return name.n <= CATALOG_NAME_MAX ? map_get(&p->items, catalog_cache_key(tenant, kind, name, key)) : NULL;
}

/* ---- items ---- */

static void catalog_cache_item_unref(struct catalog_cache_item *item)
{
    if (!item || atomic_fetch_sub(&item->users, 1) > 1)
        return;
    arena_release(&item->arena);
    free(item);
}

static void catalog_cache_item_unrefp(struct catalog_cache_item **item)
{
    catalog_cache_item_unref(*item);
}

static enum err catalog_cache_read_tenant(struct catalog_cache_item *item, struct str doc, struct error *e)
{
    if (tenant_rules_read(doc, &item->arena, &item->rules, e))
        return e->code;
    bool is_default = str_eq(item->name, S("default"));
    if (!str_eq(item->rules.name, item->name) || is_default != (item->rules.number == DEFAULT_NUMBER))
        return error_set(e, ERR_CORRUPT, "its name or number is another's");
    return ERR_OK;
}

/* The texts of the document are not needed after parsing. */
static enum err catalog_cache_read_calendar(struct catalog_cache_item *item, struct str text, struct error *e)
{
    cleanup_with(arena_release) struct arena scratch;
    arena_init(&scratch, ITEM_ARENA_MAX);
    struct calendar_doc doc;
    enum err rc = calendar_doc_read(text, &scratch, &doc, e);
    if (rc == ERR_OK && !calendar_of_doc(&doc, item->name.p, &item->arena, &item->calendar))
        return error_set(e, ERR_LIMIT, "is too large");
    return rc;
}

static enum err catalog_cache_read_setting(struct catalog_cache_item *item, struct str doc, struct error *e)
{
    cleanup_with(arena_release) struct arena scratch;
    struct setting setting;
    arena_init(&scratch, ITEM_ARENA_MAX);
    if (setting_read(doc, &scratch, &setting, e))
        return e ? e->code : ERR_INVALID;
    item->wants = setting_wants(&setting);
    return arena_str(&item->arena, setting.name, &item->label) ? ERR_OK : error_set(e, ERR_LIMIT, "is too large");
}

static enum err catalog_cache_read_doc(struct catalog_cache_item *item, struct str doc, struct error *e)
{
    switch (item->kind) {
    case CATALOG_QUEUE: return queue_rules_read(doc, &item->arena, &item->queue, e);
    case CATALOG_TENANT: return catalog_cache_read_tenant(item, doc, e);
    case CATALOG_CALENDAR: return catalog_cache_read_calendar(item, doc, e);
    case CATALOG_NOTIFICATION: return catalog_cache_read_setting(item, doc, e);
    case CATALOG_SIGNING_KEY: return signing_key_read(doc, &item->arena, &item->signing, e);
    default: break;
    }
    assert(false);
    return ERR_CORRUPT;
}

static enum err catalog_cache_item_new(const struct catalog_entry *entry, struct catalog_cache_item **ret,
                                       struct error *e)
{
    cleanup_with(catalog_cache_item_unrefp) struct catalog_cache_item *item = xnew(*item);
    char key[KEY_MAX];
    atomic_init(&item->users, 1);
    item->kind = entry->kind;
    item->tenant = entry->tenant;
    item->version = entry->version;
    item->created_ms = entry->created_ms;
    arena_init(&item->arena, ITEM_ARENA_MAX);
    if (!arena_str(&item->arena, catalog_cache_key(entry->tenant, entry->kind, entry->name, key), &item->key))
        return error_set(e, ERR_LIMIT, "is too large");
    item->name = str_sub(item->key, item->key.n - entry->name.n, item->key.n);
    struct error why = { 0 };
    if (catalog_cache_read_doc(item, entry->doc, &why)) {
        error_wrap(&why, "entry '" STR_FMT "'", STR_ARG(entry->name));
        if (e)
            *e = why;
        return why.code;
    }
    *ret = take(item);
    return ERR_OK;
}

/* ---- creation and release ---- */

struct catalog_cache *catalog_cache_new(void)
{
    struct catalog_cache *b = xnew(*b);
    b->pages = xnew(*b->pages);
    struct hash_key key;
    crypto_random(&key, sizeof key);
    map_init(&b->pages->items, key);
    map_init(&b->pages->numbers, key);
    map_init(&b->pages->wanted, key);
    map_init(&b->pages->signers, key);
    pthread_rwlock_init(&b->pages->lock, NULL);
    return b;
}

void catalog_cache_free(struct catalog_cache *b)
{
    if (!b)
        return;
    map_each (&b->pages->items, slot)
        catalog_cache_item_unref(slot->value);
    map_release(&b->pages->items);
    map_release(&b->pages->numbers);
    map_each (&b->pages->wanted, slot)
        free(slot->value);
    map_release(&b->pages->wanted);
    map_each (&b->pages->signers, slot)
        free(slot->value);
    map_release(&b->pages->signers);
    pthread_rwlock_destroy(&b->pages->lock);
    free(b->pages);
    free(b);
}

uint64_t catalog_cache_generation(const struct catalog_cache *b)
{
    return atomic_load(&b->generation);
}

/* ---- changes ---- */

static bool catalog_cache_keeps(enum catalog_kind kind)
{
    return kind == CATALOG_QUEUE || kind == CATALOG_TENANT || kind == CATALOG_CALENDAR ||
           kind == CATALOG_NOTIFICATION || kind == CATALOG_SIGNING_KEY;
}

/* The entry of a tenant stays when its last key goes. */
static void catalog_cache_link_signer(struct pages *p, struct catalog_cache_item *item)
{
    struct catalog_cache_signers *s = map_get(&p->signers, catalog_cache_number_key(&item->tenant));
    if (item->kind != CATALOG_SIGNING_KEY)
        return;
    if (!s) {
        s = xnew(*s);
        s->tenant = item->tenant;
        list_init(&s->items);
        map_put(&p->signers, catalog_cache_number_key(&s->tenant), s);
    }
    list_push(&s->items, &item->link);
    atomic_fetch_add(&p->signer_count, 1);
}

static void catalog_cache_unlink_signer(struct pages *p, struct catalog_cache_item *item)
{
    if (item->kind != CATALOG_SIGNING_KEY)
        return;
    list_remove(&item->link);
    atomic_fetch_sub(&p->signer_count, 1);
}

/* A setting came (by 1) or went (by -1). The entry of a tenant stays. */
static void catalog_cache_count_wants(struct pages *p, const struct catalog_cache_item *item, int by)
{
    struct catalog_cache_wanted *w = map_get(&p->wanted, catalog_cache_number_key(&item->tenant));
    unsigned all = 0;
    if (item->kind != CATALOG_NOTIFICATION)
        return;
    if (!w) {
        w = xnew(*w);
        w->tenant = item->tenant;
        map_put(&p->wanted, catalog_cache_number_key(&w->tenant), w);
    }
    for (int k = 0; k < HIT_KINDS; k++) {
        bool wants = item->wants & 1U << k;
        w->counts[k] += wants ? (size_t)by : 0;
        p->wanted_counts[k] += wants ? (size_t)by : 0;
        all |= p->wanted_counts[k] ? 1U << k : 0;
    }
    atomic_store(&p->wants, all);
}

/* Returns the old item; the caller releases it after the lock. */
static struct catalog_cache_item *catalog_cache_take_item(struct pages *p, struct str key)
{
    struct catalog_cache_item *old = map_remove(&p->items, key);
    if (old && old->kind == CATALOG_TENANT)
        map_remove(&p->numbers, catalog_cache_number_key(&old->rules.number));
    if (old) {
        catalog_cache_count_wants(p, old, -1);
        catalog_cache_unlink_signer(p, old);
    }
    return old;
}

/* If an entry was removed and created again, its versions cannot be compared. */
static bool catalog_cache_is_outdated(const struct pages *p, const struct catalog_cache_item *item)
{
    const struct catalog_cache_item *known = map_get(&p->items, item->key);
    return known && known->created_ms == item->created_ms && known->version > item->version;
}

static enum err catalog_cache_put_item(struct pages *p, struct catalog_cache_item *item,
                                       struct catalog_cache_item **ret_old, struct error *e)
{
    if (item->kind == CATALOG_TENANT) {
        const struct catalog_cache_item *other = map_get(&p->numbers, catalog_cache_number_key(&item->rules.number));
        if (other && !str_eq(other->name, item->name))
            return error_set(e, ERR_CORRUPT, "entry '" STR_FMT "': its number is that of '" STR_FMT "'",
                             STR_ARG(item->name), STR_ARG(other->name));
    }
    *ret_old = catalog_cache_take_item(p, item->key);
    map_put(&p->items, item->key, item);
    catalog_cache_count_wants(p, item, 1);
    catalog_cache_link_signer(p, item);
    if (item->kind == CATALOG_TENANT)
        map_put(&p->numbers, catalog_cache_number_key(&item->rules.number), item);
    return ERR_OK;
}

enum err catalog_cache_read(const struct catalog_entry *entry, struct catalog_cache_item **ret, struct error *e)
{
    *ret = NULL;
    return catalog_cache_keeps(entry->kind) ? catalog_cache_item_new(entry, ret, e) : ERR_OK;
}

void catalog_cache_item_free(struct catalog_cache_item *item)
{
    catalog_cache_item_unref(item);
}

enum err catalog_cache_keep(struct catalog_cache *b, struct catalog_cache_item *item, struct error *e)
{
    struct catalog_cache_item *old = NULL;
    if (!item)
        return ERR_OK;
    pthread_rwlock_wrlock(&b->pages->lock);
    bool outdated = catalog_cache_is_outdated(b->pages, item);
    enum err rc = outdated ? ERR_OK : catalog_cache_put_item(b->pages, item, &old, e);
    if (rc == ERR_OK && !outdated)
        atomic_fetch_add(&b->generation, 1);
    pthread_rwlock_unlock(&b->pages->lock);
    catalog_cache_item_unref(rc || outdated ? item : old);
    return rc;
}

enum err catalog_cache_put(struct catalog_cache *b, const struct catalog_entry *entry, struct error *e)
{
    struct catalog_cache_item *item;
    enum err rc = catalog_cache_read(entry, &item, e);
    return rc ? rc : catalog_cache_keep(b, item, e);
}

void catalog_cache_remove(struct catalog_cache *b, int32_t tenant, enum catalog_kind kind, struct str name)
{
    char key[KEY_MAX];
    if (!catalog_cache_keeps(kind) || name.n > CATALOG_NAME_MAX)
        return;
    pthread_rwlock_wrlock(&b->pages->lock);
    struct catalog_cache_item *old = catalog_cache_take_item(b->pages, catalog_cache_key(tenant, kind, name, key));
    if (old)
        atomic_fetch_add(&b->generation, 1);
    pthread_rwlock_unlock(&b->pages->lock);
    catalog_cache_item_unref(old);
}

/* ---- changes by other nodes ---- */

/* The changes of a page: parsed before the lock is taken, released after it. */
struct follow {
    struct catalog_cache_item **in;  /* one for each entry of the page; NULL: unchanged, or it cannot be parsed */
    struct catalog_cache_item **out; /* items that were replaced or removed */
    size_t out_count;
};

static bool catalog_cache_is_known(struct pages *p, const struct catalog_entry *x)
{
    pthread_rwlock_rdlock(&p->lock);
    const struct catalog_cache_item *item = catalog_cache_find(p, x->tenant, x->kind, x->name);
    bool same = item && item->version == x->version && item->created_ms == x->created_ms;
    pthread_rwlock_unlock(&p->lock);
    return same;
}

static int catalog_cache_compare_places(int32_t tenant, struct str name, int32_t other_tenant, struct str other)
{
    return tenant != other_tenant ? (tenant < other_tenant ? -1 : 1) : str_cmp(name, other);
}

/* Whether the page covers this key and does not have it. */
static bool catalog_cache_is_gone(const struct catalog_cache_page *p, const struct catalog_cache_item *item)
{
    const struct catalog_entries *all = &p->page->entries;
    if (item->kind != p->kind ||
        (p->after.n && catalog_cache_compare_places(item->tenant, item->name, p->after_tenant, p->after) <= 0))
        return false;
    size_t low = 0, high = all->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = catalog_cache_compare_places(item->tenant, item->name, all->v[mid].tenant, all->v[mid].name);
        if (order == 0)
            return false;
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return low < all->n || !p->page->more;
}

static void catalog_cache_take_gone(struct pages *p, const struct catalog_cache_page *page, struct follow *f)
{
    size_t first = f->out_count;
    map_each (&p->items, slot)
        if (catalog_cache_is_gone(page, slot->value))
            f->out[f->out_count++] = slot->value;
    for (size_t i = first; i < f->out_count; i++)
        catalog_cache_take_item(p, f->out[i]->key);
}

static void catalog_cache_put_page(struct pages *p, const struct catalog_cache_page *page, struct follow *f,
                                   void (*unreadable)(const struct catalog_entry *, const struct error *))
{
    struct error e;
    catalog_cache_take_gone(p, page, f);
    for (size_t i = 0; i < page->page->entries.n; i++) {
        struct catalog_cache_item *old = NULL;
        if (f->in[i] && catalog_cache_put_item(p, f->in[i], &old, &e) == ERR_OK)
            f->in[i] = NULL;
        else if (f->in[i])
            unreadable(&page->page->entries.v[i], &e);
        if (old)
            f->out[f->out_count++] = old;
    }
}

static void catalog_cache_parse_changed(struct pages *p, const struct catalog_cache_page *page, struct follow *f,
                                        void (*unreadable)(const struct catalog_entry *, const struct error *))
{
    struct error e;
    for (size_t i = 0; i < page->page->entries.n; i++)
        if (!catalog_cache_is_known(p, &page->page->entries.v[i]) &&
            catalog_cache_item_new(&page->page->entries.v[i], &f->in[i], &e))
            unreadable(&page->page->entries.v[i], &e);
}

bool catalog_cache_follow(struct catalog_cache *b, const struct catalog_cache_page *p, uint64_t generation,
                          void (*unreadable)(const struct catalog_entry *entry, const struct error *e))
{
    assert(catalog_cache_keeps(p->kind));
    size_t n = p->page->entries.n;
    struct follow f = { .in = xcalloc(n + 1, sizeof(struct catalog_cache_item *)) };
    catalog_cache_parse_changed(b->pages, p, &f, unreadable);
    pthread_rwlock_wrlock(&b->pages->lock);
    bool current = atomic_load(&b->generation) == generation;
    f.out = xcalloc(b->pages->items.n + n + 1, sizeof(struct catalog_cache_item *));
    if (current) {
        bool changes = false;
        for (size_t i = 0; i < n; i++)
            changes = changes || f.in[i];
        catalog_cache_put_page(b->pages, p, &f, unreadable);
        if (changes || f.out_count)
            atomic_fetch_add(&b->generation, 1);
    }
    pthread_rwlock_unlock(&b->pages->lock);
    for (size_t i = 0; i < n; i++)
        catalog_cache_item_unref(f.in[i]);
    for (size_t i = 0; i < f.out_count; i++)
        catalog_cache_item_unref(f.out[i]);
    free(f.in);
    free(f.out);
    return current;
}

/* ---- notification settings ---- */

unsigned catalog_cache_wants(const struct catalog_cache *b, int32_t tenant)
{
    unsigned wants = atomic_load(&b->pages->wants);
    if (!wants || !tenant)
        return wants;
    pthread_rwlock_rdlock(&b->pages->lock);
    const struct catalog_cache_wanted *w = map_get(&b->pages->wanted, catalog_cache_number_key(&tenant));
    wants = 0;
    for (int k = 0; w && k < HIT_KINDS; k++)
        wants |= w->counts[k] ? 1U << k : 0;
    pthread_rwlock_unlock(&b->pages->lock);
    return wants;
}

bool catalog_cache_has_setting(const struct catalog_cache *b, int32_t tenant, struct str id_or_name)
{
    pthread_rwlock_rdlock(&b->pages->lock);
    bool found = catalog_cache_find(b->pages, tenant, CATALOG_NOTIFICATION, id_or_name) != NULL;
    map_each (&b->pages->items, slot) {
        const struct catalog_cache_item *item = slot->value;
        found =
            found || (item->kind == CATALOG_NOTIFICATION && item->tenant == tenant && str_eq(item->label, id_or_name));
    }
    pthread_rwlock_unlock(&b->pages->lock);
    return found;
}

/* ---- signing keys ---- */

static const struct catalog_cache_item *catalog_cache_find_signer(const struct pages *p, int32_t tenant,
                                                                  struct str host)
{
    struct catalog_cache_signers *s = map_get(&p->signers, catalog_cache_number_key(&tenant));
    const struct catalog_cache_item *best = NULL;
    size_t best_fit = 0;
    if (!s)
        return NULL;
    list_each (&s->items, link) {
        const struct catalog_cache_item *item = container_of(link, struct catalog_cache_item, link);
        size_t fit = signing_host_fit(item->signing.host, host);
        if (fit > best_fit) {
            best_fit = fit;
            best = item;
        }
    }
    return best;
}

static enum err catalog_cache_copy_signer(const struct catalog_cache_item *item, struct arena *a,
                                          struct signing_key *ret, struct error *e)
{
    if (!item)
        return error_set(e, ERR_NOT_FOUND, "there is no such signing key");
    return signing_key_copy(&item->signing, a, ret) ? ERR_OK : error_no_room(e);
}

bool catalog_cache_has_signing_keys(const struct catalog_cache *b)
{
    return atomic_load(&b->pages->signer_count) > 0;
}

enum err catalog_cache_signing_key(const struct catalog_cache *b, int32_t tenant, struct str host, struct arena *a,
                                   struct signing_key *ret, struct error *e)
{
    pthread_rwlock_rdlock(&b->pages->lock);
    enum err rc = catalog_cache_copy_signer(catalog_cache_find_signer(b->pages, tenant, host), a, ret, e);
    pthread_rwlock_unlock(&b->pages->lock);
    return rc;
}

enum err catalog_cache_signing_key_of(const struct catalog_cache *b, int32_t tenant, struct uuid id, struct arena *a,
                                      struct signing_key *ret, struct error *e)
{
    char name[UUID_TEXT + 1];
    uuid_format(id, name);
    pthread_rwlock_rdlock(&b->pages->lock);
    enum err rc = catalog_cache_copy_signer(
        catalog_cache_find(b->pages, tenant, CATALOG_SIGNING_KEY, (struct str){ name, UUID_TEXT }), a, ret, e);
    pthread_rwlock_unlock(&b->pages->lock);
    return rc;
}

/* ---- queues and tenants ---- */

/* A copy in the arena; an empty text if there is no arena or it is full. */
static struct str catalog_cache_copy_text(struct str text, struct arena *a)
{
    struct str copy = { 0 };
    return a && arena_str(a, text, &copy) ? copy : (struct str){ 0 };
}

struct queue_rules catalog_cache_queue(const struct catalog_cache *b, int32_t tenant, struct str queue, struct arena *a)
{
    struct queue_rules rules = QUEUE_RULES_DEFAULT;
    pthread_rwlock_rdlock(&b->pages->lock);
    const struct catalog_cache_item *item = catalog_cache_find(b->pages, tenant, CATALOG_QUEUE, queue);
    if (item) {
        rules = item->queue;
        rules.paused_by = catalog_cache_copy_text(rules.paused_by, a);
        rules.paused_reason = catalog_cache_copy_text(rules.paused_reason, a);
    }
    pthread_rwlock_unlock(&b->pages->lock);
    return rules;
}

static bool catalog_cache_copy_tenant(const struct catalog_cache_item *item, bool is_default, struct arena *a,
                                      struct tenant_rules *ret)
{
    if (!item && !is_default)
        return false;
    struct tenant_rules rules = item ? item->rules : (struct tenant_rules){ DEFAULT_NUMBER, S("default") };
    rules.name = catalog_cache_copy_text(rules.name, a);
    *ret = rules;
    return true;
}

bool catalog_cache_tenant(const struct catalog_cache *b, int32_t number, struct arena *a, struct tenant_rules *ret)
{
    pthread_rwlock_rdlock(&b->pages->lock);
    const struct catalog_cache_item *item = map_get(&b->pages->numbers, catalog_cache_number_key(&number));
    bool known = catalog_cache_copy_tenant(item, number == DEFAULT_NUMBER, a, ret);
    pthread_rwlock_unlock(&b->pages->lock);
    return known;
}

bool catalog_cache_tenant_named(const struct catalog_cache *b, struct str name, struct arena *a,
                                struct tenant_rules *ret)
{
    pthread_rwlock_rdlock(&b->pages->lock);
    bool known = catalog_cache_copy_tenant(catalog_cache_find(b->pages, 0, CATALOG_TENANT, name),
                                           str_eq(name, S("default")), a, ret);
    pthread_rwlock_unlock(&b->pages->lock);
    return known;
}

size_t catalog_cache_tenant_count(const struct catalog_cache *b)
{
    int32_t number = DEFAULT_NUMBER;
    pthread_rwlock_rdlock(&b->pages->lock);
    size_t count = b->pages->numbers.n + !map_get(&b->pages->numbers, catalog_cache_number_key(&number));
    pthread_rwlock_unlock(&b->pages->lock);
    return count;
}

/* ---- calendars ---- */

static int catalog_cache_compare_names(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* "there are 'a', 'b' and 3 more", of this tenant alone. */
static void catalog_cache_write_calendar_names(const struct pages *p, int32_t tenant, struct buf *out)
{
    struct str *names = xcalloc(p->items.n + 1, sizeof *names);
    size_t n = 0;
    map_each (&p->items, slot) {
        const struct catalog_cache_item *item = slot->value;
        if (item->kind == CATALOG_CALENDAR && item->tenant == tenant)
            names[n++] = item->name;
    }
    if (n)
        qsort(names, n, sizeof *names, catalog_cache_compare_names);
    buf_text(out, n ? "; there are " : "; there is none yet");
    for (size_t i = 0; i < min_of(n, (size_t)NAMES_TOLD); i++)
        buf_printf(out, "%s'" STR_FMT "'", i ? ", " : "", STR_ARG(names[i]));
    if (n > NAMES_TOLD)
        buf_printf(out, " and %zu more", n - NAMES_TOLD);
    free(names);
}

static enum err catalog_cache_no_calendar(const struct pages *p, int32_t tenant, struct str name, struct error *e)
{
    char quoted[QUOTE_TEXT];
    cleanup_with(buf_release) struct buf others;
    buf_init(&others, 4096);
    quote_text(name, quoted);
    catalog_cache_write_calendar_names(p, tenant, &others);
    error_field(e, "calendar", "%s is not a calendar%s", quoted, buf_cstr(&others));
    if (e)
        e->code = ERR_NOT_FOUND;
    return ERR_NOT_FOUND;
}

enum err catalog_cache_calendar(struct catalog_cache *b, int32_t tenant, struct str name, const struct calendar **ret,
                                struct error *e)
{
    enum err rc = ERR_OK;
    pthread_rwlock_rdlock(&b->pages->lock);
    struct catalog_cache_item *item = catalog_cache_find(b->pages, tenant, CATALOG_CALENDAR, name);
    if (item) {
        atomic_fetch_add(&item->users, 1);
        *ret = &item->calendar;
    } else {
        rc = catalog_cache_no_calendar(b->pages, tenant, name, e);
    }
    pthread_rwlock_unlock(&b->pages->lock);
    return rc;
}

/* A calendar is handed out as const, but its reference count is the cache's. */
void catalog_cache_calendar_unref(const struct calendar *c)
{
    union {
        const struct calendar *theirs;
        struct calendar *ours;
    } calendar = { c };
    if (c)
        catalog_cache_item_unref(container_of(calendar.ours, struct catalog_cache_item, calendar));
}

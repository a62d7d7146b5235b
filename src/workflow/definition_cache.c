/* One lock for all. A definition is compiled outside of it: two threads may do so at once, and the second one's work is
 * dropped. An entry has one reference for the cache and one for each user. */
#include "workflow/definition_cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/map.h"
#include "workflow/definition_secrets.h"

enum {
    CACHE_KEY = sizeof(int32_t) + DEFINITION_HASH,
    ENTRY_BYTES = 512,
    COMPILE_ARENA = DEFINITION_STORED_MAX + 3 * DAG_TEXT_MAX, /* the stored text, its secrets, the text */
};

struct cache_entry {
    struct cached_definition base; /* first */
    struct definition_cache *cache;
    struct dag *dag;
    char key[CACHE_KEY];
    size_t bytes;
    int users;
    struct list link; /* in the cache; not linked: dropped */
};

struct definition_cache {
    pthread_mutex_t lock;
    struct map entries;
    struct list by_use; /* the one used last is at the end */
    size_t bytes, bytes_max;
    const struct secrets *secrets; /* NULL: none */
};

struct definition_cache *definition_cache_new(size_t bytes_max, const struct secrets *secrets)
{
    struct definition_cache *c = xnew(*c);
    pthread_mutex_init(&c->lock, NULL);
    map_init(&c->entries, HASH_STABLE); /* the keys are hashes already */
    list_init(&c->by_use);
    c->bytes_max = bytes_max;
    c->secrets = secrets;
    return c;
}

static void cache_entry_unref(struct cache_entry *x)
{
    if (--x->users)
        return;
    dag_free(x->dag);
    free(x);
}

static void cache_drop(struct definition_cache *c, struct cache_entry *x)
{
    list_remove(&x->link);
    map_remove(&c->entries, (struct str){ x->key, CACHE_KEY });
    c->bytes -= x->bytes;
    cache_entry_unref(x);
}

void definition_cache_free(struct definition_cache *c)
{
    if (!c)
        return;
    list_each (&c->by_use, link) {
        struct cache_entry *x = container_of(link, struct cache_entry, link);
        assert(x->users == 1);
        cache_drop(c, x);
    }
    map_release(&c->entries);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* Under the lock. */
static struct cache_entry *cache_find(struct definition_cache *c, const char key[CACHE_KEY])
{
    struct cache_entry *x = map_get(&c->entries, (struct str){ key, CACHE_KEY });
    if (!x)
        return NULL;
    x->users++;
    list_remove(&x->link);
    list_push(&c->by_use, &x->link);
    return x;
}

/* Under the lock. One that is larger than the whole cache is only lent. */
static void cache_add(struct definition_cache *c, struct cache_entry *x)
{
    if (x->bytes > c->bytes_max)
        return;
    while (c->bytes + x->bytes > c->bytes_max)
        cache_drop(c, container_of(c->by_use.next, struct cache_entry, link));
    x->users++;
    c->bytes += x->bytes;
    list_push(&c->by_use, &x->link);
    map_put(&c->entries, (struct str){ x->key, CACHE_KEY }, x);
}

static enum err cache_compile(struct definition_cache *c, struct reader *r, int32_t tenant,
                              const uint8_t hash[DEFINITION_HASH], struct cache_entry **ret, struct error *e)
{
    struct str text;
    struct dag *d = NULL;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, COMPILE_ARENA);
    enum err rc = reader_definition(r, tenant, hash, &a, &text, e);
    if (!rc)
        rc = definition_secrets_open(c->secrets, tenant, text, &a, &text, e);
    if (rc)
        return rc;
    if (dag_read(text, &d, e))
        return error_set(e, ERR_CORRUPT, "a stored definition cannot be read");
    struct cache_entry *x = xnew(*x);
    *x = (struct cache_entry){ .base = { d }, .cache = c, .dag = d, .bytes = dag_bytes(d) + ENTRY_BYTES, .users = 1 };
    list_init(&x->link);
    *ret = x;
    return ERR_OK;
}

enum err definition_cache_get(struct definition_cache *c, struct reader *r, int32_t tenant,
                              const uint8_t hash[DEFINITION_HASH], struct cached_definition **ret, struct error *e)
{
    char key[CACHE_KEY];
    struct error own; /* so that e may be NULL */
    memcpy(key, &tenant, sizeof tenant);
    memcpy(key + sizeof tenant, hash, DEFINITION_HASH);
    pthread_mutex_lock(&c->lock);
    struct cache_entry *x = cache_find(c, key), *made = NULL;
    pthread_mutex_unlock(&c->lock);
    if (!x) {
        enum err rc = cache_compile(c, r, tenant, hash, &made, e ? e : &own);
        if (rc)
            return rc;
        memcpy(made->key, key, sizeof key);
        pthread_mutex_lock(&c->lock);
        x = cache_find(c, key);
        if (x) {
            cache_entry_unref(made);
        } else {
            cache_add(c, made);
            x = made;
        }
        pthread_mutex_unlock(&c->lock);
    }
    *ret = &x->base;
    return ERR_OK;
}

void definition_release(struct cached_definition *d)
{
    if (!d)
        return;
    struct cache_entry *x = container_of(d, struct cache_entry, base);
    struct definition_cache *c = x->cache;
    pthread_mutex_lock(&c->lock);
    cache_entry_unref(x);
    pthread_mutex_unlock(&c->lock);
}

void definition_releasep(struct cached_definition **d)
{
    definition_release(*d);
}

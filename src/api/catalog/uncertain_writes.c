#include "api/catalog/uncertain_writes.h"

#include <stdlib.h>

enum { ENTRY_ARENA = 16 << 20, READS_MAX = 8 };

struct uncertain_write {
    struct uncertain_write *next;
    int32_t tenant;
    enum catalog_kind kind;
    size_t name_size;
    char name[CATALOG_NAME_MAX];
};

void uncertain_writes_init(struct uncertain_writes *m)
{
    *m = (struct uncertain_writes){ 0 };
    pthread_mutex_init(&m->lock, NULL);
}

static struct uncertain_write *uncertain_writes_pop(struct uncertain_writes *m)
{
    pthread_mutex_lock(&m->lock);
    struct uncertain_write *one = m->first;
    if (one) {
        m->first = one->next;
        atomic_fetch_sub(&m->count, 1);
    }
    pthread_mutex_unlock(&m->lock);
    return one;
}

static void uncertain_writes_push(struct uncertain_writes *m, struct uncertain_write *one)
{
    pthread_mutex_lock(&m->lock);
    one->next = m->first;
    m->first = one;
    atomic_fetch_add(&m->count, 1);
    pthread_mutex_unlock(&m->lock);
}

void uncertain_writes_release(struct uncertain_writes *m)
{
    for (struct uncertain_write *one; (one = uncertain_writes_pop(m));)
        free(one);
    pthread_mutex_destroy(&m->lock);
}

void uncertain_writes_add(struct uncertain_writes *m, int32_t tenant, enum catalog_kind kind, struct str name)
{
    struct uncertain_write *one = xnew(*one);
    one->tenant = tenant;
    one->kind = kind;
    one->name_size = min_of(name.n, sizeof one->name);
    memcpy(one->name, name.p, one->name_size);
    uncertain_writes_push(m, one);
}

/* Reads the entry and updates the cache. Version 0: there is no entry. */
static enum err uncertain_write_read(const struct uncertain_write *one, struct reader *r, struct catalog_cache *catalog,
                                     int64_t *ret_version)
{
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, ENTRY_ARENA);
    struct str name = { one->name, one->name_size };
    struct catalog_entry entry;
    struct error e = { 0 };
    enum err rc = reader_catalog_get(r, one->tenant, one->kind, name, &arena, &entry, &e);
    *ret_version = rc == ERR_OK ? entry.version : 0;
    if (rc == ERR_NOT_FOUND)
        catalog_cache_remove(catalog, one->tenant, one->kind, name);
    else if (rc == ERR_OK)
        (void)!catalog_cache_put(catalog, &entry, &e); /* an entry that cannot be parsed leaves the cache as it was */
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* Another change may come between the read and the update of the cache. So it reads again until the version stays the
 * same. */
static enum err uncertain_write_resolve(const struct uncertain_write *one, struct reader *r,
                                        struct catalog_cache *catalog)
{
    int64_t before = -1, version = -2;
    enum err rc = uncertain_write_read(one, r, catalog, &version);
    for (int i = 0; rc == ERR_OK && version != before && i < READS_MAX; i++) {
        before = version;
        rc = uncertain_write_read(one, r, catalog, &version);
    }
    return rc;
}

bool uncertain_writes_resolve(struct uncertain_writes *m, struct reader *r, struct catalog_cache *catalog)
{
    bool done = false;
    while (catalog && atomic_load(&m->count)) {
        struct uncertain_write *one = uncertain_writes_pop(m);
        if (!one)
            break;
        if (uncertain_write_resolve(one, r, catalog)) {
            uncertain_writes_push(m, one);
            break;
        }
        free(one);
        done = true;
    }
    return done;
}

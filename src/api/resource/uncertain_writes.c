#include "api/resource/uncertain_writes.h"

#include <stdlib.h>

enum { ENTRY_ARENA = 16 << 20, LOOKS_MAX = 8 };

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

static struct uncertain_write *pop(struct uncertain_writes *m)
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

static void push(struct uncertain_writes *m, struct uncertain_write *one)
{
    pthread_mutex_lock(&m->lock);
    one->next = m->first;
    m->first = one;
    atomic_fetch_add(&m->count, 1);
    pthread_mutex_unlock(&m->lock);
}

void uncertain_writes_release(struct uncertain_writes *m)
{
    for (struct uncertain_write *one; (one = pop(m));)
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
    push(m, one);
}

/* What the store says; version 0: there is none. */
static enum err look(const struct uncertain_write *one, struct reader *r, struct catalog_cache *catalog,
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
        (void)!catalog_cache_put(catalog, &entry, &e); /* what can not be read stays as it was */
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* Somebody may change it between our look and our word to the book: then the next look sees another version. */
static enum err uncertain_write(const struct uncertain_write *one, struct reader *r, struct catalog_cache *catalog)
{
    int64_t before = -1, version = -2;
    enum err rc = look(one, r, catalog, &version);
    for (int i = 0; rc == ERR_OK && version != before && i < LOOKS_MAX; i++) {
        before = version;
        rc = look(one, r, catalog, &version);
    }
    return rc;
}

bool uncertain_writes_do(struct uncertain_writes *m, struct reader *r, struct catalog_cache *catalog)
{
    bool done = false;
    while (catalog && atomic_load(&m->count)) {
        struct uncertain_write *one = pop(m);
        if (!one)
            break;
        if (uncertain_write(one, r, catalog)) {
            push(m, one);
            break;
        }
        free(one);
        done = true;
    }
    return done;
}

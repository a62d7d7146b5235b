#include "api/resource/uncertain_writes.h"

#include <stdlib.h>

enum { ENTRY_ARENA = 16 << 20, LOOKS_MAX = 8 };

struct mend {
    struct mend *next;
    int32_t tenant;
    enum catalog_kind kind;
    size_t name_size;
    char name[CATALOG_NAME_MAX];
};

void mends_init(struct mends *m)
{
    *m = (struct mends){ 0 };
    pthread_mutex_init(&m->lock, NULL);
}

static struct mend *pop(struct mends *m)
{
    pthread_mutex_lock(&m->lock);
    struct mend *one = m->first;
    if (one) {
        m->first = one->next;
        atomic_fetch_sub(&m->count, 1);
    }
    pthread_mutex_unlock(&m->lock);
    return one;
}

static void push(struct mends *m, struct mend *one)
{
    pthread_mutex_lock(&m->lock);
    one->next = m->first;
    m->first = one;
    atomic_fetch_add(&m->count, 1);
    pthread_mutex_unlock(&m->lock);
}

void mends_release(struct mends *m)
{
    for (struct mend *one; (one = pop(m));)
        free(one);
    pthread_mutex_destroy(&m->lock);
}

void mends_add(struct mends *m, int32_t tenant, enum catalog_kind kind, struct str name)
{
    struct mend *one = xnew(*one);
    one->tenant = tenant;
    one->kind = kind;
    one->name_size = min_of(name.n, sizeof one->name);
    memcpy(one->name, name.p, one->name_size);
    push(m, one);
}

/* What the store says; version 0: there is none. */
static enum err look(const struct mend *one, struct reader *r, struct book *book, int64_t *ret_version)
{
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, ENTRY_ARENA);
    struct str name = { one->name, one->name_size };
    struct catalog_entry entry;
    struct error e = { 0 };
    enum err rc = reader_catalog_get(r, one->tenant, one->kind, name, &arena, &entry, &e);
    *ret_version = rc == ERR_OK ? entry.version : 0;
    if (rc == ERR_NOT_FOUND)
        book_remove(book, one->tenant, one->kind, name);
    else if (rc == ERR_OK)
        (void)!book_put(book, &entry, &e); /* what can not be read stays as it was */
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* Somebody may change it between our look and our word to the book: then the next look sees another version. */
static enum err mend(const struct mend *one, struct reader *r, struct book *book)
{
    int64_t before = -1, version = -2;
    enum err rc = look(one, r, book, &version);
    for (int i = 0; rc == ERR_OK && version != before && i < LOOKS_MAX; i++) {
        before = version;
        rc = look(one, r, book, &version);
    }
    return rc;
}

bool mends_do(struct mends *m, struct reader *r, struct book *book)
{
    bool done = false;
    while (book && atomic_load(&m->count)) {
        struct mend *one = pop(m);
        if (!one)
            break;
        if (mend(one, r, book)) {
            push(m, one);
            break;
        }
        free(one);
        done = true;
    }
    return done;
}

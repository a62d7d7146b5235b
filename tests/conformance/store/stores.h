#pragma once
/* tests/conformance/store/stores.h - every adapter of port/store.h: a row is all that a new one takes, here and in
 * meson.build. */
#include "check.h"
#include "model/store_memory.h"
#include "port/store.h"
#include "scratch.h"
#include "store/sqlite/store_sqlite.h"
#ifdef HAVE_POSTGRES
#include "postgres_fixture.h"
#endif

struct store_adapter {
    const char *name;
    enum err (*open)(const char *directory, struct store **ret, struct error *e); /* the folder exists and is empty */
};

static inline enum err open_store_memory(const char *directory, struct store **ret, struct error *e)
{
    (void)directory;
    (void)e;
    *ret = store_memory_new();
    return ERR_OK;
}

/* The database file as migrations make it: made once a process, then written into each folder. */
static inline enum err open_store_sqlite(const char *directory, struct store **ret, struct error *e)
{
    static char *made;
    static size_t size;
    char path[SCRATCH_PATH + 16];
    snprintf(path, sizeof path, "%s/belfry.db", directory);
    if (!made) {
        enum err rc = store_sqlite_open(directory, 0, ret, e);
        if (rc)
            return rc;
        store_free(*ret);
        made = scratch_read_file(path, &size);
    } else if (!scratch_write_file(path, made, size)) {
        return error_set(e, ERR_UNAVAILABLE, "cannot write %s", path);
    }
    return store_sqlite_open(directory, 0, ret, e);
}

#ifdef HAVE_POSTGRES
/* One database a process, emptied each time: no test has two stores at once. */
static inline enum err open_store_postgres(const char *directory, struct store **ret, struct error *e)
{
    static char url[POSTGRES_URL];
    (void)directory;
    if (url[0])
        postgres_wipe(url);
    else
        postgres_make("conformance", url);
    return postgres_store_open(url, ret, e);
}
#endif

static const struct store_adapter store_adapters[] = {
    { "memory", open_store_memory },
    { "sqlite", open_store_sqlite },
#ifdef HAVE_POSTGRES
    { "postgres", open_store_postgres },
#endif
};

/* The adapter that the command line names; the model when it names none. */
static inline const struct store_adapter *store_adapter_of(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "memory";
    for (size_t i = 0; i < array_count(store_adapters); i++)
        if (strcmp(store_adapters[i].name, name) == 0)
            return &store_adapters[i];
    return NULL;
}

#pragma once
/* store/postgres/store_postgres.h - the store that many nodes share: PostgreSQL 14 or later.
 *
 * A URL as libpq reads it (postgres://user:password@host:5432,host2:5432/database?sslmode=verify-full); of several hosts the writable
 * one is used, also after a failover. Ours on top of libpq's: `prepare=off`, for poolers that cannot carry prepared statements.
 * The store reconnects by itself, with backoff: while the server is away every call answers ERR_UNAVAILABLE, and nothing that was
 * acknowledged is lost. Serialization failures and deadlocks are tried again inside. */
#include "port/clock.h"
#include "port/store.h"
#include "store/common/migrations.h"

struct store_postgres_setup {
    const char *url;
    const char *read_url;   /* NULL: the same; of a replica: for lists and history, never for what must be current */
    const char *listen_url; /* NULL: the same; where url is a pooler, which cannot carry LISTEN, the server behind it */
    struct clock *clock;    /* for backoff, time limits and months */
    int64_t retry_ms;       /* the longest pause before it tries to connect again; 0: 2 s */
    bool migrate;           /* bring an older schema up to date; else ERR_UNAVAILABLE says how */
    struct store *
        sibling_of; /* NULL, or another of this process on the same database, which outlives it: a second way to write there. That one
                           * tells and hears news for both, and is the one to watch */
    const char *archive_dir; /* NULL: months that are over are not kept; else each becomes a file there first */
};

/* Wrong password, unreachable host, read-only database, a schema newer than this binary: one sentence each, which says what to do and
 * never shows the password. */
enum err store_postgres_open(const struct store_postgres_setup *setup, struct store **ret, struct error *e) must_use;

/* For a node that starts: the pepper that API keys are hashed with, n bytes. The one given becomes it if there is none yet; of two nodes
 * that come at once, one's. ERR_UNAVAILABLE, too, if a copy to the database is not done. */
enum err store_postgres_join(const char *url, struct clock *clock, void *pepper, size_t n, struct error *e) must_use;

static inline bool is_postgres_url(struct str url)
{
    return str_starts(url, S("postgres://")) || str_starts(url, S("postgresql://"));
}

/* ---- migrations, for `belfry migrate` ---- */

enum { STORE_POSTGRES_NEWEST = -1 };
/* All that are known or applied, by version; of an empty database none is applied. */
enum err store_postgres_migrations(const char *url, struct clock *clock, struct arena *a, struct store_migration **ret,
                                   size_t *ret_count, struct error *e) must_use;
/* Up or down to a version (0: an empty database). Two at once do each step once. Going down loses what only the newer schema could hold;
 * nodes must not be running then, nor on the way up over a step that they cannot work with. */
enum err store_postgres_migrate(const char *url, struct clock *clock, int to_version, struct error *e) must_use;

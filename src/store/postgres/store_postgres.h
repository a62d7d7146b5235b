#pragma once
/* store/postgres/store_postgres.h - the store that many nodes share: PostgreSQL 14 or later.
 *
 * The URL is libpq's: postgres://user:password@host:5432,host2:5432/database?sslmode=verify-full. If it names several
 * hosts, the store uses the writable one, also after a failover. Belfry adds one setting: `prepare=off`, for poolers
 * that do not support prepared statements. If a host is not this machine and neither the URL nor PGSSLMODE gives an
 * sslmode, it is verify-full, with the system's CAs.
 *
 * The store reconnects by itself, with backoff. While the server is unavailable, every call returns ERR_UNAVAILABLE;
 * nothing that was acknowledged is lost. The store itself retries after serialization failures and deadlocks. */
#include "port/clock.h"
#include "port/store.h"
#include "store/common/migrations.h"

struct store_postgres_setup {
    const char *url;
    /* NULL: `url`. Otherwise the URL of a replica, for lists and history only: what must be current is read from
     * `url`. */
    const char *read_url;
    /* NULL: `url`. If `url` is a pooler, which does not support LISTEN, the URL of the server behind it. */
    const char *listen_url;
    struct clock *clock; /* for backoff, time limits and monthly partitions */
    int64_t retry_ms;    /* longest pause between two connects; 0: 2 s */
    /* Migrate an older schema. Otherwise the store does not open: ERR_UNAVAILABLE, with the command to run. */
    bool migrate;
    /* NULL, or another store of this process on the same database: this one is a further connection for writes. The
     * other must outlive it. It sends and receives the notices for both: watch that one. */
    struct store *sibling_of;
    /* NULL: old monthly partitions of executions are dropped. Otherwise each is first written to a file in this
     * folder. */
    const char *archive_dir;
};

/* Opens the store. Wrong password, unreachable host, read-only database and a schema newer than this binary each have
 * an error sentence with the remedy. No sentence contains the password. */
enum err store_postgres_open(const struct store_postgres_setup *setup, struct store **ret, struct error *e) must_use;

/* For a node that starts: returns the pepper that API keys are hashed with, n bytes. If the database has none, the
 * given one is stored; if two nodes start at once, both get the one that was stored first. ERR_UNAVAILABLE if a copy to
 * this database was begun and not completed. */
enum err store_postgres_join(const char *url, struct clock *clock, void *pepper, size_t n, struct error *e) must_use;

/* Change what the database knows of the keys that its secrets are encrypted with (reader_key_prints).
 *
 * From now on nodes encrypt with this key. Nothing changes if another node has changed what is `known` in between: read
 * it again. */
enum err store_postgres_key_use(const char *url, struct clock *clock, const struct key_print *k,
                                const struct key_prints *known, struct error *e) must_use;
/* The database knows this key, too. */
enum err store_postgres_key_note(const char *url, struct clock *clock, const struct key_print *k,
                                 struct error *e) must_use;
enum err store_postgres_key_drop(const char *url, struct clock *clock, const struct key_print *k,
                                 struct error *e) must_use;

/* Whether the operator chose an sslmode that does not check who the server is, for a host that is not this machine. */
bool store_postgres_is_unverified(const char *url);

static inline bool is_postgres_url(struct str url)
{
    return str_starts(url, S("postgres://")) || str_starts(url, S("postgresql://"));
}

/* ---- migrations, for `belfry migrate` ---- */

enum { STORE_POSTGRES_NEWEST = -1 };
/* All migrations that this binary knows or the database has applied, by version. */
enum err store_postgres_migrations(const char *url, struct clock *clock, struct arena *a, struct store_migration **ret,
                                   size_t *ret_count, struct error *e) must_use;
/* Migrates up or down to a version; 0 empties the database. If two processes migrate at once, each step runs once.
 * Going down loses the data that only the newer schema can hold. Nodes must not run while the schema goes down, nor
 * while it goes up over a step that they cannot work with. */
enum err store_postgres_migrate(const char *url, struct clock *clock, int to_version, struct error *e) must_use;

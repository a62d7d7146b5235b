/* Replaces the PostgreSQL store in a binary that was built without libpq: every call fails. */
#include "store/common/copy.h"
#include "store/postgres/store_postgres.h"

static enum err pg_not_built(struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "needs PostgreSQL, which this belfry was built without: build it where libpq is installed");
}

enum err store_postgres_open(const struct store_postgres_setup *setup, struct store **ret, struct error *e)
{
    (void)setup;
    (void)ret;
    return pg_not_built(e);
}

bool store_postgres_is_unverified(const char *url)
{
    (void)url;
    return false;
}

enum err store_postgres_migrations(const char *url, struct clock *clock, struct arena *a, struct store_migration **ret,
                                   size_t *ret_count, struct error *e)
{
    (void)url;
    (void)clock;
    (void)a;
    (void)ret;
    (void)ret_count;
    return pg_not_built(e);
}

enum err store_postgres_migrate(const char *url, struct clock *clock, int to_version, struct error *e)
{
    (void)url;
    (void)clock;
    (void)to_version;
    return pg_not_built(e);
}

enum err store_postgres_join(const char *url, struct clock *clock, void *pepper, size_t n, struct error *e)
{
    (void)url;
    (void)clock;
    (void)pepper;
    (void)n;
    return pg_not_built(e);
}

enum err store_postgres_key_use(const char *url, struct clock *clock, const struct key_print *k,
                                const struct key_prints *known, struct error *e)
{
    (void)url;
    (void)clock;
    (void)k;
    (void)known;
    return pg_not_built(e);
}

enum err store_postgres_key_note(const char *url, struct clock *clock, const struct key_print *k, struct error *e)
{
    (void)url;
    (void)clock;
    (void)k;
    return pg_not_built(e);
}

enum err store_postgres_key_drop(const char *url, struct clock *clock, const struct key_print *k, struct error *e)
{
    (void)url;
    (void)clock;
    (void)k;
    return pg_not_built(e);
}

enum err store_copy(const struct copy_request *r, struct copied ret[COPY_TABLES], struct error *e)
{
    (void)r;
    (void)ret;
    return pg_not_built(e);
}

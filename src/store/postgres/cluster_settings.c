/* Settings that all nodes share: table `cluster`. The first node that writes a name decides its value: a later insert
 * of the same name does nothing, and every node reads the stored value. */
#include <stdio.h>

#include "store/postgres/internal.h"

enum err pg_cluster_value(struct pg_conn *c, struct str name, void *value, size_t n, struct error *e)
{
    static const struct pg_statement put = { "cluster_put", "INSERT INTO cluster (name, value) VALUES ($1, $2) "
                                                            "ON CONFLICT DO NOTHING" },
                                     get = { "cluster_get", "SELECT value FROM cluster WHERE name = $1" };
    struct pg_params p;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_init(&p);
    pg_add_text(&p, name);
    pg_add_bytes(&p, (struct str){ value, n });
    enum err rc = pg_run(c, &put, &p, NULL, e);
    pg_params_reset(&p);
    pg_add_text(&p, name);
    if (!rc)
        rc = pg_run(c, &get, &p, &r, e);
    pg_params_release(&p);
    if (rc)
        return rc;
    struct str is = r.rows ? pg_text(&r, 0, 0) : S("");
    if (is.n != n)
        return error_set(e, ERR_CORRUPT,
                         "'" STR_FMT "' in the table 'cluster' is not what Belfry wrote there: restore it "
                         "from a backup",
                         STR_ARG(name));
    memcpy(value, is.p, n);
    return ERR_OK;
}

static enum err pg_cluster_check_copy(struct pg_conn *c, struct error *e)
{
    static const struct pg_statement copying = { "cluster_copying", "SELECT 1 FROM cluster WHERE name = 'copying'" };
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_run(c, &copying, NULL, &r, e))
        return e->code;
    return r.rows ? error_set(
                        e, ERR_UNAVAILABLE,
                        "a copy to this database is not done: run the same 'belfry copy' again; it continues where it "
                        "stopped")
                  : ERR_OK;
}

enum err store_postgres_join(const char *url, struct clock *clock, void *pepper, size_t n, struct error *e)
{
    struct pg_conn c = { 0 };
    enum err rc = pg_conn_init(&c, url, false, clock, e);
    if (!rc)
        rc = pg_conn_ready(&c, e);
    if (!rc)
        rc = pg_cluster_check_copy(&c, e);
    if (!rc)
        rc = pg_cluster_value(&c, S("pepper"), pepper, n, e);
    pg_conn_release(&c);
    return rc;
}

static enum err pg_cluster_key_print(struct pg_conn *c, const void *print, void *ret, size_t n, bool *ret_found,
                                     struct error *e)
{
    static const struct pg_statement known = { "cluster_key_print", "SELECT 1 FROM cluster WHERE name = 'key_print'" };
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_run(c, &known, NULL, &r, e))
        return e->code;
    *ret_found = r.rows > 0 || print;
    if (!*ret_found)
        return ERR_OK;
    memset(ret, 0, n);
    if (print)
        memcpy(ret, print, n);
    return pg_cluster_value(c, S("key_print"), ret, n, e);
}

enum err store_postgres_key_print(const char *url, struct clock *clock, const void *print, void *ret, size_t n,
                                  bool *ret_found, struct error *e)
{
    struct pg_conn c = { 0 };
    enum err rc = pg_conn_init(&c, url, false, clock, e);
    if (!rc)
        rc = pg_conn_ready(&c, e);
    if (!rc)
        rc = pg_cluster_key_print(&c, print, ret, n, ret_found, e);
    pg_conn_release(&c);
    return rc;
}

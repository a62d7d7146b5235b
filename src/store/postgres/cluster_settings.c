/* Settings that all nodes share: table `cluster`. The first node that writes a name decides its value: a later insert
 * of the same name does nothing, and every node reads the stored value. */
#include <stdio.h>

#include "port/secrets.h"
#include "store/postgres/reader/reader.h"

static enum err pg_cluster_damaged(struct str name, struct error *e)
{
    return error_set(e, ERR_CORRUPT,
                     "'" STR_FMT "' in the table 'cluster' is not what Belfry wrote there: restore it from a backup",
                     STR_ARG(name));
}

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
        return pg_cluster_damaged(name, e);
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

/* ---- keys that encrypt secrets (port/secrets.h): `key:ID` and `key_print`, as in SQLite ---- */

const struct pg_statement pg_cluster_keys = {
    "cluster_keys", "SELECT name, value FROM cluster WHERE name = 'key_print' OR name LIKE 'key:%'"
};

enum err pg_cluster_key_prints(const struct pg_result *r, struct key_prints *ret, struct error *e)
{
    struct key_prints known = { 0 };
    for (int i = 0; i < r->rows; i++)
        if (!key_prints_add(&known, pg_text(r, i, 0), pg_text(r, i, 1)))
            return pg_cluster_damaged(pg_text(r, i, 0), e);
    *ret = known;
    return ERR_OK;
}

/* If another node has made another key the current one since then, nothing is changed. */
static enum err pg_cluster_key_use(struct pg_conn *c, const struct key_print *k, const struct key_prints *known,
                                   struct error *e)
{
    static const struct pg_statement use = {
        "cluster_key_use", "WITH now AS (INSERT INTO cluster (name, value) VALUES ('key_print', $2) "
                           "ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE cluster.value = $3 "
                           "RETURNING 1) "
                           "INSERT INTO cluster (name, value) SELECT 'key:' || $1, $2 FROM now ON CONFLICT DO NOTHING"
    };
    struct pg_params p;
    pg_params_init(&p);
    pg_add_text(&p, str_from(k->id));
    pg_add_bytes(&p, (struct str){ (const char *)k->print, SECRETS_PRINT });
    pg_add_bytes(&p, (struct str){ (const char *)known->current, known->has_current ? SECRETS_PRINT : 0 });
    enum err rc = pg_run(c, &use, &p, NULL, e);
    pg_params_release(&p);
    return rc;
}

static enum err pg_cluster_key_note(struct pg_conn *c, const struct key_print *k, struct error *e)
{
    static const struct pg_statement note = {
        "cluster_key_note", "INSERT INTO cluster (name, value) VALUES ('key:' || $1, $2) ON CONFLICT DO NOTHING"
    };
    struct pg_params p;
    pg_params_init(&p);
    pg_add_text(&p, str_from(k->id));
    pg_add_bytes(&p, (struct str){ (const char *)k->print, SECRETS_PRINT });
    enum err rc = pg_run(c, &note, &p, NULL, e);
    pg_params_release(&p);
    return rc;
}

static enum err pg_cluster_key_drop(struct pg_conn *c, const struct key_print *k, struct error *e)
{
    static const struct pg_statement drop = { "cluster_key_drop", "DELETE FROM cluster WHERE name = 'key:' || $1" };
    struct pg_params p;
    pg_params_init(&p);
    pg_add_text(&p, str_from(k->id));
    enum err rc = pg_run(c, &drop, &p, NULL, e);
    pg_params_release(&p);
    return rc;
}

static enum err pg_cluster_connect(const char *url, struct clock *clock, struct pg_conn *ret, struct error *e)
{
    enum err rc = pg_conn_init(ret, url, false, clock, e);
    return rc ? rc : pg_conn_ready(ret, e);
}

enum err store_postgres_key_use(const char *url, struct clock *clock, const struct key_print *k,
                                const struct key_prints *known, struct error *e)
{
    struct pg_conn c = { 0 };
    enum err rc = pg_cluster_connect(url, clock, &c, e);
    if (!rc)
        rc = pg_cluster_key_use(&c, k, known, e);
    pg_conn_release(&c);
    return rc;
}

enum err store_postgres_key_note(const char *url, struct clock *clock, const struct key_print *k, struct error *e)
{
    struct pg_conn c = { 0 };
    enum err rc = pg_cluster_connect(url, clock, &c, e);
    if (!rc)
        rc = pg_cluster_key_note(&c, k, e);
    pg_conn_release(&c);
    return rc;
}

enum err store_postgres_key_drop(const char *url, struct clock *clock, const struct key_print *k, struct error *e)
{
    struct pg_conn c = { 0 };
    enum err rc = pg_cluster_connect(url, clock, &c, e);
    if (!rc)
        rc = pg_cluster_key_drop(&c, k, e);
    pg_conn_release(&c);
    return rc;
}

enum err reader_postgres_key_prints(struct reader *base, struct key_prints *ret, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    e = pg_reader_error(base, e);
    (void)pg_reader_params(r);
    return pg_reader_run(r, false, &pg_cluster_keys, &got, e) ? e->code : pg_cluster_key_prints(&got, ret, e);
}

/* What belongs to the store as a whole: table `cluster`.
 *
 * Of the keys that secrets are encrypted with (port/secrets.h), `key:ID` has the fingerprint, and `key_print` that of
 * the key which encrypts now. */
#include "port/secrets.h"
#include "store/sqlite/reader/reader.h"

static const char all_sql[] = "SELECT name, value FROM cluster WHERE name = 'key_print' OR name GLOB 'key:*'";
static const char use_sql[] = "REPLACE INTO cluster (name, value) VALUES ('key:' || ?1, ?2), ('key_print', ?2)";
static const char drop_sql[] = "DELETE FROM cluster WHERE name = 'key:' || ?";

static enum err key_prints_prepare(struct conn *c, const char *sql, sqlite3_stmt **ret, struct error *e)
{
    return sqlite3_prepare_v2(c->db, sql, -1, ret, NULL) == SQLITE_OK ? ERR_OK : conn_fail(c, e);
}

static enum err key_prints_add_row(struct conn *c, sqlite3_stmt *st, struct key_prints *known, struct error *e)
{
    struct str name = { (const char *)sqlite3_column_text(st, 0), (size_t)sqlite3_column_bytes(st, 0) };
    struct str value = { sqlite3_column_blob(st, 1), (size_t)sqlite3_column_bytes(st, 1) };
    return key_prints_add(known, name, value) ? ERR_OK : conn_corrupt(c, "a fingerprint of a key", e);
}

enum err sqlite_key_prints(struct conn *c, struct key_prints *ret, struct error *e)
{
    struct key_prints known = { 0 };
    sqlite3_stmt *st;
    bool row = false;
    if (key_prints_prepare(c, all_sql, &st, e))
        return e->code;
    enum err rc = conn_step(c, st, &row, e);
    while (!rc && row) {
        rc = key_prints_add_row(c, st, &known, e);
        if (!rc)
            rc = conn_step(c, st, &row, e);
    }
    sqlite3_finalize(st);
    if (!rc)
        *ret = known;
    return rc;
}

enum err reader_sqlite_key_prints(struct reader *base, struct key_prints *ret, struct error *e)
{
    return sqlite_key_prints(&reader_sqlite_of(base)->conn, ret, e);
}

static enum err key_prints_run(struct conn *c, const char *sql, const char *id, const uint8_t *print, struct error *e)
{
    sqlite3_stmt *st;
    if (key_prints_prepare(c, sql, &st, e))
        return e->code;
    sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
    if (print)
        sqlite3_bind_blob(st, 2, print, SECRETS_PRINT, SQLITE_STATIC);
    enum err rc = conn_run(c, st, e);
    sqlite3_finalize(st);
    return rc;
}

static enum err key_prints_write(struct store *base, const char *sql, const char *id, const uint8_t *print,
                                 struct error *e)
{
    struct store_sqlite *s = container_of(base, struct store_sqlite, base);
    pthread_mutex_lock(&s->writing);
    enum err rc = key_prints_run(&s->conn, sql, id, print, e);
    pthread_mutex_unlock(&s->writing);
    return rc;
}

enum err store_sqlite_key_use(struct store *s, const struct key_print *k, struct error *e)
{
    return key_prints_write(s, use_sql, k->id, k->print, e);
}

enum err store_sqlite_key_drop(struct store *s, const struct key_print *k, struct error *e)
{
    return key_prints_write(s, drop_sql, k->id, NULL, e);
}

/* OP_KEY_PUT, and the reads of API keys. */
#include "store/sqlite/reader/reader.h"

static enum err sqlite_key_purge(struct store_sqlite *s, const struct api_key *key, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_KEY_PURGE);
    if (!key->parent.n)
        return ERR_OK;
    sqlite3_bind_int64(st, 1, key->created_ms - KEY_ENDED_KEPT_MS);
    sqlite3_bind_int(st, 2, KEY_ENDED_MAX);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_key_put(struct store_sqlite *s, struct op *base)
{
    const struct op_key_put *op = (const struct op_key_put *)base;
    sqlite3_stmt *st = writer_stmt(s, op->remove ? ST_KEY_REMOVE : ST_KEY_PUT);
    int64_t record = 0;
    if (sqlite_idempotency_put(s, op->idempotency, &record, &base->error))
        return base->error.code;
    if (!op->remove) {
        row_bind(&s->conn, st, 2, &table_api_keys, op->key);
        enum err rc = conn_run(&s->conn, st, &base->error);
        return rc ? rc : sqlite_key_purge(s, op->key, &base->error);
    }
    (void)bind_str(st, 1, op->key->id);
    sqlite3_bind_int(st, 2, op->key->tenant);
    sqlite3_bind_int64(st, 3, op->now_ms);
    if (conn_run(&s->conn, st, &base->error))
        return base->error.code;
    return sqlite3_changes(s->conn.db) > 0 ? ERR_OK : error_set(&base->error, ERR_NOT_FOUND, "there is no such key");
}

/* ---- reading ---- */

enum err reader_sqlite_key(struct reader *base, struct str id, struct arena *a, struct api_key *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_KEY);
    struct api_key k = { 0 };
    bool found;
    (void)bind_str(st, 1, id);
    if (reader_sqlite_read_one(r, st, &table_api_keys, a, &k, &found, e))
        return e->code;
    if (!found)
        return reader_not_found("key", e);
    *ret = k;
    return ERR_OK;
}

static enum err reader_sqlite_read_keys(struct reader_sqlite *r, sqlite3_stmt *st, struct arena *a,
                                        struct key_list *list, struct error *e)
{
    for (bool row; list->n < LIST_MAX; list->n++) {
        if (conn_step(&r->conn, st, &row, e))
            return e->code;
        if (!row)
            break;
        if (row_read(&r->conn, st, 1, &table_api_keys, a, &list->v[list->n], e))
            return e->code;
    }
    return ERR_OK;
}

enum err reader_sqlite_keys(struct reader *base, int32_t tenant, struct arena *a, struct key_list *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_KEYS);
    struct key_list list = { .v = arena_array(a, struct api_key, LIST_MAX) };
    if (!list.v)
        return reader_no_room(e);
    sqlite3_bind_int(st, 1, tenant);
    sqlite3_bind_int(st, 2, LIST_MAX);
    enum err rc = reader_sqlite_read_keys(r, st, a, &list, e);
    sqlite3_reset(st);
    if (!rc)
        *ret = list;
    return rc;
}

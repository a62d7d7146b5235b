/* Records of idempotency keys. */
#include "store/sqlite/reader/reader.h"

enum err sqlite_idempotency_put(struct store_sqlite *s, const struct idempotency *i, int64_t *ret_rowid,
                                struct error *e)
{
    if (!i)
        return ERR_OK;
    sqlite3_stmt *st = writer_stmt(s, ST_IDEMPOTENCY_INSERT);
    row_bind(&s->conn, st, 2, &table_idempotency, i);
    if (conn_run(&s->conn, st, e))
        return e->code;
    if (sqlite3_changes(s->conn.db) > 0) {
        *ret_rowid = sqlite3_last_insert_rowid(s->conn.db);
        return ERR_OK;
    }
    (void)error_set(e, ERR_CONFLICT, "this key has been used before");
    return error_in(e, "idempotency-key");
}

enum err sqlite_idempotency_delete(struct store_sqlite *s, int64_t rowid, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_IDEMPOTENCY_DELETE);
    sqlite3_bind_int64(st, 1, rowid);
    return conn_run(&s->conn, st, e);
}

enum err reader_sqlite_idempotency(struct reader *base, int32_t tenant, const uint8_t key[32], struct arena *a,
                                   struct idempotency *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_IDEMPOTENCY);
    struct idempotency record = { 0 };
    bool found;
    sqlite3_bind_blob(st, 1, key, 32, SQLITE_STATIC);
    sqlite3_bind_int(st, 2, tenant);
    if (reader_sqlite_read_one(r, st, &table_idempotency, a, &record, &found, e))
        return e->code;
    if (!found)
        return reader_not_found("key", e);
    *ret = record;
    return ERR_OK;
}

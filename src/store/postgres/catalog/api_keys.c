/* OP_KEY_PUT, and the reads of API keys. The operation runs in a savepoint. */
#include "store/postgres/reader/reader.h"

static const struct pg_statement key_put = {
    "key_put", "INSERT INTO api_keys (id, tenant_id, hash, name, scopes, created_ms, expires_ms, parent) SELECT * FROM "
               "unnest($1::text[], $2::int[], $3::bytea[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], "
               "$8::text[]) "
               "ON CONFLICT (id) DO UPDATE SET tenant_id = excluded.tenant_id, hash = excluded.hash, "
               "name = excluded.name, scopes = excluded.scopes, created_ms = excluded.created_ms, "
               "expires_ms = excluded.expires_ms, parent = excluded.parent"
};
/* Other nodes may do the same at the same time: each skips the rows of the others. */
static const struct pg_statement key_purge = {
    "key_purge", "DELETE FROM api_keys WHERE id IN (SELECT id FROM api_keys WHERE parent IS NOT NULL AND "
                 "abs(expires_ms) < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)"
};
static const struct pg_statement key_remove = {
    "key_remove", "UPDATE api_keys SET expires_ms = -$3::bigint WHERE id = $1 AND tenant_id = $2 AND expires_ms >= 0"
};

static enum err pg_key_purge(struct store_postgres *s, const struct api_key *key, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_i64(&s->params, key->created_ms - KEY_ENDED_KEPT_MS);
    pg_add_i64(&s->params, KEY_ENDED_MAX);
    return pg_run(&s->conn, &key_purge, &s->params, &r, e);
}

enum err postgres_key_put(struct store_postgres *s, struct op *base)
{
    const struct op_key_put *op = (const struct op_key_put *)base;
    struct error *e = &base->error;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_idempotency_put(s, op->idempotency, e))
        return e->code;
    pg_params_reset(&s->params);
    if (op->remove) {
        pg_add_text(&s->params, op->key->id);
        pg_add_i32(&s->params, op->key->tenant);
        pg_add_i64(&s->params, op->now_ms);
    } else {
        pg_add_rows(&s->params, &table_api_keys, (const void *const[]){ op->key }, NULL, 1);
    }
    if (pg_run(&s->conn, op->remove ? &key_remove : &key_put, &s->params, &r, e))
        return e->code;
    if (!r.affected)
        return error_set(e, ERR_NOT_FOUND, "there is no such key");
    if (!op->remove && op->key->parent.n) /* a new session: no node has cached it */
        return pg_key_purge(s, op->key, e);
    s->notice.catalog = true; /* nodes that cache API keys must read them again */
    return ERR_OK;
}

/* ---- reading ---- */

enum err reader_postgres_key(struct reader *base, struct str id, struct arena *a, struct api_key *ret, struct error *e)
{
    static const struct pg_statement by_id = { "read_key", PG_ROWS(API_KEY_COLUMNS, "api_keys WHERE id = $1") };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct api_key k = { 0 };
    if (!text_is_clean(id))
        return reader_not_found("API key", e);
    pg_add_text(pg_reader_params(r), id);
    if (pg_reader_run_one(r, &by_id, &table_api_keys, a, &k, e))
        return e->code;
    *ret = k;
    return ERR_OK;
}

enum err reader_postgres_keys(struct reader *base, int32_t tenant, struct arena *a, struct key_list *ret,
                              struct error *e)
{
    static const struct pg_statement of_tenant = {
        "read_keys", PG_ROWS(API_KEY_COLUMNS, "api_keys WHERE tenant_id = $1 AND expires_ms >= 0 AND parent IS NULL "
                                              "ORDER BY id LIMIT $2")
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, tenant);
    pg_add_i64(p, LIST_MAX);
    if (pg_reader_run(r, false, &of_tenant, &got, e))
        return e->code;
    struct key_list keys = { arena_array(a, struct api_key, (size_t)got.rows), (size_t)got.rows };
    if (!keys.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++)
        if (pg_row_read(r->last_conn, &r->lanes, &got, i, 1, &table_api_keys, a, &keys.v[i], e))
            return e->code;
    *ret = keys;
    return ERR_OK;
}

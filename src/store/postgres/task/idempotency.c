/* Records of idempotency keys. */
#include "store/postgres/reader/reader.h"

static const struct pg_statement insert_idempotency = {
    "insert_idempotency",
    "INSERT INTO idempotency SELECT * FROM unnest($*) ON CONFLICT (key, tenant_id) DO NOTHING",
};

enum err pg_idempotency_used_error(struct error *e)
{
    (void)error_set(e, ERR_CONFLICT, "this key has been used before");
    return error_in(e, "idempotency-key");
}

enum err pg_idempotency_put(struct store_postgres *s, const struct idempotency *i, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (!i)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_rows(&s->params, &table_idempotency, (const void *const[]){ i }, NULL, 1);
    if (pg_run(&s->conn, &insert_idempotency, &s->params, &r, e))
        return e->code;
    if (r.affected > 0)
        return ERR_OK;
    return pg_idempotency_used_error(e);
}

/* ---- reading ---- */

enum err reader_postgres_idempotency(struct reader *base, int32_t tenant, const uint8_t key[32], struct arena *a,
                                     struct idempotency *ret, struct error *e)
{
    static const struct pg_statement by_key = {
        "read_idempotency", PG_ROWS(IDEMPOTENCY_COLUMNS, "idempotency WHERE key = $1 AND tenant_id = $2")
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    struct idempotency record = { 0 };
    pg_add_bytes(p, (struct str){ (const char *)key, 32 });
    pg_add_i32(p, tenant);
    if (pg_reader_run_one(r, &by_key, &table_idempotency, a, &record, e))
        return e->code;
    *ret = record;
    return ERR_OK;
}

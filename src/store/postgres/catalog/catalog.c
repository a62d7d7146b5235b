/* OP_CATALOG, OP_KEY_PUT and OP_LEASE.
 *
 * A catalog entry is locked before its version is checked. An entry that does not exist cannot be locked: if two
 * transactions insert it at once, the first succeeds; the second inserts nothing, then finds and locks the existing
 * entry. Catalog and key operations run in a savepoint. */
#include "store/common/edits.h"
#include "store/postgres/internal.h"

/* ---- the catalog ---- */

struct pg_catalog_current {
    int64_t version, created_ms; /* version 0: the entry does not exist */
};

static void pg_catalog_add_name(struct pg_params *p, const struct catalog_entry *x)
{
    pg_params_reset(p);
    pg_add_i32(p, (int32_t)x->kind);
    pg_add_i32(p, x->tenant);
    pg_add_text(p, x->name);
}

static enum err pg_catalog_lock_entry(struct store_postgres *s, const struct catalog_entry *x,
                                      struct pg_catalog_current *ret, struct error *e)
{
    static const struct pg_statement locked = { "catalog_find",
                                                "SELECT version, created_ms FROM catalog WHERE kind = $1 "
                                                "AND tenant_id = $2 AND name = $3 FOR UPDATE" };
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_catalog_add_name(&s->params, x);
    if (pg_run(&s->conn, &locked, &s->params, &r, e))
        return e->code;
    *ret = (struct pg_catalog_current){ 0 };
    if (r.rows)
        *ret = (struct pg_catalog_current){ pg_i64(&r, 0, 0), pg_i64(&r, 0, 1) };
    return ERR_OK;
}

static enum err pg_catalog_remove_entry(struct store_postgres *s, const struct catalog_entry *x, struct error *e)
{
    static const struct pg_statement removal = {
        "catalog_remove", "DELETE FROM catalog WHERE kind = $1 AND tenant_id = $2 AND name = $3"
    };
    if (x->kind == CATALOG_CALENDAR && pg_calendar_unused(s, x, e))
        return e->code;
    pg_catalog_add_name(&s->params, x);
    return pg_run(&s->conn, &removal, &s->params, NULL, e);
}

static void pg_catalog_add_entry(struct pg_params *p, const struct catalog_entry *x)
{
    pg_catalog_add_name(p, x);
    pg_add_i64(p, x->version);
    pg_add_i64(p, x->created_ms);
    pg_add_i64(p, x->updated_ms);
    if (x->doc.n)
        pg_add_text(p, x->doc);
    else
        pg_add_null(p, PG_TEXT);
}

/* *ret_done is false if another transaction has inserted the entry since it was looked for. */
static enum err pg_catalog_write_entry(struct store_postgres *s, const struct catalog_entry *x, bool is_new,
                                       bool *ret_done, struct error *e)
{
    static const struct pg_statement insert = { "catalog_insert",
                                                "INSERT INTO catalog (kind, tenant_id, name, version, created_ms, "
                                                "updated_ms, doc) VALUES ($1, $2, $3, $4, $5, $6, $7) "
                                                "ON CONFLICT DO NOTHING" },
                                     update = { "catalog_update",
                                                "UPDATE catalog SET version = $4, created_ms = $5, updated_ms = $6, "
                                                "doc = $7 WHERE kind = $1 AND tenant_id = $2 AND name = $3" };
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_catalog_add_entry(&s->params, x);
    if (pg_run(&s->conn, is_new ? &insert : &update, &s->params, &r, e))
        return e->code;
    *ret_done = r.affected == 1;
    return ERR_OK;
}

static enum err pg_catalog_try_change(struct store_postgres *s, struct catalog_change *c, int64_t now_ms,
                                      bool *ret_done, struct error *e)
{
    struct pg_catalog_current now = { 0 };
    if (pg_catalog_lock_entry(s, &c->entry, &now, e) || catalog_check(c, now.version, e))
        return e->code;
    *ret_done = true;
    if (c->remove) {
        c->ret_version = c->ret_created_ms = 0;
        return pg_catalog_remove_entry(s, &c->entry, e);
    }
    c->ret_version = now.version + 1;
    c->ret_created_ms = now.version ? now.created_ms : now_ms;
    struct catalog_entry next = c->entry;
    next.version = c->ret_version;
    next.created_ms = c->ret_created_ms;
    next.updated_ms = now_ms;
    return pg_catalog_write_entry(s, &next, now.version == 0, ret_done, e);
}

static enum err pg_catalog_change(struct store_postgres *s, struct catalog_change *c, int64_t now_ms, struct error *e)
{
    for (bool done = false; !done;) /* another round if another node has made or removed the entry */
        if (pg_catalog_try_change(s, c, now_ms, &done, e))
            return e->code;
    return ERR_OK;
}

enum err postgres_catalog(struct store_postgres *s, struct op *base)
{
    struct op_catalog *op = (struct op_catalog *)base;
    struct error *e = &base->error;
    if (pg_idempotency_put(s, op->idempotency, e) || catalog_docs_fit(op, e))
        return e->code;
    for (size_t i = 0; i < op->n; i++)
        if (pg_catalog_change(s, &op->v[i], op->now_ms, e))
            return e->code;
    for (size_t i = 0; i < op->n; i++) /* the progress of jobs is written often, and no other node needs it */
        s->notice.catalog = s->notice.catalog || op->v[i].entry.kind != CATALOG_JOB;
    return ERR_OK;
}

/* ---- API keys and leases ---- */

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

enum err postgres_lease(struct store_postgres *s, struct op *base)
{
    static const struct pg_statement lease = {
        "lease", "INSERT INTO leases AS l (name, holder, until_ms) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE "
                 "SET holder = $2, until_ms = $3 WHERE l.until_ms <= $4 OR l.holder = $2"
    };
    struct op_lease *op = (struct op_lease *)base;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_text(&s->params, op->name);
    pg_add_uuid(&s->params, op->holder);
    pg_add_i64(&s->params, op->now_ms + op->ttl_ms);
    pg_add_i64(&s->params, op->now_ms);
    if (pg_run(&s->conn, &lease, &s->params, &r, &base->error))
        return base->error.code;
    op->ret_held = r.affected > 0;
    return ERR_OK;
}

/* OP_DEFINE, and the definitions that come with new runs (port/store/runs.h). Two nodes that define one name wait for
 * each other. */
#include <stdio.h>

#include "store/postgres/flow/runs.h"

static const struct pg_statement put_definition = {
    "definition_put",
    "INSERT INTO definitions (tenant_id, hash, text, put_ms) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (tenant_id, hash) DO UPDATE SET put_ms = greatest(definitions.put_ms, excluded.put_ms)",
};
static const struct pg_statement latest_version = {
    "workflow_latest",
    "SELECT version, hash, created_ms, removed FROM workflows WHERE tenant_id = $1 AND name = $2 "
    "ORDER BY version DESC LIMIT 1",
};
static const struct pg_statement insert_version = {
    "workflow_insert",
    "INSERT INTO workflows (tenant_id, name, hash, version, created_ms) VALUES ($1, $2, $3, $4, $5)",
};
static const struct pg_statement remove_name = {
    "workflow_remove",
    "UPDATE workflows SET removed = true WHERE tenant_id = $1 AND name = $2 AND NOT removed",
};

static struct str pg_definition_hash(const struct definition *d)
{
    return (struct str){ (const char *)d->hash, sizeof d->hash };
}

enum err pg_definition_put(struct store_postgres *s, const struct definition *d, int64_t now_ms, struct error *e)
{
    if (!d)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_i32(&s->params, d->tenant);
    pg_add_bytes(&s->params, pg_definition_hash(d));
    pg_add_text(&s->params, d->text);
    pg_add_i64(&s->params, now_ms);
    return pg_queue(&s->conn, &put_definition, &s->params, e);
}

static void pg_define_add_name(struct pg_params *p, const struct op_define *op)
{
    pg_params_reset(p);
    pg_add_i32(p, op->tenant);
    pg_add_text(p, op->name);
}

static enum err pg_define_lock(struct store_postgres *s, const struct op_define *op, struct error *e)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%d ", (int)op->tenant);
    cleanup_with(buf_release) struct buf key;
    buf_init(&key, 1 << 10);
    buf_add(&key, (struct str){ text, (size_t)n });
    buf_add(&key, op->name);
    return pg_lock(s, PG_LOCK_WORKFLOW, &(struct str){ key.p, key.n }, 1, e);
}

static enum err pg_define_remove(struct store_postgres *s, struct op_define *op, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_define_add_name(&s->params, op);
    if (pg_run(&s->conn, &remove_name, &s->params, &r, e))
        return e->code;
    op->ret_changed = r.affected > 0;
    return op->ret_changed ? ERR_OK : error_set(e, ERR_NOT_FOUND, "there is no such workflow");
}

static enum err pg_define_insert(struct store_postgres *s, struct op_define *op, struct error *e)
{
    struct pg_params *p = &s->params;
    pg_define_add_name(p, op);
    pg_add_bytes(p, pg_definition_hash(op->definition));
    pg_add_i64(p, op->ret_version);
    pg_add_i64(p, op->now_ms);
    if (pg_queue(&s->conn, &insert_version, p, e))
        return e->code;
    op->ret_created_ms = op->now_ms;
    op->ret_changed = true;
    return pg_definition_put(s, op->definition, op->now_ms, e);
}

enum err postgres_define(struct store_postgres *s, struct op *base)
{
    struct op_define *op = (struct op_define *)base;
    struct error *e = &base->error;
    cleanup_with(pg_result_release) struct pg_result latest = { 0 };
    op->ret_changed = false;
    if (pg_idempotency_put(s, op->idempotency, e))
        return e->code;
    if (!op->name.n)
        return pg_definition_put(s, op->definition, op->now_ms, e);
    if (pg_define_lock(s, op, e))
        return e->code;
    if (op->remove)
        return pg_define_remove(s, op, e);
    pg_define_add_name(&s->params, op);
    if (pg_run(&s->conn, &latest_version, &s->params, &latest, e))
        return e->code;
    op->ret_version = latest.rows ? pg_i64(&latest, 0, 0) : 0;
    if (latest.rows && !pg_bool(&latest, 0, 3) && str_eq(pg_text(&latest, 0, 1), pg_definition_hash(op->definition))) {
        op->ret_created_ms = pg_i64(&latest, 0, 2);
        return ERR_OK;
    }
    op->ret_version++;
    return pg_define_insert(s, op, e);
}

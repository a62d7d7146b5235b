/* OP_LEASE: leases of names. Leases of tasks are in claim/leases.c. */
#include "store/postgres/internal.h"

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

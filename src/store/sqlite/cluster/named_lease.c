/* OP_LEASE: leases of names. Leases of tasks are in claim/leases.c. */
#include "store/sqlite/internal.h"

enum err sqlite_lease(struct store_sqlite *s, struct op *base)
{
    struct op_lease *op = (struct op_lease *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_LEASE);
    (void)bind_str(st, 1, op->name);
    sqlite3_bind_blob(st, 2, op->holder.b, sizeof op->holder.b, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, op->now_ms + op->ttl_ms);
    sqlite3_bind_int64(st, 4, op->now_ms);
    if (conn_run(&s->conn, st, &base->error))
        return base->error.code;
    op->ret_held = sqlite3_changes(s->conn.db) > 0;
    return ERR_OK;
}

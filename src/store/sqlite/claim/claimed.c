/* OP_CLAIMED and OP_ORPHANS, and the rows of claims.
 *
 * The row of a claim counts its tasks and lists their rids, so that no index over RUNNING tasks is needed: a claim and
 * a settle each touch the task's row and little else. The list may contain tasks that have left the claim; the task's
 * own row decides. */
#include <endian.h>

#include "store/sqlite/claim/claim.h"

/* ---- rows of claims ---- */

enum err sqlite_claim_join(struct store_sqlite *s, struct uuid claim, int64_t rid, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_JOIN);
    uint64_t bytes = htole64((uint64_t)rid);
    (void)bind_uuid(st, 1, &claim);
    sqlite3_bind_blob(st, 2, &bytes, sizeof bytes, SQLITE_STATIC);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_claim_leave(struct store_sqlite *s, struct uuid claim, int64_t n, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_LEAVE);
    (void)bind_uuid(st, 1, &claim);
    sqlite3_bind_int64(st, 2, n);
    if (conn_run(&s->conn, st, e))
        return e->code;
    st = writer_stmt(s, ST_CLAIM_DELETE);
    (void)bind_uuid(st, 1, &claim);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_claim_exists(struct store_sqlite *s, const struct uuid *claim, bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_EXISTS);
    (void)bind_uuid(st, 1, claim);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_claim_check_new(struct store_sqlite *s, const struct uuid *claim, const struct uuid *node,
                                struct error *e)
{
    bool exists, known, dead;
    if (sqlite_node_find(s, node, &known, &dead, e) || sqlite_claim_exists(s, claim, &exists, e))
        return e->code;
    if (dead)
        return node_is_dead(e);
    return exists ? error_set(e, ERR_CONFLICT, "this claim was made before") : ERR_OK;
}

enum err sqlite_claim_insert(struct store_sqlite *s, const struct uuid *claim, const struct uuid *node,
                             enum claim_hold hold, size_t n, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_INSERT);
    for (size_t i = 0; i < n; i++)
        s->rids[i] = (int64_t)htole64((uint64_t)s->rids[i]);
    (void)bind_uuid(st, 1, claim);
    (void)bind_uuid(st, 2, node);
    sqlite3_bind_int64(st, 3, (int64_t)n);
    sqlite3_bind_blob64(st, 4, s->rids, n * sizeof *s->rids, SQLITE_STATIC);
    sqlite3_bind_int(st, 5, hold);
    return conn_run(&s->conn, st, e);
}

/* ---- tasks that left their claims ---- */

enum err sqlite_claims_left_write(struct store_sqlite *s, struct claims_left *l, struct error *e)
{
    for (size_t i = 0; i < l->n; i++)
        if (sqlite_claim_leave(s, l->claim[i], l->count[i], e))
            return e->code;
    l->n = l->last = 0;
    return ERR_OK;
}

enum err sqlite_claims_left_add(struct store_sqlite *s, struct claims_left *l, struct uuid claim, struct error *e)
{
    if (l->n && uuid_eq(l->claim[l->last], claim)) {
        l->count[l->last]++;
        return ERR_OK;
    }
    size_t i = 0;
    while (i < l->n && !uuid_eq(l->claim[i], claim))
        i++;
    if (i == CLAIMS_LEFT_MAX) {
        if (sqlite_claims_left_write(s, l, e))
            return e->code;
        i = 0;
    }
    if (i == l->n) {
        l->claim[i] = claim;
        l->count[i] = 0;
        l->n++;
    }
    l->count[i]++;
    l->last = i;
    return ERR_OK;
}

/* ---- tasks of claims ---- */

/* Reads the task at rid into the scratch, if it is RUNNING under this claim. */
static enum err sqlite_claimed_read(struct store_sqlite *s, struct uuid claim, int64_t rid, size_t *n, struct arena *a,
                                    struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_BY_RID);
    sqlite3_bind_int64(st, 1, rid);
    bool row;
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    enum err rc = ERR_OK;
    if (row && sqlite3_column_int(st, AT_state) == TASK_RUNNING && uuid_eq(row_uuid(st, AT_claim_id), claim)) {
        rc = scratch_read(s, st, *n, a, e);
        ++*n;
    }
    sqlite3_reset(st);
    return rc;
}

/* until_ms: for each task, the third column of its claim's row. NULL: it is not wanted. */
static enum err sqlite_claimed_read_all(struct store_sqlite *s, sqlite3_stmt *st, size_t max, size_t *n,
                                        int64_t *until_ms, struct arena *a, struct error *e)
{
    for (bool row; *n < max;) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        struct uuid claim = row_uuid(st, 0);
        const char *list = sqlite3_column_blob(st, 1);
        size_t count = (size_t)sqlite3_column_bytes(st, 1) / sizeof(uint64_t);
        for (size_t i = 0; i < count && *n < max; i++) {
            uint64_t rid;
            memcpy(&rid, list + i * sizeof rid, sizeof rid);
            if (until_ms)
                until_ms[*n] = orphan_fires_until_ms(sqlite3_column_int64(st, 2));
            if (sqlite_claimed_read(s, claim, (int64_t)le64toh(rid), n, a, e))
                return e->code;
        }
    }
    return ERR_OK;
}

static enum err sqlite_claimed_tasks(struct store_sqlite *s, sqlite3_stmt *st, size_t max, int64_t *until_ms,
                                     struct arena *a, struct tasks *ret, struct error *e)
{
    size_t n = 0;
    enum err rc = sqlite_claimed_read_all(s, st, max, &n, until_ms, a, e);
    sqlite3_reset(st);
    return rc ? rc : scratch_take(s, n, a, ret, e);
}

enum err sqlite_claimed(struct store_sqlite *s, struct op *base)
{
    struct op_claimed *op = (struct op_claimed *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIM_BY_ID);
    (void)bind_uuid(st, 1, &op->claim);
    return sqlite_claimed_tasks(s, st, SIZE_MAX, NULL, &base->arena, &op->ret, &base->error);
}

enum err sqlite_orphans(struct store_sqlite *s, struct op *base)
{
    struct op_orphans *op = (struct op_orphans *)base;
    sqlite3_stmt *st = writer_stmt(s, ST_CLAIMS_ORPHANED);
    int64_t *until_ms = arena_array(&base->arena, int64_t, op->max);
    if (!until_ms)
        return reader_no_room(&base->error);
    sqlite3_bind_blob(st, 1, op->not_node.b, sizeof op->not_node.b, SQLITE_STATIC);
    if (sqlite_claimed_tasks(s, st, op->max, until_ms, &base->arena, &op->ret, &base->error))
        return base->error.code;
    op->ret_fires_until_ms = until_ms;
    return ERR_OK;
}

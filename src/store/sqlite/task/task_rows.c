/* What all operations do with rows of tasks: read guards, insert, replace and delete a row, read rows of a result. */
#include "store/sqlite/internal.h"

/* ---- guards ---- */

enum err sqlite_read_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_GUARDS);
    (void)bind_uuid(st, 1, id);
    struct guards g = { 0 };
    if (conn_step(&s->conn, st, &g.found, e))
        return e->code;
    if (g.found) {
        g.rid = sqlite3_column_int64(st, 0);
        g.tenant = sqlite3_column_int(st, 1);
        g.state = (enum task_state)sqlite3_column_int(st, 2);
        g.fence = sqlite3_column_int64(st, 3);
        g.deleted = sqlite3_column_int(st, 4) != 0;
        g.claim = row_uuid(st, 5);
        g.version = sqlite3_column_int64(st, 6);
        g.kind = (enum task_kind)sqlite3_column_int(st, 7);
        g.cursor_ms = sqlite3_column_int64(st, 8);
        g.last_run_ms = sqlite3_column_int64(st, 9);
        g.losses = sqlite3_column_int(st, 10);
        g.lane = sqlite3_column_int64(st, 11);
        g.gated = sqlite3_column_int(st, 12) != 0;
        g.waits = sqlite3_column_int(st, 13) != 0;
        g.links = sqlite3_column_int(st, 14);
        g.created_ms = sqlite3_column_int64(st, 15);
        g.runs_count = sqlite3_column_int64(st, 16);
        g.skipped_count = sqlite3_column_int64(st, 17);
        sqlite3_reset(st);
    }
    *ret = g;
    return ERR_OK;
}

enum err sqlite_read_settle_guards(struct store_sqlite *s, const struct uuid *id, struct guards *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SETTLE_GUARDS);
    (void)bind_uuid(st, 1, id);
    *ret = (struct guards){ 0 };
    if (conn_step(&s->conn, st, &ret->found, e))
        return e->code;
    if (!ret->found)
        return ERR_OK;
    ret->rid = sqlite3_column_int64(st, 0);
    ret->tenant = sqlite3_column_int(st, 1);
    ret->state = (enum task_state)sqlite3_column_int(st, 2);
    ret->fence = sqlite3_column_int64(st, 3);
    ret->deleted = sqlite3_column_int(st, 4) != 0;
    ret->claim = row_uuid(st, 5);
    ret->losses = sqlite3_column_int(st, 6);
    ret->lane = sqlite3_column_int64(st, 7);
    ret->gated = sqlite3_column_int(st, 8) != 0;
    ret->links = sqlite3_column_int(st, 9);
    ret->run = row_uuid(st, 10);
    ret->place = sqlite3_column_int64(st, 11);
    sqlite3_reset(st);
    return ERR_OK;
}

/* ---- rows ---- */

/* Binds the whole row; rid 0: a new row. */
static enum err sqlite_bind_task(struct store_sqlite *s, sqlite3_stmt *st, int64_t rid, const struct task *t,
                                 struct error *e)
{
    int64_t lane;
    if (sqlite_lane_number(s, task_lane(t), task_pool(t), &lane, e))
        return e->code;
    if (rid)
        sqlite3_bind_int64(st, 1, rid);
    else
        sqlite3_bind_null(st, 1);
    row_bind(&s->conn, st, 2, &table_tasks, t);
    sqlite3_bind_int64(st, 1 + AT_lane, lane);
    return ERR_OK;
}

static enum err sqlite_bind_new_task(struct store_sqlite *s, const struct task *t, sqlite3_stmt **ret, struct error *e)
{
    int64_t lane;
    bool is_fresh = row_is_fresh(&s->conn, t);
    *ret = writer_stmt(s, is_fresh ? ST_TASK_INSERT_FRESH : ST_TASK_INSERT);
    if (!is_fresh)
        return sqlite_bind_task(s, *ret, 0, t, e);
    if (sqlite_lane_number(s, task_lane(t), task_pool(t), &lane, e))
        return e->code;
    row_bind_fresh(&s->conn, *ret, t, lane);
    return ERR_OK;
}

enum err sqlite_insert_task(struct store_sqlite *s, const struct task *t, bool *ret_new, struct error *e)
{
    sqlite3_stmt *st;
    if (sqlite_bind_new_task(s, t, &st, e) || conn_run(&s->conn, st, e))
        return e->code;
    *ret_new = sqlite3_changes(s->conn.db) > 0;
    if (!*ret_new)
        return ERR_OK;
    if (!t->deleted)
        tally_add(&s->of_op, t->tenant, t->state, 1);
    int64_t rid = sqlite3_last_insert_rowid(s->conn.db);
    sqlite_ended_note(s, rid, t->state, t->completed_ms);
    return t->state == TASK_RUNNING ? sqlite_claim_join(s, t->claim, rid, e) : ERR_OK;
}

enum err sqlite_replace_task(struct store_sqlite *s, const struct guards *old, const struct task *t, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_REPLACE);
    if (sqlite_bind_task(s, st, old->rid, t, e) || conn_run(&s->conn, st, e))
        return e->code;
    if (!old->deleted)
        tally_add(&s->of_op, old->tenant, old->state, -1);
    if (!t->deleted)
        tally_add(&s->of_op, t->tenant, t->state, 1);
    sqlite_ended_note(s, old->rid, t->state, t->completed_ms);
    bool held = old->state == TASK_RUNNING, holds = t->state == TASK_RUNNING;
    if (held && holds && uuid_eq(old->claim, t->claim))
        return ERR_OK;
    if (holds && sqlite_claim_join(s, t->claim, old->rid, e))
        return e->code;
    if (!held || uuid_is_nil(old->claim)) /* no claim, or a settlement notes it by itself */
        return ERR_OK;
    return sqlite_claim_leave(s, old->claim, 1, e) ? e->code : sqlite_task_lease_leave(s, old, &t->id, e);
}

enum err sqlite_delete_task(struct store_sqlite *s, int64_t rid, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_DELETE);
    sqlite3_bind_int64(st, 1, rid);
    return conn_run(&s->conn, st, e);
}

/* ---- results ---- */

void scratch_grow(struct store_sqlite *s, size_t n)
{
    if (n < s->scratch_cap)
        return;
    s->scratch_cap = s->scratch_cap * 2 + 64;
    s->scratch = xrealloc(s->scratch, s->scratch_cap * sizeof *s->scratch);
    s->rids = xrealloc(s->rids, s->scratch_cap * sizeof *s->rids);
}

enum err scratch_read(struct store_sqlite *s, sqlite3_stmt *st, size_t n, struct arena *a, struct error *e)
{
    scratch_grow(s, n);
    s->scratch[n] = (struct task){ 0 };
    s->rids[n] = sqlite3_column_int64(st, AT_rid);
    return row_read(&s->conn, st, AT_rid + 1, &table_tasks, a, &s->scratch[n], e);
}

enum err scratch_read_due(struct store_sqlite *s, sqlite3_stmt *st, size_t n, struct arena *a, struct error *e)
{
    scratch_grow(s, n);
    struct task *t = &s->scratch[n];
    *t = (struct task){ 0 };
    s->rids[n] = sqlite3_column_int64(st, AT_rid);
    if (row_read(&s->conn, st, AT_rid + 1, &table_due, a, t, e))
        return e->code;
    return row_read_gates(st, AT_gates, a, t, e);
}

enum err scratch_take(struct store_sqlite *s, size_t n, struct arena *a, struct tasks *ret, struct error *e)
{
    return reader_copy_tasks(s->scratch, n, a, ret, e);
}

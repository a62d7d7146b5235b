/* The primitives for slots that only claims use: reading candidates, blocking and cancelling tasks, finding holders. */
#include <stdlib.h>

#include "store/sqlite/claim/claim.h"

enum err sqlite_claim_read_candidate(struct store_sqlite *s, sqlite3_stmt *st, struct candidate *ret, struct error *e)
{
    struct task t = { .id = row_uuid(st, AT_id),
                      .tenant = sqlite3_column_int(st, AT_tenant_id),
                      .kind = (enum task_kind)sqlite3_column_int(st, AT_kind),
                      .target = (enum target_kind)sqlite3_column_int(st, AT_target),
                      .links = sqlite3_column_int(st, AT_links),
                      .parent = row_uuid(st, AT_parent_id),
                      .due_ms = sqlite3_column_int64(st, AT_due_ms),
                      .scheduled_ms = sqlite3_column_int64(st, AT_scheduled_ms),
                      .deleted = sqlite3_column_int(st, AT_deleted) != 0 };
    arena_reset(&s->arena);
    if (row_read_gates(st, AT_gates, &s->arena, &t, e))
        return e->code;
    ret->bytes = (size_t)sqlite3_column_bytes(st, AT_payload) + (size_t)sqlite3_column_bytes(st, AT_target_config);
    ret->task = t;
    ret->row = (struct slot_row){ .rid = sqlite3_column_int64(st, AT_rid),
                                  .id = t.id,
                                  .tenant = t.tenant,
                                  .deleted = t.deleted,
                                  .state = TASK_SCHEDULED,
                                  .due_ms = t.due_ms,
                                  .links = t.links };
    return ERR_OK;
}

enum err sqlite_slot_has_earlier(struct store_sqlite *s, const struct task *t, bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_EARLIER);
    (void)bind_uuid(st, 1, &t->parent);
    sqlite3_bind_int64(st, 2, t->due_ms);
    sqlite3_bind_int64(st, 3, t->scheduled_ms);
    (void)bind_uuid(st, 4, &t->id);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

bool sqlite_claim_is_taken(struct gate *g, const struct slot_row *r)
{
    const struct claiming *c = container_of(g, struct claiming, gate);
    const struct store_sqlite *s = sqlite_of_slots(g->slots);
    for (size_t i = 0; i < c->n; i++)
        if (s->rids[i] == r->rid)
            return true;
    return false;
}

/* ---- changing a task's row ---- */

enum err sqlite_slot_block(struct slots *base, const struct slot_row *r, const struct slot_need *need, int64_t now_ms,
                           struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_BLOCK);
    sqlite3_bind_int64(st, 1, r->rid);
    (void)bind_str(st, 2, need->key);
    sqlite3_bind_int64(st, 3, now_ms);
    sqlite3_bind_int(st, 4, (int)slot_late_cause(need->kind));
    tally_move(&s->of_op, r->tenant, r->deleted, r->state, TASK_BLOCKED);
    return conn_run(&s->conn, st, e);
}

enum err sqlite_slot_give_up(struct slots *base, const struct slot_row *r, enum task_state state, struct str why,
                             int64_t now_ms, struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_GIVE_UP);
    sqlite3_bind_int64(st, 1, r->rid);
    sqlite3_bind_int(st, 2, (int)state);
    sqlite3_bind_int64(st, 3, now_ms);
    (void)bind_str(st, 4, why);
    tally_move(&s->of_op, r->tenant, r->deleted, r->state, state);
    sqlite_ended_note(s, r->rid, state, now_ms);
    return conn_run(&s->conn, st, e);
}

/* ---- tasks that a replacing task displaces ---- */

static enum err sqlite_slot_next_row(struct store_sqlite *s, sqlite3_stmt *st, struct slot_row *ret, bool *ret_found,
                                     struct error *e)
{
    if (conn_step(&s->conn, st, ret_found, e))
        return e->code;
    if (*ret_found)
        *ret = (struct slot_row){ .rid = sqlite3_column_int64(st, 0),
                                  .id = row_uuid(st, 1),
                                  .tenant = sqlite3_column_int(st, 2),
                                  .deleted = sqlite3_column_int(st, 3) != 0,
                                  .state = (enum task_state)sqlite3_column_int(st, 4),
                                  .fence = sqlite3_column_int64(st, 5) };
    return ERR_OK;
}

enum err sqlite_slot_holders(struct slots *base, struct str key, struct slot_row **ret, size_t *ret_count,
                             struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_HOLDERS);
    struct slot_row *v = NULL, r;
    size_t n = 0;
    bool found;
    (void)bind_str(st, 1, key);
    while (!sqlite_slot_next_row(s, st, &r, &found, e) && found) {
        v = xrealloc(v, (n + 1) * sizeof *v); /* an overlap slot has one holder */
        v[n++] = r;
    }
    if (s->conn.failed) {
        free(v);
        return e->code;
    }
    *ret = v;
    *ret_count = n;
    return ERR_OK;
}

enum err sqlite_slot_other(struct slots *base, struct str key, const struct slot_row *but, struct slot_row *ret,
                           bool *ret_found, struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_OTHER);
    (void)bind_str(st, 1, key);
    sqlite3_bind_int64(st, 2, but->rid);
    if (sqlite_slot_next_row(s, st, ret, ret_found, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_slot_since(struct slots *base, struct str key, int64_t *ret, struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_SINCE);
    bool row;
    (void)bind_str(st, 1, key);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_slot_held_ahead(struct slots *base, struct str key, int64_t now_ms, bool *ret, struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_HELD_AHEAD);
    (void)bind_str(st, 1, key);
    sqlite3_bind_int64(st, 2, now_ms);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

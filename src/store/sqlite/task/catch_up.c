/* OP_CATCH_UP: from one recurring task with waiting occurrences to the next, and for each from its latest occurrence
 * back. Both walks follow an index, so a million tasks or a long history cost nothing. */
#include "core/task/fence.h"
#include "store/common/edits.h"
#include "store/sqlite/internal.h"

static struct task sqlite_catch_up_read_row(sqlite3_stmt *st, struct uuid parent)
{
    bool has_overlap = sqlite3_column_type(st, 12) != SQLITE_NULL;
    return (struct task){
        .kind = TASK_OCCURRENCE,
        .parent = parent,
        .id = row_uuid(st, 1),
        .state = (enum task_state)sqlite3_column_int(st, 2),
        .due_ms = sqlite3_column_int64(st, 3),
        .scheduled_ms = sqlite3_column_int64(st, 4),
        .version = sqlite3_column_int64(st, 5),
        .attempts = sqlite3_column_int(st, 6),
        .losses = sqlite3_column_int(st, 7),
        .started_ms = sqlite3_column_int64(st, 8),
        .runs_count = sqlite3_column_int64(st, 9),
        .fence = sqlite3_column_int64(st, 10),
        .skipped_count = sqlite3_column_int64(st, 13),
        .overlap = has_overlap ? (enum overlap)sqlite3_column_int(st, 12) : OVERLAP_ALLOW,
    };
}

/* Reads the slots only of an occurrence that was never claimed: for others they make no difference. */
static enum err sqlite_catch_up_holds_slot(struct store_sqlite *s, sqlite3_stmt *st, const struct task *t, bool *ret,
                                           struct error *e)
{
    struct held_slots held = { .n = 0 };
    if (fence_is_unclaimed(t->fence) && sqlite3_column_int(st, 11) && s->slots.ops->held(&s->slots, &t->id, &held, e))
        return e->code;
    *ret = held.n > 0;
    return ERR_OK;
}

/* Walks from the latest occurrence back and stops at the last one that fired, so a long history costs nothing. Puts the
 * occurrences that may be withdrawn into s->scratch and s->rids. */
static enum err sqlite_catch_up_find(struct store_sqlite *s, struct catch_up_scan *m, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CATCH_UP_OCCURRENCES);
    (void)bind_uuid(st, 1, &m->id);
    for (enum catch_up_fate fate = CATCH_UP_PASSED; fate != CATCH_UP_END;) {
        bool row, holds = false;
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        struct task t = sqlite_catch_up_read_row(st, m->id);
        if (sqlite_catch_up_holds_slot(s, st, &t, &holds, e))
            break;
        scratch_grow(s, m->ahead);
        s->scratch[m->ahead] = t;
        s->rids[m->ahead] = sqlite3_column_int64(st, 0);
        fate = catch_up_visit(m, &t, holds);
    }
    sqlite3_reset(st);
    return s->conn.failed;
}

static enum err sqlite_catch_up_withdraw(struct store_sqlite *s, const struct catch_up_scan *m, int64_t rid,
                                         struct slot_keys *keys, struct error *e)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct task *t = &s->scratch[i];
        if (sqlite_delete_task(s, s->rids[i], e) || (t->fence && slots_release(&s->slots, &t->id, NULL, keys, e)))
            return e->code;
    }
    tally_add(&s->of_op, m->tenant, TASK_SCHEDULED, -(int64_t)m->n);
    sqlite3_stmt *st = writer_stmt(s, ST_CATCH_UP_REWIND);
    sqlite3_bind_int64(st, 1, rid);
    sqlite3_bind_int64(st, 2, catch_up_cursor(m));
    sqlite3_bind_int64(st, 3, (int64_t)m->n);
    return conn_run(&s->conn, st, e);
}

/* *ret_found: the id is that of a SCHEDULED recurring task. */
static enum err sqlite_catch_up_read_task(struct store_sqlite *s, struct catch_up_scan *m, int64_t *ret_rid,
                                          bool *ret_found, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CATCH_UP_TASK);
    (void)bind_uuid(st, 1, &m->id);
    if (conn_step(&s->conn, st, ret_found, e) || !*ret_found)
        return s->conn.failed;
    *ret_rid = sqlite3_column_int64(st, 0);
    m->tenant = sqlite3_column_int(st, 1);
    m->schedule = (struct schedule){ .catch_up = (enum catch_up)sqlite3_column_int(st, 2),
                                     .spread_ms = sqlite3_column_int64(st, 3),
                                     .catch_up_window_ms = sqlite3_column_int64(st, 4) };
    sqlite3_reset(st);
    return ERR_OK;
}

/* The next recurring task behind that id with waiting occurrences; nil: none. One seek in an index over such
 * occurrences only, however many tasks there are. */
static enum err sqlite_catch_up_next_task(struct store_sqlite *s, struct uuid after, struct uuid *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_CATCH_UP_NEXT);
    bool row;
    sqlite3_bind_blob(st, 1, after.b, sizeof after.b, SQLITE_TRANSIENT);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = row ? row_uuid(st, 0) : (struct uuid){ 0 };
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_catch_up(struct store_sqlite *s, struct op *base)
{
    struct op_catch_up *op = (struct op_catch_up *)base;
    struct error *e = &base->error;
    struct uuid at = op->after, next;
    size_t withdrawn = 0;
    uint64_t unblocked = 0; /* not returned: the caller looks at all lanes */
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    if (sqlite_catch_up_next_task(s, at, &next, e))
        return e->code;
    for (size_t i = 0; i < op->max && !uuid_is_nil(next); i++) {
        struct catch_up_scan m = { .id = next, .before_ms = op->before_ms };
        int64_t rid;
        bool found;
        if (sqlite_catch_up_read_task(s, &m, &rid, &found, e) || (found && sqlite_catch_up_find(s, &m, e)) ||
            (m.n && sqlite_catch_up_withdraw(s, &m, rid, &keys, e)))
            return e->code;
        withdrawn += m.n;
        at = next;
        if (sqlite_catch_up_next_task(s, at, &next, e))
            return e->code;
    }
    if (slots_hand_over(&s->slots, &keys, &unblocked, e))
        return e->code;
    op->ret_withdrawn = withdrawn;
    op->ret_after = uuid_is_nil(next) ? next : at;
    return ERR_OK;
}

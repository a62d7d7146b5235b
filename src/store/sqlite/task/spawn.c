/* OP_RECURRING and OP_SPAWN. */
#include "store/sqlite/internal.h"

/* ---- OP_RECURRING ---- */

/* The rows of one task from its cursor on. */
static enum err sqlite_read_taken(struct store_sqlite *s, const struct task *t, struct taken_rows *rows,
                                  struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_TAKEN);
    enum err rc = ERR_OK;
    (void)bind_uuid(st, 1, &t->id);
    sqlite3_bind_blob(st, 2, rows->from.b, sizeof rows->from.b, SQLITE_STATIC);
    sqlite3_bind_int(st, 3, TAKEN_MAX);
    for (bool row; !rc && !(rc = conn_step(&s->conn, st, &row, e)) && row;) {
        struct task o = { .id = row_uuid(st, 0),
                          .parent = t->id,
                          .kind = TASK_OCCURRENCE,
                          .state = (enum task_state)sqlite3_column_int(st, 1),
                          .scheduled_ms = sqlite3_column_int64(st, 2),
                          .due_ms = sqlite3_column_int64(st, 3),
                          .cursor_ms = sqlite3_column_int64(st, 4),
                          .skipped_count = sqlite3_column_int64(st, 5) };
        rc = taken_rows_add(rows, &o, e);
    }
    sqlite3_reset(st);
    return rc;
}

static enum err sqlite_recurring_taken(struct store_sqlite *s, const struct tasks *found, struct op_recurring *op,
                                       struct error *e)
{
    struct spawn_taken *taken = arena_array(&op->op.arena, struct spawn_taken, found->n);
    if (!taken)
        return error_set(e, ERR_LIMIT, "the answer is larger than the memory set aside for it");
    for (size_t i = 0; i < found->n; i++) {
        struct taken_rows rows;
        if (taken_rows_begin(&rows, op, &found->v[i], &op->op.arena) && sqlite_read_taken(s, &found->v[i], &rows, e))
            return e->code;
        taken[i] = taken_rows_end(&rows);
    }
    op->ret_taken = taken;
    return ERR_OK;
}

enum err sqlite_recurring(struct store_sqlite *s, struct op *base)
{
    struct op_recurring *op = (struct op_recurring *)base;
    struct error *e = &base->error;
    sqlite3_stmt *st = writer_stmt(s, ST_RECURRING);
    int64_t next_ms = INT64_MAX;
    size_t n = 0;
    enum err rc = ERR_OK;
    sqlite3_bind_int64(st, 1, op->after_cursor_ms);
    sqlite3_bind_blob(st, 2, op->after_id.b, sizeof op->after_id.b, SQLITE_STATIC);
    for (bool row; !rc && !(rc = conn_step(&s->conn, st, &row, e)) && row;) {
        int64_t cursor_ms = sqlite3_column_int64(st, AT_cursor_ms);
        struct uuid id = row_uuid(st, AT_id);
        if (cursor_ms >= next_ms)
            break;
        if (n < op->max && recurring_gives(op, id, cursor_ms))
            rc = scratch_read(s, st, n++, &base->arena, e);
        else
            next_ms = min_of(next_ms, recurring_counts_as(op, id, cursor_ms));
    }
    sqlite3_reset(st);
    struct tasks found;
    if (rc || scratch_take(s, n, &base->arena, &found, e) || sqlite_recurring_taken(s, &found, op, e))
        return e->code;
    op->ret = found;
    op->ret_next_ms = next_ms;
    return ERR_OK;
}

/* ---- OP_SPAWN ---- */

static enum err sqlite_spawn_move_cursor(struct store_sqlite *s, int64_t rid, const struct spawn_plan *plan,
                                         int64_t skipped, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SPAWN_MOVE);
    sqlite3_bind_int64(st, 1, rid);
    sqlite3_bind_int64(st, 2, plan->cursor_ms);
    sqlite3_bind_int64(st, 3, plan->runs);
    sqlite3_bind_int64(st, 4, skipped);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_spawn_complete(struct store_sqlite *s, const struct uuid *id, const struct guards *g,
                                      int64_t now_ms, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SPAWN_END);
    sqlite3_bind_int64(st, 1, g->rid);
    sqlite3_bind_int64(st, 2, now_ms);
    sqlite_ended_note(s, g->rid, TASK_COMPLETED, now_ms);
    change_add(&s->base, *id, TASK_SCHEDULED, TASK_COMPLETED);
    if (!g->deleted) {
        tally_add(&s->of_op, g->tenant, TASK_SCHEDULED, -1);
        tally_add(&s->of_op, g->tenant, TASK_COMPLETED, 1);
    }
    return conn_run(&s->conn, st, e);
}

enum err sqlite_spawn(struct store_sqlite *s, struct op *base)
{
    struct op_spawn *op = (struct op_spawn *)base;
    struct error *e = &base->error;
    struct guards g;
    if (sqlite_read_guards(s, &op->id, &g, e))
        return e->code;
    if (!g.found || g.kind != TASK_RECURRING || g.state != TASK_SCHEDULED || g.version != op->version ||
        g.cursor_ms != op->cursor_ms)
        return error_set(e, ERR_CONFLICT, "the recurring task has changed since");
    int64_t skipped = op->plan->skipped;
    for (size_t i = 0; i < op->plan->occurrences.n; i++) {
        const struct task *o = &op->plan->occurrences.v[i];
        bool is_new;
        if (sqlite_insert_task(s, o, &is_new, e))
            return e->code;
        skipped -= is_new ? 0 : o->skipped_count;
    }
    if (sqlite_spawn_move_cursor(s, g.rid, op->plan, skipped, e))
        return e->code;
    return op->plan->ended ? sqlite_spawn_complete(s, &op->id, &g, op->now_ms, e) : ERR_OK;
}

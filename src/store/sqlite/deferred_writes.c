/* Changes that operations note and the transaction writes once, at its end: counts, tasks that became final. Then it
 * also reads the changes that are told. */
#include <assert.h>

#include "store/sqlite/internal.h"

enum { NOTE_MAX = 256 /* tasks of one note */ };

/* ---- counts ---- */

enum err sqlite_write_tallies(struct store_sqlite *s, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_COUNT_ADD);
    for (size_t i = 0; i < s->of_transaction.n; i++) {
        const struct tally *t = &s->of_transaction.v[i];
        for (int state = 0; state <= TASK_EXPIRED; state++) {
            if (t->n[state] == 0)
                continue;
            sqlite3_bind_int(st, 1, t->tenant);
            sqlite3_bind_int(st, 2, state);
            sqlite3_bind_int64(st, 3, t->n[state]);
            if (conn_run(&s->conn, st, e))
                return e->code;
        }
    }
    return ERR_OK;
}

/* ---- tasks that became final: notes for OP_PURGE ---- */

void sqlite_ended_note(struct store_sqlite *s, int64_t rid, enum task_state state, int64_t completed_ms)
{
    struct ended *n = &s->ended;
    if (!task_is_final(state) || state == TASK_FAILED || completed_ms <= 0)
        return;
    if (n->n == n->cap) {
        n->cap = n->cap * 2 + NOTE_MAX;
        n->v = xrealloc(n->v, n->cap * sizeof *n->v);
    }
    n->v[n->n++] = (struct ended_task){ completed_ms, rid };
}

static enum err sqlite_ended_write_note(struct store_sqlite *s, const struct ended_task *v, size_t n, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_ENDED_INSERT);
    struct buf *text = &s->conn.texts[0];
    buf_reset(text);
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_char(text, ' ');
        buf_u64(text, (uint64_t)v[i].rid);
    }
    assert(!text->full);
    sqlite3_bind_int64(st, 1, v[0].completed_ms);
    (void)bind_str(st, 2, buf_str(text));
    return conn_run(&s->conn, st, e);
}

enum err sqlite_ended_write(struct store_sqlite *s, struct error *e)
{
    struct ended *all = &s->ended;
    all->n = all->kept;
    for (size_t from = 0, to; from < all->n; from = to) {
        to = from + 1;
        while (to < all->n && to - from < NOTE_MAX && all->v[to].completed_ms == all->v[from].completed_ms)
            to++;
        if (sqlite_ended_write_note(s, all->v + from, to - from, e))
            return e->code;
    }
    all->n = all->kept = 0;
    return ERR_OK;
}

/* ---- changes that are told ---- */

static enum err sqlite_read_change(struct store_sqlite *s, struct task_change *c, struct error *e)
{
    struct change_list *l = s->base.changes;
    sqlite3_stmt *st = writer_stmt(s, ST_TASK_CHANGED);
    const struct lane_row *lane;
    bool row;
    (void)bind_uuid(st, 1, &c->task.id);
    if (conn_step(&s->conn, st, &row, e) || !row)
        return s->conn.failed;
    if (lanes_at(&s->conn, sqlite3_column_int64(st, 4), &lane, e))
        return e->code;
    struct str queue = row_text(st, 5);
    c->task.tenant = sqlite3_column_int(st, 0);
    c->task.kind = (enum task_kind)sqlite3_column_int(st, 1);
    c->task.parent = row_uuid(st, 2);
    c->task.run = row_uuid(st, 3);
    c->task.queue = change_text(l, queue.n ? queue : lane->lane.queue);
    c->task.attempts = sqlite3_column_int(st, 6);
    c->task.fence = sqlite3_column_int64(st, 7);
    c->task.trace = change_text(l, row_text(st, 8));
    c->task.last_error = change_has_reason(c) ? change_text(l, row_text(st, 9)) : (struct str){ 0 };
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_read_changes(struct store_sqlite *s, struct error *e)
{
    for (size_t i = 0; s->base.changes && i < s->base.changes->n; i++)
        if (sqlite_read_change(s, &s->base.changes->v[i], e))
            return e->code;
    return ERR_OK;
}

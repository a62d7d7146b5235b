/* Tasks that are due in days are far. They are not in the index that claims walk (tasks_due): there, a million tasks at
 * random times would make each insert touch a page of its own. They are in an index by the day of their due time
 * (tasks_far), where the tasks of one day are in the order of their insertion.
 *
 * A task's row alone decides whether the task is far (SQL_FAR), so no statement can forget to set it. Before a claim
 * looks for tasks, it moves near all tasks that may be due within CLAIM_SIGHT_MS, so no task is late. A purge does the
 * same some hours ahead, a few tasks at a time, so that claims find it done. The limit of 30 hours is a day plus the 6
 * hours that a purge looks ahead: no task is inserted as far and moved near at once. */
#include "store/sqlite/internal.h"

enum { PURGE_SIGHT_MS = 6 * CLAIM_SIGHT_MS };

static enum err sqlite_far_bring_near(struct store_sqlite *s, int64_t until_ms, int64_t max, size_t *ret_n,
                                      struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_BRING_NEAR);
    sqlite3_bind_int64(st, 1, until_ms);
    sqlite3_bind_int64(st, 2, max);
    if (conn_run(&s->conn, st, e))
        return e->code;
    *ret_n = (size_t)sqlite3_changes(s->conn.db);
    return ERR_OK;
}

enum err sqlite_far_before_claim(struct store_sqlite *s, int64_t now_ms, int64_t until_ms, struct error *e)
{
    size_t ignored;
    return sqlite_far_bring_near(s, max_of(until_ms, now_ms + CLAIM_SIGHT_MS), -1, &ignored, e);
}

enum err sqlite_far_purge(struct store_sqlite *s, int64_t now_ms, size_t max, bool *ret_more, struct error *e)
{
    size_t n;
    if (sqlite_far_bring_near(s, now_ms + PURGE_SIGHT_MS, (int64_t)max, &n, e))
        return e->code;
    *ret_more = n == max;
    return ERR_OK;
}

enum err sqlite_far_exists(struct store_sqlite *s, bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_FAR_EXISTS);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

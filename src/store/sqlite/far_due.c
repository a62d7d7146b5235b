/* Tasks that are due in days are far: they are not in the index that claims walk, where a million at random times would make each new one
 * touch a page of its own, but in one by the day they are due, where those of a day lie in the order they came (tasks_far).
 *
 * Whether a task is far is said by its row alone (SQL_FAR), so no statement can forget to say so; a claim brings near whatever may be due
 * within CLAIM_SIGHT_MS before it looks for anything, so nothing can come late. Upkeep does the same hours ahead, a few at a time, so that
 * claims find that done. Far begins where a day that upkeep sees has ended: no task is made far to be brought near at once. */
#include "store/sqlite/internal.h"

enum { RETENTION_SIGHT_MS = 6 * CLAIM_SIGHT_MS };

static enum err bring_near(struct store_sqlite *s, int64_t until_ms, int64_t max, size_t *ret_n, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_BRING_NEAR);
    sqlite3_bind_int64(st, 1, until_ms);
    sqlite3_bind_int64(st, 2, max);
    if (conn_run(&s->conn, st, e))
        return e->code;
    *ret_n = (size_t)sqlite3_changes(s->conn.db);
    return ERR_OK;
}

enum err far_before_claim(struct store_sqlite *s, int64_t now_ms, int64_t until_ms, struct error *e)
{
    size_t ignored;
    return bring_near(s, max_of(until_ms, now_ms + CLAIM_SIGHT_MS), -1, &ignored, e);
}

enum err far_upkeep(struct store_sqlite *s, int64_t now_ms, size_t max, bool *ret_more, struct error *e)
{
    size_t n;
    if (bring_near(s, now_ms + RETENTION_SIGHT_MS, (int64_t)max, &n, e))
        return e->code;
    *ret_more = n == max;
    return ERR_OK;
}

enum err far_exists(struct store_sqlite *s, bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_FAR_EXISTS);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

/* Checks of inserts and puts beyond their own rows: the limits of a tenant, and calendars that must exist. Tasks are
 * counted after they were inserted, together with counts of this transaction that are not written yet: the operation
 * runs in a savepoint. */
#include "store/sqlite/reader/reader.h"

/* ---- limits ---- */

static enum err sqlite_limits_read_number(struct conn *c, sqlite3_stmt *st, int64_t *ret, struct error *e)
{
    bool row;
    if (conn_step(c, st, &row, e))
        return e->code;
    *ret = row ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_limits_check_pending(struct store_sqlite *s, const struct op_insert *op, struct error *e)
{
    int32_t tenant = op->tasks[0].tenant;
    sqlite3_stmt *st = writer_stmt(s, ST_PENDING);
    int64_t written = 0, comes = tally_pending(&s->of_op, tenant);
    if (!op->max_pending || comes <= 0)
        return ERR_OK;
    sqlite3_bind_int(st, 1, tenant);
    if (sqlite_limits_read_number(&s->conn, st, &written, e))
        return e->code;
    bool fits = written + tally_pending(&s->of_transaction, tenant) + comes <= op->max_pending;
    return fits ? ERR_OK : limit_reached("max_pending", op->max_pending, e);
}

static enum err sqlite_limits_check_recurring(struct store_sqlite *s, const struct op_insert *op, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_RECURRING_COUNT);
    int64_t n;
    if (!op->max_recurring)
        return ERR_OK;
    sqlite3_bind_int(st, 1, op->tasks[0].tenant);
    sqlite3_bind_int64(st, 2, op->max_recurring + 1);
    if (sqlite_limits_read_number(&s->conn, st, &n, e))
        return e->code;
    return n <= op->max_recurring ? ERR_OK : limit_reached("max_recurring", op->max_recurring, e);
}

enum err sqlite_limits_check(struct store_sqlite *s, const struct op_insert *op, bool has_new_recurring,
                             struct error *e)
{
    if (!op->count || sqlite_limits_check_pending(s, op, e))
        return op->count ? e->code : ERR_OK;
    return has_new_recurring ? sqlite_limits_check_recurring(s, op, e) : ERR_OK;
}

/* ---- calendars ---- */

static enum err sqlite_calendar_query(struct store_sqlite *s, enum writer_statement which, int32_t tenant,
                                      struct str calendar, bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, which);
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_str(st, 2, calendar);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

enum err sqlite_calendar_check(struct store_sqlite *s, const struct task *t, struct error *e)
{
    bool there;
    if (!task_needs_calendar(t))
        return ERR_OK;
    if (sqlite_calendar_query(s, ST_CALENDAR_EXISTS, t->tenant, t->schedule.calendar, &there, e))
        return e->code;
    return there ? ERR_OK : calendar_missing(t->schedule.calendar, e);
}

enum err sqlite_calendar_check_unused(struct store_sqlite *s, const struct catalog_entry *x, struct error *e)
{
    bool used;
    if (sqlite_calendar_query(s, ST_CALENDAR_USED, x->tenant, x->name, &used, e))
        return e->code;
    return used ? calendar_used(x->name, e) : ERR_OK;
}

/* ---- reading ---- */

enum err reader_sqlite_usage(struct reader *base, int32_t tenant, struct tenant_usage *ret, struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    struct tenant_usage u = { 0 };
    sqlite3_stmt *pending = conn_stmt(c, RD_PENDING);
    sqlite3_bind_int(pending, 1, tenant);
    if (sqlite_limits_read_number(c, pending, &u.pending, e))
        return e->code;
    sqlite3_stmt *recurring = conn_stmt(c, RD_RECURRING);
    sqlite3_bind_int(recurring, 1, tenant);
    if (sqlite_limits_read_number(c, recurring, &u.recurring, e))
        return e->code;
    u.recurring = min_of(u.recurring, u.pending); /* two statements: a task may have been cancelled in between */
    *ret = u;
    return ERR_OK;
}

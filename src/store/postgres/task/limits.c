/* Checks of inserts and puts that concern more than their own rows: the tenant's limits, and calendars that must exist.
 *
 * Tasks are counted after they were inserted, in the operation's savepoint, together with the counts that this
 * transaction has not written yet. Rows that other transactions have not committed are invisible. So a transaction that
 * counts a tenant's tasks holds the tenant's lock until it commits; a transaction without limits does not take it. A
 * calendar has such a lock too: a transaction that inserts a task with the calendar, or removes the calendar, takes
 * it. */
#include <inttypes.h>
#include <stdio.h>

#include "store/postgres/reader/reader.h"

static const struct pg_statement count_pending = {
    "limits_pending",
    "SELECT coalesce(sum(n), 0)::bigint FROM counts WHERE tenant_id = $1 AND state <= " SQL_RUNNING,
};

#define ACTIVE_RECURRING "kind = 1 AND state < " SQL_RUNNING " AND NOT deleted AND tenant_id = $1"
static const struct pg_statement count_recurring = {
    "limits_recurring",
    "SELECT count(*) FROM (SELECT 1 FROM tasks WHERE " ACTIVE_RECURRING " LIMIT $2) AS x",
};
static const struct pg_statement calendar_exists = {
    "calendar_exists",
    "SELECT EXISTS (SELECT 1 FROM catalog WHERE kind = 1 AND tenant_id = $1 AND name = $2)",
};
static const struct pg_statement calendar_is_used = {
    "calendar_is_used",
    "SELECT EXISTS (SELECT 1 FROM tasks WHERE " ACTIVE_RECURRING " AND calendar = $2)",
};

static enum err pg_limits_read_number(struct store_postgres *s, const struct pg_statement *st, int64_t *ret,
                                      struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_run(&s->conn, st, &s->params, &r, e))
        return e->code;
    *ret = pg_i64(&r, 0, 0);
    return ERR_OK;
}

/* ---- limits ---- */

enum err pg_limits_lock_tenant(struct store_postgres *s, int32_t tenant, struct error *e)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%" PRId32, tenant);
    return pg_lock(s, PG_LOCK_TENANT, &(struct str){ text, (size_t)n }, 1, e);
}

static enum err pg_limits_check_pending(struct store_postgres *s, const struct op_insert *op, struct error *e)
{
    int32_t tenant = op->tasks[0].tenant;
    int64_t written, comes = tally_pending(&s->of_op, tenant);
    if (!op->max_pending || comes <= 0)
        return ERR_OK;
    if (pg_limits_lock_tenant(s, tenant, e))
        return e->code;
    pg_params_reset(&s->params);
    pg_add_i32(&s->params, tenant);
    if (pg_limits_read_number(s, &count_pending, &written, e))
        return e->code;
    bool fits = written + tally_pending(&s->of_transaction, tenant) + comes <= op->max_pending;
    return fits ? ERR_OK : limit_reached("max_pending", op->max_pending, e);
}

static enum err pg_limits_check_recurring(struct store_postgres *s, const struct op_insert *op, struct error *e)
{
    int64_t n;
    if (!op->max_recurring)
        return ERR_OK;
    if (pg_limits_lock_tenant(s, op->tasks[0].tenant, e))
        return e->code;
    pg_params_reset(&s->params);
    pg_add_i32(&s->params, op->tasks[0].tenant);
    pg_add_i64(&s->params, op->max_recurring + 1);
    if (pg_limits_read_number(s, &count_recurring, &n, e))
        return e->code;
    return n <= op->max_recurring ? ERR_OK : limit_reached("max_recurring", op->max_recurring, e);
}

enum err pg_limits_check(struct store_postgres *s, const struct op_insert *op, bool has_new_recurring, struct error *e)
{
    if (!op->count || pg_limits_check_pending(s, op, e))
        return op->count ? e->code : ERR_OK;
    return has_new_recurring ? pg_limits_check_recurring(s, op, e) : ERR_OK;
}

/* ---- calendars ---- */

enum { CALENDAR_KEY_MAX = 16 };

static enum err pg_calendar_query(struct store_postgres *s, const struct pg_statement *st, int32_t tenant,
                                  struct str calendar, bool *ret, struct error *e)
{
    int64_t answer;
    cleanup_with(buf_release) struct buf key;
    buf_init(&key, CALENDAR_KEY_MAX + calendar.n);
    buf_printf(&key, "%" PRId32 ":", tenant);
    buf_add(&key, calendar);
    struct str name = buf_str(&key);
    if (pg_lock(s, PG_LOCK_CALENDAR, &name, 1, e))
        return e->code;
    pg_params_reset(&s->params);
    pg_add_i32(&s->params, tenant);
    pg_add_text(&s->params, calendar);
    if (pg_limits_read_number(s, st, &answer, e))
        return e->code;
    *ret = answer != 0;
    return ERR_OK;
}

enum err pg_calendar_check(struct store_postgres *s, const struct task *t, struct error *e)
{
    bool there;
    if (!task_needs_calendar(t))
        return ERR_OK;
    if (pg_calendar_query(s, &calendar_exists, t->tenant, t->schedule.calendar, &there, e))
        return e->code;
    return there ? ERR_OK : calendar_missing(t->schedule.calendar, e);
}

enum err pg_calendar_unused(struct store_postgres *s, const struct catalog_entry *x, struct error *e)
{
    bool used;
    if (pg_calendar_query(s, &calendar_is_used, x->tenant, x->name, &used, e))
        return e->code;
    return used ? calendar_used(x->name, e) : ERR_OK;
}

/* ---- reading ---- */

enum err reader_postgres_usage(struct reader *base, int32_t tenant, struct tenant_usage *ret, struct error *e)
{
    static const struct pg_statement used = {
        "read_usage", "SELECT (SELECT sum(n)::bigint FROM counts WHERE tenant_id = $1 AND state <= " SQL_RUNNING
                      "), (SELECT count(*) "
                      "FROM tasks WHERE kind = 1 AND state < " SQL_RUNNING " AND NOT deleted AND tenant_id = $1)"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(pg_reader_params(r), tenant);
    if (pg_reader_run(r, false, &used, &got, e))
        return e->code;
    *ret = (struct tenant_usage){ pg_i64(&got, 0, 0), pg_i64(&got, 0, 1) };
    return ERR_OK;
}

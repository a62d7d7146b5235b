/* The PostgreSQL database that `belfry copy` writes to.
 *
 * A task's row implies rows elsewhere: its lane, the counts, `ended`, its claim. The statement that inserts the task
 * writes them too, and only if the task is new. So sending a batch twice changes nothing. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/date.h"
#include "store/common/copy_internal.h"
#include "store/postgres/internal.h"

enum {
    SQL_MAX = 1 << 14,
    FETCH_ROWS = 200,
    STATEMENT_NAME = 32,
    MONTHS_FROM = 1970 * 12,
    MONTHS = 400 * 12,
    ANSWER_MS = 600000 /* 10 minutes: no request waits for a copy */
};

struct copy_target {
    struct pg_conn conn;
    struct pg_params params;
    struct store_lanes lanes;
    bool has_month[MONTHS]; /* executions: has this month a partition? From MONTHS_FROM on */
    char *put_sql[COPY_TABLES];
    char put_name[COPY_TABLES][STATEMENT_NAME];
    enum copy_table table; /* the table that is being read back */
    bool reading;
    struct pg_result fetched;
    int at; /* next row of `fetched` */
};

/* ---- opening and closing ---- */

static void copy_target_add_names(struct buf *sql, const struct copy_kind *k, const char *first)
{
    buf_text(sql, first);
    for (int i = 0; i < k->table->count; i++)
        buf_printf(sql, "%s%s", i || first[0] ? ", " : "", k->table->columns[i].name);
}

/* A row of `ended` lists at most 256 tasks. */
#define NOTE_NUMBER "(row_number() OVER (PARTITION BY completed_ms) - 1) / 256"

static const char put_more[] =
    ", ended_ AS (INSERT INTO ended (completed_ms, tasks) SELECT completed_ms, array_agg(id) FROM (SELECT completed_ms, "
    "id, " NOTE_NUMBER " AS part FROM added WHERE state > " SQL_RUNNING " AND state <> " SQL_FAILED
    " AND completed_ms > 0) AS a "
    "GROUP BY completed_ms, part), "
    "counts_ AS (INSERT INTO counts AS c (tenant_id, state, shard, n) SELECT tenant_id, state, 0, count(*) FROM added "
    "WHERE NOT deleted GROUP BY tenant_id, state "
    "ON CONFLICT (tenant_id, state, shard) DO UPDATE SET n = c.n + excluded.n), "
    "claims_ AS (UPDATE claims AS c SET held = c.held + a.n, tasks = c.tasks || a.ids FROM (SELECT claim_id, "
    "count(*) AS n, array_agg(id) AS ids FROM added WHERE state = " SQL_RUNNING
    " GROUP BY claim_id) AS a WHERE c.id = a.claim_id) ";

/* The INSERT statement of a table. It returns how many rows were new. */
static char *copy_target_make_put(enum copy_table t)
{
    const struct copy_kind *k = &copy_kinds[t];
    struct buf sql;
    buf_init(&sql, SQL_MAX);
    buf_printf(&sql, "WITH added AS (INSERT INTO %s (", k->name);
    copy_target_add_names(&sql, k, t == COPY_tasks ? "part" : "");
    buf_text(&sql, t == COPY_claims ? ", held, tasks) SELECT *, 0, '{}'::uuid[]" : ") SELECT *");
    buf_text(&sql, " FROM unnest($*) ON CONFLICT DO NOTHING RETURNING ");
    buf_text(&sql, t == COPY_tasks ? "id, tenant_id, state, deleted, claim_id, completed_ms)" : "1)");
    if (t == COPY_tasks)
        buf_text(&sql, put_more);
    buf_text(&sql, " SELECT count(*) FROM added");
    assert(!sql.full);
    return buf_take(&sql);
}

enum err copy_target_open(const char *url, struct clock *clock, struct copy_target **ret, struct error *e)
{
    if (store_postgres_migrate(url, clock, STORE_POSTGRES_NEWEST, e))
        return e->code;
    struct copy_target *t = xnew(*t);
    pg_params_init(&t->params);
    for (int i = 0; i < COPY_TABLES; i++) {
        t->put_sql[i] = copy_target_make_put((enum copy_table)i);
        snprintf(t->put_name[i], sizeof t->put_name[i], "copy_%s", copy_kinds[i].name);
    }
    if (pg_conn_init(&t->conn, url, false, clock, e) || pg_conn_ready(&t->conn, e) ||
        pg_lanes_load(&t->conn, &t->lanes, e)) {
        copy_target_free(t);
        return e->code;
    }
    t->conn.answer_ms = ANSWER_MS;
    *ret = t;
    return ERR_OK;
}

void copy_target_free(struct copy_target *t)
{
    if (!t)
        return;
    pg_result_release(&t->fetched);
    pg_conn_release(&t->conn);
    pg_params_release(&t->params);
    store_lanes_release(&t->lanes);
    for (int i = 0; i < COPY_TABLES; i++)
        free(t->put_sql[i]);
    free(t);
}

/* ---- whether a server uses the database ---- */

/* A running server always has connections open. A pooler may have some too while no server runs. Then only the
 * heartbeats show whether a server runs. */
static const struct pg_statement connected = {
    "copy_connected", "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                      "AND application_name = 'belfry' AND pid <> pg_backend_pid()"
};
static const struct pg_statement beats = { "copy_beats", "SELECT coalesce(sum(beats), 0)::bigint FROM nodes" };
enum { BEATS_MS = 3000, LOOK_MS = 100 };

static enum err copy_target_read_number(struct copy_target *t, const struct pg_statement *s, int64_t *ret,
                                        struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_run(&t->conn, s, NULL, &r, e))
        return e->code;
    *ret = pg_i64(&r, 0, 0);
    return ERR_OK;
}

enum err copy_target_is_idle(struct copy_target *t, struct error *e)
{
    int64_t others = 0, before = 0, now = 0;
    if (copy_target_read_number(t, &connected, &others, e) || copy_target_read_number(t, &beats, &before, e))
        return e->code;
    for (int ms = 0; others && ms < BEATS_MS; ms += LOOK_MS) {
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000L }, NULL);
        if (copy_target_read_number(t, &beats, &now, e))
            return e->code;
        if (now != before)
            return error_set(e, ERR_CONFLICT, "a server runs on the database: stop it first");
    }
    return ERR_OK;
}

enum err copy_target_count(struct copy_target *t, enum copy_table table, int64_t *ret, struct error *e)
{
    char sql[64];
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", copy_kinds[table].name);
    if (pg_send_text(&t->conn, sql, e) || pg_get(&t->conn, &r, e))
        return e->code;
    *ret = pg_i64(&r, 0, 0);
    return ERR_OK;
}

/* ---- the copy's mark, which keeps servers from starting, and the pepper ---- */

enum err copy_target_mark(struct copy_target *t, const uint8_t *pepper, struct error *e)
{
    uint8_t there[PEPPER_SIZE];
    if (pepper) {
        memcpy(there, pepper, sizeof there);
        if (pg_cluster_value(&t->conn, S("pepper"), there, sizeof there, e))
            return e->code;
        bool same = memcmp(there, pepper, sizeof there) == 0;
        explicit_bzero(there, sizeof there);
        if (!same)
            return error_set(
                e, ERR_CONFLICT,
                "the database has another pepper, so the API keys of the source would not work there: copy to an "
                "empty database");
    }
    char yes = 1;
    return pg_cluster_value(&t->conn, S("copying"), &yes, sizeof yes, e);
}

enum err copy_target_keys(struct copy_target *t, const struct key_prints *known, struct error *e)
{
    uint8_t there[SECRETS_PRINT];
    char name[sizeof "key:" + SECRETS_ID];
    for (size_t i = 0; i < known->n; i++) {
        snprintf(name, sizeof name, "key:%s", known->v[i].id);
        memcpy(there, known->v[i].print, sizeof there);
        if (pg_cluster_value(&t->conn, str_from(name), there, sizeof there, e))
            return e->code;
    }
    memcpy(there, known->current, sizeof there);
    return known->has_current ? pg_cluster_value(&t->conn, S("key_print"), there, sizeof there, e) : ERR_OK;
}

enum err copy_target_done(struct copy_target *t, struct error *e)
{
    /* the source may go on, or has lost its latest claims to a crash */
    if (pg_fences_raise(&t->conn, &t->params, clock_wall_ms(t->conn.clock), e))
        return e->code;
    return pg_exec(&t->conn, "DELETE FROM cluster WHERE name = 'copying'", e);
}

/* ---- writing rows ---- */

static enum err copy_target_find_lanes(struct copy_target *t, const void *const *rows, size_t n, int64_t *ret,
                                       struct error *e)
{
    struct pg_lane_want *v = xcalloc(n + 1, sizeof *v);
    bool has_made;
    for (size_t i = 0; i < n; i++)
        v[i] = (struct pg_lane_want){ .lane = task_lane(rows[i]), .pool = task_pool(rows[i]) };
    enum err rc = pg_lanes_find(&t->conn, &t->lanes, v, n, &has_made, e);
    for (size_t i = 0; !rc && i < n; i++)
        ret[i] = v[i].number;
    free(v);
    return rc;
}

/* Makes the monthly partition of each execution first, so that no row has to be moved later. */
static enum err copy_target_make_months(struct copy_target *t, const void *const *rows, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        int64_t ms = uuid_time_ms(((const struct execution *)rows[i])->id);
        struct date d = date_of_day(ms / DAY_MS);
        int month = d.year * 12 + d.month - 1 - MONTHS_FROM;
        if (month >= MONTHS || t->has_month[month])
            continue;
        if (pg_maintain_partitions(&t->conn, &(struct pg_partition_job){ .now_ms = ms }, e))
            return e->code;
        t->has_month[month] = true;
    }
    return ERR_OK;
}

static void copy_target_add_parts(struct pg_params *p, const void *const *rows, size_t n)
{
    pg_array(p, PG_I32);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(p, partition_of(((const struct task *)rows[i])->id));
    pg_array_end(p);
}

static enum err copy_target_put_rows(struct copy_target *t, enum copy_table table, const void *const *rows, size_t n,
                                     int64_t *lanes, int64_t *ret_added, struct error *e)
{
    struct pg_statement s = { t->put_name[table], t->put_sql[table] };
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if ((table == COPY_tasks && copy_target_find_lanes(t, rows, n, lanes, e)) ||
        (table == COPY_executions && copy_target_make_months(t, rows, n, e)))
        return e->code;
    pg_params_reset(&t->params);
    if (table == COPY_tasks)
        copy_target_add_parts(&t->params, rows, n);
    pg_add_rows(&t->params, copy_kinds[table].table, rows, lanes, n);
    if (pg_run(&t->conn, &s, &t->params, &r, e))
        return e->code;
    *ret_added = pg_i64(&r, 0, 0);
    return ERR_OK;
}

enum err copy_target_put(struct copy_target *t, enum copy_table table, const void *const *rows, size_t n,
                         int64_t *ret_added, struct error *e)
{
    int64_t *lanes = table == COPY_tasks ? xcalloc(n, sizeof *lanes) : NULL;
    enum err rc = copy_target_put_rows(t, table, rows, n, lanes, ret_added, e);
    free(lanes);
    return rc;
}

/* ---- reading rows back ---- */

static enum err copy_target_end_reading(struct copy_target *t, struct error *e)
{
    pg_result_release(&t->fetched);
    t->at = 0;
    if (!t->reading)
        return ERR_OK;
    t->reading = false;
    return pg_exec(&t->conn, "COMMIT", e);
}

enum err copy_target_begin(struct copy_target *t, enum copy_table table, struct error *e)
{
    const struct copy_kind *k = &copy_kinds[table];
    cleanup_with(buf_release) struct buf sql;
    buf_init(&sql, SQL_MAX);
    buf_text(&sql, "DECLARE copied NO SCROLL CURSOR FOR SELECT ");
    copy_target_add_names(&sql, k, "0");
    buf_printf(&sql, " FROM %s", k->name);
    if (copy_target_end_reading(t, e) || pg_exec(&t->conn, "BEGIN", e) || pg_exec(&t->conn, buf_cstr(&sql), e))
        return e->code;
    t->table = table;
    t->reading = true;
    return ERR_OK;
}

static enum err copy_target_fetch(struct copy_target *t, struct error *e)
{
    char sql[48];
    snprintf(sql, sizeof sql, "FETCH %d FROM copied", FETCH_ROWS);
    pg_result_release(&t->fetched);
    t->at = 0;
    return pg_send_text(&t->conn, sql, e) ? e->code : pg_get(&t->conn, &t->fetched, e);
}

enum err copy_target_next(struct copy_target *t, struct arena *a, void *row, bool *ret_found, struct error *e)
{
    if (t->at == t->fetched.rows && copy_target_fetch(t, e))
        return e->code;
    *ret_found = t->at < t->fetched.rows;
    if (!*ret_found)
        return copy_target_end_reading(t, e);
    return pg_row_read(&t->conn, &t->lanes, &t->fetched, t->at++, 1, copy_kinds[t->table].table, a, row, e);
}

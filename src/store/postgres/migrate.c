/* Migrates the schema up and down, while other processes may use the database.
 *
 * The migrating process holds an advisory lock, on a connection that does nothing else. A step that builds an index
 * concurrently cannot run in a transaction, and behind a pooler each transaction may run in another session. Every
 * other step runs in one transaction together with its row in schema_migrations. Nodes of the version before keep
 * working meanwhile (docs/decisions/0014-rolling-schema-migrations.md). */
#include <stdlib.h>
#include <time.h>

#include "store/postgres/internal.h"

extern const struct embedded_file migrations_postgres[];
extern const size_t migrations_postgres_count;

enum {
    STATEMENT_MAX = 1 << 16,
    STEP_MS = 3600 * 1000,     /* building an index of a large table may take an hour */
    LOCK_WAIT_MS = 600 * 1000, /* for another process that migrates */
    LOCK_POLL_MS = 50,
    NS_PER_MS = 1000000,
};

static const char make_table_sql[] = "CREATE TABLE IF NOT EXISTS schema_migrations (version integer PRIMARY KEY, "
                                     "name text NOT NULL, applied_ms bigint NOT NULL, readers_from integer NOT NULL)";
static const struct pg_statement has_table = {
    "has_table", "SELECT to_regclass('schema_migrations') IS NOT NULL, to_regclass('tasks') IS NOT NULL"
};
static const struct pg_statement list_steps = {
    "list_steps", "SELECT version, name, applied_ms, readers_from FROM schema_migrations ORDER BY version"
};
static const struct pg_statement insert_step = { "insert_step",
                                                 "INSERT INTO schema_migrations VALUES ($1, $2, $3, $4)" };
static const struct pg_statement delete_step = { "delete_step", "DELETE FROM schema_migrations WHERE version = $1" };
static const struct pg_statement try_lock = { "try_lock", "SELECT pg_try_advisory_xact_lock($1)" };

static struct schema pg_schema_embedded(void)
{
    return (struct schema){ migrations_postgres, migrations_postgres_count };
}

/* ---- the applied version ---- */

struct pg_schema_applied {
    int version;      /* the highest applied; 0: none */
    int readers_from; /* a node must know this version to work with the schema */
};

/* The rows of schema_migrations; none if the table does not exist. */
static enum err pg_schema_read_steps(struct pg_conn *c, struct pg_result *ret, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_run(c, &has_table, NULL, &r, e))
        return e->code;
    if (pg_bool(&r, 0, 0))
        return pg_run(c, &list_steps, NULL, ret, e);
    if (pg_bool(&r, 0, 1))
        return error_set(e, ERR_INVALID,
                         "the database has tables of another program: give belfry a database of its own");
    return ERR_OK;
}

static enum err pg_schema_read_applied(struct pg_conn *c, struct pg_schema_applied *ret, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_schema_read_steps(c, &r, e))
        return e->code;
    *ret = (struct pg_schema_applied){ 0 };
    for (int i = 0; i < r.rows; i++) {
        ret->version = max_of(ret->version, (int)pg_i64(&r, i, 0));
        ret->readers_from = max_of(ret->readers_from, (int)pg_i64(&r, i, 3));
    }
    return ERR_OK;
}

/* ---- one step ---- */

static enum err pg_migrate_run_statements(struct pg_conn *c, struct str text, struct error *e)
{
    cleanup_with(buf_release) struct buf sql;
    struct str statement;
    buf_init(&sql, STATEMENT_MAX);
    while (schema_next_statement(&text, &statement)) {
        buf_reset(&sql);
        buf_add(&sql, statement);
        if (sql.full)
            return error_set(e, ERR_LIMIT, "a statement of more than %d bytes", STATEMENT_MAX);
        if (pg_exec(c, buf_cstr(&sql), e))
            return e->code;
    }
    return ERR_OK;
}

static enum err pg_migrate_write_step(struct pg_conn *c, const struct schema_step *v, bool up, struct error *e)
{
    cleanup_with(pg_params_release) struct pg_params p;
    pg_params_init(&p);
    pg_add_i32(&p, v->version);
    if (up) {
        pg_add_text(&p, v->name);
        pg_add_i64(&p, clock_wall_ms(c->clock));
        pg_add_i32(&p, v->readers_from);
    }
    return pg_run(c, up ? &insert_step : &delete_step, &p, NULL, e);
}

static enum err pg_migrate_run_step(struct pg_conn *c, const struct schema_step *v, bool up, struct error *e)
{
    bool alone = v->alone;
    if ((!alone && pg_exec(c, "BEGIN", e)) || pg_migrate_run_statements(c, up ? v->up : v->down, e) ||
        pg_migrate_write_step(c, v, up, e))
        return e->code;
    return alone ? ERR_OK : pg_exec(c, "COMMIT", e);
}

static enum err pg_migrate_step(struct pg_conn *c, const struct schema_step *v, bool up, struct error *e)
{
    struct error ignored;
    if (!pg_migrate_run_step(c, v, up, e))
        return ERR_OK;
    (void)!pg_rollback(c, "ROLLBACK", &ignored);
    return error_wrap(e, "migration %d (" STR_FMT ") %s", v->version, STR_ARG(v->name), up ? "up" : "down");
}

/* ---- all steps ---- */

/* The running nodes know the schema up to its current version. Checks that they can work with each step to come. */
static enum err pg_migrate_check_running_nodes(const struct schema *schema, int at, int to, struct error *e)
{
    for (int i = at + 1; at > 0 && i <= to; i++) {
        struct schema_step v = schema_step_at(schema, i);
        if (v.readers_from > at)
            return error_set(
                e, ERR_INVALID,
                "nodes of the version before cannot work with schema version %d: stop all of them, then run "
                "'belfry migrate up'",
                i);
    }
    return ERR_OK;
}

static enum err pg_schema_too_new_error(const struct schema *s, int version, struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "the database has schema version %d, this belfry knows up to %d: use a newer belfry", version,
                     schema_newest(s));
}

/* Runs the steps. The caller holds the lock. */
static enum err pg_migrate_to(struct pg_conn *c, const struct pg_migration *m, struct error *e)
{
    struct pg_schema_applied at;
    if (pg_schema_read_applied(c, &at, e))
        return e->code;
    if (at.version > schema_newest(m->schema))
        return pg_schema_too_new_error(m->schema, at.version, e);
    if (m->nodes_running && pg_migrate_check_running_nodes(m->schema, at.version, m->to, e))
        return e->code;
    if (pg_exec(c, make_table_sql, e))
        return e->code;
    for (int v = at.version; v != m->to; v += v < m->to ? 1 : -1) {
        bool up = v < m->to;
        struct schema_step s = schema_step_at(m->schema, up ? v + 1 : v);
        if (pg_migrate_step(c, &s, up, e))
            return e->code;
    }
    return m->to == 0 ? pg_exec(c, "DROP TABLE schema_migrations", e) : ERR_OK;
}

/* Begins a transaction that takes the lock, if it is free. The transaction must not keep a snapshot: building an index
 * concurrently waits for all transactions with an older snapshot. So its last statement reads nothing. */
static enum err pg_migrate_try_lock(struct pg_conn *c, bool *ret, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    cleanup_with(pg_params_release) struct pg_params p;
    pg_params_init(&p);
    pg_add_i64(&p, pg_lock_number(PG_LOCK_MIGRATE, S("")));
    if (pg_exec(c, "BEGIN", e) || pg_run(c, &try_lock, &p, &r, e))
        return e->code;
    *ret = pg_bool(&r, 0, 0);
    return pg_exec(c, *ret ? "SET LOCAL idle_in_transaction_session_timeout = 0" : "ROLLBACK", e);
}

static enum err pg_migrate_lock(struct pg_conn *c, struct error *e)
{
    for (int64_t waited_ms = 0; waited_ms < LOCK_WAIT_MS; waited_ms += LOCK_POLL_MS) {
        bool is_ours;
        if (pg_migrate_try_lock(c, &is_ours, e))
            return e->code;
        if (is_ours)
            return ERR_OK;
        nanosleep(&(struct timespec){ .tv_nsec = (long)LOCK_POLL_MS * NS_PER_MS }, NULL);
    }
    return error_set(e, ERR_UNAVAILABLE,
                     "another belfry has been migrating the schema for %d minutes: wait until it ends",
                     LOCK_WAIT_MS / 60000);
}

enum err pg_migrate(const char *url, struct clock *clock, const struct pg_migration *m, struct error *e)
{
    cleanup_with(pg_conn_release) struct pg_conn holder = { 0 };
    cleanup_with(pg_conn_release) struct pg_conn c = { 0 };
    struct pg_migration to = *m;
    int newest = schema_newest(m->schema);
    to.to = m->to == STORE_POSTGRES_NEWEST ? newest : m->to;
    if (to.to < 0 || to.to > newest)
        return error_set(e, ERR_INVALID, "there is no schema version %d: this belfry knows up to %d", to.to, newest);
    if (pg_conn_init(&holder, url, false, clock, e) || pg_conn_ready(&holder, e) || pg_migrate_lock(&holder, e) ||
        pg_conn_init(&c, url, false, clock, e) || pg_conn_ready(&c, e))
        return e->code;
    c.answer_ms = STEP_MS;
    return pg_migrate_to(&c, &to, e);
}

/* ---- checking the schema when a store opens ---- */

enum err pg_schema_check(struct pg_conn *c, const struct store_postgres_setup *setup, struct error *e)
{
    struct schema schema = pg_schema_embedded();
    struct pg_schema_applied at;
    int newest = schema_newest(&schema);
    if (pg_schema_read_applied(c, &at, e))
        return e->code;
    if (at.version == newest)
        return ERR_OK;
    if (at.version > newest)
        return at.readers_from <= newest ? ERR_OK : pg_schema_too_new_error(&schema, at.version, e);
    if (!setup->migrate)
        return error_set(e, ERR_UNAVAILABLE, "the schema has version %d, this belfry needs %d: run 'belfry migrate up'",
                         at.version, newest);
    struct pg_migration m = { .schema = &schema, .to = STORE_POSTGRES_NEWEST, .nodes_running = true };
    return pg_migrate(setup->url, setup->clock, &m, e);
}

/* ---- for `belfry migrate` ---- */

enum err store_postgres_migrate(const char *url, struct clock *clock, int to_version, struct error *e)
{
    struct schema schema = pg_schema_embedded();
    return pg_migrate(url, clock, &(struct pg_migration){ .schema = &schema, .to = to_version }, e);
}

enum err store_postgres_migrations(const char *url, struct clock *clock, struct arena *a, struct store_migration **ret,
                                   size_t *ret_count, struct error *e)
{
    cleanup_with(pg_conn_release) struct pg_conn c = { 0 };
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct schema schema = pg_schema_embedded();
    size_t count = (size_t)schema_newest(&schema);
    struct store_migration *v;
    if (pg_conn_init(&c, url, true, clock, e) || pg_conn_ready(&c, e) || pg_schema_read_steps(&c, &r, e) ||
        store_migrations_known(&schema, (size_t)r.rows, a, &v, e))
        return e->code;
    for (int i = 0; i < r.rows; i++)
        if (store_migrations_mark(&schema, a, v, &count, (int)pg_i64(&r, i, 0), pg_text(&r, i, 1), pg_i64(&r, i, 2), e))
            return e->code;
    *ret = v;
    *ret_count = count;
    return ERR_OK;
}

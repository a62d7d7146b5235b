/* Migrates the schema up and down. */
#include "store/sqlite/migrate.h"

#include <unistd.h>

#include "store/sqlite/internal.h"

extern const struct embedded_file migrations_sqlite[];
extern const size_t migrations_sqlite_count;

static const char make_table_sql[] = "CREATE TABLE IF NOT EXISTS migrations ("
                                     "version INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL DEFAULT 0, "
                                     "name TEXT NOT NULL, applied_ms INTEGER NOT NULL)";
static const char has_table_sql[] = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'";
static const char foreign_sql[] = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
static const char current_sql[] = "SELECT coalesce(max(version), 0) FROM migrations";
static const char list_sql[] = "SELECT version, name, applied_ms FROM migrations ORDER BY version";
static const char insert_sql[] = "INSERT INTO migrations (version, name, applied_ms) VALUES (?, ?, ?)";
static const char delete_sql[] = "DELETE FROM migrations WHERE version = ?";

static struct schema sqlite_schema(void)
{
    return (struct schema){ migrations_sqlite, migrations_sqlite_count };
}

static int sqlite_schema_newest(void)
{
    struct schema s = sqlite_schema();
    return schema_newest(&s);
}

/* ---- migrating, one transaction for each version ---- */

static enum err sqlite_migrate_write_row(struct conn *c, const struct schema_step *v, bool up, int64_t now_ms,
                                         struct error *e)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(c->db, up ? insert_sql : delete_sql, -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    sqlite3_bind_int(st, 1, v->version);
    if (up) {
        (void)bind_str(st, 2, v->name);
        sqlite3_bind_int64(st, 3, now_ms);
    }
    enum err rc = conn_run(c, st, e);
    sqlite3_finalize(st);
    return rc;
}

static enum err sqlite_migrate_step(struct conn *c, const struct schema_step *v, bool up, int64_t now_ms,
                                    struct error *e)
{
    struct error ignored;
    enum err rc = conn_exec(c, "BEGIN IMMEDIATE", e);
    if (!rc)
        rc = conn_exec(c, (up ? v->up : v->down).p, e);
    if (!rc)
        rc = sqlite_migrate_write_row(c, v, up, now_ms, e);
    if (!rc)
        rc = conn_exec(c, "COMMIT", e);
    if (!rc)
        return ERR_OK;
    (void)error_wrap(e, "migration %d (" STR_FMT ") %s", v->version, STR_ARG(v->name), up ? "up" : "down");
    if (!sqlite3_get_autocommit(c->db))
        (void)!conn_exec(c, "ROLLBACK", &ignored);
    return rc;
}

static enum err sqlite_schema_current(struct conn *c, int64_t *ret, struct error *e)
{
    int64_t has_table, tables;
    if (conn_number(c, has_table_sql, &has_table, e) || conn_number(c, foreign_sql, &tables, e))
        return e->code;
    if (!has_table && tables)
        return error_set(e, ERR_CORRUPT, "'%s' is an SQLite file, but not one of belfry's: move it away", c->path);
    *ret = 0;
    return has_table ? conn_number(c, current_sql, ret, e) : ERR_OK;
}

static enum err sqlite_schema_too_new(const struct conn *c, int64_t version, struct error *e)
{
    return error_set(e, ERR_INVALID, "'%s' has schema version %lld, this belfry knows up to %d: use a newer belfry",
                     c->path, (long long)version, sqlite_schema_newest());
}

enum err sqlite_schema_version(struct conn *c, int *ret, struct error *e)
{
    int64_t at;
    if (sqlite_schema_current(c, &at, e))
        return e->code;
    if (at == 0)
        return error_set(e, ERR_CORRUPT, "'%s' is empty", c->path);
    if (at > sqlite_schema_newest())
        return sqlite_schema_too_new(c, at, e);
    *ret = (int)at;
    return ERR_OK;
}

enum err sqlite_migrate_to(struct conn *c, int to_version, int64_t now_ms, struct error *e)
{
    int64_t at;
    int to = to_version == MIGRATE_NEWEST ? sqlite_schema_newest() : to_version;
    if (to < 0 || to > sqlite_schema_newest())
        return error_set(e, ERR_INVALID, "there is no schema version %d: this belfry knows up to %d", to,
                         sqlite_schema_newest());
    if (sqlite_schema_current(c, &at, e))
        return e->code;
    if (at > sqlite_schema_newest())
        return sqlite_schema_too_new(c, at, e);
    if (conn_exec(c, make_table_sql, e))
        return e->code;
    struct schema s = sqlite_schema();
    for (; at != to; at += at < to ? 1 : -1) {
        bool up = at < to;
        struct schema_step v = schema_step_at(&s, (int)(up ? at + 1 : at));
        if (sqlite_migrate_step(c, &v, up, now_ms, e))
            return e->code;
    }
    return ERR_OK;
}

/* ---- for `belfry migrate` ---- */

enum err store_sqlite_migrate(const char *directory, int to_version, int64_t now_ms, struct error *e)
{
    struct directory d = { .lock_fd = -1 };
    struct conn c = { 0 };
    if (directory_lock(directory, &d, e))
        return e->code;
    enum err rc = conn_open(&c, d.path, CONN_WRITER, e);
    if (!rc)
        rc = sqlite_migrate_to(&c, to_version, now_ms, e);
    conn_release(&c);
    directory_unlock(&d);
    return rc;
}

/* v has room for all applied versions. */
static enum err sqlite_migrate_read_applied(sqlite3_stmt *st, struct conn *c, struct arena *a,
                                            struct store_migration *v, size_t *count, struct error *e)
{
    struct schema s = sqlite_schema();
    for (bool row;;) {
        if (conn_step(c, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        struct str name = { (const char *)sqlite3_column_text(st, 1), (size_t)sqlite3_column_bytes(st, 1) };
        if (store_migrations_mark(&s, a, v, count, sqlite3_column_int(st, 0), name, sqlite3_column_int64(st, 2), e))
            return e->code;
    }
}

static enum err sqlite_migrate_list_applied(struct conn *c, struct arena *a, struct store_migration **v, size_t *count,
                                            struct error *e)
{
    int64_t has_table, at;
    struct schema s = sqlite_schema();
    if (conn_number(c, has_table_sql, &has_table, e))
        return e->code;
    if (!has_table)
        return ERR_OK;
    if (conn_number(c, current_sql, &at, e) || store_migrations_known(&s, (size_t)at, a, v, e))
        return e->code;
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(c->db, list_sql, -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    enum err rc = sqlite_migrate_read_applied(st, c, a, *v, count, e);
    sqlite3_finalize(st);
    return rc;
}

enum err store_sqlite_migrations(const char *directory, struct arena *a, struct store_migration **ret,
                                 size_t *ret_count, struct error *e)
{
    struct schema s = sqlite_schema();
    size_t count = (size_t)sqlite_schema_newest();
    struct store_migration *v;
    if (store_migrations_known(&s, 0, a, &v, e))
        return e->code;
    cleanup_with(free_charp) char *path = directory_file(directory);
    if (access(path, F_OK) == 0) {
        struct conn c = { 0 };
        enum err rc = conn_open(&c, path, CONN_READER, e);
        if (!rc)
            rc = sqlite_migrate_list_applied(&c, a, &v, &count, e);
        conn_release(&c);
        if (rc)
            return rc;
    }
    *ret = v;
    *ret_count = count;
    return ERR_OK;
}

/* Settings for each kind of connection, and the translation of SQLite errors.
 *
 * Every statement is left reset: a statement that stands on a row keeps its snapshot, and then the write-ahead log
 * cannot be restarted. */
#include <assert.h>
#include <stdlib.h>

#include "store/sqlite/internal.h"

/* Sizes for 1,000,000 tasks in less than 150 MiB: the page cache is the only memory that grows with the file. */
static const char *const settings[] = {
    [CONN_WRITER] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;"
                    "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -32768; PRAGMA journal_size_limit = -1;"
                    "PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF;",
    [CONN_READER] = "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -2048;"
                    "PRAGMA trusted_schema = OFF;",
    [CONN_CHECKPOINT] = "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -256;"
                        "PRAGMA trusted_schema = OFF;",
    [CONN_COPY] = "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192; PRAGMA trusted_schema = OFF;",
    [CONN_VERIFY] = "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192; PRAGMA trusted_schema = OFF;",
};

enum { TEXT_MAX = 1 << 20 };
enum { OPEN_WAIT_MS = 2000 /* for another process that reads the file; once open, no call waits */ };

/* ---- errors ---- */

static enum err conn_error_code(int sqlite_code)
{
    switch (sqlite_code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_NOMEM:
    case SQLITE_PROTOCOL:
    case SQLITE_INTERRUPT:
    case SQLITE_AUTH: return ERR_UNAVAILABLE;
    default: return ERR_CORRUPT;
    }
}

static const char *conn_damage_advice(const struct conn *c)
{
    return c->is_backup ? "" : ": restore a backup, or move it away";
}

enum err conn_fail(struct conn *c, struct error *e)
{
    int code = sqlite3_extended_errcode(c->db) & 0xff;
    const char *text = sqlite3_errmsg(c->db);
    enum err rc = conn_error_code(code);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        (void)error_set(&c->failure, rc, "'%s' is damaged (%s)%s", c->path, text, conn_damage_advice(c));
    else
        (void)error_set(&c->failure, rc, "'%s': %s", c->path, text);
    c->failed = rc;
    if (e)
        *e = c->failure;
    return rc;
}

enum err conn_corrupt(struct conn *c, const char *what, struct error *e)
{
    c->failed = error_set(&c->failure, ERR_CORRUPT, "'%s' is damaged (%s)%s", c->path, what, conn_damage_advice(c));
    if (e)
        *e = c->failure;
    return c->failed;
}

/* ---- opening, preparing, running ---- */

/* Purged rows leave free pages; only a file with incremental auto_vacuum can return them to the file system. SQLite
 * accepts the setting only before anything is written, the journal mode included; an older file stays as it is. */
static enum err conn_enable_auto_vacuum(struct conn *c, struct error *e)
{
    int64_t pages;
    if (conn_number(c, "PRAGMA page_count", &pages, e))
        return e->code;
    return pages ? ERR_OK : conn_exec(c, "PRAGMA auto_vacuum = INCREMENTAL", e);
}

enum err conn_open(struct conn *c, const char *path, enum conn_mode mode, struct error *e)
{
    static const int flags[] = {
        [CONN_WRITER] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
        [CONN_READER] = SQLITE_OPEN_READONLY,
        [CONN_CHECKPOINT] = SQLITE_OPEN_READWRITE,
        [CONN_COPY] = SQLITE_OPEN_READONLY,
        [CONN_VERIFY] = SQLITE_OPEN_READONLY,
    };
    *c = (struct conn){ .path = xstrdup(path), .is_backup = mode == CONN_VERIFY };
    for (size_t i = 0; i < array_count(c->texts); i++)
        buf_init(&c->texts[i], TEXT_MAX);
    map_init(&c->lanes.by_key, HASH_STABLE);
    /* Otherwise each allocation takes a lock. SQLite refuses it, rightly, once it is in use. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    int rc =
        sqlite3_open_v2(path, &c->db, flags[mode] | SQLITE_OPEN_NOMUTEX, mode == CONN_WRITER ? wal_file_vfs() : NULL);
    if (rc != SQLITE_OK)
        return error_set(e, conn_error_code(rc), "open '%s': %s", path,
                         c->db ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc));
    sqlite3_extended_result_codes(c->db, 1);
    sqlite3_busy_timeout(c->db, OPEN_WAIT_MS);
    if ((mode == CONN_WRITER && conn_enable_auto_vacuum(c, e)) || conn_exec(c, settings[mode], e))
        return e->code;
    return ERR_OK;
}

enum err conn_set_statements(struct conn *c, const char *const *sql, size_t count, struct error *e)
{
    c->stmts = xcalloc(count, sizeof *c->stmts);
    c->stmt_count = count;
    c->sql = sql;
    return conn_stmt(c, 0) ? ERR_OK : conn_fail(c, e);
}

enum err conn_prepare(struct conn *c, const char *const *sql, size_t count, struct error *e)
{
    if (conn_set_statements(c, sql, count, e))
        return e->code;
    for (size_t i = 0; i < count; i++)
        if (!conn_stmt(c, i))
            return conn_fail(c, e);
    return ERR_OK;
}

sqlite3_stmt *conn_stmt(struct conn *c, size_t which)
{
    assert(which < c->stmt_count && c->sql[which]);
    if (!c->stmts[which])
        (void)sqlite3_prepare_v3(c->db, c->sql[which], -1, SQLITE_PREPARE_PERSISTENT, &c->stmts[which], NULL);
    return c->stmts[which];
}

void conn_release(struct conn *c)
{
    for (size_t i = 0; i < c->stmt_count; i++)
        sqlite3_finalize(c->stmts[i]);
    free(c->stmts);
    store_lanes_release(&c->lanes);
    for (size_t i = 0; i < array_count(c->texts); i++)
        buf_release(&c->texts[i]);
    sqlite3_close(c->db);
    free(c->path);
    *c = (struct conn){ 0 };
}

enum err conn_exec(struct conn *c, const char *sql, struct error *e)
{
    return sqlite3_exec(c->db, sql, NULL, NULL, NULL) == SQLITE_OK ? ERR_OK : conn_fail(c, e);
}

enum err conn_number(struct conn *c, const char *sql, int64_t *ret, struct error *e)
{
    sqlite3_stmt *st = NULL;
    enum err rc = ERR_OK;
    if (sqlite3_prepare_v2(c->db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        *ret = sqlite3_column_int64(st, 0);
    else
        rc = conn_fail(c, e);
    sqlite3_finalize(st);
    return rc;
}

enum err conn_run(struct conn *c, sqlite3_stmt *st, struct error *e)
{
    int rc = sqlite3_step(st);
    enum err failed = rc == SQLITE_DONE ? ERR_OK : conn_fail(c, e);
    sqlite3_reset(st);
    return failed;
}

enum err conn_step(struct conn *c, sqlite3_stmt *st, bool *ret_row, struct error *e)
{
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        *ret_row = true;
        return ERR_OK;
    }
    enum err failed = rc == SQLITE_DONE ? ERR_OK : conn_fail(c, e);
    *ret_row = false;
    sqlite3_reset(st);
    return failed;
}

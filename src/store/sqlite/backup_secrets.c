/* The secrets of a data directory within a copy of its store: a table that only copies have. A part that is being made is nobody's yet, so
 * it is written without a journal: one left by a kill would be played into the next part of that name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "store/sqlite/backup_internal.h"

const char *const secret_names[SECRET_COUNT] = { "pepper", "admin.key" };

static const char make_sql[] = "CREATE TABLE carried (name TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID";
static const char add_sql[] = "INSERT INTO carried VALUES (?, ?)";
static const char is_there_sql[] = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'carried'";
static const char get_sql[] = "SELECT content FROM carried WHERE name = ?";

static enum err open_part(const char *part, struct conn *ret, struct error *e)
{
    if (conn_open(ret, part, CONN_CHECKPOINT, e))
        return e->code;
    return conn_exec(ret, "PRAGMA journal_mode = OFF; PRAGMA secure_delete = ON", e);
}

/* ---- in ---- */

/* *ret_n is -1 when there is no such file. */
static enum err read_secret(const char *path, char text[SECRET_MAX], ssize_t *ret_n, struct error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        *ret_n = -1;
        return ERR_OK;
    }
    ssize_t n = fd < 0 ? -1 : read(fd, text, SECRET_MAX);
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return error_set(e, ERR_UNAVAILABLE, "read '%s': %s", path, strerror(why));
    if (n == SECRET_MAX)
        return error_set(e, ERR_CORRUPT, "'%s' is not what Belfry wrote there: it is too long", path);
    *ret_n = n;
    return ERR_OK;
}

static enum err add_secret(struct conn *c, const char *directory, const char *name, struct error *e)
{
    cleanup_with(free_charp) char *path = directory_path(directory, name);
    char text[SECRET_MAX];
    ssize_t n = -1;
    sqlite3_stmt *st;
    if (read_secret(path, text, &n, e))
        return e->code;
    if (n < 0)
        return ERR_OK;
    if (sqlite3_prepare_v2(c->db, add_sql, -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_blob(st, 2, text, (int)n, SQLITE_STATIC);
    enum err rc = conn_run(c, st, e);
    sqlite3_finalize(st);
    return rc;
}

enum err secrets_pack(const char *directory, const char *part, struct error *e)
{
    struct conn c = { 0 };
    enum err rc = open_part(part, &c, e);
    if (!rc) /* a copy of a copy has the table */
        rc = conn_exec(&c, "DROP TABLE IF EXISTS carried", e);
    if (!rc)
        rc = conn_exec(&c, make_sql, e);
    for (size_t i = 0; !rc && i < SECRET_COUNT; i++)
        rc = add_secret(&c, directory, secret_names[i], e);
    conn_release(&c);
    return rc;
}

/* ---- out ---- */

static enum err write_next(const char *directory, const char *name, const void *content, int n, struct error *e)
{
    char next[32];
    snprintf(next, sizeof next, "%s.next", name);
    cleanup_with(free_charp) char *path = directory_path(directory, next);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, content, (size_t)n) == n && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    return ok ? ERR_OK : error_set(e, ERR_UNAVAILABLE, "write '%s': %s", path, strerror(why));
}

static enum err take_secret(struct conn *c, const char *directory, const char *name, struct error *e)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(c->db, get_sql, -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    int step = sqlite3_step(st);
    enum err rc = step == SQLITE_ROW
                      ? write_next(directory, name, sqlite3_column_blob(st, 0), sqlite3_column_bytes(st, 0), e)
                  : step == SQLITE_DONE ? ERR_OK
                                        : conn_fail(c, e);
    sqlite3_finalize(st);
    return rc;
}

static enum err take_all(struct conn *c, const char *directory, struct error *e)
{
    int64_t is_there;
    if (conn_number(c, is_there_sql, &is_there, e))
        return e->code;
    for (size_t i = 0; is_there && i < SECRET_COUNT; i++)
        if (take_secret(c, directory, secret_names[i], e))
            return e->code;
    return conn_exec(c, "DROP TABLE IF EXISTS carried", e);
}

enum err secrets_unpack(const char *part, const char *directory, struct error *e)
{
    struct conn c = { 0 };
    enum err rc = open_part(part, &c, e);
    if (!rc)
        rc = take_all(&c, directory, e);
    conn_release(&c);
    return rc;
}

/* The secret files of a data directory, in a table that only copies have. The part file is not in use yet, so it is
 * written without a journal: SQLite would apply a journal left by a killed process to the next part file of that
 * name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "store/sqlite/backup_internal.h"

const char *const secret_names[SECRET_COUNT] = { "pepper", "admin.key", "secrets.key" };

static const char make_sql[] = "CREATE TABLE carried (name TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID";
static const char add_sql[] = "INSERT INTO carried VALUES (?, ?)";
static const char is_there_sql[] = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'carried'";
static const char get_sql[] = "SELECT content FROM carried WHERE name = ?";

enum err backup_open_part(const char *part, struct conn *ret, struct error *e)
{
    if (conn_open(ret, part, CONN_CHECKPOINT, e))
        return e->code;
    return conn_exec(ret, "PRAGMA journal_mode = OFF; PRAGMA secure_delete = ON", e);
}

/* ---- into the copy ---- */

/* *ret_n is -1 if the file does not exist. */
static enum err secrets_read_file(const char *path, char text[SECRET_MAX], ssize_t *ret_n, struct error *e)
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

static enum err secrets_add(struct conn *c, const char *directory, const char *name, struct error *e)
{
    cleanup_with(free_charp) char *path = directory_path(directory, name);
    char text[SECRET_MAX];
    ssize_t n = -1;
    sqlite3_stmt *st;
    if (secrets_read_file(path, text, &n, e))
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

enum err secrets_pack(const char *directory, const char *part, bool with_keys, struct error *e)
{
    struct conn c = { 0 };
    enum err rc = backup_open_part(part, &c, e);
    if (!rc) /* a copy of a copy already has the table */
        rc = conn_exec(&c, "DROP TABLE IF EXISTS carried", e);
    if (!rc)
        rc = conn_exec(&c, make_sql, e);
    size_t count = with_keys ? SECRET_COUNT : SECRET_COUNT - 1; /* the key file is the last */
    for (size_t i = 0; !rc && i < count; i++)
        rc = secrets_add(&c, directory, secret_names[i], e);
    conn_release(&c);
    return rc;
}

/* ---- out of the copy ---- */

static enum err secrets_write_next(const char *directory, const char *name, const void *content, int n, struct error *e)
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

static enum err secrets_extract(struct conn *c, const char *directory, const char *name, struct error *e)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(c->db, get_sql, -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    int step = sqlite3_step(st);
    enum err rc = step == SQLITE_ROW
                      ? secrets_write_next(directory, name, sqlite3_column_blob(st, 0), sqlite3_column_bytes(st, 0), e)
                  : step == SQLITE_DONE ? ERR_OK
                                        : conn_fail(c, e);
    sqlite3_finalize(st);
    return rc;
}

static enum err secrets_extract_all(struct conn *c, const char *directory, struct error *e)
{
    int64_t is_there;
    if (conn_number(c, is_there_sql, &is_there, e))
        return e->code;
    for (size_t i = 0; is_there && i < SECRET_COUNT; i++)
        if (secrets_extract(c, directory, secret_names[i], e))
            return e->code;
    return conn_exec(c, "DROP TABLE IF EXISTS carried", e);
}

enum err secrets_unpack(const char *part, const char *directory, struct error *e)
{
    struct conn c = { 0 };
    enum err rc = backup_open_part(part, &c, e);
    if (!rc)
        rc = secrets_extract_all(&c, directory, e);
    conn_release(&c);
    return rc;
}

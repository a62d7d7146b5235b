/* The copy is written beside its name (FILE.part), verified and synced there, and then renamed. If a step fails, the
 * part file is removed. */
#include "store/sqlite/backup_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/internal.h"

enum { PROGRESS_STEPS = 200000 /* steps of SQLite's virtual machine: some tens of milliseconds */, CHECK_TEXT = 200 };

static const char integrity_sql[] = "PRAGMA integrity_check(1)";
static const char miscounted_sql[] =
    "SELECT (SELECT count(*) FROM (SELECT tenant_id, state, n FROM counts WHERE n <> 0 "
    "EXCEPT SELECT tenant_id, state, count(*) FROM tasks WHERE NOT deleted GROUP BY tenant_id, state)) + "
    "(SELECT count(*) FROM (SELECT tenant_id, state, count(*) FROM tasks WHERE NOT deleted GROUP BY tenant_id, state "
    "EXCEPT SELECT tenant_id, state, n FROM counts))";

static const char by_state_sql[] = "SELECT state, sum(n) FROM counts GROUP BY state";

/* ---- progress ---- */

struct backup_watch {
    const struct backup_progress *progress;
    enum backup_step step;
    const char *path; /* of the file that grows */
    int64_t total;
    bool cancelled;
};

static int64_t backup_file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : 0;
}

static int backup_on_progress(void *context)
{
    struct backup_watch *w = context;
    int64_t done = w->step == BACKUP_COPYING ? min_of(backup_file_size(w->path), w->total) : 0;
    w->cancelled = !w->progress->tell(w->progress->context, w->step, done, w->total);
    return w->cancelled;
}

/* Reports the start and the end too, so that a short copy also shows something. */
static void backup_report(struct backup_watch *w, int64_t done)
{
    if (w->progress && !w->cancelled)
        w->cancelled = !w->progress->tell(w->progress->context, w->step, done, w->total);
}

static void backup_begin(struct backup_watch *w, struct conn *c)
{
    backup_report(w, 0);
    if (w->progress)
        sqlite3_progress_handler(c->db, PROGRESS_STEPS, backup_on_progress, w);
}

static enum err backup_finish(struct backup_watch *w, struct conn *c, enum err rc, struct error *e)
{
    sqlite3_progress_handler(c->db, 0, NULL, NULL);
    if (!rc)
        backup_report(w, w->total);
    return w->cancelled ? error_set(e, ERR_UNAVAILABLE, "cancelled before it was complete") : rc;
}

/* ---- verifying ---- */

static enum err backup_check_structure(struct conn *c, struct error *e)
{
    sqlite3_stmt *st;
    char text[CHECK_TEXT] = "";
    if (sqlite3_prepare_v2(c->db, integrity_sql, -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    enum err rc = ERR_OK;
    if (sqlite3_step(st) == SQLITE_ROW)
        snprintf(text, sizeof text, "%s", (const char *)sqlite3_column_text(st, 0));
    else
        rc = conn_fail(c, e);
    sqlite3_finalize(st);
    if (!rc && strcmp(text, "ok") != 0)
        return error_set(e, ERR_CORRUPT, "'%s' is damaged: %s", c->path, text);
    return rc;
}

static enum err backup_read_states(struct conn *c, struct store_sqlite_facts *ret, struct error *e)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(c->db, by_state_sql, -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    int rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t state = sqlite3_column_int64(st, 0);
        if (state >= 0 && state <= TASK_EXPIRED)
            ret->by_state[state] = sqlite3_column_int64(st, 1);
    }
    enum err code = rc == SQLITE_DONE ? ERR_OK : conn_fail(c, e);
    sqlite3_finalize(st);
    return code;
}

static enum err backup_check_content(struct conn *c, struct store_sqlite_facts *ret, struct error *e)
{
    int64_t miscounted;
    if (conn_number(c, miscounted_sql, &miscounted, e) ||
        conn_number(c, "SELECT count(*) FROM tasks", &ret->tasks, e) ||
        conn_number(c, "SELECT count(*) FROM executions", &ret->executions, e) || backup_read_states(c, ret, e))
        return e->code;
    if (miscounted)
        return error_set(e, ERR_CORRUPT, "'%s' is damaged: its task counts differ from its tasks", c->path);
    return ERR_OK;
}

static enum err backup_verify(struct conn *c, struct backup_watch *w, struct store_sqlite_facts *ret, struct error *e)
{
    struct store_sqlite_facts facts = { .bytes = w->total };
    if (sqlite_schema_version(c, &facts.version, e))
        return e->code;
    backup_begin(w, c);
    enum err rc = w->cancelled ? ERR_UNAVAILABLE : backup_check_structure(c, e);
    if (!rc)
        rc = backup_check_content(c, &facts, e);
    rc = backup_finish(w, c, rc, e);
    if (!rc)
        *ret = facts;
    return rc;
}

enum err store_sqlite_verify(const char *path, const struct backup_progress *progress, struct store_sqlite_facts *ret,
                             struct error *e)
{
    struct error local;
    struct conn c = { 0 };
    e = e ? e : &local;
    if (access(path, R_OK))
        return error_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_UNAVAILABLE, "open '%s': %s", path, strerror(errno));
    struct backup_watch w = {
        .progress = progress, .step = BACKUP_VERIFYING, .path = path, .total = backup_file_size(path)
    };
    enum err rc = conn_open(&c, path, CONN_VERIFY, e);
    if (!rc)
        rc = backup_verify(&c, &w, ret, e);
    conn_release(&c);
    return rc;
}

/* ---- copying ---- */

static enum err backup_vacuum_into(struct conn *c, const char *path, struct error *e)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(c->db, "VACUUM INTO ?", -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    sqlite3_bind_text(st, 1, path, -1, SQLITE_STATIC);
    enum err rc = conn_run(c, st, e);
    sqlite3_finalize(st);
    return rc;
}

/* Asks for incremental auto_vacuum in the copy only. Where the source has it already, the statement is left out: it
 * would write to the source. */
static enum err backup_enable_auto_vacuum(struct conn *c, struct error *e)
{
    int64_t has;
    if (conn_number(c, "PRAGMA auto_vacuum", &has, e))
        return e->code;
    return has ? ERR_OK : conn_exec(c, "PRAGMA auto_vacuum = INCREMENTAL", e);
}

static enum err backup_copy(struct conn *c, const char *path, const struct backup_progress *progress, struct error *e)
{
    int64_t pages, free_pages, page_size;
    int version;
    if (sqlite_schema_version(c, &version, e) || backup_enable_auto_vacuum(c, e) ||
        conn_number(c, "PRAGMA page_count", &pages, e) || conn_number(c, "PRAGMA freelist_count", &free_pages, e) ||
        conn_number(c, "PRAGMA page_size", &page_size, e))
        return e->code;
    struct backup_watch w = { .progress = progress, .path = path, .total = (pages - free_pages) * page_size };
    backup_begin(&w, c);
    return backup_finish(&w, c, w.cancelled ? ERR_UNAVAILABLE : backup_vacuum_into(c, path, e), e);
}

enum err backup_sync_path(const char *path, int flags, struct error *e)
{
    int fd = open(path, flags | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    return ok ? ERR_OK : error_set(e, ERR_UNAVAILABLE, "sync '%s': %s", path, strerror(why));
}

enum err backup_sync_folder_of(const char *path, struct error *e)
{
    cleanup_with(free_charp) char *folder = xstrdup(path);
    return backup_sync_path(dirname(folder), O_RDONLY | O_DIRECTORY, e);
}

int backup_rename_by_link(const char *part, const char *path)
{
    if (link(part, path) == 0)
        return unlink(part);
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
        return -1;
    if (access(path, F_OK) == 0) { /* a file system without links, too */
        errno = EEXIST;
        return -1;
    }
    return rename(part, path);
}

/* Renames the copy to its final name. Without `replace`, fails if another file has that name meanwhile. */
static enum err backup_rename(const char *part, const char *path, bool replace, struct error *e)
{
    int rc = replace ? rename(part, path) : renameat2(AT_FDCWD, part, AT_FDCWD, path, RENAME_NOREPLACE);
    if (rc && !replace && (errno == EINVAL || errno == ENOSYS))
        rc = backup_rename_by_link(part, path);
    if (rc)
        return error_set(e, ERR_UNAVAILABLE, "rename '%s' to '%s': %s", part, path, strerror(errno));
    return backup_sync_folder_of(path, e);
}

/* Other users must not read the copy, because it holds the payloads of tasks. Removes the part file of an earlier
 * attempt. */
enum err backup_make_part(const char *part, struct error *e)
{
    if (unlink(part) && errno != ENOENT)
        return error_set(e, ERR_UNAVAILABLE, "remove '%s': %s", part, strerror(errno));
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(e, ERR_UNAVAILABLE, "open '%s': %s", part, strerror(errno));
    close(fd);
    return ERR_OK;
}

enum err backup_copy_to(const char *source, const char *part, const struct backup_progress *progress, struct error *e)
{
    struct conn c = { 0 };
    enum err rc = conn_open(&c, source, CONN_COPY, e);
    if (!rc)
        rc = backup_copy(&c, part, progress, e);
    conn_release(&c);
    return rc;
}

/* A user who may replace files must not name one that the server needs. */
static enum err backup_check_path(const struct backup_request *r, struct error *e)
{
    static const char *const names[] = { "belfry.db", "belfry.db-wal", "belfry.db-shm", "belfry.lock",
                                         "pepper",    "admin.key",     "secrets.key" };
    struct stat named, own;
    if (stat(r->path, &named))
        return ERR_OK;
    for (size_t i = 0; i < array_count(names); i++) {
        cleanup_with(free_charp) char *path = directory_path(r->directory, names[i]);
        if (stat(path, &own) == 0 && own.st_dev == named.st_dev && own.st_ino == named.st_ino)
            return error_set(e, ERR_INVALID, "'%s' belongs to the data directory: name another file", r->path);
    }
    if (!S_ISREG(named.st_mode))
        return error_set(e, ERR_INVALID, "'%s' is not a regular file: name a file to create", r->path);
    return r->replace ? ERR_OK
                      : error_set(e, ERR_CONFLICT, "'%s' already exists: name another file, or remove it", r->path);
}

static bool backup_has_keys(const struct backup_request *r)
{
    cleanup_with(free_charp) char *keys = directory_path(r->directory, "secrets.key");
    return r->with_keys && !r->without_secrets && access(keys, R_OK) == 0;
}

static enum err backup_make(const struct backup_request *r, const char *source, const char *part,
                            struct store_sqlite_facts *ret, struct error *e)
{
    char key[BACKUP_KEY_TEXT];
    if (backup_make_part(part, e) || backup_copy_to(source, part, r->progress, e) ||
        (!r->without_secrets && secrets_pack(r->directory, part, r->with_keys, e)) || backup_find_key(part, key, e) ||
        backup_sync_path(part, O_RDONLY, e) || store_sqlite_verify(part, r->progress, ret, e))
        return e->code;
    if (!backup_has_keys(r))
        memcpy(ret->needs_key, key, sizeof key);
    return backup_rename(part, r->path, r->replace, e);
}

enum err store_sqlite_backup(const struct backup_request *r, struct store_sqlite_facts *ret, struct error *e)
{
    struct error local;
    struct buf b;
    e = e ? e : &local;
    buf_init(&b, 1 << 16);
    buf_printf(&b, "%s.part", r->path);
    cleanup_with(free_charp) char *part = buf_take(&b);
    cleanup_with(free_charp) char *source = directory_file(r->directory);
    if (access(source, R_OK))
        return error_set(e, ERR_NOT_FOUND, "there is no store to copy: open '%s': %s", source, strerror(errno));
    if (backup_check_path(r, e))
        return e->code;
    enum err rc = backup_make(r, source, part, ret, e);
    if (rc)
        (void)unlink(part);
    return rc;
}

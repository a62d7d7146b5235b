/* Restore. The new files are prepared beside the existing ones; then one rename, of belfry.db.part to belfry.db.next,
 * decides. The next process that locks the directory (the restore itself, or a server after a crash) completes the
 * restore (directory_finish). The old write-ahead log must be removed before the new file gets its name, or SQLite
 * would apply the log to the new file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/rfc3339.h"
#include "port/secrets.h"
#include "store/sqlite/backup_internal.h"

static bool restore_file_exists(const char *directory, const char *name, bool even_empty)
{
    struct stat st;
    cleanup_with(free_charp) char *path = directory_path(directory, name);
    return stat(path, &st) == 0 && (even_empty || st.st_size > 0);
}

static enum err restore_remove_file(const char *directory, const char *name, struct error *e)
{
    cleanup_with(free_charp) char *path = directory_path(directory, name);
    if (unlink(path) && errno != ENOENT)
        return error_set(e, ERR_UNAVAILABLE, "remove '%s': %s", path, strerror(errno));
    return ERR_OK;
}

/* If `from` does not exist, it was renamed already or never existed. */
static enum err restore_rename_file(const char *directory, const char *from, const char *to, struct error *e)
{
    cleanup_with(free_charp) char *old = directory_path(directory, from);
    cleanup_with(free_charp) char *new = directory_path(directory, to);
    if (rename(old, new) && errno != ENOENT)
        return error_set(e, ERR_UNAVAILABLE, "rename '%s' to '%s': %s", old, new, strerror(errno));
    return ERR_OK;
}

static enum err restore_sync_directory(const char *directory, struct error *e)
{
    return backup_sync_path(directory, O_RDONLY | O_DIRECTORY, e);
}

enum err directory_finish(const char *directory, struct error *e)
{
    if (!restore_file_exists(directory, "belfry.db.next", true))
        return ERR_OK;
    for (size_t i = 0; i < SECRET_COUNT; i++) {
        char next[32];
        snprintf(next, sizeof next, "%s.next", secret_names[i]);
        if (restore_rename_file(directory, next, secret_names[i], e))
            return e->code;
    }
    if (restore_remove_file(directory, "belfry.db-wal", e) || restore_remove_file(directory, "belfry.db-shm", e) ||
        restore_remove_file(directory, DIRECTORY_COPY_MARK, e) || restore_sync_directory(directory, e))
        return e->code;
    failpoint("restore_halfway");
    return restore_rename_file(directory, "belfry.db.next", "belfry.db", e) ? e->code
                                                                            : restore_sync_directory(directory, e);
}

/* ---- keeping the existing store ---- */

/* For example replaced-20261115T134500.123Z. No colons, because some settings split paths at them. */
static void restore_kept_name(int64_t now_ms, char out[RESTORE_KEPT_TEXT])
{
    char time[RFC3339_TEXT + 1];
    rfc3339_format(now_ms, time);
    int n = snprintf(out, RESTORE_KEPT_TEXT, "replaced-");
    for (const char *c = time; *c; c++)
        if (*c != '-' && *c != ':')
            out[n++] = *c;
    out[n] = '\0';
}

/* Links a file into the folder, so that the folder is a data directory too. */
static enum err restore_keep_file(const char *directory, const char *folder, const char *name, struct error *e)
{
    cleanup_with(free_charp) char *from = directory_path(directory, name);
    cleanup_with(free_charp) char *to = directory_path(folder, name);
    if (link(from, to) && errno != ENOENT)
        return error_set(e, ERR_UNAVAILABLE, "keep '%s' as '%s': %s", from, to, strerror(errno));
    return ERR_OK;
}

static enum err restore_keep_existing(const struct restore_request *r, char ret_kept[RESTORE_KEPT_TEXT],
                                      struct error *e)
{
    static const char *const names[] = { "belfry.db", "belfry.db-wal", "pepper",
                                         "admin.key", "secrets.key",   DIRECTORY_COPY_MARK };
    char kept[RESTORE_KEPT_TEXT];
    if (!restore_file_exists(r->directory, "belfry.db", false))
        return ERR_OK;
    restore_kept_name(r->now_ms, kept);
    cleanup_with(free_charp) char *folder = directory_path(r->directory, kept);
    if (mkdir(folder, 0700))
        return error_set(e, ERR_UNAVAILABLE, "make '%s': %s", folder, strerror(errno));
    for (size_t i = 0; i < array_count(names); i++)
        if (restore_keep_file(r->directory, folder, names[i], e))
            return e->code;
    if (restore_sync_directory(folder, e))
        return e->code;
    memcpy(ret_kept, kept, sizeof kept);
    return ERR_OK;
}

/* ---- restoring ---- */

static enum err restore_remove_secrets(const char *directory, struct error *e)
{
    enum err rc = restore_remove_file(directory, "pepper.next", e);
    if (!rc)
        rc = restore_remove_file(directory, "admin.key.next", e);
    return rc ? rc : restore_remove_file(directory, "secrets.key.next", e);
}

/* The next start finds that the store is not where it was noted, and raises the fences (cluster_settings.c). A backup
 * of an older version has no such note: it gets a floor when it is migrated. */
static enum err restore_forget_file(const char *part, struct error *e)
{
    static const char has_note_sql[] = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'cluster'";
    struct conn c = { 0 };
    int64_t has_note = 0;
    enum err rc = backup_open_part(part, &c, e);
    if (!rc)
        rc = conn_number(&c, has_note_sql, &has_note, e);
    if (!rc && has_note)
        rc = conn_exec(&c, "REPLACE INTO cluster (name, value) VALUES ('file', '')", e);
    conn_release(&c);
    return rc;
}

enum err backup_find_key(const char *part, char ret[BACKUP_KEY_TEXT], struct error *e)
{
    static const char sql[] =
        "SELECT substr(x, instr(x, '\"enc:1:') + 7, 8) FROM (SELECT target_config AS x FROM tasks "
        "UNION ALL SELECT text FROM definitions UNION ALL SELECT doc FROM catalog) "
        "WHERE instr(x, '\"enc:1:') LIMIT 1";
    struct conn c = { 0 };
    sqlite3_stmt *st = NULL;
    bool row = false;
    ret[0] = '\0';
    enum err rc = backup_open_part(part, &c, e);
    if (!rc && sqlite3_prepare_v2(c.db, sql, -1, &st, NULL) != SQLITE_OK)
        rc = conn_fail(&c, e);
    if (!rc)
        rc = conn_step(&c, st, &row, e);
    if (row)
        snprintf(ret, BACKUP_KEY_TEXT, "%s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    conn_release(&c);
    return rc;
}

static enum err restore_prepare(const struct restore_request *r, const char *part, struct restored *ret,
                                struct error *e)
{
    if (restore_remove_secrets(r->directory, e) || backup_make_part(part, e) ||
        backup_copy_to(r->path, part, r->progress, e) || secrets_unpack(part, r->directory, e) ||
        restore_forget_file(part, e) || backup_find_key(part, ret->needs_key, e) ||
        backup_sync_path(part, O_RDONLY, e) || store_sqlite_verify(part, r->progress, &ret->facts, e))
        return e->code;
    failpoint("restore_ready");
    return restore_keep_existing(r, ret->kept, e);
}

static enum err restore_locked(const struct restore_request *r, struct restored *ret, struct error *e)
{
    if (restore_file_exists(r->directory, "belfry.db", false) && !r->replace)
        return error_set(e, ERR_CONFLICT, "data directory '%s' holds a store already", r->directory);
    cleanup_with(free_charp) char *part = directory_path(r->directory, "belfry.db.part");
    if (restore_prepare(r, part, ret, e)) {
        (void)unlink(part);
        (void)restore_remove_secrets(r->directory, NULL);
        return e->code;
    }
    if (restore_rename_file(r->directory, "belfry.db.part", "belfry.db.next", e) ||
        restore_sync_directory(r->directory, e))
        return e->code;
    failpoint("restore_decided");
    if (directory_finish(r->directory, e))
        return e->code;
    ret->has_pepper = restore_file_exists(r->directory, "pepper", false);
    if (restore_file_exists(r->directory, "secrets.key", false))
        ret->needs_key[0] = '\0';
    return ERR_OK;
}

enum err store_sqlite_restore(const struct restore_request *r, struct restored *ret, struct error *e)
{
    struct error local;
    struct directory d;
    struct restored done = { 0 };
    e = e ? e : &local;
    if (store_sqlite_verify(r->path, r->progress, &done.facts, e)) {
        if (e->code == ERR_CORRUPT)
            return error_wrap(e, "the file is not a usable backup, and nothing was changed");
        return e->code;
    }
    if (directory_lock(r->directory, &d, e))
        return e->code;
    enum err rc = restore_locked(r, &done, e);
    directory_unlock(&d);
    if (!rc)
        *ret = done;
    return rc;
}

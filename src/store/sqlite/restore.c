/* The way back. Everything is made ready beside what is there; then one rename, of belfry.db.part to belfry.db.next, decides. Whoever locks
 * the directory afterwards, the restore itself or a server after a crash, finishes what was decided (directory_finish): the old log must
 * be gone before the new file has the name, or SQLite would play the one into the other. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/rfc3339.h"
#include "store/sqlite/backup_internal.h"

static bool is_there(const char *directory, const char *name, bool even_empty)
{
    struct stat st;
    cleanup_with(free_charp) char *path = directory_path(directory, name);
    return stat(path, &st) == 0 && (even_empty || st.st_size > 0);
}

static enum err remove_file(const char *directory, const char *name, struct error *e)
{
    cleanup_with(free_charp) char *path = directory_path(directory, name);
    if (unlink(path) && errno != ENOENT)
        return error_set(e, ERR_UNAVAILABLE, "remove '%s': %s", path, strerror(errno));
    return ERR_OK;
}

/* A file that is not there has been renamed already, or was never made. */
static enum err rename_file(const char *directory, const char *from, const char *to, struct error *e)
{
    cleanup_with(free_charp) char *old = directory_path(directory, from);
    cleanup_with(free_charp) char *new = directory_path(directory, to);
    if (rename(old, new) && errno != ENOENT)
        return error_set(e, ERR_UNAVAILABLE, "rename '%s' to '%s': %s", old, new, strerror(errno));
    return ERR_OK;
}

static enum err sync_directory(const char *directory, struct error *e)
{
    return sync_path(directory, O_RDONLY | O_DIRECTORY, e);
}

enum err directory_finish(const char *directory, struct error *e)
{
    if (!is_there(directory, "belfry.db.next", true))
        return ERR_OK;
    for (size_t i = 0; i < SECRET_COUNT; i++) {
        char next[32];
        snprintf(next, sizeof next, "%s.next", secret_names[i]);
        if (rename_file(directory, next, secret_names[i], e))
            return e->code;
    }
    if (remove_file(directory, "belfry.db-wal", e) || remove_file(directory, "belfry.db-shm", e) ||
        sync_directory(directory, e))
        return e->code;
    failpoint("restore_halfway");
    return rename_file(directory, "belfry.db.next", "belfry.db", e) ? e->code : sync_directory(directory, e);
}

/* ---- what was there ---- */

/* replaced-20261115T134500.123Z: no colon, which paths in some settings end at. */
static void kept_name(int64_t now_ms, char out[RESTORE_KEPT_TEXT])
{
    char time[RFC3339_TEXT + 1];
    rfc3339_format(now_ms, time);
    int n = snprintf(out, RESTORE_KEPT_TEXT, "replaced-");
    for (const char *c = time; *c; c++)
        if (*c != '-' && *c != ':')
            out[n++] = *c;
    out[n] = '\0';
}

/* Under a second name in a folder, which so is a data directory too. */
static enum err keep_file(const char *directory, const char *folder, const char *name, struct error *e)
{
    cleanup_with(free_charp) char *from = directory_path(directory, name);
    cleanup_with(free_charp) char *to = directory_path(folder, name);
    if (link(from, to) && errno != ENOENT)
        return error_set(e, ERR_UNAVAILABLE, "keep '%s' as '%s': %s", from, to, strerror(errno));
    return ERR_OK;
}

static enum err keep(const struct restore_request *r, char ret_kept[RESTORE_KEPT_TEXT], struct error *e)
{
    static const char *const names[] = { "belfry.db", "belfry.db-wal", "pepper", "admin.key" };
    char kept[RESTORE_KEPT_TEXT];
    if (!is_there(r->directory, "belfry.db", false))
        return ERR_OK;
    kept_name(r->now_ms, kept);
    cleanup_with(free_charp) char *folder = directory_path(r->directory, kept);
    if (mkdir(folder, 0700))
        return error_set(e, ERR_UNAVAILABLE, "make '%s': %s", folder, strerror(errno));
    for (size_t i = 0; i < array_count(names); i++)
        if (keep_file(r->directory, folder, names[i], e))
            return e->code;
    if (sync_directory(folder, e))
        return e->code;
    memcpy(ret_kept, kept, sizeof kept);
    return ERR_OK;
}

/* ---- restoring ---- */

static enum err clean(const char *directory, struct error *e)
{
    enum err rc = remove_file(directory, "pepper.next", e);
    return rc ? rc : remove_file(directory, "admin.key.next", e);
}

static enum err prepare(const struct restore_request *r, const char *part, struct restored *ret, struct error *e)
{
    if (clean(r->directory, e) || make_part(part, e) || copy_to(r->path, part, r->progress, e) ||
        secrets_unpack(part, r->directory, e) || sync_path(part, O_RDONLY, e) ||
        store_sqlite_verify(part, r->progress, &ret->facts, e))
        return e->code;
    failpoint("restore_ready");
    return keep(r, ret->kept, e);
}

static enum err restore_locked(const struct restore_request *r, struct restored *ret, struct error *e)
{
    if (is_there(r->directory, "belfry.db", false) && !r->replace)
        return error_set(e, ERR_CONFLICT, "data directory '%s' holds a store already", r->directory);
    cleanup_with(free_charp) char *part = directory_path(r->directory, "belfry.db.part");
    if (prepare(r, part, ret, e)) {
        (void)unlink(part);
        (void)clean(r->directory, NULL);
        return e->code;
    }
    if (rename_file(r->directory, "belfry.db.part", "belfry.db.next", e) || sync_directory(r->directory, e))
        return e->code;
    failpoint("restore_decided");
    if (directory_finish(r->directory, e))
        return e->code;
    ret->has_pepper = is_there(r->directory, "pepper", false);
    return ERR_OK;
}

enum err store_sqlite_restore(const struct restore_request *r, struct restored *ret, struct error *e)
{
    struct error local;
    struct directory d;
    struct restored done = { 0 };
    e = e ? e : &local;
    if (store_sqlite_verify(r->path, r->progress, &done.facts, e) || directory_lock(r->directory, &d, e))
        return e->code;
    enum err rc = restore_locked(r, &done, e);
    directory_unlock(&d);
    if (!rc)
        *ret = done;
    return rc;
}

/* Fences never go back (core/task/fence.h): row `fence_floor` of the table `cluster`. A data directory that was
 * restored or copied is known by its file, which is another one than the store has noted; a restore empties the note
 * (restore.c). What overwrites the file in place cannot be noticed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/task/fence.h"
#include "store/sqlite/internal.h"

enum { FILE_TEXT = 64 };

static const char raise_sql[] =
    "INSERT INTO cluster (name, value) VALUES ('fence_floor', ?) "
    "ON CONFLICT (name) DO UPDATE SET value = max(value + 65536, excluded.value) RETURNING value";
_Static_assert(FENCE_STEP == 65536, "as in raise_sql");

enum err sqlite_fences_raise(struct conn *c, int64_t now_ms, int64_t *ret_floor, struct error *e)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(c->db, raise_sql, -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    sqlite3_bind_int64(st, 1, fence_raise_floor(0, now_ms));
    bool row = false;
    enum err rc = conn_step(c, st, &row, e);
    if (row)
        *ret_floor = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return rc;
}

/* The number of the file, which another one gets again when this one is deleted, and when it was made. */
static enum err fences_file(const char *path, char out[FILE_TEXT], struct error *e)
{
    struct statx st;
    if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &st))
        return error_set(e, ERR_UNAVAILABLE, "look at '%s': %s", path, strerror(errno));
    bool has_time = st.stx_mask & STATX_BTIME;
    snprintf(out, FILE_TEXT, "%llu/%lld.%u", (unsigned long long)st.stx_ino,
             has_time ? (long long)st.stx_btime.tv_sec : 0LL, has_time ? st.stx_btime.tv_nsec : 0u);
    return ERR_OK;
}

static enum err fences_note_file(struct conn *c, const char *file, struct error *e)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(c->db, "REPLACE INTO cluster (name, value) VALUES ('file', ?)", -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    sqlite3_bind_text(st, 1, file, -1, SQLITE_STATIC);
    enum err rc = conn_run(c, st, e);
    sqlite3_finalize(st);
    return rc;
}

/* *ret_noted: the store has noted a file. *ret_same: this one. */
static enum err fences_compare_file(struct conn *c, const char *file, bool *ret_noted, bool *ret_same, struct error *e)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(c->db, "SELECT value = ? FROM cluster WHERE name = 'file'", -1, &st, NULL) != SQLITE_OK)
        return conn_fail(c, e);
    sqlite3_bind_text(st, 1, file, -1, SQLITE_STATIC);
    enum err rc = conn_step(c, st, ret_noted, e);
    *ret_same = *ret_noted && sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    return rc;
}

enum err sqlite_fences_open(struct conn *c, const char *path, int64_t now_ms, int64_t *ret_floor, struct error *e)
{
    char file[FILE_TEXT];
    bool noted = false, same = false;
    int64_t has_tasks;
    if (conn_number(c, "SELECT coalesce((SELECT value FROM cluster WHERE name = 'fence_floor'), 0)", ret_floor, e) ||
        fences_file(path, file, e) || fences_compare_file(c, file, &noted, &same, e) ||
        conn_number(c, "SELECT EXISTS (SELECT 1 FROM tasks)", &has_tasks, e))
        return e->code;
    if (same)
        return ERR_OK;
    if (noted && has_tasks && sqlite_fences_raise(c, now_ms, ret_floor, e))
        return e->code;
    return fences_note_file(c, file, e);
}

#pragma once
/* tests/support/failing_vfs.h - SQLite's file layer with a disk that can be made to fail: full, not syncing, not
 * reading.
 *
 * Files keep SQLite's own methods except for read, write and sync, which first check whether to fail. One failure at a
 * time. */
#include <assert.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

enum { FAILING_METHODS_MAX = 4 };

struct failing_vfs {
    sqlite3_vfs vfs, *real;
    const sqlite3_io_methods *methods[FAILING_METHODS_MAX]; /* the original methods */
    sqlite3_io_methods patched[FAILING_METHODS_MAX];
    int write_code, sync_code, read_code; /* 0: no failure */
    int64_t writes_left, reads_left;      /* how many calls succeed before the failure */
};

/* Global, because SQLite's callbacks carry no context pointer for it. */
static struct failing_vfs failing;

static int failing_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    if (failing.write_code && failing.writes_left-- <= 0)
        return failing.write_code;
    return failing.methods[f->pMethods - failing.patched]->xWrite(f, p, n, at);
}

static int failing_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    if (failing.read_code && failing.reads_left-- <= 0)
        return failing.read_code;
    return failing.methods[f->pMethods - failing.patched]->xRead(f, p, n, at);
}

static int failing_sync(sqlite3_file *f, int flags)
{
    return failing.sync_code ? failing.sync_code : failing.methods[f->pMethods - failing.patched]->xSync(f, flags);
}

static int failing_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f, int flags, int *ret_flags)
{
    (void)vfs;
    int rc = failing.real->xOpen(failing.real, name, f, flags, ret_flags);
    if (rc != SQLITE_OK)
        return rc;
    int i = 0;
    while (failing.methods[i] && failing.methods[i] != f->pMethods)
        i++;
    assert(i < FAILING_METHODS_MAX);
    failing.methods[i] = f->pMethods;
    failing.patched[i] = *f->pMethods;
    failing.patched[i].xWrite = failing_write;
    failing.patched[i].xSync = failing_sync;
    failing.patched[i].xRead = failing_read;
    f->pMethods = &failing.patched[i];
    return rc;
}

static inline void failing_vfs_start(void)
{
    memset(&failing, 0, sizeof failing);
    failing.real = sqlite3_vfs_find("unix"); /* the default VFS may itself wrap another */
    failing.vfs = *failing.real;
    failing.vfs.zName = "failing";
    failing.vfs.xOpen = failing_open;
    sqlite3_vfs_register(&failing.vfs, 1);
}

static inline void failing_vfs_end(void)
{
    sqlite3_vfs_unregister(&failing.vfs);
}

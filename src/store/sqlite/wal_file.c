/* The writer's log file, written in large pieces.
 *
 * SQLite writes its log page by page, in two calls each, and a transaction of a thousand tasks has thousands of pages: the calls cost
 * more than the bytes. Here writes that follow each other are gathered, and go out when SQLite syncs, reads, cuts or measures the file.
 * That changes nothing of what is promised: under synchronous=FULL a commit syncs the log before anybody may see it, and nobody reads
 * pages of a transaction that is not committed but the writer itself, through this file. A write that fails is told by that sync, and the
 * transaction fails as it would have before.
 *
 * All other files are opened as ever. */
#include <stdlib.h>

#include "store/sqlite/internal.h"

enum { GATHERED_MAX = 64 << 10 /* SQLite's file layer takes less than 128 KiB at once */ };

struct log_file {
    sqlite3_file base;
    sqlite3_file *real; /* stands behind this struct */
    char *gathered;
    sqlite3_int64 at; /* where the first of them belongs */
    int n;
};

static struct log_file *self(sqlite3_file *f)
{
    return (struct log_file *)f;
}

/* After a failure nothing is kept: SQLite undoes the transaction, and writes all of it anew should it come again. */
static int write_gathered(struct log_file *f)
{
    int n = f->n;
    f->n = 0;
    return n ? f->real->pMethods->xWrite(f->real, f->gathered, n, f->at) : SQLITE_OK;
}

static int log_write(sqlite3_file *base, const void *p, int n, sqlite3_int64 at)
{
    struct log_file *f = self(base);
    if (f->n && (at != f->at + f->n || f->n + n > GATHERED_MAX)) {
        int rc = write_gathered(f);
        if (rc != SQLITE_OK)
            return rc;
    }
    if (n > GATHERED_MAX)
        return f->real->pMethods->xWrite(f->real, p, n, at);
    if (f->n == 0)
        f->at = at;
    memcpy(f->gathered + f->n, p, (size_t)n);
    f->n += n;
    return SQLITE_OK;
}

static int log_read(sqlite3_file *base, void *p, int n, sqlite3_int64 at)
{
    struct log_file *f = self(base);
    bool overlaps = at < f->at + f->n && f->at < at + n;
    int rc = overlaps ? write_gathered(f) : SQLITE_OK;
    return rc == SQLITE_OK ? f->real->pMethods->xRead(f->real, p, n, at) : rc;
}

static int log_sync(sqlite3_file *base, int flags)
{
    int rc = write_gathered(self(base));
    return rc == SQLITE_OK ? self(base)->real->pMethods->xSync(self(base)->real, flags) : rc;
}

static int log_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    int rc = write_gathered(self(base));
    return rc == SQLITE_OK ? self(base)->real->pMethods->xTruncate(self(base)->real, size) : rc;
}

static int log_size(sqlite3_file *base, sqlite3_int64 *ret)
{
    int rc = write_gathered(self(base));
    return rc == SQLITE_OK ? self(base)->real->pMethods->xFileSize(self(base)->real, ret) : rc;
}

static int log_close(sqlite3_file *base)
{
    struct log_file *f = self(base);
    int written = write_gathered(f);
    int closed = f->real->pMethods->xClose(f->real);
    free(f->gathered);
    return written == SQLITE_OK ? closed : written;
}

static int log_lock(sqlite3_file *base, int level)
{
    return self(base)->real->pMethods->xLock(self(base)->real, level);
}

static int log_unlock(sqlite3_file *base, int level)
{
    return self(base)->real->pMethods->xUnlock(self(base)->real, level);
}

static int log_reserved(sqlite3_file *base, int *ret)
{
    return self(base)->real->pMethods->xCheckReservedLock(self(base)->real, ret);
}

static int log_control(sqlite3_file *base, int what, void *argument)
{
    return self(base)->real->pMethods->xFileControl(self(base)->real, what, argument);
}

static int log_sector(sqlite3_file *base)
{
    return self(base)->real->pMethods->xSectorSize(self(base)->real);
}

static int log_device(sqlite3_file *base)
{
    return self(base)->real->pMethods->xDeviceCharacteristics(self(base)->real);
}

/* Version 1: a log is neither mapped nor shared. */
static const sqlite3_io_methods log_methods = {
    .iVersion = 1,
    .xClose = log_close,
    .xRead = log_read,
    .xWrite = log_write,
    .xTruncate = log_truncate,
    .xSync = log_sync,
    .xFileSize = log_size,
    .xLock = log_lock,
    .xUnlock = log_unlock,
    .xCheckReservedLock = log_reserved,
    .xFileControl = log_control,
    .xSectorSize = log_sector,
    .xDeviceCharacteristics = log_device,
};

/* Whatever SQLite would use by itself; should the default have been taken away since, that may be us. */
static sqlite3_vfs *real_vfs(sqlite3_vfs *us)
{
    sqlite3_vfs *first = sqlite3_vfs_find(NULL);
    return first == us ? us->pNext : first;
}

static int open_file(sqlite3_vfs *us, sqlite3_filename name, sqlite3_file *base, int flags, int *ret_flags)
{
    sqlite3_vfs *real = real_vfs(us);
    struct log_file *f = self(base);
    if (!(flags & SQLITE_OPEN_WAL))
        return real->xOpen(real, name, base, flags, ret_flags);
    *f = (struct log_file){ .real = (sqlite3_file *)(f + 1) };
    int rc = real->xOpen(real, name, f->real, flags, ret_flags);
    if (rc != SQLITE_OK)
        return rc;
    f->gathered = xmalloc(GATHERED_MAX);
    f->base.pMethods = &log_methods;
    return SQLITE_OK;
}

static sqlite3_vfs vfs;

static void make_vfs(void)
{
    vfs = *sqlite3_vfs_find(NULL);
    vfs.szOsFile += (int)sizeof(struct log_file);
    vfs.zName = "belfry";
    vfs.pNext = NULL;
    vfs.xOpen = open_file;
    sqlite3_vfs_register(&vfs, 0);
}

const char *log_vfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_vfs);
    return vfs.zName;
}

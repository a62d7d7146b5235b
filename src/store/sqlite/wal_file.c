/* The writer's write-ahead log file (WAL), written in large pieces.
 *
 * SQLite writes its log page by page, in two calls each, and a transaction of a thousand tasks has thousands of pages:
 * the calls cost more than the bytes. This VFS buffers consecutive writes, and writes them out when SQLite syncs,
 * reads, truncates or measures the file.
 *
 * SQLite's promises stay the same. With synchronous=FULL a commit syncs the log before any other connection may see it,
 * and only the writer reads pages of a transaction that is not committed, through this file. If a buffered write fails,
 * the next sync returns the error, and the transaction fails as it would without the buffer.
 *
 * All other files are opened as usual. */
#include <stdlib.h>

#include "store/sqlite/internal.h"

enum { WAL_BUFFER_MAX = 64 << 10 /* SQLite's file layer takes less than 128 KiB at once */ };

struct wal_file {
    sqlite3_file base;
    sqlite3_file *real; /* the real file, directly behind this struct */
    char *buffer;
    sqlite3_int64 at; /* the file offset of the first buffered byte */
    int n;
};

static struct wal_file *wal_file_of(sqlite3_file *f)
{
    return (struct wal_file *)f;
}

/* After a failure the buffer is empty: SQLite rolls the transaction back, and writes all of it again if it is
 * repeated. */
static int wal_file_flush(struct wal_file *f)
{
    int n = f->n;
    f->n = 0;
    return n ? f->real->pMethods->xWrite(f->real, f->buffer, n, f->at) : SQLITE_OK;
}

static int wal_file_write(sqlite3_file *base, const void *p, int n, sqlite3_int64 at)
{
    struct wal_file *f = wal_file_of(base);
    if (f->n && (at != f->at + f->n || f->n + n > WAL_BUFFER_MAX)) {
        int rc = wal_file_flush(f);
        if (rc != SQLITE_OK)
            return rc;
    }
    if (n > WAL_BUFFER_MAX)
        return f->real->pMethods->xWrite(f->real, p, n, at);
    if (f->n == 0)
        f->at = at;
    memcpy(f->buffer + f->n, p, (size_t)n);
    f->n += n;
    return SQLITE_OK;
}

static int wal_file_read(sqlite3_file *base, void *p, int n, sqlite3_int64 at)
{
    struct wal_file *f = wal_file_of(base);
    bool overlaps = at < f->at + f->n && f->at < at + n;
    int rc = overlaps ? wal_file_flush(f) : SQLITE_OK;
    return rc == SQLITE_OK ? f->real->pMethods->xRead(f->real, p, n, at) : rc;
}

static int wal_file_sync(sqlite3_file *base, int flags)
{
    int rc = wal_file_flush(wal_file_of(base));
    return rc == SQLITE_OK ? wal_file_of(base)->real->pMethods->xSync(wal_file_of(base)->real, flags) : rc;
}

static int wal_file_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    int rc = wal_file_flush(wal_file_of(base));
    return rc == SQLITE_OK ? wal_file_of(base)->real->pMethods->xTruncate(wal_file_of(base)->real, size) : rc;
}

static int wal_file_size(sqlite3_file *base, sqlite3_int64 *ret)
{
    int rc = wal_file_flush(wal_file_of(base));
    return rc == SQLITE_OK ? wal_file_of(base)->real->pMethods->xFileSize(wal_file_of(base)->real, ret) : rc;
}

static int wal_file_close(sqlite3_file *base)
{
    struct wal_file *f = wal_file_of(base);
    int written = wal_file_flush(f);
    int closed = f->real->pMethods->xClose(f->real);
    free(f->buffer);
    return written == SQLITE_OK ? closed : written;
}

static int wal_file_lock(sqlite3_file *base, int level)
{
    return wal_file_of(base)->real->pMethods->xLock(wal_file_of(base)->real, level);
}

static int wal_file_unlock(sqlite3_file *base, int level)
{
    return wal_file_of(base)->real->pMethods->xUnlock(wal_file_of(base)->real, level);
}

static int wal_file_check_reserved(sqlite3_file *base, int *ret)
{
    return wal_file_of(base)->real->pMethods->xCheckReservedLock(wal_file_of(base)->real, ret);
}

static int wal_file_control(sqlite3_file *base, int what, void *argument)
{
    return wal_file_of(base)->real->pMethods->xFileControl(wal_file_of(base)->real, what, argument);
}

static int wal_file_sector_size(sqlite3_file *base)
{
    return wal_file_of(base)->real->pMethods->xSectorSize(wal_file_of(base)->real);
}

static int wal_file_device(sqlite3_file *base)
{
    return wal_file_of(base)->real->pMethods->xDeviceCharacteristics(wal_file_of(base)->real);
}

/* Version 1: the log is neither memory-mapped nor used for shared memory. */
static const sqlite3_io_methods wal_file_methods = {
    .iVersion = 1,
    .xClose = wal_file_close,
    .xRead = wal_file_read,
    .xWrite = wal_file_write,
    .xTruncate = wal_file_truncate,
    .xSync = wal_file_sync,
    .xFileSize = wal_file_size,
    .xLock = wal_file_lock,
    .xUnlock = wal_file_unlock,
    .xCheckReservedLock = wal_file_check_reserved,
    .xFileControl = wal_file_control,
    .xSectorSize = wal_file_sector_size,
    .xDeviceCharacteristics = wal_file_device,
};

/* The VFS that SQLite would use by default. If the default was unregistered since, that may be this VFS: then the next
 * one. */
static sqlite3_vfs *wal_file_real_vfs(sqlite3_vfs *us)
{
    sqlite3_vfs *first = sqlite3_vfs_find(NULL);
    return first == us ? us->pNext : first;
}

static int wal_file_open(sqlite3_vfs *us, sqlite3_filename name, sqlite3_file *base, int flags, int *ret_flags)
{
    sqlite3_vfs *real = wal_file_real_vfs(us);
    struct wal_file *f = wal_file_of(base);
    if (!(flags & SQLITE_OPEN_WAL))
        return real->xOpen(real, name, base, flags, ret_flags);
    *f = (struct wal_file){ .real = (sqlite3_file *)(f + 1) };
    int rc = real->xOpen(real, name, f->real, flags, ret_flags);
    if (rc != SQLITE_OK)
        return rc;
    f->buffer = xmalloc(WAL_BUFFER_MAX);
    f->base.pMethods = &wal_file_methods;
    return SQLITE_OK;
}

static sqlite3_vfs vfs;

static void wal_file_make_vfs(void)
{
    vfs = *sqlite3_vfs_find(NULL);
    vfs.szOsFile += (int)sizeof(struct wal_file);
    vfs.zName = "belfry";
    vfs.pNext = NULL;
    vfs.xOpen = wal_file_open;
    sqlite3_vfs_register(&vfs, 0);
}

const char *wal_file_vfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, wal_file_make_vfs);
    return vfs.zName;
}

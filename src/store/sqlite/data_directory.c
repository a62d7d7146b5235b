/* The data directory: created if it does not exist, and owned by one process. The lock is an flock, so the kernel
 * releases it however its holder ends; the pid in the file is only for the error sentence. The lock file is never
 * removed: removing it would let two processes in. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/directory.h"
#include "store/sqlite/internal.h"

char *directory_path(const char *directory, const char *name)
{
    struct buf b;
    buf_init(&b, 1 << 16);
    buf_printf(&b, "%s/%s", directory, name);
    return buf_take(&b);
}

char *directory_file(const char *directory)
{
    return directory_path(directory, "belfry.db");
}

static enum err directory_refuse_owned(const char *directory, int fd, struct error *e)
{
    char text[24] = { 0 };
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    int64_t pid;
    if (n > 0 && str_to_i64((struct str){ text, strcspn(text, "\n") }, 1, INT32_MAX, &pid))
        return error_set(e, ERR_UNAVAILABLE, "data directory '%s' is in use by process %lld", directory,
                         (long long)pid);
    return error_set(e, ERR_UNAVAILABLE, "data directory '%s' is in use by another process", directory);
}

static enum err directory_write_pid(const char *path, int fd, struct error *e)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n)
        return error_set(e, ERR_UNAVAILABLE, "write '%s': %s", path, strerror(errno));
    return ERR_OK;
}

/* Creates the file before SQLite does, because SQLite would let other users read it; the -wal and -shm files get the
 * same mode. */
static enum err directory_make_file(const char *path, struct error *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(e, ERR_UNAVAILABLE, "open '%s': %s", path, strerror(errno));
    close(fd); /* no SQLite connection of this process uses the file yet: a close would drop its locks */
    return ERR_OK;
}

enum err directory_lock(const char *directory, struct directory *ret, struct error *e)
{
    if (!directory_make(directory))
        return error_set(e, ERR_UNAVAILABLE, "make data directory '%s': %s", directory, strerror(errno));
    cleanup_with(free_charp) char *path = directory_path(directory, "belfry.lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(e, ERR_UNAVAILABLE, "open '%s': %s", path, strerror(errno));
    enum err rc = ERR_OK;
    if (flock(fd, LOCK_EX | LOCK_NB))
        rc = errno == EWOULDBLOCK ? directory_refuse_owned(directory, fd, e)
                                  : error_set(e, ERR_UNAVAILABLE, "lock '%s': %s", path, strerror(errno));
    else
        rc = directory_write_pid(path, fd, e);
    struct directory d = { fd, directory_file(directory) };
    if (!rc)
        rc = directory_finish(directory, e);
    if (!rc)
        rc = directory_make_file(d.path, e);
    if (rc)
        directory_unlock(&d);
    else
        *ret = d;
    return rc;
}

void directory_unlock(struct directory *d)
{
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    free(d->path);
    *d = (struct directory){ .lock_fd = -1 };
}

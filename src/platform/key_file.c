#include "platform/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 8192 };

static const char head[] =
    "# Belfry: keys that encrypt secrets in the store. The first one encrypts, all decrypt.\n"
    "# Keep a copy: without this file, the encrypted secrets are lost. Every node and worker needs the same file.\n";

static enum err key_file_error(const char *what, const char *path, struct error *e)
{
    return error_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_UNAVAILABLE, "%s '%s': %s", what, path, strerror(errno));
}

static enum err key_file_read(const char *path, char text[FILE_MAX], size_t *ret_n, struct error *e)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return key_file_error("open key file", path, e);
    ssize_t n = fstat(fd, &s) ? -1 : read(fd, text, FILE_MAX);
    int why = errno;
    close(fd);
    errno = why;
    if (n < 0)
        return key_file_error("read key file", path, e);
    if (n == FILE_MAX)
        return error_set(e, ERR_INVALID, "key file '%s' is too long", path);
    if (s.st_mode & 077)
        return error_set(e, ERR_INVALID, "key file '%s' can be read by others: chmod 600 it", path);
    *ret_n = (size_t)n;
    return ERR_OK;
}

enum err key_file_load(const char *path, struct secrets *ret, struct error *e)
{
    char text[FILE_MAX];
    size_t n;
    if (key_file_read(path, text, &n, e))
        return e->code;
    enum err rc = secrets_parse((struct str){ text, n }, ret, e);
    explicit_bzero(text, sizeof text);
    return rc ? error_wrap(e, "key file '%s'", path) : ERR_OK;
}

/* Written beside the file and moved there, so that nobody sees half of it. With `replace`, an existing one is. */
static enum err key_file_write(const char *path, struct str text, bool replace, struct error *e)
{
    char next[PATH_MAX];
    snprintf(next, sizeof next, "%s.%d", path, (int)getpid());
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, text.p, text.n) == (ssize_t)text.n && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    if (ok && replace)
        ok = rename(next, path) == 0;
    else if (ok)
        ok = link(next, path) == 0 || errno == EEXIST;
    int why = errno;
    unlink(next);
    errno = why;
    return ok ? ERR_OK : key_file_error("write key file", path, e);
}

enum err key_file_make(const char *path, struct error *e)
{
    char line[SECRETS_LINE + 1], text[sizeof head + SECRETS_LINE];
    secrets_new_line(line);
    int n = snprintf(text, sizeof text, "%s%s", head, line);
    enum err rc = key_file_write(path, (struct str){ text, (size_t)n }, false, e);
    explicit_bzero(line, sizeof line);
    explicit_bzero(text, sizeof text);
    return rc;
}

enum err key_file_add(const char *path, struct error *e)
{
    char old[FILE_MAX], line[SECRETS_LINE + 1], text[FILE_MAX + sizeof head + SECRETS_LINE];
    struct secrets s;
    size_t n;
    if (key_file_read(path, old, &n, e))
        return e->code;
    if (secrets_parse((struct str){ old, n }, &s, e))
        return error_wrap(e, "key file '%s'", path);
    if (s.n == SECRETS_KEYS_MAX)
        return error_set(e, ERR_LIMIT, "key file '%s' has %d keys, which is the most: remove the oldest", path,
                         SECRETS_KEYS_MAX);
    secrets_new_line(line);
    size_t skip = n >= strlen(head) && memcmp(old, head, strlen(head)) == 0 ? strlen(head) : 0;
    int size = snprintf(text, sizeof text, "%s%s%.*s", head, line, (int)(n - skip), old + skip);
    enum err rc = key_file_write(path, (struct str){ text, (size_t)size }, true, e);
    explicit_bzero(&s, sizeof s);
    explicit_bzero(old, sizeof old);
    explicit_bzero(text, sizeof text);
    return rc;
}

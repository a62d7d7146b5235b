#include "platform/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 8192 };

static const char head[] =
    "# Belfry: keys that encrypt secrets in the store. The first one encrypts, all decrypt.\n"
    "# Keep a copy: without this file, the encrypted secrets are lost. Every node and worker needs the same file.\n";

static enum err key_file_error(const char *what, const char *path, struct error *e)
{
    if (errno == ENOENT)
        return error_set(e, ERR_NOT_FOUND, "there is no key file '%s': 'belfry secrets init' makes one", path);
    return error_set(e, ERR_UNAVAILABLE, "%s '%s': %s", what, path, strerror(errno));
}

static enum err key_file_read(const char *path, char text[FILE_MAX], size_t *ret_n, struct error *e)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe has no end to wait for */
    if (fd < 0)
        return key_file_error("open key file", path, e);
    if (fstat(fd, &s) == 0 && !S_ISREG(s.st_mode)) {
        close(fd);
        return error_set(e, ERR_INVALID, "key file '%s' is not a file", path);
    }
    ssize_t n = read(fd, text, FILE_MAX);
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

/* The new file belongs to whom the old one belonged: root may change the file of a service. */
static bool key_file_keep_owner(const char *path, int fd)
{
    struct stat old;
    return stat(path, &old) || (old.st_uid == geteuid() && old.st_gid == getegid()) ||
           fchown(fd, old.st_uid, old.st_gid) == 0;
}

/* Written beside the file and moved there, so that nobody sees half of it. With `replace`, an existing one is; its
 * directory is locked then, so what an interrupted change left there is nobody's. */
static enum err key_file_write(const char *path, struct str text, bool replace, struct error *e)
{
    char next[PATH_MAX];
    if (replace)
        snprintf(next, sizeof next, "%s.new", path);
    else
        snprintf(next, sizeof next, "%s.%d", path, (int)getpid());
    unlink(next); /* not opened again: it could have another mode, or be a link */
    int fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, text.p, text.n) == (ssize_t)text.n && fsync(fd) == 0 &&
              (!replace || key_file_keep_owner(path, fd));
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

/* ---- changes ---- */

/* Changes of one file come one after the other: who changes it has locked its directory. The file itself is replaced,
 * so a lock on it would not do. */
static enum err key_file_lock(const char *path, int *ret_fd, struct error *e)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX) == 0) {
        *ret_fd = fd;
        return ERR_OK;
    }
    if (fd >= 0)
        close(fd);
    return key_file_error("lock the directory of key file", path, e);
}

struct key_file_edit {
    const char *path;
    struct secrets keys;
    char old[FILE_MAX];
    struct buf text; /* the new contents, behind the comment at the top */
};

/* The lines below our comment, without those of this id; empty: all. */
static void key_file_copy_lines(struct key_file_edit *k, struct str id)
{
    struct str rest = str_from(k->old), line;
    if (str_starts(rest, str_from(head)))
        rest = str_sub(rest, strlen(head), rest.n);
    while (rest.n && str_cut(&rest, '\n', &line)) {
        if (id.n && str_starts(line, id))
            continue;
        buf_add(&k->text, line);
        buf_char(&k->text, '\n');
    }
}

static enum err key_file_check_room(const struct key_file_edit *k, struct error *e)
{
    return k->keys.n < SECRETS_KEYS_MAX
               ? ERR_OK
               : error_set(e, ERR_LIMIT, "key file '%s' has %d keys, which is the most: remove the oldest", k->path,
                           SECRETS_KEYS_MAX);
}

static enum err key_file_edit_rotate(struct key_file_edit *k, struct str id, struct error *e)
{
    char line[SECRETS_LINE + 1];
    (void)id;
    if (key_file_check_room(k, e))
        return e->code;
    secrets_new_line(line);
    buf_text(&k->text, line);
    key_file_copy_lines(k, S(""));
    explicit_bzero(line, sizeof line);
    return ERR_OK;
}

static enum err key_file_edit_add(struct key_file_edit *k, struct str id, struct error *e)
{
    char line[SECRETS_LINE + 1];
    (void)id;
    if (key_file_check_room(k, e))
        return e->code;
    secrets_new_line(line);
    key_file_copy_lines(k, S(""));
    buf_text(&k->text, line);
    explicit_bzero(line, sizeof line);
    return ERR_OK;
}

static enum err key_file_edit_use(struct key_file_edit *k, struct str id, struct error *e)
{
    struct str rest = str_from(k->old), line;
    for (size_t i = 0; i < k->keys.n; i++) {
        if (!str_eq(str_from(k->keys.keys[i].id), id))
            continue;
        while (str_cut(&rest, '\n', &line) && !str_starts(line, id))
            ;
        buf_add(&k->text, line);
        buf_char(&k->text, '\n');
        key_file_copy_lines(k, id);
        return ERR_OK;
    }
    return error_set(e, ERR_NOT_FOUND, "key file '%s' has no key '" STR_FMT "'", k->path, STR_ARG(id));
}

static enum err key_file_edit_forget(struct key_file_edit *k, struct str id, struct error *e)
{
    if (!secrets_is_id(id))
        return error_set(e, ERR_INVALID, "'" STR_FMT "' is not the id of a key: 8 letters or digits", STR_ARG(id));
    for (size_t i = 0; i < k->keys.n; i++)
        if (str_eq(str_from(k->keys.keys[i].id), id))
            return error_set(e, ERR_CONFLICT,
                             "key '" STR_FMT
                             "' is in the key file '%s', so it is not lost; if nothing needs it any more, "
                             "remove its line",
                             STR_ARG(id), k->path);
    key_file_copy_lines(k, id);
    buf_printf(&k->text, STR_FMT " lost\n", STR_ARG(id));
    return ERR_OK;
}

static enum err key_file_edit_locked(struct key_file_edit *k, enum key_file_change change, struct str id,
                                     struct error *e)
{
    static enum err (*const edits[])(struct key_file_edit *, struct str, struct error *) = {
        [KEY_FILE_ROTATE] = key_file_edit_rotate,
        [KEY_FILE_ADD] = key_file_edit_add,
        [KEY_FILE_USE] = key_file_edit_use,
        [KEY_FILE_FORGET] = key_file_edit_forget,
    };
    size_t n;
    struct secrets check;
    if (key_file_read(k->path, k->old, &n, e))
        return e->code;
    k->old[n] = '\0';
    if (secrets_parse((struct str){ k->old, n }, &k->keys, e))
        return error_wrap(e, "key file '%s'", k->path);
    buf_text(&k->text, head);
    if (edits[change](k, id, e))
        return e->code;
    if (k->text.full || secrets_parse(buf_str(&k->text), &check, e))
        return error_set(e, ERR_LIMIT, "key file '%s' would become too long: remove the oldest keys", k->path);
    explicit_bzero(&check, sizeof check);
    return key_file_write(k->path, buf_str(&k->text), true, e);
}

enum err key_file_change(const char *path, enum key_file_change change, struct str id, struct error *e)
{
    struct key_file_edit *k = xnew(*k);
    int lock = -1;
    char real[PATH_MAX]; /* what a symbolic link names is changed, and the link stays */
    k->path = realpath(path, real) ? real : path;
    buf_init(&k->text, FILE_MAX - 1);
    enum err rc = key_file_lock(k->path, &lock, e);
    if (!rc)
        rc = key_file_edit_locked(k, change, id, e);
    if (lock >= 0)
        close(lock);
    if (k->text.p)
        explicit_bzero(k->text.p, k->text.n);
    buf_release(&k->text);
    explicit_bzero(k, sizeof *k);
    free(k);
    return rc;
}

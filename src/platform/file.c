#include "platform/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void file_close(FILE **f)
{
    if (*f && *f != stdin)
        fclose(*f);
}

static enum err file_refuse(const char *name, struct error *e)
{
    return error_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_INVALID, "%s: %s", name, strerror(errno));
}

enum err file_read(const char *path, struct buf *out, struct error *e)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "stdin" : path;
    cleanup_with(file_close) FILE *f = is_stdin ? stdin : fopen(path, "re");
    char chunk[16 * 1024];
    if (!f)
        return file_refuse(name, e);
    for (size_t n; !out->full && (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        buf_add(out, (struct str){ chunk, n });
    if (ferror(f))
        return file_refuse(name, e);
    return out->full ? error_set(e, ERR_LIMIT, "%s is longer than %zu bytes", name, out->max) : ERR_OK;
}

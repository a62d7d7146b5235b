#include "store/sqlite/copy_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "platform/file.h"
#include "store/sqlite/internal.h"

enum { MARK_MAX = 16 * 1024 };

static enum err copy_mark_write_file(const char *path, const struct buf *text, struct error *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(e, ERR_UNAVAILABLE, "open '%s': %s", path, strerror(errno));
    bool written = write(fd, buf_cstr(text), text->n) == (ssize_t)text->n && fsync(fd) == 0;
    int why = errno;
    close(fd);
    return written ? ERR_OK : error_set(e, ERR_UNAVAILABLE, "write '%s': %s", path, strerror(why));
}

enum err copy_mark_write(const char *directory, const struct copy_mark *m, struct error *e)
{
    cleanup_with(free_charp) char *path = directory_path(directory, DIRECTORY_COPY_MARK);
    cleanup_with(free_charp) char *part = directory_path(directory, DIRECTORY_COPY_MARK ".part");
    cleanup_with(buf_release) struct buf text;
    struct jw w;
    buf_init(&text, MARK_MAX);
    jw_init(&w, &text);
    jw_object(&w);
    jw_kv_cstr(&w, "copied_to", m->address);
    jw_kv_time(&w, "copied_at", m->copied_ms);
    jw_object_end(&w);
    buf_char(&text, '\n');
    if (copy_mark_write_file(part, &text, e))
        return e->code;
    if (rename(part, path))
        return error_set(e, ERR_UNAVAILABLE, "rename '%s' to '%s': %s", part, path, strerror(errno));
    return ERR_OK;
}

bool copy_mark_read(const char *directory, struct copy_mark *ret)
{
    cleanup_with(free_charp) char *path = directory_path(directory, DIRECTORY_COPY_MARK);
    cleanup_with(buf_release) struct buf text;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct error ignored;
    int64_t copied_ms;
    buf_init(&text, MARK_MAX);
    if (file_read(path, &text, &ignored) || json_parse(buf_str(&text), &doc, NULL))
        return false;
    struct str address = json_text_at(doc.root, "copied_to");
    if (!address.n || !json_time_at(doc.root, "copied_at", &copied_ms))
        return false;
    snprintf(ret->address, sizeof ret->address, STR_FMT, STR_ARG(str_utf8_cut(address, sizeof ret->address - 1)));
    ret->copied_ms = copied_ms;
    return true;
}

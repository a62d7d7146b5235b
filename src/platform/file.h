#pragma once
/* platform/file.h - reads a file that a command was given. Any thread. */
#include "base/buf.h"
#include "base/err.h"

/* Appends the content to out; "-" is stdin. Fails with ERR_NOT_FOUND, ERR_INVALID (not readable) or ERR_LIMIT (larger
 * than out's maximum). The error text begins with the file's name. */
enum err file_read(const char *path, struct buf *out, struct error *e) must_use;
